// Fused and separate products, and the ways to write one sum.
#include "granularity/spellings.h"

namespace shardproof::granularity {
namespace {

constexpr std::int64_t kBatch = 64, kSequence = 4096, kHidden = 8192, kFfn = 28672, kHeads = 64, kGroups = 8,
                       kHeadDim = 128;

// ---- query, key and value: three products or one, forward and weight gradients

Values separate_qkv(Ops& o, const Values& in) {
  Values out;
  for (std::size_t i = 1; i <= 3; ++i) out.push_back(o.einsum("bsh,fh->bsf", {in[0], in[i]}));
  for (std::size_t i = 1; i <= 3; ++i) out.push_back(o.einsum("bsf,bsh->fh", {in[i + 3], in[0]}));
  return out;
}

// Cuts dimension `dim` of x into pieces of these extents.
Values pieces(Ops& o, ValueId x, std::int64_t dim, const Ints& extents) {
  Values out;
  std::int64_t start = 0;
  for (const std::int64_t extent : extents) {
    out.push_back(o.slice(x, dim, start, extent));
    start += extent;
  }
  return out;
}

Make fused_qkv(bool right) {
  return [right](Ops& o, const Values& in) {
    Ints extents;
    for (std::size_t i = 1; i <= 3; ++i) extents.push_back(o.shape(in[i])[0]);
    const ValueId y = o.einsum("bsh,fh->bsf", {in[0], o.concat({in[1], in[2], in[3]}, 0)});
    Values out = pieces(o, y, 2, extents);
    if (!right) std::swap(out[1], out[2]);
    const ValueId dw = o.einsum("bsf,bsh->fh", {o.concat({in[4], in[5], in[6]}, 2), in[0]});
    for (const ValueId piece : pieces(o, dw, 0, extents)) out.push_back(piece);
    return out;
  };
}

// Not cut over dp: weight gradients would need their sum over it.
Spelling qkv() {
  const std::int64_t wide = kHeads * kHeadDim, narrow = kGroups * kHeadDim;
  return {"qkv_in_one_product",
          {{"x", {kBatch, kSequence, kHidden}, ""},
           {"wq", {wide, kHidden}, "tp _"},
           {"wk", {narrow, kHidden}, "tp _"},
           {"wv", {narrow, kHidden}, "tp _"},
           {"dq", {kBatch, kSequence, wide}, "_ _ tp"},
           {"dk", {kBatch, kSequence, narrow}, "_ _ tp"},
           {"dv", {kBatch, kSequence, narrow}, "_ _ tp"}},
          {"_ _ tp", "_ _ tp", "_ _ tp", "tp _", "tp _", "tp _"},
          separate_qkv,
          fused_qkv(true),
          fused_qkv(false)};
}

// Grouped as Megatron-LM does: for each kv group its queries, its key, its value.
Spelling grouped_qkv() {
  const auto separate = [](Ops& o, const Values& in) {
    Values out;
    for (std::size_t i = 1; i <= 3; ++i) out.push_back(o.einsum("bsh,gdh->bsgd", {in[0], in[i]}));
    return out;
  };
  const auto fused = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) {
      const ir::Shape q = o.shape(in[1]), k = o.shape(in[2]);
      const ValueId w = o.reshape(o.concat({in[1], in[2], in[3]}, 1), {q[0] * (q[1] + 2 * k[1]), q[2]});
      const ValueId y = o.einsum("bsh,fh->bsf", {in[0], w});
      const ir::Shape x = o.shape(in[0]);
      if (right) return pieces(o, o.reshape(y, {x[0], x[1], q[0], q[1] + 2 * k[1]}), 3, {q[1], k[1], k[1]});
      Values out = pieces(o, y, 2, {q[0] * q[1], k[0] * k[1], k[0] * k[1]});  // taken for all q, all k, all v
      for (std::size_t i = 0; i < 3; ++i) out[i] = o.reshape(out[i], {x[0], x[1], q[0], i == 0 ? q[1] : k[1]});
      return out;
    };
  };
  const std::int64_t queries = kHeads / kGroups * kHeadDim;
  return {"qkv_in_one_product_by_group",
          {{"x", {kBatch, kSequence, kHidden}, "dp _ _"},
           {"wq", {4 * kGroups, queries, kHidden}, "tp _ _"},
           {"wk", {4 * kGroups, kHeadDim, kHidden}, "tp _ _"},
           {"wv", {4 * kGroups, kHeadDim, kHidden}, "tp _ _"}},
          {"dp _ tp _", "dp _ tp _", "dp _ tp _"},
          separate,
          fused(true),
          fused(false)};
}

