// Placements as terms (verifier/bindings) against placements by enumeration (runtime/place): which reference element, zero
// or nothing in particular every local element of every rank holds.
#include <gtest/gtest.h>

#include "verifier/execution/place.h"
#include "tests/semantics/case_run.h"
#include "verifier/kernel/bindings.h"

namespace shardproof::semantics_test {
namespace {

using ir::Binding;
using ir::Digit;
using ir::DimLayout;
using ir::Placement;
using ir::Shape;
using execution::LocalElement;
using execution::LocalMap;

// Random placements; the reference tensors get the shapes that fit.
class Placer {
 public:
  Placer(std::mt19937_64& random, const ir::Mesh& mesh) : random_(random), mesh_(mesh) { renew(); }

  std::int64_t below(std::int64_t count) { return execution::uniform_integer(random_, count); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }

  // All axes are free again: for a tensor of its own.
  void renew() {
    free_.clear();
    for (const ir::MeshAxis& axis : mesh_.axes) {
      // A whole axis, or two sub-axes of one whose size is a product.
      std::int64_t major = 0;
      for (std::int64_t k = 2; k < axis.size; ++k)
        if (axis.size % k == 0 && chance(50)) major = k;
      if (major != 0) {
        free_.push_back({axis.name, 1, major});
        free_.push_back({axis.name, major, axis.size / major});
      } else {
        free_.push_back({axis.name, 1, axis.size});
      }
    }
  }
  void exclude(const std::string& axis) {
    std::erase_if(free_, [&](const Digit& d) { return d.axis == axis; });
  }

  DimLayout dim(std::int64_t& extent, bool plain) {
    DimLayout layout;
    std::int64_t count = between(0, 4);
    const auto take_axis = [&] {
      const auto at = static_cast<std::size_t>(below(static_cast<std::int64_t>(free_.size())));
      layout.digits.push_back(free_[at]);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(at));
    };
    if (!plain && !free_.empty() && chance(20)) {
      take_axis();
      layout.digits.push_back({"", 1, 2});
      layout.permutation = ir::Permutation::zigzag;
    }
    for (; count > 0; --count) {
      if (!free_.empty() && chance(50)) take_axis();
      else layout.digits.push_back({"", 1, between(1, 3)});
    }
    extent = 1;
    for (const Digit& d : layout.digits) extent *= d.size;
    if (!plain && extent > 1 && chance(30)) {
      layout.padded_extent = extent;
      extent = between(1, extent - 1);
    }
    return layout;
  }

  Placement placement(Shape& shape, std::int64_t rank) {
    Placement p;
    for (; rank > 0; --rank) {
      shape.emplace_back();
      p.dims.push_back(dim(shape.back(), false));
    }
    p.pad = chance(50) ? ir::PadValue::zero : ir::PadValue::any;
    return p;
  }

  std::vector<ir::OwnedAxis> owned() {
    std::vector<ir::OwnedAxis> result;
    if (!chance(25)) return result;
    const ir::MeshAxis& axis = mesh_.axes[static_cast<std::size_t>(below(static_cast<std::int64_t>(mesh_.axes.size())))];
    std::vector<std::int64_t> coordinates;
    for (std::int64_t c = 0; c < axis.size; ++c)
      if (chance(50)) coordinates.push_back(c);
    if (coordinates.empty()) coordinates.push_back(below(axis.size));
    exclude(axis.name);
    result.push_back({axis.name, std::move(coordinates)});
    return result;
  }

 private:
  std::mt19937_64& random_;
  const ir::Mesh& mesh_;
  std::vector<Digit> free_;
};

std::vector<ir::Mesh> placement_meshes() {
  std::vector<ir::Mesh> meshes = test_meshes();
  meshes.push_back({"composite", {{"tp", 4, {}}, {"ep", 6, {}}}, {}, {}});
  meshes.push_back({"long", {{"cp", 12, {}}}, {}, {}});
  return meshes;
}

// One binding on one mesh: every element of every rank.
class Checker {
 public:
  explicit Checker(ir::Plan plan)
      : plan_(std::move(plan)), terms_(&plan_.meshes.front()),
        bindings_(terms_.atoms, terms_.semantics, plan_, [this](const std::string& param, const std::string& role) {
          return reference_.by_role.at({role, param});
        }) {}

  // Elements are told apart by their values.
  void add_tensor(const std::string& name, const std::string& role, const std::string& param, Shape shape) {
    execution::Tensor t = execution::zeros({ir::DType::f32, std::move(shape)});
    for (double& x : t.data) x = next_value_++;
    const solvers::TensorId id = terms_.atoms.opaque({name, t.type.shape, false, 0});
    terms_.values.set(id, t.data);
    denotations_[name] = {terms_.pool.access(id, terms_.semantics.element_indices(t.type.shape)), t.type};
    reference_.by_role[{role, param}] = name;
    reference_.by_name[name] = std::move(t);
  }

