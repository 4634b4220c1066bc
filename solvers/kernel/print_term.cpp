// Terms as text, for messages and debugging.
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

namespace {
const char* function_name(Function f) {
  switch (f) {
    case Function::exp: return "exp";
    case Function::log: return "log";
    case Function::sqrt: return "sqrt";
    case Function::inverse: return "1/";
    case Function::tanh: return "tanh";
    case Function::erf: return "erf";
    case Function::sigmoid: return "sigmoid";
    case Function::sin: return "sin";
    case Function::cos: return "cos";
    case Function::abs: return "abs";
    case Function::power: return "pow";
    case Function::max: return "max";
    case Function::negative_infinity: return "-inf";
    case Function::less: return "negative";
    case Function::less_equal: return "nonpositive";
    case Function::equal_real: return "zero";
    case Function::count_: break;
  }
  return "?";
}
}  // namespace

std::string TermPool::to_string(IndexId e) const {
  std::string out;
  for (const auto& [a, k] : index(e).terms) {
    const IndexAtom& at = atom(a);
    std::string text;
    switch (at.kind) {
      case AtomKind::variable: text = var(at.var).name; break;
      case AtomKind::floor_div: text = "(" + to_string(at.inner) + ")/" + std::to_string(at.divisor); break;
      case AtomKind::modulo: text = "(" + to_string(at.inner) + ")%" + std::to_string(at.divisor); break;
      case AtomKind::load:
        text = tensor(at.tensor).name + "[";
        for (std::size_t i = 0; i < at.indices.size(); ++i) text += (i ? "," : "") + to_string(at.indices[i]);
        text += "]";
        break;
    }
    if (!out.empty()) out += k < 0 ? " - " : " + ";
    else if (k < 0) out += "-";
    const std::int64_t magnitude = k < 0 ? -k : k;
    if (magnitude != 1) out += std::to_string(magnitude) + "*";
    out += text;
  }
  const std::int64_t c = index(e).constant;
  if (out.empty()) return std::to_string(c);
  if (c != 0) out += (c < 0 ? " - " : " + ") + std::to_string(c < 0 ? -c : c);
  return out;
}

std::string TermPool::to_string(TermId term, int depth) const {
  if (depth > 8) return "...";
  const TermNode& n = node(term);
  switch (n.kind) {
    case TermKind::poly: {
      if (n.monomials.empty()) return "0";
      std::string out;
      std::size_t shown = 0;
      for (const Monomial& m : n.monomials) {
        if (++shown > 40) return out + " + ...(" + std::to_string(n.monomials.size()) + " terms)";
        std::string text;
        if (m.factors.empty() || !m.coefficient.is_one()) text = ir::to_string(m.coefficient);
        for (const Factor& f : m.factors) {
          if (!text.empty()) text += "*";
          text += to_string(f.term, depth + 1);
          if (f.power != 1) text += "^" + std::to_string(f.power);
        }
        if (!out.empty()) out += " + ";
        out += text;
      }
      return depth > 0 ? "(" + out + ")" : out;
    }
    case TermKind::access: {
      std::string out = tensor(n.tensor).name;
      if (n.indices.empty()) return out;
      out += "[";
      for (std::size_t i = 0; i < n.indices.size(); ++i) out += (i ? ", " : "") + to_string(n.indices[i]);
      return out + "]";
    }
    case TermKind::apply: {
      std::string out = function_name(n.function);
      if (n.arguments.empty()) return out;
      out += "(";
      for (std::size_t i = 0; i < n.arguments.size(); ++i) out += (i ? ", " : "") + to_string(n.arguments[i], depth + 1);
      return out + ")";
    }
    case TermKind::reduce: {
      std::string out = n.reduction == Reduction::sum ? "sum{" : "max{";
      for (std::size_t i = 0; i < n.bound.size(); ++i)
        out += (i ? ", " : "") + var(n.bound[i]).name + "<" + std::to_string(var(n.bound[i]).extent);
      return out + "} " + to_string(n.body, depth + 1);
    }
    case TermKind::range: {
      if (n.lo == n.hi) return "[" + to_string(n.form) + " = " + std::to_string(n.lo) + "]";
      std::string out = "[";
      if (n.lo != -kUnbounded) out += std::to_string(n.lo) + " <= ";
      out += to_string(n.form);
      if (n.hi != kUnbounded) out += " <= " + std::to_string(n.hi);
      return out + "]";
    }
    case TermKind::index_value: return to_string(n.form);
  }
  return "?";
}

}  // namespace shardproof::solvers
