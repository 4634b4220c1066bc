// The set-ups of tools/configs, planned, and at the small sizes of verifier/execution/scale.h.
#pragma once

#include <cctype>
#include <stdexcept>
#include <string>

#include "ir/read_json.h"
#include "lowering/build_reference.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"
#include "lowering/plan_training.h"
#include "lowering/training_config.h"
#include "verifier/execution/scale.h"

namespace shardproof::setups {

inline ir::Document plan(const std::string& setup) {
  const std::string folder = SHARDPROOF_SOURCE_DIR "/tools/configs/";
  ir::DiagnosticSink sink;
  const auto source = ir::read_source_file(folder + "parallel.json", sink);
  const auto parallel = lowering::read_parallel_config(source, sink, setup);
  const auto training = lowering::read_training_config(source, sink, setup);
  if (!parallel || !training) throw std::runtime_error("no set-up " + setup);
  const auto model = lowering::read_model_config(ir::read_source_file(folder + parallel->model, sink), sink, {true});
  if (!model) throw std::runtime_error("no model of " + setup);
  ir::Document document;
  document.reference = lowering::build_reference(*model, *training, parallel->global_batch_size, parallel->seq_length);
  document.plan = lowering::plan_training(*model, *training, *parallel, document.reference);
  return document;
}

inline execution::Scaled scaled(const ir::Document& full) {
  execution::ScaleOptions options;
  options.small_enough = 0;
  return execution::scale(full, options);
}

// As the name of a test.
inline std::string test_name(std::string setup) {
  for (char& c : setup)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return setup;
}

}  // namespace shardproof::setups
