// What every core op means, written a second time: an expression for the element of the result at the element variables,
// from the terms of the operands. It shares nothing with verifier/kernel/semantics but the documented meaning of the ops
// (ir/op_schema.h): indices are left as the op's definition has them, and every reduction and collective is a sum or a maximum
// over the places that it reduces.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/program.h"
#include "solvers/kernel/term_pool.h"
#include "solvers/witness/read_term.h"

namespace shardproof::verifier::witness {

struct Operand {
  solvers::TermId term;
  ir::TensorType type;
};

class Meaning {
 public:
  using Form = solvers::witness::Form;
  using Index = solvers::witness::Index;

  // `loops`: variables of the loops around the instruction. mesh == nullptr: a single-device program.
  Meaning(solvers::TermPool& pool, solvers::witness::Algebra& algebra, solvers::witness::TermReader& reader, const ir::Mesh* mesh,
          std::map<std::string, solvers::VarId> loops)
      : pool_(pool), algebra_(algebra), reader_(reader), mesh_(mesh), loops_(std::move(loops)) {}

  // Throws solvers::witness::NotCovered.
  Form of(const ir::Instruction& instruction, const std::vector<Operand>& operands, const ir::TensorType& result);

  // The sum, average or maximum over the ranks along the axes.
  Form over_ranks(const std::vector<std::string>& axes, ir::ReduceKind kind, const Operand& x, const std::vector<Index>& at);
  std::vector<Index> element(const ir::Shape& shape);
  // The operand's element at `indices`, on the rank at the given coordinates (where they differ from the executing rank's).
  using Coordinates = std::map<std::string, Index>;
  Form at(const Operand& operand, const std::vector<Index>& indices, const Coordinates& coordinates = {});

 private:
  using Operands = std::vector<Operand>;
  Form source(const ir::Instruction& i, const ir::TensorType& result);
  Form structure(const ir::Instruction& i, const Operands& x, const ir::TensorType& result);
  Form elementwise(const ir::Instruction& i, const Operands& x, const ir::TensorType& result);
  Form contraction(const ir::Instruction& i, const Operands& x, const ir::TensorType& result);
  Form collective(const ir::Instruction& i, const Operands& x, const ir::TensorType& result);
  Form number(ir::Rational value);
  Index place(const ir::CoordExpr& e);
  Index coordinate(const std::string& axis);
  std::int64_t axis_size(const std::string& axis) const;
  std::vector<std::string> axes_of(const ir::Instruction& i) const;
  Coordinates position(const std::vector<std::string>& axes, Index p) const;

  solvers::TermPool& pool_;
  solvers::witness::Algebra& algebra_;
  solvers::witness::TermReader& reader_;
  const ir::Mesh* mesh_;
  std::map<std::string, solvers::VarId> loops_;
};

}  // namespace shardproof::verifier::witness
