// Which part of the model each pipeline rank holds.
//
// The model is cut into chunks, numbered in the order in which a sample passes them: the `stage` of PyTorch's pipelining and of
// the labels of actions. Chunks lie on ranks in one of three ways:
//   loop       stage s on rank s mod P (1F1B, GPipe; several chunks on a rank: interleaved, Megatron-LM's virtual stages)
//   v-shape    stage s on rank s, and the second half on the way back, 2P-1-s (ZB-V, DualPipeV)
//   two ways   a second copy of all P stages runs the other way: stage P+s on rank P-1-s (DualPipe)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lowering/model_config.h"
#include "lowering/parallel_config.h"

namespace shardproof::lowering {

struct ModelChunk {
  std::int64_t stage = 0;
  std::int64_t rank = 0;
  std::vector<std::int64_t> layers;  // may be empty
  bool embedding = false;            // the first chunk of the model
  bool loss = false;                 // the last one: final norm, head and loss
};

struct PipelineLayout {
  std::int64_t ranks = 1;
  std::int64_t directions = 1;      // 2: each part of the model lies on two ranks
  std::vector<ModelChunk> chunks;   // by stage
  std::string schedule;             // generator; empty: no pipeline
  std::int64_t virtual_stages = 1;  // as the schedule counts them
  bool splits_backward = false;     // in two actions: what the gradient of a chunk's input needs, and the rest (zero bubble)

  std::int64_t stages() const { return static_cast<std::int64_t>(chunks.size()) / directions; }  // of one direction
  std::vector<ModelChunk> of_rank(std::int64_t rank) const;  // in the order of the model
  // The chunk before or after this one on a sample's way; nullptr at the ends.
  const ModelChunk* before(const ModelChunk& chunk) const;
  const ModelChunk* after(const ModelChunk& chunk) const;
};

// Layers are spread evenly over the chunks; where they do not divide, embedding and loss count as one layer each, so that of
// 126 layers on 16 ranks the first and the last have 7 and the others 8. `pipeline_model_parallel_layout` says it explicitly
// in Megatron-LM's notation ("Et*3|(tt|)*29,m|L"). Throws PlanError.
PipelineLayout pipeline_layout(const ModelConfig& model, const ParallelConfig& parallel);

}  // namespace shardproof::lowering
