#include "solvers/witness/form_parts.h"

#include <algorithm>
#include <map>
#include <set>

#include "solvers/witness/solve.h"

namespace shardproof::solvers::witness {

namespace {

void tensors_of(const Form& form, std::set<std::string>& heads);

void tensors_of(const Factor& f, std::set<std::string>& heads) {
  if (f.kind == Factor::Kind::access) heads.insert("t" + std::to_string(f.tensor.value));
  for (const Form& a : f.arguments) tensors_of(a, heads);
  for (const Branch& b : f.branches) tensors_of(b.body, heads);
}

void tensors_of(const Form& form, std::set<std::string>& heads) {
  for (const Summand& s : form)
    for (const Factor& f : s.factors) tensors_of(f, heads);
}

std::string list(const std::set<std::string>& heads) {
  std::string text;
  for (const std::string& h : heads) text += h + " ";
  return text;
}

// What holds where the guard does not.
Guard complement_of(const Guard& g) {
  if (g.lo == -kUnbounded) return {g.form, ir::checked_add(g.hi, 1), kUnbounded};
  if (g.hi == kUnbounded) return {g.form, -kUnbounded, ir::checked_add(g.lo, -1)};
  Atom atom;
  atom.kind = Atom::Kind::chosen;
  atom.guards = {g};
  atom.inner = Algebra::constant(1);
  atom.key = "{" + g.key() + "?" + atom.inner.key() + "}";
  return {Index{0, {{std::make_shared<const Atom>(std::move(atom)), 1}}}, 0, 0};
}

}  // namespace

void name(Factor& f) {
  std::set<std::string> heads;
  switch (f.kind) {
    case Factor::Kind::access:
      f.head = "t" + std::to_string(f.tensor.value);
      f.key = f.head + "[";
      for (const Index& e : f.indices) f.key += e.key() + ",";
      f.key += "]";
      break;
    case Factor::Kind::integer:
      f.head = "int";
      f.key = "int " + f.atom->key;
      break;
    case Factor::Kind::apply:
      for (const Form& a : f.arguments) tensors_of(a, heads);
      f.head = "f" + std::to_string(static_cast<int>(f.function)) + "(" + list(heads) + ")";
      f.key = "f" + std::to_string(static_cast<int>(f.function)) + "(";
      for (const Form& a : f.arguments) f.key += key_of(a) + ",";
      f.key += ")";
      break;
    case Factor::Kind::maximum: {
      for (const Branch& b : f.branches) tensors_of(b.body, heads);
      f.head = "max(" + list(heads) + ")";
      std::vector<std::string> keys;
      for (const Branch& b : f.branches) {
        Summand whole;  // its key renames the bound variables
        whole.bound = b.bound;
        whole.guards = b.guards;
        Factor body;
        body.key = key_of(b.body);
        whole.factors.push_back(std::move(body));
        keys.push_back(key_of(whole));
      }
      std::sort(keys.begin(), keys.end());
      f.key = "max(";
      for (const std::string& k : keys) f.key += k + ",";
      f.key += ")";
      break;
    }
  }
}

Factor function_of(Function function, std::vector<Form> arguments, std::int32_t power) {
  Factor f;
  f.kind = Factor::Kind::apply;
  f.function = function;
  f.arguments = std::move(arguments);
  f.power = power;
  name(f);
  return f;
}

bool is_function(const Factor& f, Function function) { return f.kind == Factor::Kind::apply && f.function == function; }

Form one_factor(Factor f) {
  Summand s;
  s.factors.push_back(std::move(f));
  return {s};
}

bool is_minus_infinity(const Summand& s) {
  return s.guards.empty() && s.factors.size() == 1 && ir::sign(s.coefficient) > 0 && is_function(s.factors[0], Function::negative_infinity);
}

bool holds(const Guard& g, std::int64_t value) {
  return (g.lo == -kUnbounded || g.lo <= value) && (g.hi == kUnbounded || value <= g.hi);
}

// A guard on one chosen number is a guard on what it was chosen by. False if the guards contradict each other.
bool tidy(const Algebra& algebra, std::vector<Guard>& guards) {
  for (std::size_t i = 0; i < guards.size(); ++i) {
    const Guard g = guards[i];
    if (g.form.terms.size() != 1 || g.form.terms[0].first->kind != Atom::Kind::chosen) continue;
    const Atom& atom = *g.form.terms[0].first;
    if (!atom.inner.is_constant()) continue;
    const bool if_chosen = holds(g, ir::checked_add(g.form.constant, ir::checked_mul(g.form.terms[0].second, atom.inner.constant)));
    const bool if_not = holds(g, g.form.constant);
    if (if_chosen == if_not) {
      if (!if_chosen) return false;
      guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(i--));
    } else if (if_chosen) {
      guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(i--));
      guards.insert(guards.end(), atom.guards.begin(), atom.guards.end());
    } else if (atom.guards.size() == 1 && (atom.guards[0].lo == -kUnbounded || atom.guards[0].hi == kUnbounded)) {
      guards[i] = complement_of(atom.guards[0]);
    }
  }
  std::map<std::string, Guard> by_form;
  std::vector<std::string> order;
  for (const Guard& g : guards) {
    const Interval range = interval_of(algebra, g.form);
    if ((g.hi != kUnbounded && g.hi < range.lo) || (g.lo != -kUnbounded && g.lo > range.hi)) return false;
    if (holds(g, range.lo) && holds(g, range.hi)) continue;
    const std::string key = g.form_key.empty() ? g.form.key() : g.form_key;
    const auto [it, added] = by_form.try_emplace(key, g);
    it->second.form_key = key;
    if (added) order.push_back(key);
    it->second.lo = std::max(it->second.lo, g.lo);
    it->second.hi = std::min(it->second.hi, g.hi);
    if (it->second.lo > it->second.hi) return false;
  }
  guards.clear();
  for (const std::string& key : order)
    if (by_form.at(key).lo != -kUnbounded || by_form.at(key).hi != kUnbounded) guards.push_back(by_form.at(key));
  return true;
}

}  // namespace shardproof::solvers::witness
