// Cost of a proof against the sizes of a plan: Llama-3.1-405B as in tools/configs, one size varied at a time.
// Prints a table; with --check also fails unless cost is linear in layers and flat in everything else.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/measure.h"
#include "ir/diagnostic.h"
#include "ir/read_json.h"

namespace shardproof::benchmarks {
namespace {

constexpr double kMostGrowth = 1.6;  // of what should not grow: room for noise, not for a trend
constexpr int kRuns = 3;             // of short measurements

template <typename T>
T need(std::optional<T> value, const ir::DiagnosticSink& sink) {
  if (!value) throw std::runtime_error(sink.diagnostics().front().message);
  return *std::move(value);
}

Setup llama_405b() {
  const std::string folder = std::string(SHARDPROOF_SOURCE_DIR) + "/tools/configs/";
  const std::string name = "llama-3.1-405b@1024";
  ir::DiagnosticSink sink;
  const auto parallel = ir::read_source_file(folder + "parallel.json", sink);
  const auto model = ir::read_source_file(folder + "llama-3.1-405b.json", sink);
  if (!sink.ok()) throw std::runtime_error(sink.diagnostics().front().message);
  return {need(lowering::read_model_config(model, sink), sink),
          need(lowering::read_training_config(parallel, sink, name), sink),
          need(lowering::read_parallel_config(parallel, sink, name), sink)};
}

// Microbatches and micro batch size stay as they are.
void set_data_parallel(Setup& setup, std::int64_t dp) {
  const std::int64_t microbatches = setup.parallel.num_microbatches();
  setup.parallel.world_size = setup.parallel.tensor_model_parallel_size * dp;
  setup.parallel.global_batch_size = setup.parallel.micro_batch_size * dp * microbatches;
}

void set_layers(Setup& setup, std::int64_t layers) {
  setup.model.num_layers = layers;
}

// Heads of the same size and feed-forward layers of the same proportion. Buckets shrink with the weights, so that
// plans have as many of them.
void set_hidden(Setup& setup, std::int64_t hidden) {
  lowering::ModelConfig& model = setup.model;
  const std::int64_t times = model.hidden_size / hidden;
  model.hidden_size = hidden;
  model.intermediate_size /= times;
  model.num_heads /= times;
  setup.parallel.bucket_size /= times * times;
}

void set_sequence(Setup& setup, std::int64_t length) {
  setup.parallel.seq_length = length;
}

void set_microbatches(Setup& setup, std::int64_t count) {
  setup.parallel.global_batch_size = setup.parallel.micro_batch_size * setup.parallel.data_parallel_size() * count;
}

struct Direction {
  std::string_view name;
  std::vector<std::int64_t> values;
  std::function<void(Setup&, std::int64_t)> set;
  std::size_t other = 0;  // values at the start that make a plan of another form: shown, not compared
};

void print_header() {
  std::printf("%-14s %8s %7s %8s %9s %9s %9s %8s %12s  %s\n", "varied", "value", "ranks", "verify s", "s (wall)",
              "plan s", "peak MB", "ms/layer", "instructions", "verdict");
}

Measurement point(std::string_view name, std::int64_t value, const Setup& setup, int runs) {
  const Measurement m = measure(setup, runs);
  std::printf("%-14s %8lld %7lld %8.2f %9.2f %9.3f %9.0f %8.1f %5lld+%-6lld  %s\n", std::string(name).c_str(),
              static_cast<long long>(value), static_cast<long long>(setup.parallel.world_size), m.cpu_seconds,
              m.wall_seconds, m.plan_seconds, m.megabytes,
              1000 * m.cpu_seconds / static_cast<double>(setup.model.num_layers),
              static_cast<long long>(m.reference_instructions), static_cast<long long>(m.plan_instructions),
              m.proved ? "equivalent" : "NOT PROVED");
  std::fflush(stdout);
  return m;
}

class Verdict {
 public:
  void require(bool condition, const std::string& what) {
    if (condition) return;
    std::printf("FAILED: %s\n", what.c_str());
    good_ = false;
  }
  // Growth of a cost over a direction that should not grow.
  void flat(std::string_view what, const std::vector<double>& costs) {
    const auto [least, most] = std::minmax_element(costs.begin(), costs.end());
    char text[160];
    std::snprintf(text, sizeof text, "%s: largest %.2f times the smallest", std::string(what).c_str(), *most / *least);
    std::printf("%s\n", text);
    require(*most <= kMostGrowth * *least, text);
  }
  bool good() const { return good_; }

