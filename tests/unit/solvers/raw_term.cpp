#include "tests/unit/solvers/raw_term.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ir/check.h"

namespace shardproof::solvers::testing {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kNear = 1e-3;

Index make(RawIndex e) {
  return std::make_shared<const RawIndex>(std::move(e));
}
Term make(RawTerm t) {
  return std::make_shared<const RawTerm>(std::move(t));
}

// Textbook definitions, apart from the ones the pool uses.
std::int64_t floor_division(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  while (q * b > a) --q;
  return q;
}

}  // namespace

Index number(std::int64_t value) {
  return linear(value, {});
}

Index variable(VarId var) {
  RawIndex e;
  e.kind = RawIndex::Kind::variable;
  e.var = var;
  return make(std::move(e));
}

Index linear(std::int64_t constant, std::vector<std::pair<std::int64_t, Index>> terms) {
  RawIndex e;
  e.constant = constant;
  for (auto& [k, part] : terms) {
    e.coefficients.push_back(k);
    e.parts.push_back(std::move(part));
  }
  return make(std::move(e));
}

namespace {
Index division(RawIndex::Kind kind, Index inner, std::int64_t divisor) {
  RawIndex e;
  e.kind = kind;
  e.parts = {std::move(inner)};
  e.divisor = divisor;
  return make(std::move(e));
}
}  // namespace

Index div(Index e, std::int64_t divisor) {
  return division(RawIndex::Kind::div, std::move(e), divisor);
}
Index mod(Index e, std::int64_t divisor) {
  return division(RawIndex::Kind::mod, std::move(e), divisor);
}

Index load(TensorId tensor, std::vector<Index> indices) {
  RawIndex e;
  e.kind = RawIndex::Kind::load;
  e.tensor = tensor;
  e.parts = std::move(indices);
  return make(std::move(e));
}

Term constant(Rational value) {
  RawTerm t;
  t.number = value;
  return make(std::move(t));
}

Term access(TensorId tensor, std::vector<Index> indices) {
  RawTerm t;
  t.kind = RawTerm::Kind::access;
  t.tensor = tensor;
  t.indices = std::move(indices);
  return make(std::move(t));
}

Term value(Index e) {
  RawTerm t;
  t.kind = RawTerm::Kind::value;
  t.indices = {std::move(e)};
  return make(std::move(t));
}

Term range(Index e, std::int64_t lo, std::int64_t hi) {
  RawTerm t;
  t.kind = RawTerm::Kind::range;
  t.indices = {std::move(e)};
  t.lo = lo;
  t.hi = hi;
  return make(std::move(t));
}

namespace {
Term compound(RawTerm::Kind kind, std::vector<Term> parts) {
  RawTerm t;
  t.kind = kind;
  t.parts = std::move(parts);
  return make(std::move(t));
}
}  // namespace

Term add(std::vector<Term> parts) {
  return compound(RawTerm::Kind::add, std::move(parts));
}
Term multiply(std::vector<Term> parts) {
  return compound(RawTerm::Kind::multiply, std::move(parts));
}
Term select(Term condition, Term then, Term otherwise) {
  return compound(RawTerm::Kind::select, {std::move(condition), std::move(then), std::move(otherwise)});
}

Term apply(Function function, std::vector<Term> arguments) {
  RawTerm t;
  t.kind = RawTerm::Kind::apply;
  t.function = function;
  t.parts = std::move(arguments);
  return make(std::move(t));
}

Term reduce(Reduction reduction, std::vector<VarId> bound, Term body) {
  RawTerm t;
  t.kind = RawTerm::Kind::reduce;
  t.reduction = reduction;
  t.bound = std::move(bound);
  t.parts = {std::move(body)};
  return make(std::move(t));
}

std::int64_t evaluate(const Index& e, const Assignment& values, const TensorContents& contents) {
  switch (e->kind) {
    case RawIndex::Kind::variable:
      return values.at(e->var);
    case RawIndex::Kind::linear: {
      std::int64_t total = e->constant;
      for (std::size_t i = 0; i < e->parts.size(); ++i)
        total = ir::checked_add(total, ir::checked_mul(e->coefficients[i], evaluate(e->parts[i], values, contents)));
      return total;
    }
    case RawIndex::Kind::div:
      return floor_division(evaluate(e->parts[0], values, contents), e->divisor);
    case RawIndex::Kind::mod: {
      const std::int64_t x = evaluate(e->parts[0], values, contents);
      return x - e->divisor * floor_division(x, e->divisor);
    }
    case RawIndex::Kind::load: {
      std::vector<std::int64_t> indices;
      for (const Index& i : e->parts) indices.push_back(evaluate(i, values, contents));
      return contents.integer(e->tensor, indices);
    }
  }
  SHARDPROOF_CHECK(false);
}

