// Document level of the plan format: the sections in order of dependence. The reference comes first because
// bindings complete their placements from the extents of the tensors they name; meshes come before that,
// because digits take their size from the axes.
#include "ir/read_json.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <sstream>

#include "ir/axis_table.h"
#include "ir/read_json_placement.h"
#include "ir/read_json_program.h"
#include "ir/read_json_tree.h"

namespace shardproof::ir {

namespace {

constexpr std::int64_t format_version = 1;
constexpr std::uint32_t max_meshes = 64;

class DocumentReader {
 public:
  DocumentReader(Findings& findings, Document& document) : findings_(findings), document_(document) {}
  void read(JsonRef root);

 private:
  bool read_version(const Fields& fields);
  void read_meshes(const Fields& fields);
  void read_reference(JsonRef object);
  void read_stages(const Fields& fields);
  void read_stage(const Fields& fields, std::string_view name);
  void read_schedule(JsonRef object);
  void read_rng(JsonRef array);
  void read_checkpoint(JsonRef array);
  template <typename Read>
  void each(const Fields& fields, std::string_view key, Read read);

  // A value defined by an "inputs" or "state" entry: its "name", and "type" unless `inferred` is known.
  ValueId define_entry(const Fields& fields, ProgramReader& program, const std::optional<TensorType>& inferred);
  std::string entry_name(const Fields& fields);
  // The value under `key` (after the body), or the value called like the entry if the key may be absent.
  ValueId resolve_entry(const Fields& fields, ProgramReader& program, std::string_view key, bool default_to_name);

