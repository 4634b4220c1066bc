// One JSON object of settings: typed look-ups that report a missing or bad field with its place, what was expected
// and what was found. Shared by the model, parallel and training configurations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/rational.h"
#include "ir/read_json_tree.h"

namespace shardproof::lowering {

// A setting that changes the step in a way that is not lowered: only its neutral value is taken.
struct Unsupported {
  std::string_view key;
  std::string_view neutral;  // see ConfigObject::only_neutral
  std::string_view reason;
};

// A view: the tree and the sink must outlive it. An absent field and a JSON null are the same, as in the
// publishers' own readers. After a bad field the fallback is returned and the sink has an error.
class ConfigObject {
 public:
  // `title` says in findings whose settings these are, where the file holds several.
  ConfigObject(ir::JsonRef object, ir::DiagnosticSink& sink, std::string title = {})
      : object_(object), sink_(&sink), title_(std::move(title)) {}

  const ir::JsonNode* find(std::string_view key) const;  // nullptr: absent or null
  std::optional<ir::JsonRef> find_object(std::string_view key);

  // Without a fallback the field is required.
  std::int64_t positive(std::string_view key, std::optional<std::int64_t> fallback = std::nullopt,
                        std::int64_t most = std::int64_t{1} << 40);  // the largest extent of the IR
  ir::Rational rational(std::string_view key, ir::Rational fallback, ir::Rational least, ir::Rational most);
  double real(std::string_view key, std::optional<double> fallback = std::nullopt);  // > 0
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::optional<std::string> fallback = std::nullopt);
  // Text that must be one of `choices`.
  std::string choice(std::string_view key, const std::vector<std::string>& choices,
                     std::optional<std::string> fallback = std::nullopt);

  // No field but those of `known`: each other one is an error (SP0026), or a warning (SP0027) for files that also serve
  // other programs.
  void refuse_unknown(std::span<const std::string_view> known);
  void warn_of_unknown(std::span<const std::string_view> known);
  // A field that is known and not supported may be absent, or `neutral`: a number, a literal, a text without its
  // quotes, or "[]" for an empty list or object.
  void only_neutral(std::string_view key, std::string_view neutral, std::string_view reason);  // SP0025

  // Place of a field, or where the object begins if it is absent.
  ir::Span span_of(std::string_view key) const;
  void missing(std::string_view key, std::string_view expected);                                          // SP0020
  void bad_value(std::string_view key, std::string_view expected, std::string_view found);                // SP0021
  void bad_choice(std::string_view key, std::string_view expected, std::string_view found);               // SP0022
  void inconsistent(std::string_view key, std::string message, std::string expected, std::string found);  // SP0023
  void unsupported(std::string_view key, std::string message, std::string fix = {});                      // SP0025
  ir::DiagnosticSink& sink() { return *sink_; }
  void report(ir::Diagnostic diagnostic);  // adds the title

 private:
  void error(std::string code, std::string name, std::string message, ir::Span span, std::string expected,
             std::string found, std::string fix = {});
  ir::Diagnostic unknown_field(const ir::JsonNode& field, std::span<const std::string_view> known) const;

  ir::JsonRef object_;
  ir::DiagnosticSink* sink_;
  std::string title_;
};

// What a node holds, for "found": a number or literal as written, text in quotes, or "an object".
std::string describe_node(const ir::JsonNode& node);

// "set-up `name`"; empty for a set-up without a name.
std::string setup_title(const std::string& name);

// The settings object of a file: the root itself (then `name` is empty), or, if all members of the root are objects,
// the one called `name` (the only one, if `name` is empty). Reports SP0020 with the available names otherwise.
std::optional<ir::JsonRef> select_config(const ir::JsonTree& tree, const std::string& name, ir::DiagnosticSink& sink,
                                         std::string* selected = nullptr);

}  // namespace shardproof::lowering
