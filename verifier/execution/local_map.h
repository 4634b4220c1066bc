// What a Binding means, element by element: which reference element each element of each rank's local tensor holds.
// Written from the comments of ir/placement.h and ir/plan.h alone and by enumeration, as a second implementation that
// is independent of the symbolic one in the prover.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "verifier/execution/cluster.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

// Reference tensors as bindings name them.
struct ReferenceNames {
  std::function<const ir::Shape*(const std::string& tensor)> shape_of;  // null: no such tensor
  const std::map<std::pair<std::string, std::string>, std::string>& by_role;  // (role, param) -> name
};

// One element of a local tensor.
struct LocalElement {
  enum class Kind : std::uint8_t { element, pad_any, pad_zero };
  Kind kind = Kind::pad_any;
  std::int32_t tensor = 0;  // index into LocalMap::tensors
  std::int64_t flat = 0;    // row-major position in that tensor
};

// All elements of one rank's local tensor in row-major order.
struct LocalMap {
  bool exists = true;  // false where the binding's owned axes leave this rank out
  std::vector<std::string> tensors;
  std::vector<LocalElement> elements;
};

// Throws ExecutionError if the binding does not fit the reference tensors or the local shape.
LocalMap map_local(const ir::Plan& plan, const ReferenceNames& reference, const ir::Binding& binding,
                   const ir::Shape& local_shape, std::int64_t rank);
std::vector<LocalMap> map_ranks(const ir::Plan& plan, const ReferenceNames& reference, const ir::Binding& binding,
                                const ir::Shape& local_shape);

// What map_ranks says for the bindings of one plan, once each: a search runs a plan many times. Bindings are told apart by
// their address.
class LocalMaps {
 public:
  const std::vector<LocalMap>& of(const ir::Plan& plan, const ReferenceNames& reference, const ir::Binding& binding,
                                  const ir::Shape& local_shape);
  // Some element that no reference tensor determines.
  bool leave_open() const;

 private:
  std::map<const ir::Binding*, std::vector<LocalMap>> maps_;
};

// Groups of ranks along one axis of the placement's own mesh.
Groups groups_along(const ir::Plan& plan, const ir::Placement& placement, const std::string& axis);

}  // namespace shardproof::execution
