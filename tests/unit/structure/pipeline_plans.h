// Small pipelines for tests of schedules: each stage of the model multiplies what it is sent, and adds up a gradient.
#pragma once

#include "ir/schedule_generator.h"
#include "lowering/schedule_generators.h"
#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {

struct Pipeline {
  std::string generator = "1f1b";
  ir::ScheduleSize size{2, 1, 4};
  bool split = false;        // I and W apart
  bool async_sends = true;   // a rank goes on before its message is received
  bool one_sum = false;      // all stages of a rank add to one accumulator
  bool recurrence = false;   // what is carried is no sum, and has the order of the loop
  std::string more_mesh = {};  // further axes
  std::string trip = {};       // of the loops; empty: as the schedule has it

  const ir::ScheduleGenerator& info() const { return *ir::find_schedule_generator(generator, size.virtual_stages); }
  std::int64_t stages() const { return size.ranks * ir::chunks_per_rank(info(), size); }
  std::int64_t rank_of(std::int64_t stage) const {
    for (std::int64_t r = 0; r < size.ranks; ++r)
      for (std::int64_t c = 0; c < ir::chunks_per_rank(info(), size); ++c)
        if (ir::stage_of(info(), size, r, c) == stage) return r;
    return -1;
  }
  std::optional<std::int64_t> before(std::int64_t stage) const {
    for (std::int64_t s = 0; s < stages(); ++s)
      if (ir::stage_after(info(), size, s) == stage) return s;
    return std::nullopt;
  }
};

// The program of one pipeline rank.
class PipelineProgram {
 public:
  PipelineProgram(const Pipeline& pipeline, std::int64_t rank) : p_(pipeline), rank_(rank) {}

  std::string text() {
    std::vector<std::int64_t> mine;
    for (std::int64_t s = 0; s < p_.stages(); ++s)
      if (p_.rank_of(s) == rank_) mine.push_back(s);
    for (const std::int64_t s : mine) forward(s);
    for (auto s = mine.rbegin(); s != mine.rend(); ++s) backward(*s);
    std::string body, carries;
    for (const std::string& line : lines_) body += (body.empty() ? "" : ",\n") + line;
    if (p_.one_sum) carries = carry("sum", last_sum_);
    else
      for (const std::int64_t s : mine) carries += (carries.empty() ? "" : ",") + carry("sum" + std::to_string(s), "next" + std::to_string(s));
    const std::string trip = p_.trip.empty() ? std::to_string(ir::microbatches_per_stage(p_.info(), p_.size)) : p_.trip;
    return R"({"out": "zero", "op": "constant", "value": 0, "type": "f32[8]"},)"
           R"({"op": "loop", "index": "m", "trip": )" +
           trip + R"(, "carry": [)" + carries + R"(], "body": [)" + body + "]}";
  }

