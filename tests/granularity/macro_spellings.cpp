// Macro ops against core ops, written the way implementations do and not the way lowering/unfold does.
#include <ostream>

#include "granularity/spellings.h"

namespace shardproof::granularity {
namespace {

constexpr std::int64_t kBatch = 64, kSequence = 4096, kHidden = 8192, kVocab = 128256, kHeads = 64, kGroups = 8,
                       kHeadDim = 128;

std::int64_t last_of(Ops& o, ValueId x) {
  return o.shape(x).back();
}
Ints leading(Ops& o, ValueId x) {
  Ints dims(o.shape(x).size() - 1);
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<std::int64_t>(d);
  return dims;
}
std::int64_t last_dim(Ops& o, ValueId x) {
  return static_cast<std::int64_t>(o.shape(x).size()) - 1;
}
ValueId unary(Ops& o, OpCode code, ValueId x) {
  return o.op(code, {x});
}
// A value per row, repeated along the last dimension of `like`.
ValueId along_rows(Ops& o, ValueId x, ValueId like) {
  return o.spread(x, o.shape(like), leading(o, like));
}
ValueId along_columns(Ops& o, ValueId vector, ValueId like) {
  return o.spread(vector, o.shape(like), {last_dim(o, like)});
}
ValueId sum_last(Ops& o, ValueId x) {
  return o.sum(x, {last_dim(o, x)});
}
ValueId plus(Ops& o, ValueId x, ir::Rational number) {
  return o.add({x, o.fill(o.shape(x), number)});
}
ValueId max_last(Ops& o, ValueId x) {
  return o.op(OpCode::reduce_max, {x}, {{"dims", Ints{last_dim(o, x)}}});
}

Make macro(OpCode code, std::vector<std::pair<const char*, ir::AttrValue>> attributes = {}) {
  return [code, attributes](Ops& o, const Values& in) -> Values {
    if (attributes.empty()) return {o.op(code, in)};
    return {o.op(code, in, {attributes.front()})};
  };
}
Make one(const std::function<ValueId(Ops&, const Values&)>& make) {
  return [make](Ops& o, const Values& in) -> Values { return {make(o, in)}; };
}

const std::vector<Operand> kRows = {{"x", {kBatch, kSequence, kHidden}, "dp tp _"}};

Spelling softmax() {
  // One pass over raw exponentials: the maximum cancels.
  const auto raw = [](Ops& o, const Values& in) {
    const ValueId e = unary(o, OpCode::exp, in[0]);
    return o.mul({e, along_rows(o, unary(o, OpCode::reciprocal, sum_last(o, e)), e)});
  };
  const auto wrong = [](Ops& o, const Values& in) {
    const ValueId e = unary(o, OpCode::exp, o.sub(in[0], along_rows(o, max_last(o, in[0]), in[0])));
    const ValueId all = unary(o, OpCode::exp, in[0]);
    return o.div(e, along_rows(o, sum_last(o, all), e));
  };
  return {"softmax_without_maximum",
          kRows,
          {"dp tp _"},
          macro(OpCode::softmax, {{"dim", std::int64_t{2}}}),
          one(raw),
          one(wrong)};
}

Spelling softmax_in_two_passes() {
  const auto passes = [](Ops& o, const Values& in) {
    const ValueId max = max_last(o, in[0]);
    const ValueId sum = sum_last(o, unary(o, OpCode::exp, o.sub(in[0], along_rows(o, max, in[0]))));
    const ValueId shift = o.add({max, unary(o, OpCode::log, sum)});
    return unary(o, OpCode::exp, o.sub(in[0], along_rows(o, shift, in[0])));
  };
  const auto wrong = [](Ops& o, const Values& in) {
    const ValueId max = max_last(o, in[0]);
    const ValueId sum = sum_last(o, unary(o, OpCode::exp, o.sub(in[0], along_rows(o, max, in[0]))));
    const ValueId shift = o.sub(max, unary(o, OpCode::log, sum));
    return unary(o, OpCode::exp, o.sub(in[0], along_rows(o, shift, in[0])));
  };
  return {"softmax_by_log_sum_exp",
          kRows,
          {"dp tp _"},
          macro(OpCode::softmax, {{"dim", std::int64_t{2}}}),
          one(passes),
          one(wrong)};
}

Spelling rms_norm() {
  const auto parts = [](ir::Rational eps) {
    return one([eps](Ops& o, const Values& in) {
      const ValueId mean = o.scale(sum_last(o, o.mul({in[0], in[0]})), {1, last_of(o, in[0])});
      const ValueId root = unary(o, OpCode::sqrt, plus(o, mean, eps));
      return o.mul({along_columns(o, in[1], in[0]), o.div(in[0], along_rows(o, root, in[0]))});
    });
  };
  std::vector<Operand> operands = kRows;
  operands.push_back({"weight", {kHidden}, "_"});
  return {"rms_norm",         operands,
          {"dp tp _"},        macro(OpCode::rms_norm, {{"eps", ir::Rational(1, 100000)}}),
          parts({1, 100000}), parts({1, 1000000})};
}

// Of squares that one contraction adds up, as a kernel does.
Spelling rms_norm_by_contraction() {
  const auto parts = [](std::int64_t times) {
    return one([times](Ops& o, const Values& in) {
      const ValueId squares = o.einsum("bsh,bsh->bs", {in[0], in[0]});
      const ValueId mean = o.div(squares, o.fill(o.shape(squares), ir::Rational(times * last_of(o, in[0]))));
      const ValueId root = unary(o, OpCode::rsqrt, plus(o, mean, {1, 100000}));
      return o.einsum("bsh,bs,h->bsh", {in[0], root, in[1]});
    });
  };
  std::vector<Operand> operands = kRows;
  operands.push_back({"weight", {kHidden}, "_"});
  return {"rms_norm_by_contraction",
          operands,
          {"dp tp _"},
          macro(OpCode::rms_norm, {{"eps", ir::Rational(1, 100000)}}),
          parts(1),
          parts(2)};
}

Spelling layer_norm() {
  const auto parts = [](bool right) {
    return one([right](Ops& o, const Values& in) {
      const ir::Rational share(1, last_of(o, in[0]));
      const ValueId mean = o.scale(sum_last(o, in[0]), share);
      const ValueId centred = o.sub(in[0], along_rows(o, mean, in[0]));
      const ValueId of = right ? centred : in[0];
      const ValueId variance = o.scale(sum_last(o, o.mul({of, of})), share);
      const ValueId root = unary(o, OpCode::sqrt, plus(o, variance, {1, 100000}));
      const ValueId normal = o.div(centred, along_rows(o, root, in[0]));
      return o.add({o.mul({normal, along_columns(o, in[1], in[0])}), along_columns(o, in[2], in[0])});
    });
  };
  std::vector<Operand> operands = kRows;
  operands.push_back({"weight", {kHidden}, "_"});
  operands.push_back({"bias", {kHidden}, "_"});
  return {"layer_norm", operands,    {"dp tp _"}, macro(OpCode::layer_norm, {{"eps", ir::Rational(1, 100000)}}),
          parts(true),  parts(false)};
}

// Variance as mean of squares less square of mean.
Spelling layer_norm_by_moments() {
  const auto parts = [](bool right) {
    return one([right](Ops& o, const Values& in) {
      const ir::Rational share(1, last_of(o, in[0]));
      const ValueId mean = o.scale(sum_last(o, in[0]), share);
      const ValueId square = o.scale(sum_last(o, o.mul({in[0], in[0]})), share);
      const ValueId variance = o.sub(square, right ? o.mul({mean, mean}) : mean);
      const ValueId root = unary(o, OpCode::rsqrt, plus(o, variance, {1, 100000}));
      const ValueId normal = o.mul({o.sub(in[0], along_rows(o, mean, in[0])), along_rows(o, root, in[0])});
      return o.add({o.mul({normal, along_columns(o, in[1], in[0])}), along_columns(o, in[2], in[0])});
    });
  };
  Spelling spelling = layer_norm();
  spelling.name = "layer_norm_by_moments";
  spelling.fine = parts(true);
  spelling.wrong = parts(false);
  return spelling;
}

Spelling silu() {
  const auto parts = [](bool right) {
    return one([right](Ops& o, const Values& in) {
      const ValueId e = unary(o, OpCode::exp, right ? unary(o, OpCode::neg, in[0]) : in[0]);
      return o.div(in[0], plus(o, e, 1));
    });
  };
  return {"silu_by_exponential", kRows, {"dp tp _"}, macro(OpCode::silu), parts(true), parts(false)};
}

Spelling swiglu() {
  const auto parts = [](std::size_t gate) {
    return one([gate](Ops& o, const Values& in) {
      return o.mul({o.mul({in[1 - gate], in[gate]}), unary(o, OpCode::sigmoid, in[gate])});
    });
  };
  return {"swiglu",  {{"gate", {kBatch, kHidden}, "dp tp"}, {"up", {kBatch, kHidden}, "dp tp"}},
          {"dp tp"}, macro(OpCode::swiglu),
          parts(0),  parts(1)};
}

// x/2 + x/2 tanh(sqrt(2/pi) x (1 + 0.044715 x^2))
Spelling gelu() {
  const auto parts = [](ir::Rational cubic) {
    return one([cubic](Ops& o, const Values& in) {
      const ValueId x = in[0];
      const ValueId bracket = plus(o, o.scale(o.mul({x, x}), cubic), 1);
      const ValueId inner = o.mul({o.scale(x, {7978845608028654, 10000000000000000}), bracket});
      const ValueId half = o.scale(x, {1, 2});
      return o.add({half, o.mul({half, unary(o, OpCode::tanh, inner)})});
    });
  };
  return {"gelu_tanh", kRows, {"dp tp _"}, macro(OpCode::gelu_tanh), parts({44715, 1000000}), parts({44714, 1000000})};
}

// x cos + rotate_half(x) sin with tables of the whole head size.
Spelling rope() {
  const auto parts = [](bool right) {
    return one([right](Ops& o, const Values& in) {
      const ValueId x = in[0];
      const std::int64_t half = last_of(o, x) / 2;
      const ValueId first = o.slice(x, 3, 0, half), second = o.slice(x, 3, half, half);
      const ValueId turned = right ? o.concat({unary(o, OpCode::neg, second), first}, 3)
                                   : o.concat({second, unary(o, OpCode::neg, first)}, 3);
      const auto table = [&](ValueId t) { return o.spread(o.concat({t, t}, 1), o.shape(x), {1, 3}); };
      return o.add({o.mul({x, table(in[1])}), o.mul({turned, table(in[2])})});
    });
  };
  return {"rope_by_rotate_half",
          {{"x", {kBatch, kSequence, kHeads, kHeadDim}, "dp _ tp _"},
           {"cos", {kSequence, kHeadDim / 2}, ""},
           {"sin", {kSequence, kHeadDim / 2}, ""}},
          {"dp _ tp _"},
          macro(OpCode::rope),
          parts(true),
          parts(false)};
}

// Keys and values repeated for each query head of their group, then plain attention with heads first.
Spelling attention(bool shifted) {
  const auto parts = [shifted](bool right) {
    return one([right, shifted](Ops& o, const Values& in) {
      const ir::Shape q = o.shape(in[0]), k = o.shape(in[1]);
      const std::int64_t times = q[2] / k[2];
      const auto repeated = [&](ValueId x) {
        // Each head `times` times in a row; wrong: all heads, `times` times.
        const ir::Shape wide =
            right ? ir::Shape{k[0], k[1], k[2], times, k[3]} : ir::Shape{k[0], k[1], times, k[2], k[3]};
        const ValueId copies = o.spread(x, wide, right ? Ints{0, 1, 2, 4} : Ints{0, 1, 3, 4});
        return o.transpose(o.reshape(copies, {k[0], k[1], q[2], k[3]}), {0, 2, 1, 3});
      };
      const ValueId query = o.transpose(in[0], {0, 2, 1, 3}), key = repeated(in[1]), value = repeated(in[2]);
      const ValueId root = unary(o, OpCode::rsqrt, o.fill({}, ir::Rational(q[3])));
      const ValueId scores = o.einsum("bhsd,bhtd->bhst", {o.times(query, root), key});
      const ir::TensorType positions{ir::DType::i64, {q[1], k[1]}};
      const ValueId i = o.builder().typed(OpCode::iota, positions, {{"dim", std::int64_t{0}}});
      const ValueId j = o.builder().typed(OpCode::iota, positions, {{"dim", std::int64_t{1}}});
      const ValueId hidden = o.spread(o.compare(j, i, "gt"), o.shape(scores), {2, 3});
      ValueId e = unary(o, OpCode::exp, scores);
      if (shifted) {
        const ValueId low =
            o.builder().typed(OpCode::constant, {ir::DType::f32, o.shape(scores)}, {{"negative_infinity", true}});
        const ValueId seen = o.select(hidden, low, scores);
        e = unary(o, OpCode::exp, o.sub(seen, along_rows(o, max_last(o, seen), seen)));
      } else {
        e = o.select(hidden, o.fill(o.shape(scores), 0), e);
      }
      const ValueId mixed = o.einsum("bhst,bhte->bhse", {e, value});
      const ValueId out = o.div(mixed, along_rows(o, sum_last(o, e), mixed));
      return o.transpose(out, {0, 2, 1, 3});
    });
  };
  return {shifted ? "attention_with_repeated_heads" : "attention_without_maximum",
          {{"q", {kBatch, kSequence, kHeads, kHeadDim}, "dp _ tp _"},
           {"k", {kBatch, kSequence, 2 * kGroups, kHeadDim}, "dp _ tp _"},
           {"v", {kBatch, kSequence, 2 * kGroups, kHeadDim}, "dp _ tp _"}},
          {"dp _ tp _"},
          macro(OpCode::attention, {{"causal", true}}),
          parts(true),
          parts(false)};
}

const std::vector<Operand> kLogits = {{"logits", {kBatch, kSequence, kVocab}, "dp tp _"},
                                      {"labels", {kBatch, kSequence}, "dp tp", ir::DType::i32, kVocab}};

Spelling cross_entropy() {
  const auto parts = [](bool right) {
    return one([right](Ops& o, const Values& in) {
      const ValueId logs = o.op(OpCode::log_softmax, {in[0]}, {{"dim", std::int64_t{2}}});
      return unary(o, OpCode::neg, o.op(OpCode::take_along, {right ? logs : in[0], in[1]}));
    });
  };
  return {"cross_entropy_by_log_softmax", kLogits, {"dp tp"}, macro(OpCode::cross_entropy), parts(true), parts(false)};
}

Spelling cross_entropy_without_maximum() {
  const auto parts = [](bool right) {
    return one([right](Ops& o, const Values& in) {
      const ValueId sum = sum_last(o, unary(o, OpCode::exp, in[0]));
      const ValueId picked = o.op(OpCode::take_along, {in[0], in[1]});
      const ValueId log = unary(o, OpCode::log, sum);
      return right ? o.sub(log, picked) : o.sub(picked, log);
    });
  };
  return {"cross_entropy_without_maximum", kLogits, {"dp tp"}, macro(OpCode::cross_entropy), parts(true), parts(false)};
}

// Decay multiplied in first, bias corrections of both moments as factors.
Spelling adamw() {
  const auto whole = [](Ops& o, const Values& in) -> Values {
    return o.builder().multi(OpCode::adamw, in,
                             {{"beta1", ir::Rational(9, 10)},
                              {"beta2", ir::Rational(95, 100)},
                              {"eps", ir::Rational(1, 100000000)},
                              {"weight_decay", ir::Rational(1, 10)}},
                             {"param", "exp_avg", "exp_avg_sq"});
  };
  const auto parts = [](bool right) {
    return [right](Ops& o, const Values& in) -> Values {
      const ir::Shape& shape = o.shape(in[0]);
      const auto correction = [&](ir::Rational beta) {
        const ValueId power = o.op(OpCode::power, {o.fill({}, beta), in[4]});
        return o.spread(o.sub(o.fill({}, 1), power), shape, {});
      };
      const ValueId m = o.add({o.scale(in[2], {9, 10}), o.scale(in[1], {1, 10})});
      const ValueId v = o.add({o.scale(in[3], {95, 100}), o.mul({in[1], in[1], o.fill(shape, {5, 100})})});
      const ValueId root =
          unary(o, OpCode::sqrt, o.div(v, correction(right ? ir::Rational(95, 100) : ir::Rational(9, 10))));
      const ValueId direction = o.div(o.div(m, correction({9, 10})), plus(o, root, {1, 100000000}));
      const ValueId kept = o.sub(o.fill({}, 1), o.scale(in[5], {1, 10}));
      return {o.sub(o.times(in[0], kept), o.times(direction, in[5])), m, v};
    };
  };
  const ir::Shape shape{kHidden, kHidden};
  return {"adamw_with_decay_first",
          {{"p", shape, "tp+dp _"},
           {"g", shape, "tp+dp _"},
           {"m", shape, "tp+dp _"},
           {"v", shape, "tp+dp _"},
           {"step", {}, "", ir::DType::i64},
           {"lr", {}, ""}},
          {"tp+dp _", "tp+dp _", "tp+dp _"},
          whole,
          parts(true),
          parts(false)};
}

}  // namespace

void PrintTo(const Spelling& spelling, std::ostream* out) {
  *out << spelling.name;
}

Spelling attention_in_chunks(std::int64_t chunks, bool running) {
  const auto whole = one([](Ops& o, const Values& in) {
    const ValueId p = o.op(OpCode::softmax, {o.einsum("bshd,bthd->bhst", {in[0], in[1]})}, {{"dim", std::int64_t{3}}});
    return o.einsum("bhst,bthe->bshe", {p, in[2]});
  });
  struct Part {
    ValueId max, sum, out;
  };
  // Of parts of the keys, each with the sums of exp(score - its maximum); wrong: only the first is brought to the common one.
  const auto merged = [](Ops& o, const std::vector<Part>& parts, bool right) -> Part {
    Values maxima, sums, outs;
    for (const Part& part : parts) maxima.push_back(part.max);
    const ValueId max = o.op(OpCode::max, maxima);
    for (const Part& part : parts) {
      const ValueId factor = unary(o, OpCode::exp, o.sub(part.max, max));
      sums.push_back(o.mul({part.sum, factor}));
      outs.push_back(right || outs.empty() ? o.mul({part.out, along_rows(o, factor, part.out)}) : part.out);
    }
    return {max, o.add(sums), o.add(outs)};
  };
  const auto parts = [chunks, running, merged](bool right) {
    return one([chunks, running, merged, right](Ops& o, const Values& in) {
      std::vector<Part> found;
      for (std::int64_t i = 0; i < chunks; ++i) {
        const ValueId s = o.einsum("bshd,bthd->bhst", {in[0], o.part(in[1], 1, i, chunks)}), max = max_last(o, s);
        const ValueId e = unary(o, OpCode::exp, o.sub(s, along_rows(o, max, s)));
        found.push_back({max, sum_last(o, e), o.einsum("bhst,bthe->bhse", {e, o.part(in[2], 1, i, chunks)})});
        if (running && i > 0) found = {merged(o, found, right)};
      }
      const Part all = found.size() > 1 ? merged(o, found, right) : found.front();
      return o.transpose(o.div(all.out, along_rows(o, all.sum, all.out)), {0, 2, 1, 3});
    });
  };
  return {"attention_in_chunks",
          {{"q", {kBatch, kSequence, kHeads, kHeadDim}, "dp _ tp _"},
           {"k", {kBatch, kSequence, kHeads, kHeadDim}, "dp _ tp _"},
           {"v", {kBatch, kSequence, kHeads, kHeadDim}, "dp _ tp _"}},
          {"dp _ tp _"},
          whole,
          parts(true),
          parts(false)};
}

std::vector<Spelling> macro_spellings() {
  return {softmax(),       softmax_in_two_passes(),
          rms_norm(),      rms_norm_by_contraction(),
          layer_norm(),    layer_norm_by_moments(),
          silu(),          swiglu(),
          gelu(),          rope(),
          attention(true), attention(false),
          cross_entropy(), cross_entropy_without_maximum(),
          adamw()};
}

}  // namespace shardproof::granularity
