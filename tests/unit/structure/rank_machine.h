// A machine that runs every rank by itself, for tests of checks that know classes of ranks only. Explicit rows of a schedule
// decide the order of labelled loops; numbers of messages are those of the loop over microbatches.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/print.h"

namespace shardproof::verifier::structure {

struct MachineStep {
  const ir::Instruction* instruction;
  const ir::Program* program;
  std::int64_t microbatch = -1;  // of the action that runs it
};

// One action of a row: a stage, a type, a microbatch; "0OPT" has microbatch -1.
struct RowAction {
  std::string label;
  std::int64_t microbatch = -1;
};
inline std::vector<RowAction> actions_of(const std::vector<std::string>& row) {
  std::vector<RowAction> actions;
  for (const std::string& cell : row) {
    const bool several = cell.starts_with("(");
    std::string rest = several ? cell.substr(1, cell.find(')') - 1) : cell;
    while (!rest.empty()) {
      const std::string one = rest.substr(0, rest.find(';'));
      rest = one.size() == rest.size() ? std::string() : rest.substr(one.size() + 1);
      const std::size_t type = one.find_first_not_of("0123456789"), end = one.find_first_of("0123456789", type);
      actions.push_back({one.substr(0, end), end == std::string::npos ? -1 : std::stoll(one.substr(end))});
    }
  }
  return actions;
}
// Whether an action runs an instruction: "0B" also what is labelled "0I" or "0W".
inline bool runs(const std::string& action, const std::string& label) {
  const std::string stage = action.substr(0, action.size() - 1);
  return action == label || (action.ends_with("B") && (label == stage + "I" || label == stage + "W"));
}

// What a program says to others, in the order in which it runs; `row` runs its loop over microbatches.
inline void unroll(const ir::Instruction& i, const ir::Program& program, const std::vector<std::string>* row, std::int64_t microbatch, std::vector<MachineStep>& into) {
  if (i.op != ir::OpCode::loop) {
    if (ir::schema_of(i.op).family == ir::OpFamily::communication) into.push_back({&i, &program, microbatch});
    return;
  }
  const bool scheduled = row != nullptr && !i.region->body.empty() && !i.region->body.front().action.empty();
  for (std::int64_t k = 0; !scheduled && k < i.region->trip; ++k)
    for (const ir::Instruction& inner : i.region->body) unroll(inner, program, row, microbatch, into);
  if (!scheduled) return;
  for (const RowAction& action : actions_of(*row))
    for (const ir::Instruction& inner : i.region->body)
      if (runs(action.label, inner.action)) unroll(inner, program, nullptr, action.microbatch, into);
}

// One rank: its steps, and which transfers of its own have started and ended.
struct MachineRank {
  std::size_t stage = 0;
  std::vector<MachineStep> steps;
  std::size_t at = 0;
  bool started = false;                     // the step at `at`
  struct Transfer {
    std::string queue;                      // group or channel, as seen by this rank
    std::size_t turn;
    std::string stream, signature;
    const ir::Instruction* instruction;
    std::int64_t microbatch;
    bool ended = false;
  };
  std::vector<Transfer> transfers;
  std::map<std::string, std::size_t> turns;  // of each queue
};

class Machine {
 public:
  explicit Machine(const ir::Plan& plan) : plan_(plan) {
    const ir::Mesh& mesh = plan.meshes.front();
    for (std::int64_t r = 0; r < mesh.size(); ++r) {
      const ir::Coordinate c = ir::coordinate_of(mesh, r);
      MachineRank rank;
      for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        bool here = true;
        for (const ir::OwnedAxis& w : plan.stages[s].where)
          here = here && std::count(w.coordinates.begin(), w.coordinates.end(), c[*mesh.find_axis(w.axis)]) > 0;
        if (!here) continue;
        rank.stage = s;
        const bool scheduled = plan.schedule && !plan.schedule->actions.empty();
        for (const ir::Instruction& i : plan.stages[s].program.body) unroll(i, plan.stages[s].program, scheduled ? &plan.schedule->actions[s] : nullptr, -1, rank.steps);
      }
      ranks_.push_back(std::move(rank));
    }
  }

  // Whether all ranks come to their end, each transfer with its like.
  bool runs() {
    while (advance()) {}
    for (const MachineRank& rank : ranks_) {
      if (rank.at < rank.steps.size()) return false;
      for (const MachineRank::Transfer& t : rank.transfers)
        if (!t.ended) return false;
    }
    return !mismatch_;
  }

