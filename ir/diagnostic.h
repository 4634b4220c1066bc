// Findings as data. Nothing here prints: renderers in verifier/ turn a Diagnostic into text or JSON.
// Codes are "SP" and four digits, never reused (see verifier/rules/):
//   SP00xx input   SP01xx well-formedness   SP02xx values   SP03xx collectives, messages, schedules
//   SP04xx transfers and memory
//   SP05xx state   SP06xx numerics (warnings)   SP08xx certificates   SP09xx not decided
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/source.h"

namespace shardproof::ir {

enum class Severity { error, warning, note };

// A place and what is said about it. Exactly one label of a diagnostic is primary.
struct Label {
  Span span;
  std::string text;
  bool primary = false;
};

// Replace the bytes of `span` (empty span with begin: insertion point) by `content`.
struct Edit {
  Span span;
  std::string content;
};

// How far a suggested fix was checked. `verified`: the edited plan was verified again and nothing of
// this defect is left; `plausible`: the local goal closes but the whole plan was not run again.
enum class Applicability { verified, plausible, display_only };

struct Fix {
  std::string message;  // the change, as an order: "all-reduce the gradient over `tp`"
  std::vector<Edit> edits;
  Applicability applicability = Applicability::display_only;
};

// What the finding is about. Empty fields are unknown or do not apply.
struct Subject {
  std::string value;        // plan value or state name
  std::string reference;    // reference tensor it should represent
  std::string instruction;  // e.g. "all_reduce -> dg"
  std::string axis;         // mesh axis
  std::string rank;         // e.g. "rank 3 (dp=0, tp=3)"; empty: all ranks
};

struct Diagnostic {
  std::string code;     // "SP0201"
  std::string name;     // "missing-reduction"
  Severity severity = Severity::error;
  std::string message;  // one sentence: lower case, no full stop, names in backticks
  Subject subject;
  std::vector<Label> labels;
  std::string expected;
  std::string found;
  std::vector<std::string> notes;
  std::optional<Fix> fix;
  std::int64_t places = 1;  // how many values share this cause (1: only this one)
};

// An error with one primary label without text.
Diagnostic make_error(std::string code, std::string name, std::string message, Span span, std::string expected = {},
                      std::string found = {}, std::string fix_message = {});

// Collects findings. `error_count` lets a pass stop after errors without exceptions.
class DiagnosticSink {
 public:
  void add(Diagnostic diagnostic);
  // Short form for the common case of one primary label.
  void error(std::string code, std::string name, std::string message, Span span,
             std::string expected = {}, std::string found = {}, std::string fix_message = {});

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  std::vector<Diagnostic> take() { return std::move(diagnostics_); }
  std::size_t error_count() const { return error_count_; }
  bool ok() const { return error_count_ == 0; }

 private:
  std::vector<Diagnostic> diagnostics_;
  std::size_t error_count_ = 0;
};

}  // namespace shardproof::ir
