// The fields of a published `config.json` that are not read: which are harmless, and which change the computation and
// are refused unless they are neutral. Any other is a warning (SP0027).
#pragma once

#include "lowering/config_object.h"

namespace shardproof::lowering {

void check_llama_fields(ConfigObject& config);
void check_gpt2_fields(ConfigObject& config);
void check_rope_fields(ConfigObject& rope);  // `rope_scaling` or `rope_parameters`

}  // namespace shardproof::lowering
