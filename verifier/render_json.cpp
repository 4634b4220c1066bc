#include "verifier/render_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "verifier/render_text.h"

namespace shardproof::verifier {

namespace {

using Json = nlohmann::ordered_json;

Json position(const ir::SourceFile& source, std::uint32_t offset) {
  const ir::LineColumn at = source.line_column(offset);
  return {{"line", at.line}, {"column", at.column}, {"offset", offset}};
}

// Adds path, start and end; spans are meaningless without a source.
void add_place(Json& object, const ir::SourceFile* source, ir::Span span) {
  if (source == nullptr) return;
  object["path"] = source->path();
  object["start"] = position(*source, span.begin);
  object["end"] = position(*source, span.end);
}

void add_text(Json& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

std::string_view applicability_name(ir::Applicability applicability) {
  switch (applicability) {
    case ir::Applicability::verified:
      return "verified";
    case ir::Applicability::plausible:
      return "plausible";
    case ir::Applicability::display_only:
      return "display-only";
  }
  return "display-only";
}

Json subject_json(const ir::Subject& subject) {
  Json object = Json::object();
  add_text(object, "value", subject.value);
  add_text(object, "reference", subject.reference);
  add_text(object, "instruction", subject.instruction);
  add_text(object, "axis", subject.axis);
  add_text(object, "rank", subject.rank);
  return object;
}

Json fix_json(const ir::Fix& fix, const ir::SourceFile* source) {
  Json edits = Json::array();
  for (const ir::Edit& edit : fix.edits) {
    Json object = Json::object();
    add_place(object, source, edit.span);
    object["content"] = edit.content;
    edits.push_back(std::move(object));
  }
  return {
      {"message", fix.message}, {"applicability", applicability_name(fix.applicability)}, {"edits", std::move(edits)}};
}

Json diagnostic_json(const ir::Diagnostic& diagnostic, const ir::SourceFile* source) {
  Json labels = Json::array();
  for (const ir::Label& label : diagnostic.labels) {
    const bool placed = source != nullptr && label.span.known();
    if (!placed && label.text.empty()) continue;  // a file that cannot be opened
    Json object = {{"primary", label.primary}};
    if (placed) add_place(object, source, label.span);
    add_text(object, "text", label.text);
    labels.push_back(std::move(object));
  }
  Json object = {{"code", diagnostic.code},
                 {"name", diagnostic.name},
                 {"severity", severity_name(diagnostic.severity)},
                 {"message", diagnostic.message},
                 {"subject", subject_json(diagnostic.subject)},
                 {"labels", std::move(labels)}};
  add_text(object, "expected", diagnostic.expected);
  add_text(object, "found", diagnostic.found);
  if (!diagnostic.notes.empty()) object["notes"] = diagnostic.notes;
  object["places"] = diagnostic.places;
  if (diagnostic.fix) object["fix"] = fix_json(*diagnostic.fix, source);
  object["fingerprint"] = fingerprint(diagnostic);
  return object;
}

// JSON has no NaN and no infinity: null, for what is undefined.
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json counterexample_json(const Counterexample& c) {
  Json inputs = Json::array();
  for (const Counterexample::Input& input : c.inputs)
    inputs.push_back({{"name", input.name}, {"type", input.type}, {"values", input.values}});
  Json object = {{"inputs", std::move(inputs)}, {"zero_inputs", c.zero_inputs}, {"rank", c.rank}};
  add_text(object, "subject", c.subject);
  add_text(object, "out_of_bounds", c.out_of_bounds);
  add_text(object, "local_element", c.local_element);
  add_text(object, "reference_element", c.reference_element);
  if (c.out_of_bounds.empty()) {
    object["expected"] = number_json(c.expected);
    object["found"] = number_json(c.found);
  }
  if (c.open) object["open_elements"] = *c.open;
  object["differing"] = c.differing;
  if (!c.sizes.empty()) object["sizes"] = c.sizes;
  for (const Counterexample::HeldValue& held : c.held) {
    Json each = {{"value", held.value}, {"text", held.text}};
    add_text(each, "instruction", held.instruction);
    object["held"].push_back(std::move(each));
  }
  return object;
}

Json schedule_json(const structure::ScheduleSummary& schedule) {
  Json object = {{"name", schedule.name},
                 {"microbatches", schedule.microbatches},
                 {"peak_in_flight", schedule.in_flight.empty() ? 0 : *std::max_element(schedule.in_flight.begin(), schedule.in_flight.end())},
                 {"in_flight", schedule.in_flight}};
  if (schedule.slots) {
    object["slots"] = schedule.slots->all;
    object["idle_slots"] = schedule.slots->idle;
  }
  return object;
}

}  // namespace

std::string without_numbers(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) pattern += c;
    if (digit && (pattern.empty() || pattern.back() != '#')) pattern += '#';
  }
  return pattern;
}