  Findings& findings_;
  Document& document_;
  AxisTable axes_;
  std::unordered_set<std::string> loop_indices_;  // of all stages: variables a random stream may depend on
  std::optional<PlacementReader> placements_;
};

template <typename Read>
void DocumentReader::each(const Fields& fields, std::string_view key, Read read) {
  const auto list = fields.find(key);
  if (!list || !is_array(findings_, *list, "field `" + std::string(key) + "`")) return;
  for (JsonRef item : *list) {
    if (findings_.exhausted()) return;
    read(item);
  }
}

void DocumentReader::read(JsonRef root) {
  static constexpr std::array<std::string_view, 16> known = {
      "shardproof", "$schema", "name",  "meshes",  "mesh", "reference", "buffers",    "rng",
      "stages",     "inputs",  "state", "outputs", "body", "schedule",  "checkpoint", "notes"};
  if (root->kind == JsonKind::object) {
    // A file of another version may have any fields: say only that.
    for (JsonRef field : root) {
      if (field->key == "shardproof" && field->kind == JsonKind::number &&
          field->text != std::to_string(format_version)) {
        return findings_.error("SP0011", "unsupported-version", "this plan format version is not supported",
                               field->span, std::to_string(format_version), std::string(field->text.substr(0, 20)));
      }
    }
  }
  const Fields fields(findings_, root, "plan file", known);
  if (!fields.is_object() || !read_version(fields)) return;
  Plan& plan = document_.plan;
  if (const auto name = fields.find("name"))
    plan.name = read_text(findings_, *name, "field `name`").value_or(std::string{});
  read_meshes(fields);
  axes_ = AxisTable(plan.meshes);
  if (const auto reference = fields.required("reference")) read_reference(*reference);
  if (findings_.exhausted()) return;
  // Names of the reference may be missing after an error there; bindings would then be reported in vain.
  if (!findings_.ok()) return;
  const ReferenceIndex index(document_.reference);
  placements_.emplace(findings_, plan, index);
  each(fields, "buffers", [&](JsonRef item) { plan.buffers.push_back(placements_->read_buffer(item)); });
  placements_->index_buffers();
  read_stages(fields);
  if (const auto rng = fields.find("rng")) read_rng(*rng);
  if (const auto schedule = fields.find("schedule")) read_schedule(*schedule);
  if (const auto checkpoint = fields.find("checkpoint")) read_checkpoint(*checkpoint);
  each(fields, "notes", [&](JsonRef item) {
    if (auto note = read_text(findings_, item, "note")) plan.notes.push_back(std::move(*note));
  });
}

bool DocumentReader::read_version(const Fields& fields) {
  const auto version = fields.required("shardproof");
  if (!version) return false;
  return read_integer(findings_, *version, "field `shardproof`").has_value();
}

void DocumentReader::read_meshes(const Fields& fields) {
  Plan& plan = document_.plan;
  if (const auto list = fields.find("meshes"); list && list->node().count > max_meshes) {
    return findings_.error("SP0009", "limit-exceeded", "the plan has too many meshes", list->node().key_span,
                           "at most " + std::to_string(max_meshes), std::to_string(list->node().count));
  }
  each(fields, "meshes", [&](JsonRef item) { plan.meshes.push_back(read_mesh(findings_, item)); });
  if (const auto mesh = fields.find("mesh")) {
    if (fields.find("meshes")) {
      findings_.error("SP0005", "bad-value", "`mesh` is the short form of `meshes`", mesh->node().key_span,
                      "one of the two");
    } else {
      plan.meshes.push_back(read_mesh_axes(findings_, *mesh));
      plan.meshes.back().name = "mesh";
    }
  }
}

// ---------------------------------------------------------------- values of entries

std::string DocumentReader::entry_name(const Fields& fields) {
  const auto name = fields.required("name");
  if (!name) return {};
  return read_name(findings_, *name, "field `name`").value_or(std::string{});
}

ValueId DocumentReader::define_entry(const Fields& fields, ProgramReader& program,
                                     const std::optional<TensorType>& inferred) {
  const auto name = fields.find("name");
  std::optional<TensorType> type = inferred;
  if (const auto written = fields.find("type")) {
    type = read_type(findings_, *written);
  }
  return name ? program.define(*name, type) : ValueId{};
}

ValueId DocumentReader::resolve_entry(const Fields& fields, ProgramReader& program, std::string_view key,
                                      bool default_to_name) {
  auto value = default_to_name ? fields.find(key) : fields.required(key);
  if (!value && default_to_name) value = fields.find("name");
  return value ? program.resolve(*value) : ValueId{};
}

// ---------------------------------------------------------------- reference

void DocumentReader::read_reference(JsonRef object) {
  static constexpr std::array<std::string_view, 4> known = {"inputs", "state", "outputs", "body"};
  static constexpr std::array<std::string_view, 3> input_known = {"name", "type", "below"};
  static constexpr std::array<std::string_view, 5> state_known = {"name", "type", "role", "param", "next"};
  static constexpr std::array<std::string_view, 2> output_known = {"name", "value"};
  static const AxisTable no_axes;
  const Fields fields(findings_, object, "reference", known);
  if (!fields.is_object()) return;
  Reference& reference = document_.reference;
  ProgramReader program(findings_, reference.program, no_axes);

  each(fields, "inputs", [&](JsonRef item) {
    const Fields entry(findings_, item, "reference input", input_known);
    if (!entry.is_object()) return;
    entry_name(entry);
    if (!entry.find("type")) entry.required("type");
    ReferenceInput input;
    input.value = define_entry(entry, program, std::nullopt);
    input.span = entry.head();
    if (const auto below = entry.find("below")) {
      input.below = read_integer(findings_, *below, "field `below`").value_or(0);
      if (input.below < 1) findings_.bad_value(*below, "`below` bounds the elements from above", "1 or more");
    }
    reference.inputs.push_back(input);
  });
  std::vector<JsonRef> state_entries;
  each(fields, "state", [&](JsonRef item) {
    const Fields entry(findings_, item, "reference state", state_known);
    if (!entry.is_object()) return;
    ReferenceState state;
    state.name = entry_name(entry);
    if (!entry.find("type")) entry.required("type");
    state.value = define_entry(entry, program, std::nullopt);
    state.span = entry.head();
    if (const auto role = entry.find("role"))
      state.role = read_name(findings_, *role, "field `role`").value_or(std::string{});
    if (const auto param = entry.find("param"))
      state.param = read_name(findings_, *param, "field `param`").value_or(std::string{});
    reference.state.push_back(std::move(state));
    state_entries.push_back(item);
  });
  if (const auto body = fields.find("body")) program.read_body(*body);
  for (std::size_t i = 0; i < state_entries.size() && !findings_.exhausted(); ++i) {
    const Fields entry(findings_, state_entries[i], "reference state", state_known);
    reference.state[i].next = resolve_entry(entry, program, "next", false);
  }
  std::unordered_map<std::string, Span> output_names;
  each(fields, "outputs", [&](JsonRef item) {
    const Fields entry(findings_, item, "reference output", output_known);
    if (!entry.is_object()) return;
    ReferenceOutput output;
    output.name = entry_name(entry);
    output.value = resolve_entry(entry, program, "value", true);
    output.span = entry.head();
    const auto [first, fresh] = output_names.emplace(output.name, output.span);
    if (!fresh) findings_.duplicate_name(output.span, "output", output.name, first->second);
    reference.outputs.push_back(std::move(output));
  });
  program.finish();
}

// ---------------------------------------------------------------- plan

void DocumentReader::read_stages(const Fields& fields) {
  static constexpr std::array<std::string_view, 6> known = {"name", "where", "inputs", "state", "outputs", "body"};
  std::optional<JsonRef> short_form;
  for (const std::string_view key : {"body", "inputs", "state", "outputs"}) {
    if (const auto field = fields.find(key)) short_form = field;
  }
  if (const auto stages = fields.find("stages")) {
    if (short_form) {
      findings_.error("SP0005", "bad-value", "a plan with `stages` has no program at the top level",
                      short_form->node().key_span, "this field inside a stage");
    }
    std::unordered_map<std::string, Span> names;
    each(fields, "stages", [&](JsonRef item) {
      const Fields entry(findings_, item, "stage", known);
      if (!entry.is_object()) return;
      const std::string name = entry_name(entry);
      const auto [first, fresh] = names.emplace(name, entry.head());
      if (!fresh) findings_.duplicate_name(entry.head(), "stage", name, first->second);
      read_stage(entry, name);
    });
  } else if (short_form) {
    read_stage(fields, "main");
  }
  if (document_.plan.meshes.empty() && !document_.plan.stages.empty())
    findings_.missing_field(fields.object(), "meshes", "plan");
}

void DocumentReader::read_stage(const Fields& fields, std::string_view name) {
  static constexpr std::array<std::string_view, 12> input_known = {
      "name", "type", "of", "fused", "fuse_axis", "buffer", "role", "mesh", "dims", "partial", "owned", "pad_value"};
  static constexpr std::array<std::string_view, 14> state_known = {
      "name", "type", "of",      "fused", "fuse_axis", "buffer", "role",
      "mesh", "dims", "partial", "owned", "pad_value", "device", "next"};
  static constexpr std::array<std::string_view, 12> output_known = {
      "name", "value", "of", "fused", "fuse_axis", "buffer", "role", "mesh", "dims", "partial", "owned", "pad_value"};
  StageProgram& stage = document_.plan.stages.emplace_back();
  stage.name = name;
  stage.span = fields.head();
  if (const auto where = fields.find("where")) {
    stage.where = placements_->read_owned(*where, nullptr, "field `where`");
    for (JsonRef field : *where) {
      if (!axes_.has(field->key)) findings_.unknown_name(field->key_span, "mesh axis", field->key, axes_.names());
    }
  }
  ProgramReader program(findings_, stage.program, axes_);

  each(fields, "inputs", [&](JsonRef item) {
    const Fields entry(findings_, item, "input", input_known);
    if (!entry.is_object()) return;
    PlanInput input;
    std::optional<TensorType> local;
    input.binding = placements_->read_binding(entry, BindingKind::input, entry_name(entry), &local);
    if (!entry.find("type") && (!input.binding.fused.empty() || !input.binding.buffer.empty())) entry.required("type");
    input.value = define_entry(entry, program, local);
    input.span = item->span;
    stage.inputs.push_back(std::move(input));
  });
  std::vector<JsonRef> state_entries;
  each(fields, "state", [&](JsonRef item) {
    const Fields entry(findings_, item, "state", state_known);
    if (!entry.is_object()) return;
    PlanState state;
    state.name = entry_name(entry);
    std::optional<TensorType> local;
    state.binding = placements_->read_binding(entry, BindingKind::state, state.name, &local);
    if (!entry.find("type") && (!state.binding.fused.empty() || !state.binding.buffer.empty())) entry.required("type");
    state.value = define_entry(entry, program, local);
    if (const auto device = entry.find("device")) {
      const auto read = read_text(findings_, *device, "field `device`");
      if (read) state.device = *read;
      if (read && *read != "accelerator" && *read != "host")
        findings_.bad_value(*device, "unknown device", "accelerator or host");
    }
    state.span = item->span;
    stage.state.push_back(std::move(state));
    state_entries.push_back(item);
  });
  if (const auto body = fields.find("body")) program.read_body(*body);
  for (std::size_t i = 0; i < state_entries.size() && !findings_.exhausted(); ++i) {
    const Fields entry(findings_, state_entries[i], "state", state_known);
    stage.state[i].next = resolve_entry(entry, program, "next", false);
  }
  std::unordered_map<std::string, Span> output_names;
  each(fields, "outputs", [&](JsonRef item) {
    const Fields entry(findings_, item, "output", output_known);
    if (!entry.is_object()) return;
    PlanOutput output;
    output.name = entry_name(entry);
    output.binding = placements_->read_binding(entry, BindingKind::output, output.name, nullptr);
    output.value = resolve_entry(entry, program, "value", true);
    output.span = item->span;
    const auto [first, fresh] = output_names.emplace(output.name, output.span);
    if (!fresh) findings_.duplicate_name(output.span, "output", output.name, first->second);
    stage.outputs.push_back(std::move(output));
  });
  program.finish();
  loop_indices_.insert(program.loop_indices().begin(), program.loop_indices().end());
}

void DocumentReader::read_rng(JsonRef array) {
  static constexpr std::array<std::string_view, 2> known = {"name", "key"};
  if (!is_array(findings_, array, "field `rng`")) return;
  for (JsonRef item : array) {
    if (findings_.exhausted()) return;
    const Fields fields(findings_, item, "random stream", known);
    if (!fields.is_object()) continue;
    RngStream stream;
    stream.name = entry_name(fields);
    stream.span = fields.head();
    if (const auto key = fields.required("key")) {
      stream.key = read_list<CoordExpr>(findings_, *key, "field `key`", false, read_expr).value_or(stream.key);
      for (const CoordExpr& expr : stream.key) {
        for_each_variable(expr, [&](const std::string& variable) {
          if (axes_.has(variable) || loop_indices_.contains(variable)) return;
          findings_.unknown_name(key->node().span, "mesh axis or loop index", variable, axes_.names());
        });
      }
    }
    document_.plan.rng.push_back(std::move(stream));
  }
}

void DocumentReader::read_schedule(JsonRef object) {
  static constexpr std::array<std::string_view, 5> known = {"generator", "microbatches", "virtual_stages", "max_in_flight", "actions"};
  const Fields fields(findings_, object, "schedule", known);
  if (!fields.is_object()) return;
  Schedule schedule;
  schedule.span = fields.head();
  const auto generator = fields.find("generator");
  const auto actions = fields.find("actions");
  if (generator.has_value() == actions.has_value()) {
    findings_.error("SP0003", "missing-field", "a schedule is generated or listed", fields.head(),
                    "one of `generator` and `actions`");
  }
  if (generator) {
    schedule.generator = read_name(findings_, *generator, "field `generator`").value_or(std::string{});
    schedule.generator_span = generator->node().span;
  }
  if (const auto count = fields.required("microbatches")) {
    schedule.microbatches = read_integer(findings_, *count, "field `microbatches`").value_or(1);
  }
  if (const auto count = fields.find("virtual_stages")) {
    schedule.virtual_stages = read_integer(findings_, *count, "field `virtual_stages`").value_or(1);
  }
  if (const auto count = fields.find("max_in_flight")) {
    const auto most = read_integer(findings_, *count, "field `max_in_flight`");
    if (most && *most < 1) findings_.bad_value(*count, "a rank that holds no microbatch cannot run any", "1 or more");
    schedule.max_in_flight = most.value_or(0);
  }
  if (actions) {
    const auto read_cell = [&](Findings& findings, JsonRef cell, std::string_view what) {
      schedule.action_spans.back().push_back(cell.node().span);
      return read_text(findings, cell, what);
    };
    schedule.actions =
        read_list<std::vector<std::string>>(findings_, *actions, "field `actions`", false,
                                            [&](Findings& findings, JsonRef row, std::string_view what) {
                                              schedule.action_spans.emplace_back();
                                              return read_list<std::string>(findings, row, what, false, read_cell);
                                            })
            .value_or(schedule.actions);
  }
  document_.plan.schedule = std::move(schedule);
}

void DocumentReader::read_checkpoint(JsonRef array) {
  static constexpr std::array<std::string_view, 3> known = {"key", "state", "file"};
  if (!is_array(findings_, array, "field `checkpoint`")) return;
  for (JsonRef item : array) {
    if (findings_.exhausted()) return;
    const Fields fields(findings_, item, "checkpoint entry", known);
    if (!fields.is_object()) continue;
    CheckpointEntry entry;
    entry.span = fields.head();
    if (const auto key = fields.required("key"))
      entry.key = read_name(findings_, *key, "field `key`").value_or(std::string{});
    if (const auto state = fields.required("state")) {
      entry.state = read_name(findings_, *state, "field `state`").value_or(std::string{});
      entry.span = state->node().span;
    }
    if (const auto file = fields.required("file"))
      entry.file = read_name(findings_, *file, "field `file`").value_or(std::string{});
    document_.plan.checkpoint.push_back(std::move(entry));
  }
}

std::uint32_t primary_begin(const Diagnostic& diagnostic) {
  for (const Label& label : diagnostic.labels) {
    if (label.primary) return label.span.begin;
  }
  return 0xFFFFFFFFU;  // about the file as a whole: last
}

}  // namespace

std::optional<Document> read_document(std::shared_ptr<const SourceFile> source, DiagnosticSink& sink,
                                      const ReadLimits& limits) {
  DiagnosticSink local;
  std::optional<Document> document(std::in_place);
  const std::optional<JsonTree> tree = parse_json(*source, limits, local);
  bool good = tree.has_value();
  if (tree) {
    Findings findings(local, limits.max_errors);
    DocumentReader(findings, *document).read(tree->root());
    good = findings.ok();
  }
  // The reader meets names in order of dependence; people read files from the top.
  std::vector<Diagnostic> found = local.take();
  std::stable_sort(found.begin(), found.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return primary_begin(a) < primary_begin(b); });
  for (Diagnostic& diagnostic : found) sink.add(std::move(diagnostic));
  if (!good) return std::nullopt;
  document->source = std::move(source);
  return document;
}