 private:
  bool good_ = true;
};

int run(bool check) {
  const Setup whole = llama_405b();
  Setup base = whole;
  set_layers(base, 4);
  set_data_parallel(base, 8);
  const std::vector<Direction> flat = {
      {"dp", {1, 2, 8, 64, 1024}, set_data_parallel, 1},  // dp=1: nothing to reduce and no shards
      {"hidden", {1024, 4096, 16384}, set_hidden},
      {"sequence", {2048, 8192, 131072}, set_sequence},
      {"microbatches", {1, 2, 16, 512}, set_microbatches, 1},  // 1: nothing is accumulated
  };
  Verdict verdict;
  print_header();
  std::vector<double> per_layer, memory_per_layer;
  for (const std::int64_t layers : {4, 16, 64, 126}) {
    Setup setup = base;
    set_layers(setup, layers);
    const Measurement m = point("layers", layers, setup, layers <= 16 ? kRuns : 1);
    verdict.require(m.proved, std::to_string(layers) + " layers are not proved");
    if (layers < 16) continue;  // what does not depend on layers still shows
    per_layer.push_back(m.cpu_seconds / static_cast<double>(layers));
    memory_per_layer.push_back(m.megabytes / static_cast<double>(layers));
  }
  std::vector<std::pair<std::string, std::vector<double>>> costs;
  for (const Direction& direction : flat) {
    std::vector<double> seconds, megabytes;
    for (const std::int64_t value : direction.values) {
      Setup setup = base;
      direction.set(setup, value);
      const Measurement m = point(direction.name, value, setup, kRuns);
      verdict.require(m.proved, std::string(direction.name) + " " + std::to_string(value) + " is not proved");
      if (value < direction.values[direction.other]) continue;
      seconds.push_back(m.cpu_seconds);
      megabytes.push_back(m.megabytes);
    }
    costs.emplace_back("time against " + std::string(direction.name), seconds);
    costs.emplace_back("memory against " + std::string(direction.name), megabytes);
  }
  const Measurement m = point("405B, whole", whole.model.num_layers, whole, 1);
  verdict.require(m.proved, "Llama-3.1-405B is not proved");
  std::printf("\n");
  for (const auto& [what, values] : costs) verdict.flat(what, values);
  // Less for each layer is as good as equal.
  const auto linear = [&](std::string_view what, const std::vector<double>& each) {
    const double growth = *std::max_element(each.begin(), each.end()) / each.front();
    char text[160];
    std::snprintf(text, sizeof text, "%s of each layer: at most %.2f times that with 16 layers",
                  std::string(what).c_str(), growth);
    std::printf("%s\n", text);
    verdict.require(growth <= kMostGrowth, text);
  };
  linear("time", per_layer);
  linear("memory", memory_per_layer);
  return check && !verdict.good() ? 1 : 0;
}

}  // namespace
}  // namespace shardproof::benchmarks

int main(int argc, char** argv) {
  const std::string_view argument = argc > 1 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && argument != "--check")) {
    std::cerr << "usage: scale [--check]\n";
    return 2;
  }
  try {
    return shardproof::benchmarks::run(argument == "--check");
  } catch (const std::exception& error) {
    std::cerr << "scale: " << error.what() << '\n';
    return 70;
  }
}