  void check(const Binding& binding, const Shape& local) {
    const ir::Mesh& mesh = plan_.meshes.front();
    const verifier::Bound bound = bindings_.bind(binding, {ir::DType::f32, local}, [this](const std::string& name) { return denotations_.at(name); });
    for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
      const LocalMap map = execution::map_local(plan_, reference_, binding, local, rank);
      solvers::Assignment at;
      const ir::Coordinate c = ir::coordinate_of(mesh, rank);
      for (std::size_t a = 0; a < c.size(); ++a) at.set(terms_.semantics.coordinates()[a], c[a]);
      for (std::size_t i = 0; i < map.elements.size(); ++i) {
        const std::vector<std::int64_t> index = execution::unflatten(local, static_cast<std::int64_t>(i));
        for (std::size_t d = 0; d < index.size(); ++d) at.set(terms_.pool.element(d, local[d]), index[d]);
        const LocalElement& e = map.elements[i];
        const bool matters = map.exists && e.kind != LocalElement::Kind::pad_any;
        const double care = terms_.values.at(bound.care, at);
        ASSERT_EQ(care, matters ? 1 : 0) << "care, " << where(rank, local, i) << terms_.pool.to_string(bound.care).substr(0, 500);
        ++(matters ? e.kind == LocalElement::Kind::element ? elements : zeros : free);
        if (!matters) continue;
        double expected = 0;
        if (e.kind == LocalElement::Kind::element)
          expected = reference_.by_name.at(map.tensors[static_cast<std::size_t>(e.tensor)]).data[static_cast<std::size_t>(e.flat)];
        ASSERT_EQ(terms_.values.at(bound.term, at), expected) << where(rank, local, i) << terms_.pool.to_string(bound.term).substr(0, 500);
      }
    }
  }

  std::int64_t elements = 0, zeros = 0, free = 0;

 private:
  std::string where(std::int64_t rank, const Shape& local, std::size_t i) const {
    return ir::describe_rank(plan_.meshes.front(), rank) + ", element " + execution::describe_index(local, static_cast<std::int64_t>(i)) + ": ";
  }

  ir::Plan plan_;
  Terms terms_;
  execution::ReferenceTensors reference_;
  std::map<std::string, verifier::Denotation> denotations_;
  double next_value_ = 101;
  verifier::Bindings bindings_;
};

std::int64_t count_of(const Placement& placement) {
  return ir::element_count(ir::local_shape(placement));
}

// Parts with one number of dimensions and local digits, alike beside the fuse axis.
struct FusedCase {
  std::vector<ir::FusedPart> parts;
  std::int64_t axis = 0;
  std::vector<Shape> shapes;
  std::int64_t count = 0;  // local elements
};

FusedCase random_fused(Placer& placer, const std::vector<std::string>& names, ir::PadValue pad) {
  FusedCase result;
  Placement common;
  common.pad = pad;
  std::int64_t locals = 0;
  while (locals == 0) {
    common.dims.clear();
    placer.renew();
    for (std::int64_t d = placer.between(1, 2); d > 0; --d) {
      std::int64_t unused = 0;
      common.dims.push_back(placer.dim(unused, true));
    }
    for (const DimLayout& dim : common.dims)
      for (const Digit& digit : dim.digits) locals += digit.is_local() ? 1 : 0;
  }
  result.axis = placer.below(locals);
  for (const std::string& name : names) {
    ir::FusedPart part{name, common};
    Shape shape;
    std::int64_t local = 0;
    for (DimLayout& dim : part.placement.dims) {
      std::int64_t extent = 1;
      for (Digit& digit : dim.digits) {
        if (digit.is_local() && local++ == result.axis) digit.size = placer.between(1, 3);
        extent *= digit.size;
      }
      if (extent > 1 && placer.chance(15)) {  // a padded vocabulary, say
        dim.padded_extent = extent;
        extent -= 1;
      }
      shape.push_back(extent);
    }
    result.count += count_of(part.placement);
    result.shapes.push_back(std::move(shape));
    result.parts.push_back(std::move(part));
  }
  return result;
}

TEST(Placements, OfOneTensor) {
  std::int64_t elements = 0, zeros = 0, free = 0;
  for (const ir::Mesh& mesh : placement_meshes()) {
    for (std::uint64_t seed = 0; seed < 250; ++seed) {
      std::mt19937_64 random(seed);
      Placer placer(random, mesh);
      Binding binding;
      binding.of = "w";
      const std::vector<ir::OwnedAxis> owned = placer.owned();
      Shape shape;
      binding.placement = placer.placement(shape, placer.between(0, 3));
      binding.placement.owned = owned;
      const Shape local = ir::local_shape(binding.placement);
      if (ir::element_count(local) > 200) continue;
      ir::Plan plan;
      plan.meshes.push_back(mesh);
      Checker checker(plan);
      checker.add_tensor("w", "param", "w", shape);
      checker.check(binding, local);
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " on " << mesh.name << ": " << ir::describe(binding.placement);
      elements += checker.elements;
      zeros += checker.zeros;
      free += checker.free;
    }
  }
  EXPECT_GT(elements, 10000);
  EXPECT_GT(zeros, 1000);
  EXPECT_GT(free, 1000);
}

