#include "verifier/smt_witness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>

#include "ir/check.h"
#include "solvers/kernel/accesses.h"
#include "solvers/witness/evaluate_form.h"
#include "solvers/witness/identity.h"
#include "solvers/witness/smt_solver.h"
#include "verifier/smt_answers.h"
#include "verifier/witness/obligation.h"

namespace shardproof::verifier {

using solvers::TensorId;
using solvers::TermId;
using solvers::witness::Answer;
using solvers::witness::NotCovered;
using witness::Obligation;
using witness::Unfoldings;

namespace {

constexpr std::size_t kMaxUnfoldings = 12;
const std::string kLaws = "2";  // changes with what Algebra, reduce_identity and Meaning do
const std::string kNoTime = "no time left", kGaveUp = "the SMT solver gave up";
constexpr int kPoints = 3;                  // at which sides that are not confirmed are compared
constexpr std::int64_t kMaxProducts = 20'000;

class Confirmation {
 public:
  Confirmation(Session& session, double seconds, const SmtOptions& options, const std::atomic<bool>* cancel)
      : session_(session), pool_(session.pool()), atoms_(session.atoms()), seconds_(seconds), options_(options), cancel_(cancel),
        answers_on_disk_(options.answers, solvers::witness::smt_solver_version() + " laws " + kLaws), start_(std::chrono::steady_clock::now()) {}

  SmtConfirmation run() {
    program(session_.reference_run(), nullptr, "the reference's ");
    program(session_.plan_run(), &session_.mesh(), "");
    for (const Claim& claim : session_.claims()) {
      Obligation o;
      o.kind = Obligation::Kind::claim;
      o.place = (claim.kind == Claim::Kind::state ? "state " : "output ") + claim.name;
      const ir::TensorType& type = session_.plan_program().value(claim.value).type;
      o.operands = {{session_.plan_run().term(claim.value), type}};
      o.type = type;
      o.result = claim.expected;
      o.partial = &claim.binding->placement.partial;
      o.care = claim.care;
      o.mesh = &session_.mesh();
      ask(o);
    }
    result_.distinct = static_cast<std::int64_t>(outcomes_.size());
    for (const auto& [key, outcome] : outcomes_) {
      if (outcome.empty()) {
        ++result_.confirmed;
        continue;
      }
      const auto same = std::find_if(result_.open.begin(), result_.open.end(), [&](const SmtConfirmation::Open& o) { return o.reason == outcome; });
      if (same == result_.open.end()) result_.open.push_back({outcome, places_.at(key), 1});
      else ++same->count;
    }
    std::sort(result_.open.begin(), result_.open.end(), [](const auto& a, const auto& b) { return std::tie(b.count, a.reason) < std::tie(a.count, b.reason); });
    answers_on_disk_.save();
    result_.solver = solvers::witness::smt_solver_version();
    result_.seconds = elapsed();
    return std::move(result_);
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  witness::DefinitionOf definition_of() {
    return [this](TensorId t) {
      solvers::witness::TermReader::Definition definition{atoms_.definition(t), {}};
      const std::vector<std::int64_t>& shape = pool_.tensor(t).shape;
      for (std::size_t d = 0; d < shape.size(); ++d) definition.dims.push_back(pool_.pattern(d, shape[d]));
      return definition;
    };
  }

  const std::set<TensorId>& tensors_of(TermId term) {
    const auto [it, added] = tensors_.try_emplace(term.value);
    if (added) it->second = solvers::tensors_in(pool_, term);
    return it->second;
  }

  void program(const ProgramRun& run, const ir::Mesh* mesh, const std::string& whose) {
    const std::vector<Step>& steps = run.steps();
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const ir::Instruction& i = *steps[k].instruction;
      Obligation o;
      o.mesh = mesh;
      for (const auto& [name, variable] : steps[k].loops) o.loops[name] = variable;
      if (i.op == ir::OpCode::loop) {
        if (k > 0 && steps[k - 1].loops.size() > steps[k].loops.size()) loop(run, i, std::move(o), steps[k - 1].loops.back().second, whose);
        continue;
      }
      if (i.outputs.size() != 1) continue;
      const ir::Value& value = run.program().value(i.outputs[0]);
      o.place = whose + "%" + value.name;
      o.instruction = &i;
      for (ir::ValueId in : i.inputs) o.operands.push_back({run.term(in), run.program().value(in).type});
      o.type = value.type;
      o.result = run.term(i.outputs[0]);
      if (!is_literal(i, o.result)) ask(o);
    }
  }

  // Literal tensors and long numbers are known by their content: nothing is claimed of them.
  bool is_literal(const ir::Instruction& i, TermId result) {
    return (i.op == ir::OpCode::table || i.op == ir::OpCode::constant) && !tensors_of(result).empty();
  }

