// Optimizer hyper-parameters, exact. Read from the same JSON object as the parallel degrees, with Megatron-LM's
// argument names.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ir/diagnostic.h"
#include "ir/rational.h"
#include "ir/source.h"

namespace shardproof::lowering {

// The learning rate is an input of the step, not a hyper-parameter: schedules change it every step.
struct TrainingConfig {
  ir::Rational adam_beta1 = ir::Rational(9, 10);
  ir::Rational adam_beta2 = ir::Rational(95, 100);
  ir::Rational adam_eps = ir::Rational(1, 100000000);
  ir::Rational weight_decay = ir::Rational(1, 10);  // not applied to one-dimensional parameters
  ir::Rational clip_grad = 1;                       // bound on the global gradient norm; 0: no clipping
};

// Keys adam_beta1, adam_beta2, adam_eps, weight_decay, clip_grad; absent ones keep the defaults above. `name`
// selects one entry of {"name": {...}}; it may be empty when the file holds a single object. Keys that belong to
// the parallel configuration are not looked at.
std::optional<TrainingConfig> read_training_config(std::shared_ptr<const ir::SourceFile> source,
                                                   ir::DiagnosticSink& sink, const std::string& name = {});

}  // namespace shardproof::lowering
