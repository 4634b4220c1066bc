// The form for people (`shardproof show`): what each rank holds in words, then the program as equations.
// Layers repeat, so runs of instructions that differ only in names are shown once and counted.
#include <algorithm>
#include <functional>
#include <ostream>
#include <unordered_map>

#include "ir/print.h"

namespace shardproof::ir {

namespace {

std::string name_of(const Program& program, ValueId id) {
  return id.valid() ? "%" + program.value(id).name : "%?";
}

std::string typed_name(const Program& program, ValueId id) {
  return name_of(program, id) + " : " + to_string(program.value(id).type);
}

std::string next_text(const Program& program, ValueId value, ValueId next) {
  return next == value ? ", unchanged" : ", next " + name_of(program, next);
}

template <typename T, typename Text>
std::string joined(const std::vector<T>& list, Text text, std::string_view separator = ", ") {
  std::string result;
  for (const T& item : list) {
    if (!result.empty()) result += separator;
    result += text(item);
  }
  return result;
}

std::string attribute_text(const AttrValue& value) {
  const auto integer = [](std::int64_t n) { return std::to_string(n); };
  return std::visit(
      [&](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::int64_t>) return integer(v);
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "(" + joined(v, integer, ",") + ")";
        if constexpr (std::is_same_v<T, Rational> || std::is_same_v<T, CoordExpr>) return to_string(v);
        if constexpr (std::is_same_v<T, std::vector<Rational>>) {
          if (v.size() > 8) return "(" + std::to_string(v.size()) + " numbers)";
          return "(" +
                 joined(
                     v, [](const Rational& r) { return to_string(r); }, ",") +
                 ")";
        }
        if constexpr (std::is_same_v<T, std::string>) return v;
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return joined(
              v, [](const std::string& s) { return s; }, ",");
        }
        if constexpr (std::is_same_v<T, bool>) return v ? "yes" : "no";
        if constexpr (std::is_same_v<T, std::vector<CoordExpr>>) {
          return "(" +
                 joined(
                     v, [](const CoordExpr& e) { return to_string(e); }, ",") +
                 ")";
        }
        if constexpr (std::is_same_v<T, std::vector<std::vector<std::int64_t>>>) {
          if (v.size() > 4) return std::to_string(v.size()) + " groups";
          return joined(
              v, [&](const std::vector<std::int64_t>& group) { return "{" + joined(group, integer, ",") + "}"; }, "");
        }
        return {};
      },
      value);
}

// Everything of an instruction but the names of its values.
std::string operation_text(const Instruction& instruction) {
  std::string text(schema_of(instruction.op).name);
  if (instruction.op == OpCode::loop && instruction.region) {
    return text + "[" + instruction.region->index + " < " + std::to_string(instruction.region->trip) + "]";
  }
  const auto& attributes = instruction.attributes.entries();
  if (attributes.empty()) return text;
  // The one attribute that is the operation itself goes without its key.
  const bool bare = attributes.size() == 1 && (instruction.op == OpCode::einsum || instruction.op == OpCode::compare ||
                                               instruction.op == OpCode::cast || instruction.op == OpCode::constant);
  text += '[';
  text += joined(attributes,
                 [&](const auto& entry) { return (bare ? "" : entry.first + "=") + attribute_text(entry.second); });
  return text + ']';
}

std::string types_text(const Program& program, const Instruction& instruction) {
  return joined(instruction.outputs, [&](ValueId id) { return to_string(program.value(id).type); });
}

// Also for meshes that validation would refuse.
std::string ranks_text(const Mesh& mesh) {
  std::int64_t size = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (__builtin_mul_overflow(size, axis.size, &size)) return "too many";
  }
  return std::to_string(size);
}

// Where an instruction sequence repeats: `length` instructions from `first`, `times` times in a row.
struct Repeat {
  std::size_t first = 0;
  std::size_t length = 0;
  std::size_t times = 1;
};

// Leftmost shortest periods, by signature. Candidates for the period at a place are the distances to the
// next few equal signatures, so that the cost stays near linear.
std::vector<Repeat> find_repeats(const std::vector<std::size_t>& signatures) {
  constexpr int max_candidates = 16;
  constexpr std::size_t least_saving = 4;
  const std::size_t size = signatures.size();
  std::vector<std::size_t> next(size, size);
  std::unordered_map<std::size_t, std::size_t> last;
  for (std::size_t i = size; i-- > 0;) {
    const auto [entry, fresh] = last.emplace(signatures[i], i);
    if (!fresh) {
      next[i] = entry->second;
      entry->second = i;
    }
  }
  std::vector<Repeat> repeats;
  for (std::size_t i = 0; i < size;) {
    Repeat best{i, 1, 1};
    std::size_t candidate = next[i];
    for (int tries = 0; tries < max_candidates && candidate < size; ++tries, candidate = next[candidate]) {
      const std::size_t period = candidate - i;
      if (period > 4096) break;
      std::size_t run = 0;
      while (candidate + run < size && signatures[i + run] == signatures[candidate + run]) ++run;
      const std::size_t times = 1 + run / period;
      if (times > 1 && period * (times - 1) >= least_saving && period * times > best.length * best.times) {
        best = {i, period, times};
        break;
      }
    }
    repeats.push_back(best);
    i += best.length * best.times;
  }
  return repeats;
}

