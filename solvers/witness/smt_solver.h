// Runs SMT-LIB scripts with Z3.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace shardproof::solvers::witness {

enum class Answer { unsatisfiable, satisfiable, unknown };

struct SmtLimits {
  unsigned resource_limit = 12'000'000;  // of Z3's own steps (z3_backend.h says why no time)
};

class SmtSolver {
 public:
  explicit SmtSolver(SmtLimits limits = {});
  ~SmtSolver();
  SmtSolver(const SmtSolver&) = delete;
  SmtSolver& operator=(const SmtSolver&) = delete;

  // Never throws: what Z3 does not read is unknown. If satisfiable, `model` gets the values of integer constants by name.
  Answer check(const std::string& script, std::map<std::string, long long>* model = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string smt_solver_version();  // "z3-4.8.12"

}  // namespace shardproof::solvers::witness