 private:
  bool advance() {
    bool moved = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      MachineRank& rank = ranks_[r];
      while (rank.at < rank.steps.size()) {
        const MachineStep& step = rank.steps[rank.at];
        if (step.instruction->op == ir::OpCode::wait) {
          if (!ended_last(rank, step.instruction->inputs.front(), step.microbatch)) break;
        } else {
          if (!rank.started) start(r, step);
          moved = moved || !rank.started;
          rank.started = true;
          if (!step.instruction->attributes.get_or<bool>("async", false) && !rank.transfers.back().ended) break;
        }
        ++rank.at;
        rank.started = false;
        moved = true;
      }
    }
    return end_some() || moved;
  }

  static bool ended_last(const MachineRank& rank, ir::ValueId value, std::int64_t microbatch) {
    for (auto t = rank.transfers.rbegin(); t != rank.transfers.rend(); ++t)
      if (t->microbatch == microbatch && !t->instruction->outputs.empty() && t->instruction->outputs.front() == value) return t->ended;
    return true;
  }

  std::vector<std::size_t> group_of(std::size_t r, const MachineStep& step) const {
    const ir::Mesh& mesh = plan_.meshes.front();
    const auto& axes = step.instruction->attributes.get<std::vector<std::string>>("axes");
    ir::Coordinate c = ir::coordinate_of(mesh, static_cast<std::int64_t>(r));
    for (const std::string& a : axes) c[*mesh.find_axis(a)] = 0;
    std::vector<std::size_t> members;
    for (std::size_t other = 0; other < ranks_.size(); ++other) {
      ir::Coordinate o = ir::coordinate_of(mesh, static_cast<std::int64_t>(other));
      for (const std::string& a : axes) o[*mesh.find_axis(a)] = 0;
      if (o == c) members.push_back(other);
    }
    return members;
  }

  // The rank of the peer stage at the same place.
  std::size_t peer_of(std::size_t r, const std::string& name) const {
    const ir::Mesh& mesh = plan_.meshes.front();
    const ir::StageProgram& own = plan_.stages[ranks_[r].stage];
    ir::Coordinate c = ir::coordinate_of(mesh, static_cast<std::int64_t>(r));
    for (const ir::StageProgram& peer : plan_.stages) {
      if (peer.name != name) continue;
      for (std::size_t w = 0; w < peer.where.size(); ++w) {
        const auto& a = own.where[w].coordinates;
        auto& x = c[*mesh.find_axis(peer.where[w].axis)];
        x = peer.where[w].coordinates[static_cast<std::size_t>(std::find(a.begin(), a.end(), x) - a.begin())];
      }
    }
    return static_cast<std::size_t>(ir::rank_of(mesh, c));
  }

  void start(std::size_t r, const MachineStep& step) {
    MachineRank& rank = ranks_[r];
    const ir::Instruction& i = *step.instruction;
    MachineRank::Transfer t;
    t.instruction = &i;
    t.microbatch = step.microbatch;
    t.stream = i.attributes.get_or<std::string>("stream", {});
    if (i.op == ir::OpCode::send || i.op == ir::OpCode::recv) {
      const std::size_t peer = peer_of(r, i.attributes.get<std::string>("peer"));
      const bool sends = i.op == ir::OpCode::send;
      t.queue = i.attributes.get<std::string>("channel") + " " + std::to_string(sends ? r : peer) + ">" + std::to_string(sends ? peer : r) + (sends ? " s" : " r");
      t.signature = ir::to_string(step.program->value(sends ? i.inputs.front() : i.outputs.front()).type);
      if (i.attributes.has("number")) t.signature += " number " + std::to_string(ir::evaluate(i.attributes.get<ir::CoordExpr>("number"), [&](const std::string&) { return step.microbatch; }));
    } else {
      for (const std::size_t member : group_of(r, step)) t.queue += std::to_string(member) + ",";
      const ir::TensorType& type = step.program->value(i.inputs.front()).type;
      t.signature = std::string(ir::schema_of(i.op).name) + i.attributes.get_or<std::string>("reduce", {}) + std::to_string(ir::element_count(type.shape));
    }
    t.turn = rank.turns[t.queue]++;
    rank.transfers.push_back(std::move(t));
  }

  const MachineRank::Transfer* find(std::size_t r, const std::string& queue, std::size_t turn) const {
    for (const MachineRank::Transfer& t : ranks_[r].transfers)
      if (t.queue == queue && t.turn == turn) return &t;
    return nullptr;
  }

  // Whether everything before `t` on its queue and its stream has ended at this rank.
  static bool at_its_turn(const MachineRank& rank, const MachineRank::Transfer& t) {
    return std::all_of(rank.transfers.begin(), rank.transfers.end(), [&](const MachineRank::Transfer& before) {
      return &before >= &t || before.ended || (before.queue != t.queue && (t.stream.empty() || before.stream != t.stream));
    });
  }

  bool end_some() {
    bool some = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (MachineRank::Transfer& t : ranks_[r].transfers) {
        if (t.ended) continue;
        const bool message = t.instruction->op == ir::OpCode::send || t.instruction->op == ir::OpCode::recv;
        std::vector<std::pair<std::size_t, std::string>> sides;
        if (message) {
          const std::string other = t.queue.substr(0, t.queue.size() - 1) + (t.queue.back() == 's' ? "r" : "s");
          sides = {{r, t.queue}, {peer_of(r, t.instruction->attributes.get<std::string>("peer")), other}};
        } else {
          for (const std::size_t member : group_of(r, {t.instruction, nullptr})) sides.emplace_back(member, t.queue);
        }
        bool all = true;
        for (const auto& [member, queue] : sides) {
          const MachineRank::Transfer* own = find(member, queue, t.turn);
          all = all && own != nullptr && at_its_turn(ranks_[member], *own);
          if (own != nullptr && own->signature != t.signature) mismatch_ = true;
        }
        if (!all) continue;
        for (const auto& [member, queue] : sides) const_cast<MachineRank::Transfer*>(find(member, queue, t.turn))->ended = true;
        some = true;
      }
    return some;
  }

  const ir::Plan& plan_;
  std::vector<MachineRank> ranks_;
  bool mismatch_ = false;
};

}  // namespace shardproof::verifier::structure
