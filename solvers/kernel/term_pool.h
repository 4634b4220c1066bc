// Symbolic terms over reference tensors: the language in which a plan value is a function of its local
// element indices, the mesh coordinates and the loop indices.
//
//   index term   quasi-affine integer expression: c + sum k_i * atom_i, where an atom is a variable, a floor
//                division, a modulus, or an element of an integer tensor (token ids)
//   scalar term  a polynomial with rational coefficients over factors: tensor accesses, function
//                applications, reductions with bound variables, range guards [lo <= e <= hi] (0 or 1) and
//                index terms read as numbers
//
// Every constructor returns the canonical form, hash-consed: equal ids mean equal functions. The converse
// is not claimed. Each rewrite is an equation that holds for all values of the variables within their
// extents; rules with side conditions record them (see Obligation). This folder is the trusted base,
// except unify.* and what fold*.* and roll.* search for: those only propose.
//
// Variables range over [0, extent). All integer arithmetic is overflow-checked (std::overflow_error).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/rational.h"
#include "solvers/kernel/ids.h"
#include "solvers/kernel/intern.h"

namespace shardproof::solvers {

using ir::Rational;

enum class VarKind : std::uint8_t {
  element,  // index of the value being described, per dimension
  pattern,  // index of a reference atom's definition
  mesh,     // coordinate of a mesh axis
  loop,     // index of a rolled loop
  bound,    // bound by a reduction, named by height and position
  fresh     // opened binder; never escapes the rule that made it
};

struct Variable {
  VarKind kind = VarKind::element;
  std::int64_t extent = 1;
  std::string name;
};

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool integer = false;
  std::int64_t below = 0;  // integer tensors: elements are in [0, below)
  bool unknown = false;    // stands for a term of which nothing is known, not even that it is finite
};

enum class AtomKind : std::uint8_t { variable, floor_div, modulo, load };

struct IndexAtom {
  AtomKind kind = AtomKind::variable;
  VarId var;                     // variable
  IndexId inner;                 // floor_div, modulo
  std::int64_t divisor = 1;      // floor_div, modulo
  TensorId tensor;               // load
  std::vector<IndexId> indices;  // load
  std::int64_t lo = 0, hi = 0;   // bounds over all variable values
  VarSetId free;
};

using LinearTerm = std::pair<AtomId, std::int64_t>;

struct IndexNode {
  std::int64_t constant = 0;
  std::vector<LinearTerm> terms;  // sorted by atom, coefficients non-zero
  std::int64_t lo = 0, hi = 0;
  VarSetId free;
};

enum class TermKind : std::uint8_t { poly, access, apply, reduce, range, index_value };

enum class Function : std::uint8_t {
  exp, log, sqrt, inverse, tanh, erf, sigmoid, sin, cos, abs, power, max,
  negative_infinity,                   // no arguments; masked scores
  less, less_equal, equal_real,        // comparisons of reals: 0 or 1
  count_
};

enum class Reduction : std::uint8_t { sum, max };

struct Factor {
  TermId term;
  std::int32_t power = 1;
  friend bool operator==(const Factor&, const Factor&) = default;
  friend auto operator<=>(const Factor&, const Factor&) = default;
};

struct Monomial {
  Rational coefficient;
  std::vector<Factor> factors;  // sorted by term; powers non-zero
};

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();  // +infinity in a range; -kUnbounded: -infinity

struct TermNode {
  TermKind kind = TermKind::poly;
  Function function = Function::exp;   // apply
  Reduction reduction = Reduction::sum;
  TensorId tensor;                     // access
  IndexId form;                        // range, index_value
  std::int64_t lo = 0, hi = 0;         // range
  TermId body;                         // reduce
  std::int32_t height = 0;             // nesting depth of reductions
  std::int32_t size = 1;               // nodes, saturating
  VarSetId free;
  std::uint64_t skeleton = 0;          // hash that ignores indices, extents and bounds
  std::vector<Monomial> monomials;     // poly; sorted by factors
  std::vector<IndexId> indices;        // access
  std::vector<TermId> arguments;       // apply
  std::vector<VarId> bound;            // reduce
};

// A side condition used by a rewrite. It must be discharged or listed as an assumption.
struct Obligation {
  enum class Kind : std::uint8_t {
    nonzero,         // term != 0 (x * 1/x = 1)
    nonnegative,     // term >= 0 (sqrt(x)^2 = x)
    finite           // term is not -inf (exp(m) * 1/exp(m) = 1 for a maximum m of masked scores)
  };
  Kind kind;
  TermId term;
  friend auto operator<=>(const Obligation&, const Obligation&) = default;
};

// Thrown when a term exceeds the size cap, or the time or memory budget is used up. The caller reports
// unknown with the place.
class BudgetExceeded : public std::runtime_error {
 public:
  enum class What { size, time, memory, cancelled };
  BudgetExceeded(What what, const char* message) : std::runtime_error(message), what_kind(what) {}
  What what_kind;
};

