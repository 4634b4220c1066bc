// The vocabulary is cut over tensor parallel ranks: token embedding, output head and cross entropy (Megatron-LM's
// VocabParallelEmbedding and vocab_parallel_cross_entropy). Padding rows are never looked up, and padding columns of
// the logits are minus infinity, so that they have probability zero and receive no gradient.
#include "lowering/emit.h"
#include "lowering/plan_blocks.h"

namespace shardproof::lowering {

namespace {

using ir::DType;

bool is_cut(const PlanWriter& writer) {
  return writer.degrees().tp > 1;
}

ValueId first_row(PlanWriter& writer, const Shape& shape) {
  const PlanDegrees& degrees = writer.degrees();
  const ValueId first = writer.coordinate(degrees.local_vocab() * degrees.tp_coordinate());
  return writer.broadcast(writer.cast(first, DType::i32, "first_row"), shape, {}, "first_row_b");
}

VocabLookup look_up(PlanWriter& writer, const VocabShared& shared, ValueId ids) {
  if (!is_cut(writer)) return {ids, {}};
  const Shape shape = writer.shape(ids);
  const ValueId zero = writer.constant(0, DType::i32, shape);
  const ValueId rows = writer.constant(writer.degrees().local_vocab(), DType::i32, shape);
  const ValueId local = writer.sub(ids, shared.first_row, "local_id");
  VocabLookup lookup;
  lookup.here = writer.op(
      OpCode::logical_and,
      {writer.compare(local, zero, "ge", "not_below"), writer.compare(local, rows, "lt", "not_above")}, "here");
  lookup.ids = writer.select(lookup.here, local, zero, "row");
  return lookup;
}

// x where the id is on this rank, zero elsewhere.
ValueId only_here(PlanWriter& writer, ValueId here, ValueId x, const std::string& name) {
  if (!here.valid()) return x;
  return writer.select(here, x, writer.constant(0, writer.dtype(x), writer.shape(x)), name);
}

// Logits in f32, minus infinity in padding columns.
ValueId masked_logits(PlanWriter& writer, const VocabShared& shared, ValueId x) {
  const ValueId product = writer.einsum("bsh,vh->bsv", {x, writer.weight(writer.table().head)}, "logits");
  const ValueId logits = writer.cast(product, DType::f32, "logits_f32");
  if (!shared.real_columns.valid()) return logits;
  return writer.select(shared.real_columns, logits, shared.hidden, "logits_masked");
}

// Per token, of the own columns: exp(logit - m) with m the greatest logit over all ranks, and the sum over all ranks.
struct Exponentials {
  ValueId shifted;
  ValueId exp;
  ValueId sum;
};
Exponentials exponentials(PlanWriter& writer, ValueId logits) {
  const ValueId own = writer.op(OpCode::reduce_max, {logits}, {{"dims", std::vector<std::int64_t>{2}}}, "own_max");
  const ValueId greatest = writer.tp_all_reduce(own, "max", "max");
  Exponentials result;
  result.shifted = writer.sub(logits, writer.broadcast(greatest, writer.shape(logits), {0, 1}, "max_b"), "shifted");
  result.exp = writer.op(OpCode::exp, {result.shifted}, "exp");
  result.sum = writer.tp_all_reduce(writer.reduce_sum(result.exp, {2}, "own_sum"), "sum", "sum_exp");
  return result;
}

// d (mask * ce) / d logits = mask * (exp / sum - [column is the label]).
ValueId logits_gradient(PlanWriter& writer, const HeadSaved& saved) {
  const std::int64_t scale = writer.degrees().loss_scale;
  ValueId seed = saved.mask;
  if (scale != 1) seed = writer.mul({saved.mask, writer.constant(scale, DType::f32, writer.shape(saved.mask))}, "scaled_mask");
  const ValueId share = writer.op(OpCode::div, {seed, saved.sum}, "mask_over_sum");
  const ValueId soft = writer.einsum("bsv,bs->bsv", {saved.exp, share}, "d_soft");
  const ValueId hit = only_here(writer, saved.label.here, seed, "label_seed");
  const ValueId hard = writer.op(OpCode::put_along, {hit, saved.label.ids}, {{"size", writer.shape(saved.exp)[2]}}, "d_hard");
  return writer.cast(writer.sub(soft, hard, "d_logits_f32"), writer.degrees().compute, "d_logits");
}

}  // namespace

VocabShared vocab_shared(PlanWriter& writer) {
  writer.at("vocabulary", "shared values", "vocab");
  const PlanDegrees& degrees = writer.degrees();
  VocabShared shared;
  if (is_cut(writer)) shared.first_row = first_row(writer, {degrees.micro_batch, degrees.sequence_own});
  if (degrees.padded_vocab == writer.model().vocab_size) return shared;
  const Shape logits{degrees.micro_batch, degrees.sequence_own, degrees.local_vocab()};
  ir::Builder& builder = writer.builder();
  ValueId column = builder.typed(OpCode::iota, {DType::i32, logits}, {{"dim", std::int64_t{2}}}, "vocab.local_column");
  if (is_cut(writer)) {
    column = writer.add({column, writer.broadcast(shared.first_row, logits, {0, 1}, "first_column")}, "column");
  }
  const ValueId vocab = writer.constant(writer.model().vocab_size, DType::i32, logits);
  shared.real_columns = writer.compare(column, vocab, "lt", "real_columns");
  shared.hidden = emit_negative_infinity_like(builder, writer.constant(0, DType::f32, logits));
  return shared;
}

EmbeddingSaved embedding_forward(PlanWriter& writer, const VocabShared& shared, const PositionsShared& positions,
                                 ValueId tokens) {
  const PlanDegrees& degrees = writer.degrees();
  const ParameterTable& table = writer.table();
  writer.at("embedding", "forward", "embed");
  EmbeddingSaved saved;
  saved.lookup = look_up(writer, shared, tokens);
  ValueId rows =
      writer.op(OpCode::take, {writer.weight(table.embedding), saved.lookup.ids}, {{"dim", std::int64_t{0}}}, "rows");
  if (saved.lookup.here.valid()) saved.here = writer.broadcast(saved.lookup.here, writer.shape(rows), {0, 1}, "here_b");
  rows = only_here(writer, saved.here, rows, "own_rows");
  if (table.positions == no_parameter) {
    saved.result = writer.reduce_to_sequence(rows, "words");
    return saved;
  }
  ValueId places = writer.weight(table.positions);
  if (positions.own.valid()) {
    places = writer.op(OpCode::take, {places, positions.own}, {{"dim", std::int64_t{0}}}, "positions");
  } else if (degrees.sequence != writer.model().max_positions) {
    places = writer.slice(places, 0, ir::constant_expr(0), degrees.sequence, "positions");
  }
  const ValueId words = writer.tp_all_reduce(rows, "sum", "words");
  saved.result = writer.add({words, writer.broadcast(places, writer.shape(words), {1, 2}, "positions_b")}, "embedded");
  if (degrees.sequence_parallel) {
    const ir::CoordExpr start = degrees.sequence_local * degrees.tp_coordinate();
    saved.result = writer.slice(saved.result, 1, start, degrees.sequence_local, "embedded_shard");
  }
  return saved;
}

void embedding_backward(PlanWriter& writer, const PositionsShared& positions, const EmbeddingSaved& saved,
                        ValueId gradient) {
  const ParameterTable& table = writer.table();
  writer.at("embedding", "backward", "embed");
  const ValueId whole = writer.cast(writer.gather_sequence(gradient, "d_whole"), DType::f32, "d_whole_f32");
  if (table.positions != no_parameter) {
    ValueId places = writer.reduce_sum(whole, {0}, "d_positions");
    const std::int64_t missing = writer.model().max_positions - writer.degrees().sequence;
    if (positions.own.valid()) {
      places = writer.op(OpCode::scatter_add, {places, positions.own},
                         {{"dim", std::int64_t{0}}, {"size", writer.model().max_positions}}, "d_positions_own");
    } else if (missing > 0) {
      places =
          writer.op(OpCode::pad, {places},
                    {{"dim", std::int64_t{0}}, {"low", std::int64_t{0}}, {"high", missing}, {"value", ir::Rational(0)}},
                    "d_positions_padded");
    }
    writer.accumulate(table.positions, places);
  }
  const ValueId rows = only_here(writer, saved.here, whole, "d_rows");
  writer.accumulate(table.embedding,
                    writer.op(OpCode::scatter_add, {rows, saved.lookup.ids},
                              {{"dim", std::int64_t{0}}, {"size", writer.degrees().local_vocab()}}, "d_embedding"));
}

HeadSaved head_forward(PlanWriter& writer, const VocabShared& shared, ValueId x, ValueId labels, ValueId mask) {
  writer.at("lm_head", "forward", "head");
  const ValueId whole = writer.gather_sequence(x, "x_whole");
  const ValueId logits = masked_logits(writer, shared, whole);
  writer.at("loss", "forward", "loss");
  const Exponentials e = exponentials(writer, logits);
  const VocabLookup label = look_up(writer, shared, labels);
  const ValueId own = writer.op(OpCode::take_along, {e.shifted, label.ids}, "own_label_logit");
  const ValueId target =
      writer.tp_all_reduce(only_here(writer, label.here, own, "label_logit_masked"), "sum", "label_logit");
  const ValueId ce = writer.sub(writer.op(OpCode::log, {e.sum}, "log_sum_exp"), target, "cross_entropy");
  HeadSaved saved{x, e.exp, e.sum, label, mask, {}};
  saved.loss = writer.einsum("bs,bs->", {ce, mask}, "masked_sum");
  return saved;
}

ValueId head_backward(PlanWriter& writer, const HeadSaved& saved) {
  const std::size_t head = writer.table().head;
  writer.at("loss", "backward", "loss");
  const ValueId d_logits = logits_gradient(writer, saved);
  writer.at("lm_head", "backward", "head");
  const ValueId again = writer.gather_sequence(saved.x, "x_again");
  writer.accumulate(head, writer.einsum("bsv,bsh->vh", {d_logits, again}, "d_head_weight"));
  const ValueId partial = writer.einsum("bsv,vh->bsh", {d_logits, writer.weight(head)}, "d_x_partial");
  return writer.reduce_to_sequence(partial, "d_x");
}

}  // namespace shardproof::lowering
