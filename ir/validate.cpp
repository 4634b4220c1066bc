#include "ir/validate.h"

#include <algorithm>

#include "ir/validate_parts.h"

namespace shardproof::ir {

void Problems::error(std::string code, std::string name, std::string message, Span span, std::string expected,
                     std::string found, std::string fix) {
  if (full()) return;
  sink_.error(std::move(code), std::move(name), std::move(message), span, std::move(expected), std::move(found),
              std::move(fix));
}

std::string backticked(std::string_view name) {
  return "`" + std::string(name) + "`";
}

std::string shape_problem(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1) return "an extent is below 1";
    if (extent > kMaxExtent) return "an extent is above 2^40";
    if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements)
      return "the tensor has more than 2^62 elements";
  }
  return {};
}

namespace {

bool exists(const Program& program, ValueId id) {
  return id.valid() && static_cast<std::size_t>(id.index) < program.values.size();
}

// ---------------------------------------------------------------- reference

// False if its values cannot be looked up.
bool check_reference(const Reference& reference, Problems& problems) {
  const Program& program = reference.program;
  ProgramContext context;
  context.name = "reference";
  for (const ReferenceInput& input : reference.inputs) context.entry.push_back(input.value);
  for (const ReferenceState& state : reference.state) context.entry.push_back(state.value);
  for (const ReferenceState& state : reference.state) context.exit.push_back(state.next);
  for (const ReferenceOutput& output : reference.outputs) context.exit.push_back(output.value);
  const bool sound = check_program(program, context, problems);
  if (sound) check_no_actions(program.body, problems);
  const auto& ids = context.entry;
  if (!sound || !std::all_of(ids.begin(), ids.end(), [&](ValueId id) { return exists(program, id); })) return false;

  for (const ReferenceInput& input : reference.inputs) {
    const Value& value = program.value(input.value);
    if (input.below < 0 || (input.below > 0 && !is_integer(value.type.dtype))) {
      problems.error("SP0123", "malformed-state", "the bound of input " + backticked(value.name) + " makes no sense",
                     input.span, "a positive bound of an integer tensor",
                     std::to_string(input.below) + " for " + to_string(value.type));
    }
  }
  std::unordered_set<std::string_view> names;
  std::set<std::pair<std::string_view, std::string_view>> roles;
  for (const ReferenceState& state : reference.state) names.insert(state.name);
  for (const ReferenceState& state : reference.state) {
    if (problems.full()) return true;
    const Value& value = program.value(state.value);
    const std::string name = backticked(state.name);
    if (state.name != value.name) {
      problems.error("SP0123", "malformed-state", "reference state " + name + " is not named like its value",
                     state.span, value.name, state.name);
    }
    if (program.value(state.next).type != value.type) {
      problems.error("SP0123", "malformed-state", "reference state " + name + " changes its type over the step",
                     state.span, to_string(value.type), to_string(program.value(state.next).type));
    }
    if (!state.param.empty() && !names.contains(state.param)) {
      problems.error("SP0111", "unknown-reference-tensor",
                     "reference state " + name + " belongs to " + backticked(state.param) + ", which does not exist",
                     state.span);
    }
    if (!state.param.empty() && !roles.emplace(state.role, state.param).second) {
      problems.error("SP0123", "malformed-state",
                     "two reference states are the " + backticked(state.role) + " of " + backticked(state.param),
                     state.span, "one state for each role and parameter");
    }
  }
  std::unordered_set<std::string_view> outputs;
  for (const ReferenceOutput& output : reference.outputs) {
    if (outputs.insert(output.name).second) continue;
    problems.error("SP0006", "duplicate-name", "two reference outputs are named " + backticked(output.name),
                   output.span);
  }
  return true;
}

// ---------------------------------------------------------------- plan

// A binding may restrict a tensor to coordinates that the stage has, not to others.
void check_owned_in_stage(const StageProgram& stage, const Placement& placement, const std::string& name, Span span,
                          Problems& problems) {
  for (const OwnedAxis& owned : placement.owned) {
    for (const OwnedAxis& where : stage.where) {
      if (where.axis != owned.axis) continue;
      const bool inside = std::all_of(owned.coordinates.begin(), owned.coordinates.end(), [&](std::int64_t c) {
        return std::find(where.coordinates.begin(), where.coordinates.end(), c) != where.coordinates.end();
      });
      if (inside) continue;
      problems.error("SP0107", "malformed-layout",
                     backticked(name) + " is owned at coordinates of " + backticked(owned.axis) + " where stage " +
                         backticked(stage.name) + " does not run",
                     span);
    }
  }
}

// False if its values cannot be looked up.
bool check_stage_program(const Plan& plan, const StageProgram& stage, const MeshFacts& meshes,
                         const std::unordered_set<std::string_view>& streams, Problems& problems) {
  ProgramContext context;
  context.name = stage.name;
  context.plan = &plan;
  context.meshes = &meshes;
  context.where = &stage.where;
  context.streams = &streams;
  for (const PlanInput& input : stage.inputs) context.entry.push_back(input.value);
  for (const PlanState& state : stage.state) context.entry.push_back(state.value);
  for (const PlanState& state : stage.state) context.exit.push_back(state.next);
  for (const PlanOutput& output : stage.outputs) context.exit.push_back(output.value);
  return check_program(stage.program, context, problems);
}

void check_stage_bindings(const StageProgram& stage, PlacementChecker& placements, Problems& problems) {
  using Kind = PlacementChecker::Kind;
  const Program& program = stage.program;
  for (const PlanInput& input : stage.inputs) {
    if (problems.full()) return;
    const Value& value = program.value(input.value);
    placements.check_binding(input.binding, Kind::input, value.name, input.span, value.type);
    check_owned_in_stage(stage, input.binding.placement, value.name, input.span, problems);
  }
  for (const PlanState& state : stage.state) {
    if (problems.full()) return;
    const Value& value = program.value(state.value);
    placements.check_binding(state.binding, Kind::state, state.name, state.span, value.type);
    check_owned_in_stage(stage, state.binding.placement, state.name, state.span, problems);
    if (state.name != value.name) {
      problems.error("SP0123", "malformed-state", "state " + backticked(state.name) + " is not named like its value",
                     state.span, value.name, state.name);
    }
    if (program.value(state.next).type != value.type) {
      problems.error("SP0123", "malformed-state", "state " + backticked(state.name) + " changes its type over the step",
                     state.span, to_string(value.type), to_string(program.value(state.next).type));
    }
  }
  std::unordered_set<std::string_view> outputs;
  for (const PlanOutput& output : stage.outputs) {
    if (problems.full()) return;
    const Value& value = program.value(output.value);
    if (!outputs.insert(output.name).second) {
      problems.error("SP0006", "duplicate-name", "two outputs are named " + backticked(output.name), output.span);
    }
    placements.check_binding(output.binding, Kind::output, output.name, output.span, value.type);
    check_owned_in_stage(stage, output.binding.placement, output.name, output.span, problems);
    const ValueId shown = placements.index().output(output.name);
    const ValueId bound = placements.index().output(output.binding.of);
    if (shown != bound || !shown.valid()) {
      problems.error(
          "SP0111", "unknown-reference-tensor",
          "output " + backticked(output.name) + " shows " +
              (shown.valid() ? "another tensor than the reference output of that name" : "no reference output"),
          output.span);
    }
  }
}

// Each state and output of the reference is claimed by some rank: an omission would make the claim hold for
// less than the whole step.
void check_claims(const Reference& reference, const Plan& plan, const PlacementChecker& placements,
                  Problems& problems) {
  for (const ReferenceState& state : reference.state) {
    if (placements.claimed().contains(state.value.index)) continue;
    problems.error("SP0501", "state-not-covered", "no plan state represents reference state " + backticked(state.name),
                   state.span, "a state bound to it");
  }
  std::unordered_set<std::string_view> shown;
  for (const StageProgram& stage : plan.stages) {
    for (const PlanOutput& output : stage.outputs) shown.insert(output.name);
  }
  for (const ReferenceOutput& output : reference.outputs) {
    if (shown.contains(output.name)) continue;
    problems.error("SP0110", "output-not-covered",
                   "no plan output represents reference output " + backticked(output.name), output.span,
                   "an output of that name");
  }
}

// No tensor has two sources. Whether all of them have one is no matter of form: verifier/structure.
void check_checkpoint(const Plan& plan, Problems& problems) {
  std::unordered_set<std::string_view> states;
  for (const StageProgram& stage : plan.stages) {
    for (const PlanState& state : stage.state) states.insert(state.name);
  }
  std::unordered_set<std::string_view> keys;
  std::unordered_set<std::string_view> saved;
  for (const CheckpointEntry& entry : plan.checkpoint) {
    if (problems.full()) return;
    if (!keys.insert(entry.key).second) {
      problems.error("SP0119", "malformed-checkpoint", "two checkpoint entries have the key " + backticked(entry.key),
                     entry.span, "distinct keys");
    }
    if (!states.contains(entry.state)) {
      problems.error(
          "SP0119", "malformed-checkpoint",
          "checkpoint key " + backticked(entry.key) + " saves " + backticked(entry.state) + ", which is no plan state",
          entry.span);
      continue;
    }
    if (!saved.insert(entry.state).second) {
      problems.error("SP0119", "malformed-checkpoint", "state " + backticked(entry.state) + " is saved twice",
                     entry.span, "one entry for each state");
    }
  }
}

void check_plan(const Reference& reference, const Plan& plan, Problems& problems) {
  if (plan.stages.empty()) {
    problems.error("SP0125", "empty-plan", "the plan has no program", Span{}, "one stage or more");
    return;
  }
  const std::optional<MeshFacts> meshes = check_meshes(plan, problems);
  if (!meshes) return;
  std::unordered_set<std::string_view> names;
  for (const StageProgram& stage : plan.stages) {
    if (names.insert(stage.name).second) continue;
    problems.error("SP0006", "duplicate-name", "two stages are named " + backticked(stage.name), stage.span);
  }
  check_stage_cover(plan, *meshes, problems);
  std::unordered_set<std::string_view> streams;
  for (const RngStream& stream : plan.rng) {
    if (streams.insert(stream.name).second) continue;
    problems.error("SP0006", "duplicate-name", "two random streams are named " + backticked(stream.name), stream.span);
  }
  PlacementChecker placements(reference, plan, *meshes, problems);
  placements.check_buffers();
  bool sound = true;
  for (const StageProgram& stage : plan.stages) {
    if (problems.full()) return;
    if (!check_stage_program(plan, stage, *meshes, streams, problems)) {
      sound = false;
      continue;
    }
    check_stage_bindings(stage, placements, problems);
  }
  if (!sound) return;
  check_claims(reference, plan, placements, problems);
  check_schedule(plan, problems);
  check_checkpoint(plan, problems);
}

}  // namespace

void validate_reference(const Reference& reference, DiagnosticSink& sink) {
  Problems problems(sink);
  check_reference(reference, problems);
}

void validate_plan(const Reference& reference, const Plan& plan, DiagnosticSink& sink) {
  Problems problems(sink);
  check_plan(reference, plan, problems);
}

void validate(const Document& document, DiagnosticSink& sink) {
  Problems problems(sink);
  if (check_reference(document.reference, problems)) check_plan(document.reference, document.plan, problems);
}

}  // namespace shardproof::ir
