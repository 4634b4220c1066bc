#include "lowering/plan_training.h"

#include <iterator>
#include <map>
#include <utility>

#include "lowering/plan_degrees.h"
#include "lowering/plan_rank.h"

namespace shardproof::lowering {

namespace {

[[noreturn]] void wrong_reference(const std::string& what, const std::string& expected, const std::string& found) {
  throw PlanError("SP0034", "the reference is not the step of this model and batch: " + what, expected, found,
                  "build the reference from the same model, batch size and sequence length");
}

// The parameters of the plan are those of the reference, and the batch has the size of the degrees.
void check_reference(const ir::Reference& reference, const std::vector<ParameterTable>& tables, const PlanDegrees& degrees) {
  std::map<std::string, bool> used;
  for (const ir::ReferenceState& state : reference.state) {
    if (state.role == "param") used.emplace(state.name, false);
  }
  const auto use = [&](const std::string& name) {
    const auto found = used.find(name);
    if (found == used.end()) wrong_reference("a parameter is missing", "parameter `" + name + "`", "none");
    found->second = true;
  };
  for (const ParameterTable& table : tables) {
    for (const PlanParameter& parameter : table.all) {
      if (!parameter.binding.of.empty()) use(parameter.binding.of);
      for (const ir::FusedPart& part : parameter.binding.fused) use(part.of);
    }
  }
  for (const auto& [name, is_used] : used) {
    if (!is_used) wrong_reference("a parameter has no place in the plan", "no such parameter", "`" + name + "`");
  }
  const ir::Shape batch{degrees.microbatches * degrees.dp * degrees.micro_batch, degrees.sequence};
  for (const ir::ReferenceInput& input : reference.inputs) {
    const ir::Value& value = reference.program.value(input.value);
    if (value.type.shape.size() == 2 && value.type.shape != batch) {
      wrong_reference("input `" + value.name + "` has another shape",
                      ir::to_string(ir::TensorType{value.type.dtype, batch}), ir::to_string(value.type));
    }
  }
}

// What a layout needs of the sharding.
void check_pipeline(const PipelineLayout& layout, const ModelConfig& model, const PlanDegrees& degrees) {
  const auto of_rank = [&](std::int64_t rank) {
    bool embedding = false, loss = false;
    for (const ModelChunk& chunk : layout.of_rank(rank)) {
      embedding = embedding || chunk.embedding;
      loss = loss || chunk.loss;
    }
    return embedding && loss;
  };
  if (!degrees.sharded_gradients || !model.tie_word_embeddings || layout.ranks == 1 || !of_rank(0)) return;
  throw PlanError("SP0033", "a tied embedding whose uses are two chunks of one rank has a gradient that is reduced twice",
                  "`data_parallel_sharding_strategy` optim", "optim_grads", "choose optim, or another schedule",
                  "data_parallel_sharding_strategy");
}

std::string note(const PipelineLayout& layout, const PlanDegrees& degrees) {
  const auto number = [](const char* name, std::int64_t value) { return std::string(name) + " " + std::to_string(value); };
  std::string text = "planner: ";
  if (layout.ranks > 1) text += number("pp", layout.ranks) + " (" + layout.schedule + "), ";
  text += number("tp", degrees.tp) + ", " + number("dp", degrees.dp);
  if (degrees.cp > 1) text += ", " + number("cp", degrees.cp);
  if (degrees.sequence_parallel) text += ", sequence parallel";
  if (degrees.distributed_optimizer) text += degrees.sharded_gradients ? ", sharded gradients and optimizer" : ", distributed optimizer";
  return text + ", " + std::to_string(degrees.microbatches) + " microbatches";
}

}  // namespace

ir::Plan plan_training(const ModelConfig& model, const TrainingConfig& training, const ParallelConfig& parallel,
                       const ir::Reference& reference) {
  const PlanDegrees degrees = plan_degrees(model, parallel);
  const PipelineLayout layout = pipeline_layout(model, parallel);
  check_pipeline(layout, model, degrees);
  std::vector<ParameterTable> tables;
  for (std::int64_t rank = 0; rank < layout.ranks; ++rank) tables.push_back(plan_parameters(model, degrees, layout, rank));
  check_reference(reference, tables, degrees);
  ir::Plan plan;
  plan.name = parallel.name.empty() ? "training step" : parallel.name;
  plan.meshes.push_back(degrees.mesh());
  for (std::int64_t rank = 0; rank < layout.ranks; ++rank) {
    RankProgram program = plan_rank({model, training, parallel, degrees, layout, rank}, tables[static_cast<std::size_t>(rank)]);
    plan.stages.push_back(std::move(program.stage));
    std::move(program.buffers.begin(), program.buffers.end(), std::back_inserter(plan.buffers));
    std::move(program.checkpoint.begin(), program.checkpoint.end(), std::back_inserter(plan.checkpoint));
  }
  if (layout.ranks > 1) {
    ir::Schedule schedule;
    schedule.generator = layout.schedule;
    schedule.microbatches = degrees.microbatches;
    schedule.virtual_stages = layout.virtual_stages;
    plan.schedule = std::move(schedule);
  }
  plan.notes.push_back(note(layout, degrees));
  return plan;
}

}  // namespace shardproof::lowering