struct PoolLimits {
  std::int32_t term_size = 1500;  // nodes of one term, and 24 more per monomial of a sum
  std::int32_t monomials = 6000;  // of one polynomial
};

// A simultaneous substitution of variables by index terms.
class Substitution {
 public:
  // raw: rename only. Reductions are rebuilt with the substituted body instead of being normalised again; allowed
  // only for variable-for-variable renamings whose new names occur in no enclosed binder.
  explicit Substitution(bool raw = false) : raw_(raw) {}
  void set(VarId var, IndexId value);
  const std::vector<std::pair<VarId, IndexId>>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

 private:
  friend class TermPool;
  bool raw_ = false;
  std::vector<std::pair<VarId, IndexId>> entries_;  // sorted by variable
  std::unordered_map<std::int32_t, IndexId> index_memo_;
  std::unordered_map<std::int32_t, TermId> term_memo_;
};

class TermPool {
 public:
  explicit TermPool(PoolLimits limits = {});
  TermPool(const TermPool&) = delete;
  TermPool& operator=(const TermPool&) = delete;

  // Called every few thousand new nodes; throws BudgetExceeded to stop.
  void set_watchdog(std::function<void()> watchdog) { watchdog_ = std::move(watchdog); }

  // --- variables (variables.cpp)
  VarId element(std::size_t dim, std::int64_t extent);
  VarId pattern(std::size_t dim, std::int64_t extent);
  VarId named(VarKind kind, const std::string& name, std::int64_t extent);
  const Variable& var(VarId id) const { return variables_[id.at()]; }
  VarSetId union_of(VarSetId a, VarSetId b);
  bool contains(VarSetId set, VarId var) const;
  bool intersects(VarSetId a, VarSetId b) const;
  VarSetId var_set(std::vector<VarId> vars);  // sorts
  const std::vector<VarId>& members(VarSetId set) const { return var_sets_[set.at()]; }

  // --- tensors
  TensorId new_tensor(Tensor tensor);
  const Tensor& tensor(TensorId id) const { return tensors_[id.at()]; }
  std::size_t tensor_count() const { return tensors_.size(); }

  // --- index terms (index.cpp)
  IndexId index_constant(std::int64_t value);
  IndexId index_var(VarId var);                                              // extent 1: the constant 0
  IndexId index_linear(IndexId a, std::int64_t ka, IndexId b, std::int64_t kb, std::int64_t constant = 0);
  IndexId index_add(IndexId a, IndexId b) { return index_linear(a, 1, b, 1); }
  IndexId index_sub(IndexId a, IndexId b) { return index_linear(a, 1, b, -1); }
  IndexId index_scale(IndexId a, std::int64_t k, std::int64_t constant = 0) { return index_linear(a, k, index_constant(0), 0, constant); }
  IndexId index_div(IndexId e, std::int64_t divisor);                        // floor; divisor >= 1
  IndexId index_mod(IndexId e, std::int64_t divisor);                        // in [0, divisor)
  IndexId index_load(TensorId tensor, std::vector<IndexId> indices);
  IndexId index_normal(std::int64_t constant, std::vector<LinearTerm> terms);
  const IndexNode& index(IndexId id) const { return indices_[id.at()]; }
  const IndexAtom& atom(AtomId id) const { return atoms_[id.at()]; }
  AtomId atom_of_var(VarId var);
  IndexId substitute_index(IndexId e, Substitution& substitution);

  // --- scalar terms (scalar.cpp, functions.cpp, guards.cpp)
  TermId zero() const { return zero_; }
  TermId one() const { return one_; }
  TermId constant(Rational value);
  TermId access(TensorId tensor, std::vector<IndexId> indices);
  TermId index_value(IndexId e);
  TermId range(IndexId e, std::int64_t lo, std::int64_t hi);                 // 1 if lo <= e <= hi, else 0
  TermId add(TermId a, TermId b);
  TermId sum(const std::vector<TermId>& terms);
  TermId mul(TermId a, TermId b);
  TermId scale(TermId a, Rational k);
  TermId sub(TermId a, TermId b) { return add(a, scale(b, Rational(-1))); }
  TermId inverse(TermId a) { return apply(Function::inverse, {a}); }
  TermId integer_power(TermId a, std::int64_t exponent);
  TermId complement(TermId condition);                                       // 1 - condition, guards spelled as ranges
  TermId apply(Function function, std::vector<TermId> arguments);
  TermId poly(std::vector<Monomial> monomials);                              // canonicalises
  TermId product(const std::vector<Factor>& factors, Rational coefficient);
  std::uint64_t skeleton_of(const Factor& factor) const;
  std::uint64_t skeleton_of(const Monomial& monomial) const;
  // Skeleton that the product of distinct non-polynomial factors has, without building it.
  std::uint64_t skeleton_of_product(const std::vector<Factor>& factors) const;
  std::vector<Monomial> monomials_of(TermId term) const;                     // a non-poly is one monomial
  std::optional<Rational> as_constant(TermId term) const;
  // The index term whose value this term is, if it is one (integer-valued linear).
  std::optional<IndexId> as_index(TermId term);
  // Applies f to the pieces of the arguments on which all guards are decided; exact case split.
  TermId by_cases(const std::vector<TermId>& arguments, const std::function<TermId(const std::vector<TermId>&)>& f);
  // The same, telling f the guards that hold on the piece.
  using GuardedCase = std::function<TermId(const std::vector<TermId>& pieces, const std::vector<TermId>& guards)>;
  TermId by_cases_under(const std::vector<TermId>& arguments, std::vector<TermId> guards, const GuardedCase& f);

