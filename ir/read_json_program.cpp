#include "ir/read_json_program.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "ir/group_axis.h"
#include "ir/infer_type.h"
#include "ir/op_schema.h"
#include "ir/validate.h"

namespace shardproof::ir {

namespace {

constexpr std::string_view what_instruction = "instruction";

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (const OpSchema& schema : op_table()) names.push_back(schema.name);
  return names;
}

// Ops whose result type no rule can derive: it has to be written.
bool type_is_declared(OpCode op) {
  return op == OpCode::constant || op == OpCode::table || op == OpCode::iota || op == OpCode::recv ||
         op == OpCode::rng_uniform;
}

std::string count_text(int low, int high) {
  if (high < 0) return "at least " + std::to_string(low);
  if (low == high) return std::to_string(low);
  return std::to_string(low) + " to " + std::to_string(high);
}

template <typename T>
std::optional<AttrValue> wrap(std::optional<T> value) {
  if (!value) return std::nullopt;
  return AttrValue(std::move(*value));
}

}  // namespace

ValueId ProgramReader::define(JsonRef name, const std::optional<TensorType>& type) {
  if (!read_name(findings_, name, "value name")) return {};
  const ValueId id{static_cast<std::int32_t>(program_.values.size())};
  const auto [entry, fresh] = names_.emplace(name->text, id);
  if (!fresh) {
    const Value& first = program_.value(entry->second);
    findings_.duplicate_name(name->span, "value", name->text, first.span);
    return {};
  }
  program_.values.push_back({std::string(name->text), type.value_or(TensorType{}), name->span});
  visible_.push_back(1);
  typed_.push_back(type ? 1 : 0);
  return id;
}

ValueId ProgramReader::resolve(JsonRef name) {
  if (name->kind != JsonKind::text) {
    findings_.wrong_kind(name, "value name", "a string");
    return {};
  }
  const auto found = names_.find(name->text);
  if (found == names_.end()) {
    // The finding comes later, but the count must not let a file full of them grow the list.
    if (unresolved_.size() < 1000) unresolved_.push_back(name);
    return {};
  }
  const ValueId id = found->second;
  if (!visible_[static_cast<std::size_t>(id.index)]) {
    Diagnostic diagnostic;
    diagnostic.code = "SP0007";
    diagnostic.name = "unknown-name";
    diagnostic.message = "value " + quoted(name->text) + " is defined inside a loop and not visible here";
    diagnostic.subject.value = name->text;
    diagnostic.labels.push_back({name->span, "used here", true});
    diagnostic.labels.push_back({program_.value(id).span, "defined here, in the loop's body", false});
    diagnostic.fix = Fix{"carry the value out of the loop and use the `out` name", {}, Applicability::display_only};
    findings_.add(std::move(diagnostic));
    return {};
  }
  return id;
}

void ProgramReader::finish() {
  std::vector<std::string_view> known;
  for (const JsonRef name : unresolved_) {
    const auto later = names_.find(name->text);
    if (later != names_.end()) {
      Diagnostic diagnostic;
      diagnostic.code = "SP0007";
      diagnostic.name = "unknown-name";
      diagnostic.message = "value " + quoted(name->text) + " is used before it is defined";
      diagnostic.subject.value = name->text;
      diagnostic.labels.push_back({name->span, "used here", true});
      diagnostic.labels.push_back({program_.value(later->second).span, "defined here", false});
      findings_.add(std::move(diagnostic));
      continue;
    }
    if (known.empty()) {
      for (const Value& value : program_.values) known.push_back(value.name);
    }
    findings_.unknown_name(name->span, "value", name->text, known);
  }
  unresolved_.clear();
}

void ProgramReader::read_body(JsonRef body) {
  read_instructions(body, program_.body);
}

void ProgramReader::read_instructions(JsonRef body, std::vector<Instruction>& into) {
  if (!is_array(findings_, body, "body")) return;
  into.reserve(body->count);
  for (JsonRef object : body) {
    if (findings_.exhausted()) return;
    read_instruction(object, into);
  }
}

