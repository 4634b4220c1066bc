// JSON text in the spelling of the canonical form. Internal to the printer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace shardproof::ir {

void append_text(std::string& out, std::string_view text);
// Integers as they are; fractions that came from decimals (denominator with a factor 5) as decimals again
// where those are exact; all others, such as 1/8 or 1/3, as fractions.
void append_rational(std::string& out, const Rational& value);
// A number if constant, else the text of the expression.
void append_expr(std::string& out, const CoordExpr& expr);
void append_attribute(std::string& out, const AttrValue& value);

template <typename T, typename Append>
void append_list(std::string& out, const std::vector<T>& list, Append append) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    append(list[i]);
  }
  out += ']';
}

// One JSON object on one line: {"key": value, ...}.
class Line {
 public:
  explicit Line(std::string& out) : out_(out) { out_ += '{'; }
  std::string& key(std::string_view name) {
    if (!first_) out_ += ", ";
    first_ = false;
    append_text(out_, name);
    out_ += ": ";
    return out_;
  }
  void text(std::string_view name, std::string_view value) { append_text(key(name), value); }
  void integer(std::string_view name, std::int64_t value) { key(name) += std::to_string(value); }
  void close() { out_ += '}'; }

 private:
  std::string& out_;
  bool first_ = true;
};

}  // namespace shardproof::ir
