// Layouts that the program does not follow: bindings of inputs and state, fused parts, flat buffers, shard offsets.
#include <algorithm>

#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::OpCode;

using BindingEdit = std::function<bool(ir::Binding&)>;  // false: nothing to edit here

// Sites at every state (or input) whose binding `edit` changes.
Kind at_states(std::string kind, BindingEdit edit) {
  return {std::move(kind), [edit](const Subject& subject) {
            std::vector<Site> sites;
            for (std::size_t k = 0; k < subject.document.plan.stages.front().state.size(); ++k) {
              const ir::PlanState& state = subject.document.plan.stages.front().state[k];
              ir::Binding copy = state.binding;
              if (!edit(copy)) continue;
              sites.push_back({state.name, [edit, k](Editor& e, const std::string& at) {
                                 edit(e.stage().state[k].binding);
                                 e.touch(at);
                                 e.touch(e.name(e.stage().state[k].value));
                                 e.touch(e.name(e.stage().state[k].next));
                               }});
            }
            return sites;
          }};
}
Kind at_inputs(std::string kind, BindingEdit edit) {
  return {std::move(kind), [edit](const Subject& subject) {
            std::vector<Site> sites;
            for (std::size_t k = 0; k < subject.document.plan.stages.front().inputs.size(); ++k) {
              const ir::PlanInput& input = subject.document.plan.stages.front().inputs[k];
              ir::Binding copy = input.binding;
              if (!edit(copy)) continue;
              sites.push_back({subject.value_name(input.value), [edit, k](Editor& e, const std::string& at) {
                                 edit(e.stage().inputs[k].binding);
                                 e.touch(at);
                               }});
            }
            return sites;
          }};
}

bool swap_last_parts(ir::Binding& b) {
  if (b.fused.size() < 2) return false;
  ir::FusedPart& x = b.fused[b.fused.size() - 2];
  ir::FusedPart& y = b.fused.back();
  if (x.placement.dims != y.placement.dims) return false;
  std::swap(x, y);
  return true;
}

// All queries, then all keys, then all values of a rank, instead of group by group.
bool contiguous_parts(ir::Binding& b) {
  if (b.fused.size() != 3) return false;
  bool changed = false;
  for (ir::FusedPart& part : b.fused) {
    std::vector<ir::Digit>& digits = part.placement.dims.at(0).digits;
    std::vector<ir::Digit> merged;
    std::int64_t local = 1;
    for (const ir::Digit& d : digits) {
      if (d.is_local()) {
        local *= d.size;
      } else {
        merged.push_back(d);
      }
    }
    // Only with several groups a rank does the order of groups and parts matter.
    const auto first_local = std::find_if(digits.begin(), digits.end(), [](const ir::Digit& d) { return d.is_local(); });
    changed = changed || (first_local != digits.end() && first_local->size > 1);
    merged.push_back({"", 1, local});
    digits = std::move(merged);
  }
  b.fuse_axis = 0;
  return changed;
}

// [3][tp][d] read as [tp][3 d]: a plain shard of a strided layout.
bool plain_shard(ir::Binding& b) {
  if (!b.fused.empty()) return false;
  for (ir::DimLayout& dim : b.placement.dims) {
    std::vector<ir::Digit>& d = dim.digits;
    if (d.size() == 3 && d[0].is_local() && d[1].axis.starts_with("tp") && d[2].is_local()) {
      d = {d[1], {"", 1, d[0].size * d[2].size}};
      return true;
    }
  }
  return false;
}

// Samples dealt to data parallel ranks in blocks instead of microbatch by microbatch. Of one input alone.
bool blocked_samples(ir::Binding& b) {
  for (ir::DimLayout& dim : b.placement.dims) {
    std::vector<ir::Digit>& d = dim.digits;
    if (d.size() >= 2 && d[0].is_local() && d[1].axis == "dp") {
      std::swap(d[0], d[1]);
      return true;
    }
  }
  return false;
}

bool other_buffer_axis(ir::Binding& b) {
  if (b.buffer.empty()) return false;
  for (ir::DimLayout& dim : b.placement.dims) {
    for (ir::Digit& d : dim.digits) {
      if (d.axis == "dp" && d.size == 2) {
        d.axis = "tp";
        return true;
      }
    }
  }
  return false;
}

