// Equality of terms by cases. Part of the trusted base.
//
// Law: `equal_by_cases` says yes only if the terms have one value at every assignment of their variables. The integer line
// of a guard's form is cut into pieces of which each number is in exactly one, and the terms need to agree where the guards
// of a piece hold: there TermPool::assume keeps values, and so does unfolding a definition, because an access outside the
// shape stands behind a guard that is 0. A piece without points, as the intervals of its guards show or Z3 does, needs nothing.
#pragma once

#include "solvers/kernel/atoms.h"

namespace shardproof::verifier {

bool equal_by_cases(solvers::AtomTable& atoms, solvers::TermId a, solvers::TermId b);

// Whether the term is 0 everywhere because the guards of each of its products contradict each other.
bool is_zero_everywhere(solvers::AtomTable& atoms, solvers::TermId term);

}  // namespace shardproof::verifier
