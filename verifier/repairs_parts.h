// What the generators of repair hypotheses share.
#pragma once

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"
#include "solvers/kernel/term_pool.h"
#include "verifier/run_program.h"

namespace shardproof::verifier {

using Texts = std::vector<std::string>;

inline std::string join(const Texts& axes) {
  std::string text;
  for (const std::string& a : axes) text += (text.empty() ? "`" : ", `") + a + "`";
  return text;
}

// Calls f; what the prover cannot express is no hypothesis.
template <typename F>
std::optional<solvers::TermId> attempt(F&& f) {
  try {
    return f();
  } catch (const SemanticsError&) {
  } catch (const std::overflow_error&) {
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
  }
  return std::nullopt;
}

inline bool is_collective(ir::OpCode op) {
  switch (op) {
    case ir::OpCode::all_reduce:
    case ir::OpCode::all_gather:
    case ir::OpCode::reduce_scatter:
    case ir::OpCode::all_to_all:
    case ir::OpCode::broadcast_from:
    case ir::OpCode::permute: return true;
    default: return false;
  }
}

inline std::vector<Texts> axis_choices(const ir::Mesh& mesh) {
  std::vector<Texts> choices;
  for (const ir::MeshAxis& a : mesh.axes)
    if (a.size > 1) choices.push_back({a.name});
  for (const ir::MeshAxis& a : mesh.axes)
    for (const ir::MeshAxis& b : mesh.axes)
      if (a.size > 1 && b.size > 1 && a.name != b.name) choices.push_back({a.name, b.name});
  return choices;
}

// Whether what `before` defines may be read at `after`: in the same loops, or outside of some of them.
inline bool visible_from(const Step& before, const Step& after) {
  if (before.loops.size() > after.loops.size()) return false;
  return std::equal(before.loops.begin(), before.loops.end(), after.loops.begin());
}

}  // namespace shardproof::verifier
