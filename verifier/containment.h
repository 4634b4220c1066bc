// Keeps a fault from spreading. A plan value that matches nothing of the reference would be copied into the term of
// everything computed from it. Once it is clear that a value will not match any more, a stand-in takes its place: a
// tensor of which nothing is known, indexed by the variables that the term depends on.
//
// The law. For a term t with the free variables v1..vk there is a function F with F(v1, .., vk) = t for all their
// values, and the stand-in's access O[v1, .., vk] is read as F. Equal terms get equal stand-ins, so a stand-in is one
// function, and whatever is proved for all functions O holds for F. Three conditions keep that exact:
//   - the access has every free variable of the term as an index, and nothing else
//   - a term with a value carried by an open loop is left alone: whether the loop's result depends on a carried value
//     is read off the term
//   - the stand-in is not taken for a finite number (Tensor::unknown): the term may be -infinity somewhere
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "solvers/fold.h"

namespace shardproof::verifier {

class Containment {
 public:
  explicit Containment(solvers::Folder& folder) : folder_(folder), pool_(folder.atoms().pool()) {}

  // The term of a new value, with stand-ins where it has strayed. `operands`: what it was computed from;
  // `arithmetic`: whether that took more than moving elements; `keep`: summands that must stay as they are.
  using Keep = std::function<bool(solvers::TermId)>;
  solvers::TermId contain(solvers::TermId term, const std::vector<solvers::TermId>& operands, bool arithmetic,
                          const Keep& keep);

  // Of terms, so far.
  const std::map<solvers::TermId, solvers::TermId>& stand_ins() const { return stand_ins_; }

  // A new stand-in for an unknown function of the variables.
  solvers::TermId unknown(std::string name, const std::vector<solvers::VarId>& variables);
  // Whether a stand-in occurs in the term: then it equals no value of the reference, as far as one can tell.
  bool strayed(solvers::TermId term);
  // Whether the term is made of reference values alone (see Folder::is_folded).
  bool matches(solvers::TermId term);

  // The term as a sum of products of guards and what they guard.
  std::map<std::vector<solvers::Factor>, solvers::TermId> pieces(solvers::TermId term);

 private:
  solvers::TermId contain_piece(solvers::TermId piece, int depth, const Keep& keep);
  bool is_lost(solvers::TermId piece, int depth);
  solvers::TermId stand_in(solvers::TermId term);

  solvers::Folder& folder_;
  solvers::TermPool& pool_;
  std::unordered_map<std::int32_t, int> depth_;  // of unmatched terms: arithmetic since the last matched value
  std::unordered_map<std::int32_t, bool> strayed_;
  std::unordered_map<std::int32_t, bool> matches_;
  std::map<solvers::TermId, solvers::TermId> stand_ins_;
};

}  // namespace shardproof::verifier
