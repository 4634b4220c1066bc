#include "solvers/witness/smt_text.h"

#include <algorithm>

namespace shardproof::solvers::witness {

namespace {

constexpr std::size_t kClaimsAtOnce = 16;  // many at once are harder than each by itself

std::string number(std::int64_t value) { return value < 0 ? "(- " + std::to_string(value).substr(1) + ")" : std::to_string(value); }

}  // namespace

std::string SmtText::name(Variable v) {
  used_.insert(v);
  return "v" + std::to_string(v);
}

std::string SmtText::atom(const Atom& a) {
  switch (a.kind) {
    case Atom::Kind::variable: return name(a.variable);
    case Atom::Kind::quotient: return "(div " + index(a.inner) + " " + number(a.divisor) + ")";
    case Atom::Kind::remainder: return "(mod " + index(a.inner) + " " + number(a.divisor) + ")";
    case Atom::Kind::chosen: return "(ite " + all(a.guards) + " " + index(a.inner) + " 0)";
    case Atom::Kind::load: {
      const auto [it, added] = tensors_.try_emplace(a.tensor, "t" + std::to_string(tensors_.size()));
      if (added) {
        std::string declaration = "(declare-fun " + it->second + " (";
        for (std::size_t d = 0; d < a.indices.size(); ++d) declaration += d == 0 ? "Int" : " Int";
        declarations_.push_back(declaration + ") Int)");
      }
      std::string text = it->second;
      for (const Index& i : a.indices) text += " " + index(i);
      if (!a.indices.empty()) text = "(" + text + ")";
      const Tensor& tensor = algebra_.pool().tensor(a.tensor);
      facts_.push_back("(<= 0 " + text + " " + number(tensor.below - 1) + ")");
      return text;
    }
  }
  throw NotCovered("an integer of unknown kind");
}

std::string SmtText::index(const Index& e) {
  std::vector<std::string> parts;
  for (const auto& [a, k] : e.terms) parts.push_back(k == 1 ? atom(*a) : "(* " + number(k) + " " + atom(*a) + ")");
  if (e.constant != 0 || parts.empty()) parts.push_back(number(e.constant));
  if (parts.size() == 1) return parts[0];
  std::string text = "(+";
  for (const std::string& p : parts) text += " " + p;
  return text + ")";
}

std::string SmtText::guard(const Guard& g) {
  const std::string form = index(g.form);
  if (g.lo == g.hi) return "(= " + form + " " + number(g.lo) + ")";
  if (g.lo == -kUnbounded) return "(<= " + form + " " + number(g.hi) + ")";
  if (g.hi == kUnbounded) return "(<= " + number(g.lo) + " " + form + ")";
  return "(<= " + number(g.lo) + " " + form + " " + number(g.hi) + ")";
}

std::string SmtText::conjunction(const std::vector<std::string>& claims) {
  std::vector<std::string> rest;
  for (const std::string& c : claims)
    if (c != "true") rest.push_back(c);
  if (rest.empty()) return "true";
  if (rest.size() == 1) return rest[0];
  std::string text = "(and";
  for (const std::string& c : rest) text += " " + c;
  return text + ")";
}

std::string SmtText::all(const std::vector<Guard>& guards) {
  std::vector<std::string> parts;
  for (const Guard& g : guards) parts.push_back(guard(g));
  return conjunction(parts);
}

std::string SmtText::equal(const Index& a, const Index& b) {
  if (a.key() == b.key()) return "true";
  return "(= " + index(a) + " " + index(b) + ")";
}

std::string SmtText::inside(const std::vector<Variable>& variables) {
  std::vector<std::string> parts;
  for (Variable v : variables)
    if (algebra_.extent(v) > 1) parts.push_back("(<= 0 " + name(v) + " " + number(algebra_.extent(v) - 1) + ")");
  return conjunction(parts);
}

std::string SmtText::exactly_one(const std::vector<std::string>& claims) {
  if (claims.size() == 1) return claims[0];
  std::string some = "(or";
  for (const std::string& c : claims) some += " " + c;
  std::vector<std::string> parts{some + ")"};
  for (std::size_t i = 0; i < claims.size(); ++i)
    for (std::size_t j = i + 1; j < claims.size(); ++j) parts.push_back("(not (and " + claims[i] + " " + claims[j] + "))");
  return conjunction(parts);
}

std::string SmtText::begin_let(const Renaming& bind) {
  std::string bindings;
  for (const auto& [v, value] : bind) bindings += "(" + name(v) + " " + index(value) + ")";
  return "(let (" + bindings + ") ";
}

std::string SmtText::let(const Renaming& bind, const std::string& claim) {
  return claim == "true" || bind.empty() ? claim : begin_let(bind) + claim + ")";
}

std::string SmtText::with_facts(const std::string& goal) {
  const std::vector<std::string> facts = std::exchange(facts_, {});
  if (goal == "true" || facts.empty()) return goal;
  return "(=> " + conjunction(facts) + " " + goal + ")";
}

std::string SmtText::open(const Context& context, int& closing) {
  facts_.clear();
  std::string text;
  const auto imply = [&](std::vector<std::string> premises) {
    const std::vector<std::string> facts = std::exchange(facts_, {});
    premises.insert(premises.end(), facts.begin(), facts.end());
    const std::string premise = conjunction(premises);
    if (premise == "true") return;
    text += "(=> " + premise + " ";
    ++closing;
  };
  for (const ContextItem& item : context) {
    // What is not bound by a `let` is within its extent anyway.
    std::vector<Variable> bound;
    for (const auto& [v, value] : item.bind) bound.push_back(v);
    if (!item.bind.empty()) {
      const std::string start = begin_let(item.bind);
      imply({});  // bounds of what the values read
      text += start;
      ++closing;
    }
    imply({inside(bound), all(item.assume)});
  }
  return text;
}

std::vector<std::string> SmtText::scripts(const std::vector<std::string>& claims) const {
  std::string head = "(set-logic ALL)\n";
  for (Variable v : used_)
    head += "(declare-const v" + std::to_string(v) + " Int)\n(assert (<= 0 v" + std::to_string(v) + " " + std::to_string(algebra_.extent(v) - 1) + "))\n";
  for (const std::string& d : declarations_) head += d + "\n";
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < claims.size(); begin += kClaimsAtOnce) {
    const auto first = claims.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<std::string> some(first, first + static_cast<std::ptrdiff_t>(std::min(kClaimsAtOnce, claims.size() - begin)));
    result.push_back(head + "(assert (not " + conjunction(some) + "))\n(check-sat)\n");
  }
  return result;
}

}  // namespace shardproof::solvers::witness
