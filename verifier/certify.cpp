#include "verifier/certify.h"

#include "ir/check.h"
#include "solvers/kernel/accesses.h"

namespace shardproof::verifier {

using solvers::TensorId;
using solvers::TermId;

void CertifyingSearch::number_tensors() {
  while (numbers_.size() < pool_.tensor_count()) numbers_.push_back(next_number_++);
}

std::int64_t CertifyingSearch::number_of(TensorId tensor) const {
  SHARDPROOF_CHECK(tensor.at() < numbers_.size() && numbers_[tensor.at()] >= 0);
  return numbers_[tensor.at()];
}

bool CertifyingSearch::has_number(TermId term) const {
  return !solvers::accesses(pool_, term, [&](TensorId t) { return numbers_[t.at()] < 0; });
}

void CertifyingSearch::write(const char* kind, const std::string& name, TermId computed, TermId found) {
  if (stopped_ || found == computed) return;
  number_tensors();
  if (!has_number(found)) return;
  const std::string number = std::to_string(writer_.term(found));
  writer_.line(std::string(kind) + " " + as_word(name) + " " + number);
}

TermId CertifyingSearch::reference_value(const std::string& name, TermId term, bool may_define) {
  number_tensors();
  const std::size_t tensors = pool_.tensor_count();
  const TermId found = FoldSearch::reference_value(name, term, may_define);
  if (pool_.tensor_count() == tensors) write("ref", name, term, found);
  else write_definition(name, TensorId{static_cast<std::int32_t>(tensors)}, found);
  return found;
}

// The value is a product with an access to the new tensor, whose indices are variables.
void CertifyingSearch::write_definition(const std::string& name, TensorId tensor, TermId value) {
  if (stopped_) return;
  std::vector<solvers::Monomial> product = pool_.monomials_of(value);
  SHARDPROOF_CHECK(product.size() == 1);
  std::vector<solvers::IndexId> indices;
  std::erase_if(product[0].factors, [&](const solvers::Factor& f) {
    if (pool_.node(f.term).kind != solvers::TermKind::access || pool_.node(f.term).tensor != tensor) return false;
    indices = pool_.node(f.term).indices;
    return true;
  });
  solvers::Substitution to_elements(true);
  std::string dims;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const solvers::IndexNode& n = pool_.index(indices[d]);
    SHARDPROOF_CHECK(n.terms.size() == 1);
    const solvers::VarId v = pool_.atom(n.terms[0].first).var;
    to_elements.set(pool_.pattern(d, pool_.var(v).extent), indices[d]);
    dims += " " + std::to_string(writer_.variable(v));
  }
  const std::string core = std::to_string(writer_.term(pool_.substitute(atoms_.definition(tensor), to_elements)));
  const std::string multiplier = std::to_string(writer_.term(pool_.poly(std::move(product))));
  writer_.line("def " + as_word(name) + " " + core + " " + multiplier + dims);
  number_tensors();
}

TermId CertifyingSearch::plan_value(const std::string& name, TermId term, bool completes_sums) {
  number_tensors();
  write_pending();
  const TermId found = FoldSearch::plan_value(name, term, completes_sums);
  pending_.push_back({name, term, found});
  return found;
}

TermId CertifyingSearch::contain(TermId term, const std::vector<TermId>& operands, bool arithmetic, const Keep& keep) {
  const TermId contained = FoldSearch::contain(term, operands, arithmetic, keep);
  numbers_.resize(pool_.tensor_count(), -1);
  if (contained != term && !pending_.empty()) pending_.back().lost = true;
  return contained;
}

void CertifyingSearch::write_pending() {
  for (const Value& value : pending_) {
    if (stopped_) break;
    if (value.lost || !has_number(value.folded)) writer_.line("lost " + as_word(value.name));
    else write("val", value.name, value.computed, value.folded);
  }
  pending_.clear();
}

TermId CertifyingSearch::claimed_value(const std::string& claim, ClaimStep step, TermId term) {
  number_tensors();
  write_pending();
  const TermId found = FoldSearch::claimed_value(claim, step, term);
  write(step == ClaimStep::summed ? "sum" : "cmp", claim, term, found);
  return found;
}

void CertifyingSearch::stop() {
  number_tensors();
  write_pending();
  stopped_ = true;
}

}  // namespace shardproof::verifier
