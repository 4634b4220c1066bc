#include "lowering/config_object.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/nearest.h"

namespace shardproof::lowering {
namespace {

std::string quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + quoted(part);
  return out;
}

bool is_neutral(const ir::JsonNode& node, std::string_view neutral) {
  switch (node.kind) {
    case ir::JsonKind::text:
      return node.text == neutral && neutral != "true" && neutral != "false" && !ir::parse_rational(neutral);
    case ir::JsonKind::boolean:
      return node.text == neutral;
    case ir::JsonKind::number: {
      const std::optional<ir::Rational> value = ir::parse_rational(node.text);
      const std::optional<ir::Rational> wanted = ir::parse_rational(neutral);
      return value && wanted && *value == *wanted;
    }
    case ir::JsonKind::array:
    case ir::JsonKind::object:
      return neutral == "[]" && node.count == 0;
    case ir::JsonKind::null:
      break;
  }
  return true;
}

}  // namespace

std::string describe_node(const ir::JsonNode& node) {
  switch (node.kind) {
    case ir::JsonKind::text:
      return "\"" + std::string(node.text) + "\"";
    case ir::JsonKind::number:
    case ir::JsonKind::boolean:
      return std::string(node.text);
    default:
      return std::string(ir::json_kind_name(node.kind));
  }
}

const ir::JsonNode* ConfigObject::find(std::string_view key) const {
  for (ir::JsonRef member : object_) {
    if (member->key == key) return member->kind == ir::JsonKind::null ? nullptr : &member.node();
  }
  return nullptr;
}

std::optional<ir::JsonRef> ConfigObject::find_object(std::string_view key) {
  for (ir::JsonRef member : object_) {
    if (member->key != key || member->kind == ir::JsonKind::null) continue;
    if (member->kind == ir::JsonKind::object) return member;
    bad_value(key, "an object", describe_node(member.node()));
  }
  return std::nullopt;
}

ir::Span ConfigObject::span_of(std::string_view key) const {
  const ir::JsonNode* node = find(key);
  return node != nullptr ? node->span : ir::Span{object_->span.begin, object_->span.begin + 1};
}

std::int64_t ConfigObject::positive(std::string_view key, std::optional<std::int64_t> fallback, std::int64_t most) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr) {
    if (!fallback) missing(key, "a whole number of at least 1");
    return fallback.value_or(1);
  }
  std::optional<ir::Rational> value;
  if (node->kind == ir::JsonKind::number) value = ir::parse_rational(node->text);
  if (!value || !value->is_integer() || value->num < 1 || value->num > most) {
    bad_value(key, "a whole number from 1 to " + std::to_string(most), describe_node(*node));
    return fallback.value_or(1);
  }
  return value->num;
}

ir::Rational ConfigObject::rational(std::string_view key, ir::Rational fallback, ir::Rational least,
                                    ir::Rational most) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr) return fallback;
  std::optional<ir::Rational> value;
  if (node->kind == ir::JsonKind::number) value = ir::parse_rational(node->text);
  if (!value || ir::compare(*value, least) < 0 || ir::compare(*value, most) > 0) {
    bad_value(key, "a number from " + ir::to_string(least) + " to " + ir::to_string(most), describe_node(*node));
    return fallback;
  }
  return *value;
}

double ConfigObject::real(std::string_view key, std::optional<double> fallback) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr) {
    if (!fallback) missing(key, "a number above 0");
    return fallback.value_or(1.0);
  }
  double value = 0.0;
  bool good = node->kind == ir::JsonKind::number;
  if (good) {
    const char* last = node->text.data() + node->text.size();
    const std::from_chars_result result = std::from_chars(node->text.data(), last, value);
    good = result.ec == std::errc() && result.ptr == last && std::isfinite(value) && value > 0.0;
  }
  if (!good) {
    bad_value(key, "a number above 0", describe_node(*node));
    return fallback.value_or(1.0);
  }
  return value;
}

bool ConfigObject::flag(std::string_view key, bool fallback) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr) return fallback;
  if (node->kind != ir::JsonKind::boolean) {
    bad_value(key, "true or false", describe_node(*node));
    return fallback;
  }
  return node->text == "true";
}

std::string ConfigObject::text(std::string_view key, std::optional<std::string> fallback) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr) {
    if (!fallback) missing(key, "a text");
    return fallback.value_or("");
  }
  if (node->kind != ir::JsonKind::text) {
    bad_value(key, "a text", describe_node(*node));
    return fallback.value_or("");
  }
  return std::string(node->text);
}

std::string ConfigObject::choice(std::string_view key, const std::vector<std::string>& choices,
                                 std::optional<std::string> fallback) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr) {
    if (!fallback) missing(key, "one of " + join(choices));
    return fallback.value_or("");
  }
  if (node->kind == ir::JsonKind::text) {
    for (const std::string& known : choices) {
      if (node->text == known) return known;
    }
  }
  bad_choice(key, (choices.size() == 1 ? "" : "one of ") + join(choices), describe_node(*node));
  return fallback.value_or("");
}

void ConfigObject::missing(std::string_view key, std::string_view expected) {
  error("SP0020", "missing-setting", "the configuration has no " + quoted(key), span_of({}), std::string(expected),
        "nothing", "add " + quoted(key));
}

