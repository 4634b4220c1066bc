#include "verifier/render_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "verifier/rules.h"
#include "verifier/source_excerpt.h"

namespace shardproof::verifier {

namespace {

constexpr std::size_t kMaxFact = 600;  // bytes of an expected or found expression; JSON has all of it

Ink ink_of(ir::Severity severity) {
  switch (severity) {
    case ir::Severity::error:
      return Ink::error;
    case ir::Severity::warning:
      return Ink::warning;
    case ir::Severity::note:
      return Ink::note;
  }
  return Ink::bold;
}

const ir::Label* primary_label(const ir::Diagnostic& diagnostic) {
  const auto found = std::find_if(diagnostic.labels.begin(), diagnostic.labels.end(),
                                  [](const ir::Label& label) { return label.primary && label.span.known(); });
  return found == diagnostic.labels.end() ? nullptr : &*found;
}

// "plans/a.json:1181:15", or what is known of it.
std::string place(const ir::Diagnostic& diagnostic, const ir::SourceFile* source, std::string_view path) {
  std::string file = printable(source != nullptr ? source->path() : path);
  const ir::Label* label = primary_label(diagnostic);
  if (source == nullptr || label == nullptr) return file;
  const ir::LineColumn start = source->line_column(label->span.begin);
  return file + ":" + std::to_string(start.line) + ":" + std::to_string(start.column);
}

std::string plural(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::size_t gutter_width(const ir::Diagnostic& diagnostic, const ir::SourceFile* source) {
  std::size_t line = 1;
  const auto look = [&](ir::Span span) {
    if (source != nullptr) line = std::max<std::size_t>(line, source->line_column(span.end).line);
  };
  for (const ir::Label& label : diagnostic.labels) look(label.span);
  if (diagnostic.fix) {
    for (const ir::Edit& edit : diagnostic.fix->edits) look(edit.span);
  }
  // At least three: the width of the "..." between distant lines.
  return std::max<std::size_t>(3, decimal_digits(line));
}

std::string_view applicability_note(ir::Applicability applicability) {
  switch (applicability) {
    case ir::Applicability::verified:
      return "verified: with this edit the plan was verified again and this defect is gone";
    case ir::Applicability::plausible:
      return "plausible: the value is right with this edit; the whole plan was not verified again";
    case ir::Applicability::display_only:
      return "";
  }
  return "";
}

void render_finding(const ir::Diagnostic& diagnostic, const ir::SourceFile* source, std::string_view path,
                    const TextOptions& options, std::ostream& out) {
  const ExcerptStyle style{options.color, options.max_width, gutter_width(diagnostic, source)};
  const std::string indent(style.gutter, ' ');
  const auto fact = [&](std::string_view key, std::string_view text) {
    if (text.empty()) return;
    out << paint(indent + " = ", Ink::line_number, options.color) << key << printable(text.substr(0, kMaxFact))
        << (text.size() > kMaxFact ? "..." : "") << "\n";
  };
  const Ink ink = ink_of(diagnostic.severity);
  out << paint(std::string(severity_name(diagnostic.severity)) + "[" + diagnostic.code + "]", ink, options.color)
      << paint(": " + printable(diagnostic.message), Ink::bold, options.color) << "\n";
  out << paint(std::string(style.gutter - 1, ' ') + "--> ", Ink::line_number, options.color)
      << place(diagnostic, source, path) << "\n";
  if (source != nullptr) print_labels(*source, diagnostic.labels, ink, style, out);
  if (primary_label(diagnostic) == nullptr || source == nullptr) {
    fact("in:       ", diagnostic.subject.instruction);
    for (const ir::Label& label : diagnostic.labels) fact("", label.text);
  } else if (!diagnostic.expected.empty() || !diagnostic.found.empty() || !diagnostic.subject.rank.empty()) {
    out << paint(indent + " |", Ink::line_number, options.color) << "\n";
  }
  fact("expected: ", diagnostic.expected);
  fact("found:    ", diagnostic.found);
  fact("on:       ", diagnostic.subject.rank);
  for (const std::string& note : diagnostic.notes) {
    out << paint("note", Ink::note, options.color) << ": " << printable(note) << "\n";
  }
  if (diagnostic.places > 1) {
    out << paint("note", Ink::note, options.color) << ": the same cause is found at "
        << plural(diagnostic.places, "place") << "; this is the first\n";
  }
  if (!diagnostic.fix) return;
  out << paint("help", Ink::help, options.color) << ": " << printable(diagnostic.fix->message) << "\n";
  if (source != nullptr && !diagnostic.fix->edits.empty()) {
    print_edits(*source, diagnostic.fix->edits, style, out);
  }
  fact("", applicability_note(diagnostic.fix->applicability));
}

std::int64_t count_errors(const Report& report) {
  return std::count_if(report.diagnostics.begin(), report.diagnostics.end(),
                       [](const ir::Diagnostic& d) { return d.severity == ir::Severity::error; });
}

std::string defects(const Report& report) {
  std::int64_t places = 0;
  for (const ir::Diagnostic& diagnostic : report.diagnostics) {
    if (diagnostic.severity == ir::Severity::error) places += diagnostic.places;
  }
  const std::int64_t errors = count_errors(report);
  return plural(errors, "defect") + (places > errors ? " (" + std::to_string(places) + " places)" : "");
}

std::string obligation_counts(const Obligations& obligations) {
  // What is wrong with its structure decides before any value is compared.
  if (obligations.total() == 0) return "no values were compared";
  return plural(obligations.total(), "obligation") + ": " + std::to_string(obligations.proved) + " proved, " +
         std::to_string(obligations.refuted) + " refuted, " + std::to_string(obligations.unknown) + " unknown";
}

std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, seconds < 1 ? "%.2f s" : "%.1f s", seconds);
  return buffer;
}

void render_assumptions(const Report& report, std::ostream& out) {
  if (report.assumptions.empty()) return;
  out << "assumptions:\n";
  for (const std::string& assumption : report.assumptions) out << "  - " << printable(assumption) << "\n";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN (undefined)";
  if (std::isinf(value)) return value > 0 ? "infinity" : "minus infinity";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.12g", value);
  return buffer;
}

}  // namespace

