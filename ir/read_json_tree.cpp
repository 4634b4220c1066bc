// The library's SAX parser decides what is JSON; positions come from following its events through the same
// text. Between two tokens JSON allows only white space, commas and colons, so the next token starts at
// the first other byte, and once the parser has accepted a token its end is plain: a literal has a fixed
// length, a number ends at the first byte that no number contains, a string at the next unescaped quote.
#include "ir/read_json_tree.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "ir/read_json_fields.h"

namespace shardproof::ir {

std::string_view json_kind_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return "a boolean";
    case JsonKind::number:
      return "a number";
    case JsonKind::text:
      return "a string";
    case JsonKind::array:
      return "an array";
    case JsonKind::object:
      return "an object";
  }
  return "a value";
}

const JsonNode& JsonRef::node() const {
  return tree_->node(index_);
}
JsonRef::Iterator JsonRef::end() const {
  return {*tree_, node().end};
}
JsonRef::Iterator& JsonRef::Iterator::operator++() {
  index_ = tree_->node(index_).end;
  return *this;
}

namespace {

// The library quotes raw bytes of the file, which need not be UTF-8; messages are.
std::string escaped(std::string_view text, std::size_t longest) {
  static constexpr std::string_view hex = "0123456789abcdef";
  std::string result;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      result += c;
    } else {
      result += "\\x";
      result += hex[byte >> 4U];
      result += hex[byte & 15U];
    }
  }
  return text.size() > longest ? result + "..." : result;
}

}  // namespace

class JsonTreeBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonTreeBuilder(JsonTree& tree, const SourceFile& source, const ReadLimits& limits, DiagnosticSink& sink)
      : tree_(tree), text_(source.text()), limits_(limits), sink_(sink) {
    if (text_.starts_with("\xEF\xBB\xBF")) cursor_ = 3;
  }

  bool null() { return scalar(JsonKind::null, literal(4)); }
  bool boolean(bool value) { return scalar(JsonKind::boolean, literal(value ? 4 : 5)); }
  bool number_integer(number_integer_t) { return scalar(JsonKind::number, number()); }
  bool number_unsigned(number_unsigned_t) { return scalar(JsonKind::number, number()); }
  bool number_float(number_float_t, const string_t&) { return scalar(JsonKind::number, number()); }
  bool string(string_t& value) {
    const Span span = quoted();
    return add(JsonKind::text, span, string_text(span, value));
  }
  bool binary(binary_t&) { return false; }  // not a JSON event

  bool start_object(std::size_t) { return open(JsonKind::object); }
  bool start_array(std::size_t) { return open(JsonKind::array); }
  bool end_object() {
    check_duplicate_keys(open_.back());
    return close();
  }
  bool end_array() { return close(); }
  bool key(string_t& value) {
    key_span_ = quoted();
    key_ = string_text(key_span_, value);
    return true;
  }

  template <typename Exception>
  bool parse_error(std::size_t position, const std::string& last_token, const Exception& error) {
    // The library counts the end of input as a byte; what() is "[id] parse error at line ..: <reason>".
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    const auto begin = static_cast<std::uint32_t>(at == text_.size() && at > 0 ? at - 1 : at);
    std::string reason = error.what();
    if (const std::size_t colon = reason.find(": "); colon != std::string::npos) reason.erase(0, colon + 2);
    const bool at_end = at >= text_.size();
    sink_.error("SP0001", "syntax", "the file is not valid JSON: " + escaped(reason, 300), Span{begin, begin + 1}, {},
                at_end ? "end of file" : "`" + escaped(last_token, 60) + "`");
    return false;
  }

 private:
  static constexpr std::uint32_t no_node = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t token_start() {
    while (cursor_ < text_.size()) {
      const char c = text_[cursor_];
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != ',' && c != ':') break;
      ++cursor_;
    }
    return static_cast<std::uint32_t>(cursor_);
  }
  Span ending_at(std::uint32_t begin, std::size_t end) {
    cursor_ = std::min(end, text_.size());
    return {begin, static_cast<std::uint32_t>(cursor_)};
  }
  Span literal(std::size_t length) {
    const std::uint32_t begin = token_start();
    return ending_at(begin, begin + length);
  }
  Span number() {
    const std::uint32_t begin = token_start();
    const std::size_t end = text_.find_first_not_of("0123456789+-.eE", begin);
    return ending_at(begin, end == std::string_view::npos ? text_.size() : end);
  }
  Span quoted() {
    const std::uint32_t begin = token_start();
    std::size_t end = begin + std::size_t{1};
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return ending_at(begin, end + 1);
  }
  std::string_view lexeme(Span span) const { return text_.substr(span.begin, span.end - span.begin); }
  // Every escape sequence is longer than what it stands for, so equal lengths mean equal bytes.
  std::string_view string_text(Span span, std::string& value) {
    const std::string_view raw = lexeme(span);
    if (raw.size() == value.size() + 2) return raw.substr(1, value.size());
    return tree_.decoded_.emplace_back(std::move(value));
  }

  bool scalar(JsonKind kind, Span span) { return add(kind, span, lexeme(span)); }
  bool add(JsonKind kind, Span span, std::string_view text) {
    if (tree_.nodes_.size() >= limits_.max_nodes) {
      sink_.error("SP0009", "limit-exceeded", "the file has too many JSON values", span,
                  "at most " + std::to_string(limits_.max_nodes));
      return false;
    }
    if (!open_.empty()) ++tree_.nodes_[open_.back()].count;
    const auto index = static_cast<std::uint32_t>(tree_.nodes_.size());
    tree_.nodes_.push_back({kind, 0, index + 1, span, key_span_, key_, text});
    key_span_ = {};
    key_ = {};
    return true;
  }
  bool open(JsonKind kind) {
    const Span span = literal(1);
    if (open_.size() >= static_cast<std::size_t>(std::max(limits_.max_depth, 0))) {
      sink_.error("SP0009", "limit-exceeded", "the file is nested too deeply", span,
                  "at most " + std::to_string(limits_.max_depth) + " levels");
      return false;
    }
    const auto index = static_cast<std::uint32_t>(tree_.nodes_.size());
    if (!add(kind, span, {})) return false;
    open_.push_back(index);
    return true;
  }
  bool close() {
    JsonNode& node = tree_.nodes_[open_.back()];
    node.span.end = literal(1).end;
    node.end = static_cast<std::uint32_t>(tree_.nodes_.size());
    open_.pop_back();
    return true;
  }

  // Two values for one key: other JSON readers keep the first or the last, so the plan that runs could
  // differ from the plan that was proved.
  void check_duplicate_keys(std::uint32_t object) {
    const std::uint32_t end = static_cast<std::uint32_t>(tree_.nodes_.size());
    const JsonNode& parent = tree_.nodes_[object];
    if (parent.count < 2) return;
    std::unordered_set<std::string_view> seen;
    const bool small = parent.count <= 16;
    for (std::uint32_t i = object + 1; i < end; i = tree_.nodes_[i].end) {
      bool fresh = true;
      if (small) {
        for (std::uint32_t j = object + 1; j < i && fresh; j = tree_.nodes_[j].end) {
          fresh = tree_.nodes_[j].key != tree_.nodes_[i].key;
        }
      } else {
        fresh = seen.insert(tree_.nodes_[i].key).second;
      }
      if (!fresh && sink_.error_count() < limits_.max_errors) {
        sink_.error("SP0006", "duplicate-name",
                    "key " + ir::quoted(tree_.nodes_[i].key) + " appears twice in one object", tree_.nodes_[i].key_span,
                    "each key once");
      }
    }
  }

  JsonTree& tree_;
  std::string_view text_;
  const ReadLimits& limits_;
  DiagnosticSink& sink_;
  std::size_t cursor_ = 0;
  std::vector<std::uint32_t> open_;
  Span key_span_;
  std::string_view key_;
};

std::optional<JsonTree> parse_json(const SourceFile& source, const ReadLimits& limits, DiagnosticSink& sink) {
  const std::string_view text = source.text();
  const std::size_t max_bytes = std::min<std::size_t>(limits.max_bytes, std::numeric_limits<std::uint32_t>::max() - 1);
  if (text.size() > max_bytes) {
    sink.error("SP0009", "limit-exceeded", "the file is too large", Span{},
               "at most " + std::to_string(max_bytes) + " bytes", std::to_string(text.size()) + " bytes");
    return std::nullopt;
  }
  // The library takes a NUL byte for the end of input and would ignore all that follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const auto at = static_cast<std::uint32_t>(nul);
    sink.error("SP0001", "syntax", "the file is not valid JSON: it contains a NUL byte", Span{at, at + 1}, "UTF-8 text",
               "a NUL byte");
    return std::nullopt;
  }
  const std::size_t errors = sink.error_count();
  std::optional<JsonTree> tree(std::in_place);
  JsonTreeBuilder builder(*tree, source, limits, sink);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed || sink.error_count() != errors) tree.reset();
  return tree;
}

}  // namespace shardproof::ir
