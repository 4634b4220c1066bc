#include "lowering/plan_chunk.h"

#include <algorithm>

namespace shardproof::lowering {

Recompute Recompute::of(const ParallelConfig& parallel) {
  if (parallel.recompute_granularity == "selective") return {What::attention, 1};
  if (parallel.recompute_granularity != "full") return {};
  return {parallel.recompute_method == "block" ? What::first_layers : What::groups, parallel.recompute_num_layers};
}

LayerSaved ChunkWriter::layer_forward(std::size_t at, ValueId x) {
  const std::int64_t layer = chunk_.layers[at];
  return is_llama() ? llama_layer_forward(writer_, shared_.layers, layer, x) : gpt2_layer_forward(writer_, shared_.layers, layer, x);
}

ValueId ChunkWriter::layer_backward(std::size_t at, const LayerSaved& saved, ValueId gradient) {
  const std::int64_t layer = chunk_.layers[at];
  return is_llama() ? llama_layer_backward(writer_, shared_.layers, layer, saved, gradient) : gpt2_layer_backward(writer_, shared_.layers, layer, saved, gradient);
}

ChunkSaved ChunkWriter::forward(const ChunkBatch& batch, ValueId x) {
  ChunkSaved saved;
  if (chunk_.embedding) {
    saved.embedding = embedding_forward(writer_, shared_.vocab, shared_.layers.positions, batch.tokens);
    x = saved.embedding.result;
  }
  for (std::size_t i = 0; i < chunk_.layers.size(); ++i) {
    saved.inputs.push_back(x);
    saved.layers.push_back(layer_forward(i, x));
    x = saved.layers.back().result;
  }
  saved.result = x;
  if (!chunk_.loss) return saved;
  const ParameterTable& table = writer_.table();
  writer_.at("final norm", "forward", "norm");
  saved.norm = is_llama() ? rms_norm_forward(writer_, x, table.final_norm) : layer_norm_forward(writer_, x, table.final_norm, table.final_norm_bias);
  saved.head = head_forward(writer_, shared_.vocab, saved.norm.result, batch.labels, batch.mask);
  return saved;
}

std::string ChunkWriter::region(std::size_t first, std::size_t end) const {
  std::string name = "layers" + std::to_string(chunk_.layers[first]);
  if (end - first > 1) name += "-" + std::to_string(chunk_.layers[end - 1]);
  return name;
}

// Groups of layers that are computed again keep the input of their first layer only.
ValueId ChunkWriter::backward(const ChunkSaved& saved, ValueId gradient) {
  const ParameterTable& table = writer_.table();
  if (chunk_.loss) {
    gradient = head_backward(writer_, saved.head);
    writer_.at("final norm", "backward", "norm");
    gradient = is_llama() ? rms_norm_backward(writer_, saved.norm, gradient, table.final_norm)
                          : layer_norm_backward(writer_, saved.norm, gradient, table.final_norm, table.final_norm_bias);
  }
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, recompute_.layers));
  for (std::size_t end = chunk_.layers.size(); end > 0;) {
    const bool again = recompute_.what == Recompute::What::groups || (recompute_.what == Recompute::What::first_layers && end <= most);
    const std::size_t first = recompute_.what == Recompute::What::groups ? (end - 1) / most * most : end - 1;
    std::vector<LayerSaved> layers(saved.layers.begin() + static_cast<std::ptrdiff_t>(first), saved.layers.begin() + static_cast<std::ptrdiff_t>(end));
    if (again) {
      writer_.builder().set_recompute(region(first, end));
      ValueId x = saved.inputs[first];
      for (std::size_t i = first; i < end; ++i) {
        layers[i - first] = layer_forward(i, x);
        x = layers[i - first].result;
      }
      writer_.builder().set_recompute({});
    }
    for (std::size_t i = end; i-- > first;) {
      LayerSaved& layer = layers[i - first];
      if (recompute_.what == Recompute::What::attention) {
        writer_.builder().set_recompute(region(i, i + 1) + ".attention");
        writer_.at("layer " + std::to_string(chunk_.layers[i]) + " attention", "forward again", "l" + std::to_string(chunk_.layers[i]) + ".attn");
        layer.attention = attention_forward(writer_, shared_.layers.attention, layer.attention.q, layer.attention.k, layer.attention.v);
        writer_.builder().set_recompute({});
      }
      gradient = layer_backward(i, layer, gradient);
    }
    end = first;
  }
  if (!chunk_.embedding) return gradient;
  embedding_backward(writer_, shared_.layers.positions, saved.embedding, gradient);
  return {};
}

}  // namespace shardproof::lowering
