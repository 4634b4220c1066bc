// Typed access to the fields of JSON objects, with findings instead of exceptions. Internal to the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/coord_expr.h"
#include "ir/diagnostic.h"
#include "ir/nearest.h"
#include "ir/rational.h"
#include "ir/read_json_tree.h"
#include "ir/tensor_type.h"

namespace shardproof::ir {

// Text from a file made fit for a message: in backticks, control bytes escaped, long text cut.
std::string quoted(std::string_view text);

// The input findings of one reading. The codes and their names live here, once.
class Findings {
 public:
  Findings(DiagnosticSink& sink, std::size_t max_errors) : sink_(&sink), max_errors_(max_errors) {}

  void unknown_field(JsonRef field, std::string_view what, std::span<const std::string_view> known);    // SP0002
  void missing_field(JsonRef object, std::string_view key, std::string_view what);                      // SP0003
  void wrong_kind(JsonRef value, std::string_view what, std::string_view expected);                     // SP0004
  void bad_value(JsonRef value, std::string message, std::string expected = {}, std::string fix = {});  // SP0005
  void duplicate_name(Span span, std::string_view what, std::string_view name, Span first);             // SP0006
  void unknown_name(Span span, std::string_view what, std::string_view name,
                    std::span<const std::string_view> known = {});  // SP0007
  void add(Diagnostic diagnostic);
  void error(std::string code, std::string name, std::string message, Span span, std::string expected = {},
             std::string found = {}, std::string fix = {});

  std::size_t count() const { return count_; }
  bool ok() const { return count_ == 0; }
  // Reading stops here: the file has more problems than anyone wants to see.
  bool exhausted() const { return count_ >= max_errors_; }

 private:
  DiagnosticSink* sink_;
  std::size_t max_errors_;
  std::size_t count_ = 0;
};

// One object under reading. Construction reports a value of another kind and the fields it does not know.
class Fields {
 public:
  // `what` names the object in messages: "instruction". `known` must outlive this.
  Fields(Findings& findings, JsonRef value, std::string_view what, std::span<const std::string_view> known);

  bool is_object() const { return is_object_; }
  std::optional<JsonRef> find(std::string_view key) const;      // absent: no finding
  std::optional<JsonRef> required(std::string_view key) const;  // absent: SP0003
  JsonRef object() const { return object_; }
  Span head() const;  // of the opening brace: a label for the whole object that stays on one line

 private:
  Findings* findings_;
  JsonRef object_;
  std::string_view what_;
  bool is_object_;
};

// Conversions. Each reports what is wrong and returns nullopt; `what` is "field `size`" or alike.
std::optional<std::string> read_text(Findings& findings, JsonRef value, std::string_view what);
// A name: text without control bytes, not empty, at most 1024 bytes.
std::optional<std::string> read_name(Findings& findings, JsonRef value, std::string_view what);
// A name that may stand in a coordinate expression: letters, digits and "_", no digit first.
std::optional<std::string> read_identifier(Findings& findings, JsonRef value, std::string_view what);
std::optional<std::int64_t> read_integer(Findings& findings, JsonRef value, std::string_view what);
std::optional<bool> read_flag(Findings& findings, JsonRef value, std::string_view what);
std::optional<Rational> read_rational(Findings& findings, JsonRef value, std::string_view what);
std::optional<CoordExpr> read_expr(Findings& findings, JsonRef value, std::string_view what);
// "f32[4,8]", within the limits of tensor_type.h.
std::optional<TensorType> read_type(Findings& findings, JsonRef value);
bool is_array(Findings& findings, JsonRef value, std::string_view what);

// An array read item by item; a single item may stand for a list of one when `or_single`.
template <typename T, typename ReadItem>
std::optional<std::vector<T>> read_list(Findings& findings, JsonRef value, std::string_view what, bool or_single,
                                        ReadItem read_item) {
  std::vector<T> list;
  const auto take = [&](JsonRef item) {
    std::optional<T> read = read_item(findings, item, what);
    if (read) list.push_back(std::move(*read));
    return read.has_value();
  };
  bool good = true;
  if (or_single && value->kind != JsonKind::array) {
    good = take(value);
  } else {
    if (!is_array(findings, value, what)) return std::nullopt;
    list.reserve(value->count);
    for (JsonRef item : value) {
      if (findings.exhausted()) return std::nullopt;
      good = take(item) && good;
    }
  }
  if (!good) return std::nullopt;
  return list;
}

}  // namespace shardproof::ir
