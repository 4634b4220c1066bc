// Quasi-affine integer expressions over mesh coordinates and loop indices. They make one instruction
// stand for all ranks and microbatches: a vocabulary shard starts at "16032*tp", a microbatch at "2*m".
// Text form, as written in plan files:  expr := term (("+"|"-") term)*
//   term := integer | integer "*" factor | factor | factor "*" integer
//   factor := name | "(" expr ")" | factor "/" integer | factor "%" integer     (floor division, modulus)
// "2*tp/4" is refused: 2*(tp/4) by this grammar, (2*tp)/4 by habit. Parentheses say which.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ir {

struct CoordExpr;

// coefficient * atom, where atom is a variable, inner / divisor (floor) or inner % divisor (in [0, divisor)).
struct CoordTerm {
  enum class Kind { variable, floor_div, modulo };
  std::int64_t coefficient = 1;
  Kind kind = Kind::variable;
  std::string variable;                    // kind == variable
  std::shared_ptr<const CoordExpr> inner;  // otherwise
  std::int64_t divisor = 1;                // >= 1
};

struct CoordExpr {
  std::int64_t constant = 0;
  std::vector<CoordTerm> terms;

  bool is_constant() const { return terms.empty(); }
};

CoordExpr constant_expr(std::int64_t value);
CoordExpr variable_expr(std::string name, std::int64_t coefficient = 1, std::int64_t constant = 0);
CoordExpr operator+(const CoordExpr& a, const CoordExpr& b);
CoordExpr operator*(std::int64_t factor, const CoordExpr& e);
CoordExpr floor_div(const CoordExpr& e, std::int64_t divisor);
CoordExpr modulo(const CoordExpr& e, std::int64_t divisor);

std::string to_string(const CoordExpr& e);
// nullopt with a reason in *error (may be null) when the text is malformed, nested deeper than 32, or overflows;
// also beyond 4096 characters.
std::optional<CoordExpr> parse_coord_expr(std::string_view text, std::string* error = nullptr);
// The expression with each variable replaced. Throws std::overflow_error.
CoordExpr substitute(const CoordExpr& e, const std::function<CoordExpr(const std::string&)>& by);
void for_each_variable(const CoordExpr& e, const std::function<void(const std::string&)>& visit);
// Value under an assignment of variables; throws std::overflow_error.
std::int64_t evaluate(const CoordExpr& e, const std::function<std::int64_t(const std::string&)>& value_of);
bool equal(const CoordExpr& a, const CoordExpr& b);  // structural, after the smart constructors above

}  // namespace shardproof::ir
