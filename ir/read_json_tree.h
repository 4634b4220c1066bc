// A parsed JSON text that remembers where every key and value stands. Internal to the reader: the JSON
// library at hand drops positions, and findings have to point at bytes of the user's file.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/read_json.h"
#include "ir/source.h"

namespace shardproof::ir {

enum class JsonKind : std::uint8_t { null, boolean, number, text, array, object };
std::string_view json_kind_name(JsonKind kind);  // "a number", for messages

// One value. Nodes lie in one vector in document order, so a subtree is the index range [i, end): no
// recursion is needed to build, walk or free a hostile nesting.
struct JsonNode {
  JsonKind kind = JsonKind::null;
  std::uint32_t count = 0;  // members of an object, items of an array
  std::uint32_t end = 0;    // index after the last node of the subtree
  Span span;
  Span key_span;  // empty outside objects
  std::string_view key;
  std::string_view text;  // decoded string, or the lexeme of a number or literal
};

class JsonTree;

// A node of a tree, with iteration over its members or items.
class JsonRef {
 public:
  JsonRef(const JsonTree& tree, std::uint32_t index) : tree_(&tree), index_(index) {}
  const JsonNode& node() const;
  const JsonNode* operator->() const { return &node(); }

  class Iterator {
   public:
    Iterator(const JsonTree& tree, std::uint32_t index) : tree_(&tree), index_(index) {}
    JsonRef operator*() const { return {*tree_, index_}; }
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }

   private:
    const JsonTree* tree_;
    std::uint32_t index_;
  };
  Iterator begin() const { return {*tree_, index_ + 1}; }
  Iterator end() const;

 private:
  const JsonTree* tree_;
  std::uint32_t index_;
};

class JsonTree {
 public:
  JsonRef root() const { return {*this, 0}; }
  const JsonNode& node(std::uint32_t index) const { return nodes_[index]; }

 private:
  friend class JsonTreeBuilder;
  std::vector<JsonNode> nodes_;
  std::deque<std::string> decoded_;  // strings whose text differs from their lexeme
};

// Parses strict JSON (RFC 8259, UTF-8) within the limits. Syntax errors are SP0001, duplicate keys SP0006,
// limits SP0009; nullopt after any of them. The tree refers to the text of `source`.
std::optional<JsonTree> parse_json(const SourceFile& source, const ReadLimits& limits, DiagnosticSink& sink);

}  // namespace shardproof::ir
