// Numbers of the second witness: a commutative ring with sums and guards.
#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "solvers/witness/form_parts.h"

namespace shardproof::solvers::witness {

namespace {

constexpr std::size_t kMaxSummands = 3000;
constexpr std::int64_t kMaxProducts = 20'000;

// As far as both were looked at before.
bool exclude(const std::vector<Guard>& a, const std::vector<Guard>& b) {
  for (const Guard& g : a)
    for (const Guard& h : b)
      if ((g.hi < h.lo || h.hi < g.lo) && !g.form_key.empty() && g.form_key == h.form_key) return true;
  return false;
}

}  // namespace

Variable Algebra::fresh(std::int64_t extent) {
  extents_.push_back(extent);
  return static_cast<Variable>(extents_.size() - 1);
}

void Algebra::check_size(std::size_t summands) const {
  if (summands > kMaxSummands) throw NotCovered("more than " + std::to_string(kMaxSummands) + " summands");
}

void Algebra::work() {
  if (++work_ > kMaxProducts) throw NotCovered("more than " + std::to_string(kMaxProducts) + " products");
}

Form Algebra::number(Rational value) const {
  if (value.is_zero()) return {};
  Summand s;
  s.coefficient = value;
  return {s};
}

Form Algebra::access(TensorId tensor, std::vector<Index> indices) const {
  Factor f;
  f.tensor = tensor;
  f.indices = std::move(indices);
  name(f);
  return one_factor(std::move(f));
}

Form Algebra::integer(const Index& e) const {
  Form result = number(Rational(e.constant));
  for (const auto& [atom, k] : e.terms) {
    if (atom->kind == Atom::Kind::chosen) {
      result = add(std::move(result), scale(guarded(atom->guards, integer(atom->inner)), Rational(k)));
      continue;
    }
    Factor f;
    f.kind = Factor::Kind::integer;
    f.atom = atom;
    name(f);
    result = add(std::move(result), scale(one_factor(std::move(f)), Rational(k)));
  }
  return result;
}

Form Algebra::guarded(const std::vector<Guard>& guards, const Form& form) const {
  Form result;
  for (Summand s : form) {
    s.guards.insert(s.guards.end(), guards.begin(), guards.end());
    if (tidy(*this, s.guards)) result.push_back(std::move(s));
  }
  return result;
}

Form Algebra::add(Form a, const Form& b) const {
  check_size(a.size() + b.size());
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Form Algebra::scale(Form a, Rational k) const {
  if (k.is_zero()) return {};
  for (Summand& s : a) s.coefficient = s.coefficient * k;
  return a;
}

// Like factors are brought together. Exponentials become one.
bool Algebra::normalise(Summand& s) {
  if (s.coefficient.is_zero() || !tidy(*this, s.guards)) return false;
  std::map<std::string, Factor> by_key;
  Form exponent;
  bool exponential = false;
  for (Factor& f : s.factors) {
    if (is_function(f, Function::exp)) {
      exponential = true;
      exponent = add(std::move(exponent), scale(f.arguments[0], Rational(f.power)));
      continue;
    }
    const auto [it, added] = by_key.try_emplace(f.key, f);
    if (!added) it->second.power += f.power;
  }
  s.factors.clear();
  if (exponential) {
    exponent = simplified(exponent);
    for (const Summand& e : exponent)
      if (is_minus_infinity(e)) return false;
    if (!exponent.empty()) s.factors.push_back(function_of(Function::exp, {std::move(exponent)}));
  }
  for (auto& [key, f] : by_key)
    if (f.power != 0) s.factors.push_back(std::move(f));
  std::sort(s.factors.begin(), s.factors.end(), [](const Factor& a, const Factor& b) { return std::tie(a.head, a.key) < std::tie(b.head, b.key); });
  return true;
}

Form Algebra::renamed(const Form& form) {
  // Only the outermost bound variables: deeper ones are never side by side with their copies.
  Form result;
  for (const Summand& s : form) {
    Renaming names;
    Summand copy;
    copy.coefficient = s.coefficient;
    for (Variable v : s.bound) {
      copy.bound.push_back(fresh(extent(v)));
      names.emplace_back(v, variable(copy.bound.back()));
    }
    for (const Guard& g : s.guards) copy.guards.push_back({replaced(*this, g.form, names), g.lo, g.hi});
    const std::function<Factor(const Factor&)> rename = [&](const Factor& f) {
      Factor r = f;
      for (Index& e : r.indices) e = replaced(*this, e, names);
      if (r.kind == Factor::Kind::integer) {
        const Index e = replaced(*this, {0, {{r.atom, 1}}}, names);
        if (e.constant != 0 || e.terms.size() != 1 || e.terms[0].second != 1) throw NotCovered("a bound integer");
        r.atom = e.terms[0].first;
      }
      const auto inner = [&](Form& body) {
        for (Summand& t : body) {
          for (Guard& g : t.guards) g = {replaced(*this, g.form, names), g.lo, g.hi};
          for (Factor& g : t.factors) g = rename(g);
        }
      };
      for (Form& a : r.arguments) inner(a);
      for (Branch& b : r.branches) {
        inner(b.body);
        for (Guard& g : b.guards) g = {replaced(*this, g.form, names), g.lo, g.hi};
      }
      name(r);
      return r;
    };
    for (const Factor& f : s.factors) copy.factors.push_back(rename(f));
    result.push_back(std::move(copy));
  }
  return result;
}

Form Algebra::multiply_one(const Summand& a, const Summand& b) {
  work();
  Summand product = a;
  product.coefficient = a.coefficient * b.coefficient;
  const Summand* right = &b;
  Form copy;
  if (std::any_of(b.bound.begin(), b.bound.end(), [&](Variable v) { return std::find(a.bound.begin(), a.bound.end(), v) != a.bound.end(); })) {
    copy = renamed({b});
    right = &copy[0];
  }
  product.bound.insert(product.bound.end(), right->bound.begin(), right->bound.end());
  product.guards.insert(product.guards.end(), right->guards.begin(), right->guards.end());
  product.factors.insert(product.factors.end(), right->factors.begin(), right->factors.end());
  if (!normalise(product)) return {};
  for (std::size_t i = 0; i < product.factors.size(); ++i) {
    const Factor root = product.factors[i];
    if (!is_function(root, Function::sqrt) || (root.power < 2 && root.power > -2)) continue;
    if (root.power % 2 == 0) product.factors.erase(product.factors.begin() + static_cast<std::ptrdiff_t>(i));
    else product.factors[i].power = root.power % 2;
    return multiply({product}, power(root.arguments[0], root.power / 2));
  }
  return {product};
}

Form Algebra::multiply(const Form& a, const Form& b) {
  check_size(a.size() * b.size() / 16);  // most products of pieces under guards are zero
  Form result;
  for (const Summand& x : a)
    for (const Summand& y : b) {
      if (exclude(x.guards, y.guards)) continue;
      const Form product = multiply_one(x, y);
      result.insert(result.end(), product.begin(), product.end());
      check_size(result.size());
    }
  return result;
}

Form Algebra::power(const Form& a, std::int32_t exponent) {
  if (exponent == 0) return number(Rational(1));
  if (exponent < 0) return power(inverse(a), -exponent);
  if (exponent > 16) throw NotCovered("a power greater than 16");
  Form result = a;
  for (std::int32_t i = 1; i < exponent; ++i) result = multiply(result, a);
  return result;
}

Form Algebra::sum(const std::vector<Variable>& bound, Form body) const {
  for (Summand& s : body)
    for (Variable v : bound)
      if (extent(v) > 1) s.bound.push_back(v);
  return body;
}

bool Algebra::is_integer(const Form& form) const {
  return std::all_of(form.begin(), form.end(), [](const Summand& s) {
    return s.coefficient.is_integer() && s.bound.empty() &&
           (s.factors.empty() || (s.factors.size() == 1 && s.factors[0].kind == Factor::Kind::integer && s.factors[0].power == 1));
  });
}

Index Algebra::as_integer(const Form& form) const {
  if (!is_integer(form)) throw NotCovered("an index that is no linear function of indices and integer tensors");
  Index total = constant(0);
  for (const Summand& s : form) {
    const Index value = s.factors.empty() ? constant(1) : Index{0, {{s.factors[0].atom, 1}}};
    total = combine(total, 1, chosen(s.guards, value), s.coefficient.num);
  }
  return total;
}

Form Algebra::simplified(const Form& form) const {
  Form result;
  std::map<std::string, std::size_t> where;
  for (Summand s : form) {
    if (s.coefficient.is_zero()) continue;
    std::erase_if(s.bound, [&](Variable v) {
      if (mentions(s, v)) return false;
      s.coefficient = s.coefficient * Rational(extent(v));
      return true;
    });
    const auto [it, added] = where.try_emplace(key_of(s), result.size());
    if (added) result.push_back(std::move(s));
    else result[it->second].coefficient = result[it->second].coefficient + s.coefficient;
  }
  std::erase_if(result, [](const Summand& s) { return s.coefficient.is_zero(); });
  return result;
}

}  // namespace shardproof::solvers::witness