std::span<const std::string_view> ProgramReader::known_fields(OpCode op) {
  std::vector<std::string_view>& fields = known_fields_[static_cast<int>(op)];
  if (fields.empty()) {
    if (op == OpCode::loop) {
      fields = {"op", "index", "trip", "carry", "body", "recompute", "action", "source"};
    } else {
      const OpSchema& schema = schema_of(op);
      fields = {"op", "out", "in", "type", "recompute", "action", "source"};
      for (const AttrSchema& attribute : schema.attributes) fields.push_back(attribute.name);
    }
  }
  return fields;
}

void ProgramReader::read_instruction(JsonRef object, std::vector<Instruction>& into) {
  if (object->kind != JsonKind::object) {
    findings_.wrong_kind(object, what_instruction, "an object");
    return;
  }
  std::optional<JsonRef> op_field;
  for (JsonRef field : object) {
    if (field->key == "op") op_field = field;
  }
  if (!op_field) return findings_.missing_field(object, "op", what_instruction);
  if (op_field->node().kind != JsonKind::text) return findings_.wrong_kind(*op_field, "field `op`", "a string");
  const std::optional<OpCode> op = find_op(op_field->node().text);
  Instruction instruction;
  instruction.span = object->span;
  if (!op) {
    const std::vector<std::string_view> names = op_names();
    const std::string_view near = nearest(op_field->node().text, names);
    findings_.error("SP0010", "unknown-operator", "there is no operator " + quoted(op_field->node().text),
                    op_field->node().span, {}, quoted(op_field->node().text),
                    near.empty() ? std::string{} : "write " + quoted(near));
    // Its results stay known by name, untyped.
    for (JsonRef field : object) {
      if (field->key != "out") continue;
      if (field->kind == JsonKind::text) define(field, std::nullopt);
      if (field->kind != JsonKind::array) continue;
      for (JsonRef name : field) {
        if (name->kind == JsonKind::text) define(name, std::nullopt);
      }
    }
    return;
  }
  instruction.op = *op;
  if (*op == OpCode::loop) {
    read_loop(object, instruction);
    into.push_back(std::move(instruction));
    return;
  }
  const Fields fields(findings_, object, what_instruction, known_fields(*op));
  const OpSchema& schema = schema_of(*op);
  bool good = true;
  if (const auto in = fields.find("in")) {
    const auto take = [&](JsonRef name) {
      instruction.inputs.push_back(resolve(name));
      good = good && typed(instruction.inputs.back());
    };
    if (in->node().kind == JsonKind::text) {
      take(*in);
    } else if (is_array(findings_, *in, "field `in`")) {
      for (JsonRef name : *in) take(name);
    } else {
      good = false;
    }
  }
  const auto inputs = static_cast<std::int64_t>(instruction.inputs.size());
  if (inputs < schema.min_inputs || (schema.max_inputs >= 0 && inputs > schema.max_inputs)) {
    const auto in = fields.find("in");
    findings_.error("SP0012", "wrong-count", "`" + std::string(schema.name) + "` has a wrong number of operands",
                    in ? in->node().span : fields.head(), count_text(schema.min_inputs, schema.max_inputs),
                    std::to_string(inputs));
    good = false;
  }
  good = read_attributes(fields, instruction) && good;
  const std::vector<TensorType> types = result_types(fields, instruction, good);
  define_results(fields, instruction, types);
  if (const auto text = fields.find("recompute")) {
    instruction.recompute = read_name(findings_, *text, "field `recompute`").value_or(std::string{});
  }
  if (const auto text = fields.find("action")) {
    instruction.action = read_name(findings_, *text, "field `action`").value_or(std::string{});
  }
  if (const auto text = fields.find("source")) {
    instruction.source = read_text(findings_, *text, "field `source`").value_or(std::string{});
  }
  into.push_back(std::move(instruction));
}

bool ProgramReader::read_attributes(const Fields& fields, Instruction& instruction) {
  bool good = true;
  for (const AttrSchema& attribute : schema_of(instruction.op).attributes) {
    const std::optional<JsonRef> field =
        attribute.required ? fields.required(attribute.name) : fields.find(attribute.name);
    if (!field) {
      good = good && !attribute.required;
      continue;
    }
    std::optional<AttrValue> value = read_attribute(*field, attribute.kind, attribute.name);
    good = good && value.has_value();
    if (value) instruction.attributes.set(std::string(attribute.name), std::move(*value));
  }
  return good;
}

