// Hypotheses about a fault: one changed instruction, or a collective inserted behind one. A hypothesis is only a
// new term for one plan value; whether it repairs the plan is for the prover to say.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verifier/session.h"

namespace shardproof::verifier {

struct Repair {
  std::string code, name;       // of the fault it would repair
  std::string finding;          // what is wrong with the value, without its name: "lacks a sum over mesh axis `tp`"
  std::string fix;              // the change, as an order
  std::string expected, found;  // placements or numbers in words
  std::string axis;
  std::size_t step = 0;         // of the instruction concerned
  ir::ValueId value;            // whose term it replaces
  solvers::TermId term;
  // How the file would change: the instruction in place of the old one, and a collective behind it (both optional).
  std::optional<ir::Instruction> replacement;
  std::optional<ir::Instruction> inserted;  // reads and redefines `value`
  std::optional<ir::Rational> factor;  // or the value times this
  // Instead: the claim (of the session) that should be about another value.
  std::optional<std::size_t> claim;
  ir::ValueId claimed;
  // Instead: what is done to the plan, where that is more than one instruction. What the finding is about, and where.
  std::function<void(ir::Document&)> change;
  std::string subject;
  ir::Span span;
  bool guess = false;  // without evidence of its own: it counts if more claims prove
};

// An all-reduce of `kind` ("sum", "max") over the axes behind the value, without its term.
Repair missing_reduction(std::size_t step, ir::ValueId value, const std::vector<std::string>& axes, const std::string& kind);
// A value that matches no reference value: reductions over mesh axes that would make it match.
// `wanted` says of which results. Values that other collectives complete later are tried too.
std::vector<Repair> missing_reductions(Session& session, std::size_t step, const std::function<bool(ir::ValueId)>& wanted);
// Variations of the instruction itself: another axis or axis order, another reduction, no collective at all, swapped
// operands, a shifted or re-based slice, an earlier version of an operand. Only those whose result differs.
std::vector<Repair> variations(Session& session, std::size_t step);
// The same for numbers, conditions and indices that the instruction reads or makes: another number of the reference,
// another direction of a comparison, another first row, another table of indices; or no arithmetic here at all.
std::vector<Repair> misreadings(Session& session, std::size_t step);
// The value times a number that plans get wrong: sizes of mesh axes and loops, 2, -1, and their inverses.
std::vector<Repair> rescalings(Session& session, std::size_t step);

}  // namespace shardproof::verifier
