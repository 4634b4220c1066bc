// Keys of sums of products, and which variables they mention.
#include <algorithm>
#include <utility>

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

bool mentions(const Factor& f, Variable v) {
  const auto in = [v](const Index& e) { return mentions(e, v); };
  const auto in_form = [v](const Form& form) { return std::any_of(form.begin(), form.end(), [v](const Summand& s) { return mentions(s, v); }); };
  switch (f.kind) {
    case Factor::Kind::access: return std::any_of(f.indices.begin(), f.indices.end(), in);
    case Factor::Kind::integer: return mentions(Index{0, {{f.atom, 1}}}, v);
    case Factor::Kind::apply: return std::any_of(f.arguments.begin(), f.arguments.end(), in_form);
    case Factor::Kind::maximum: return std::any_of(f.branches.begin(), f.branches.end(), [&](const Branch& b) {
        return in_form(b.body) || std::any_of(b.guards.begin(), b.guards.end(), [&](const Guard& g) { return in(g.form); });
      });
  }
  return false;
}

bool mentions(const Summand& s, Variable v) {
  return std::any_of(s.guards.begin(), s.guards.end(), [v](const Guard& g) { return mentions(g.form, v); }) ||
         std::any_of(s.factors.begin(), s.factors.end(), [v](const Factor& f) { return mentions(f, v); });
}

namespace {

// Names "v12" of bound variables by order of occurrence. Each level of binders has names of its own ("b1_0", "b2_0"), or an outer and
// an inner variable would look alike and the sum of a[i, j] over j, for each i, like that of a[j, i].
std::string alpha(const std::string& text, const std::vector<Variable>& bound) {
  if (bound.empty()) return text;
  const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  const auto number_at = [&](std::size_t i) {
    std::size_t end = i;
    while (is_digit(end)) ++end;
    return std::pair(std::stoi(text.substr(i, end - i)), end);
  };
  int level = 1;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == 'b' && is_digit(i + 1)) level = std::max(level, number_at(i + 1).first + 1);
  std::string result;
  std::vector<Variable> seen;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != 'v' || !is_digit(i + 1)) {
      result += text[i++];
      continue;
    }
    const auto [v, end] = number_at(i + 1);
    if (std::find(bound.begin(), bound.end(), v) == bound.end()) {
      result += text.substr(i, end - i);
    } else {
      auto at = std::find(seen.begin(), seen.end(), v);
      if (at == seen.end()) at = seen.insert(seen.end(), v);
      result += "b" + std::to_string(level) + "_" + std::to_string(at - seen.begin());
    }
    i = end;
  }
  return result;
}

}  // namespace

std::string key_of(const Summand& s) {
  std::string text;
  for (const Factor& f : s.factors) text += "*" + f.key + "^" + std::to_string(f.power);
  std::vector<std::string> guards;
  for (const Guard& g : s.guards) guards.push_back(g.key());
  std::sort(guards.begin(), guards.end());
  for (const std::string& g : guards) text += g;
  return "S" + std::to_string(s.bound.size()) + alpha(text, s.bound);
}

std::string key_of(const Form& form) {
  std::vector<std::string> keys;
  for (const Summand& s : form) keys.push_back(ir::to_string(s.coefficient) + key_of(s));
  std::sort(keys.begin(), keys.end());
  std::string text;
  for (const std::string& k : keys) text += "+" + k;
  return text;
}

std::string head_of(const Summand& s) {
  std::string text;
  for (const Factor& f : s.factors) text += f.head + "^" + std::to_string(f.power) + ";";
  return text;
}

}  // namespace shardproof::solvers::witness
