// Random straight-line programs over the core ops, with small and uneven shapes. Every program is defined on the inputs
// it comes with: indices are in range, roots and quotients have positive operands.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/mesh.h"
#include "ir/program.h"

namespace shardproof::semantics_test {

// A value without a defining instruction. Real contents are multiples of 1/8, so that polynomials of low degree are
// exact in doubles and comparisons have one answer; integers are in [0, below).
struct ProgramInput {
  ir::ValueId id;
  std::int64_t below = 0;  // 0: real
  bool positive = false;
};

class ProgramGenerator {
 public:
  // mesh == nullptr: a program for one device.
  ProgramGenerator(std::mt19937_64& random, const ir::Mesh* mesh);

  // Appends `op` with random operands (earlier values, or new inputs), attributes and shapes, and what it needs.
  // Not for loop, release, send, recv, rng_uniform and macros.
  ir::ValueId append(ir::OpCode op);
  // A loop of `length` ops in which each carried value accumulates or is replaced; returns the results.
  std::vector<ir::ValueId> append_loop(int length);

  // Extents to draw from; more than once means more often.
  void set_extents(std::vector<std::int64_t> extents) { extents_ = std::move(extents); }

  const ir::Program& program() const { return program_; }
  const std::vector<ProgramInput>& inputs() const { return inputs_; }
  static std::vector<ir::OpCode> supported(bool with_collectives);

 private:
  // What is known of a value, to keep programs defined and comparisons decided.
  struct Facts {
    std::int64_t below = 0;  // integers: all elements are in [0, below); 0: not known
    int degree = 1;          // of the polynomial over inputs that it is; kInexact: not exact in doubles
    bool positive = false;   // > 0 everywhere
    bool infinite = false;   // may hold minus infinity
    bool index = false;      // integer function of indices, coordinates and integer inputs; or a comparison of such
  };
  static constexpr int kInexact = 100;
  static constexpr std::int64_t kMostElements = 36;
  struct Range {
    ir::CoordExpr expr;
    std::int64_t most = 0;  // the expression is in [0, most]
  };
  using Predicate = std::function<bool(const Facts&, const ir::TensorType&)>;

  std::int64_t below(std::int64_t count);                       // uniform in [0, count)
  std::int64_t between(std::int64_t low, std::int64_t high);    // inclusive
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& from) { return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))]; }

  const ir::Shape& shape(ir::ValueId id) const { return program_.value(id).type.shape; }
  Facts& facts(ir::ValueId id) { return facts_[static_cast<std::size_t>(id.index)]; }
  ir::ValueId known(ir::ValueId id, Facts facts);
  ir::Shape random_shape(std::size_t least_rank = 0);
  std::int64_t random_extent() { return pick(extents_); }
  ir::Shape factors(std::int64_t count);  // a random shape of so many elements
  Range coordinate(std::int64_t most);    // a random expression with values in [0, most]

  ir::ValueId new_real(ir::Shape shape, bool positive);
  ir::ValueId new_integer(ir::Shape shape, std::int64_t limit);
  std::optional<ir::ValueId> find(const Predicate& fits, const ir::Shape* shape);
  ir::ValueId real(const ir::Shape* shape = nullptr, std::size_t least_rank = 0);  // finite
  ir::ValueId positive(const ir::Shape* shape = nullptr);
  ir::ValueId exact(const ir::Shape* shape = nullptr);
  ir::ValueId score(const ir::Shape* shape = nullptr, std::size_t least_rank = 0);  // may be minus infinity
  ir::ValueId integer(const ir::Shape* shape, std::int64_t limit);                  // elements in [0, limit)
  ir::ValueId condition(const ir::Shape* shape, bool index);
  ir::ValueId anything(std::size_t least_rank);

  ir::ValueId source(ir::OpCode op);
  ir::ValueId structure(ir::OpCode op);
  ir::ValueId slice();
  ir::ValueId broadcast();
  ir::ValueId indexed(ir::OpCode op);
  ir::ValueId unary(ir::OpCode op);
  ir::ValueId n_ary(ir::OpCode op);
  ir::ValueId pow();
  ir::ValueId compare();
  ir::ValueId select();
  ir::ValueId logical(ir::OpCode op);
  ir::ValueId einsum();
  ir::ValueId reduction(ir::OpCode op);
  ir::ValueId collective(ir::OpCode op);
  // Appends with a group attribute, perhaps asynchronously. A collective has one or two attributes of its own.
  using Attr = std::pair<const char*, ir::AttrValue>;
  ir::ValueId communicate(ir::OpCode op, ir::ValueId operand, const std::vector<std::string>& axes, const Attr& own,
                          const std::optional<Attr>& second = {});

  std::mt19937_64& random_;
  const ir::Mesh* mesh_;
  ir::Program program_;
  ir::Builder builder_;
  std::vector<Facts> facts_;
  std::vector<ir::ValueId> visible_;
  std::vector<ProgramInput> inputs_;
  std::vector<std::pair<std::string, std::int64_t>> variables_;  // mesh axes and open loops, with extents
  std::vector<std::int64_t> extents_{1, 2, 2, 3, 3, 4, 5};
  int loops_ = 0;
};

}  // namespace shardproof::semantics_test