std::optional<AttrValue> ProgramReader::read_attribute(JsonRef value, AttrKind kind, std::string_view name) {
  const std::string what = "field `" + std::string(name) + "`";
  switch (kind) {
    case AttrKind::integer:
      return wrap(read_integer(findings_, value, what));
    case AttrKind::integers:
      return wrap(read_list<std::int64_t>(findings_, value, what, false, read_integer));
    case AttrKind::rational:
      return wrap(read_rational(findings_, value, what));
    case AttrKind::rationals:
      return wrap(read_list<Rational>(findings_, value, what, false, read_rational));
    case AttrKind::text:
      return wrap(read_text(findings_, value, what));
    case AttrKind::texts: {
      auto texts = read_list<std::string>(findings_, value, what, true, read_name);
      if (texts && name == "axes" && !check_axes(value, *texts)) return std::nullopt;
      return wrap(std::move(texts));
    }
    case AttrKind::flag:
      return wrap(read_flag(findings_, value, what));
    case AttrKind::expr: {
      auto expr = read_expr(findings_, value, what);
      if (expr && !check_variables(*expr, value)) return std::nullopt;
      return wrap(std::move(expr));
    }
    case AttrKind::exprs:
      return wrap(read_list<CoordExpr>(findings_, value, what, false,
                                       [this](Findings& findings, JsonRef item, std::string_view of) {
                                         std::optional<CoordExpr> expr = read_expr(findings, item, of);
                                         if (expr && !check_variables(*expr, item)) expr.reset();
                                         return expr;
                                       }));
    case AttrKind::groups:
      return wrap(read_list<std::vector<std::int64_t>>(
          findings_, value, what, false, [](Findings& findings, JsonRef item, std::string_view of) {
            return read_list<std::int64_t>(findings, item, of, false, read_integer);
          }));
  }
  return std::nullopt;
}

bool ProgramReader::check_variables(const CoordExpr& expr, JsonRef value) {
  bool good = true;
  for_each_variable(expr, [&](const std::string& variable) {
    if (axes_.has(variable) || std::find(open_indices_.begin(), open_indices_.end(), variable) != open_indices_.end())
      return;
    std::vector<std::string_view> known = axes_.names();
    known.insert(known.end(), open_indices_.begin(), open_indices_.end());
    findings_.unknown_name(value->span, "mesh axis or enclosing loop index", variable, known);
    good = false;
  });
  return good;
}

bool ProgramReader::check_axes(JsonRef value, const std::vector<std::string>& axes) {
  bool good = true;
  for (const std::string& text : axes) {
    const std::optional<GroupAxis> entry = parse_group_axis(text);  // a type rule says what is wrong with others
    const std::string& axis = entry ? entry->axis : text;
    if (!entry || axes_.has(axis)) continue;
    const std::string_view near = nearest(axis, axes_.names());
    findings_.error("SP0101", "unknown-mesh-axis", "no mesh has an axis " + quoted(axis), value->span, {}, quoted(axis),
                    near.empty() ? std::string{} : "write " + quoted(near));
    good = false;
  }
  return good;
}

std::vector<TensorType> ProgramReader::declared_types(JsonRef value, bool& good) {
  std::vector<TensorType> types;
  const auto take = [&](JsonRef item) {
    const std::optional<TensorType> type = read_type(findings_, item);
    good = good && type.has_value();
    if (type) types.push_back(*type);
  };
  if (value->kind == JsonKind::array) {
    for (JsonRef item : value) take(item);
  } else {
    take(value);
  }
  if (!good) types.clear();
  return types;
}