namespace {

double apply_function(Function function, const std::vector<double>& x) {
  for (double a : x)
    if (std::isnan(a)) return kUndefined;
  const auto near_zero = [](double a) { return std::fabs(a) < kNear; };
  switch (function) {
    case Function::exp:
      return std::isfinite(x[0]) && std::fabs(x[0]) > 30 ? kUndefined : std::exp(x[0]);
    case Function::log:
      return x[0] < kNear ? kUndefined : std::log(x[0]);
    case Function::sqrt:
      return x[0] < kNear ? kUndefined : std::sqrt(x[0]);
    case Function::inverse:
      return near_zero(x[0]) ? kUndefined : 1 / x[0];
    case Function::tanh:
      return std::tanh(x[0]);
    case Function::erf:
      return std::erf(x[0]);
    case Function::sigmoid:
      return 1 / (1 + std::exp(-x[0]));
    case Function::sin:
      return std::fabs(x[0]) > 1000 ? kUndefined : std::sin(x[0]);
    case Function::cos:
      return std::fabs(x[0]) > 1000 ? kUndefined : std::cos(x[0]);
    case Function::abs:
      return std::fabs(x[0]);
    case Function::power:
      return near_zero(x[0]) || std::isinf(x[0]) ? kUndefined : std::pow(x[0], x[1]);
    case Function::max:
      return *std::max_element(x.begin(), x.end());
    case Function::negative_infinity:
      return -std::numeric_limits<double>::infinity();
    case Function::less:
      return near_zero(x[0]) && x[0] != 0 ? kUndefined : x[0] < 0 ? 1 : 0;
    case Function::less_equal:
      return near_zero(x[0]) && x[0] != 0 ? kUndefined : x[0] <= 0 ? 1 : 0;
    case Function::equal_real:
      return near_zero(x[0]) && x[0] != 0 ? kUndefined : x[0] == 0 ? 1 : 0;
    case Function::count_:
      break;
  }
  SHARDPROOF_CHECK(false);
}

// Values that another spelling might take a difference of are kept small, so that rounding does not decide.
double capped(double x) {
  return std::isfinite(x) && std::fabs(x) > 1e4 ? kUndefined : x;
}

double evaluate_in(const TermPool& pool, const Term& term, Assignment& values, const TensorContents& contents) {
  const auto part = [&](std::size_t i) { return capped(evaluate_in(pool, term->parts[i], values, contents)); };
  switch (term->kind) {
    case RawTerm::Kind::constant:
      return static_cast<double>(term->number.num) / static_cast<double>(term->number.den);
    case RawTerm::Kind::access: {
      std::vector<std::int64_t> indices;
      for (const Index& i : term->indices) indices.push_back(evaluate(i, values, contents));
      return contents.real(term->tensor, indices);
    }
    case RawTerm::Kind::value:
      return static_cast<double>(evaluate(term->indices[0], values, contents));
    case RawTerm::Kind::range: {
      const std::int64_t e = evaluate(term->indices[0], values, contents);
      return (term->lo == -kUnbounded || term->lo <= e) && (term->hi == kUnbounded || e <= term->hi) ? 1 : 0;
    }
    case RawTerm::Kind::add: {
      double total = 0;
      for (std::size_t i = 0; i < term->parts.size(); ++i) total += part(i);
      return total;
    }
    case RawTerm::Kind::multiply: {
      for (std::size_t i = 0; i < term->parts.size(); ++i)
        if (term->parts[i]->kind == RawTerm::Kind::range && part(i) == 0) return 0;
      double product = 1;
      for (std::size_t i = 0; i < term->parts.size(); ++i) {
        const double x = part(i);
        if (std::isinf(x)) {  // may be scaled, but not multiplied by a value of unknown sign
          for (std::size_t j = 0; j < term->parts.size(); ++j)
            if (j != i && term->parts[j]->kind != RawTerm::Kind::constant) return kUndefined;
        }
        product *= x;
      }
      return product;
    }
    case RawTerm::Kind::select: {
      const double condition = part(0);
      if (std::isnan(condition)) return kUndefined;
      return condition != 0 ? part(1) : part(2);
    }
    case RawTerm::Kind::apply: {
      std::vector<double> x;
      for (std::size_t i = 0; i < term->parts.size(); ++i) x.push_back(part(i));
      return apply_function(term->function, x);
    }
    case RawTerm::Kind::reduce: {
      double total = term->reduction == Reduction::sum ? 0 : -std::numeric_limits<double>::infinity();
      const auto enumerate = [&](const auto& self, std::size_t depth) -> void {
        if (depth == term->bound.size()) {
          const double x = part(0);
          if (std::isnan(x) || std::isnan(total))
            total = kUndefined;
          else
            total = term->reduction == Reduction::sum ? total + x : std::max(total, x);
          return;
        }
        for (std::int64_t i = 0; i < pool.var(term->bound[depth]).extent; ++i) {
          values.set(term->bound[depth], i);
          self(self, depth + 1);
        }
      };
      enumerate(enumerate, 0);
      return total;
    }
  }
  SHARDPROOF_CHECK(false);
}

}  // namespace

