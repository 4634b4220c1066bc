#include "verifier/certificate/term_reader.h"

#include <algorithm>
#include <charconv>

#include "verifier/certificate/function_names.h"

namespace shardproof::verifier {

using solvers::Function;
using solvers::IndexId;
using solvers::TensorId;
using solvers::TermId;
using solvers::VarId;
using solvers::VarKind;

namespace {

constexpr int kMaxDepth = 60;              // of index terms in each other
constexpr int kMaxTermDepth = 200;
constexpr std::int64_t kMaxPower = 64;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 56;
constexpr std::int64_t kLimit = std::int64_t{1} << 60;

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

bool takes(Function function, std::size_t arguments) {
  switch (function) {
    case Function::negative_infinity: return arguments == 0;
    case Function::power: return arguments == 2;
    case Function::max: return arguments >= 1;
    default: return arguments == 1;
  }
}

}  // namespace

std::string_view Words::next() {
  if (rest_.empty()) throw MalformedLine("the line ends early");
  const std::size_t end = std::min(rest_.find(' '), rest_.size());
  const std::string_view word = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  if (word.empty()) throw MalformedLine("two blanks in a row");
  return word;
}

std::string Words::name() {
  const std::string_view word = next();
  if (word == "%") return {};
  std::string name;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      name += word[i];
      continue;
    }
    const int high = i + 2 < word.size() ? hex_digit(word[i + 1]) : -1, low = i + 2 < word.size() ? hex_digit(word[i + 2]) : -1;
    if (high < 0 || low < 0) throw MalformedLine("`" + std::string(word) + "` is no name");
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name;
}

std::int64_t Words::integer() {
  const std::string_view word = next();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) throw MalformedLine("`" + std::string(word) + "` is no number");
  return value;
}

std::int64_t Words::integer(std::int64_t lo, std::int64_t hi) {
  const std::int64_t value = integer();
  if (value < lo || value > hi) throw MalformedLine("there is no " + std::to_string(value) + " here");
  return value;
}

ir::Rational Words::rational() {
  const std::string_view word = next();
  const std::size_t slash = word.find('/');
  Words num(word.substr(0, slash));
  const std::int64_t numerator = num.integer(-kLimit, kLimit);
  if (slash == std::string_view::npos) return {numerator};
  Words den(word.substr(slash + 1));
  return {numerator, den.integer(1, kLimit)};
}

void TermReader::node(std::string_view line) {
  Words words(line);
  const std::string_view kind = words.next();
  if (kind == "ve" || kind == "vm" || kind == "vl" || kind == "vb") variables_.push_back(read_variable(kind, words));
  else if (kind == "a" || kind == "q" || kind == "m" || kind == "l") atoms_.push_back(read_atom(kind, words));
  else if (kind == "i") indices_.push_back(read_index(words));
  else {
    depth_ = 0;
    const TermId term = read_term(kind, words);
    if (depth_ >= kMaxTermDepth) throw MalformedLine("terms lie too deep in each other");
    terms_.push_back({term, depth_ + 1});
  }
  if (!words.done()) throw MalformedLine("the line goes on after its end");
}

VarId TermReader::read_variable(std::string_view kind, Words& words) {
  if (kind == "ve") {
    const std::int64_t dim = words.integer(0, 63);
    return pool_.element(static_cast<std::size_t>(dim), words.integer(1, kMaxExtent));
  }
  if (kind == "vb")  // a name that no other variable has; reductions name it anew
    return pool_.named(VarKind::bound, "certificate " + std::to_string(binders_++), words.integer(1, kMaxExtent));
  const std::string name = words.name();
  const auto found = pool_.find_named(kind == "vm" ? VarKind::mesh : VarKind::loop, name);
  if (!found) throw MalformedLine("there is no mesh axis or loop `" + name + "` here");
  return *found;
}

std::vector<IndexId> TermReader::indices_of(TensorId tensor, Words& words, int* depth) {
  std::vector<IndexId> indices;
  while (!words.done()) {
    const Index& index = at(indices_, words);
    if (depth != nullptr) *depth = std::max(*depth, index.depth);
    indices.push_back(index.id);
  }
  if (indices.size() != pool_.tensor(tensor).shape.size()) throw MalformedLine("a tensor with another number of dimensions");
  return indices;
}

