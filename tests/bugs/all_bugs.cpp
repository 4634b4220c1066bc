#include "case.h"

namespace shardproof::bugs {

std::vector<Bug> all_bugs() {
  std::vector<Bug> all;
  for (const auto& group :
       {tensor_parallel_gradient_bugs(), autograd_bugs(), loss_bugs(), norm_bugs(), data_parallel_bugs(), layout_bugs(),
        optimizer_bugs(), mesh_bugs(), partitioner_bugs(), shared_parameter_bugs()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace shardproof::bugs
