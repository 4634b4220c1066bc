#include "ir/builder.h"

#include <limits>
#include <utility>

#include "ir/check.h"

namespace shardproof::ir {
namespace {

[[noreturn]] void refuse(OpCode code, const std::string& expected, const std::string& found) {
  throw BuildError(std::string(schema_of(code).name) + ": expected " + expected + ", found " + found);
}

// An integer where a rational or an expression is wanted, also in lists: exact, so it is converted.
AttrValue as_kind(AttrValue value, AttrKind kind) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    if (kind == AttrKind::rational) return Rational(*number);
    if (kind == AttrKind::expr) return constant_expr(*number);
  }
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) {
    if (kind == AttrKind::rationals) return std::vector<Rational>(numbers->begin(), numbers->end());
    if (kind == AttrKind::exprs) {
      std::vector<CoordExpr> exprs;
      for (const std::int64_t number : *numbers) exprs.push_back(constant_expr(number));
      return exprs;
    }
  }
  return value;
}

Attributes make_attributes(OpCode code, AttrList list) {
  Attributes attributes;
  for (const auto& [name, value] : list) {
    AttrValue converted = value;
    for (const AttrSchema& schema : schema_of(code).attributes) {
      if (schema.name == name) converted = as_kind(std::move(converted), schema.kind);
    }
    if (attributes.has(name)) refuse(code, "distinct attributes", "`" + std::string(name) + "` twice");
    attributes.set(name, std::move(converted));
  }
  return attributes;
}

}  // namespace

// The program may have values this builder did not make: of another builder, or copied.
void Builder::index_names() {
  for (; named_values_ < program_->values.size(); ++named_values_) {
    names_.emplace(program_->values[named_values_].name, 0);
  }
}

std::string Builder::unique_name(std::string wanted) {
  index_names();
  const auto taken = names_.find(wanted);
  if (taken == names_.end()) return wanted;
  for (;;) {
    std::string candidate = wanted + "_" + std::to_string(++taken->second);
    if (!names_.contains(candidate)) return candidate;
  }
}

ValueId Builder::new_value(std::string name, TensorType type) {
  if (!is_supported(type.shape)) {
    throw BuildError("`" + name + "`: expected extents from 1 to 2^40 and at most 2^62 elements, found " +
                     to_string(type));
  }
  SHARDPROOF_CHECK(program_->values.size() < std::numeric_limits<std::int32_t>::max());
  const ValueId id{static_cast<std::int32_t>(program_->values.size())};
  program_->values.push_back({std::move(name), std::move(type), {}});
  return id;
}

std::vector<Instruction>& Builder::current_body() {
  return open_loops_.empty() ? program_->body : open_loops_.back().region->body;
}

void Builder::append(Instruction instruction) {
  instruction.source = source_;
  instruction.recompute = recompute_;
  instruction.action = action_;
  current_body().push_back(std::move(instruction));
}

ValueId Builder::input(std::string name, TensorType type) {
  index_names();
  if (names_.contains(name)) throw BuildError("input `" + name + "`: the name is taken");
  return new_value(std::move(name), std::move(type));
}

std::vector<ValueId> Builder::build(OpCode code, std::vector<ValueId> inputs, AttrList attributes,
                                    const std::vector<TensorType>& declared, std::vector<std::string> names) {
  if (code == OpCode::loop) refuse(code, "begin_loop and end_loop", "an instruction");
  Instruction instruction;
  instruction.op = code;
  instruction.inputs = std::move(inputs);
  instruction.attributes = make_attributes(code, attributes);
  if (const auto error = check_schema(instruction)) refuse(code, error->expected, error->found);

  std::vector<TensorType> operands;
  operands.reserve(instruction.inputs.size());
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    const ValueId id = instruction.inputs[i];
    if (!id.valid() || static_cast<std::size_t>(id.index) >= program_->values.size()) {
      refuse(code, "a value as operand " + std::to_string(i), "an invalid id");
    }
    operands.push_back(type(id));
  }
  std::vector<TensorType> results;
  try {
    auto inferred = infer_types(instruction, operands, declared, axis_size_);
    if (const auto* error = std::get_if<TypeError>(&inferred)) refuse(code, error->expected, error->found);
    results = std::get<std::vector<TensorType>>(std::move(inferred));
  } catch (const std::overflow_error& error) {
    refuse(code, "sizes within 64 bits", error.what());
  }
  if (names.size() > results.size()) {
    refuse(code, "at most " + std::to_string(results.size()) + " names", std::to_string(names.size()));
  }
  names.resize(results.size());
  for (const TensorType& result : results) {
    if (!is_supported(result.shape)) refuse(code, "a result within the limits of shapes", to_string(result));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (names[i].empty()) names[i] = schema_of(code).name;
    instruction.outputs.push_back(new_value(unique_name(std::move(names[i])), std::move(results[i])));
  }
  std::vector<ValueId> outputs = instruction.outputs;
  append(std::move(instruction));
  return outputs;
}

