// Programs: single assignment, scopes, schemas, types and the integer facts that no type rule sees. Files have
// passed part of this in the reader; programs built in memory have not.
#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "ir/group_axis.h"
#include "ir/infer_type.h"
#include "ir/validate.h"
#include "ir/validate_parts.h"

namespace shardproof::ir {

namespace {

class ProgramChecker {
 public:
  ProgramChecker(const Program& program, const ProgramContext& context, Problems& problems)
      : program_(program),
        context_(context),
        problems_(problems),
        defined_(program.values.size(), false),
        visible_(program.values.size(), false) {}

  bool check();

 private:
  bool exists(ValueId id) const { return id.valid() && static_cast<std::size_t>(id.index) < program_.values.size(); }
  const TensorType& type(ValueId id) const { return program_.values[static_cast<std::size_t>(id.index)].type; }
  const std::string& name(ValueId id) const { return program_.values[static_cast<std::size_t>(id.index)].name; }
  void malformed(std::string message, Span span, std::string expected = {}, std::string found = {});
  bool define(ValueId id, Span span);
  bool use(ValueId id, Span span);
  void check_body(const std::vector<Instruction>& body, int depth);
  void check_instruction(const Instruction& instruction, int depth);
  void check_types(const Instruction& instruction);
  void check_loop(const Instruction& instruction, int depth);
  void check_members(const GroupAxis& group, const Instruction& instruction);
  void check_group(const Instruction& instruction);
  void check_variables(const Instruction& instruction);

