#include "verifier/execution/place.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "ir/mesh.h"

namespace shardproof::execution {

RankTensors place(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                  const ir::TensorType& local_type, std::mt19937_64& random) {
  LocalMaps maps;
  return place(RealNumbers<double>(), plan, reference, binding, local_type, random, maps);
}

Comparison compare(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                   const RankTensors& local, const Tolerance& tolerance) {
  const ir::Shape& shape = local.front().type.shape;
  std::map<std::string, double> scales;
  Comparison result;
  for (const std::string& name : map_local(plan, reference, binding, shape, 0).tensors) {
    const Tensor& tensor = reference.by_name.at(name);
    result.covered[name].resize(tensor.data.size(), false);
    double& scale = scales[name];
    for (const double value : tensor.data) scale = std::max(scale, std::abs(value));
  }
  LocalMaps maps;
  for_each_claim(RealNumbers<double>(), plan, reference, binding, local, maps, [&](const Claim<double>& claim) {
    double scale = 0.0;
    if (claim.tensor != nullptr) {
      scale = scales.at(*claim.tensor);
      result.covered.at(*claim.tensor)[static_cast<std::size_t>(claim.flat)] = true;
    }
    const double error = claim.found == claim.expected ? 0.0 : std::abs(claim.found - claim.expected);
    // Written so that NaN is a mismatch.
    const bool close = error <= tolerance.absolute + tolerance.relative * scale;
    const double magnitude = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    result.max_abs_error = std::max(result.max_abs_error, magnitude);
    result.max_rel_error = std::max(result.max_rel_error, scale > 0.0 ? magnitude / scale : magnitude);
    if (close) return;
    ++result.mismatches;
    if (result.first) return;
    Mismatch first;
    first.rank = claim.rank;
    first.local_index = describe_index(shape, claim.local);
    if (claim.tensor != nullptr) {
      first.tensor = *claim.tensor;
      first.reference_index = describe_index(reference.by_name.at(*claim.tensor).type.shape, claim.flat);
    }
    first.expected = claim.expected;
    first.found = claim.found;
    result.first = std::move(first);
  });
  return result;
}

std::string describe(const ir::Plan& plan, const Mismatch& mismatch) {
  std::ostringstream text;
  text.precision(12);
  const std::string rank = plan.meshes.empty() ? "rank " + std::to_string(mismatch.rank)
                                               : ir::describe_rank(plan.meshes.front(), mismatch.rank);
  text << rank << " local " << mismatch.local_index << ": expected " << mismatch.expected;
  if (mismatch.tensor.empty()) {
    text << " (padding)";
  } else {
    text << " (" << mismatch.tensor << mismatch.reference_index << ")";
  }
  text << ", found " << mismatch.found;
  return text.str();
}

}  // namespace shardproof::execution