// "model.layers.7.mlp" -> "model.layers.#.mlp": what stays the same from layer to layer.
std::string without_layer_numbers(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    result += text[i++];
    if (result.back() != '.') continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", i), text.size());
    if (end == i || end == text.size() || text[end] != '.') continue;
    result += '#';
    i = end;
  }
  return result;
}

// Entries one a line; entries that differ from the ones before only in layer numbers are counted.
void print_entries(const std::vector<std::string>& entries, std::ostream& out) {
  std::vector<std::size_t> signatures;
  signatures.reserve(entries.size());
  for (const std::string& entry : entries) signatures.push_back(std::hash<std::string>{}(without_layer_numbers(entry)));
  for (const Repeat& repeat : find_repeats(signatures)) {
    for (std::size_t i = 0; i < repeat.length; ++i) out << "  " << entries[repeat.first + i] << "\n";
    if (repeat.times == 1) continue;
    out << "  ... the last " << repeat.length << (repeat.length == 1 ? " entry" : " entries") << " with other numbers, "
        << repeat.times - 1 << (repeat.times == 2 ? " more time\n" : " more times\n");
  }
}

class TextPrinter {
 public:
  TextPrinter(const Document& document, std::ostream& out) : document_(document), out_(out) {}
  void print();

 private:
  void reference();
  void stage(const StageProgram& stage);
  void buffer(const FlatBuffer& buffer);
  void body(const Program& program, const std::vector<Instruction>& body, std::string indent);
  std::string binding_text(const Binding& binding) const;
  std::string part_text(const std::string& name, const Placement& placement) const;

  const Document& document_;
  std::ostream& out_;
};

std::string TextPrinter::part_text(const std::string& name, const Placement& placement) const {
  std::string text = name + ": " + describe(placement);
  if (!placement.mesh.empty()) text += " (mesh " + placement.mesh + ")";
  return text;
}

std::string TextPrinter::binding_text(const Binding& binding) const {
  if (!binding.fused.empty()) {
    std::string text =
        "fused {" +
        joined(
            binding.fused, [&](const FusedPart& part) { return part_text(part.of, part.placement); }, "; ") +
        "}";
    if (!binding.role.empty()) text = binding.role + " of " + text;
    if (!binding.placement.partial.empty() || !binding.placement.owned.empty())
      text += ", " + describe(binding.placement);
    return text;
  }
  if (!binding.buffer.empty()) return binding.role + " in buffer " + part_text(binding.buffer, binding.placement);
  return part_text(binding.of, binding.placement);
}

void TextPrinter::print() {
  const Plan& plan = document_.plan;
  // A name is free text: a line break in it must not look like a line of this output.
  std::string name = plan.name.empty() ? "(no name)" : plan.name;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  out_ << "plan " << name << "\n";
  for (const Mesh& mesh : plan.meshes) {
    out_ << "mesh " << mesh.name << ": "
         << joined(
                mesh.axes, [](const MeshAxis& axis) { return axis.name + "=" + std::to_string(axis.size); }, " ")
         << ", " << ranks_text(mesh) << " ranks" << (mesh.devices.empty() ? "" : ", explicit device order") << "\n";
  }
  if (plan.schedule) {
    const Schedule& schedule = *plan.schedule;
    out_ << "schedule "
         << (schedule.actions.empty() ? schedule.generator : std::to_string(schedule.actions.size()) + " explicit rows")
         << ": " << schedule.microbatches << " microbatches, " << schedule.virtual_stages << " virtual stages";
    if (schedule.max_in_flight != 0) out_ << ", at most " << schedule.max_in_flight << " in flight";
    out_ << "\n";
  }
  for (const RngStream& stream : plan.rng) {
    out_ << "random stream " << stream.name << ": key ("
         << joined(stream.key, [](const CoordExpr& expr) { return to_string(expr); }) << ")\n";
  }
  for (const FlatBuffer& each : plan.buffers) buffer(each);
  reference();
  for (const StageProgram& each : plan.stages) stage(each);
  if (!plan.checkpoint.empty()) {
    out_ << "\ncheckpoint\n";
    for (const CheckpointEntry& entry : plan.checkpoint)
      out_ << "  " << entry.key << " = " << entry.state << " in " << entry.file << "\n";
  }
  for (const std::string& note : plan.notes) out_ << "note: " << note << "\n";
}