std::shared_ptr<const SourceFile> read_source_file(const std::string& path, DiagnosticSink& sink,
                                                   const ReadLimits& limits) {
  const auto fail = [&](const std::string& message) {
    sink.error("SP0001", "syntax", message, Span{});
    return nullptr;
  };
  std::ifstream file;
  std::istream* input = &std::cin;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return fail("cannot open " + quoted(path));
    input = &file;
  }
  // One byte more than allowed is enough to see that a file is too large; a stream may have no end.
  std::string text;
  std::array<char, 1 << 16> block{};
  while (text.size() <= limits.max_bytes && input->read(block.data(), block.size()).gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(input->gcount()));
  }
  if (input->bad()) return fail("cannot read " + quoted(path));
  if (text.size() > limits.max_bytes) {
    sink.error("SP0009", "limit-exceeded", quoted(path) + " is too large", Span{},
               "at most " + std::to_string(limits.max_bytes) + " bytes");
    return nullptr;
  }
  return std::make_shared<SourceFile>(path, std::move(text));
}

std::optional<Document> read_document_file(const std::string& path, DiagnosticSink& sink, const ReadLimits& limits) {
  const std::shared_ptr<const SourceFile> source = read_source_file(path, sink, limits);
  if (!source) return std::nullopt;
  return read_document(source, sink, limits);
}

}  // namespace shardproof::ir
