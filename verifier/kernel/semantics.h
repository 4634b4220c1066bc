// What every core op means: the term of its result, from the terms of its operands. A value's term describes
// its element at the element variables x0, x1, ... (one per dimension), as a function of the mesh coordinates and
// loop indices. Collectives act by substitution of coordinates: all_reduce(sum, tp) is a sum over the coordinate
// tp, all_gather substitutes tp := j div S. Nothing is enumerated.
//
// Part of the trusted base. Every op checks its own index bounds under its guards before placements are
// substituted: reading past a local shard is an error even if the neighbour's data would be right.
//
// A value is a real number or, for masked scores, minus infinity. Operations keep it so: what would need a rule for
// 0 * -inf or -inf - -inf is refused, and what is undefined for some reals (1/0, sqrt(-1), log 0) records an obligation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/program.h"
#include "solvers/kernel/atoms.h"
#include "verifier/kernel/integer_range.h"
#include "verifier/kernel/side_conditions.h"

namespace shardproof::verifier {

// What must hold for the result of an instruction to be defined.
struct DomainCondition {
  solvers::Obligation obligation;
  ir::Span span;  // of the instruction
};

// Which elements of a value may be minus infinity: none; those whose whole row is masked (maxima of scores, which are
// finite by assumption unless that is proved); or any (masked scores).
enum class Infinity : std::uint8_t { none, rows, elements };

struct Denotation {
  solvers::TermId term;
  ir::TensorType type;
  Infinity infinity = Infinity::none;
};

// An instruction that has no meaning on the values it gets (index out of bounds, unmatched groups), or that
// the prover does not know. Carries what a diagnostic needs.
class SemanticsError : public std::runtime_error {
 public:
  SemanticsError(std::string error_code, std::string error_name, const std::string& message, std::string wanted = {},
                 std::string got = {})
      : std::runtime_error(message), code(std::move(error_code)), name(std::move(error_name)), expected(std::move(wanted)),
        found(std::move(got)) {}
  std::string code, name, expected, found;
};

// Literal tensors (op `table`) and long constants by content, so that equal ones of reference and plan are one tensor.
using LiteralTable = std::map<std::pair<ir::Shape, std::vector<std::string>>, solvers::TensorId>;

class Semantics {
 public:
  // mesh == nullptr: a single-device program.
  Semantics(solvers::AtomTable& atoms, LiteralTable& literals, const ir::Mesh* mesh);

  // The result's term. The instruction is a core op with one result, not a loop, release, send or recv.
  solvers::TermId evaluate(const ir::Instruction& instruction, const std::vector<Denotation>& operands, const ir::TensorType& result);

  // Whether the term is a function of indices and literals alone.
  bool is_index_function(solvers::TermId term) const { return conditions_.is_index_function(term); }

  // Of its result.
  Infinity infinity(const ir::Instruction& instruction, const std::vector<Denotation>& operands) const;

  solvers::VarId coordinate(const std::string& axis);
  const std::vector<solvers::VarId>& coordinates() const { return coordinates_; }
  solvers::IndexId coordinate_index(const ir::CoordExpr& expression);
  void bind_loop(const std::string& name, solvers::VarId variable) { loops_[name] = variable; }
  void unbind_loop(const std::string& name) { loops_.erase(name); }

  // Tensors of arbitrary numbers (elements that placements leave open). Where an operation on them may be undefined, its
  // result is: that is tracked per element instead of asked of the numbers.
  void set_arbitrary(std::set<solvers::TensorId> tensors) { arbitrary_ = std::move(tensors); }
  // 1 where the result of the instruction may be undefined, a term of guards; `regions`: the same for the operands. Throws
  // if it would sum such elements.
  solvers::TermId undefined_region(const ir::Instruction& instruction, const std::vector<Denotation>& operands,
                                   const std::vector<solvers::TermId>& regions, const ir::TensorType& result);