void ConfigObject::bad_value(std::string_view key, std::string_view expected, std::string_view found) {
  error("SP0021", "bad-setting", quoted(key) + " is not usable", span_of(key), std::string(expected),
        std::string(found));
}

void ConfigObject::bad_choice(std::string_view key, std::string_view expected, std::string_view found) {
  error("SP0022", "unknown-choice", quoted(key) + " names nothing known", span_of(key), std::string(expected),
        std::string(found));
}

void ConfigObject::inconsistent(std::string_view key, std::string message, std::string expected, std::string found) {
  error("SP0023", "settings-do-not-fit", std::move(message), span_of(key), std::move(expected), std::move(found));
}

void ConfigObject::unsupported(std::string_view key, std::string message, std::string fix) {
  const ir::JsonNode* node = find(key);
  error("SP0025", "unsupported-feature", std::move(message), span_of(key), {},
        node == nullptr ? std::string("nothing") : describe_node(*node), std::move(fix));
}

void ConfigObject::error(std::string code, std::string name, std::string message, ir::Span span, std::string expected,
                         std::string found, std::string fix) {
  report(ir::make_error(std::move(code), std::move(name), std::move(message), span, std::move(expected),
                        std::move(found), std::move(fix)));
}

void ConfigObject::report(ir::Diagnostic diagnostic) {
  if (!title_.empty()) diagnostic.notes.push_back("in " + title_);
  sink_->add(std::move(diagnostic));
}

ir::Diagnostic ConfigObject::unknown_field(const ir::JsonNode& field, std::span<const std::string_view> known) const {
  ir::Diagnostic diagnostic;
  diagnostic.labels.push_back({field.key_span, {}, true});
  diagnostic.found = quoted(field.key);
  if (const std::string_view near = ir::nearest(field.key, known); !near.empty()) {
    diagnostic.fix = ir::Fix{"did you mean " + quoted(near) + "?", {}, ir::Applicability::display_only};
  }
  return diagnostic;
}

void ConfigObject::refuse_unknown(std::span<const std::string_view> known) {
  for (ir::JsonRef member : object_) {
    if (std::find(known.begin(), known.end(), member->key) != known.end()) continue;
    ir::Diagnostic diagnostic = unknown_field(member.node(), known);
    diagnostic.code = "SP0026";
    diagnostic.name = "unknown-setting";
    diagnostic.message = "there is no setting " + quoted(member->key);
    report(std::move(diagnostic));
  }
}

void ConfigObject::warn_of_unknown(std::span<const std::string_view> known) {
  for (ir::JsonRef member : object_) {
    if (member->kind == ir::JsonKind::null) continue;
    if (std::find(known.begin(), known.end(), member->key) != known.end()) continue;
    ir::Diagnostic diagnostic = unknown_field(member.node(), known);
    diagnostic.code = "SP0027";
    diagnostic.name = "setting-not-read";
    diagnostic.severity = ir::Severity::warning;
    diagnostic.message = quoted(member->key) + " is not known and not read: the plan does not have what it stands for";
    report(std::move(diagnostic));
  }
}

void ConfigObject::only_neutral(std::string_view key, std::string_view neutral, std::string_view reason) {
  const ir::JsonNode* node = find(key);
  if (node == nullptr || is_neutral(*node, neutral)) return;
  std::string fix = "remove it";
  if (neutral != "null" && neutral != "[]") fix += ", or set it to " + std::string(neutral);
  unsupported(key, quoted(key) + " " + describe_node(*node) + " is not supported: " + std::string(reason),
              std::move(fix));
}

std::string setup_title(const std::string& name) {
  return name.empty() ? std::string() : "set-up " + quoted(name);
}

std::optional<ir::JsonRef> select_config(const ir::JsonTree& tree, const std::string& name, ir::DiagnosticSink& sink,
                                         std::string* selected) {
  const ir::JsonRef root = tree.root();
  if (root->kind != ir::JsonKind::object) {
    sink.error("SP0021", "bad-setting", "a configuration is a JSON object", root->span, "an object",
               describe_node(root.node()));
    return std::nullopt;
  }
  bool named = root->count > 0;
  std::vector<std::string> names;
  for (ir::JsonRef member : root) {
    named = named && member->kind == ir::JsonKind::object;
    names.emplace_back(member->key);
  }
  if (!named) {
    if (selected != nullptr) selected->clear();
    if (name.empty()) return root;
    sink.error("SP0020", "missing-setting", "the file has no configuration called " + quoted(name),
               {root->span.begin, root->span.begin + 1}, "no name: the file is a single configuration", quoted(name),
               "leave the name out, or write {" + std::string("\"NAME\": {...}}"));
    return std::nullopt;
  }
  for (ir::JsonRef member : root) {
    if (member->key != name && (!name.empty() || names.size() > 1)) continue;
    if (selected != nullptr) *selected = std::string(member->key);
    return member;
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = ir::nearest(name, views);
  sink.error("SP0020", "missing-setting",
             name.empty() ? "the file holds several configurations and none was chosen"
                          : "the file has no configuration called " + quoted(name),
             {root->span.begin, root->span.begin + 1}, "one of " + join(names), name.empty() ? "no name" : quoted(name),
             near.empty() ? "choose one of them with `--select`" : "did you mean " + quoted(near) + "?");
  return std::nullopt;
}

}  // namespace shardproof::lowering