double evaluate(const TermPool& pool, const Term& term, const Assignment& values, const TensorContents& contents) {
  Assignment copy = values;
  return evaluate_in(pool, term, copy, contents);
}

Index replace(const Index& e, VarId var, const Index& to) {
  if (e->kind == RawIndex::Kind::variable) return e->var == var ? to : e;
  RawIndex copy = *e;
  for (Index& part : copy.parts) part = replace(part, var, to);
  return make(std::move(copy));
}

Term replace(const Term& term, VarId var, const Index& to) {
  RawTerm copy = *term;
  for (Index& i : copy.indices) i = replace(i, var, to);
  for (Term& part : copy.parts) part = replace(part, var, to);
  return make(std::move(copy));
}

IndexId build(TermPool& pool, const Index& e) {
  switch (e->kind) {
    case RawIndex::Kind::variable:
      return pool.index_var(e->var);
    case RawIndex::Kind::linear: {
      IndexId total = pool.index_constant(e->constant);
      for (std::size_t i = 0; i < e->parts.size(); ++i)
        total = pool.index_linear(total, 1, build(pool, e->parts[i]), e->coefficients[i]);
      return total;
    }
    case RawIndex::Kind::div:
      return pool.index_div(build(pool, e->parts[0]), e->divisor);
    case RawIndex::Kind::mod:
      return pool.index_mod(build(pool, e->parts[0]), e->divisor);
    case RawIndex::Kind::load: {
      std::vector<IndexId> indices;
      for (const Index& i : e->parts) indices.push_back(build(pool, i));
      return pool.index_load(e->tensor, std::move(indices));
    }
  }
  SHARDPROOF_CHECK(false);
}

TermId build(TermPool& pool, const Term& term) {
  std::vector<TermId> parts;
  for (const Term& p : term->parts) parts.push_back(build(pool, p));
  switch (term->kind) {
    case RawTerm::Kind::constant:
      return pool.constant(term->number);
    case RawTerm::Kind::access: {
      std::vector<IndexId> indices;
      for (const Index& i : term->indices) indices.push_back(build(pool, i));
      return pool.access(term->tensor, std::move(indices));
    }
    case RawTerm::Kind::value:
      return pool.index_value(build(pool, term->indices[0]));
    case RawTerm::Kind::range:
      return pool.range(build(pool, term->indices[0]), term->lo, term->hi);
    case RawTerm::Kind::add:
      return pool.sum(parts);
    case RawTerm::Kind::multiply: {
      TermId product = pool.one();
      for (TermId p : parts) product = pool.mul(product, p);
      return product;
    }
    case RawTerm::Kind::select:
      return pool.add(pool.mul(parts[0], parts[1]), pool.mul(pool.complement(parts[0]), parts[2]));
    case RawTerm::Kind::apply:
      return pool.apply(term->function, std::move(parts));
    case RawTerm::Kind::reduce:
      return pool.reduce(term->reduction, term->bound, parts[0]);
  }
  SHARDPROOF_CHECK(false);
}

