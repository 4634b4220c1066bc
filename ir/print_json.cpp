// The canonical form of plan files. It is unique: what may be left out is left out, keys and lists have one
// order, numbers one spelling, one instruction stands on one line. So plans can be compared as text, and
// reading and printing again gives the same bytes.
#include <algorithm>
#include <ostream>

#include "ir/print.h"
#include "ir/print_json_values.h"
#include "ir/reference_index.h"

namespace shardproof::ir {

namespace {

constexpr std::size_t flush_size = std::size_t{1} << 20;

// Not for loops.
void append_instruction(std::string& out, const Program& program, const Instruction& instruction) {
  Line line(out);
  const auto name = [&](ValueId id) { append_text(out, program.value(id).written_name()); };
  const auto type = [&](ValueId id) { append_text(out, to_string(program.value(id).type)); };
  const bool one = instruction.outputs.size() == 1;
  if (one) {
    line.text("out", program.value(instruction.outputs.front()).written_name());
  } else if (!instruction.outputs.empty()) {
    append_list(line.key("out"), instruction.outputs, name);
  }
  line.text("op", schema_of(instruction.op).name);
  if (!instruction.inputs.empty()) append_list(line.key("in"), instruction.inputs, name);
  for (const auto& [key, value] : instruction.attributes.entries()) append_attribute(line.key(key), value);
  if (one) {
    line.text("type", to_string(program.value(instruction.outputs.front()).type));
  } else if (!instruction.outputs.empty()) {
    append_list(line.key("type"), instruction.outputs, type);
  }
  if (!instruction.recompute.empty()) line.text("recompute", instruction.recompute);
  if (!instruction.action.empty()) line.text("action", instruction.action);
  if (!instruction.source.empty()) line.text("source", instruction.source);
  line.close();
}

void append_carry(std::string& out, const Program& program, const Carry& carry) {
  Line object(out);
  object.text("init", program.value(carry.init).written_name());
  object.text("arg", program.value(carry.argument).written_name());
  object.text("next", program.value(carry.next).written_name());
  object.text("out", program.value(carry.result).written_name());
  object.close();
}

class Printer {
 public:
  Printer(const Document& document, std::ostream* stream)
      : document_(document), plan_(document.plan), index_(document.reference), stream_(stream) {}
  void print();
  void member(const BufferMember& member);
  void input(const Program& program, const PlanInput& input);
  void state(const Program& program, const PlanState& state);
  void output(const Program& program, const PlanOutput& output);
  std::string take() { return std::move(out_); }

 private:
  void flush(bool all = false) {
    if (stream_ == nullptr || (!all && out_.size() < flush_size)) return;
    stream_->write(out_.data(), static_cast<std::streamsize>(out_.size()));
    out_.clear();
  }
  void indent(int depth) { out_.append(static_cast<std::size_t>(depth) * 2, ' '); }

  // "key": [ one item a line ], written by `item(i)`.
  template <typename Item>
  void lines(std::string_view key, int depth, std::size_t count, Item item) {
    append_text(out_, key);
    out_ += ": [";
    for (std::size_t i = 0; i < count; ++i) {
      out_ += i == 0 ? "\n" : ",\n";
      indent(depth + 1);
      item(i);
      flush();
    }
    if (count > 0) {
      out_ += '\n';
      indent(depth);
    }
    out_ += ']';
  }
  template <typename Item>
  void section(std::string_view key, std::size_t count, Item item) {
    if (count == 0) return;
    out_ += ",\n  ";
    lines(key, 1, count, item);
  }

  void mesh(const Mesh& mesh);
  void owned(Line& line, std::string_view key, const std::vector<OwnedAxis>& owned);
  void placement(Line& line, const Placement& placement, const Shape* extents, bool explicit_digits);
  std::string dim(const DimLayout& layout, std::int64_t extent, const Mesh* mesh, bool explicit_digits);
  void fused(Line& line, const std::vector<FusedPart>& parts, std::int64_t axis);
  void binding(Line& line, const Binding& binding, ValueId target);
  void buffer(const FlatBuffer& buffer);
  void reference();
  void stage(const StageProgram& stage);
  void body(const Program& program, const std::vector<Instruction>& body, int depth);
  void instruction(const Program& program, const Instruction& instruction, int depth);
  void loop(const Program& program, const Instruction& instruction, int depth);
  void schedule(const Schedule& schedule);
  const Shape* extents_of(ValueId id) const { return id.valid() ? &index_.type(id).shape : nullptr; }