  void loop(const ProgramRun& run, const ir::Instruction& i, Obligation o, solvers::VarId iteration, const std::string& whose) {
    o.iteration = iteration;
    for (const ir::Carry& carry : i.region->carries) {
      const ir::Value& value = run.program().value(carry.result);
      o.place = whose + "%" + value.name;
      o.type = value.type;
      o.result = run.term(carry.result);
      const TermId argument = run.term(carry.argument), next = run.term(carry.next);
      const bool adds = std::any_of(tensors_of(argument).begin(), tensors_of(argument).end(), [&](TensorId t) { return tensors_of(next).count(t) != 0; });
      o.kind = adds ? Obligation::Kind::accumulation : Obligation::Kind::last_iteration;
      o.operands = {{next, value.type}};
      if (adds) o.operands = {{run.term(carry.init), value.type}, {next, value.type}, {argument, value.type}};
      ask(o);
    }
  }

  // Until both sides read the same tensors, the latest that only one reads is unfolded; with `told_only`, of those that the
  // prover's term has and the operands have not.
  Unfoldings unfoldings_for(const Obligation& o, bool told_only) {
    std::set<TensorId> computed, told = tensors_of(o.result);
    for (const witness::Operand& operand : o.operands) computed.insert(tensors_of(operand.term).begin(), tensors_of(operand.term).end());
    Unfoldings result;
    // What the prover's term reads itself is seldom much, and scalars are cheap: a gradient norm adds up one for each parameter.
    const std::set<TensorId> first = told;
    const auto counts = [&](TensorId t) { return !told_only || (first.count(t) == 0 && !pool_.tensor(t).shape.empty()); };
    for (std::size_t counted = 0;;) {
      TensorId latest;
      const auto consider = [&](const std::set<TensorId>& side, const std::set<TensorId>& other) {
        for (TensorId t : side)
          if (other.count(t) == 0 && atoms_.has_definition(t) && (counted < kMaxUnfoldings || !counts(t))) latest = std::max(latest, t);
      };
      consider(told, computed);
      if (!told_only) consider(computed, told);
      if (!latest.valid()) break;
      result.push_back(latest);
      if (counts(latest)) ++counted;
      const std::set<TensorId>& inside = tensors_of(atoms_.definition(latest));
      for (std::set<TensorId>* side : {&computed, &told})
        if (side->erase(latest) != 0) side->insert(inside.begin(), inside.end());
    }
    return result;
  }

  void ask(const Obligation& o) {
    ++result_.obligations;
    for (TensorId tensor : tensors_of(o.result))
      if (pool_.tensor(tensor).unknown) return;  // strayed: no claim rests on it
    std::string first_key, reason;
    Unfoldings before;
    for (const bool told_only : {true, false}) {
      const Unfoldings unfoldings = unfoldings_for(o, told_only);
      if (!told_only && unfoldings == before) break;
      const std::string key = witness::canonical(pool_, o, unfoldings, definition_of());
      if (told_only) first_key = key;
      const auto [it, added] = answers_.try_emplace(key);
      if (added) it->second = remembered(key, o, unfoldings);
      if (it->second.empty()) {
        outcomes_[first_key].clear();
        return;
      }
      if (reason.empty()) reason = it->second;
      before = unfoldings;
    }
    outcomes_[first_key] = reason;
    places_.try_emplace(first_key, o.place);
  }

  std::string remembered(const std::string& key, const Obligation& o, const Unfoldings& unfoldings) {
    // Who wants the queries gets all of them.
    const auto known = options_.dump ? std::nullopt : answers_on_disk_.find(key);
    if (known) {
      ++result_.remembered;
      return *known;
    }
    std::string result = answer(o, unfoldings);
    if (result != kNoTime && result != kGaveUp) answers_on_disk_.add(key, result);
    return result;
  }

  // Empty if it is confirmed, else why not.
  std::string answer(const Obligation& o, const Unfoldings& unfoldings) {
    if (elapsed() > seconds_ || (cancel_ != nullptr && cancel_->load())) return kNoTime;
    solvers::witness::Algebra algebra(pool_);
    try {
      const witness::Sides sides = witness::sides_of(pool_, algebra, o, unfoldings, definition_of());
      const solvers::witness::Reduced reduced = solvers::witness::reduce_identity(algebra, sides.computed, sides.told);
      std::string reason = reduced.reason;
      std::map<std::string, long long> model;
      if (reduced.covered()) {
        Answer worst = Answer::unsatisfiable;
        for (const std::string& script : reduced.scripts) {
          ++result_.queries;
          if (options_.dump) options_.dump({o.place, script});
          worst = std::max(worst, solver_.check(script, &model));
          if (worst != Answer::unsatisfiable) break;
        }
        switch (worst) {
          case Answer::unsatisfiable: return "";
          case Answer::unknown: reason = kGaveUp; break;
          case Answer::satisfiable: reason = "no one-to-one map of the summands was found"; break;
        }
      }
      compare(o, algebra, sides, model);
      return reason;
    } catch (const NotCovered& e) {
      return e.what();
    } catch (const std::overflow_error&) {
      return "integers of more than 64 bits";
    }
  }

