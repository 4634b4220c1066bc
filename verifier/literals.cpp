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

bool may_be_a_size(std::int64_t num, std::int64_t den) {
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
  const Literals plan = of_plan(full), reference = of_reference(full);
  const Literals small_plan = of_plan(small), small_reference = of_reference(small);
  const auto look = [&](const Literals& here, const Literals& there, const Literals& here_small) -> std::optional<ir::Rational> {
    for (const auto& [num, den] : here)
      if (!there.contains({num, den}) && here_small.contains({num, den}) && may_be_a_size(num, den) && !kept.contains(std::max(std::abs(num), den)))
        return ir::Rational(num, den);
    return std::nullopt;
  };
  if (auto found = look(plan, reference, small_plan)) return found;
  return look(reference, plan, small_reference);
}

}  // namespace shardproof::verifier
