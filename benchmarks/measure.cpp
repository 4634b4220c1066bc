#include "benchmarks/measure.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "verifier/verify.h"

namespace shardproof::benchmarks {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t count(const std::vector<ir::Instruction>& body) {
  auto total = static_cast<std::int64_t>(body.size());
  for (const ir::Instruction& instruction : body)
    if (instruction.region != nullptr) total += count(instruction.region->body);
  return total;
}

Measurement measure_here(const Setup& setup, int runs) {
  Measurement result;
  const double begin = cpu_seconds();
  ir::Document document;
  document.reference = lowering::build_reference(setup.model, setup.training, setup.parallel.global_batch_size,
                                                 setup.parallel.seq_length);
  document.plan = lowering::plan_training(setup.model, setup.training, setup.parallel, document.reference);
  result.plan_seconds = cpu_seconds() - begin;
  result.reference_instructions = count(document.reference.program.body);
  result.plan_instructions = count(document.plan.stages.front().program.body);
  verifier::VerifyOptions options;
  options.suggest_fixes = options.find_counterexample = options.cross_check = false;  // the proof alone
  for (int run = 0; run < runs; ++run) {
    const double start = cpu_seconds();
    const verifier::Report report = verifier::verify(document, options);
    const double cpu = cpu_seconds() - start;
    if (run == 0) {
      result.megabytes = static_cast<double>(report.statistics.peak_bytes) / (1 << 20);
      result.proved = report.verdict == verifier::Verdict::equivalent;
    }
    if (run > 0 && cpu >= result.cpu_seconds) continue;
    result.cpu_seconds = cpu;
    result.wall_seconds = report.statistics.seconds;
  }
  return result;
}

}  // namespace

Measurement measure(const Setup& setup, int runs) {
  static_assert(std::is_trivially_copyable_v<Measurement>);
  std::array<int, 2> channel{};
  if (::pipe(channel.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    int status = 1;
    try {
      const Measurement result = measure_here(setup, runs);
      if (::write(channel[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result)) status = 0;
    } catch (const std::exception& error) {
      std::cerr << "scale: " << error.what() << std::endl;
    }
    ::_exit(status);  // without the parent's buffers and destructors
  }
  ::close(channel[1]);
  Measurement result;
  const ssize_t received = ::read(channel[0], &result, sizeof result);
  ::close(channel[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (received != static_cast<ssize_t>(sizeof result) || status != 0) throw std::runtime_error("a measurement failed");
  return result;
}

}  // namespace shardproof::benchmarks
