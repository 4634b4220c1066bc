#include "verifier/containment.h"

#include <algorithm>

namespace shardproof::verifier {

using solvers::Factor;
using solvers::IndexId;
using solvers::Monomial;
using solvers::TermId;
using solvers::TermKind;
using solvers::TermNode;
using solvers::VarId;

namespace {

// Right plans have unmatched values as well: partial sums until a collective completes them, and steps of an
// elementwise computation that is grouped in another way. They are shorter than this.
constexpr int kDepth = 4;            // from here on large pieces are lost
constexpr int kDeep = 40;            // from here on all
constexpr std::size_t kManyLost = 24;  // lost pieces of one value that stay apart
constexpr std::int32_t kLarge = 60;  // nodes of a piece, guards not counted

}  // namespace

TermId Containment::unknown(std::string name, const std::vector<VarId>& variables) {
  solvers::Tensor tensor{std::move(name), {}, false, 0};
  tensor.unknown = true;
  std::vector<IndexId> indices;
  for (VarId v : variables) {
    tensor.shape.push_back(pool_.var(v).extent);
    indices.push_back(pool_.index_var(v));
  }
  return pool_.access(folder_.atoms().opaque(std::move(tensor)), std::move(indices));
}

bool Containment::strayed(TermId term) {
  const auto [it, added] = strayed_.try_emplace(term.value, false);
  if (!added) return it->second;
  const TermNode& n = pool_.node(term);
  bool found = n.kind == TermKind::access && pool_.tensor(n.tensor).unknown;
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors) found = found || strayed(f.term);
  for (TermId a : n.arguments) found = found || strayed(a);
  if (n.kind == TermKind::reduce) found = found || strayed(n.body);
  return strayed_[term.value] = found;
}

bool Containment::matches(TermId term) {
  const auto [it, added] = matches_.try_emplace(term.value, false);
  if (added) it->second = folder_.is_folded(term) && !strayed(term);
  return it->second;
}

TermId Containment::stand_in(TermId term) {
  const auto [it, added] = stand_ins_.try_emplace(term);
  if (added)
    it->second = unknown("unmatched " + std::to_string(stand_ins_.size()), pool_.members(pool_.node(term).free));
  return it->second;
}

bool Containment::is_lost(TermId piece, int depth) {
  if (folder_.is_folded(piece)) return false;
  if (strayed(piece)) return true;
  return depth >= kDeep || (depth >= kDepth && pool_.node(piece).size > kLarge);
}

TermId Containment::contain_piece(TermId piece, int depth, const Keep& keep) {
  if (!is_lost(piece, depth)) return piece;
  if (!keep(piece)) return stand_in(piece);
  std::vector<Monomial> kept, rest;
  for (const Monomial& m : pool_.monomials_of(piece)) {
    const bool stays = std::any_of(m.factors.begin(), m.factors.end(), [&](const Factor& f) { return keep(f.term); });
    (stays ? kept : rest).push_back(m);
  }
  const TermId lost = pool_.poly(std::move(rest));
  return is_lost(lost, depth) ? pool_.add(pool_.poly(std::move(kept)), stand_in(lost)) : piece;
}

std::map<std::vector<Factor>, TermId> Containment::pieces(TermId term) {
  std::map<std::vector<Factor>, std::vector<Monomial>> groups;
  for (const Monomial& m : pool_.monomials_of(term)) {
    std::vector<Factor> guards;
    Monomial rest{m.coefficient, {}};
    for (const Factor& f : m.factors) (pool_.is_guard(f.term) ? guards : rest.factors).push_back(f);
    groups[guards].push_back(std::move(rest));
  }
  std::map<std::vector<Factor>, TermId> result;
  for (auto& [guards, monomials] : groups) result.emplace(guards, pool_.poly(std::move(monomials)));
  return result;
}

TermId Containment::contain(TermId term, const std::vector<TermId>& operands, bool arithmetic, const Keep& keep) {
  if (matches(term)) return term;
  // A large scalar that is the same on all ranks has no collective ahead, and would be copied everywhere.
  // A gradient norm is completed later: it is large by the number of its sums only, each of which matches.
  const auto sum_that_matches = [&](const Monomial& m) { return folder_.is_folded(pool_.poly({m})); };
  if (pool_.node(term).free.value == 0) {
    const std::vector<Monomial> sums = pool_.monomials_of(term);
    if (std::all_of(sums.begin(), sums.end(), sum_that_matches) && !strayed(term)) return term;
    if (pool_.node(term).size > kLarge && !folder_.is_folded(term) && !keep(term)) return stand_in(term);
  }
  int depth = 0;
  for (TermId operand : operands)
    if (const auto it = depth_.find(operand.value); it != depth_.end()) depth = std::max(depth, it->second);
  depth += arithmetic ? 1 : 0;
  bool changed = false;
  std::vector<TermId> parts, lost;
  for (const auto& [guards, piece] : pieces(term)) {  // parts of a buffer stray one by one
    const TermId contained = contain_piece(piece, depth, keep);
    changed = changed || contained != piece;
    const TermId part = pool_.mul(pool_.product(guards, ir::Rational(1)), contained);
    (strayed(contained) && !keep(contained) ? lost : parts).push_back(part);
  }
  // Products of two such terms have a piece for each pair.
  if (arithmetic && lost.size() > kManyLost) {
    changed = true;
    lost = {stand_in(pool_.sum(lost))};
  }
  parts.insert(parts.end(), lost.begin(), lost.end());
  const TermId result = changed ? pool_.sum(parts) : term;
  const auto [it, added] = depth_.try_emplace(result.value, depth);
  it->second = std::min(it->second, depth);
  return result;
}

}  // namespace shardproof::verifier