std::string_view severity_name(ir::Severity severity) {
  switch (severity) {
    case ir::Severity::error:
      return "error";
    case ir::Severity::warning:
      return "warning";
    case ir::Severity::note:
      return "note";
  }
  return "note";
}

std::string verdict_line(const Report& report, bool timing) {
  std::string line;
  switch (report.verdict) {
    case Verdict::equivalent:
      line = "plan is equivalent to its reference: " + plural(report.obligations.proved, "obligation") + " proved (" +
             std::to_string(report.obligations.by_z3) + " by Z3), " + std::to_string(report.obligations.unknown) +
             " unknown";
      break;
    case Verdict::not_equivalent:
      line =
          "plan is not equivalent to its reference: " + defects(report) + "; " + obligation_counts(report.obligations);
      break;
    case Verdict::unknown:
      line = "plan is not proved equivalent to its reference, nor disproved: " +
             (report.unknown_reason.empty() ? defects(report) : printable(report.unknown_reason)) + "; " +
             obligation_counts(report.obligations);
      break;
    case Verdict::invalid:
      return "plan cannot be verified: " + plural(count_errors(report), "error");
  }
  if (timing) line += "; " + seconds_text(report.statistics.seconds);
  return line;
}

void render_counterexample(const Counterexample& c, std::ostream& out) {
  constexpr std::size_t shown = 12;         // elements of one input; JSON has all
  constexpr std::size_t shown_inputs = 12;
  out << "counterexample, replayed in float64:\n";
  for (const std::string& note : c.sizes) out << "  " << printable(note) << "\n";
  for (std::size_t n = 0; n < std::min(shown_inputs, c.inputs.size()); ++n) {
    const Counterexample::Input& input = c.inputs[n];
    out << "  " << printable(input.name) << " : " << input.type << " = ";
    const bool constant = std::all_of(input.values.begin(), input.values.end(),
                                      [&](double x) { return x == input.values.front(); });
    if (constant) {
      out << (input.values.size() == 1 ? "" : "all ") << number_text(input.values.front()) << "\n";
      continue;
    }
    for (std::size_t i = 0; i < std::min(shown, input.values.size()); ++i)
      out << (i == 0 ? "" : ", ") << number_text(input.values[i]);
    out << (input.values.size() > shown ? ", ..." : "") << "\n";
  }
  if (c.inputs.size() > shown_inputs)
    out << "  " << c.inputs.size() - shown_inputs << " more inputs are in --format json\n";
  if (c.zero_inputs > 0) out << "  " << plural(c.zero_inputs, c.inputs.empty() ? "input" : "other input") << ": all 0\n";
  if (c.open) out << "  padding that the plan may not read holds " << number_text(*c.open) << "\n";
  if (!c.out_of_bounds.empty()) {
    out << "  " << c.rank << " leaves a tensor: " << printable(c.out_of_bounds) << "\n";
    return;
  }
  out << "  " << printable(c.subject) << ": the reference has ";
  if (c.reference_element.empty()) {
    out << "0 in its padding";
  } else {
    out << number_text(c.expected) << " at " << printable(c.reference_element);
  }
  out << ", " << c.rank << " has " << number_text(c.found);
  if (!c.local_element.empty()) out << " at its " << c.local_element;
  out << "\n";
  if (c.held.empty()) return;
  out << "what the ranks hold, found by execution:\n";
  for (const Counterexample::HeldValue& held : c.held) {
    out << "  `" << printable(held.value) << "` " << printable(held.text) << "\n";
    if (!held.instruction.empty()) out << "    " << printable(held.instruction) << "\n";
  }
}

