// Placements: how the ranks' local tensors represent one logical (reference) tensor.
//
// Every logical dimension of extent N is written as an ordered list of mixed-radix digits, major to
// minor. A digit is a mesh axis (or a sub-axis of one) or a local extent; the product of the digit
// sizes is N, or N plus padding. The local tensor keeps the local digits only. Examples (plan_formats:
// Shardy sub-axes, DTensor _StridedShard, Megatron stride, zigzag context parallelism all fit):
//   Shard on tp                     [tp][local]
//   FSDP over TP                    [tp][dp][local]
//   fused gate-up, TP               [local 2][tp][local]
//   kv heads 8 on tp=16             [tp:(1)8][local]      digit of the major 8 of tp; minor 2 replicated
//   zigzag                          [cp][local 2] permuted, [local]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/source.h"
#include "ir/tensor_type.h"

namespace shardproof::ir {

// One mixed-radix digit. For a sub-axis, the coordinate c of the axis (size A) contributes
// (c / (A / (pre * size))) % size: `pre` is the product of the sizes of the more significant sub-axes
// (Shardy's "axis":(pre)size). A whole axis has pre == 1 and size == A.
struct Digit {
  std::string axis;        // empty: local
  std::int64_t pre = 1;
  std::int64_t size = 1;

  bool is_local() const { return axis.empty(); }
  friend bool operator==(const Digit&, const Digit&) = default;
};

enum class Permutation : std::uint8_t { none, zigzag };

// Layout of one logical dimension.
// zigzag: the first two digits must be [axis W][local 2]; their pair (r, h) stands for chunk
//   h == 0 ? r : 2W-1-r  (head-tail assignment of context parallelism).
// padded_extent: product of the digits when it exceeds the logical extent; the surplus holds `pad`.
// offsets: ragged shards: rank r of the single axis digit owns [offsets[r], offsets[r+1]).
struct DimLayout {
  std::vector<Digit> digits;
  Permutation permutation = Permutation::none;
  std::int64_t padded_extent = 0;  // 0: no padding
  std::vector<std::int64_t> offsets;

  friend bool operator==(const DimLayout&, const DimLayout&) = default;
};

enum class ReduceKind : std::uint8_t { sum, max, min, avg, prod };
std::string_view reduce_name(ReduceKind kind);
std::optional<ReduceKind> parse_reduce(std::string_view name);

// `axis` holds unreduced summands: the logical value is the reduction over the axis.
struct PartialAxis {
  std::string axis;
  ReduceKind reduce = ReduceKind::sum;
  friend bool operator==(const PartialAxis&, const PartialAxis&) = default;
};

// The tensor exists only where the coordinate of `axis` is in `coordinates` (pipeline stages, owners).
struct OwnedAxis {
  std::string axis;
  std::vector<std::int64_t> coordinates;
  friend bool operator==(const OwnedAxis&, const OwnedAxis&) = default;
};

// What the padding elements of a placed tensor hold: zero, or anything (then no one may depend on it).
enum class PadValue : std::uint8_t { any, zero };

// A mesh axis that is in no digit, not partial and not owned is replicated: all ranks hold equal copies.
struct Placement {
  std::string mesh;  // empty: the plan's first mesh
  std::vector<DimLayout> dims;
  std::vector<PartialAxis> partial;
  std::vector<OwnedAxis> owned;
  PadValue pad = PadValue::any;
  Span span;
};

// Extents of the local tensor (product of local digits per dim). Assumes a validated placement.
Shape local_shape(const Placement& placement);
// Text for people: "shard(0) on tp, replicate on dp".
std::string describe(const Placement& placement);

// Several reference tensors held as one local tensor (fused QKV, gate-up). Every local digit of every part
// is taken as an axis of its own (also extent 1), the parts are concatenated along `fuse_axis` of these
// axes, and the result is reshaped row-major to the local tensor's shape. With G = local groups:
//   Megatron QKV   q: [[tp, G, q_per_group, head_dim], [hidden]]  k, v: [[tp, G, 1, head_dim], [hidden]]  fuse_axis 1
//   gate-up        gate, up: [[tp, 1, ffn/tp], [hidden]]                                                  fuse_axis 0
struct FusedPart {
  std::string of;        // reference tensor; in a buffer or with a role, the parameter
  Placement placement;
};

// A flat buffer: members flattened row-major and laid end to end at explicit offsets, with gaps
// (alignment) and a tail (padding); then cut by `dims` of the placement that uses it. Megatron's
// distributed optimizer, ZeRO-1/2, FSDP1, nnScaler buckets.
struct BufferMember {
  std::string param;              // reference state tensor; empty: fused
  Placement placement;            // of the member before flattening (its tp shard)
  std::vector<FusedPart> fused;   // instead of `param`
  std::int64_t fuse_axis = 0;
  std::int64_t offset = 0;        // first element in the buffer
  Span span;
};

struct FlatBuffer {
  std::string name;
  std::int64_t size = 0;      // elements, with all padding
  std::vector<BufferMember> members;
  Span span;
};

}  // namespace shardproof::ir
