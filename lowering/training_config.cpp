#include "lowering/training_config.h"

#include "lowering/config_object.h"

namespace shardproof::lowering {

std::optional<TrainingConfig> read_training_config(std::shared_ptr<const ir::SourceFile> source,
                                                   ir::DiagnosticSink& sink, const std::string& name) {
  const std::optional<ir::JsonTree> tree = ir::parse_json(*source, {}, sink);
  if (!tree) return std::nullopt;
  std::string selected;
  const std::optional<ir::JsonRef> object = select_config(*tree, name, sink, &selected);
  if (!object) return std::nullopt;
  const std::size_t errors_before = sink.error_count();
  ConfigObject config(*object, sink, setup_title(selected));
  TrainingConfig training;
  const ir::Rational zero(0);
  const ir::Rational one(1);
  training.adam_beta1 = config.rational("adam_beta1", training.adam_beta1, zero, one);
  training.adam_beta2 = config.rational("adam_beta2", training.adam_beta2, zero, one);
  training.adam_eps = config.rational("adam_eps", training.adam_eps, zero, one);
  training.weight_decay = config.rational("weight_decay", training.weight_decay, zero, one);
  training.clip_grad = config.rational("clip_grad", training.clip_grad, zero, ir::Rational(1000000000));
  // Bias correction divides by 1 - beta^step, and the update by sqrt(v) + eps, which is 0 where no gradient came yet.
  for (const auto& [key, value] :
       {std::pair("adam_beta1", training.adam_beta1), std::pair("adam_beta2", training.adam_beta2)}) {
    if (value == one) config.bad_value(key, "a number below 1", ir::to_string(value));
  }
  if (training.adam_eps.is_zero()) config.bad_value("adam_eps", "a number above 0", "0");
  if (sink.error_count() > errors_before) return std::nullopt;
  return training;
}

}  // namespace shardproof::lowering
