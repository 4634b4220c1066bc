#include "lowering/plan_parameters.h"

#include <algorithm>
#include <utility>

namespace shardproof::lowering {

namespace {

using std::to_string;

ir::DimLayout whole(std::int64_t extent) {
  ir::DimLayout layout;
  layout.digits.push_back({"", 1, extent});
  return layout;
}

class TableBuilder {
 public:
  TableBuilder(const ModelConfig& model, const PlanDegrees& degrees) : model_(model), degrees_(degrees) {}

  // In the order of the model, so that all holders of a part have it in the same order.
  ParameterTable build(const PipelineLayout& layout, std::int64_t rank) {
    const bool llama = model_.family == ModelFamily::llama;
    const std::string root = llama ? "model." : "transformer.";
    table_.blocks.resize(static_cast<std::size_t>(model_.num_layers));
    rank_ = rank;
    for (const ModelChunk& chunk : layout.of_rank(rank)) {
      replicas_ = layout.directions == 2 ? pair(rank, layout.ranks - 1 - rank) : "";
      first_ = replicas_.empty() || rank < layout.ranks - 1 - rank;
      if (chunk.embedding) embedding(root, llama);
      for (const std::int64_t layer : chunk.layers) {
        table_.blocks[static_cast<std::size_t>(layer)] = llama ? llama_block(root + "layers." + to_string(layer) + ".")
                                                               : gpt2_block(root + "h." + to_string(layer) + ".");
      }
      if (chunk.loss) {
        table_.final_norm = hidden_vector(root + (llama ? "norm.weight" : "ln_f.weight"));
        if (!llama) table_.final_norm_bias = hidden_vector(root + "ln_f.bias");
        table_.head = model_.tie_word_embeddings ? table_.embedding : vocabulary("lm_head.weight");
      }
      ++chunk_;
    }
    tie(layout, rank, root + (llama ? "embed_tokens.weight" : "wte.weight"));
    return std::move(table_);
  }

 private:
  static std::string pair(std::int64_t a, std::int64_t b) {
    return "pp{" + to_string(std::min(a, b)) + "," + to_string(std::max(a, b)) + "}";
  }

  void embedding(const std::string& root, bool llama) {
    table_.embedding = vocabulary(root + (llama ? "embed_tokens.weight" : "wte.weight"));
    if (!llama) table_.positions = positions(root + "wpe.weight");
  }

  // A tied embedding is used by the first and the last chunk. On different ranks each has a copy and the gradient of its own
  // use (Megatron-LM's embedding group).
  void tie(const PipelineLayout& layout, std::int64_t rank, const std::string& name) {
    if (!model_.tie_word_embeddings || layout.directions == 2) return;
    const std::int64_t first = layout.chunks.front().rank, last = layout.chunks.back().rank;
    if (first == last || (rank != first && rank != last)) return;
    replicas_ = pair(first, last);
    first_ = rank == first;
    if (rank == last) {
      --chunk_;
      table_.head = vocabulary(name);
    }
    table_.all[rank == first ? table_.embedding : table_.head].replicas = replicas_;
  }

  std::size_t add(PlanParameter parameter) {
    if (!first_) parameter.name = "pp" + to_string(rank_) + "." + parameter.name;
    parameter.replicas = replicas_;
    parameter.is_first_replica = first_;
    parameter.chunk = chunk_;
    table_.all.push_back(std::move(parameter));
    return table_.all.size() - 1;
  }

  // A dimension cut over all tensor parallel ranks.
  ir::DimLayout cut(std::int64_t extent) const {
    ir::DimLayout layout;
    layout.digits = degrees_.tp_digits();
    layout.digits.push_back({"", 1, extent / degrees_.tp});
    return layout;
  }

  std::size_t direct(const std::string& name, std::vector<ir::DimLayout> dims, ParameterCopies copies,
                     bool on_sequence_shard) {
    PlanParameter parameter;
    parameter.name = name;
    parameter.binding.of = name;
    parameter.binding.placement.dims = std::move(dims);
    parameter.shape = ir::local_shape(parameter.binding.placement);
    parameter.decay = parameter.shape.size() > 1;
    parameter.copies = copies;
    parameter.on_sequence_shard = on_sequence_shard;
    return add(std::move(parameter));
  }

  std::size_t sharded(const std::string& name, std::vector<ir::DimLayout> dims) {
    return direct(name, std::move(dims), ParameterCopies::none, false);
  }

  // Norm weights and biases, biases of row-parallel layers: added where the sequence is cut.
  std::size_t hidden_vector(const std::string& name) {
    return direct(name, {whole(model_.hidden_size)}, ParameterCopies::all, true);
  }

  // Positions are added before the sequence is cut (Megatron-LM: no reduce-scatter inside the embedding then).
  std::size_t positions(const std::string& name) {
    return direct(name, {whole(model_.max_positions), whole(model_.hidden_size)}, ParameterCopies::all, false);
  }

  std::size_t vocabulary(const std::string& name) {
    ir::DimLayout rows = cut(degrees_.padded_vocab);
    if (degrees_.padded_vocab != model_.vocab_size) rows.padded_extent = degrees_.padded_vocab;
    return sharded(name, {std::move(rows), whole(model_.hidden_size)});
  }

  ir::FusedPart part(const std::string& name, ir::DimLayout rows) const {
    ir::FusedPart part;
    part.of = name;
    part.placement.dims = {std::move(rows), whole(model_.hidden_size)};
    return part;
  }

