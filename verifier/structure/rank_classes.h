// Ranks by the program they run. Ranks are told apart only along the mesh axes by which stages are placed (`where`), and
// there only where stages differ: all others run the same instructions in the same order. So a plan on 16,384 ranks with
// 16 pipeline stages has 16 classes.
//
// What is said of classes here holds for ranks: a group along mesh axes that has a member in one class has members in the
// same classes for every rank of that class, because axes vary independently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace shardproof::verifier::structure {

// How the groups of a collective meet the classes: a partition of the classes.
struct GroupClasses {
  std::vector<std::size_t> of_class;               // of each class, its position in `members`
  std::vector<std::vector<std::size_t>> members;   // classes with a rank in one group, ascending
};

class RankClasses {
 public:
  // `singled`: axes whose coordinates are told apart one by one.
  RankClasses(const ir::Plan& plan, const std::set<std::string>& singled);

  std::size_t count() const { return stages_.size(); }  // 0: too many to be told apart
  // Position in plan.stages of the program that ranks of the class run.
  std::size_t stage_of(std::size_t cls) const { return stages_[cls]; }
  std::string describe(std::size_t cls) const;  // "pp=0", "pp=2..5", "all ranks"

  // Groups along mesh axes, or some coordinates of them (ir/group_axis.h), which lie in one mesh; ranks elsewhere are groups of
  // their own. nullopt: stages are placed by axes of another mesh, or a class lies at some of the coordinates only.
  std::optional<GroupClasses> along(const std::vector<std::string>& axes) const;
  // Groups as lists of ranks that partition the world. nullopt: ranks of one class are grouped with different classes.
  std::optional<GroupClasses> of_lists(const std::vector<std::vector<std::int64_t>>& groups) const;

  // The class of the ranks in stage `to` that stand where ranks of `cls` stand in stage `from`: at the same coordinates,
  // and along axes where the stages lie at different ones, at the same position of their lists. nullopt: there are none.
  std::optional<std::size_t> counterpart(std::size_t cls, const ir::StageProgram& from, const ir::StageProgram& to) const;

 private:
  struct Axis {
    std::string name;
    std::vector<std::size_t> class_of;                // coordinate to class along this axis
    std::vector<std::vector<std::int64_t>> coordinates;  // of each class
    std::size_t stride = 1;
  };
  std::size_t along_axis(std::size_t cls, const Axis& axis) const { return cls / axis.stride % axis.coordinates.size(); }
  std::size_t class_of_rank(std::int64_t position) const;  // row-major position in the mesh of the stages

  const ir::Plan& plan_;
  const ir::Mesh* mesh_ = nullptr;  // has all the axes
  std::vector<Axis> axes_;          // with two classes or more
  std::vector<std::size_t> stages_;
};

// Coordinates along `axis` at which the stage runs; empty: at all.
std::vector<std::int64_t> coordinates_of(const ir::StageProgram& stage, const std::string& axis);

}  // namespace shardproof::verifier::structure
