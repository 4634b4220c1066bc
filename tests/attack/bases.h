// Documents that are there to be edited: the plans of tests/bugs, right and wrong, and small planned models.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace shardproof::attack {

struct Base {
  std::string name;
  std::function<ir::Document()> make;
};

std::vector<Base> known_bases();

}  // namespace shardproof::attack
