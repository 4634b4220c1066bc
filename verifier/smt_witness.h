// The second witness: every step of a proof again, by other means. Each instruction's meaning is written out a second time
// (witness/meaning.h), compared with the term that the prover folded it to (definitions of atoms put in until both sides read
// the same tensors), and reduced to claims about integers that an SMT solver decides at full sizes (solvers/witness/identity.h).
// Steps that are equal up to names are asked once.
//
// It can only take confidence away from a proof, never add to it: what it does not confirm is listed with the reason, and a
// step whose two sides differ at some point is a dissent, an internal error.
#pragma once

#include "verifier/report.h"
#include "verifier/session.h"
#include "verifier/verify.h"

namespace shardproof::verifier {

// Throws InternalError on dissent. Gives up when `seconds` have passed or `cancel` is set: the rest is not asked.
SmtConfirmation confirm_by_smt(Session& session, double seconds, const SmtOptions& options, const std::atomic<bool>* cancel = nullptr);

}  // namespace shardproof::verifier