std::string to_string(const TermPool& pool, const Index& e) {
  switch (e->kind) {
    case RawIndex::Kind::variable:
      return pool.var(e->var).name + "<" + std::to_string(pool.var(e->var).extent);
    case RawIndex::Kind::linear: {
      std::string text = std::to_string(e->constant);
      for (std::size_t i = 0; i < e->parts.size(); ++i)
        text += " + " + std::to_string(e->coefficients[i]) + "*" + to_string(pool, e->parts[i]);
      return "(" + text + ")";
    }
    case RawIndex::Kind::div:
      return to_string(pool, e->parts[0]) + "/" + std::to_string(e->divisor);
    case RawIndex::Kind::mod:
      return to_string(pool, e->parts[0]) + "%" + std::to_string(e->divisor);
    case RawIndex::Kind::load: {
      std::string text = pool.tensor(e->tensor).name + "[";
      for (const Index& i : e->parts) text += to_string(pool, i) + ",";
      return text + "]";
    }
  }
  return "?";
}

std::string to_string(const TermPool& pool, const Term& term) {
  const auto list = [&](const std::string& between) {
    std::string text;
    for (const Term& p : term->parts) text += (text.empty() ? "" : between) + to_string(pool, p);
    return "(" + text + ")";
  };
  switch (term->kind) {
    case RawTerm::Kind::constant:
      return ir::to_string(term->number);
    case RawTerm::Kind::access: {
      std::string text = pool.tensor(term->tensor).name + "[";
      for (const Index& i : term->indices) text += to_string(pool, i) + ",";
      return text + "]";
    }
    case RawTerm::Kind::value:
      return to_string(pool, term->indices[0]);
    case RawTerm::Kind::range:
      return "[" + (term->lo == -kUnbounded ? "" : std::to_string(term->lo) + " <= ") +
             to_string(pool, term->indices[0]) + (term->hi == kUnbounded ? "" : " <= " + std::to_string(term->hi)) +
             "]";
    case RawTerm::Kind::add:
      return list(" + ");
    case RawTerm::Kind::multiply:
      return list(" * ");
    case RawTerm::Kind::select:
      return "select" + list(", ");
    case RawTerm::Kind::apply:
      return "f" + std::to_string(static_cast<int>(term->function)) + list(", ");
    case RawTerm::Kind::reduce: {
      std::string text = term->reduction == Reduction::sum ? "sum{" : "max{";
      for (VarId v : term->bound) text += pool.var(v).name + "<" + std::to_string(pool.var(v).extent) + " ";
      return text + "}" + list("");
    }
  }
  return "?";
}

bool close(double expected, double found) {
  if (std::isnan(expected) || std::isnan(found)) return false;
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  return std::fabs(expected - found) <= 1e-6 * (1 + std::fabs(expected));
}

namespace {
std::uint64_t from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}
}  // namespace

std::uint64_t first_seed() {
  return from_environment("SHARDPROOF_FUZZ_SEED");
}
std::uint64_t last_seed(int cases) {
  return first_seed() + static_cast<std::uint64_t>(cases) * from_environment("SHARDPROOF_FUZZ_SCALE") - 1;
}

std::vector<Assignment> assignments(const TermPool& pool, const std::vector<VarId>& vars, std::size_t limit,
                                    Random& random) {
  std::vector<Assignment> result;
  double count = 1;
  for (VarId v : vars) count *= static_cast<double>(pool.var(v).extent);
  if (count <= static_cast<double>(limit)) {
    const auto total = static_cast<std::int64_t>(count);
    for (std::int64_t n = 0; n < total; ++n) {
      Assignment a;
      std::int64_t rest = n;
      for (VarId v : vars) {
        a.set(v, rest % pool.var(v).extent);
        rest /= pool.var(v).extent;
      }
      result.push_back(std::move(a));
    }
    return result;
  }
  for (std::size_t n = 0; n < limit; ++n) {
    Assignment a;
    for (VarId v : vars) {
      const std::int64_t last = pool.var(v).extent - 1;
      a.set(v, random.chance(15) ? 0 : random.chance(15) ? last : random.between(0, last));
    }
    result.push_back(std::move(a));
  }
  return result;
}

}  // namespace shardproof::solvers::testing
