#include "ir/read_json_fields.h"

#include <algorithm>
#include <charconv>

#include "ir/validate.h"

namespace shardproof::ir {

namespace {

constexpr std::size_t longest_shown = 80;
constexpr std::size_t longest_name = 1024;

std::string found_text(JsonRef value) {
  switch (value->kind) {
    case JsonKind::text:
      return "string " + quoted(value->text);
    case JsonKind::number:
    case JsonKind::boolean:
      return quoted(value->text);
    default:
      return std::string(json_kind_name(value->kind));
  }
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || digit(c); });
}

}  // namespace

std::string quoted(std::string_view text) {
  static constexpr std::string_view hex = "0123456789abcdef";
  const bool cut = text.size() > longest_shown;
  if (cut) {
    text = text.substr(0, longest_shown);
    // Drop what is left of a multi-byte character (continuation bytes are 10xxxxxx).
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.remove_suffix(1);
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) text.remove_suffix(1);
  }
  std::string result = "`";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      result += "\\x";
      result += hex[byte >> 4U];
      result += hex[byte & 15U];
    } else {
      result += c;
    }
  }
  result += cut ? "...`" : "`";
  return result;
}

void Findings::add(Diagnostic diagnostic) {
  if (exhausted()) return;
  ++count_;
  sink_->add(std::move(diagnostic));
  if (exhausted()) {
    Diagnostic last;
    last.code = "SP0009";
    last.name = "limit-exceeded";
    last.severity = Severity::note;
    last.message = "the file has more problems; reading stopped after " + std::to_string(max_errors_);
    sink_->add(std::move(last));
  }
}

void Findings::error(std::string code, std::string name, std::string message, Span span, std::string expected,
                     std::string found, std::string fix) {
  add(make_error(std::move(code), std::move(name), std::move(message), span, std::move(expected), std::move(found),
                 std::move(fix)));
}

void Findings::unknown_field(JsonRef field, std::string_view what, std::span<const std::string_view> known) {
  Diagnostic diagnostic;
  diagnostic.code = "SP0002";
  diagnostic.name = "unknown-field";
  diagnostic.message = std::string(what) + " has no field " + quoted(field->key);
  diagnostic.labels.push_back({field->key_span, {}, true});
  for (const std::string_view key : known) {
    if (!diagnostic.expected.empty()) diagnostic.expected += ", ";
    diagnostic.expected += key;
  }
  diagnostic.found = quoted(field->key);
  if (const std::string_view near = nearest(field->key, known); !near.empty()) {
    diagnostic.fix =
        Fix{"write " + quoted(near), {{field->key_span, "\"" + std::string(near) + "\""}}, Applicability::plausible};
  }
  add(std::move(diagnostic));
}

void Findings::missing_field(JsonRef object, std::string_view key, std::string_view what) {
  error("SP0003", "missing-field", std::string(what) + " lacks the field " + quoted(key),
        Span{object->span.begin, object->span.begin + 1}, {}, {}, "add " + quoted(key));
}

void Findings::wrong_kind(JsonRef value, std::string_view what, std::string_view expected) {
  const bool one_line = value->kind != JsonKind::array && value->kind != JsonKind::object;
  const Span span = one_line ? value->span : Span{value->span.begin, value->span.begin + 1};
  error("SP0004", "wrong-kind", std::string(what) + " is " + std::string(json_kind_name(value->kind)), span,
        std::string(expected), found_text(value));
}

void Findings::bad_value(JsonRef value, std::string message, std::string expected, std::string fix) {
  error("SP0005", "bad-value", std::move(message), value->span, std::move(expected), found_text(value), std::move(fix));
}

void Findings::duplicate_name(Span span, std::string_view what, std::string_view name, Span first) {
  Diagnostic diagnostic;
  diagnostic.code = "SP0006";
  diagnostic.name = "duplicate-name";
  diagnostic.message = std::string(what) + " " + quoted(name) + " is defined twice";
  diagnostic.subject.value = name;
  diagnostic.labels.push_back({span, "defined again here", true});
  if (first.known()) diagnostic.labels.push_back({first, "first defined here", false});
  add(std::move(diagnostic));
}

void Findings::unknown_name(Span span, std::string_view what, std::string_view name,
                            std::span<const std::string_view> known) {
  Diagnostic diagnostic;
  diagnostic.code = "SP0007";
  diagnostic.name = "unknown-name";
  diagnostic.message = "there is no " + std::string(what) + " " + quoted(name);
  diagnostic.labels.push_back({span, {}, true});
  diagnostic.found = quoted(name);
  if (known.size() <= 12) {
    for (const std::string_view key : known) {
      if (!diagnostic.expected.empty()) diagnostic.expected += ", ";
      diagnostic.expected += key;
    }
  }
  if (const std::string_view near = nearest(name, known); !near.empty()) {
    diagnostic.fix = Fix{"write " + quoted(near), {}, Applicability::display_only};
  }
  add(std::move(diagnostic));
}