  std::size_t fused(const std::string& name, std::vector<ir::FusedPart> parts, std::int64_t fuse_axis,
                    std::int64_t rows, ParameterCopies copies = ParameterCopies::none, std::int64_t tail_rows = 0) {
    PlanParameter parameter;
    parameter.name = name;
    parameter.shape = {rows, model_.hidden_size};
    parameter.binding.fused = std::move(parts);
    parameter.binding.fuse_axis = fuse_axis;
    parameter.decay = true;
    parameter.copies = copies;
    parameter.tail_rows = tail_rows;
    return add(std::move(parameter));
  }

  // Per kv group: its query heads, its key head, its value head (Megatron-LM's mixed layout).
  std::size_t llama_qkv(const std::string& prefix) {
    const std::int64_t groups = model_.num_kv_heads / degrees_.kv_shards;
    const std::int64_t queries = model_.num_heads / degrees_.tp / groups;
    ir::DimLayout query_rows;
    query_rows.digits = degrees_.tp_digits();
    query_rows.digits.insert(query_rows.digits.end(), {{"", 1, groups}, {"", 1, queries}, {"", 1, model_.head_dim}});
    ir::DimLayout key_rows;
    key_rows.digits = {degrees_.tp_digits().front(), {"", 1, groups}, {"", 1, 1}, {"", 1, model_.head_dim}};
    const std::int64_t rows = groups * (queries + 2) * model_.head_dim;
    const bool replicated = degrees_.kv_replicas > 1;
    return fused(prefix + "qkv_proj.weight",
                 {part(prefix + "q_proj.weight", query_rows), part(prefix + "k_proj.weight", key_rows),
                  part(prefix + "v_proj.weight", key_rows)},
                 1, rows, replicated ? ParameterCopies::kv_tail : ParameterCopies::none,
                 replicated ? 2 * model_.head_dim : 0);
  }

  std::size_t llama_gate_up(const std::string& prefix) {
    ir::DimLayout rows;
    rows.digits = degrees_.tp_digits();
    const std::int64_t local = model_.intermediate_size / degrees_.tp;
    rows.digits.insert(rows.digits.end(), {{"", 1, 1}, {"", 1, local}});
    return fused(prefix + "gate_up_proj.weight",
                 {part(prefix + "gate_proj.weight", rows), part(prefix + "up_proj.weight", rows)}, 0, 2 * local);
  }

  BlockParameters llama_block(const std::string& prefix) {
    BlockParameters block;
    block.norm1 = hidden_vector(prefix + "input_layernorm.weight");
    block.proj = sharded(prefix + "self_attn.o_proj.weight",
                         {whole(model_.hidden_size), cut(model_.num_heads * model_.head_dim)});
    block.qkv = llama_qkv(prefix + "self_attn.");
    block.norm2 = hidden_vector(prefix + "post_attention_layernorm.weight");
    block.fc1 = llama_gate_up(prefix + "mlp.");
    block.fc2 = sharded(prefix + "mlp.down_proj.weight", {whole(model_.hidden_size), cut(model_.intermediate_size)});
    return block;
  }

  // GPT-2 stores q, k and v side by side in one tensor: each third is cut, and the thirds stay apart locally.
  ir::DimLayout gpt2_qkv() const {
    ir::DimLayout layout;
    layout.digits.push_back({"", 1, 3});
    for (ir::Digit& digit : degrees_.tp_digits()) layout.digits.push_back(std::move(digit));
    layout.digits.push_back({"", 1, model_.hidden_size / degrees_.tp});
    return layout;
  }

  BlockParameters gpt2_block(const std::string& prefix) {
    BlockParameters block;
    const ir::DimLayout hidden = whole(model_.hidden_size);
    block.norm1 = hidden_vector(prefix + "ln_1.weight");
    block.norm1_bias = hidden_vector(prefix + "ln_1.bias");
    block.proj = sharded(prefix + "attn.c_proj.weight", {cut(model_.hidden_size), hidden});
    block.proj_bias = hidden_vector(prefix + "attn.c_proj.bias");
    block.qkv = sharded(prefix + "attn.c_attn.weight", {hidden, gpt2_qkv()});
    block.qkv_bias = sharded(prefix + "attn.c_attn.bias", {gpt2_qkv()});
    block.norm2 = hidden_vector(prefix + "ln_2.weight");
    block.norm2_bias = hidden_vector(prefix + "ln_2.bias");
    block.fc1 = sharded(prefix + "mlp.c_fc.weight", {hidden, cut(model_.intermediate_size)});
    block.fc1_bias = sharded(prefix + "mlp.c_fc.bias", {cut(model_.intermediate_size)});
    block.fc2 = sharded(prefix + "mlp.c_proj.weight", {cut(model_.intermediate_size), hidden});
    block.fc2_bias = hidden_vector(prefix + "mlp.c_proj.bias");
    return block;
  }

  const ModelConfig& model_;
  const PlanDegrees& degrees_;
  ParameterTable table_;
  std::string replicas_;  // of what is added
  bool first_ = true;
  std::size_t chunk_ = 0;
  std::int64_t rank_ = 0;
};

}  // namespace

ParameterTable plan_parameters(const ModelConfig& model, const PlanDegrees& degrees, const PipelineLayout& layout,
                               std::int64_t rank) {
  return TableBuilder(model, degrees).build(layout, rank);
}

}  // namespace shardproof::lowering
