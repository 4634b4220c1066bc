#include "verifier/literals.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

namespace shardproof::verifier {

namespace {

using Literals = std::set<std::pair<std::int64_t, std::int64_t>>;  // numerator and denominator

void collect(const std::vector<ir::Instruction>& body, Literals& literals) {
  const auto add = [&](ir::Rational r) { literals.insert({r.num, r.den}); };
  for (const ir::Instruction& i : body) {
    for (const auto& [name, value] : i.attributes.entries()) {
      if (const auto* one = std::get_if<ir::Rational>(&value)) add(*one);
      if (const auto* several = std::get_if<std::vector<ir::Rational>>(&value))
        for (const ir::Rational& r : *several) add(r);
    }
    if (i.region) collect(i.region->body, literals);
  }
}

Literals of_plan(const ir::Document& document) {
  Literals literals;
  for (const ir::StageProgram& stage : document.plan.stages) collect(stage.program.body, literals);
  return literals;
}
Literals of_reference(const ir::Document& document) {
  Literals literals;
  collect(document.reference.program.body, literals);
  return literals;
}

// Sizes of the document: extents, axes, trips.
void collect_sizes(const std::vector<ir::Instruction>& body, std::set<std::int64_t>& sizes) {
  for (const ir::Instruction& i : body) {
    if (!i.region) continue;
    sizes.insert(i.region->trip);
    collect_sizes(i.region->body, sizes);
  }
}
std::set<std::int64_t> sizes_of(const ir::Document& document) {
  std::set<std::int64_t> sizes;
  const auto add = [&](const ir::Program& program) {
    for (const ir::Value& value : program.values) sizes.insert(value.type.shape.begin(), value.type.shape.end());
    collect_sizes(program.body, sizes);
  };
  add(document.reference.program);
  for (const ir::StageProgram& stage : document.plan.stages) add(stage.program);
  for (const ir::Mesh& mesh : document.plan.meshes)
    for (const ir::MeshAxis& axis : mesh.axes) sizes.insert(axis.size);
  return sizes;
}

// 10, 100, 1000 are coefficients in most plans, and counts where something has as many elements, ranks or iterations.
bool is_count(std::int64_t number, const std::set<std::int64_t>& sizes) {
  if (number < 4) return false;
  if (sizes.contains(number) || sizes.contains(number + 1)) return true;
  return std::any_of(sizes.begin(), sizes.end(), [&](std::int64_t size) { return size > 1 && number % size == 0 && sizes.contains(number / size); });
}

bool may_be_a_size(std::int64_t num, std::int64_t den, const std::set<std::int64_t>& sizes) {
  if ((std::abs(num) == 1 || den == 1) && is_count(std::max(std::abs(num), den), sizes)) return true;
  constexpr std::int64_t small = 25;
  if (std::abs(num) < small && den < small) return false;
  if (den == 1) return true;
  // A decimal of few digits, and no fraction 1/n of a larger n: 1/1000 is a learning rate, 1/4096 none.
  std::int64_t ten = 1;
  for (int digits = 0; digits < 12; ++digits, ten *= 10)
    if (ten % den == 0) return std::abs(num) > 1'000'000 / (ten / den);
  return true;
}

}  // namespace

std::optional<ir::Rational> size_that_stays(const ir::Document& full, const ir::Document& small, const std::set<std::int64_t>& kept) {
  const std::set<std::int64_t> sizes = sizes_of(full);
  const Literals plan = of_plan(full), reference = of_reference(full);
  const Literals small_plan = of_plan(small), small_reference = of_reference(small);
  const auto look = [&](const Literals& here, const Literals& there, const Literals& here_small) -> std::optional<ir::Rational> {
    for (const auto& [num, den] : here)
      if (!there.contains({num, den}) && here_small.contains({num, den}) && may_be_a_size(num, den, sizes) && !kept.contains(std::max(std::abs(num), den)))
        return ir::Rational(num, den);
    return std::nullopt;
  };
  if (auto found = look(plan, reference, small_plan)) return found;
  return look(reference, plan, small_reference);
}

}  // namespace shardproof::verifier