bool square_transposed(ir::Binding& b) {
  std::vector<ir::DimLayout>& dims = b.placement.dims;
  if (dims.size() != 2 || dims[0].digits.size() + dims[1].digits.size() != 3) return false;
  std::swap(dims[0], dims[1]);
  return true;
}

Kind at_buffers(std::string kind, std::function<bool(ir::FlatBuffer&)> edit) {
  return {std::move(kind), [edit](const Subject& subject) {
            std::vector<Site> sites;
            for (std::size_t k = 0; k < subject.document.plan.buffers.size(); ++k) {
              ir::FlatBuffer copy = subject.document.plan.buffers[k];
              if (!edit(copy)) continue;
              sites.push_back({copy.name, [edit, k](Editor& e, const std::string& at) {
                                 edit(e.plan().buffers[k]);
                                 for (const ir::PlanState& s : e.stage().state)
                                   if (s.binding.buffer == at) {
                                     e.touch(s.name);
                                     e.touch(e.name(s.value));
                                     e.touch(e.name(s.next));
                                   }
                               }});
            }
            return sites;
          }};
}

bool like_members_exchanged(ir::FlatBuffer& buffer) {
  for (std::size_t i = 0; i < buffer.members.size(); ++i) {
    for (std::size_t j = i + 1; j < buffer.members.size(); ++j) {
      ir::BufferMember& a = buffer.members[i];
      ir::BufferMember& b = buffer.members[j];
      if (a.param.empty() || b.param.empty() || a.placement.dims != b.placement.dims) continue;
      std::swap(a.param, b.param);
      return true;
    }
  }
  return false;
}

bool member_parts_exchanged(ir::FlatBuffer& buffer) {
  for (ir::BufferMember& m : buffer.members) {
    if (m.fused.size() != 2 || m.fused[0].placement.dims != m.fused[1].placement.dims) continue;
    std::swap(m.fused[0], m.fused[1]);
    return true;
  }
  return false;
}

bool last_member_later(ir::FlatBuffer& buffer) {
  if (buffer.members.empty()) return false;
  buffer.members.back().offset += 1;
  return true;
}

// A constant start outside of the microbatch loop: a piece of an unpacked buffer.
bool is_unpacking(const Subject&, const Subject::Entry& e) {
  if (e.in_loop || e.instruction->op != OpCode::slice) return false;
  return e.instruction->attributes.get<ir::CoordExpr>("start").is_constant();
}
bool is_own_shard(const Subject&, const Subject::Entry& e) {
  if (e.instruction->op != OpCode::slice) return false;
  bool coordinate = false;
  ir::for_each_variable(e.instruction->attributes.get<ir::CoordExpr>("start"), [&](const std::string& v) { coordinate = coordinate || v != "m"; });
  return coordinate;
}
bool is_packing(const Subject&, const Subject::Entry& e) {
  return !e.in_loop && e.instruction->op == OpCode::concat && e.instruction->inputs.size() > 1;
}

Edit shift_start(std::int64_t by) {
  return [by](Editor& e, const std::string& at) {
    e.set(at, "start", e.at(at).attributes.get<ir::CoordExpr>("start") + ir::constant_expr(by));
  };
}

// The piece of the next slice of the same size from the same buffer.
void other_piece(Editor& e, const std::string& at) {
  const ir::Instruction own = e.at(at);
  for (const ir::Instruction& i : e.program().body) {
    if (i.op != OpCode::slice || i.outputs == own.outputs || i.inputs != own.inputs) continue;
    if (e.type(i.outputs[0]) != e.type(own.outputs[0])) continue;
    e.set(at, "start", *i.attributes.find("start"));
    return;
  }
  throw NotApplicable();
}