  class TooMany {};

  // Random numbers for inputs; what has a definition is computed from them.
  solvers::TensorContents defined_contents(std::uint64_t seed) {
    solvers::TensorContents contents = solvers::hashed_contents(pool_, seed);
    const auto free = contents.real;
    left_ = kMaxProducts;
    contents.real = [this, free](TensorId t, const std::vector<std::int64_t>& indices) {
      const TermId definition = atoms_.definition(t);
      if (!definition.valid()) return free(t, indices);
      if ((left_ -= reads_of(definition)) < 0) throw TooMany();
      solvers::Assignment at;
      const std::vector<std::int64_t>& shape = pool_.tensor(t).shape;
      for (std::size_t d = 0; d < shape.size(); ++d) at.set(pool_.pattern(d, shape[d]), indices[d]);
      return solvers::evaluate(pool_, definition, at, *contents_);
    };
    contents_ = contents;
    return contents;
  }

  // Places that the term's reductions run over.
  std::int64_t reads_of(TermId term) const {
    const solvers::TermNode& n = pool_.node(term);
    std::int64_t total = 1;
    for (const solvers::Monomial& m : n.monomials)
      for (const solvers::Factor& f : m.factors) total = std::min(kMaxProducts + 1, total + reads_of(f.term));
    for (TermId a : n.arguments) total = std::min(kMaxProducts + 1, total + reads_of(a));
    if (n.kind == solvers::TermKind::reduce) {
      total = reads_of(n.body);
      for (solvers::VarId v : n.bound) total = std::min(kMaxProducts + 1, total > kMaxProducts / pool_.var(v).extent ? kMaxProducts + 1 : total * pool_.var(v).extent);
    }
    return total;
  }

  // Dissent if the sides differ at some point that can be computed.
  void compare(const Obligation& o, const solvers::witness::Algebra& algebra, const witness::Sides& sides, const std::map<std::string, long long>& model) {
    std::mt19937_64 random(7);
    for (int k = 0; k < kPoints; ++k) {
      solvers::witness::Point point(algebra.variables());
      for (std::size_t v = 0; v < point.size(); ++v) {
        point[v] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(algebra.extent(static_cast<int>(v))));
        const auto it = model.find("v" + std::to_string(v));
        if (k == 0 && it != model.end() && it->second >= 0 && it->second < algebra.extent(static_cast<int>(v))) point[v] = it->second;
      }
      const solvers::TensorContents contents = defined_contents(static_cast<std::uint64_t>(k));
      double largest_a = 0, largest_b = 0;
      std::optional<double> a, b;
      try {
        a = solvers::witness::evaluate(algebra, sides.computed, point, contents, kMaxProducts, &largest_a);
        b = solvers::witness::evaluate(algebra, sides.told, point, contents, kMaxProducts, &largest_b);
      } catch (const TooMany&) {
        return;
      }
      if (!a || !b || !std::isfinite(*a) || !std::isfinite(*b)) continue;
      if (std::fabs(*a - *b) <= 1e-6 * (1 + std::max(largest_a, largest_b))) continue;
      throw InternalError("the second witness dissents at " + o.place + ": the instruction's meaning is " + std::to_string(*a) + ", the prover's term " +
                          pool_.to_string(o.result) + " is " + std::to_string(*b));
    }
  }

  Session& session_;
  solvers::TermPool& pool_;
  solvers::AtomTable& atoms_;
  double seconds_;
  const SmtOptions& options_;
  const std::atomic<bool>* cancel_;
  SmtAnswers answers_on_disk_;
  std::chrono::steady_clock::time_point start_;
  solvers::witness::SmtSolver solver_;
  std::unordered_map<std::int32_t, std::set<TensorId>> tensors_;  // by term
  std::unordered_map<std::string, std::string> answers_;          // by canonical text and unfoldings
  std::map<std::string, std::string> outcomes_, places_;
  std::optional<solvers::TensorContents> contents_;
  std::int64_t left_ = 0;
  SmtConfirmation result_;
};

}  // namespace

SmtConfirmation confirm_by_smt(Session& session, double seconds, const SmtOptions& options, const std::atomic<bool>* cancel) {
  return Confirmation(session, seconds, options, cancel).run();
}

}  // namespace shardproof::verifier