 private:
  static std::string carry(const std::string& arg, const std::string& next) {
    return R"({"init": "zero", "arg": ")" + arg + R"(", "next": ")" + next + R"(", "out": "total_)" + arg + "\"}";
  }
  void mul(const std::string& out, const std::string& a, const std::string& b, const std::string& action) {
    lines_.push_back(R"({"out": ")" + out + R"(", "op": "mul", "in": [")" + a + R"(", ")" + b + R"("], "action": ")" + action + "\"}");
  }
  void send(const std::string& in, std::int64_t to, const std::string& channel, const std::string& action) {
    lines_.push_back(R"({"op": "send", "in": ")" + in + R"(", "peer": "r)" + std::to_string(to) + R"(", "channel": ")" + channel + R"(", "number": "m", "action": ")" + action + "\"" +
                     (p_.async_sends ? R"(, "async": true)" : "") + "}");
  }
  void recv(const std::string& out, std::int64_t from, const std::string& channel, const std::string& action) {
    lines_.push_back(R"({"out": ")" + out + R"(", "op": "recv", "type": "f32[8]", "peer": "r)" + std::to_string(from) + R"(", "channel": ")" + channel + R"(", "number": "m", "action": ")" +
                     action + "\"}");
  }

  void forward(std::int64_t stage) {
    const std::string s = std::to_string(stage), action = s + "F";
    const auto before = p_.before(stage), after = ir::stage_after(p_.info(), p_.size, stage);
    std::string x = "x" + s;
    if (!before) mul(x, "x", "x", action);
    else if (p_.rank_of(*before) == rank_) x = "y" + std::to_string(*before);
    else recv(x, p_.rank_of(*before), "act" + std::to_string(*before), action);
    input_[stage] = x;
    mul("y" + s, x, x, action);
    if (after && p_.rank_of(*after) != rank_) send("y" + s, p_.rank_of(*after), "act" + s, action);
  }

  void backward(std::int64_t stage) {
    const std::string s = std::to_string(stage), action = s + (p_.split ? "I" : "B"), weight = s + (p_.split ? "W" : "B");
    const auto before = p_.before(stage), after = ir::stage_after(p_.info(), p_.size, stage);
    std::string dy = "dy" + s;
    if (!after) mul(dy, "y" + s, "y" + s, action);
    else if (p_.rank_of(*after) == rank_) dy = "dx" + std::to_string(*after);
    else recv(dy, p_.rank_of(*after), "grad" + s, action);
    mul("dx" + s, dy, input_[stage], action);
    if (before && p_.rank_of(*before) != rank_) send("dx" + s, p_.rank_of(*before), "grad" + std::to_string(*before), action);
    mul("g" + s, dy, "y" + s, weight);
    const std::string sum = p_.one_sum ? (last_sum_.empty() ? "sum" : last_sum_) : "sum" + s;
    last_sum_ = "next" + s;
    const std::string operands = p_.recurrence ? R"(g)" + s + R"(", ")" + sum : sum + R"(", "g)" + s;
    lines_.push_back(R"({"out": ")" + last_sum_ + R"(", "op": ")" + (p_.recurrence ? "sub" : "add") + R"(", "in": [")" + operands + R"("], "action": ")" + weight + "\"}");
  }

  const Pipeline& p_;
  std::int64_t rank_;
  std::vector<std::string> lines_;
  std::map<std::int64_t, std::string> input_;  // of each stage
  std::string last_sum_;
};

inline std::string generated(const Pipeline& p, const std::string& more = "") {
  return R"({"generator": ")" + p.generator + R"(", "microbatches": )" + std::to_string(p.size.microbatches) + R"(, "virtual_stages": )" + std::to_string(p.size.virtual_stages) + more + "}";
}

using Rows = std::vector<std::vector<std::string>>;

inline std::string explicit_rows(const Rows& rows, std::int64_t microbatches, const std::string& more = "") {
  std::string text = R"({"microbatches": )" + std::to_string(microbatches) + more + R"(, "actions": [)";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += r == 0 ? "[" : ", [";
    for (std::size_t c = 0; c < rows[r].size(); ++c) text += (c == 0 ? "\"" : ", \"") + rows[r][c] + "\"";
    text += "]";
  }
  return text + "]}";
}

inline Rows rows_of(const Pipeline& p) {
  Rows rows;
  for (const auto& row : lowering::generate_schedule(p.info(), p.size)) {
    rows.emplace_back();
    for (const ir::ScheduleCell& cell : row) rows.back().push_back(to_string(cell));
  }
  return rows;
}

inline std::string pipeline_text(const Pipeline& p, const std::string& schedule) {
  std::string text = R"({"shardproof": 1, "mesh": [["pp", )" + std::to_string(p.size.ranks) + "]" + p.more_mesh +
                     R"(], "reference": {"inputs": [{"name": "x", "type": "f32[8]"}], "state": [], "outputs": [], "body": []}, "stages": [)";
  for (std::int64_t r = 0; r < p.size.ranks; ++r) {
    text += (r == 0 ? "\n" : ",\n") + (R"({"name": "r)" + std::to_string(r) + R"(", "where": {"pp": [)" + std::to_string(r) + R"(]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [)");
    text += PipelineProgram(p, r).text() + "]}";
  }
  return text + "]" + (schedule.empty() ? "" : R"(, "schedule": )" + schedule) + "}";
}

inline ir::Document pipeline(const Pipeline& p, const std::string& schedule) { return read(pipeline_text(p, schedule)); }

}  // namespace shardproof::verifier::structure
