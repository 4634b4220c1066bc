#include "verifier/execution/random_bits.h"

#include "ir/coord_expr.h"

namespace shardproof::execution {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  std::uint64_t z = state + 0x9e3779b97f4a7c15ULL + word;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<std::uint64_t> random_bits(const ir::Attributes& attributes, const ir::Shape& shape,
                                       const VariableValue& variables) {
  std::uint64_t key = 0;
  for (const char c : attributes.get<std::string>("stream")) key = mix(key, static_cast<unsigned char>(c));
  for (const ir::CoordExpr& part : attributes.get_or<std::vector<ir::CoordExpr>>("key", {})) {
    key = mix(key, static_cast<std::uint64_t>(ir::evaluate(part, variables)));
  }
  std::vector<std::int64_t> offsets;
  for (const ir::CoordExpr& part : attributes.get_or<std::vector<ir::CoordExpr>>("offsets", {})) {
    offsets.push_back(ir::evaluate(part, variables));
  }
  std::vector<std::uint64_t> bits;
  for (std::int64_t flat = 0; flat < ir::element_count(shape); ++flat) {
    const std::vector<std::int64_t> index = unflatten(shape, flat);
    std::uint64_t state = key;
    for (std::size_t d = 0; d < index.size(); ++d) {
      state = mix(state, static_cast<std::uint64_t>(index[d] + (d < offsets.size() ? offsets[d] : 0)));
    }
    bits.push_back(state >> 11);
  }
  return bits;
}

}  // namespace shardproof::execution