TEST(Placements, FusedTensors) {
  for (const ir::Mesh& mesh : placement_meshes()) {
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      std::mt19937_64 random(seed);
      Placer placer(random, mesh);
      const bool with_role = placer.chance(40);
      const FusedCase fused = random_fused(placer, {"q", "k", "v"}, placer.chance(50) ? ir::PadValue::zero : ir::PadValue::any);
      if (fused.count > 200) continue;
      Binding binding;
      binding.fused = fused.parts;
      binding.fuse_axis = fused.axis;
      if (with_role) binding.role = "exp_avg";
      binding.placement.owned = placer.owned();
      ir::Plan plan;
      plan.meshes.push_back(mesh);
      Checker checker(plan);
      for (std::size_t k = 0; k < fused.parts.size(); ++k) {
        const std::string& name = fused.parts[k].of;
        checker.add_tensor(with_role ? name + ".exp_avg" : name, with_role ? "exp_avg" : "param", name, fused.shapes[k]);
      }
      // The local shape is any one with as many elements.
      const std::int64_t half = fused.count % 2 == 0 ? 2 : 1;
      checker.check(binding, {half, fused.count / half});
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " on " << mesh.name;
    }
  }
}

TEST(Placements, FlatBuffers) {
  std::int64_t zeros = 0, free = 0;
  for (const ir::Mesh& mesh : placement_meshes()) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::mt19937_64 random(seed);
      Placer placer(random, mesh);
      const bool with_role = placer.chance(50);
      const std::string role = with_role ? "exp_avg_sq" : "param";
      ir::Plan plan;
      plan.meshes.push_back(mesh);
      ir::FlatBuffer buffer;
      buffer.name = "bucket";
      std::vector<std::pair<std::string, Shape>> tensors;
      std::int64_t end = 0;
      for (std::int64_t m = placer.between(1, 4); m > 0; --m) {
        ir::BufferMember member;
        const std::string name = "p" + std::to_string(m);
        std::int64_t count = 0;
        if (placer.chance(25)) {
          const FusedCase fused = random_fused(placer, {name + "a", name + "b"}, placer.chance(50) ? ir::PadValue::zero : ir::PadValue::any);
          member.fused = fused.parts;
          member.fuse_axis = fused.axis;
          for (std::size_t k = 0; k < fused.parts.size(); ++k) tensors.emplace_back(fused.parts[k].of, fused.shapes[k]);
          count = fused.count;
        } else {
          placer.renew();
          member.param = name;
          const std::vector<ir::OwnedAxis> owned = placer.owned();
          Shape shape;
          member.placement = placer.placement(shape, placer.between(0, 2));
          member.placement.owned = owned;
          tensors.emplace_back(name, shape);
          count = count_of(member.placement);
        }
        member.offset = end + placer.below(3);
        end = member.offset + count;
        buffer.members.push_back(std::move(member));
      }
      // The cut, with a tail: of the buffer, or of the digits.
      placer.renew();
      Binding binding;
      binding.buffer = "bucket";
      if (with_role || placer.chance(30)) binding.role = role;
      binding.placement.owned = placer.owned();
      std::int64_t cut = 0;
      DimLayout layout = placer.dim(cut, !placer.chance(30));
      if (layout.padded_extent != 0) layout.padded_extent = 0;
      std::int64_t digits = 1;
      for (const Digit& d : layout.digits) digits *= d.size;
      const std::int64_t wanted = end + placer.below(3);
      layout.digits.push_back({"", 1, (wanted + digits - 1) / digits});
      buffer.size = digits * layout.digits.back().size;
      if (buffer.size > wanted && placer.chance(50)) {
        layout.padded_extent = buffer.size;
        buffer.size = placer.between(wanted, buffer.size - 1);
      }
      binding.placement.dims = {layout};
      binding.placement.pad = placer.chance(50) ? ir::PadValue::zero : ir::PadValue::any;
      plan.buffers.push_back(buffer);
      Checker checker(plan);
      for (const auto& [name, shape] : tensors) checker.add_tensor(with_role ? name + "." + role : name, role, name, shape);
      const Shape local = ir::local_shape(binding.placement);
      if (ir::element_count(local) > 400) continue;
      checker.check(binding, local);
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " on " << mesh.name << ": " << ir::describe(binding.placement);
      zeros += checker.zeros;
      free += checker.free;
    }
  }
  EXPECT_GT(zeros, 1000);
  EXPECT_GT(free, 1000);
}

}  // namespace
}  // namespace shardproof::semantics_test
