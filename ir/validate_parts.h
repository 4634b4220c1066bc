// The pieces of validation, one per file of the same prefix. Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/axis_table.h"
#include "ir/diagnostic.h"
#include "ir/plan.h"
#include "ir/reference_index.h"

namespace shardproof::ir {

// The sink, with an end: after `limit` findings the rest would only repeat.
class Problems {
 public:
  explicit Problems(DiagnosticSink& sink) : sink_(sink), before_(sink.error_count()) {}
  void error(std::string code, std::string name, std::string message, Span span, std::string expected = {},
             std::string found = {}, std::string fix = {});
  std::size_t count() const { return sink_.error_count() - before_; }
  bool full() const { return count() >= limit; }

 private:
  static constexpr std::size_t limit = 100;
  DiagnosticSink& sink_;
  std::size_t before_;
};

std::string backticked(std::string_view name);

// ---- validate_mesh.cpp

// What the checks below may rely on once the meshes are well-formed.
struct MeshFacts {
  std::int64_t world = 0;
  AxisTable axes;
  std::unordered_map<std::string_view, const Mesh*> by_name;
};
// nullopt after any finding: nothing else can be checked against broken meshes.
std::optional<MeshFacts> check_meshes(const Plan& plan, Problems& problems);
void check_stage_cover(const Plan& plan, const MeshFacts& meshes, Problems& problems);
// Owned coordinates: known axis, at least one coordinate, ascending, in range.
bool check_owned(const OwnedAxis& owned, std::int64_t axis_size, Span span, Problems& problems);

// ---- validate_placement.cpp

// A range of a mesh axis that something occupies: the coordinate's digit with `pre` values above it.
struct AxisUse {
  std::string_view axis;
  std::int64_t pre = 1;
  std::int64_t size = 1;
};
bool overlap(const AxisUse& a, const AxisUse& b);

// Extents of the local digits one by one, in order over all dimensions, and per dimension multiplied.
struct LocalLayout {
  std::vector<std::int64_t> digits;
  Shape shape;
};

class PlacementChecker {
 public:
  PlacementChecker(const Reference& reference, const Plan& plan, const MeshFacts& meshes, Problems& problems)
      : reference_(reference), index_(reference), plan_(plan), meshes_(meshes), problems_(problems) {}

  void check_buffers();
  enum class Kind { input, state, output };
  // `name`: of the entry, for messages; `span`: its place; `type`: of the local value.
  void check_binding(const Binding& binding, Kind kind, const std::string& name, Span span, const TensorType& type);

  const ReferenceIndex& index() const { return index_; }
  // Reference states that some checked plan state claims, by value index.
  const std::unordered_set<std::int32_t>& claimed() const { return claimed_; }
  // The reference states that one binding claims.
  std::vector<ValueId> claims_of(const Binding& binding) const;

 private:
  std::optional<LocalLayout> check_placement(const Placement& placement, const Shape& extents, const std::string& name,
                                             Span span, std::vector<AxisUse>& uses);
  bool check_dim(const DimLayout& layout, std::int64_t extent, const Mesh& mesh, const std::string& where, Span span,
                 std::vector<AxisUse>& uses, LocalLayout& local);
  bool check_ragged(const DimLayout& layout, std::int64_t extent, const std::string& where, Span span);
  bool use_axis(AxisUse use, std::string_view where, Span span, std::vector<AxisUse>& uses);
  // Elements of the fused local tensor; nullopt after a finding.
  std::optional<std::int64_t> check_fused(const std::vector<FusedPart>& parts, std::int64_t fuse_axis,
                                          const std::string& name, Span span, const std::vector<AxisUse>& outside,
                                          std::vector<AxisUse>& uses);
  void check_class(DType local, ValueId target, const std::string& name, Span span);
  // The reference state with `role` for `param`, of the parameter's shape; reports when there is none.
  ValueId resolve_role(const std::string& role, const std::string& param, const std::string& name, Span span);

  const Reference& reference_;
  ReferenceIndex index_;
  const Plan& plan_;
  const MeshFacts& meshes_;
  Problems& problems_;
  std::unordered_map<std::string_view, const FlatBuffer*> buffers_;
  std::unordered_map<const FlatBuffer*, std::vector<AxisUse>> buffer_uses_;  // of all members, each once
  std::set<std::tuple<const FlatBuffer*, std::string, int>> resolved_;       // buffer, role, kind of dtype
  std::unordered_set<std::int32_t> claimed_;
};

// ---- validate_program.cpp

struct ProgramContext {
  std::string name;                                               // "reference", or the stage's name
  std::vector<ValueId> entry;                                     // inputs and state
  std::vector<ValueId> exit;                                      // next values and outputs: must be defined at the end
  const Plan* plan = nullptr;                                     // of a stage; nullptr for the reference
  const MeshFacts* meshes = nullptr;                              // likewise
  const std::vector<OwnedAxis>* where = nullptr;                  // likewise
  const std::unordered_set<std::string_view>* streams = nullptr;  // declared random streams
};
// False if the program's structure is broken: value ids must not be looked up then.
bool check_program(const Program& program, const ProgramContext& context, Problems& problems);

// ---- validate_schedule.cpp

void check_no_actions(const std::vector<Instruction>& reference, Problems& problems);
// Of programs that are sound.
void check_schedule(const Plan& plan, Problems& problems);

}  // namespace shardproof::ir
