// Random edits of documents that keep them well-formed. Unlike tests/mutations, where a person says what a mistake looks
// like, nobody thought about these: they are what the prover was not written against.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "ir/plan.h"

namespace shardproof::attack {

// Copies what copies of a document share (regions of loops), so that an edit of one is none of the other.
ir::Document deep_copy(const ir::Document& document);

// Applies one random edit in place. Returns its kind, or "" if the choice fell on something it cannot be done to. The
// result may be malformed: the caller validates.
std::string edit(ir::Document& document, std::mt19937_64& random);

}  // namespace shardproof::attack
