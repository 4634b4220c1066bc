#include "solvers/witness/smt_solver.h"

#include <z3++.h>

#include <algorithm>
#include <cstdint>

namespace shardproof::solvers::witness {

namespace {
constexpr unsigned kFirstTry = 600'000;  // steps, about a fifth of a second
}

struct SmtSolver::State {
  SmtLimits limits;
  std::unique_ptr<z3::context> context;

  Answer ask(z3::solver& solver, const std::string& script, unsigned steps, std::map<std::string, long long>* model) {
    z3::params params(*context);
    params.set("rlimit", steps);
    solver.set(params);
    solver.from_string(script.c_str());
    switch (solver.check()) {
      case z3::unsat: return Answer::unsatisfiable;
      case z3::unknown: return Answer::unknown;
      case z3::sat: break;
    }
    if (model == nullptr) return Answer::satisfiable;
    const z3::model values = solver.get_model();
    for (unsigned i = 0; i < values.num_consts(); ++i) {
      const z3::func_decl constant = values.get_const_decl(i);
      std::int64_t value = 0;
      if (Z3_get_numeral_int64(*context, values.get_const_interp(constant), &value)) (*model)[constant.name().str()] = value;
    }
    return Answer::satisfiable;
  }
};

SmtSolver::SmtSolver(SmtLimits limits) : state_(new State{limits, nullptr}) {}
SmtSolver::~SmtSolver() = default;

Answer SmtSolver::check(const std::string& script, std::map<std::string, long long>* model) {
  Answer answer = Answer::unknown;
  try {
    if (!state_->context) state_->context = std::make_unique<z3::context>();
    z3::context& context = *state_->context;
    // Divisions by numbers taken apart before the search are ten times faster than left to it, mostly; Z3's older arithmetic
    // is for the rest.
    const auto prepared = [&] {
      return (z3::tactic(context, "simplify") & z3::tactic(context, "purify-arith") & z3::tactic(context, "solve-eqs") & z3::tactic(context, "smt"))
          .mk_solver();
    };
    z3::solver first = prepared();
    answer = state_->ask(first, script, std::min(kFirstTry, state_->limits.resource_limit), model);
    if (answer != Answer::unknown) return answer;
    z3::solver plain(context);
    z3::params older(context);
    older.set("arith.solver", 2U);
    plain.set(older);
    answer = state_->ask(plain, script, state_->limits.resource_limit / 2, model);
    if (answer != Answer::unknown) return answer;
    z3::solver last = prepared();
    return state_->ask(last, script, state_->limits.resource_limit, model);
  } catch (const z3::exception&) {
    state_->context.reset();  // its error state must not reach the next query
    return Answer::unknown;
  }
}

std::string smt_solver_version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return "z3-" + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(build);
}

}  // namespace shardproof::solvers::witness
