// Text form of coordinate expressions. Printing writes the canonical form, and every printed text reads back
// to the same expression. Two readings of one text would be a trap in a verifier, so "2*tp/4", where the
// grammar's 2*(tp/4) and the (2*tp)/4 of programming languages differ, is refused with a request for
// parentheses.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "ir/coord_expr.h"
#include "ir/rational.h"

namespace shardproof::ir {
namespace {

constexpr std::size_t kMaxLength = 4096;
constexpr int kMaxDepth = 32;

std::string atom_text(const CoordTerm& term) {
  if (term.kind == CoordTerm::Kind::variable) return term.variable;
  const CoordExpr& inner = *term.inner;
  const bool bare = inner.constant == 0 && inner.terms.size() == 1 && inner.terms[0].coefficient == 1 &&
                    inner.terms[0].kind == CoordTerm::Kind::variable;
  const std::string operand = bare ? inner.terms[0].variable : "(" + to_string(inner) + ")";
  return operand + (term.kind == CoordTerm::Kind::floor_div ? "/" : "%") + std::to_string(term.divisor);
}

int depth_of(const CoordExpr& e) {
  int depth = 0;
  for (const CoordTerm& term : e.terms) {
    if (term.kind != CoordTerm::Kind::variable) depth = std::max(depth, 1 + depth_of(*term.inner));
  }
  return depth;
}

class SyntaxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  CoordExpr parse() {
    CoordExpr result = expression(0);
    if (skip_spaces() != '\0') fail("unexpected text");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw SyntaxError(reason + " at column " + std::to_string(position_ + 1));
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  // The next character that is not a space, '\0' at the end. A NUL byte in the text is never accepted: it is
  // no token and the end test compares positions.
  char skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    if (position_ == text_.size()) return '\0';
    if (text_[position_] == '\0') fail("unexpected NUL byte");
    return text_[position_];
  }

  bool accept(char c) {
    if (skip_spaces() != c) return false;
    ++position_;
    return true;
  }

  std::int64_t integer() {
    const bool negative = accept('-');
    if (!is_digit(skip_spaces())) fail("expected an integer");
    std::int64_t value = 0;
    for (; position_ < text_.size() && is_digit(text_[position_]); ++position_) {
      const std::int64_t digit = text_[position_] - '0';
      value = checked_add(checked_mul(value, 10), negative ? -digit : digit);
    }
    return value;
  }

  CoordExpr expression(int depth) {
    if (depth > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
    CoordExpr sum = term(depth);
    for (;;) {
      if (accept('+')) {
        sum = sum + term(depth);
      } else if (accept('-')) {
        sum = sum + -1 * term(depth);
      } else {
        return sum;
      }
    }
  }

  CoordExpr term(int depth) {
    const char next = skip_spaces();
    if (is_digit(next) || next == '-') {
      const std::int64_t value = integer();
      if (!accept('*')) return constant_expr(value);
      bool divided = false;
      CoordExpr result = factor(depth, divided);
      if (divided) fail("ambiguous: write (n*x)/d or n*(x/d)");
      return value * result;
    }
    bool divided = false;
    CoordExpr result = factor(depth, divided);
    if (accept('*')) {
      result = integer() * result;
      const char after = skip_spaces();
      if (after == '/' || after == '%') fail("ambiguous: write (x*n)/d");
    }
    return result;
  }

  CoordExpr factor(int depth, bool& divided) {
    CoordExpr result;
    const char next = skip_spaces();
    if (accept('(')) {
      result = expression(depth + 1);
      if (!accept(')')) fail("expected \")\"");
    } else if (starts_name(next)) {
      const std::size_t first = position_;
      while (position_ < text_.size() && (starts_name(text_[position_]) || is_digit(text_[position_]))) ++position_;
      result = variable_expr(std::string(text_.substr(first, position_ - first)));
    } else {
      fail("expected an integer, a name or \"(\"");
    }
    for (;;) {
      const bool division = accept('/');
      if (!division && !accept('%')) return result;
      const std::int64_t divisor = integer();
      if (divisor < 1) fail("expected a positive divisor");
      result = division ? floor_div(result, divisor) : modulo(result, divisor);
      if (depth_of(result) > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
      divided = true;
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

std::string to_string(const CoordExpr& e) {
  std::string text;
  // Adds factor * atom, or the number `factor` if there is no atom.
  const auto append = [&text](std::int64_t factor, const std::string& atom, bool divided) {
    // The least integer has no positive counterpart, and the grammar has "-1*x" but no "-x": such a factor
    // keeps its sign.
    const bool keep_sign = factor < 0 && (text.empty() || factor == std::numeric_limits<std::int64_t>::min());
    const bool negated = factor < 0 && !keep_sign;
    if (!text.empty()) text += negated ? " - " : " + ";
    const std::int64_t written = negated ? -factor : factor;
    if (atom.empty()) {
      text += std::to_string(written);
    } else if (written == 1) {
      text += atom;
    } else {
      text += std::to_string(written) + "*" + (divided ? "(" + atom + ")" : atom);
    }
  };
  // "7 - tp" instead of "-1*tp + 7".
  const bool constant_first = e.constant > 0 && !e.terms.empty() && e.terms.front().coefficient < 0;
  if (constant_first) append(e.constant, {}, false);
  for (const CoordTerm& term : e.terms) {
    append(term.coefficient, atom_text(term), term.kind != CoordTerm::Kind::variable);
  }
  if (!constant_first && (e.constant != 0 || e.terms.empty())) append(e.constant, {}, false);
  return text;
}

std::optional<CoordExpr> parse_coord_expr(std::string_view text, std::string* error) {
  std::string reason;
  if (text.size() > kMaxLength) {
    reason = "longer than " + std::to_string(kMaxLength) + " characters";
  } else {
    try {
      return Parser(text).parse();
    } catch (const SyntaxError& problem) {
      reason = problem.what();
    } catch (const std::overflow_error&) {
      reason = "a number exceeds 64 bits";
    }
  }
  if (error != nullptr) *error = std::move(reason);
  return std::nullopt;
}

}  // namespace shardproof::ir
