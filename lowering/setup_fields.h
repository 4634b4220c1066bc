// The fields of a training set-up: which there are, which Megatron-LM arguments would change the step and are not
// supported, and which must agree with the model. A field that is none of these is an error: a misspelt degree must not
// become a plan of another set-up.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lowering/config_object.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"

namespace shardproof::lowering {

// The fields that are read, as documented in tools/README.md.
std::span<const std::string_view> setup_fields();

// Reports SP0026 for unknown fields and SP0025 for those that ask for what is not supported.
void check_setup_fields(ConfigObject& config);

// Fields that repeat the model (`num_layers`, `disable_bias_linear`, `rotary_base`, ...) must agree with it: SP0023.
// `source` and `name` as for read_parallel_config. Returns whether they do.
bool check_setup_model(const std::shared_ptr<const ir::SourceFile>& source, ir::DiagnosticSink& sink,
                       const std::string& name, const ModelConfig& model);

// Where a set-up gives field `key`, or where the set-up begins; unknown if there is no such set-up.
ir::Span setup_place(const ir::SourceFile& source, const std::string& name, std::string_view key);

}  // namespace shardproof::lowering
