// What programs.h is made of: one function for each kind of step that a program may take. Each returns false if the values
// that were drawn do not allow it.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "attack/layouts.h"

namespace shardproof::attack {

// A tensor of the reference and what the plan has of it.
struct Value {
  ValueId reference;
  Held plan;
  int degree = 1;           // how fast it grows with the inputs, about: exponentials of large numbers show nothing
  bool positive = false;    // above zero for all inputs
  std::int64_t below = 0;   // of indices
};

class Generator {
 public:
  explicit Generator(std::mt19937_64& random);
  void step();
  ir::Document finish() &&;

 private:
  using Values = std::vector<Value>;
  // Which operands of an elementwise op may be summands that are added up later: the op is linear in them.
  enum class Linear { in_none, in_all, in_first, in_second };

  // ---- values
  const ir::Shape& shape(const Value& v) const { return v.plan.shape; }
  bool is_float(const Value& v) const { return ir::is_float(reference_.type(v.reference).dtype); }
  ir::Shape random_shape(std::size_t rank);
  Value source(const ir::Shape& shape, const std::string& name = {});
  Value state(const ir::Shape& shape, const std::string& name, const std::string& role, const std::string& param, ir::DType dtype);
  Value indices(const ir::Shape& shape, std::int64_t below);
  Value constant(const ir::Shape& shape, ir::Rational value);
  Value iota(const ir::Shape& shape, std::size_t dim);
  Value condition(const Value& like_this);
  Value pick();
  Value like(const Value& v);         // a float tensor of the same shape
  Value positive(const Value& v);
  Value placed(Value v, const Layout& layout);
  Value settled(Value v);             // not partial
  Value rounded(Value v, std::size_t dim);  // with this dimension whole
  void keep(Value v) { values_.push_back(std::move(v)); }
  Value small();                      // of low degree
  Texts sorted(Texts axes) const;     // in the order of the mesh
  bool may_contract(const ir::DimLayout& dim) const;

  // ---- the same op on both sides
  Value both(OpCode op, const Values& operands, ir::AttrList attributes, ir::Shape shape, Layout layout);
  Value elementwise(OpCode op, Values operands, ir::AttrList attributes = {}, Linear linear = Linear::in_none);
  // Gives all operands one layout; only those in which the op is linear are partial.
  Layout align(Values& operands, Linear linear);
  Value scaled(const Value& v, ir::Rational factor);
  Value summed(const Value& v, Ints dims) { return reduced(OpCode::reduce_sum, v, std::move(dims)); }
  Value reduced(OpCode op, Value v, const Ints& dims);
  Value spread(const Value& v, const ir::Shape& to, const Ints& dims);
  Value product(const std::string& spec, Values operands);
  ValueId product_in_parts(const std::string& spec, const std::vector<ValueId>& operands, char label);
  // Moves the instructions from `first` on into a loop that adds `summand` up.
  static ValueId sum_over(ir::Builder& builder, std::size_t first, const std::string& index, std::int64_t trip, ValueId summand);

  // ---- steps
  bool unary();
  bool binary();
  bool scale();
  bool mask();
  bool contract();
  bool reduce();
  bool mean();
  bool broadcast();
  bool reshape();
  bool transpose();
  bool slice();
  bool concat();
  bool pad();
  bool look_up();
  bool scatter();
  bool along();
  bool soft_maximum();
  bool normalise();
  bool loss();
  bool gate();
  bool attend();
  bool rotate();
  bool microbatches();

  Value split_look_up(const Value& x, const Value& ids, std::size_t dim);
  Value split_softmax(const Value& x);
  Value split_loss(const Value& logits, const Value& labels);
  Value split_rms_norm(const Value& x, const Value& weight, ir::Rational eps);
  struct LocalIds {
    ValueId inside, ids;
  };
  LocalIds local_ids(const Value& ids, const ir::DimLayout& block);

  void update(const std::string& name);
  void output(Value v);
  Value gradient(const ir::Shape& shape);

  Dice dice_;
  ir::Document document_;
  ir::Builder reference_;
  PlanWriter plan_;
  Values values_;
  Texts params_;
  int inputs_ = 0;
  bool in_loop_ = false;
};

}  // namespace shardproof::attack