std::vector<TensorType> ProgramReader::result_types(const Fields& fields, const Instruction& instruction,
                                                    bool inputs_good) {
  const OpSchema& schema = schema_of(instruction.op);
  const std::optional<JsonRef> type_field = fields.find("type");
  bool good = true;
  std::vector<TensorType> declared;
  if (type_field) declared = declared_types(*type_field, good);
  if (good && type_field && declared.size() != static_cast<std::size_t>(schema.results)) {
    findings_.error("SP0012", "wrong-count", "`" + std::string(schema.name) + "` has a wrong number of result types",
                    type_field->node().span, std::to_string(schema.results), std::to_string(declared.size()));
    declared.clear();
    good = false;
  }
  if (good && !type_field && type_is_declared(instruction.op)) {
    findings_.missing_field(fields.object(), "type", "`" + std::string(schema.name) + "`");
    good = false;
  }
  if (!inputs_good || !good) return declared;

  std::vector<TensorType> operands;
  operands.reserve(instruction.inputs.size());
  for (const ValueId id : instruction.inputs) operands.push_back(type(id));
  const Span op_span = fields.find("op")->node().span;
  try {
    auto inferred =
        infer_types(instruction, operands, declared, [this](const std::string& axis) { return axes_.size(axis); });
    if (const TypeError* error = std::get_if<TypeError>(&inferred)) {
      Diagnostic diagnostic;
      diagnostic.code = "SP0008";
      diagnostic.name = "type-mismatch";
      diagnostic.message = "`" + std::string(schema.name) + "` does not apply to these operands and attributes";
      diagnostic.labels.push_back({op_span, {}, true});
      diagnostic.expected = error->expected;
      diagnostic.found = error->found;
      for (const ValueId id : instruction.inputs) {
        if (diagnostic.notes.size() == 4) break;
        diagnostic.notes.push_back(quoted(program_.value(id).name) + " is " + to_string(type(id)));
      }
      findings_.add(std::move(diagnostic));
      return declared;
    }
    std::vector<TensorType> types = std::get<std::vector<TensorType>>(std::move(inferred));
    for (const TensorType& result : types) {
      if (const std::string problem = shape_problem(result.shape); !problem.empty()) {
        findings_.error("SP0118", "extent-limit", "result of `" + std::string(schema.name) + "`: " + problem, op_span,
                        "extents from 1 to 2^40, at most 2^62 elements", to_string(result));
        return {};
      }
    }
    if (type_field && types != declared) {
      std::string want;
      std::string content;
      for (const TensorType& result : types) {
        want += (want.empty() ? "" : ", ") + to_string(result);
        content += (content.empty() ? "\"" : ", \"") + to_string(result) + "\"";
      }
      if (type_field->node().kind == JsonKind::array) content = "[" + content + "]";
      Diagnostic diagnostic;
      diagnostic.code = "SP0008";
      diagnostic.name = "type-mismatch";
      diagnostic.message = "the written type of `" + std::string(schema.name) + "` is not the type of its result";
      diagnostic.labels.push_back({type_field->node().span, {}, true});
      diagnostic.expected = want;
      for (const TensorType& written : declared)
        diagnostic.found += (diagnostic.found.empty() ? "" : ", ") + to_string(written);
      diagnostic.fix = Fix{"write " + content, {{type_field->node().span, content}}, Applicability::plausible};
      findings_.add(std::move(diagnostic));
    }
    return types;
  } catch (const std::overflow_error&) {
    findings_.error("SP0118", "extent-limit", "the sizes of `" + std::string(schema.name) + "` exceed 64 bits", op_span,
                    "extents from 1 to 2^40, at most 2^62 elements");
    return {};
  }
}

void ProgramReader::define_results(const Fields& fields, Instruction& instruction,
                                   const std::vector<TensorType>& types) {
  const OpSchema& schema = schema_of(instruction.op);
  const std::optional<JsonRef> out = fields.find("out");
  std::size_t count = 0;
  const auto take = [&](JsonRef name) {
    const std::optional<TensorType> type = count < types.size() ? std::optional(types[count]) : std::nullopt;
    ++count;
    if (name->kind != JsonKind::text) return findings_.wrong_kind(name, "result name", "a string");
    instruction.outputs.push_back(define(name, type));
  };
  if (out && out->node().kind == JsonKind::text) {
    take(*out);
  } else if (out && is_array(findings_, *out, "field `out`")) {
    for (JsonRef name : *out) take(name);
  }
  if (count == static_cast<std::size_t>(schema.results)) return;
  if (!out) return findings_.missing_field(fields.object(), "out", "`" + std::string(schema.name) + "`");
  findings_.error("SP0012", "wrong-count", "`" + std::string(schema.name) + "` has a wrong number of results",
                  out->node().span, std::to_string(schema.results), std::to_string(count));
}