void shard_of_other_axis(Editor& e, const std::string& at) {
  const auto start = e.at(at).attributes.get<ir::CoordExpr>("start");
  if (start.terms.size() != 1 || start.terms[0].kind != ir::CoordTerm::Kind::variable) throw NotApplicable();
  const std::string other = start.terms[0].variable == "dp" ? (e.has_axis("tp") ? "tp" : "tpr") : "dp";
  e.set(at, "start", start.terms[0].coefficient * ir::variable_expr(other));
}
void first_shard_everywhere(Editor& e, const std::string& at) {
  e.set(at, "start", ir::constant_expr(0));
}

// Two operands that differ, exchanged: another order of the bucket.
void two_exchanged(Editor& e, const std::string& at) {
  ir::Instruction& i = e.at(at);
  for (std::size_t k = 0; k + 1 < i.inputs.size(); ++k) {
    if (i.inputs[k] == i.inputs[k + 1]) continue;
    std::swap(i.inputs[k], i.inputs[k + 1]);
    e.touch(at);
    return;
  }
  throw NotApplicable();
}
void like_exchanged(Editor& e, const std::string& at) {
  ir::Instruction& i = e.at(at);
  for (std::size_t k = 0; k < i.inputs.size(); ++k) {
    for (std::size_t j = k + 1; j < i.inputs.size(); ++j) {
      if (i.inputs[k] == i.inputs[j] || e.type(i.inputs[k]) != e.type(i.inputs[j])) continue;
      std::swap(i.inputs[k], i.inputs[j]);
      e.touch(at);
      return;
    }
  }
  throw NotApplicable();
}
void reversed(Editor& e, const std::string& at) {
  ir::Instruction& i = e.at(at);
  std::vector<ir::ValueId> backwards(i.inputs.rbegin(), i.inputs.rend());
  if (backwards == i.inputs) throw NotApplicable();
  i.inputs = std::move(backwards);
  e.touch(at);
}

// The shard that the next rank of the mesh owns.
void neighbours_shard(Editor& e, const std::string& at) {
  const auto start = e.at(at).attributes.get<ir::CoordExpr>("start");
  if (start.terms.size() != 1 || start.terms[0].kind != ir::CoordTerm::Kind::variable) throw NotApplicable();
  const std::string axis = start.terms[0].variable;
  const ir::CoordExpr next = ir::modulo(ir::variable_expr(axis, 1, 1), e.axis_size(axis));
  e.set(at, "start", start.terms[0].coefficient * next);
}

bool has_value_pieces(const Subject& s, const Subject::Entry& e) {
  return is_packing(s, e) && e.name.ends_with("grad_packed");
}

}  // namespace

Kinds placement_kinds() {
  return {
      at_states("binding_gate_up_exchanged", [](ir::Binding& b) { return b.fused.size() == 2 && swap_last_parts(b); }),
      at_states("binding_key_value_exchanged", [](ir::Binding& b) { return b.fused.size() == 3 && swap_last_parts(b); }),
      at_states("binding_qkv_contiguous", contiguous_parts),
      at_states("binding_plain_shard_of_strided", plain_shard),
      at_states("binding_bucket_on_wrong_axis", other_buffer_axis),
      at_states("binding_transposed_shard", square_transposed),
      at_inputs("binding_blocked_samples", blocked_samples),
      at_buffers("bucket_like_members_exchanged", like_members_exchanged),
      at_buffers("bucket_member_parts_exchanged", member_parts_exchanged),
      at_buffers("bucket_member_later", last_member_later),
      at_instructions("unpack_offset_plus_one", is_unpacking, shift_start(1)),
      at_instructions("unpack_offset_minus_one", is_unpacking, shift_start(-1)),
      at_instructions("unpack_other_parameter", is_unpacking, other_piece),
      at_instructions("shard_offset_plus_one", is_own_shard, shift_start(1)),
      at_instructions("shard_of_other_axis", is_own_shard, shard_of_other_axis),
      at_instructions("shard_of_neighbour", is_own_shard, neighbours_shard),
      at_instructions("shard_first_everywhere", is_own_shard, first_shard_everywhere),
      at_instructions("bucket_order_two_exchanged", is_packing, two_exchanged),
      at_instructions("bucket_order_like_exchanged", has_value_pieces, like_exchanged),
      at_instructions("bucket_order_reversed", has_value_pieces, reversed),
  };
}

}  // namespace shardproof::mutations
