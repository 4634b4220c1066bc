// Forward and backward passes of one chunk of the model for the microbatch `m`: what a pipeline schedules as actions.
#pragma once

#include "lowering/pipeline_layout.h"
#include "lowering/plan_blocks.h"

namespace shardproof::lowering {

// What the rank's chunks share.
struct ChunkShared {
  LayerShared layers;
  VocabShared vocab;
};

// A microbatch on its way through a chunk. Invalid where the chunk does not read it.
struct ChunkBatch {
  ValueId tokens, labels, mask;
};

// What the forward pass leaves for the backward pass.
struct ChunkSaved {
  EmbeddingSaved embedding;
  std::vector<LayerSaved> layers;  // of the chunk
  std::vector<ValueId> inputs;     // of each layer
  NormSaved norm;
  HeadSaved head;
  ValueId result;                  // activation for the next chunk
};

// Which layers are computed again in the backward pass (Megatron-LM's arguments).
struct Recompute {
  enum class What { nothing, attention, groups, first_layers };
  What what = What::nothing;
  std::int64_t layers = 1;  // of a group; or how many from the start of each chunk

  static Recompute of(const ParallelConfig& parallel);
};

class ChunkWriter {
 public:
  ChunkWriter(PlanWriter& writer, const ChunkShared& shared, const ModelChunk& chunk, Recompute recompute)
      : writer_(writer), shared_(shared), chunk_(chunk), recompute_(recompute) {}

  // `x`: activation of the chunk before; invalid for the first.
  ChunkSaved forward(const ChunkBatch& batch, ValueId x);
  // `gradient`: cotangent of the result; invalid for the last chunk. Returns that of x; invalid for the first.
  ValueId backward(const ChunkSaved& saved, ValueId gradient);

 private:
  bool is_llama() const { return writer_.model().family == ModelFamily::llama; }
  LayerSaved layer_forward(std::size_t at, ValueId x);
  ValueId layer_backward(std::size_t at, const LayerSaved& saved, ValueId gradient);
  std::string region(std::size_t first, std::size_t end) const;

  PlanWriter& writer_;
  const ChunkShared& shared_;
  const ModelChunk& chunk_;
  const Recompute recompute_;
};

}  // namespace shardproof::lowering
