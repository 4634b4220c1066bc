#include "ir/print_json_values.h"

#include <algorithm>

namespace shardproof::ir {

void append_text(std::string& out, std::string_view text) {
  static constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += hex[byte >> 4U];
      out += hex[byte & 15U];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_rational(std::string& out, const Rational& value) {
  if (value.is_integer()) {
    out += std::to_string(value.num);
    return;
  }
  int twos = 0;
  int fives = 0;
  std::int64_t rest = value.den;
  for (; rest % 2 == 0; rest /= 2) ++twos;
  for (; rest % 5 == 0; rest /= 5) ++fives;
  const int places = std::max(twos, fives);
  std::int64_t digits = value.num;
  bool exact = rest == 1 && fives > 0 && places <= 18;
  for (int i = twos; exact && i < places; ++i) exact = !__builtin_mul_overflow(digits, std::int64_t{2}, &digits);
  for (int i = fives; exact && i < places; ++i) exact = !__builtin_mul_overflow(digits, std::int64_t{5}, &digits);
  if (!exact) {
    out += '"' + to_string(value) + '"';
    return;
  }
  std::string text = std::to_string(digits);
  if (text.front() == '-') {
    out += '-';
    text.erase(0, 1);
  }
  const int exponent = static_cast<int>(text.size()) - 1 - places;  // of the leading digit
  if (exponent < -4) {
    out += text.front();
    if (text.size() > 1) out += '.' + text.substr(1);
    out += "e" + std::to_string(exponent);
    return;
  }
  if (exponent < 0) text.insert(0, static_cast<std::size_t>(-exponent), '0');
  text.insert(text.size() - static_cast<std::size_t>(places), 1, '.');
  out += text;
}

void append_expr(std::string& out, const CoordExpr& expr) {
  if (expr.is_constant()) {
    out += std::to_string(expr.constant);
  } else {
    append_text(out, to_string(expr));
  }
}

void append_attribute(std::string& out, const AttrValue& value) {
  const auto integer = [&](std::int64_t n) { out += std::to_string(n); };
  const auto text = [&](const std::string& s) { append_text(out, s); };
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::int64_t>) {
          integer(v);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          append_list(out, v, integer);
        } else if constexpr (std::is_same_v<T, Rational>) {
          append_rational(out, v);
        } else if constexpr (std::is_same_v<T, std::vector<Rational>>) {
          append_list(out, v, [&](const Rational& r) { append_rational(out, r); });
        } else if constexpr (std::is_same_v<T, std::string>) {
          text(v);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          append_list(out, v, text);
        } else if constexpr (std::is_same_v<T, bool>) {
          out += v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, CoordExpr>) {
          append_expr(out, v);
        } else if constexpr (std::is_same_v<T, std::vector<CoordExpr>>) {
          append_list(out, v, [&](const CoordExpr& e) { append_expr(out, e); });
        } else {
          append_list(out, v, [&](const std::vector<std::int64_t>& group) { append_list(out, group, integer); });
        }
      },
      value);
}

}  // namespace shardproof::ir