ValueId Builder::op(OpCode code, std::vector<ValueId> inputs, AttrList attributes, std::string name) {
  if (schema_of(code).results > 1) refuse(code, "Builder::multi", "Builder::op");
  std::vector<std::string> names;
  if (!name.empty()) names.push_back(std::move(name));
  const std::vector<ValueId> outputs = build(code, std::move(inputs), attributes, {}, std::move(names));
  return outputs.empty() ? ValueId{} : outputs.front();
}

std::vector<ValueId> Builder::multi(OpCode code, std::vector<ValueId> inputs, AttrList attributes,
                                    std::vector<std::string> names) {
  return build(code, std::move(inputs), attributes, {}, std::move(names));
}

ValueId Builder::typed(OpCode code, TensorType type, AttrList attributes, std::string name) {
  std::vector<std::string> names;
  if (!name.empty()) names.push_back(std::move(name));
  return build(code, {}, attributes, {std::move(type)}, std::move(names)).front();
}

std::vector<ValueId> Builder::begin_loop(std::string index, std::int64_t trip, std::vector<ValueId> inits,
                                         std::vector<std::string> names) {
  if (trip < 1) refuse(OpCode::loop, "a trip count of at least 1", std::to_string(trip));
  if (names.size() != inits.size()) {
    refuse(OpCode::loop, std::to_string(inits.size()) + " names", std::to_string(names.size()));
  }
  // An index hides nothing: one name means one thing in every coordinate expression of the body.
  if (axis_size_ && axis_size_(index) > 0) refuse(OpCode::loop, "an index that is no mesh axis", "`" + index + "`");
  for (const Instruction& open : open_loops_) {
    if (open.region->index == index) refuse(OpCode::loop, "an index no outer loop has", "`" + index + "`");
  }
  for (const ValueId init : inits) {
    if (!init.valid() || static_cast<std::size_t>(init.index) >= program_->values.size()) {
      refuse(OpCode::loop, "values as inits", "an invalid id");
    }
  }
  Instruction loop;
  loop.op = OpCode::loop;
  loop.source = source_;
  loop.recompute = recompute_;
  loop.action = action_;
  loop.region = std::make_shared<Region>();
  loop.region->index = std::move(index);
  loop.region->trip = trip;
  std::vector<ValueId> arguments;
  for (std::size_t i = 0; i < inits.size(); ++i) {
    std::string name = names[i].empty() ? "carry" : std::move(names[i]);
    const ValueId argument = new_value(unique_name(std::move(name)), TensorType(type(inits[i])));
    loop.region->carries.push_back({inits[i], argument, {}, {}});
    arguments.push_back(argument);
  }
  loop.inputs = std::move(inits);
  open_loops_.push_back(std::move(loop));
  return arguments;
}

std::vector<ValueId> Builder::end_loop(std::vector<ValueId> next) {
  if (open_loops_.empty()) refuse(OpCode::loop, "an open loop", "none");
  std::vector<Carry>& carries = open_loops_.back().region->carries;
  if (next.size() != carries.size()) {
    refuse(OpCode::loop, std::to_string(carries.size()) + " next values", std::to_string(next.size()));
  }
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (!next[i].valid() || static_cast<std::size_t>(next[i].index) >= program_->values.size()) {
      refuse(OpCode::loop, "values as next", "an invalid id");
    }
    if (type(next[i]) != type(carries[i].argument)) {
      refuse(OpCode::loop, to_string(type(carries[i].argument)) + " as next of carry " + std::to_string(i),
             to_string(type(next[i])));
    }
  }
  Instruction loop = std::move(open_loops_.back());
  open_loops_.pop_back();
  for (std::size_t i = 0; i < next.size(); ++i) {
    Carry& carry = loop.region->carries[i];
    carry.next = next[i];
    const Value& argument = program_->value(carry.argument);
    std::string name = unique_name(argument.name);
    TensorType result_type = argument.type;
    carry.result = new_value(std::move(name), std::move(result_type));
    loop.outputs.push_back(carry.result);
  }
  std::vector<ValueId> outputs = loop.outputs;
  current_body().push_back(std::move(loop));
  return outputs;
}

}  // namespace shardproof::ir
