// Expressions as written, for comparison with what the pool makes of them: a plain tree that is evaluated
// directly and can be built through the pool's constructors. Nothing is simplified here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "solvers/evaluate.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers::testing {

struct RawIndex;
using Index = std::shared_ptr<const RawIndex>;

struct RawIndex {
  enum class Kind { variable, linear, div, mod, load };
  Kind kind = Kind::linear;
  std::int64_t constant = 0;               // linear: constant + sum coefficient * part
  std::vector<std::int64_t> coefficients;  // linear
  std::vector<Index> parts;                // linear; div, mod: one; load: indices
  std::int64_t divisor = 1;                // div, mod
  VarId var;
  TensorId tensor;
};

Index number(std::int64_t value);
Index variable(VarId var);
Index linear(std::int64_t constant, std::vector<std::pair<std::int64_t, Index>> terms);
Index div(Index e, std::int64_t divisor);
Index mod(Index e, std::int64_t divisor);
Index load(TensorId tensor, std::vector<Index> indices);

struct RawTerm;
using Term = std::shared_ptr<const RawTerm>;

struct RawTerm {
  enum class Kind { constant, access, value, range, add, multiply, select, apply, reduce };
  Kind kind = Kind::constant;
  Rational number;
  TensorId tensor;
  std::vector<Index> indices;  // access; value, range: one
  std::int64_t lo = 0, hi = 0;
  std::vector<Term> parts;  // select: condition, then, otherwise; reduce: body
  Function function = Function::exp;
  Reduction reduction = Reduction::sum;
  std::vector<VarId> bound;
};

Term constant(Rational value);
Term access(TensorId tensor, std::vector<Index> indices);
Term value(Index e);
Term range(Index e, std::int64_t lo, std::int64_t hi);
Term add(std::vector<Term> parts);
Term multiply(std::vector<Term> parts);
Term select(Term condition, Term then, Term otherwise);  // condition: 0 or 1
Term apply(Function function, std::vector<Term> arguments);
Term reduce(Reduction reduction, std::vector<VarId> bound, Term body);

std::int64_t evaluate(const Index& e, const Assignment& values, const TensorContents& contents);
// NaN also near a singular point, where the value of another spelling could differ by rounding. A range in a product
// that is 0 hides the other factors.
double evaluate(const TermPool& pool, const Term& term, const Assignment& values, const TensorContents& contents);

// The expression with `to` written for every occurrence of the variable. `to` must not mention variables bound in it.
Index replace(const Index& e, VarId var, const Index& to);
Term replace(const Term& term, VarId var, const Index& to);

IndexId build(TermPool& pool, const Index& e);
TermId build(TermPool& pool, const Term& term);

std::string to_string(const TermPool& pool, const Index& e);
std::string to_string(const TermPool& pool, const Term& term);

// Equal up to rounding; infinities only equal themselves.
bool close(double expected, double found);

// Deterministic on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15ULL); }
  std::int64_t between(std::int64_t lo, std::int64_t hi) {  // inclusive
    return lo + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(hi - lo + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

// `cases` times SHARDPROOF_FUZZ_SCALE, for long runs outside the test suite (default 1). Seeds start at
// SHARDPROOF_FUZZ_SEED (default 1), so that long runs can be divided.
std::uint64_t first_seed();
std::uint64_t last_seed(int cases);

// All assignments of the variables if there are at most `limit`, else `limit` random ones.
std::vector<Assignment> assignments(const TermPool& pool, const std::vector<VarId>& vars, std::size_t limit,
                                    Random& random);

}  // namespace shardproof::solvers::testing