  // The integer line of `form`, cut at every bound that a top-level guard of the terms puts on it: on each piece all
  // those guards are decided and removed. Every value of `form` is in exactly one piece.
  struct Case {
    TermId guard;
    std::vector<TermId> terms;
  };
  std::vector<Case> cases_on(IndexId form, const std::vector<TermId>& terms);
  std::optional<IndexId> guard_form(TermId term) const;  // of some top-level guard

  // --- reductions (reduce.cpp, reduce_rules.cpp)
  TermId reduce(Reduction op, std::vector<VarId> vars, TermId body);
  // Unrolled sums (merge_sums.cpp). first + second as the sum of body(t), if they are its instances; total + next as one
  // sum, if next is the instance of total's summand after the last or before the first. Nothing if not.
  std::optional<TermId> sum_of_two(TermId body, VarId t, TermId first, TermId second);
  std::optional<TermId> extend_sum(TermId total, TermId next);
  // A sum over the places before c plus one over the L places from c on, as one sum over both (c may be symbolic).
  std::optional<TermId> continue_sum(TermId before, TermId window);
  // Replaces the bound variables of a reduction by fresh ones of `scope` and returns the body.
  class FreshScope;
  TermId open(TermId reduction, FreshScope& scope, std::vector<VarId>& vars);

  const TermNode& node(TermId id) const { return nodes_[id.at()]; }
  std::size_t node_count() const { return nodes_.size(); }
  TermId substitute(TermId term, Substitution& substitution);

  // --- guards as facts (bounds.cpp)
  // Interval of e when the guard terms all hold; never wider than the static one.
  std::pair<std::int64_t, std::int64_t> bounds_under(IndexId e, const std::vector<TermId>& guards);
  // A term equal to `term` wherever all guards hold, with the divisions and moduli that they decide (assume.cpp).
  // With Detail::parts also those that a guard confines to a part of their range; then the pieces of one function
  // look different, so that detail is for comparing under equal guards only.
  // With Detail::values also variables of which the guards leave one value; for comparing only.
  enum class Detail { whole, parts, values };
  TermId assume(TermId term, const std::vector<TermId>& guards, Detail detail = Detail::whole);
  IndexId assume_index(IndexId e, const std::vector<TermId>& guards, Detail detail = Detail::whole);
  bool is_guard(TermId term) const { return node(term).kind == TermKind::range; }

  // --- side conditions used so far
  const std::vector<Obligation>& obligations() const { return obligations_; }
  // Returns them and forgets them: what is required again is recorded again.
  std::vector<Obligation> take_obligations();
  void require(Obligation::Kind kind, TermId term);

  std::string to_string(IndexId e) const;
  std::string to_string(TermId term, int depth = 0) const;

  // Fresh variables, pooled per extent with stack discipline: a scope's variables are distinct from those of
  // every enclosing scope and are reused only after the scope ends.
  class FreshScope {
   public:
    explicit FreshScope(TermPool& pool) : pool_(&pool) {}
    ~FreshScope();
    FreshScope(const FreshScope&) = delete;
    FreshScope& operator=(const FreshScope&) = delete;
    VarId fresh(std::int64_t extent);

   private:
    TermPool* pool_;
    std::vector<std::int64_t> extents_;
  };