Spelling gate_up() {
  const auto separate = [](Ops& o, const Values& in) -> Values {
    return {o.op(OpCode::swiglu, {o.einsum("bsh,fh->bsf", {in[0], in[1]}), o.einsum("bsh,fh->bsf", {in[0], in[2]})})};
  };
  const auto fused = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) -> Values {
      const ValueId y = o.einsum("bsh,fh->bsf", {in[0], o.concat({in[1], in[2]}, 0)});
      const ValueId first = o.part(y, 2, 0, 2), second = o.part(y, 2, 1, 2);
      const ValueId gate = right ? first : second, up = right ? second : first;
      return {o.mul({up, gate, o.op(OpCode::sigmoid, {gate})})};
    };
  };
  return {"gate_up_in_one_product",
          {{"x", {kBatch, kSequence, kHidden}, "dp _ _"},
           {"gate", {kFfn, kHidden}, "tp _"},
           {"up", {kFfn, kHidden}, "tp _"}},
          {"dp _ tp"},
          separate,
          fused(true),
          fused(false)};
}

// ---- one contraction, or transposes and reshapes around the product of two matrices

Spelling contraction() {
  const auto whole = [](Ops& o, const Values& in) -> Values { return {o.einsum("bsm,mnd->bnsd", {in[0], in[1]})}; };
  const auto parts = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) -> Values {
      const ir::Shape x = o.shape(in[0]), w = o.shape(in[1]);
      const ValueId flat =
          o.einsum("xm,my->xy", {o.reshape(in[0], {x[0] * x[1], x[2]}), o.reshape(in[1], {w[0], w[1] * w[2]})});
      if (right) return {o.transpose(o.reshape(flat, {x[0], x[1], w[1], w[2]}), {0, 2, 1, 3})};
      return {o.reshape(flat, {x[0], w[1], x[1], w[2]})};  // as if it were transposed already
    };
  };
  return {"contraction_by_matrix_product",
          {{"x", {kBatch, kSequence, kHidden}, "dp _ _"}, {"w", {kHidden, kHeads, kHeadDim}, "_ tp _"}},
          {"dp tp _ _"},
          whole,
          parts(true),
          parts(false)};
}

Spelling transposed_product() {
  const auto whole = [](Ops& o, const Values& in) -> Values { return {o.einsum("bsh,fh->bsf", {in[0], in[1]})}; };
  const auto parts = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) -> Values {
      const ValueId w = right ? o.transpose(in[1], {1, 0}) : o.reshape(in[1], {o.shape(in[1])[1], o.shape(in[1])[0]});
      return {o.einsum("bsh,hf->bsf", {in[0], w})};
    };
  };
  return {"product_with_transposed_weight",
          {{"x", {kBatch, kSequence, kHidden}, "dp _ _"}, {"w", {kFfn, kHidden}, "tp _"}},
          {"dp _ tp"},
          whole,
          parts(true),
          parts(false)};
}

// A product as broadcast, multiplication and sum.
Spelling product_by_sum() {
  const auto whole = [](Ops& o, const Values& in) -> Values { return {o.einsum("bh,fh->bf", {in[0], in[1]})}; };
  const auto parts = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) -> Values {
      const ir::Shape x = o.shape(in[0]), w = o.shape(in[1]);
      const ir::Shape wide{x[0], w[0], x[1]};
      const ValueId terms = o.mul({o.spread(in[0], wide, {0, 2}), o.spread(in[1], wide, {1, 2})});
      const ValueId sum = o.sum(terms, {2});
      return {right ? sum : o.op(OpCode::reduce_max, {terms}, {{"dims", Ints{2}}})};
    };
  };
  return {"product_by_multiplication_and_sum",
          {{"x", {kBatch, kHidden}, "dp _"}, {"w", {kFfn, kHidden}, "tp _"}},
          {"dp tp"},
          whole,
          parts(true),
          parts(false)};
}

// Half of the inner dimension at a time.
Spelling split_product() {
  const auto whole = [](Ops& o, const Values& in) -> Values { return {o.einsum("bsh,fh->bsf", {in[0], in[1]})}; };
  const auto parts = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) -> Values {
      const auto half = [&](std::int64_t x, std::int64_t w) {
        return o.einsum("bsh,fh->bsf", {o.part(in[0], 2, x, 2), o.part(in[1], 1, w, 2)});
      };
      return {o.add({half(0, 0), half(1, right ? 1 : 0)})};
    };
  };
  return {"product_in_two_halves",
          {{"x", {kBatch, kSequence, kHidden}, "dp _ _"}, {"w", {kFfn, kHidden}, "tp _"}},
          {"dp _ tp"},
          whole,
          parts(true),
          parts(false)};
}

