// Model configurations: Hugging Face `config.json`, as it is published.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ir/diagnostic.h"
#include "ir/rational.h"
#include "ir/source.h"

namespace shardproof::lowering {

enum class ModelFamily : std::uint8_t { llama, gpt2 };
std::string_view family_name(ModelFamily family);  // as `model_type` spells it

// Rotary frequency scaling. type: "linear" (all frequencies / factor) or "llama3" (long wavelengths / factor,
// short ones kept, smooth between).
struct RopeScaling {
  std::string type;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 0;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::llama;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;  // == num_heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  ir::Rational norm_eps = ir::Rational(1, 100000);
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  std::string activation;  // "silu" (in SwiGLU), "gelu_new"
};

struct ReadModelOptions {
  bool dropout_to_zero = false;  // read non-zero dropout as 0 instead of refusing it
};

// Codes: those of the JSON reader, SP0020 missing field, SP0021 bad value, SP0022 unknown choice (model_type,
// activation, rope type), SP0023 sizes that do not fit together, SP0024 dropout, SP0025 unsupported feature,
// SP0027 (a warning) a field that is not known. On success the sink may hold warnings.
std::optional<ModelConfig> read_model_config(std::shared_ptr<const ir::SourceFile> source, ir::DiagnosticSink& sink,
                                             const ReadModelOptions& options = {});

// Total number of parameter elements (tied ones once).
std::int64_t parameter_count(const ModelConfig& model);

}  // namespace shardproof::lowering
