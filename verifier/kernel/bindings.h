// Placements as denotations: what a rank's local tensor holds, as a term over reference tensors, mesh coordinates
// and local element indices. Sharded, replicated, zigzag, padded and flat layouts need no other treatment.
//
// Part of the trusted base; the exact cover of every placement is checked by ir::validate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "verifier/kernel/semantics.h"

namespace shardproof::verifier {

// The local tensor equals `term` wherever `care` is 1. `care` is a product of guards: 0 on padding that holds
// anything and on ranks that do not own the tensor.
struct Bound {
  solvers::TermId term;
  solvers::TermId care;
};

class Bindings {
 public:
  // reference_value(name): the term of a reference tensor over its element variables, and its type.
  using ReferenceValue = std::function<Denotation(const std::string& name)>;
  // Reference state with this role that belongs to parameter `param` (role "param": itself).
  using StateOf = std::function<std::string(const std::string& param, const std::string& role)>;

  Bindings(solvers::AtomTable& atoms, Semantics& semantics, const ir::Plan& plan, StateOf state_of)
      : atoms_(atoms), pool_(atoms.pool()), semantics_(semantics), plan_(plan), state_of_(std::move(state_of)) {}

  // Over the element variables of `local` (the value's type). Partial axes are not applied: see partial_axes.
  Bound bind(const ir::Binding& binding, const ir::TensorType& local, const ReferenceValue& reference);

 private:
  Bound bind_raw(const ir::Binding& binding, const ir::TensorType& local, const ReferenceValue& reference);
  // The element of one placed tensor at given values of its local digits (all dims' local digits in order).
  Bound place(const Denotation& reference, const ir::Placement& placement, const std::vector<solvers::IndexId>& local_digits);
  // Row-major element `flat` of a member's local tensor.
  Bound member(const ir::BufferMember& member, const std::string& role, solvers::IndexId flat, const ReferenceValue& reference);
  Bound fused(const std::vector<ir::FusedPart>& parts, std::int64_t axis, const std::string& role, solvers::IndexId flat,
              const ReferenceValue& reference);
  // The alternatives for the logical index along one dimension: exactly one guard is 1.
  struct Position {
    solvers::TermId guard;
    solvers::IndexId index;
  };
  std::vector<Position> logical_positions(const ir::DimLayout& dim, const std::vector<solvers::IndexId>& values);
  solvers::IndexId digit_value(const ir::Digit& digit);
  solvers::TermId owner_guard(const ir::Placement& placement);

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  Semantics& semantics_;
  const ir::Plan& plan_;
  StateOf state_of_;
};

}  // namespace shardproof::verifier
