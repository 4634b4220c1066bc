// Guesses which place of one product corresponds to which of another (identity.h). Not trusted.
#pragma once

#include <optional>
#include <vector>

#include "solvers/witness/smt_text.h"
#include "solvers/witness/solve.h"

namespace shardproof::solvers::witness {

struct Alignment {
  Renaming forth;                  // bound variables of the right side, over those of the left
  Renaming back;                   // the other way round
  std::vector<std::size_t> order;  // factor k of the left side corresponds to factor order[k] of the right
  bool seen = false;               // both were met at some sampled place where all guards hold
};

class Aligner {
 public:
  explicit Aligner(const Algebra& algebra) : algebra_(algebra) {}

  // Nothing if there is no map, or samples show that the factors differ at places that it relates.
  std::optional<Alignment> align(const Summand& left, const Summand& right, const Context& context);
  std::optional<Alignment> align(const Branch& left, const Branch& right, const Context& context);

 private:
  // Equations "right's index = left's index", from what both read.
  struct Equations {
    std::vector<Equation> forth, back;
    std::vector<Variable> inner;  // bound deeper down
  };
  void relate(const Index& left, const Index& right, Equations& equations) const;
  void relate(const Factor& left, const Factor& right, Equations& equations) const;
  void relate(const Form& left, const Form& right, Equations& equations) const;
  bool solve_both(Equations equations, const std::vector<Variable>& left, const std::vector<Variable>& right,
                  const std::vector<Guard>& left_guards, const std::vector<Guard>& right_guards, Alignment& result) const;
  // False if some sample shows that the factors differ.
  bool survives(const Summand& left, const Summand& right, const Context& context, Alignment& alignment) const;

  const Algebra& algebra_;
};

}  // namespace shardproof::solvers::witness