std::string fingerprint(const ir::Diagnostic& diagnostic) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto mix = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hash = (hash ^ 0xFFU) * 1099511628211ULL;
  };
  mix(diagnostic.code);
  mix(without_numbers(diagnostic.subject.value));
  mix(without_numbers(diagnostic.subject.reference));
  mix(without_numbers(diagnostic.subject.instruction));
  mix(diagnostic.subject.axis);
  const ir::Subject& subject = diagnostic.subject;  // without one the message says what the finding is about
  if (subject.value.empty() && subject.reference.empty() && subject.instruction.empty() && subject.axis.empty()) mix(without_numbers(diagnostic.message));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

void render_json(const Report& report, const ir::SourceFile* source, std::string_view path, const JsonOptions& options,
                 std::ostream& out) {
  Json diagnostics = Json::array();
  for (const ir::Diagnostic& diagnostic : report.diagnostics)
    diagnostics.push_back(diagnostic_json(diagnostic, source));
  Json object = {{"schema", "shardproof-report/1"},
                 {"tool", {{"name", "shardproof"}, {"version", options.tool_version}}},
                 {"verdict", verdict_name(report.verdict)},
                 {"plan", {{"path", source != nullptr ? std::string_view(source->path()) : path}}},
                 {"obligations",
                  {{"total", report.obligations.total()},
                   {"proved", report.obligations.proved},
                   {"refuted", report.obligations.refuted},
                   {"unknown", report.obligations.unknown},
                   {"by_z3", report.obligations.by_z3}}},
                 {"assumptions", report.assumptions}};
  add_text(object, "unknown_reason", report.unknown_reason);
  if (report.counterexample) object["counterexample"] = counterexample_json(*report.counterexample);
  add_text(object, "executed", report.executed);
  if (report.smt) {
    Json open = Json::array();
    for (const SmtConfirmation::Open& o : report.smt->open) open.push_back({{"reason", o.reason}, {"place", o.place}, {"steps", o.count}});
    object["smt"] = {{"steps", report.smt->obligations}, {"distinct", report.smt->distinct}, {"confirmed", report.smt->confirmed},
                     {"solver", report.smt->solver}, {"not_confirmed", std::move(open)}};
  }
  add_text(object, "no_counterexample", report.no_counterexample);
  if (report.schedule) object["schedule"] = schedule_json(*report.schedule);
  object["diagnostics"] = std::move(diagnostics);
  if (options.statistics) {
    const Statistics& statistics = report.statistics;
    object["statistics"] = {{"seconds", statistics.seconds},
                            {"peak_bytes", statistics.peak_bytes},
                            {"reference_instructions", statistics.reference_instructions},
                            {"plan_instructions", statistics.plan_instructions},
                            {"z3_queries", statistics.z3_queries},
                            {"folds", statistics.folds}};
  }
  object["exit_code"] = exit_code(report.verdict);
  // Names from the plan may hold bytes that are not UTF-8.
  out << object.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace shardproof::verifier
