#include "solvers/z3_backend.h"

#include <z3++.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

namespace shardproof::solvers {

namespace {

// One query. Variables, loads and quotients become integer constants; what is known about each is asserted when
// it first occurs. Nothing is taken from the pool but the shape of the terms and the extents: intervals that
// the pool computed are not used, so that an error in them cannot confirm itself.
class Encoder {
 public:
  Encoder(const TermPool& pool, z3::context& context, z3::solver& solver)
      : pool_(pool), context_(context), solver_(solver) {}

  z3::expr index(IndexId e) {
    const IndexNode& node = pool_.index(e);
    z3::expr total = number(node.constant);
    for (const auto& [a, k] : node.terms) total = total + number(k) * atom(a);
    return total;
  }

  void assume(TermId guard) {
    const TermNode& node = pool_.node(guard);
    if (node.kind != TermKind::range) return;
    const z3::expr form = index(node.form);
    if (node.lo != -kUnbounded) solver_.add(form >= number(node.lo));
    if (node.hi != kUnbounded) solver_.add(form <= number(node.hi));
  }

  z3::expr number(std::int64_t value) { return context_.int_val(value); }

 private:
  z3::expr unknown(const char* prefix, std::int32_t id) {
    return context_.int_const((prefix + std::to_string(id)).c_str());
  }

  z3::expr bounded(const char* prefix, std::int32_t id, std::int64_t below) {
    const z3::expr x = unknown(prefix, id);
    solver_.add(x >= number(0) && x < number(below));
    return x;
  }

  z3::expr atom(AtomId id) {
    if (auto it = atoms_.find(id.value); it != atoms_.end()) return it->second;
    const IndexAtom& a = pool_.atom(id);
    std::optional<z3::expr> value;
    switch (a.kind) {
      case AtomKind::variable:
        value = bounded("v", a.var.value, pool_.var(a.var).extent);
        break;
      case AtomKind::load:
        value = bounded("load", id.value, pool_.tensor(a.tensor).below);
        break;
      case AtomKind::floor_div:
        value = quotient(a);
        break;
      case AtomKind::modulo:
        value = index(a.inner) - number(a.divisor) * quotient(a);
        break;
    }
    atoms_.emplace(id.value, *value);
    return *value;
  }

  // q with 0 <= inner - divisor*q < divisor; one constant for div and mod of the same pair.
  z3::expr quotient(const IndexAtom& a) {
    const auto [it, added] =
        quotients_.try_emplace({a.inner.value, a.divisor}, static_cast<std::int32_t>(quotients_.size()));
    const z3::expr q = unknown("q", it->second);
    if (added) {
      const z3::expr rest = index(a.inner) - number(a.divisor) * q;
      solver_.add(rest >= number(0) && rest < number(a.divisor));
    }
    return q;
  }

  const TermPool& pool_;
  z3::context& context_;
  z3::solver& solver_;
  std::unordered_map<std::int32_t, z3::expr> atoms_;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> quotients_;
};

using Key = std::tuple<IndexId, std::int64_t, std::int64_t, std::vector<TermId>>;

}  // namespace

struct Z3Range::State {
  const TermPool& pool;
  Z3Options options;
  Z3Statistics statistics;
  std::unique_ptr<z3::context> context;
  std::map<Key, bool> answers;

  z3::check_result ask(const Key& key) {
    if (!context) context = std::make_unique<z3::context>();
    z3::solver solver(*context, "QF_LIA");
    z3::params limits(*context);
    limits.set("rlimit", options.resource_limit);
    solver.set(limits);
    Encoder encoder(pool, *context, solver);
    const auto& [e, lo, hi, guards] = key;
    for (TermId guard : guards) encoder.assume(guard);
    const z3::expr value = encoder.index(e);
    solver.add(value < encoder.number(lo) || value > encoder.number(hi));
    return solver.check();
  }
};

Z3Range::Z3Range(const TermPool& pool, Z3Options options) : state_(new State{pool, options, {}, {}, {}}) {}
Z3Range::~Z3Range() = default;

bool Z3Range::prove_in_range(IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards) {
  State& s = *state_;
  ++s.statistics.asked;
  Key key{e, lo, hi, guards};
  std::vector<TermId>& assumed = std::get<3>(key);
  std::erase_if(assumed, [&](TermId g) { return s.pool.node(g).kind != TermKind::range; });
  std::sort(assumed.begin(), assumed.end());
  assumed.erase(std::unique(assumed.begin(), assumed.end()), assumed.end());
  if (auto it = s.answers.find(key); it != s.answers.end()) return it->second;

  const auto start = std::chrono::steady_clock::now();
  z3::check_result result = z3::unknown;
  try {
    result = s.ask(key);
  } catch (const z3::exception&) {
    s.context.reset();  // its error state must not reach the next query
  }
  s.statistics.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  switch (result) {
    case z3::unsat:
      ++s.statistics.proved;
      break;
    case z3::sat:
      ++s.statistics.refuted;
      break;
    case z3::unknown:
      ++s.statistics.unknown;
      break;
  }
  s.answers.emplace(std::move(key), result == z3::unsat);
  return result == z3::unsat;
}

RangeOracle Z3Range::oracle() {
  return [this](IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards) {
    return prove_in_range(e, lo, hi, guards);
  };
}

const Z3Statistics& Z3Range::statistics() const {
  return state_->statistics;
}

}  // namespace shardproof::solvers
