// Context parallelism: where a rank's tokens stand in the sequence, in which order it sees the keys of others, and what is
// added up over the ranks that share a sample.
#include <algorithm>

#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::CoordExpr;
using ir::DType;
using ir::OpCode;
using ir::ValueId;
using Axes = std::vector<std::string>;

Edit with(std::function<ValueId(Editor&, const std::string&)> value) {
  return [value = std::move(value)](Editor& e, const std::string& at) {
    e.before(at);
    e.become(at, value(e, at));
  };
}

// What the value would be if the rank's tokens were the first of the sequence, or the keys were in its order.
Edit counted(std::int64_t dim) {
  return with([dim](Editor& e, const std::string& at) {
    if (!e.has_axis("cp")) throw NotApplicable();  // then they are
    return e.typed(OpCode::iota, e.type(e.value(at)), {{"dim", dim}});
  });
}

// Positions in the chunk plus another start.
Edit starts_at(std::function<CoordExpr(std::int64_t chunk, std::int64_t ranks)> start) {
  return [start = std::move(start)](Editor& e, const std::string& at) {
    const ValueId within = e.value("positions.in_chunk");
    const std::int64_t chunk = e.type(within).shape.at(0);
    e.before(at);
    const ValueId from = e.coordinate(start(chunk, e.axis_size("cp")));
    const ValueId spread = e.emit(OpCode::broadcast, {from}, {{"shape", e.type(within).shape}, {"dims", std::vector<std::int64_t>{}}});
    e.redefine(at, OpCode::add, {within, spread});
  };
}

// What a rank contributes comes from its neighbour.
void from_neighbour(Editor& e, const std::string& at) {
  if (!e.at(at).attributes.has("axes") || e.at(at).attributes.get<Axes>("axes") != Axes{"cp"}) throw NotApplicable();
  const ValueId own = e.at(at).inputs.at(0);
  e.before(at);
  e.use(at, 0, e.emit(OpCode::permute, {own}, {{"axes", Axes{"cp"}}, {"shift", std::int64_t{1}}}));
}

void twice_the_own(Editor& e, const std::string& at) {
  const ValueId own = e.at(at).inputs.at(0);
  e.redefine(at, OpCode::concat, std::vector<ValueId>(static_cast<std::size_t>(e.axis_size("cp")), own), {{"dim", std::int64_t{1}}});
}

// A sum over ranks, and another part of it than the rank's own; or the own part without the sum.
Edit part_of_sum(bool summed, std::int64_t block) {
  return [summed, block](Editor& e, const std::string& at) {
    if (e.at(at).op != OpCode::reduce_scatter) throw NotApplicable();
    const ValueId own = e.at(at).inputs.at(0);
    const std::int64_t part = e.type(e.value(at)).shape.at(1);
    e.before(at);
    const ValueId sum = summed ? e.emit(OpCode::all_reduce, {own}, {{"axes", Axes{"cp"}}, {"reduce", std::string("sum")}}) : own;
    const CoordExpr start = block < 0 ? ir::variable_expr("cp", part) : ir::constant_expr(block * part);
    e.redefine(at, OpCode::slice, {sum}, {{"dim", std::int64_t{1}}, {"start", start}, {"size", part}});
  };
}

Edit averaged() {
  return [](Editor& e, const std::string& at) {
    if (e.at(at).op != OpCode::reduce_scatter) throw NotApplicable();
    e.set(at, "reduce", std::string("avg"));
  };
}

Edit without_cp() {
  return [](Editor& e, const std::string& at) {
    Axes axes = e.at(at).attributes.get<Axes>("axes");
    if (std::erase(axes, "cp") == 0) throw NotApplicable();
    if (axes.empty()) e.become_operand(at, 0);
    else e.set(at, "axes", axes);
  };
}

Edit data_axes_exchanged() {
  return [](Editor& e, const std::string& at) {
    if (!e.has_axis("cp") || e.axis_size("dp") == 1 || e.at(at).attributes.get<Axes>("axes") != Axes{"dp", "cp"}) throw NotApplicable();
    e.set(at, "axes", Axes{"cp", "dp"});
  };
}

// One input without the zigzag, or with its rank's chunks exchanged: labels or masks of other tokens.
Kind at_inputs(std::string kind, std::function<bool(ir::DimLayout&)> edit) {
  return {std::move(kind), [edit](const Subject& subject) {
            std::vector<Site> sites;
            const std::vector<ir::PlanInput>& inputs = subject.document.plan.stages.front().inputs;
            for (std::size_t k = 0; k < inputs.size(); ++k)
              for (std::size_t d = 0; d < inputs[k].binding.placement.dims.size(); ++d) {
                ir::DimLayout copy = inputs[k].binding.placement.dims[d];
                if (copy.permutation != ir::Permutation::zigzag || !edit(copy)) continue;
                sites.push_back({subject.value_name(inputs[k].value), [edit, k, d](Editor& e, const std::string& at) {
                                   edit(e.stage().inputs[k].binding.placement.dims[d]);
                                   e.touch(at);
                                 }});
              }
            return sites;
          }};
}

bool plain(ir::DimLayout& dim) {
  dim.permutation = ir::Permutation::none;
  return true;
}

bool strided(ir::DimLayout& dim) {
  dim.permutation = ir::Permutation::none;
  std::swap(dim.digits.at(0), dim.digits.at(1));
  return true;
}