TermReader::Index TermReader::read_atom(std::string_view kind, Words& words) {
  if (kind == "a") return {pool_.index_var(at(variables_, words)), 0};
  Index result;
  if (kind == "l") {
    const TensorId t = tensor(words);
    if (!pool_.tensor(t).integer || pool_.tensor(t).below < 1) throw MalformedLine("an index that is no integer");
    std::vector<IndexId> indices = indices_of(t, words, &result.depth);
    result.id = pool_.index_load(t, std::move(indices));
  } else {
    const Index inner = at(indices_, words);
    const std::int64_t divisor = words.integer(1, kMaxExtent);
    result = {kind == "q" ? pool_.index_div(inner.id, divisor) : pool_.index_mod(inner.id, divisor), inner.depth};
  }
  if (++result.depth > kMaxDepth) throw MalformedLine("index terms lie too deep in each other");
  return result;
}

TermReader::Index TermReader::read_index(Words& words) {
  Index result{pool_.index_constant(words.integer(-kLimit, kLimit)), 0};
  while (!words.done()) {
    const std::int64_t coefficient = words.integer(-kLimit, kLimit);
    const Index atom = at(atoms_, words);
    result.id = pool_.index_linear(result.id, 1, atom.id, coefficient);
    result.depth = std::max(result.depth, atom.depth);
  }
  return result;
}

TermId TermReader::operand(Words& words) {
  const Term& term = at(terms_, words);
  depth_ = std::max(depth_, term.depth);
  return term.id;
}

TermId TermReader::read_poly(Words& words) {
  std::vector<TermId> parts;
  while (!words.done()) {
    const ir::Rational coefficient = words.rational();
    std::vector<solvers::Factor> factors;
    for (std::int64_t n = words.integer(0, 1 << 12); n > 0; --n) {
      const TermId factor = operand(words);
      const std::int64_t power = words.integer(-kMaxPower, kMaxPower);
      if (power == 0) throw MalformedLine("a factor to the power 0");
      factors.push_back({factor, static_cast<std::int32_t>(power)});
    }
    parts.push_back(pool_.product(factors, coefficient));
  }
  return pool_.sum(parts);
}

TermId TermReader::read_term(std::string_view kind, Words& words) {
  if (kind == "p") return read_poly(words);
  if (kind == "x") {
    const TensorId t = tensor(words);
    if (pool_.tensor(t).integer) throw MalformedLine("an integer tensor read as numbers");
    return pool_.access(t, indices_of(t, words, nullptr));
  }
  if (kind == "f") {
    const std::string_view name = words.next();
    const auto* const at_name = std::find(kFunctionNames.begin(), kFunctionNames.end(), name);
    if (at_name == kFunctionNames.end()) throw MalformedLine("there is no function `" + std::string(name) + "`");
    const auto function = static_cast<Function>(at_name - kFunctionNames.begin());
    std::vector<TermId> arguments;
    while (!words.done()) arguments.push_back(operand(words));
    if (!takes(function, arguments.size())) throw MalformedLine("`" + std::string(name) + "` takes another number of arguments");
    return pool_.apply(function, std::move(arguments));
  }
  if (kind == "s" || kind == "u") {
    const TermId body = operand(words);
    // The binders are opened by variables of a scope first, as in every reduction.
    solvers::TermPool::FreshScope scope(pool_);
    solvers::Substitution names;
    std::vector<VarId> binders, vars;
    while (!words.done()) {
      const VarId v = at(variables_, words);
      if (pool_.var(v).kind != VarKind::bound || std::find(binders.begin(), binders.end(), v) != binders.end())
        throw MalformedLine("a reduction over what is no binder");
      binders.push_back(v);
      vars.push_back(scope.fresh(pool_.var(v).extent));
      names.set(v, pool_.index_var(vars.back()));
    }
    if (vars.empty()) throw MalformedLine("a reduction over nothing");
    return pool_.reduce(kind == "s" ? solvers::Reduction::sum : solvers::Reduction::max, std::move(vars), pool_.substitute(body, names));
  }
  if (kind == "g") {
    const IndexId form = at(indices_, words).id;
    const auto bound = [&](std::int64_t none) {
      Words copy = words;
      if (copy.next() == "-") {
        words = copy;
        return none;
      }
      return words.integer(-kLimit, kLimit);
    };
    const std::int64_t lo = bound(-solvers::kUnbounded);
    return pool_.range(form, lo, bound(solvers::kUnbounded));
  }
  if (kind == "n") return pool_.index_value(at(indices_, words).id);
  throw MalformedLine("`" + std::string(kind) + "` begins no line of a certificate");
}

}  // namespace shardproof::verifier