  // Of all instructions so far. Unlike the obligations of the pool, which rewrites used, these matter only to results
  // that depend on the value.
  const std::vector<DomainCondition>& domain_conditions() const { return domain_conditions_; }

  // Some integers that the last `evaluate` or `require_sum_fits` computed have no known bounds, and so may not fit their type.
  struct Unbounded {
    std::string what;
    ir::DType dtype = ir::DType::i64;
  };
  std::optional<Unbounded> take_unbounded() { return std::exchange(unbounded_, std::nullopt); }
  // It is an assumption of the verdict that they fit.
  void assume_fits(const Unbounded&) { assumes_no_overflow_ = true; }
  [[noreturn]] static void refuse(const Unbounded& unbounded);
  // Whether every integer of type `part` is one of type `whole`.
  static bool contains(ir::DType whole, ir::DType part);
  bool assumes_no_overflow() const { return assumes_no_overflow_; }

  // A reference tensor `term` is held as `dtype` in the plan: as integers of less bits only if they fit. Throws.
  void require_held(const std::string& name, solvers::TermId term, ir::DType dtype);

  // An integer tensor of which only the type is known.
  void know_type(solvers::TensorId tensor, ir::DType dtype);
  // A loop's result fits its type. Throws.
  void require_sum_fits(const std::string& name, solvers::TermId term, ir::DType dtype);

  // The term with element variables of `shape` replaced by `indices`.
  solvers::TermId at(solvers::TermId term, const ir::Shape& shape, const std::vector<solvers::IndexId>& indices);
  std::vector<solvers::IndexId> element_indices(const ir::Shape& shape);

  // Ordered mesh axes of a collective's group, from attribute `axes` or by recognising explicit rank lists.
  std::vector<std::string> group_axes(const ir::Instruction& instruction) const;

 private:
  using Operands = std::vector<Denotation>;
  solvers::TermId meaning(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result);
  // `without_bounds` is called for pieces that read integers without declared bounds. Throws.
  void require_fits(const std::string& what, solvers::TermId term, ir::DType dtype, const std::function<void()>& without_bounds);
  void require_result_fits(const ir::Instruction& i, const Operands& operands, solvers::TermId term, ir::DType dtype);
  void require_defined(const ir::Instruction& i, const Operands& operands);
  bool is_arbitrary(solvers::TermId term) const;
  void require(const ir::Instruction& i, solvers::Obligation condition);
  void require_finite(const ir::Instruction& i, const Denotation& operand);
  void require_mask_of_indices(const Operands& operands);
  solvers::TermId source(const ir::Instruction& i, const ir::TensorType& result);
  solvers::TermId structure(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result);
  solvers::TermId indexed(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result);
  solvers::TermId elementwise(const ir::Instruction& i, const Operands& operands);
  solvers::TermId contraction(const ir::Instruction& i, const Operands& operands);
  solvers::TermId collective(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result);
  solvers::TermId number(ir::Rational value);
  solvers::TermId table(const ir::Instruction& i, const ir::TensorType& result);
  solvers::TermId reduce_over(const std::vector<std::string>& axes, ir::ReduceKind kind, solvers::TermId term);
  void require_in_range(solvers::IndexId e, std::int64_t extent, const std::vector<solvers::TermId>& guards, const std::string& what);

  solvers::TermPool& pool_;
  solvers::AtomTable& atoms_;
  LiteralTable& literals_;
  SideConditions conditions_;
  std::vector<DomainCondition> domain_conditions_;
  std::set<solvers::Obligation> seen_conditions_;
  IntegerRange ranges_;
  std::optional<Unbounded> unbounded_;
  bool assumes_no_overflow_ = false;
  std::set<solvers::TensorId> arbitrary_;
  solvers::TermId undefined_here_;  // where an operand of the current instruction is arbitrary and has a condition
  const ir::Mesh* mesh_;
  std::vector<solvers::VarId> coordinates_;
  std::map<std::string, solvers::VarId> loops_;
};

}  // namespace shardproof::verifier
