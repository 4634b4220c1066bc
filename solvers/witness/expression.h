// Expressions as the second witness reads them: sums of products under guards, with every reduction spelled out and index
// arithmetic left as it was written. Nothing here comes from the term pool but the names of tensors and functions: what the
// pool's rewriting claims is to be found again, not repeated. The few laws that `Algebra` does apply are listed at its
// functions; whatever needs integers to be compared is left to an SMT solver (identity.h).
//
// Values have keys: equal keys mean equal expressions, letter by letter.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/rational.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers::witness {

using Variable = int;  // number of a variable of an Algebra, which knows its extent

struct Atom;
using AtomPtr = std::shared_ptr<const Atom>;

// constant + sum of coefficient * atom, atoms sorted by key, no coefficient zero.
struct Index {
  std::int64_t constant = 0;
  std::vector<std::pair<AtomPtr, std::int64_t>> terms;

  std::string key() const;
  bool is_constant() const { return terms.empty(); }
};

// 1 if lo <= form <= hi, else 0. kUnbounded as in the pool.
struct Guard {
  Index form;
  std::int64_t lo = 0, hi = 0;
  std::string form_key = {};  // kept by Algebra once it has looked at the guard

  std::string key() const;
};

struct Atom {
  enum class Kind : std::uint8_t { variable, quotient, remainder, load, chosen };
  Kind kind = Kind::variable;
  Variable variable = 0;
  Index inner;                 // quotient, remainder; chosen: what it is where all guards hold, else 0
  std::int64_t divisor = 1;    // quotient, remainder
  TensorId tensor;             // load
  std::vector<Index> indices;  // load
  std::vector<Guard> guards;   // chosen
  std::string key;
};

struct Summand;
using Form = std::vector<Summand>;  // their sum

// The maximum over all branches, and over the places (values of bound variables) in each where the guards hold.
struct Branch {
  std::vector<Variable> bound;
  std::vector<Guard> guards;
  Form body;
};

struct Factor {
  enum class Kind : std::uint8_t { access, integer, apply, maximum };
  Kind kind = Kind::access;
  TensorId tensor;               // access
  std::vector<Index> indices;    // access
  AtomPtr atom;                  // integer: its value as a number
  Function function = Function::exp;
  std::vector<Form> arguments;   // apply
  std::vector<Branch> branches;  // maximum
  std::int32_t power = 1;        // non-zero
  std::string key;               // without the power
  std::string head;              // the key without indices: what may be equal has equal heads
};

// coefficient * sum over the bound variables of the product of guards and factors.
struct Summand {
  Rational coefficient = Rational(1);
  std::vector<Variable> bound;
  std::vector<Guard> guards;
  std::vector<Factor> factors;  // sorted by head, then key
};

// The expression would be too large to look at, or is of a kind that has no rule here.
class NotCovered : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Algebra {
 public:
  explicit Algebra(const TermPool& pool) : pool_(pool) {}

  Variable fresh(std::int64_t extent);
  std::int64_t extent(Variable v) const { return extents_[static_cast<std::size_t>(v)]; }
  std::size_t variables() const { return extents_.size(); }
  const TermPool& pool() const { return pool_; }

  // Integers: like terms are added up, quotients of constants and of quotients ((e/a)/b = e/(ab)) computed, nothing else.
  static Index constant(std::int64_t value) { return {value, {}}; }
  Index variable(Variable v) const;
  static Index combine(const Index& a, std::int64_t ka, const Index& b, std::int64_t kb);
  static Index scale(const Index& a, std::int64_t k, std::int64_t plus = 0) { return combine(a, k, {1, {}}, plus); }
  Index quotient(const Index& e, std::int64_t divisor) const;
  Index remainder(const Index& e, std::int64_t divisor) const;
  Index load(TensorId tensor, std::vector<Index> indices) const;
  Index chosen(std::vector<Guard> guards, Index value) const;

  // Numbers. Laws: those of a commutative ring, sums over products distributed; guards that contradict each other on one form, or that its interval decides;
  // exp(a) exp(b) = exp(a + b); 1/(x y) = 1/x 1/y, 1/(c x) = 1/c 1/x; sqrt(x)^2 = x; log(exp(x)) = x; exp(-inf) = 0;
  // max is associative, with unit -inf; a comparison of integers is a guard. What they need of their operands is what
  // the prover's own side conditions need (x != 0, x >= 0): it is judged there.
  Form number(Rational value) const;
  Form access(TensorId tensor, std::vector<Index> indices) const;
  Form integer(const Index& e) const;
  Form guarded(const Guard& guard, const Form& form) const { return guarded(std::vector<Guard>{guard}, form); }
  Form guarded(const std::vector<Guard>& guards, const Form& form) const;
  Form add(Form a, const Form& b) const;
  Form scale(Form a, Rational k) const;
  Form multiply(const Form& a, const Form& b);
  Form power(const Form& a, std::int32_t exponent);
  Form apply(Function function, std::vector<Form> arguments);
  Form sum(const std::vector<Variable>& bound, Form body) const;
  Form maximum(std::vector<Branch> branches);

  // The integer that the form is: linear in integers, with guards; throws NotCovered if it is none.
  Index as_integer(const Form& form) const;
  bool is_integer(const Form& form) const;

  // Like summands added up, unused bound variables counted, what is zero left out.
  Form simplified(const Form& form) const;

 private:
  void check_size(std::size_t summands) const;
  void work();
  Form multiply_one(const Summand& a, const Summand& b);
  Form renamed(const Form& form);
  // The range of a form that guards are on, cut at their bounds, and what the forms are on each piece; nothing if no guard
  // is left that does not mention the bound variables of its own summand.
  std::vector<std::pair<Guard, std::vector<Form>>> cut(const std::vector<Form>& forms);
  Form apply_plain(Function function, std::vector<Form> arguments);  // arguments without guards
  Form inverse(const Form& form);
  Form exponential(Form argument);
  bool normalise(Summand& s);  // false: it is zero

  const TermPool& pool_;
  std::vector<std::int64_t> extents_;
  std::int64_t work_ = 0;  // products made so far
};

// Bound variables by order of occurrence: equal for summands that differ in their names only, mostly.
std::string key_of(const Summand& s);
std::string key_of(const Form& form);
std::string head_of(const Summand& s);
bool mentions(const Index& e, Variable v);
bool mentions(const Factor& f, Variable v);
bool mentions(const Summand& s, Variable v);

// Replaces variables everywhere; a variable that is not in the map stays.
using Renaming = std::vector<std::pair<Variable, Index>>;
Index replaced(const Algebra& algebra, const Index& e, const Renaming& by);

}  // namespace shardproof::solvers::witness
