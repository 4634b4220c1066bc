#include "attack/bases.h"

#include <utility>

#include "bugs/case.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "unit/lowering/plan_models.h"

namespace shardproof::attack {

namespace {

ir::Document planned(const lowering::ModelConfig& model, const lowering::ParallelConfig& parallel) {
  ir::Document document;
  const lowering::TrainingConfig training;
  document.reference =
      lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  return document;
}

}  // namespace

std::vector<Base> known_bases() {
  std::vector<Base> all;
  for (const bugs::Bug& bug : bugs::all_bugs()) {
    all.push_back({bug.name, [bug] { return bug.make(false, bugs::small_sizes()); }});
    all.push_back({bug.name + "_wrong", [bug] { return bug.make(true, bugs::small_sizes()); }});
  }
  using namespace lowering::testing;
  for (const bool llama : {true, false})
    for (const auto& [tp, dp] : {std::pair{1, 2}, {2, 1}, {2, 2}})
      for (const bool sharded : {false, true})
        all.push_back({std::string(llama ? "llama" : "gpt2") + "_tp" + std::to_string(tp) + "_dp" + std::to_string(dp) +
                           (sharded ? "_zero1" : ""),
                       [=, tp = tp, dp = dp] {
                         lowering::ModelConfig model = llama ? small_llama(1) : small_gpt2(1);
                         model.hidden_size = 8;
                         model.num_heads = 4;
                         model.num_kv_heads = llama ? 2 : 4;
                         model.head_dim = 2;
                         model.intermediate_size = 8;
                         model.vocab_size = 16;
                         model.max_positions = 4;
                         lowering::ParallelConfig parallel = degrees(tp, dp, tp > 1, sharded);
                         parallel.seq_length = 4;
                         return planned(model, parallel);
                       }});
  return all;
}

}  // namespace shardproof::attack