void ProgramReader::read_carries(JsonRef list, Region& region, std::vector<CarryFields>& carries) {
  static constexpr std::array<std::string_view, 4> known = {"init", "arg", "next", "out"};
  if (!is_array(findings_, list, "field `carry`")) return;
  for (JsonRef object : list) {
    if (findings_.exhausted()) break;
    const Fields fields(findings_, object, "loop carry", known);
    const auto init = fields.required("init");
    const auto arg = fields.required("arg");
    const auto next = fields.required("next");
    const auto out = fields.required("out");
    if (!init || !arg || !next || !out) continue;
    carries.push_back({*arg, *next, *out});
    Carry& carry = region.carries.emplace_back();
    carry.span = object->span;
    carry.init = resolve(*init);
  }
  // Only now, so that no init can mean an argument of the same loop.
  for (std::size_t i = 0; i < carries.size(); ++i) {
    Carry& carry = region.carries[i];
    carry.argument = define(carries[i].arg, typed(carry.init) ? std::optional(type(carry.init)) : std::nullopt);
  }
}

void ProgramReader::read_loop(JsonRef object, Instruction& loop) {
  const Fields fields(findings_, object, "loop", known_fields(OpCode::loop));
  loop.region = std::make_shared<Region>();
  Region& region = *loop.region;
  const auto index_field = fields.required("index");
  const auto trip_field = fields.required("trip");
  const auto carry_field = fields.find("carry");
  const auto body_field = fields.required("body");
  if (index_field) region.index = read_identifier(findings_, *index_field, "loop index").value_or(std::string{});
  if (trip_field) {
    region.trip = read_integer(findings_, *trip_field, "field `trip`").value_or(1);
    region.trip_span = trip_field->node().span;
  }
  if (axes_.has(region.index) ||
      std::find(open_indices_.begin(), open_indices_.end(), region.index) != open_indices_.end()) {
    findings_.error("SP0006", "duplicate-name",
                    "loop index " + quoted(region.index) + " already names a mesh axis or an enclosing loop",
                    index_field->node().span, "a name of its own");
  }
  loop_indices_.insert(region.index);

  const std::size_t first_inner = program_.values.size();
  std::vector<CarryFields> carries;
  if (carry_field) read_carries(*carry_field, region, carries);
  open_indices_.push_back(region.index);
  if (body_field) read_instructions(*body_field, region.body);
  for (std::size_t i = 0; i < region.carries.size(); ++i) {
    Carry& carry = region.carries[i];
    carry.next = resolve(carries[i].next);
    if (typed(carry.next) && typed(carry.argument) && type(carry.next) != type(carry.argument)) {
      findings_.error("SP0008", "type-mismatch", "a carried value must keep its type from one iteration to the next",
                      carries[i].next->span, to_string(type(carry.argument)), to_string(type(carry.next)));
    }
  }
  open_indices_.pop_back();
  std::fill(visible_.begin() + static_cast<std::ptrdiff_t>(first_inner), visible_.end(), char{0});
  for (std::size_t i = 0; i < region.carries.size(); ++i) {
    Carry& carry = region.carries[i];
    carry.result = define(carries[i].out, typed(carry.init) ? std::optional(type(carry.init)) : std::nullopt);
    loop.inputs.push_back(carry.init);
    loop.outputs.push_back(carry.result);
  }
  if (const auto text = fields.find("recompute")) {
    loop.recompute = read_name(findings_, *text, "field `recompute`").value_or(std::string{});
  }
  if (const auto text = fields.find("action")) {
    loop.action = read_name(findings_, *text, "field `action`").value_or(std::string{});
  }
  if (const auto text = fields.find("source")) {
    loop.source = read_text(findings_, *text, "field `source`").value_or(std::string{});
  }
}

}  // namespace shardproof::ir
