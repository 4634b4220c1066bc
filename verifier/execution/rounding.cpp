#include "verifier/execution/rounding.h"

#include <cmath>
#include <limits>

namespace shardproof::execution {

namespace {

// IEEE-like formats: bits of the fraction, exponents of the least normal and of the greatest number, greatest number.
// e4m3 has no infinity and uses most of its top binade (Micikevicius et al. 2022).
struct Format {
  int fraction;
  int least_exponent;
  double largest;
  bool has_infinity;
};

Format format_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32: return {23, -126, 3.4028234663852886e38, true};
    case ir::DType::bf16: return {7, -126, 3.3895313892515355e38, true};
    case ir::DType::f16: return {10, -14, 65504, true};
    case ir::DType::f8e4m3: return {3, -6, 448, false};
    case ir::DType::f8e5m2: return {2, -14, 57344, true};
    default: return {52, -1022, std::numeric_limits<double>::max(), true};
  }
}

}  // namespace

double rounded(double x, ir::DType dtype) {
  if (!ir::is_float(dtype) || dtype == ir::DType::f64 || !std::isfinite(x) || x == 0) return x;
  const Format format = format_of(dtype);
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, format.least_exponent) - format.fraction;
  const double result = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);  // ties to even
  if (std::abs(result) <= format.largest) return result;
  return format.has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), x)
                             : std::numeric_limits<double>::quiet_NaN();
}

double epsilon(ir::DType dtype) { return std::ldexp(1.0, -format_of(dtype).fraction); }

}  // namespace shardproof::execution