  const Program& program_;
  const ProgramContext& context_;
  Problems& problems_;
  std::vector<bool> defined_;
  std::vector<bool> visible_;
  std::vector<std::int32_t> trail_;  // visible values in order of definition, to close scopes
  std::unordered_set<std::string_view> names_;
  std::vector<std::string> open_indices_;
  bool sound_ = true;  // every id seen so far exists
};

void ProgramChecker::malformed(std::string message, Span span, std::string expected, std::string found) {
  problems_.error("SP0122", "malformed-program", std::move(message), span, std::move(expected), std::move(found));
}

bool ProgramChecker::define(ValueId id, Span span) {
  if (!exists(id)) {
    malformed("a result in " + backticked(context_.name) + " is no value of the program", span);
    sound_ = false;
    return false;
  }
  const auto index = static_cast<std::size_t>(id.index);
  const Value& value = program_.values[index];
  if (defined_[index]) malformed("value " + backticked(value.name) + " is defined twice", span, "one definition");
  defined_[index] = true;
  visible_[index] = true;
  trail_.push_back(id.index);
  if (value.name.empty() || !names_.insert(value.name).second) {
    malformed("value name " + backticked(value.name) + " is " + (value.name.empty() ? "empty" : "taken"), span,
              "a name of its own");
  }
  if (const std::string problem = shape_problem(value.type.shape); !problem.empty()) {
    problems_.error("SP0118", "extent-limit", "value " + backticked(value.name) + ": " + problem,
                    value.span.known() ? value.span : span, "extents from 1 to 2^40, at most 2^62 elements",
                    to_string(value.type));
  }
  return true;
}

bool ProgramChecker::use(ValueId id, Span span) {
  if (!exists(id)) {
    malformed("an operand in " + backticked(context_.name) + " is no value of the program", span);
    sound_ = false;
    return false;
  }
  if (visible_[static_cast<std::size_t>(id.index)]) return true;
  malformed("value " + backticked(name(id)) + " is used where it is not defined", span);
  return false;
}

bool ProgramChecker::check() {
  for (const ValueId id : context_.entry) {
    if (problems_.full()) return false;
    define(id, exists(id) ? program_.value(id).span : Span{});
  }
  check_body(program_.body, 0);
  for (const ValueId id : context_.exit) {
    if (problems_.full()) return false;
    use(id, exists(id) ? program_.value(id).span : Span{});
  }
  return sound_;
}

void ProgramChecker::check_body(const std::vector<Instruction>& body, int depth) {
  for (const Instruction& instruction : body) {
    if (problems_.full()) return;
    check_instruction(instruction, depth);
  }
}

void ProgramChecker::check_instruction(const Instruction& instruction, int depth) {
  bool good = true;
  for (const ValueId id : instruction.inputs) good = use(id, instruction.span) && good;
  if (const auto error = check_schema(instruction)) {
    malformed("`" + std::string(schema_of(instruction.op).name) + "` does not fit its schema", instruction.span,
              error->expected, error->found);
    good = false;
  }
  if (instruction.op == OpCode::loop) {
    if (good) check_loop(instruction, depth);
    return;
  }
  const std::int8_t results = schema_of(instruction.op).results;
  if (static_cast<std::int64_t>(instruction.outputs.size()) != results) {
    malformed("`" + std::string(schema_of(instruction.op).name) + "` has a wrong number of results", instruction.span,
              std::to_string(results), std::to_string(instruction.outputs.size()));
    good = false;
  }
  for (const ValueId id : instruction.outputs) good = define(id, instruction.span) && good;
  if (!good) return;
  check_types(instruction);
  check_variables(instruction);
  if (schema_of(instruction.op).family == OpFamily::communication) check_group(instruction);
  if (instruction.op == OpCode::rng_uniform && context_.streams != nullptr) {
    const std::string& stream = instruction.attributes.get<std::string>("stream");
    if (!context_.streams->contains(stream)) {
      problems_.error("SP0124", "unknown-random-stream", "the plan declares no random stream " + backticked(stream),
                      instruction.span, "a stream listed in `rng`");
    }
  }
}

void ProgramChecker::check_types(const Instruction& instruction) {
  std::vector<TensorType> operands;
  for (const ValueId id : instruction.inputs) operands.push_back(type(id));
  std::vector<TensorType> results;
  for (const ValueId id : instruction.outputs) results.push_back(type(id));
  const std::string op = "`" + std::string(schema_of(instruction.op).name) + "`";
  try {
    const auto axis_size = [this](const std::string& axis) {
      return context_.meshes == nullptr ? 0 : context_.meshes->axes.size(axis);
    };
    const auto inferred = infer_types(instruction, operands, results, axis_size);
    if (const TypeError* error = std::get_if<TypeError>(&inferred)) {
      problems_.error("SP0008", "type-mismatch", op + " does not apply to these operands and attributes",
                      instruction.span, error->expected, error->found);
    } else if (const auto& types = std::get<std::vector<TensorType>>(inferred); types != results) {
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (types[i] == results[i]) continue;
        problems_.error("SP0008", "type-mismatch",
                        "result " + backticked(name(instruction.outputs[i])) + " of " + op + " has another type",
                        instruction.span, to_string(types[i]), to_string(results[i]));
        break;
      }
    }
  } catch (const std::overflow_error&) {
    problems_.error("SP0118", "extent-limit", "the sizes of " + op + " exceed 64 bits", instruction.span);
  }
}

void ProgramChecker::check_variables(const Instruction& instruction) {
  const auto check = [&](const CoordExpr& expr) {
    for_each_variable(expr, [&](const std::string& variable) {
      if (context_.meshes != nullptr && context_.meshes->axes.has(variable)) return;
      if (std::find(open_indices_.begin(), open_indices_.end(), variable) != open_indices_.end()) return;
      problems_.error("SP0007", "unknown-name", "there is no mesh axis or enclosing loop index " + backticked(variable),
                      instruction.span);
    });
  };
  for (const auto& [key, value] : instruction.attributes.entries()) {
    if (const auto* expr = std::get_if<CoordExpr>(&value)) check(*expr);
    if (const auto* exprs = std::get_if<std::vector<CoordExpr>>(&value))
      std::for_each(exprs->begin(), exprs->end(), check);
  }
}

// A collective over some coordinates of an axis stands in programs of ranks there.
void ProgramChecker::check_members(const GroupAxis& group, const Instruction& instruction) {
  if (group.coordinates.empty() || context_.where == nullptr) return;
  for (const OwnedAxis& owned : *context_.where) {
    if (owned.axis != group.axis) continue;
    const bool inside = std::includes(group.coordinates.begin(), group.coordinates.end(), owned.coordinates.begin(),
                                      owned.coordinates.end());
    if (inside) return;
  }
  problems_.error("SP0115", "malformed-group",
                  "`" + std::string(schema_of(instruction.op).name) + "` over " + backticked(to_string(group)) +
                      " stands in a program of ranks that are not in that group",
                  instruction.span, "a stage whose `where` lists coordinates of the group only",
                  "stage " + backticked(context_.name));
}

void ProgramChecker::check_group(const Instruction& instruction) {
  const std::string op = "`" + std::string(schema_of(instruction.op).name) + "`";
  if (context_.meshes == nullptr) {
    problems_.error("SP0115", "malformed-group", op + " in the reference, which is one device", instruction.span,
                    "no communication");
    return;
  }
  if (const AttrValue* attribute = instruction.attributes.find("axes")) {
    std::vector<std::string> axes;
    for (const std::string& text : std::get<std::vector<std::string>>(*attribute)) {
      const std::optional<GroupAxis> entry = parse_group_axis(text);  // a type rule has refused others
      axes.push_back(entry ? entry->axis : text);
      if (entry) check_members(*entry, instruction);
    }
    const auto in_mesh = [&](const Mesh& mesh) {
      return std::all_of(axes.begin(), axes.end(),
                         [&](const std::string& axis) { return mesh.find_axis(axis).has_value(); });
    };
    const bool known =
        std::all_of(axes.begin(), axes.end(), [&](const std::string& axis) { return context_.meshes->axes.has(axis); });
    if (known && std::none_of(context_.plan->meshes.begin(), context_.plan->meshes.end(), in_mesh)) {
      problems_.error("SP0115", "malformed-group", "the axes of " + op + " lie in different meshes", instruction.span,
                      "axes of one mesh");
    }
  }
  if (const AttrValue* attribute = instruction.attributes.find("groups")) {
    // Sizes and distinctness are type rules; here: the groups partition the world.
    const auto& groups = std::get<std::vector<std::vector<std::int64_t>>>(*attribute);
    std::int64_t ranks = 0;
    for (const auto& group : groups) {
      ranks += static_cast<std::int64_t>(group.size());
      for (const std::int64_t rank : group) {
        if (rank >= 0 && rank < context_.meshes->world) continue;
        problems_.error("SP0115", "malformed-group", "a group of " + op + " names a rank that does not exist",
                        instruction.span, "0 to " + std::to_string(context_.meshes->world - 1), std::to_string(rank));
        return;
      }
    }
    if (ranks != context_.meshes->world) {
      problems_.error("SP0115", "malformed-group", "the groups of " + op + " do not cover every rank once",
                      instruction.span, std::to_string(context_.meshes->world) + " ranks", std::to_string(ranks));
    }
  }
}

void ProgramChecker::check_loop(const Instruction& instruction, int depth) {
  constexpr int max_depth = 64;
  if (instruction.region == nullptr || depth >= max_depth) {
    return malformed(depth >= max_depth ? "loops are nested too deeply" : "a loop has no body", instruction.span);
  }
  const Region& region = *instruction.region;
  if (region.trip < 1) {
    problems_.error("SP0117", "malformed-loop", "loop " + backticked(region.index) + " runs no iteration",
                    instruction.span, "a trip count of 1 or more", std::to_string(region.trip));
  }
  const bool taken = std::find(open_indices_.begin(), open_indices_.end(), region.index) != open_indices_.end() ||
                     (context_.meshes != nullptr && context_.meshes->axes.has(region.index));
  if (region.index.empty() || taken) {
    problems_.error("SP0117", "malformed-loop", "loop index " + backticked(region.index) + " is not a name of its own",
                    instruction.span);
  }
  bool matches =
      instruction.inputs.size() == region.carries.size() && instruction.outputs.size() == region.carries.size();
  for (std::size_t i = 0; matches && i < region.carries.size(); ++i) {
    matches = instruction.inputs[i] == region.carries[i].init && instruction.outputs[i] == region.carries[i].result;
  }
  if (!matches) return malformed("operands and results of a loop are not its carries", instruction.span);

  const std::size_t outside = trail_.size();
  bool good = true;
  for (const Carry& carry : region.carries) good = define(carry.argument, instruction.span) && good;
  open_indices_.push_back(region.index);
  check_body(region.body, depth + 1);
  for (const Carry& carry : region.carries) good = use(carry.next, instruction.span) && good;
  open_indices_.pop_back();
  for (std::size_t i = outside; i < trail_.size(); ++i) visible_[static_cast<std::size_t>(trail_[i])] = false;
  trail_.resize(outside);
  for (const Carry& carry : region.carries) good = define(carry.result, instruction.span) && good;
  if (!good) return;
  for (const Carry& carry : region.carries) {
    if (type(carry.argument) == type(carry.init) && type(carry.next) == type(carry.init) &&
        type(carry.result) == type(carry.init))
      continue;
    problems_.error(
        "SP0008", "type-mismatch",
        "value " + backticked(name(carry.argument)) + " changes its type in loop " + backticked(region.index),
        instruction.span, to_string(type(carry.init)), to_string(type(carry.next)));
  }
}

}  // namespace

bool check_program(const Program& program, const ProgramContext& context, Problems& problems) {
  return ProgramChecker(program, context, problems).check();
}

}  // namespace shardproof::ir
