// Hashes of tensors from which the layout of a tensor over ranks is found; see alignment.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/mesh.h"
#include "verifier/execution/alignment.h"
#include "verifier/execution/field_numbers.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

using FieldTensor = TensorOf<FieldNumber>;

// A number that a plan may have multiplied with.
struct Multiplier {
  ir::Rational number = 1;
  std::string scalar;       // of the reference, instead of a number
  bool divides = false;     // by the scalar
  std::uint64_t inverse = 1;  // residue of 1 / it
};
Multiplier multiplier(ir::Rational number);
// Of a scalar with this residue, which is not 0: the plan has multiplied with it, or divided.
Multiplier multiplier(const std::string& scalar, std::uint64_t residue, bool divides);

// Of whole tensors, by their shape (without dimensions of one element) and hash.
class TensorIndex {
 public:
  explicit TensorIndex(std::uint64_t seed);

  // `parts`: also the parts of dimensions that divide into so many.
  void add(const std::string& name, const FieldTensor& tensor, const std::vector<std::int64_t>& parts);
  // A tensor as the ranks of the mesh hold it, one for each position.
  std::optional<Held> find(const ir::Mesh& mesh, const std::vector<FieldTensor>& tensors, const std::vector<Multiplier>& factors) const;

 private:
  struct Entry {
    std::string name, part;
  };
  using Key = std::pair<ir::Shape, std::uint64_t>;
  class LayoutSearch;

  void insert(const ir::Shape& shape, const std::vector<std::uint64_t>& residues, const Entry& entry);
  std::uint64_t power(std::size_t dim, std::int64_t exponent) const;
  // Sum of the elements, each times the product of point(d)^index(d) over the dimensions that count.
  std::uint64_t hash(const ir::Shape& shape, const std::vector<std::uint64_t>& residues, const std::vector<bool>& counts) const;

  std::vector<std::uint64_t> points_;
  std::map<Key, Entry> entries_;
};

// All shapes that come from `shape` by taking neighbouring dimensions as one: [2,3,4] as [6,4], [2,12], [24], and itself first.
std::vector<ir::Shape> merged_shapes(const ir::Shape& shape);

}  // namespace shardproof::execution
