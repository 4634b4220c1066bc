// Small plans built by hand: what must be proved, and the same plans with one fault, which must not.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/print.h"
#include "verifier/verify.h"

#include <iostream>

namespace shardproof::verifier {
namespace {

using ir::AttrValue;
using ir::Builder;
using ir::DType;
using ir::OpCode;
using ir::Placement;
using ir::ValueId;

using Ints = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

constexpr std::int64_t kBatch = 8192, kIn = 4096, kHidden = 16384, kDp = 16, kTp = 8;

ir::DimLayout digits(std::vector<ir::Digit> list) { return {std::move(list), ir::Permutation::none, 0, {}}; }
ir::Digit on(const std::string& axis, std::int64_t size) { return {axis, 1, size}; }
ir::Digit local(std::int64_t size) { return {"", 1, size}; }

ir::Binding of(const std::string& name, std::vector<ir::DimLayout> dims) {
  ir::Binding binding;
  binding.of = name;
  binding.placement.dims = std::move(dims);
  return binding;
}

// y = relu-free two-layer MLP, loss = sum(y*y)/batch, one SGD step on both weights.
ir::Reference reference() {
  ir::Reference r;
  Builder b(r.program);
  const auto x = b.input("x", {DType::f32, {kBatch, kIn}});
  const auto w1 = b.input("w1", {DType::f32, {kHidden, kIn}});
  const auto w2 = b.input("w2", {DType::f32, {kIn, kHidden}});
  const auto h = b.op(OpCode::einsum, {x, w1}, {{"spec", std::string("bi,hi->bh")}}, "h");
  const auto a = b.op(OpCode::silu, {h}, {}, "a");
  const auto y = b.op(OpCode::einsum, {a, w2}, {{"spec", std::string("bh,oh->bo")}}, "y");
  const auto yy = b.op(OpCode::mul, {y, y}, {}, "yy");
  const auto total = b.op(OpCode::reduce_sum, {yy}, {{"dims", Ints{0, 1}}}, "total");
  const auto inv = b.typed(OpCode::constant, {DType::f32, {}}, {{"value", ir::Rational(1, kBatch)}}, "inv");
  const auto loss = b.op(OpCode::mul, {total, inv}, {}, "loss");
  // dy = 2 y / batch; dw2 = dy^T a; da = dy w2; dh = da * silu'(h); dw1 = dh^T x
  const auto two = b.typed(OpCode::constant, {DType::f32, {kBatch, kIn}}, {{"value", ir::Rational(2, kBatch)}}, "two");
  const auto dy = b.op(OpCode::mul, {y, two}, {}, "dy");
  const auto dw2 = b.op(OpCode::einsum, {dy, a}, {{"spec", std::string("bo,bh->oh")}}, "dw2");
  const auto da = b.op(OpCode::einsum, {dy, w2}, {{"spec", std::string("bo,oh->bh")}}, "da");
  const auto s = b.op(OpCode::sigmoid, {h}, {}, "s");
  const auto hs = b.op(OpCode::mul, {h, s, da}, {}, "hs");
  const auto dh = b.op(OpCode::add, {b.op(OpCode::mul, {s, da}), hs}, {}, "dh");
  const auto dw1 = b.op(OpCode::einsum, {dh, x}, {{"spec", std::string("bh,bi->hi")}}, "dw1");
  const auto lr1 = b.typed(OpCode::constant, {DType::f32, {kHidden, kIn}}, {{"value", ir::Rational(1, 10)}}, "lr1");
  const auto lr2 = b.typed(OpCode::constant, {DType::f32, {kIn, kHidden}}, {{"value", ir::Rational(1, 10)}}, "lr2");
  const auto w1n = b.op(OpCode::sub, {w1, b.op(OpCode::mul, {dw1, lr1})}, {}, "w1n");
  const auto w2n = b.op(OpCode::sub, {w2, b.op(OpCode::mul, {dw2, lr2})}, {}, "w2n");
  r.inputs = {{x, 0, {}}};
  r.state = {{"w1", w1, w1n, "param", "", {}}, {"w2", w2, w2n, "param", "", {}}};
  r.outputs = {{"loss", loss, {}}};
  return r;
}

enum class Fault { none, missing_tp_reduce, missing_dp_reduce, doubled_reduce, wrong_axis, wrong_scale, wrong_reduce_op, swapped };

ir::Plan plan(Fault fault) {
  ir::Plan p;
  p.meshes = {{"mesh", {{"dp", kDp, {}}, {"tp", kTp, {}}}, {}, {}}};
  ir::StageProgram stage;
  stage.name = "all";
  const ir::Mesh mesh = p.meshes[0];
  Builder b(stage.program, [mesh](const std::string& axis) {
    const auto i = mesh.find_axis(axis);
    return i ? mesh.axes[*i].size : 0;
  });
  const auto all_reduce = [&](ValueId v, const Texts& axes, const std::string& name, const std::string& kind = "sum") {
    return b.op(OpCode::all_reduce, {v}, {{"axes", axes}, {"reduce", kind}}, name);
  };
  const std::int64_t lb = kBatch / kDp, lh = kHidden / kTp;
  const auto x = b.input("x", {DType::f32, {lb, kIn}});
  const auto w1 = b.input("w1", {DType::f32, {lh, kIn}});
  const auto w2 = b.input("w2", {DType::f32, {kIn, lh}});
  const auto h = b.op(OpCode::einsum, {x, w1}, {{"spec", std::string("bi,hi->bh")}}, "h");
  const auto a = b.op(OpCode::silu, {h}, {}, "a");
  auto y = b.op(OpCode::einsum, {a, w2}, {{"spec", std::string("bh,oh->bo")}}, "y_partial");
  if (fault != Fault::missing_tp_reduce) y = all_reduce(y, {"tp"}, "y", fault == Fault::wrong_reduce_op ? "avg" : "sum");
  if (fault == Fault::doubled_reduce) y = all_reduce(y, {"tp"}, "y2");
  const auto yy = b.op(OpCode::mul, {y, y}, {}, "yy");
  const auto total = all_reduce(b.op(OpCode::reduce_sum, {yy}, {{"dims", Ints{0, 1}}}, "total_local"), {"dp"}, "total");
  const auto inv = b.typed(OpCode::constant, {DType::f32, {}}, {{"value", ir::Rational(1, kBatch)}}, "inv");
  const auto loss = b.op(OpCode::mul, {total, inv}, {}, "loss");
  const ir::Rational scale(2, fault == Fault::wrong_scale ? lb : kBatch);
  const auto two = b.typed(OpCode::constant, {DType::f32, {lb, kIn}}, {{"value", scale}}, "two");
  const auto dy = b.op(OpCode::mul, {y, two}, {}, "dy");
  auto dw2 = b.op(OpCode::einsum, {dy, a}, {{"spec", std::string("bo,bh->oh")}}, "dw2_partial");
  const auto da = b.op(OpCode::einsum, {dy, w2}, {{"spec", std::string("bo,oh->bh")}}, "da");
  const auto s = b.op(OpCode::sigmoid, {h}, {}, "s");
  const auto one = b.typed(OpCode::constant, {DType::f32, {lb, lh}}, {{"value", ir::Rational(1)}}, "one");
  // s * (1 + h * (1 - s)) without the last factor, as the reference: another association of the same products.
  const auto inner = b.op(OpCode::add, {one, h}, {}, "inner");
  const auto dh = b.op(OpCode::mul, {da, b.op(OpCode::mul, {s, inner})}, {}, "dh");
  auto dw1 = b.op(OpCode::einsum, {dh, x}, {{"spec", std::string("bh,bi->hi")}}, "dw1_partial");
  if (fault != Fault::missing_dp_reduce) dw1 = all_reduce(dw1, {fault == Fault::wrong_axis ? "tp" : "dp"}, "dw1");
  dw2 = all_reduce(dw2, {"dp"}, "dw2");
  const auto lr1 = b.typed(OpCode::constant, {DType::f32, {lh, kIn}}, {{"value", ir::Rational(1, 10)}}, "lr1");
  const auto lr2 = b.typed(OpCode::constant, {DType::f32, {kIn, lh}}, {{"value", ir::Rational(1, 10)}}, "lr2");
  const auto s1 = b.op(OpCode::mul, {dw1, lr1}, {}, "s1");
  const auto w1n = fault == Fault::swapped ? b.op(OpCode::sub, {s1, w1}, {}, "w1n") : b.op(OpCode::sub, {w1, s1}, {}, "w1n");
  const auto w2n = b.op(OpCode::sub, {w2, b.op(OpCode::mul, {dw2, lr2})}, {}, "w2n");
  const ir::DimLayout rows = digits({on("tp", kTp), local(lh)}), whole = digits({local(kIn)});
  stage.inputs = {{x, of("x", {digits({on("dp", kDp), local(lb)}), whole}), {}}};
  stage.state = {{"w1", w1, w1n, of("w1", {rows, whole}), "accelerator", {}}, {"w2", w2, w2n, of("w2", {whole, rows}), "accelerator", {}}};
  stage.outputs = {{"loss", loss, of("loss", {}), {}}};
  p.stages.push_back(std::move(stage));
  return p;
}

Report check(Fault fault) {
  ir::Document d;
  d.reference = reference();
  d.plan = plan(fault);
  Report r = verify(d);
  return r;
}

TEST(Prove, MlpOnDataAndTensorParallelRanks) {
  const Report r = check(Fault::none);
  for (const auto& d : r.diagnostics) std::cerr << d.code << " " << d.message << "\n  expected " << d.expected << "\n  found    " << d.found << "\n";
  EXPECT_EQ(r.verdict, Verdict::equivalent);
  EXPECT_EQ(r.obligations.proved, 3);
}

TEST(Prove, FaultsAreNotProved) {
  for (Fault f : {Fault::missing_tp_reduce, Fault::missing_dp_reduce, Fault::doubled_reduce, Fault::wrong_axis, Fault::wrong_scale,
                  Fault::wrong_reduce_op, Fault::swapped}) {
    const Report r = check(f);
    EXPECT_NE(r.verdict, Verdict::equivalent) << static_cast<int>(f);
  }
}

}  // namespace
}  // namespace shardproof::verifier