 private:
  AtomId intern_atom(IndexAtom atom);
  IndexId intern_index(std::int64_t constant, std::vector<LinearTerm> terms);
  bool recombine(std::int64_t& constant, std::vector<LinearTerm>& terms);
  std::int64_t split_digit(IndexId e, std::int64_t divisor, IndexId& high, IndexId& low);
  TermId intern(TermNode node);
  TermId raw_apply(Function function, std::vector<TermId> arguments);
  TermId raw_range(IndexId form, std::int64_t lo, std::int64_t hi);
  TermId raw_index_value(IndexId form);
  bool is_oriented(const std::vector<Factor>& factors) const;
  TermId poly_from_sorted(std::vector<Monomial> monomials);
  void multiply_factor(std::vector<Monomial>& result, Monomial left, Factor factor);
  TermId relax(TermId guard, TermId given);
  bool excludes(TermId given, TermId guard);
  void multiply_guard(std::vector<Monomial>& result, Monomial left, TermId guard);
  std::vector<Monomial> multiply_all(const std::vector<Monomial>& a, const std::vector<Monomial>& b);
  std::vector<Monomial> power_of(TermId term, std::int32_t power);
  enum class Infinity { none, minus, other };
  Infinity infinity_of(TermId term) const;
  std::vector<Monomial> multiply(const Monomial& a, const Monomial& b);
  bool merge_adjacent(std::vector<Monomial>& monomials);
  bool merge_sums(std::vector<Monomial>& monomials);
  TermId join_reductions(TermId a, std::size_t p, TermId b, std::size_t q);
  void merge_maxima(std::vector<TermId>& arguments);
  bool merge_index_values(std::vector<Monomial>& monomials);
  TermId apply_plain(Function function, const std::vector<TermId>& arguments);
  TermId apply_exp(TermId argument);
  TermId apply_log(TermId argument);
  TermId apply_inverse(TermId argument);
  std::optional<TermId> inverse_as_sigmoid(const std::vector<Monomial>& monomials);
  std::vector<Factor> common_factors(const std::vector<Monomial>& monomials) const;
  std::vector<Factor> denominators(const std::vector<Monomial>& monomials) const;
  TermId apply_sqrt(TermId argument);
  TermId apply_max(const std::vector<TermId>& arguments);
  bool is_positive_factor(TermId term) const;  // syntactically > 0: exp(..)
  TermId seal(Reduction op, std::vector<VarId> vars, TermId body);
  void collect_forms(TermId term, std::vector<IndexId>& forms) const;
  std::size_t count_digit_atoms(TermId term, const std::vector<VarId>& vars) const;
  bool guarded_alone(TermId term, VarId a, VarId b) const;
  bool merge_variables(std::vector<VarId>& vars, TermId& body, FreshScope& scope);
  bool find_digit_split(TermId body, const std::vector<VarId>& vars, VarId& var, std::int64_t& digit) const;
  bool static_range(const TermNode& guard, VarId var, std::int64_t& lo, std::int64_t& hi);
  TermId restrict_var(TermId body, std::vector<VarId>& vars, VarId var, std::int64_t lo, std::int64_t hi, FreshScope& scope);
  std::uint64_t signature(TermId term, VarId var, const std::vector<VarId>& bound) const;
  std::uint64_t signature(IndexId index, VarId var, const std::vector<VarId>& bound, std::int64_t sign = 1) const;
  TermId reduce_at(Reduction op, std::vector<VarId> vars, TermId body, int splits);
  TermId reduce_sum_monomial(const std::vector<VarId>& vars, const std::vector<Factor>& factors, int splits);
  TermId reduce_connected_sum(std::vector<VarId> vars, TermId body, int splits);
  TermId reduce_max(std::vector<VarId> vars, TermId body, int splits);
  TermId substitute_uncached(TermId term, Substitution& substitution);
  std::pair<std::int64_t, std::int64_t> bounds_under(IndexId e, const std::vector<TermId>& guards, int nesting);
  std::pair<std::int64_t, std::int64_t> modulus_under(const IndexAtom& modulus, const std::vector<TermId>& guards);
  std::optional<std::pair<IndexId, std::int64_t>> digit_of(const IndexAtom& modulus);
  TermId assume_at(TermId term, const std::vector<TermId>& guards, Detail detail);
  IndexId assume_digits(IndexId e, const std::vector<TermId>& guards, int steps);
  void tick();

  PoolLimits limits_;
  std::function<void()> watchdog_;
  std::uint32_t ticks_ = 0;

  std::vector<Variable> variables_;
  std::map<std::tuple<VarKind, std::int64_t, std::int64_t, std::int64_t>, VarId> variable_ids_;
  std::map<std::pair<VarKind, std::string>, VarId> named_ids_;
  std::map<std::int64_t, std::int64_t> fresh_depth_;
  std::deque<std::vector<VarId>> var_sets_;
  InternTable var_set_table_;
  std::unordered_map<std::uint64_t, VarSetId> union_memo_;

  std::deque<Tensor> tensors_;
  std::deque<IndexAtom> atoms_;
  InternTable atom_table_;
  std::deque<IndexNode> indices_;
  InternTable index_table_;
  std::deque<TermNode> nodes_;
  InternTable node_table_;
  TermId zero_, one_;

  std::vector<Obligation> obligations_;
  std::map<Obligation, bool> obligation_seen_;
};

}  // namespace shardproof::solvers