// The next token's label, by what the rank holds: at a chunk's end that is a token of another place.
void shifted_labels(Editor& e, const std::string& at) {
  if (!e.has_axis("cp")) throw NotApplicable();
  const ValueId tokens = e.value("batch.tokens");
  const std::int64_t length = e.type(tokens).shape.at(1);
  e.before(at);
  const auto part = [&](std::int64_t from, std::int64_t size) {
    return e.emit(OpCode::slice, {tokens}, {{"dim", std::int64_t{1}}, {"start", ir::constant_expr(from)}, {"size", size}});
  };
  const ValueId rest = part(1, length - 1), first = part(0, 1);
  e.redefine(at, OpCode::concat, {rest, first}, {{"dim", std::int64_t{1}}});
}

// sum of losses / tokens on each rank, and the mean of that over the ranks.
void mean_of_means(Editor& e, const std::string& at) {
  const std::vector<ValueId> in = e.at(at).inputs;
  const ValueId total = e.at("loss.total").inputs.at(0), tokens = e.at("loss.tokens").inputs.at(0);
  const Axes axes = e.at("loss.total").attributes.get<Axes>("axes");
  if (std::count(axes.begin(), axes.end(), "cp") == 0) throw NotApplicable();
  e.before(at);
  const ValueId own = e.emit(OpCode::div, {total, tokens});
  e.redefine(at, OpCode::all_reduce, {own}, {{"axes", axes}, {"reduce", std::string("avg")}});
}

}  // namespace

Kinds context_kinds() {
  const auto tail = [](std::int64_t offset) {
    return starts_at([offset](std::int64_t chunk, std::int64_t ranks) { return ir::variable_expr("cp", -chunk, chunk * (2 * ranks - 1) + offset); });
  };
  return {
      at_names("context_rope_counts_from_zero", "rope.position", counted(0)),
      at_names("context_queries_count_from_zero", "attention.query_position", counted(0)),
      at_names("context_keys_in_sequence_order", "attention.key_position", counted(1)),
      at_names("context_second_chunk_follows_first", "positions.tail", starts_at([](std::int64_t chunk, std::int64_t) {
                 return ir::variable_expr("cp", chunk, chunk);
               })),
      at_names("context_second_chunk_of_other_half", "positions.tail", starts_at([](std::int64_t chunk, std::int64_t ranks) {
                 return ir::variable_expr("cp", chunk, chunk * ranks);
               })),
      at_names("context_second_chunk_off_by_one", "positions.tail", tail(1)),
      at_names("context_first_chunk_reversed", "positions.head", starts_at([](std::int64_t chunk, std::int64_t ranks) {
                 return ir::variable_expr("cp", -chunk, chunk * (ranks - 1));
               })),
      at_names("context_chunks_exchanged", "positions.own", [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::concat, {in.at(1), in.at(0)}, {{"dim", std::int64_t{0}}});
               }),
      at_names("context_positions_of_neighbour", "positions.gathered", from_neighbour),
      at_names("context_keys_of_neighbour", "*.k_all", from_neighbour),
      at_names("context_values_of_neighbour", "*.v_all", from_neighbour),
      at_names("context_backward_keys_of_neighbour", "*.k_again", from_neighbour),
      at_names("context_backward_values_of_neighbour", "*.v_again", from_neighbour),
      at_names("context_own_keys_only", "*.k_all", twice_the_own),
      at_names("context_own_values_only", "*.v_all", twice_the_own),
      at_names("context_key_gradient_of_first_rank", "*.attn.d_k", part_of_sum(true, 0)),
      at_names("context_value_gradient_of_first_rank", "*.attn.d_v", part_of_sum(true, 0)),
      at_names("context_key_gradient_not_summed", "*.attn.d_k", part_of_sum(false, -1)),
      at_names("context_value_gradient_not_summed", "*.attn.d_v", part_of_sum(false, -1)),
      at_names("context_key_gradient_averaged", "*.attn.d_k", averaged()),
      at_names("context_gradient_not_summed", "bucket*.grad_sum", without_cp()),
      at_names("context_gradient_shards_exchanged", "bucket*.grad_sum", data_axes_exchanged()),
      at_names("context_weight_shards_exchanged", "bucket*.weights", data_axes_exchanged()),
      at_names("context_norm_not_summed", "grad_norm.square_sum", without_cp()),
      at_names("context_loss_not_summed", "loss.total", without_cp()),
      at_names("context_tokens_not_summed", "loss.tokens", without_cp()),
      at_names("context_mean_of_means", "loss.mean", mean_of_means),
      at_names("context_labels_shifted_in_chunks", "batch.labels", shifted_labels),
      at_inputs("context_input_in_plain_chunks", plain),
      at_inputs("context_input_in_strided_chunks", strided),
      at_names("context_position_embedding_counts_from_zero", "embed.positions", [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::take) throw NotApplicable();
                 const std::int64_t own = e.type(e.value(at)).shape.at(0);
                 const ValueId table = e.at(at).inputs.at(0);
                 e.redefine(at, OpCode::slice, {table}, {{"dim", std::int64_t{0}}, {"start", ir::constant_expr(0)}, {"size", own}});
               }),
      at_names("context_position_gradient_counts_from_zero", "embed.d_positions_own", [](Editor& e, const std::string& at) {
                 const ValueId own = e.at(at).inputs.at(0);
                 const std::int64_t missing = e.type(e.value(at)).shape.at(0) - e.type(own).shape.at(0);
                 e.redefine(at, OpCode::pad, {own}, {{"dim", std::int64_t{0}}, {"low", std::int64_t{0}}, {"high", missing}, {"value", ir::Rational(0)}});
               }),
  };
}

}  // namespace shardproof::mutations