void TextPrinter::buffer(const FlatBuffer& buffer) {
  out_ << "buffer " << buffer.name << ": " << buffer.size << " elements\n";
  for (const BufferMember& member : buffer.members) {
    out_ << "  [" << member.offset << "..) ";
    if (member.fused.empty()) {
      out_ << part_text(member.param, member.placement);
    } else {
      out_ << "fused {"
           << joined(
                  member.fused, [&](const FusedPart& part) { return part_text(part.of, part.placement); }, "; ")
           << "}";
    }
    out_ << "\n";
  }
}

void TextPrinter::reference() {
  const Reference& reference = document_.reference;
  const Program& program = reference.program;
  out_ << "\nreference: " << reference.inputs.size() << " inputs, " << reference.state.size() << " state tensors, "
       << reference.outputs.size() << " outputs, " << program.body.size() << " instructions\n";
  std::vector<std::string> entries;
  for (const ReferenceInput& input : reference.inputs) {
    entries.push_back("input  " + typed_name(program, input.value));
    if (input.below != 0) entries.back() += ", elements below " + std::to_string(input.below);
  }
  for (const ReferenceState& state : reference.state) {
    entries.push_back("state  " + typed_name(program, state.value));
    if (!state.role.empty()) entries.back() += ", " + state.role + (state.param.empty() ? "" : " of " + state.param);
    entries.back() += next_text(program, state.value, state.next);
  }
  print_entries(entries, out_);
  body(program, program.body, "  ");
  for (const ReferenceOutput& output : reference.outputs) {
    out_ << "  output " << output.name << " = " << name_of(program, output.value) << "\n";
  }
}

void TextPrinter::stage(const StageProgram& stage) {
  const Program& program = stage.program;
  out_ << "\nstage " << stage.name;
  if (!stage.where.empty()) {
    out_ << " where " << joined(stage.where, [](const OwnedAxis& axis) {
      return axis.axis + " in {" +
             joined(
                 axis.coordinates, [](std::int64_t c) { return std::to_string(c); }, ",") +
             "}";
    });
  }
  out_ << ": " << program.body.size() << " instructions\n";
  std::vector<std::string> entries;
  for (const PlanInput& input : stage.inputs) {
    entries.push_back("input  " + typed_name(program, input.value) + " = " + binding_text(input.binding));
  }
  for (const PlanState& state : stage.state) {
    entries.push_back("state  " + typed_name(program, state.value) + " = " + binding_text(state.binding));
    if (state.device != "accelerator") entries.back() += ", on " + state.device;
    entries.back() += next_text(program, state.value, state.next);
  }
  print_entries(entries, out_);
  body(program, program.body, "  ");
  for (const PlanOutput& output : stage.outputs) {
    out_ << "  output " << output.name << " = " << name_of(program, output.value) << " = "
         << binding_text(output.binding) << "\n";
  }
}

void TextPrinter::body(const Program& program, const std::vector<Instruction>& body, std::string indent) {
  std::vector<std::size_t> signatures;
  signatures.reserve(body.size());
  for (const Instruction& instruction : body) {
    signatures.push_back(
        std::hash<std::string>{}(operation_text(instruction) + " : " + types_text(program, instruction)));
  }
  for (const Repeat& repeat : find_repeats(signatures)) {
    for (std::size_t i = repeat.first; i < repeat.first + repeat.length; ++i) {
      const Instruction& instruction = body[i];
      out_ << indent << describe(program, instruction);
      if (!instruction.recompute.empty()) out_ << "  (recompute " << instruction.recompute << ")";
      if (!instruction.action.empty()) out_ << "  (" << instruction.action << ")";
      out_ << "\n";
      if (instruction.region == nullptr) continue;
      for (const Carry& carry : instruction.region->carries) {
        out_ << indent << "  carry " << name_of(program, carry.argument) << " = " << name_of(program, carry.init)
             << ", then " << name_of(program, carry.next) << "\n";
      }
      this->body(program, instruction.region->body, indent + "  ");
    }
    if (repeat.times > 1) {
      out_ << indent << "... the last " << repeat.length << (repeat.length == 1 ? " instruction " : " instructions ")
           << "with other operands, " << repeat.times - 1 << (repeat.times == 2 ? " more time\n" : " more times\n");
    }
  }
}

}  // namespace

std::string describe(const Program& program, const Instruction& instruction) {
  const auto name = [&](ValueId id) { return name_of(program, id); };
  std::string text = joined(instruction.outputs, name);
  if (!text.empty()) text += " = ";
  text += operation_text(instruction) + "(" + joined(instruction.inputs, name) + ")";
  if (!instruction.outputs.empty()) text += " : " + types_text(program, instruction);
  return text;
}

void print_text(const Document& document, std::ostream& out) {
  TextPrinter(document, out).print();
}

}  // namespace shardproof::ir