Fields::Fields(Findings& findings, JsonRef value, std::string_view what, std::span<const std::string_view> known)
    : findings_(&findings), object_(value), what_(what), is_object_(value->kind == JsonKind::object) {
  if (!is_object_) {
    findings.wrong_kind(value, what, "an object");
    return;
  }
  for (JsonRef field : value) {
    if (std::find(known.begin(), known.end(), field->key) == known.end()) {
      findings.unknown_field(field, what, known);
      if (findings.exhausted()) return;
    }
  }
}

std::optional<JsonRef> Fields::find(std::string_view key) const {
  if (!is_object_) return std::nullopt;
  for (JsonRef field : object_) {
    if (field->key == key) return field;
  }
  return std::nullopt;
}

std::optional<JsonRef> Fields::required(std::string_view key) const {
  std::optional<JsonRef> field = find(key);
  if (!field && is_object_) findings_->missing_field(object_, key, what_);
  return field;
}

Span Fields::head() const {
  return {object_->span.begin, object_->span.begin + 1};
}

bool is_array(Findings& findings, JsonRef value, std::string_view what) {
  if (value->kind == JsonKind::array) return true;
  findings.wrong_kind(value, what, "an array");
  return false;
}

std::optional<std::string> read_text(Findings& findings, JsonRef value, std::string_view what) {
  if (value->kind != JsonKind::text) {
    findings.wrong_kind(value, what, "a string");
    return std::nullopt;
  }
  return std::string(value->text);
}

std::optional<std::string> read_name(Findings& findings, JsonRef value, std::string_view what) {
  std::optional<std::string> name = read_text(findings, value, what);
  if (!name) return std::nullopt;
  const bool clean = std::none_of(name->begin(), name->end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
  });
  if (name->empty() || name->size() > longest_name || !clean) {
    findings.bad_value(value, std::string(what) + " is not a usable name",
                       "1 to " + std::to_string(longest_name) + " bytes without control characters");
    return std::nullopt;
  }
  return name;
}

std::optional<std::string> read_identifier(Findings& findings, JsonRef value, std::string_view what) {
  std::optional<std::string> name = read_name(findings, value, what);
  if (name && !is_identifier(*name)) {
    findings.bad_value(value, std::string(what) + " cannot be used in expressions",
                       "letters, digits and underscores, not starting with a digit");
    return std::nullopt;
  }
  return name;
}

std::optional<std::int64_t> read_integer(Findings& findings, JsonRef value, std::string_view what) {
  if (value->kind != JsonKind::number) {
    findings.wrong_kind(value, what, "an integer");
    return std::nullopt;
  }
  std::int64_t number = 0;
  const char* last = value->text.data() + value->text.size();
  const auto [end, status] = std::from_chars(value->text.data(), last, number);
  if (status != std::errc{} || end != last) {
    findings.bad_value(value, std::string(what) + " is not a 64-bit integer", "digits only, from -2^63 to 2^63 - 1");
    return std::nullopt;
  }
  return number;
}

std::optional<bool> read_flag(Findings& findings, JsonRef value, std::string_view what) {
  if (value->kind != JsonKind::boolean) {
    findings.wrong_kind(value, what, "true or false");
    return std::nullopt;
  }
  return value->text == "true";
}

// Read from the text: a detour through double would turn 0.1 into another number.
std::optional<Rational> read_rational(Findings& findings, JsonRef value, std::string_view what) {
  if (value->kind != JsonKind::number && value->kind != JsonKind::text) {
    findings.wrong_kind(value, what, "a number, or a string such as \"1/8\"");
    return std::nullopt;
  }
  std::optional<Rational> number = parse_rational(value->text);
  if (!number) {
    findings.bad_value(value, std::string(what) + " is not an exact rational number",
                       "a decimal or a fraction whose numerator and denominator fit 64 bits");
  }
  return number;
}

std::optional<CoordExpr> read_expr(Findings& findings, JsonRef value, std::string_view what) {
  if (value->kind == JsonKind::number) {
    const std::optional<std::int64_t> number = read_integer(findings, value, what);
    if (!number) return std::nullopt;
    return constant_expr(*number);
  }
  if (value->kind != JsonKind::text) {
    findings.wrong_kind(value, what, "an integer, or an expression such as \"128*tp\"");
    return std::nullopt;
  }
  std::string reason;
  std::optional<CoordExpr> expr = parse_coord_expr(value->text, &reason);
  if (!expr) {
    findings.bad_value(value, std::string(what) + " is not a coordinate expression: " + reason,
                       "integers, axis and loop names with +, -, * integer, / integer, % integer");
  }
  return expr;
}

std::optional<TensorType> read_type(Findings& findings, JsonRef value) {
  if (value->kind != JsonKind::text) {
    findings.wrong_kind(value, "type", "a string such as \"f32[4,8]\"");
    return std::nullopt;
  }
  std::optional<TensorType> type = parse_tensor_type(value->text);
  if (!type) {
    findings.bad_value(value, "malformed type " + quoted(value->text), "dtype[extents], such as f32[4,8] or f32[]");
    return std::nullopt;
  }
  if (const std::string problem = shape_problem(type->shape); !problem.empty()) {
    findings.error("SP0118", "extent-limit", problem, value->span, "extents from 1 to 2^40, at most 2^62 elements",
                   quoted(value->text));
    return std::nullopt;
  }
  return type;
}

}  // namespace shardproof::ir
