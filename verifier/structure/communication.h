// What the stages of a plan say to each other, without what they compute: for each stage the sequence of collectives and
// messages that may involve ranks that run other programs, loops kept as loops, but for loops that a schedule takes apart: these are
// the actions of its row.
//
// Collectives whose groups lie within one class of ranks are left out: their members run the same instructions in the
// same order, so they match, and a wait in one of them is a wait for a rank at the same place of the same program. They stay
// if they share a `stream` with others, behind which they have to wait, or a communicator with some that do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "verifier/structure/findings.h"
#include "verifier/structure/rank_classes.h"
#include "verifier/structure/scheduled_plan.h"

namespace shardproof::verifier::structure {

// A set of groups that partition the world; collectives on it are matched in program order (NCCL, MPI: a communicator has
// one queue).
struct Communicator {
  std::string text;  // for messages: "`pp`", "the groups [[0,1],[2,3]]"
  GroupClasses groups;
  bool crosses = true;  // some group has ranks of several classes
};

// Messages of one name from one stage to another, in the order in which they are sent.
struct Channel {
  std::size_t from = 0, to = 0;  // positions in plan.stages
  std::string name;
};

// An instruction that communicates with other programs.
struct Site {
  const ir::Instruction* instruction = nullptr;
  std::size_t stage = 0;
  bool message = false;
  std::size_t link = 0;  // position in channels if a message, else in communicators
  bool async() const { return instruction->attributes.get_or<bool>("async", false); }
};

struct Item {
  enum class Kind { start, wait, loop, action };
  Kind kind = Kind::start;
  std::size_t site = 0;              // start; wait: of the transfer that is waited for
  const ir::Instruction* instruction = nullptr;  // wait, loop; action: the loop over microbatches
  std::vector<Item> body;            // loop; action: what it runs of one iteration
  std::int64_t iteration = -1;       // action
  std::size_t cell = 0;              // action: in ScheduledProgram::cells
  bool has_body() const { return kind == Kind::loop || kind == Kind::action; }
};

struct Communication {
  std::vector<Communicator> communicators;
  std::vector<Channel> channels;
  std::vector<Site> sites;
  std::vector<std::vector<Item>> scripts;  // of each stage

  // Items of a stage that start something on the link; loops and actions without any are left out.
  const std::vector<Item>& on_link(std::size_t stage, bool message, std::size_t link) const;
  void index_links();  // makes on_link know the scripts

 private:
  using Link = std::pair<bool, std::size_t>;
  std::map<Link, std::vector<Item>> split(const std::vector<Item>& items) const;
  std::vector<std::map<Link, std::vector<Item>>> by_link_;  // of each stage
};

// Reports messages to stages that do not exist or have other ranks (SP0303), and what it cannot tell (undecided).
// `scheduled`: null if the plan has no schedule.
Communication communication_of(const ir::Plan& plan, const RankClasses& classes, const ScheduledPlan* scheduled, Findings& findings);

// Axes along which a message goes from one coordinate of several to another: their coordinates are to be told apart.
std::set<std::string> axes_crossed_by_messages(const ir::Plan& plan);

// What both sides of a transfer have to agree in.
struct Signature {
  ir::OpCode op = ir::OpCode::all_reduce;
  std::string reduce;               // kind of reduction; empty: none
  std::int64_t argument = 0;        // `root` of broadcast_from, `shift` of permute
  std::vector<std::string> order;   // axes of the group from major to minor, where positions matter and axes are given
  ir::TensorType type;              // of the operand, or what recv receives
};
Signature signature_of(const ir::Plan& plan, const Site& site);
// In what they differ ("the number of elements"), and how; nullopt: they match.
struct Difference {
  std::string in;
  std::string a, b;
};
std::optional<Difference> difference(const Signature& a, const Signature& b);

// "ranks pp=0 (stage `first`)"
std::string ranks_text(const ir::Plan& plan, const RankClasses& classes, std::size_t cls, std::size_t stage);
std::string describe(const ir::Plan& plan, const Site& site);

}  // namespace shardproof::verifier::structure
