// Rotary position tables: cos and sin of position times inverse frequency.
#include <charconv>
#include <cmath>
#include <numbers>

#include "ir/check.h"
#include "lowering/emit.h"
#include "lowering/reference_parts.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::ValueId;

// The longest decimal of at most 15 significant digits (all that every double carries) whose numerator and
// denominator fit 64 bits. An exact rational keeps reference and plan comparable to the last digit.
ir::Rational decimal_of(double value) {
  for (int digits = 15; digits > 0; --digits) {
    char text[40];
    const std::to_chars_result written =
        std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, digits - 1);
    SHARDPROOF_CHECK(written.ec == std::errc());
    const std::optional<ir::Rational> rational =
        ir::parse_rational(std::string_view(text, static_cast<std::size_t>(written.ptr - text)));
    if (rational) return *rational;
  }
  throw ir::BuildError("rope: an inverse frequency does not fit 64 bits; rope_theta is too large");
}

// Llama 3.1 (transformers, _compute_llama3_parameters): wavelengths beyond the original context are stretched by
// `factor`, short ones kept, those between interpolated.
double scaled_frequency(double frequency, const RopeScaling& scaling) {
  if (scaling.type == "linear") return frequency / scaling.factor;
  const auto context = static_cast<double>(scaling.original_max_position_embeddings);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  const double smooth =
      (context / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<ir::Rational> rope_inverse_frequencies(const ModelConfig& model) {
  std::vector<ir::Rational> frequencies;
  for (std::int64_t i = 0; i < model.head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(model.head_dim);
    double frequency = 1.0 / std::pow(model.rope_theta, exponent);
    if (model.rope_scaling) frequency = scaled_frequency(frequency, *model.rope_scaling);
    frequencies.push_back(decimal_of(frequency));
  }
  return frequencies;
}

RopeTables append_rope_tables(ir::Builder& b, const ModelConfig& model, std::int64_t seq_length) {
  const std::int64_t half = model.head_dim / 2;
  const ir::Shape shape = {seq_length, half};
  const ValueId frequencies = b.typed(OpCode::table, {ir::DType::f32, {half}},
                                      {{"values", rope_inverse_frequencies(model)}}, "rotary.inv_freq");
  const ValueId index = b.typed(OpCode::iota, {ir::DType::i64, shape}, {{"dim", std::int64_t{0}}}, "rotary.index");
  const ValueId position = b.op(OpCode::cast, {index}, {{"dtype", std::string("f32")}}, "rotary.position");
  const ValueId angle = emit_mul(b, {position, emit_broadcast(b, frequencies, shape, {1})}, "rotary.angle");
  RopeTables tables;
  tables.cos = emit_unary(b, OpCode::cos, angle, "rotary.cos");
  tables.sin = emit_unary(b, OpCode::sin, angle, "rotary.sin");
  return tables;
}

}  // namespace shardproof::lowering