// Chunks of the batch in a loop.
Spelling looped_product() {
  const auto whole = [](Ops& o, const Values& in) -> Values { return {o.einsum("bf,bh->fh", {in[0], in[1]})}; };
  const auto parts = [](std::int64_t stride) -> Make {
    return [stride](Ops& o, const Values& in) -> Values {
      const ir::Shape shape{o.shape(in[0])[1], o.shape(in[1])[1]};
      const std::int64_t size = o.shape(in[0])[0] / 8;
      return o.accumulate("chunk", 8, {shape}, [&]() -> Values {
        const auto chunk = [&](ValueId x, std::int64_t step) {
          return o.slice(x, 0, ir::variable_expr("chunk", step), size);
        };
        return {o.einsum("bf,bh->fh", {chunk(in[0], size), chunk(in[1], stride * size)})};
      });
    };
  };
  return {"product_in_a_loop",
          {{"dy", {kBatch * kSequence, kFfn}, "_ tp"}, {"x", {kBatch * kSequence, kHidden}, ""}},
          {"tp _"},
          whole,
          parts(1),
          parts(0)};
}

// ---- sums

Spelling nested_sums() {
  const auto whole = [](Ops& o, const Values& in) -> Values { return {o.total(o.add({in[0], in[1], in[2]}))}; };
  const auto parts = [](bool right) -> Make {
    return [right](Ops& o, const Values& in) -> Values {
      const ValueId rows = o.add({o.sum(in[0], {1}), o.sum(in[right ? 2 : 0], {1})});
      return {o.add({o.sum(rows, {0}), o.sum(o.sum(in[1], {0}), {0})})};
    };
  };
  const ir::Shape shape{kSequence, kHidden};
  return {"sum_in_steps",
          {{"a", shape, ""}, {"b", shape, ""}, {"c", shape, ""}},
          {""},
          whole,
          parts(true),
          parts(false)};
}

// A broadcast bias, or a column of the weight that meets a column of ones.
Spelling bias() {
  const auto whole = [](Ops& o, const Values& in) -> Values {
    const ValueId y = o.einsum("bh,fh->bf", {in[0], in[1]});
    return {o.add({y, o.spread(in[2], o.shape(y), {1})})};
  };
  const auto parts = [](ir::Rational one) -> Make {
    return [one](Ops& o, const Values& in) -> Values {
      const ValueId x = o.concat({in[0], o.fill({o.shape(in[0])[0], 1}, one)}, 1);
      const ValueId w = o.concat({in[1], o.reshape(in[2], {o.shape(in[2])[0], 1})}, 1);
      return {o.einsum("bh,fh->bf", {x, w})};
    };
  };
  return {"bias_as_a_column", {{"x", {kBatch, kHidden}, "dp _"}, {"w", {kFfn, kHidden}, "tp _"}, {"b", {kFfn}, "tp"}},
          {"dp tp"},          whole,
          parts(1),           parts(2)};
}

// The columns of an embedding gather, or a product with one-hot rows.
Spelling embedding() {
  const auto whole = [](Ops& o, const Values& in) -> Values {
    return {o.op(OpCode::take, {in[0], in[1]}, {{"dim", std::int64_t{0}}})};
  };
  const auto parts = [](const char* direction) -> Make {
    return [direction](Ops& o, const Values& in) -> Values {
      const ir::Shape table = o.shape(in[0]), ids = o.shape(in[1]);
      const ir::Shape wide{ids[0], ids[1], table[0]};
      const ValueId row = o.builder().typed(OpCode::iota, {ir::DType::i32, wide}, {{"dim", std::int64_t{2}}});
      const ValueId same = o.compare(o.spread(in[1], wide, {0, 1}), row, direction);
      const ValueId hot = o.select(same, o.fill(wide, 1), o.fill(wide, 0));
      return {o.einsum("bsv,vh->bsh", {hot, in[0]})};
    };
  };
  return {"embedding_by_one_hot",
          {{"table", {kFfn, kHidden}, "_ tp"}, {"ids", {kBatch, kSequence}, "dp _", ir::DType::i32, kFfn}},
          {"dp _ tp"},
          whole,
          parts("eq"),
          parts("ne")};
}

}  // namespace

std::vector<Spelling> product_spellings() {
  return {qkv(),           grouped_qkv(),    gate_up(),     contraction(), transposed_product(), product_by_sum(),
          split_product(), looped_product(), nested_sums(), bias(),        embedding()};
}

}  // namespace shardproof::granularity
