// SMT-LIB text: what an SMT solver is asked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

// One step into the context of a claim: variables that are functions of others, or guards that hold.
struct ContextItem {
  Renaming bind;              // let these be, where that is within their extents
  std::vector<Guard> assume;
};
using Context = std::vector<ContextItem>;

// Text of integers, and of claims about them. Free variables are within their extents everywhere; elements of integer
// tensors are within their bounds wherever one is read.
class SmtText {
 public:
  explicit SmtText(const Algebra& algebra) : algebra_(algebra) {}

  std::string index(const Index& e);
  std::string guard(const Guard& g);
  std::string all(const std::vector<Guard>& guards);
  std::string equal(const Index& a, const Index& b);
  std::string inside(const std::vector<Variable>& variables);
  // Exactly one of the claims; all of them; `let` in front of a claim.
  static std::string exactly_one(const std::vector<std::string>& claims);
  static std::string conjunction(const std::vector<std::string>& claims);
  std::string let(const Renaming& bind, const std::string& claim);

  // The claim `goal` holds wherever the context does: called with a function that makes the text of the goal, so that
  // bounds of what it reads are known to it.
  template <typename Goal>
  std::string under(const Context& context, Goal&& goal);

  // Scripts that are all unsatisfiable if and only if the claims hold.
  std::vector<std::string> scripts(const std::vector<std::string>& claims) const;

 private:
  std::string begin_let(const Renaming& bind);
  std::string open(const Context& context, int& closing);
  std::string with_facts(const std::string& goal);
  std::string name(Variable v);
  std::string atom(const Atom& a);

  const Algebra& algebra_;
  std::set<Variable> used_;
  std::map<TensorId, std::string> tensors_;  // integer tensors, as functions
  std::vector<std::string> declarations_;
  std::vector<std::string> facts_;           // bounds of what was read since the last step
};

template <typename Goal>
std::string SmtText::under(const Context& context, Goal&& goal) {
  int closing = 0;
  const std::string start = open(context, closing);
  const std::string text = goal();
  if (text == "true") return text;
  return start + with_facts(text) + std::string(static_cast<std::size_t>(closing), ')');
}

}  // namespace shardproof::solvers::witness
