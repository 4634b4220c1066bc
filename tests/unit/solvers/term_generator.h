// Random expressions of the kinds layouts, masks and reductions make, for comparison with the pool's normal forms.
#pragma once

#include <vector>

#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {

struct Shape {
  bool functions = false;
  bool reductions = false;
  bool masks = false;  // -infinity as the masked branch of a select, only below max and exp
};

class TermGenerator {
 public:
  TermGenerator(TermPool& pool, Random& random, Shape shape);

  const std::vector<VarId>& free_vars() const { return free_; }
  const std::vector<TensorId>& tensors() const { return tensors_; }

  Index index(int depth);  // over the variables in scope
  Term guard();            // one range on a simple form
  Term condition();        // a sum of products of guards with value 0 or 1
  Term term(int depth);    // real-valued
  Term sum();              // a reduction with 1-3 bound variables over guarded products
  Term chunks(Reduction op = Reduction::sum);  // adjacent or nearly adjacent sums, or maxima, of one body
  Term maximum();          // a max reduction, perhaps masked
  Term logarithm(int depth);  // of exponentials, sums of them and reciprocals
  Term reciprocal(int depth);  // of sums with fractions and exponentials
  Term factor();           // an access with digit, linear and quotient indices

  VarId bind(std::int64_t extent);  // a new variable in scope; the innermost unbind() removes it
  void unbind();

 private:
  VarId any_var() { return random_.pick(scope_); }
  Index form();
  Index digit_form();
  Term body(int factors);
  Term masked_score();
  Term positive(int depth);
  Term function(int depth);
  std::vector<VarId> bind_some(std::int64_t most);

  TermPool& pool_;
  Random& random_;
  Shape shape_;
  std::vector<VarId> free_, scope_;
  std::vector<TensorId> tensors_;  // by rank: 1, 1, 2
  TensorId ids_;
  std::vector<Index> forms_;  // base forms over free variables, so that guards meet
  std::int64_t bound_count_ = 0;
};

}  // namespace shardproof::solvers::testing
