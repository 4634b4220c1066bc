#include "verifier/certificate/replay.h"

#include <algorithm>

#include "ir/check.h"
#include "solvers/kernel/accesses.h"

namespace shardproof::verifier {

using solvers::TensorId;
using solvers::TermId;
using solvers::TermKind;
using solvers::VarId;

namespace {

bool is_result(std::string_view line) {
  const std::string_view kind = line.substr(0, line.find(' '));
  return kind == "def" || kind == "ref" || kind == "val" || kind == "lost" || kind == "sum" || kind == "cmp";
}

}  // namespace

Replay::Replay(solvers::AtomTable& atoms, std::vector<std::string_view> lines, std::int64_t first_line)
    : atoms_(atoms), pool_(atoms.pool()), check_(atoms), reader_(pool_), lines_(std::move(lines)), first_line_(first_line) {
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (is_result(lines_[i])) results_.push_back(i);
}

void Replay::reject(Rejection::Why why, const std::string& name, const std::string& message) const {
  throw Rejection(why, first_line_ + static_cast<std::int64_t>(next_line_), name, message);
}

// Whatever goes wrong while lines are read or checked is the certificate's fault.
template <typename F>
auto Replay::guarded(const std::string& name, F&& read) {
  try {
    return read();
  } catch (const MalformedLine& e) {
    reject(Rejection::Why::malformed, name, e.what());
  } catch (const std::overflow_error&) {
    reject(Rejection::Why::malformed, name, "numbers leave 64 bits");
  } catch (const InternalError& e) {
    reject(Rejection::Why::malformed, name, std::string("no term has this form: ") + e.what());
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
    reject(Rejection::Why::malformed, name, "a term is too large");
  }
}

// Tensors that the proof made since the last line. Stand-ins for lost values have no number.
void Replay::number_tensors() {
  for (; tensors_seen_ < pool_.tensor_count(); ++tensors_seen_) reader_.add_tensor(TensorId{static_cast<std::int32_t>(tensors_seen_)});
}

// Whether the next result is this one. Then the nodes before it have been read.
bool Replay::take(std::string_view kind, const std::string& name) {
  number_tensors();
  if (next_result_ == results_.size()) return false;
  Words words(lines_[results_[next_result_]]);
  return guarded(name, [&] {
    if (words.next() != kind || words.name() != name) return false;
    for (; next_line_ < results_[next_result_]; ++next_line_) reader_.node(lines_[next_line_]);
    return true;
  });
}

TermId Replay::replaced(std::string_view kind, const std::string& name, TermId term) {
  if (!take(kind, name)) return term;
  return guarded(name, [&] {
    Words words(lines_[next_line_]);
    words.next();
    words.next();
    const TermId recorded = reader_.term(words);
    if (!words.done()) throw MalformedLine("the line goes on after its end");
    if (const std::string why = check_.may_replace(term, recorded); !why.empty())
      reject(Rejection::Why::unproved, name,
             "the certificate's term may not take the place of the value: " + why + ": " + pool_.to_string(recorded).substr(0, 300) + " for " + pool_.to_string(term).substr(0, 300));
    ++next_line_;
    ++next_result_;
    ++checked_;
    return recorded;
  });
}

// What `value` requires is kept apart from what the reference itself has required.
template <typename F>
TermId Replay::deferring(F&& value) {
  const std::size_t own = pool_.obligations().size();
  const TermId result = value();
  if (pool_.obligations().size() == own) return result;
  const std::vector<solvers::Obligation> all = pool_.take_obligations();
  for (std::size_t i = 0; i < own; ++i) pool_.require(all[i].kind, all[i].term);
  deferred_.insert(deferred_.end(), all.begin() + static_cast<std::ptrdiff_t>(own), all.end());
  return result;
}

TermId Replay::reference_value(const std::string& name, TermId term, bool may_define) {
  return deferring([&] {
    if (!may_define || !take("def", name)) return replaced("ref", name, term);
    return guarded(name, [&] {
      Words words(lines_[next_line_]);
      words.next();
      words.next();
      const TermId result = define(words, name, term);
      ++next_line_;
      ++next_result_;
      ++checked_;
      return result;
    });
  });
}

// A new tensor is a name for a function of its indices, whichever that is. What makes it safe to use: the function depends on nothing
// else, reads tensors inside their shapes, and reads no tensor that the value itself does not read and that has no definition (a value
// carried by a loop would be hidden in it).
TermId Replay::define(Words& words, const std::string& name, TermId term) {
  const TermId core = reader_.term(words), multiplier = reader_.term(words);
  std::vector<VarId> dims;
  while (!words.done()) {
    const VarId v = reader_.variable(words);
    const solvers::VarKind kind = pool_.var(v).kind;
    if ((kind != solvers::VarKind::element && kind != solvers::VarKind::loop) || !pool_.contains(pool_.node(term).free, v) || std::find(dims.begin(), dims.end(), v) != dims.end())
      throw MalformedLine("a tensor is indexed by what is no index of the value");
    dims.push_back(v);
  }
  for (const VarId v : pool_.members(pool_.node(core).free))
    if (std::find(dims.begin(), dims.end(), v) == dims.end()) throw MalformedLine("a definition depends on what does not index it");
  for (const solvers::Monomial& m : pool_.monomials_of(multiplier))
    for (const solvers::Factor& f : m.factors) {
      const solvers::TermNode& n = pool_.node(f.term);
      if (n.kind != TermKind::range && (n.kind != TermKind::access || n.free.value != 0)) throw MalformedLine("the multiplier of a definition has more than numbers, scalars and guards");
    }
  if (pool_.monomials_of(multiplier).size() != 1) throw MalformedLine("the multiplier of a definition is no product");
  const std::set<TensorId> own = solvers::tensors_in(pool_, term);
  for (const TensorId t : solvers::tensors_in(pool_, core))
    if (!atoms_.has_definition(t) && own.count(t) == 0) throw MalformedLine("a definition reads what its value does not read");
  std::vector<TermId> guards;
  if (!check_.in_shape(core, guards)) reject(Rejection::Why::unproved, name, "an index in the definition is not shown to lie inside its tensor");
  if (const std::string why = check_.may_replace(term, pool_.mul(multiplier, core)); !why.empty())
    reject(Rejection::Why::unproved, name, "the definition is not that of the value: " + why);
  const TensorId tensor = atoms_.define(name, dims, core);
  std::vector<solvers::IndexId> indices;
  for (const VarId v : dims) indices.push_back(pool_.index_var(v));
  const TermId value = pool_.mul(multiplier, pool_.access(tensor, std::move(indices)));
  for (const VarId v : pool_.members(pool_.node(value).free))
    if (!pool_.contains(pool_.node(term).free, v)) throw MalformedLine("the multiplier of a definition depends on what its value does not depend on");
  if (!check_.is_proper(value)) reject(Rejection::Why::unproved, name, "the value is a multiple of what may be minus infinity");
  return value;
}

TermId Replay::plan_value(const std::string& name, TermId term, bool /*completes_sums*/) {
  lost_ = take("lost", name);
  if (!lost_) return replaced("val", name, term);
  ++next_line_;
  ++next_result_;
  return term;
}

// The law of verifier/containment.h: a function of the term's free variables, of which nothing is known. The loop rule reads whether a value depends
// on what a loop carries off its term, so that must stay.
TermId Replay::contain(TermId term, const std::vector<TermId>& /*operands*/, bool /*arithmetic*/, const Keep& keep) {
  if (!std::exchange(lost_, false) || keep(term)) return term;
  number_tensors();
  solvers::Tensor tensor{"lost value", {}, false, 0, true};
  std::vector<solvers::IndexId> indices;
  for (const VarId v : pool_.members(pool_.node(term).free)) {
    tensor.shape.push_back(pool_.var(v).extent);
    indices.push_back(pool_.index_var(v));
  }
  const TermId stand_in = pool_.access(atoms_.opaque(std::move(tensor)), std::move(indices));
  tensors_seen_ = pool_.tensor_count();
  return stand_in;
}

TermId Replay::claimed_value(const std::string& claim, ClaimStep step, TermId term) {
  return replaced(step == ClaimStep::summed ? "sum" : "cmp", claim, term);
}

void Replay::finish() {
  for (const solvers::Obligation& o : deferred_) pool_.require(o.kind, o.term);
  if (next_result_ == results_.size() && next_line_ == lines_.size()) return;
  const std::size_t line = next_result_ < results_.size() ? results_[next_result_] : next_line_;
  throw Rejection(Rejection::Why::malformed, first_line_ + static_cast<std::int64_t>(line), {}, "this line belongs to no value of the proof");
}

}  // namespace shardproof::verifier