namespace {

void render_confirmation(const SmtConfirmation& smt, std::ostream& out) {
  out << "Z3 confirmed " << smt.confirmed << " of " << smt.distinct << " distinct steps (of " << smt.obligations << ")\n";
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, smt.open.size()); ++i) {
    const SmtConfirmation::Open& open = smt.open[i];
    out << "  not " << open.count << ": " << open.reason << " (" << printable(open.place) << ")\n";
  }
  if (smt.open.size() > kShown) out << "  and for " << smt.open.size() - kShown << " other reasons\n";
}

void render_schedule(const structure::ScheduleSummary& schedule, std::ostream& out) {
  const auto ranks = static_cast<std::int64_t>(schedule.in_flight.size());
  out << "schedule " << printable(schedule.name) << ": " << schedule.microbatches << (schedule.microbatches == 1 ? " microbatch" : " microbatches") << " on " << plural(ranks, "pipeline rank")
      << ", at most " << (schedule.in_flight.empty() ? 0 : *std::max_element(schedule.in_flight.begin(), schedule.in_flight.end())) << " in flight on a rank";
  if (schedule.slots) out << ", " << schedule.slots->idle << " of " << plural(schedule.slots->all, "slot") << " idle";
  out << "\n";
}

}  // namespace

void render_full(const Report& report, const ir::SourceFile* source, std::string_view path, const TextOptions& options,
                 std::ostream& out) {
  for (const ir::Diagnostic& diagnostic : report.diagnostics) {
    render_finding(diagnostic, source, path, options, out);
    out << "\n";
  }
  if (report.counterexample) render_counterexample(*report.counterexample, out);
  if (options.quiet) return;
  const Ink ink = report.verdict == Verdict::equivalent ? Ink::help
                  : report.verdict == Verdict::unknown  ? Ink::warning
                                                        : Ink::error;
  out << paint(verdict_line(report, options.timing), ink, options.color) << "\n";
  if (!report.no_counterexample.empty()) out << "no counterexample: " << printable(report.no_counterexample) << "\n";
  if (!report.executed.empty()) out << report.executed << "\n";
  if (report.smt) render_confirmation(*report.smt, out);
  if (report.schedule) render_schedule(*report.schedule, out);
  if (report.verdict != Verdict::invalid) render_assumptions(report, out);
  if (!report.diagnostics.empty() && find_rule(report.diagnostics.front().code) != nullptr) {
    out << "for more about this finding, run `shardproof explain " << report.diagnostics.front().code << "`\n";
  }
}

void render_concise(const Report& report, const ir::SourceFile* source, std::string_view path,
                    const TextOptions& options, std::ostream& out) {
  for (const ir::Diagnostic& diagnostic : report.diagnostics) {
    out << place(diagnostic, source, path) << ": "
        << paint(std::string(severity_name(diagnostic.severity)) + "[" + diagnostic.code + "]",
                 ink_of(diagnostic.severity), options.color)
        << " " << printable(diagnostic.message);
    if (diagnostic.places > 1) out << " (" << diagnostic.places << " places)";
    out << "\n";
  }
  if (!options.quiet) out << printable(path) << ": " << verdict_line(report, options.timing) << "\n";
}

}  // namespace shardproof::verifier