  const Document& document_;
  const Plan& plan_;
  ReferenceIndex index_;
  std::ostream* stream_;  // null: the text is taken
  std::string out_;
};

void Printer::print() {
  out_ += "{\n  \"shardproof\": 1,\n  \"name\": ";
  append_text(out_, plan_.name);
  section("meshes", plan_.meshes.size(), [&](std::size_t i) { mesh(plan_.meshes[i]); });
  section("buffers", plan_.buffers.size(), [&](std::size_t i) { buffer(plan_.buffers[i]); });
  section("rng", plan_.rng.size(), [&](std::size_t i) {
    Line line(out_);
    line.text("name", plan_.rng[i].name);
    append_list(line.key("key"), plan_.rng[i].key, [&](const CoordExpr& expr) { append_expr(out_, expr); });
    line.close();
  });
  out_ += ",\n  ";
  reference();
  section("stages", plan_.stages.size(), [&](std::size_t i) { stage(plan_.stages[i]); });
  if (plan_.schedule) {
    out_ += ",\n  ";
    schedule(*plan_.schedule);
  }
  section("checkpoint", plan_.checkpoint.size(), [&](std::size_t i) {
    Line line(out_);
    line.text("key", plan_.checkpoint[i].key);
    line.text("state", plan_.checkpoint[i].state);
    line.text("file", plan_.checkpoint[i].file);
    line.close();
  });
  section("notes", plan_.notes.size(), [&](std::size_t i) { append_text(out_, plan_.notes[i]); });
  out_ += "\n}\n";
  flush(true);
}

// ---------------------------------------------------------------- meshes and placements

void Printer::mesh(const Mesh& mesh) {
  Line line(out_);
  line.text("name", mesh.name);
  append_list(line.key("axes"), mesh.axes, [&](const MeshAxis& axis) {
    out_ += '[';
    append_text(out_, axis.name);
    out_ += ", " + std::to_string(axis.size) + ']';
  });
  if (!mesh.devices.empty()) {
    append_list(line.key("devices"), mesh.devices, [&](std::int64_t device) { out_ += std::to_string(device); });
  }
  line.close();
}

void Printer::owned(Line& line, std::string_view key, const std::vector<OwnedAxis>& owned) {
  if (owned.empty()) return;
  Line object(line.key(key));
  for (const OwnedAxis& axis : owned) {
    append_list(object.key(axis.axis), axis.coordinates, [&](std::int64_t c) { out_ += std::to_string(c); });
  }
  object.close();
}

// `extent` 0: unknown. The reader appends a local digit that completes the extent unless the list ends with
// a local digit; this leaves out exactly what the reader appends, and blocks completion where there is none.
std::string Printer::dim(const DimLayout& layout, std::int64_t extent, const Mesh* mesh, bool explicit_digits) {
  std::vector<Digit> digits = layout.digits;
  if (!explicit_digits && extent > 0) {
    std::int64_t total = 1;
    std::int64_t before_last = 1;
    bool fits = true;
    for (const Digit& digit : digits) {
      before_last = total;
      fits = fits && digit.size > 0 && !__builtin_mul_overflow(total, digit.size, &total);
    }
    const bool ends_local = !digits.empty() && digits.back().is_local();
    const bool open_before = digits.size() < 2 || !digits[digits.size() - 2].is_local();
    const std::int64_t goal = layout.padded_extent > 0 ? layout.padded_extent : extent;
    if (!layout.offsets.empty()) {
      std::int64_t largest = 1;
      for (std::size_t i = 1; i < layout.offsets.size(); ++i) {
        std::int64_t shard = 0;
        if (!__builtin_sub_overflow(layout.offsets[i], layout.offsets[i - 1], &shard))
          largest = std::max(largest, shard);
      }
      if (ends_local && open_before && digits.back().size == largest) digits.pop_back();
    } else if (ends_local && open_before && fits && total == goal && goal / before_last == digits.back().size) {
      digits.pop_back();
    } else if (!ends_local && (!fits || total != goal) && !digits.empty()) {
      digits.push_back({{}, 1, 1});
    } else if (digits.empty() && goal != 1) {
      digits.push_back({{}, 1, 1});
    }
  }
  std::string text;
  append_list(text, digits, [&](const Digit& digit) {
    if (digit.is_local()) {
      text += std::to_string(digit.size);
      return;
    }
    const auto axis = mesh == nullptr ? std::nullopt : mesh->find_axis(digit.axis);
    std::string name = digit.axis;
    if (!axis || digit.pre != 1 || mesh->axes[*axis].size != digit.size) {
      name += ":(" + std::to_string(digit.pre) + ")" + std::to_string(digit.size);
    }
    append_text(text, name);
  });
  if (layout.permutation == Permutation::none && layout.padded_extent == 0 && layout.offsets.empty()) return text;
  std::string object;
  Line line(object);
  line.key("digits") += text;
  if (layout.permutation == Permutation::zigzag) line.text("permute", "zigzag");
  if (layout.padded_extent != 0) line.integer("pad", layout.padded_extent);
  if (!layout.offsets.empty()) {
    append_list(line.key("offsets"), layout.offsets, [&](std::int64_t offset) { object += std::to_string(offset); });
  }
  line.close();
  return object;
}

void Printer::placement(Line& line, const Placement& placement, const Shape* extents, bool explicit_digits) {
  const Mesh* mesh = plan_.find_mesh(placement.mesh);
  if (!placement.mesh.empty()) line.text("mesh", placement.mesh);
  const bool known = extents != nullptr && extents->size() == placement.dims.size();
  bool replicated = known && !explicit_digits;
  std::string dims;
  append_list(dims, placement.dims, [&](const DimLayout& layout) {
    const auto position = static_cast<std::size_t>(&layout - placement.dims.data());
    const std::string text = dim(layout, known ? (*extents)[position] : 0, mesh, explicit_digits);
    replicated = replicated && text == "[]";
    dims += text;
  });
  if (!replicated && (extents != nullptr || !placement.dims.empty())) line.key("dims") += dims;
  if (!placement.partial.empty()) {
    Line object(line.key("partial"));
    for (const PartialAxis& partial : placement.partial) object.text(partial.axis, reduce_name(partial.reduce));
    object.close();
  }
  owned(line, "owned", placement.owned);
  if (placement.pad == PadValue::zero) line.text("pad_value", "zero");
}

void Printer::fused(Line& line, const std::vector<FusedPart>& parts, std::int64_t axis) {
  append_list(line.key("fused"), parts, [&](const FusedPart& part) {
    Line object(out_);
    object.text("of", part.of);
    placement(object, part.placement, extents_of(index_.state(part.of)), true);
    object.close();
  });
  line.integer("fuse_axis", axis);
}

void Printer::binding(Line& line, const Binding& binding, ValueId target) {
  if (!binding.of.empty()) line.text("of", binding.of);
  if (!binding.fused.empty()) fused(line, binding.fused, binding.fuse_axis);
  if (!binding.buffer.empty()) line.text("buffer", binding.buffer);
  if (!binding.role.empty()) line.text("role", binding.role);
  if (!binding.fused.empty()) return placement(line, binding.placement, nullptr, false);
  if (binding.buffer.empty()) return placement(line, binding.placement, extents_of(target), false);
  const FlatBuffer* buffer = plan_.find_buffer(binding.buffer);
  const Shape extents = {buffer == nullptr ? 0 : buffer->size};
  placement(line, binding.placement, buffer == nullptr ? nullptr : &extents, false);
}

void Printer::buffer(const FlatBuffer& buffer) {
  Line line(out_);
  line.text("name", buffer.name);
  line.integer("size", buffer.size);
  out_ += ", ";
  lines("members", 2, buffer.members.size(), [&](std::size_t i) {
    member(buffer.members[i]);
  });
  line.close();
}

void Printer::member(const BufferMember& member) {
  Line object(out_);
  if (member.fused.empty()) {
    object.text("param", member.param);
  } else {
    fused(object, member.fused, member.fuse_axis);
  }
  object.integer("offset", member.offset);
  placement(object, member.placement, member.fused.empty() ? extents_of(index_.state(member.param)) : nullptr, false);
  object.close();
}

void Printer::input(const Program& program, const PlanInput& input) {
  Line line(out_);
  line.text("name", program.value(input.value).written_name());
  line.text("type", to_string(program.value(input.value).type));
  binding(line, input.binding, index_.input(input.binding.of));
  line.close();
}

void Printer::state(const Program& program, const PlanState& state) {
  Line line(out_);
  line.text("name", program.value(state.value).written_name());
  line.text("type", to_string(program.value(state.value).type));
  binding(line, state.binding, index_.state(state.binding.of));
  if (state.device != "accelerator") line.text("device", state.device);
  line.text("next", program.value(state.next).written_name());
  line.close();
}

void Printer::output(const Program& program, const PlanOutput& output) {
  Line line(out_);
  line.text("name", output.name);
  line.text("value", program.value(output.value).written_name());
  binding(line, output.binding, index_.output(output.binding.of));
  line.close();
}

// ---------------------------------------------------------------- programs

void Printer::reference() {
  const Reference& reference = document_.reference;
  const Program& program = reference.program;
  out_ += "\"reference\": {\n    ";
  lines("inputs", 2, reference.inputs.size(), [&](std::size_t i) {
    const Value& value = program.value(reference.inputs[i].value);
    Line line(out_);
    line.text("name", value.name);
    line.text("type", to_string(value.type));
    if (reference.inputs[i].below != 0) line.integer("below", reference.inputs[i].below);
    line.close();
  });
  out_ += ",\n    ";
  lines("state", 2, reference.state.size(), [&](std::size_t i) {
    const ReferenceState& state = reference.state[i];
    Line line(out_);
    line.text("name", program.value(state.value).written_name());
    line.text("type", to_string(program.value(state.value).type));
    if (!state.role.empty()) line.text("role", state.role);
    if (!state.param.empty()) line.text("param", state.param);
    line.text("next", program.value(state.next).written_name());
    line.close();
  });
  out_ += ",\n    ";
  lines("outputs", 2, reference.outputs.size(), [&](std::size_t i) {
    Line line(out_);
    line.text("name", reference.outputs[i].name);
    line.text("value", program.value(reference.outputs[i].value).name);
    line.close();
  });
  out_ += ",\n    ";
  body(program, program.body, 2);
  out_ += "\n  }";
}

void Printer::stage(const StageProgram& stage) {
  const Program& program = stage.program;
  out_ += "{\n      \"name\": ";
  append_text(out_, stage.name);
  out_ += ",\n      ";
  if (!stage.where.empty()) {
    append_text(out_, "where");
    out_ += ": ";
    Line object(out_);
    for (const OwnedAxis& axis : stage.where) {
      append_list(object.key(axis.axis), axis.coordinates, [&](std::int64_t c) { out_ += std::to_string(c); });
    }
    object.close();
    out_ += ",\n      ";
  }
  lines("inputs", 3, stage.inputs.size(), [&](std::size_t i) { input(program, stage.inputs[i]); });
  out_ += ",\n      ";
  lines("state", 3, stage.state.size(), [&](std::size_t i) { state(program, stage.state[i]); });
  out_ += ",\n      ";
  lines("outputs", 3, stage.outputs.size(), [&](std::size_t i) { output(program, stage.outputs[i]); });
  out_ += ",\n      ";
  body(program, program.body, 3);
  out_ += "\n    }";
}

void Printer::body(const Program& program, const std::vector<Instruction>& body, int depth) {
  lines("body", depth, body.size(), [&](std::size_t i) { instruction(program, body[i], depth + 1); });
}

void Printer::instruction(const Program& program, const Instruction& instruction, int depth) {
  if (instruction.op == OpCode::loop) return loop(program, instruction, depth);
  append_instruction(out_, program, instruction);
}

void Printer::loop(const Program& program, const Instruction& instruction, int depth) {
  const Region& region = *instruction.region;
  Line line(out_);
  line.text("op", "loop");
  line.text("index", region.index);
  line.integer("trip", region.trip);
  if (!instruction.recompute.empty()) line.text("recompute", instruction.recompute);
  if (!instruction.action.empty()) line.text("action", instruction.action);
  if (!instruction.source.empty()) line.text("source", instruction.source);
  out_ += ", ";
  lines("carry", depth, region.carries.size(), [&](std::size_t i) { append_carry(out_, program, region.carries[i]); });
  out_ += ", ";
  body(program, region.body, depth);
  line.close();
}

void Printer::schedule(const Schedule& schedule) {
  append_text(out_, "schedule");
  out_ += ": ";
  Line line(out_);
  if (schedule.actions.empty()) line.text("generator", schedule.generator);
  line.integer("microbatches", schedule.microbatches);
  if (schedule.virtual_stages != 1) line.integer("virtual_stages", schedule.virtual_stages);
  if (schedule.max_in_flight != 0) line.integer("max_in_flight", schedule.max_in_flight);
  if (!schedule.actions.empty()) {
    out_ += ", ";
    lines("actions", 1, schedule.actions.size(), [&](std::size_t i) {
      append_list(out_, schedule.actions[i], [&](const std::string& action) { append_text(out_, action); });
    });
  }
  line.close();
}

}  // namespace

std::string instruction_json(const Program& program, const Instruction& instruction) {
  std::string out;
  append_instruction(out, program, instruction);
  return out;
}

std::string carry_json(const Program& program, const Carry& carry) {
  std::string out;
  append_carry(out, program, carry);
  return out;
}

std::string input_json(const Document& document, const PlanInput& input) {
  Printer printer(document, nullptr);
  printer.input(document.plan.stages.front().program, input);
  return printer.take();
}

std::string state_json(const Document& document, const PlanState& state) {
  Printer printer(document, nullptr);
  printer.state(document.plan.stages.front().program, state);
  return printer.take();
}

std::string output_json(const Document& document, const PlanOutput& output) {
  Printer printer(document, nullptr);
  printer.output(document.plan.stages.front().program, output);
  return printer.take();
}

std::string member_json(const Document& document, const BufferMember& member) {
  Printer printer(document, nullptr);
  printer.member(member);
  return printer.take();
}

void print_json(const Document& document, std::ostream& out) {
  Printer(document, &out).print();
}

}  // namespace shardproof::ir
