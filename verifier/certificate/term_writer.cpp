#include "verifier/certificate/term_writer.h"

#include "ir/check.h"
#include "verifier/certificate/function_names.h"

namespace shardproof::verifier {

using solvers::AtomKind;
using solvers::TermKind;
using solvers::VarKind;

std::string as_word(std::string_view name) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string word;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || c == '%' || byte == 127) {
      word += '%';
      word += kDigits[byte >> 4U];
      word += kDigits[byte & 15U];
    } else {
      word += c;
    }
  }
  return word.empty() ? "%" : word;
}

std::int64_t TermWriter::add(Numbers& numbers, std::int32_t id, const std::string& text) {
  line(text);
  const auto number = static_cast<std::int64_t>(numbers.size());
  numbers.emplace(id, number);
  return number;
}

std::int64_t TermWriter::variable(solvers::VarId v) {
  if (const auto it = variables_.find(v.value); it != variables_.end()) return it->second;
  const solvers::Variable& var = pool_.var(v);
  switch (var.kind) {
    case VarKind::element: return add(variables_, v.value, "ve " + var.name.substr(1) + " " + std::to_string(var.extent));
    case VarKind::mesh: return add(variables_, v.value, "vm " + as_word(var.name));
    case VarKind::loop: return add(variables_, v.value, "vl " + as_word(var.name));
    case VarKind::bound: return add(variables_, v.value, "vb " + std::to_string(var.extent));
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

std::int64_t TermWriter::atom(solvers::AtomId id) {
  if (const auto it = atoms_.find(id.value); it != atoms_.end()) return it->second;
  const solvers::IndexAtom& a = pool_.atom(id);
  std::string text;
  switch (a.kind) {
    case AtomKind::variable: text = "a " + std::to_string(variable(a.var)); break;
    case AtomKind::floor_div: text = "q " + std::to_string(index(a.inner)) + " " + std::to_string(a.divisor); break;
    case AtomKind::modulo: text = "m " + std::to_string(index(a.inner)) + " " + std::to_string(a.divisor); break;
    case AtomKind::load:
      text = "l " + std::to_string(number_of_(a.tensor));
      for (const solvers::IndexId i : a.indices) text += " " + std::to_string(index(i));
      break;
  }
  return add(atoms_, id.value, text);
}

std::int64_t TermWriter::index(solvers::IndexId id) {
  if (const auto it = indices_.find(id.value); it != indices_.end()) return it->second;
  const solvers::IndexNode& n = pool_.index(id);
  std::string text = "i " + std::to_string(n.constant);
  for (const auto& [a, k] : n.terms) {
    const std::string number = std::to_string(atom(a));
    text += " " + std::to_string(k) + " " + number;
  }
  return add(indices_, id.value, text);
}

std::int64_t TermWriter::term(solvers::TermId id) {
  if (const auto it = terms_.find(id.value); it != terms_.end()) return it->second;
  const solvers::TermNode& n = pool_.node(id);
  const auto bound = [](std::int64_t b) { return b == solvers::kUnbounded || b == -solvers::kUnbounded ? std::string("-") : std::to_string(b); };
  std::string text;
  switch (n.kind) {
    case TermKind::poly:
      text = "p";
      for (const solvers::Monomial& m : n.monomials) {
        text += " " + ir::to_string(m.coefficient) + " " + std::to_string(m.factors.size());
        for (const solvers::Factor& f : m.factors) {
          const std::string number = std::to_string(term(f.term));
          text += " " + number + " " + std::to_string(f.power);
        }
      }
      break;
    case TermKind::access:
      text = "x " + std::to_string(number_of_(n.tensor));
      for (const solvers::IndexId i : n.indices) text += " " + std::to_string(index(i));
      break;
    case TermKind::apply:
      text = "f " + std::string(kFunctionNames[static_cast<std::size_t>(n.function)]);
      for (const solvers::TermId a : n.arguments) text += " " + std::to_string(term(a));
      break;
    case TermKind::reduce:
      text = (n.reduction == solvers::Reduction::sum ? "s " : "u ") + std::to_string(term(n.body));
      for (const solvers::VarId v : n.bound) text += " " + std::to_string(variable(v));
      break;
    case TermKind::range: text = "g " + std::to_string(index(n.form)) + " " + bound(n.lo) + " " + bound(n.hi); break;
    case TermKind::index_value: text = "n " + std::to_string(index(n.form)); break;
  }
  return add(terms_, id.value, text);
}

}  // namespace shardproof::verifier
