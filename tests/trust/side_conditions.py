#!/usr/bin/env python3
"""Takes each side condition out of the prover, one at a time, and shows that a named test fails without it.

  tests/trust/side_conditions.py [--build DIR] [--find] [NAME...]

Works on a copy of the tree in DIR (default: build/trust), so nothing here is changed. --find runs both test programs in full and
prints which tests fail. Ends with 1 if a condition can be taken out unnoticed. Half an hour on two cores; not a part of tools/test.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
POOL, PLANS, ORDER = "test_solvers", "test_verifier", "test_structure"

# name, file, what stands there, what stands there without the condition, program, test that fails then (empty: all are run). Where two
# conditions guard each other, both are taken out: tuples.
CONDITIONS = [
    ("instance-in-shape", "solvers/kernel/atoms.cpp", "if (!in_range(indices[d], shape[d], guards)) return std::nullopt;", "", POOL,
     "AtomsTest.RefusesIndicesOutsideTheShape"),
    ("instance-conditions", "solvers/kernel/atoms.cpp", "for (const Obligation& o : variant.conditions) pool_.require(o.kind, o.term);", "",
     POOL, "FoldSpreadTest.SoftmaxWithoutTheMaximum"),
    ("instance-is-the-term", "solvers/kernel/atoms.cpp", "if (whole != part && !covers(whole, part, guards)) return std::nullopt;", "static_cast<void>(whole != part);",
     POOL, "AtomsTest.PiecesNeedTheirGuard"),
    ("covering-parts-are-apart", "solvers/kernel/cover.cpp", "covers = covers && lo >= from;", "static_cast<void>(lo);", POOL,
     "CoverFuzz.PartsOfMaskedRanges"),
    ("covering-rest-is-masked", "solvers/kernel/cover.cpp", "covers = is_masked(", "covers = true || is_masked(", POOL,
     "CoverFuzz.PartsOfMaskedRanges"),
    ("covering-part-is-the-body", "solvers/kernel/cover.cpp", "if (instance == summand || under_guards", "if (true || under_guards", POOL,
     "CoverFuzz.PartsOfMaskedRanges"),
    ("covering-others-agree", "solvers/kernel/cover.cpp", "fits = pool_.var(vars[i]).extent == pool_.var(own[j]).extent;", "fits = true;",
     POOL, "CoverFuzz.PartsOfMaskedRanges"),
    ("covering-factors-agree", "solvers/kernel/cover.cpp",
     "alike = alike && other && other->coefficient == one->coefficient && other->others == one->others;", "alike = alike && other;",
     POOL, "CoverFuzz.PartsOfMaskedRanges"),
    ("transfers-in-one-iteration", "verifier/structure/matching.cpp", "if (x.microbatch() != y.microbatch()) return false;", "", PLANS,
     "All/Attacks.IsNotProved/schedule_swap"),
    ("loops-in-step", "lowering/join_stages.cpp", "if (counts.size() > 1 || open) throw", "if (counts.empty() && open) throw", PLANS,
     "JoinStagesRefuses.LoopsThatAreOutOfStep"),
    ("messages-in-one-iteration", "lowering/join_stages.cpp", ("if (own.trip != first.trip)", "if (received != messages.size()) throw"),
     ("if (own.trip == 0)", "if (received > messages.size()) throw"), PLANS, "JoinStagesRefuses.LoopsOfDifferentTrips"),
    ("nothing-summed-over-stages", "lowering/join_stages.cpp", "      if (layout_.removed_axis(partial.axis))\n        throw", "      if (partial.axis.empty())\n        throw", PLANS,
     "JoinStagesRefuses.SummandsOverStages"),
    ("stages-are-major", "lowering/join_collectives.cpp", "if (ordered && inner_size > 1 && !group.stages_are_major)", "if (inner_size == 0 && ordered)", PLANS,
     "JoinStagesRefuses.RanksOfAStageThatVarySlowerThanStages"),
    ("actions-once", "verifier/structure/schedule.cpp", "if (!told) twice(label, runs[k - 1].second, runs[k].second);", "static_cast<void>(told);", ORDER,
     "ScheduleCoverage.MissingTwiceAndBeyond"),
    ("actions-none-missing", "verifier/structure/schedule.cpp", "if (gap) missing(label, *gap, trip_ - distinct);", "", ORDER,
     "ScheduleCoverage.MissingTwiceAndBeyond"),
    ("actions-after-what-they-read", "verifier/structure/schedule_values.cpp",
     "if (definition != defined_by_.end() && definition->second < k && !adds) depend(definition->second, k, v, false);", "static_cast<void>(adds);", ORDER,
     "ScheduleOrder.ValuesAreThereBeforeTheyAreRead"),
    ("scheduled-sums", "verifier/structure/schedule_values.cpp", "if (!sums_up(carry)) check_carry(carry);", "sums_up(carry);", ORDER,
     "ScheduleCarry.AnythingElseKeepsTheOrderOfTheLoop"),
    ("x-over-x", "solvers/kernel/scalar.cpp", "else require(Obligation::Kind::nonzero, factor.term);", "", POOL,
     "FunctionsTest.InverseCancelsUnderTheObligationThatItIsNotZero"),
    ("exp-over-exp", "solvers/kernel/scalar.cpp", "if (is_positive_factor(factor.term)) require(Obligation::Kind::finite, n.arguments[0]);",
     "if (is_positive_factor(factor.term)) {}", POOL, "FoldSpreadTest.SoftmaxWithoutTheMaximum"),
    ("inverse-of-inverse", "solvers/kernel/scalar.cpp", "require(Obligation::Kind::nonzero, n.arguments[0]);", "", POOL,
     "FunctionsTest.InverseCancelsUnderTheObligationThatItIsNotZero"),
    ("square-of-root", "solvers/kernel/scalar.cpp", "require(Obligation::Kind::nonnegative, radicand);", "", POOL, "FunctionsTest.Roots"),
    ("exp-of-log", "solvers/kernel/functions.cpp",
     "require(Obligation::Kind::nonzero, x);\n        require(Obligation::Kind::nonnegative, x);", "", POOL,
     "FunctionsTest.ExpOfLogarithm"),
    ("log-of-exp", "solvers/kernel/functions.cpp", "require(Obligation::Kind::finite, exponent);", "", POOL,
     "FunctionsTest.LogarithmOfAProductWithAnExponential"),
    ("log-of-product", "solvers/kernel/functions.cpp", "if (!terms.empty()) require(Obligation::Kind::nonnegative, rest);", "", POOL,
     "FunctionsTest.LogarithmOfAProductWithAnExponential"),
    ("log-of-inverse", "solvers/kernel/functions.cpp",
     "require(Obligation::Kind::nonnegative, inverted);\n    require(Obligation::Kind::nonzero, inverted);", "", POOL,
     "FunctionsTest.LogarithmOfAReciprocal"),
    ("sigmoid-is-finite", "solvers/kernel/functions.cpp", "require(Obligation::Kind::finite, argument);", "", POOL,
     "FunctionsTest.SigmoidByExponentials"),
    ("running-sum-ends", "solvers/kernel/merge_sums.cpp", "if (mul(whole, range(place, length, kUnbounded)) != zero_) continue;", "", POOL,
     "RollFuzz.RunningSums"),
    ("unrolled-sum-is-its-summands", "solvers/kernel/merge_sums.cpp", "if (substitute(body, instance) != part) return std::nullopt;", "",
     POOL, "RollFuzz.OneMoreInstance"),
    ("digit-below-its-place", "solvers/kernel/index.cpp", "if (index(low_part).lo < 0 || index(low_part).hi >= s) continue;", "", POOL,
     "IndexFuzz.SmallExtents"),
    ("division-in-one-cell", "solvers/kernel/index.cpp", "if (first == floor_div(index(r).hi, c)) return index_scale(q, 1, first);",
     "return index_scale(q, 1, first);", POOL, "IndexFuzz.SmallExtents"),
    ("modulo-in-one-cell", "solvers/kernel/index.cpp", "if (cell == floor_div(index(r).hi, c)) return", "return", POOL,
     "IndexFuzz.SmallExtents"),
    ("modulus-of-modulus", "solvers/kernel/index.cpp",
     "    if (at.kind == AtomKind::modulo && at.divisor % c == 0) {\n      const IndexNode& inner",
     "    if (at.kind == AtomKind::modulo) {\n      const IndexNode& inner", POOL, "IndexFuzz.SmallExtents"),
    ("division-of-modulus", "solvers/kernel/index.cpp", "if (at.kind == AtomKind::modulo && at.divisor % c == 0) return index_add",
     "if (at.kind == AtomKind::modulo) return index_add", POOL, "IndexFuzz.SmallExtents"),
    ("recombination-has-all", "solvers/kernel/index.cpp",
     "if (a == except || coefficient_of(terms, a) != checked_mul(k, factor)) return false;", "if (a == except) return false;", POOL,
     "IndexFuzz.SmallExtents"),
    ("numbers-below-62-bits", "solvers/kernel/index.cpp",
     'if (x >= kLimit || x <= -kLimit) throw std::overflow_error("index term exceeds 62 bits");', "static_cast<void>(kLimit);", POOL,
     "OverflowTest.LeastInteger"),
    ("guard-digit-low", "solvers/kernel/guards.cpp", "if (index(low).lo >= 0 && index(low).hi < s && (lo", "if ((lo", POOL,
     "GuardFuzz.Ranges"),
    ("guard-digit-border", "solvers/kernel/guards.cpp",
     "(lo == -kUnbounded || lo % s == 0) &&\n          (hi == kUnbounded || checked_add(hi, 1) % s == 0)", "true", POOL,
     "GuardFuzz.Ranges"),
    ("case-holds-its-guards", "solvers/kernel/guards.cpp", "return !on_form(f) || (node(f.term).lo <= lo && hi <= node(f.term).hi);",
     "return !on_form(f) || (node(f.term).lo <= lo || hi <= node(f.term).hi);", POOL, "GuardFuzz.Complement"),
    ("modulus-under-guard", "solvers/kernel/guards.cpp",
     "if (q != floor_div(to, c) || index_mod(index_sub(larger.inner, modulus.inner), c) != index_constant(0)) continue;",
     "if (index_mod(index_sub(larger.inner, modulus.inner), c) != index_constant(0)) continue;", POOL, "GuardFactsFuzz.BoundsUnderGuards"),
    ("modulus-of-the-guard", "solvers/kernel/guards.cpp",
     "if (q != floor_div(to, c) || index_mod(index_sub(larger.inner, modulus.inner), c) != index_constant(0)) continue;",
     "if (q != floor_div(to, c)) continue;", POOL, "GuardFactsFuzz.BoundsUnderGuards"),
    ("bounds-in-one-cell", "solvers/kernel/guards.cpp", "} else if (q_lo == q_hi) {", "} else {", POOL, "GuardFactsFuzz.BoundsUnderGuards"),
    ("bounds-by-parts", "solvers/kernel/guards.cpp", "if (const TermId fact = range(alone, lo, hi); is_guard(fact)",
     "if (const TermId fact = range(alone, lo, hi - 1); is_guard(fact)", POOL, "BoundsFuzz.EveryValueUnderTheGuardsLiesInside"),
    ("assumed-in-one-cell", "solvers/kernel/assume.cpp", "if (q == ir::floor_div(hi, at.divisor)) {", "if (true) {", POOL,
     "GuardFactsFuzz.TermsUnderAssumptions"),
    ("assumed-part-of-modulus", "solvers/kernel/assume.cpp",
     "if (at.divisor % parts != 0 || ir::floor_div(mod_lo, s) != ir::floor_div(mod_hi, s)) continue;",
     "if (at.divisor % parts != 0) continue;", POOL, "GuardFactsFuzz.DigitsUnderAssumptions"),
    ("assumed-digit-in-one-cell", "solvers/kernel/assume.cpp",
     "        if (q != ir::floor_div(ir::checked_add(hi, offset), cell)) continue;\n", "", POOL, "GuardFactsFuzz.DigitsUnderAssumptions"),
    ("assumed-variable", "solvers/kernel/assume.cpp", "if (lo == hi) fixed.set", "if (lo <= hi) fixed.set", POOL,
     "GuardFactsFuzz.DigitsUnderAssumptions"),
    ("implied-guard", "solvers/kernel/assume.cpp", "return lo >= g.lo && hi <= g.hi ? one_", "return lo >= g.lo || hi <= g.hi ? one_", POOL,
     "GuardFactsFuzz.TermsUnderAssumptions"),
    ("other-guards-only", "solvers/kernel/assume.cpp", "if (j != i && is_guard(own[j])) others.push_back(own[j]);",
     "if (is_guard(own[j])) others.push_back(own[j]);", POOL, "GuardFactsFuzz.TermsUnderTheirOwnGuards"),
    ("sum-counts-unused", "solvers/kernel/reduce.cpp", "else multiplicity = multiplicity * Rational(var(v).extent);", "", POOL,
     "ReductionFuzz.Sums"),
    ("fixed-by-guard", "solvers/kernel/reduce.cpp",
     "if (g.lo == -kUnbounded || g.hi == kUnbounded || checked_add(g.hi, -g.lo) + 1 != magnitude) continue;",
     "if (g.lo == -kUnbounded || g.hi == kUnbounded) continue;", POOL, "ReductionFuzz.Sums"),
    ("fixed-is-in-range", "solvers/kernel/reduce.cpp",
     "const TermId replaced = mul(substitute(rest_of(i), s), range(value, 0, var(v).extent - 1));",
     "const TermId replaced = substitute(rest_of(i), s);", POOL, "ReductionFuzz.Sums"),
    ("fixed-by-others", "solvers/kernel/reduce.cpp", "      if (contains(index(rest).free, v)) continue;\n      // A number",
     "      // A number", POOL, "ReduceTest.EqualityWithTheVariableOnBothSidesIsNotSolved"),
    ("max-keeps-what-counts", "solvers/kernel/reduce.cpp", "if (!removable) continue;", "", POOL, "ReductionFuzz.MaskedMaxima"),
    ("merged-is-gone", "solvers/kernel/reduce_vars.cpp", "if (contains(node(merged).free, a)) continue;", "", POOL,
     "ReduceTest.ChunkNumberThatStaysForbidsMerging"),
    ("digit-divides-extent", "solvers/kernel/reduce_vars.cpp", "wanted < extent && extent % wanted == 0", "wanted < extent", POOL,
     "ReduceTest.DigitsThatDoNotDivideTheExtentDoNotSplit"),
    ("joined-is-both", "solvers/kernel/merge_sums.cpp",
     "if (restricted(guess, va[p], 0) != first || restricted(guess, vb[q], e1) != second) continue;", "", POOL,
     "ReduceTest.AdjacentSumsOfDifferentBodiesStayApart"),
    ("joined-others-agree", "solvers/kernel/merge_sums.cpp", "if (j >= vb.size() || var(va[i]).extent != var(vb[j]).extent) return {};",
     "if (j >= vb.size()) return {};", POOL, "ReduceTest.AdjacentSumsNeedTheSameOtherRanges"),
    ("longer-sum-has-the-next", "solvers/kernel/merge_sums.cpp",
     "if (mul(factor, reduce(Reduction::sum, others, substitute(guess, added))) != next) continue;", "", POOL, "RollFuzz.OneMoreInstance"),
    ("running-sum-as-before", "solvers/kernel/merge_sums.cpp",
     "if (reduce(Reduction::sum, {v}, mul(whole, range(place, -kUnbounded, -1))) != before) continue;", "", POOL, "RollFuzz.RunningSums"),
    ("running-sum-from-zero", "solvers/kernel/merge_sums.cpp", "if (contains(index(c).free, old) || index(c).lo < 0) continue;",
     "if (contains(index(c).free, old)) continue;", POOL, "ReduceTest.WindowsThatMayBeginBeforeTheSumDoNotContinueIt"),
    ("adjacent-ranges", "solvers/kernel/scalar.cpp", "hi != kUnbounded && node(pieces[j].guard).lo == hi + 1) hi",
     "hi != kUnbounded && node(pieces[j].guard).lo <= hi + 1) hi", POOL, "GuardFuzz.ProductsAndSums"),
    ("relaxed-given", "solvers/kernel/scalar.cpp", "if (!guard_first) new_guard = relax(guard, new_old);",
     "if (!guard_first) new_guard = relax(guard, old);", POOL, "GuardFuzz.ProductsAndSums"),
    ("only-minus-infinity-vanishes", "solvers/kernel/functions.cpp",
     "if (m.factors.size() > 1 || m.factors[0].power != 1 || ir::sign(m.coefficient) < 0) return Infinity::other;", "", POOL,
     "FunctionsTest.OnlyMinusInfinityVanishes"),
    ("slice-in-shape", "verifier/kernel/semantics_structure.cpp",
     'require_in_range(indices[dim], from[dim], {}, "slice of dimension " + std::to_string(dim));', "", PLANS,
     "All/Attacks.IsNotProved/slice_of_neighbour"),
    ("take-in-shape", "verifier/kernel/semantics_structure.cpp", "require_in_range(e, x.type.shape[dim], guards, what);", "", PLANS,
     "All/Attacks.IsNotProved/take_of_neighbour"),
    ("take-along-in-shape", "verifier/kernel/semantics_structure.cpp", "require_in_range(e, x.type.shape.back(), guards, what);", "", PLANS,
     "All/Attacks.IsNotProved/take_along_of_neighbour"),
    ("scatter-in-shape", "verifier/kernel/semantics_structure.cpp",
     'require_in_range(e, size, guards, "element written by `scatter_add`");', "", PLANS, "All/Attacks.IsNotProved/scatter_beyond"),
    ("put-along-in-shape", "verifier/kernel/semantics_structure.cpp",
     'require_in_range(e, size, guards, "element written by `put_along`");', "", PLANS, "All/Attacks.IsNotProved/put_beyond"),
    ("no-arithmetic-on-infinity", "verifier/kernel/semantics.cpp", "if (!takes_infinity(i, k)) require_finite(i, operands[k]);", "{}",
     PLANS, "Infinity.DifferenceWithItselfIsNotZero"),
    ("difference-with-infinity", "verifier/kernel/semantics.cpp", "case OpCode::sub: return operand == 0;",
     "case OpCode::sub: return true;", PLANS, "Infinity.DifferenceWithItselfIsNotZero"),
    ("masks-of-indices", "verifier/kernel/semantics_arithmetic.cpp", "      require_mask_of_indices(operands);\n", "", PLANS,
     "All/Attacks.IsNotProved/masked_rows_by_data"),
    ("integers-fit", "verifier/kernel/semantics.cpp",
     "if (ir::is_integer(result.dtype) && computes(i)) require_result_fits(i, operands, term, result.dtype);", "", PLANS,
     "All/Attacks.IsNotProved/arith_i8"),
    ("integers-fit-in-loops", "verifier/kernel/run_program.cpp", "semantics_.require_sum_fits(value.name, result, value.type.dtype);", "",
     PLANS, "All/Attacks.IsNotProved/sum_i8_loop_beside_i8"),
    ("held-integers-fit", "verifier/kernel/proof.cpp",
     "if (other_type) plan_semantics_->require_held(plan_program_.value(value).name, term, type.dtype);", "", PLANS,
     "All/Attacks.IsNotProved/input_i8_ids"),
    ("unbounded-integers-are-the-references", "verifier/kernel/run_program.cpp",
     "if (unbounded->dtype != ir::DType::i64) Semantics::refuse(*unbounded);", "", PLANS, "All/Attacks.IsNotProved/lic_step"),
    ("narrower-integers", "verifier/kernel/run_program.cpp",
     "if (assumed != assumed_fits_.end() && Semantics::contains(unbounded->dtype, assumed->second)) return;",
     "if (assumed != assumed_fits_.end()) return;", PLANS, "All/Attacks.IsNotProved/lic_narrower"),
    ("unused-carries-are-no-premises", "ir/program.cpp", "if (!is_used(carry)) continue;", "", PLANS, "All/Attacks.IsNotProved/dead_carry"),
    ("cast-narrower", "verifier/kernel/semantics.cpp",
     'if (ir::is_integer(operands[0].type.dtype) && (from.lo < to.lo || from.hi > to.hi)) does_not_fit(what, dtype, "values without known bounds");',
     "", PLANS, "All/Attacks.IsNotProved/cast_undeclared"),
    ("division-is-defined", "verifier/kernel/semantics.cpp", "case OpCode::div: return require_of(operands[1].term, {Kind::nonzero});",
     "case OpCode::div: return;", PLANS, "All/Attacks.IsNotProved/cancelled_div"),
    ("reciprocal-is-defined", "verifier/kernel/semantics.cpp",
     "case OpCode::reciprocal: return require_of(operands[0].term, {Kind::nonzero});", "case OpCode::reciprocal: return;", PLANS,
     "All/Attacks.IsNotProved/cancelled_reciprocal"),
    ("root-is-defined", "verifier/kernel/semantics.cpp", "case OpCode::sqrt: return require_of(operands[0].term, {Kind::nonnegative});",
     "case OpCode::sqrt: return;", PLANS, "All/Attacks.IsNotProved/cancelled_sqrt"),
    ("log-is-defined", "verifier/kernel/semantics.cpp",
     "case OpCode::rsqrt: return require_of(operands[0].term, {Kind::nonzero, Kind::nonnegative});", "case OpCode::rsqrt: return;", PLANS,
     "All/Attacks.IsNotProved/cancelled_log"),
    ("power-is-defined", "verifier/kernel/semantics.cpp",
     "      return require_of(operands[0].term, {Kind::nonzero, Kind::nonnegative});\n    case OpCode::pow: {",
     "      return;\n    case OpCode::pow: {", PLANS, "All/Attacks.IsNotProved/cancelled_power"),
    ("power-of-zero", "verifier/kernel/semantics.cpp",
     "if (operands[0].term == pool_.zero()) return require_of(operands[1].term, {Kind::nonzero, Kind::nonnegative});",
     "if (operands[0].term == pool_.zero()) return;", PLANS, "All/Attacks.IsNotProved/zero_to_step"),
    ("pow-negative", "verifier/kernel/semantics.cpp", "if (ir::sign(exponent) < 0) require_of(operands[0].term, {Kind::nonzero});", "",
     PLANS, "All/Attacks.IsNotProved/cancelled_pow_negative"),
    ("pow-fraction", "verifier/kernel/semantics.cpp", "if (!exponent.is_integer()) require_of(operands[0].term, {Kind::nonnegative});", "",
     PLANS, "All/Attacks.IsNotProved/cancelled_pow_fraction"),
    ("division-by-padding", "verifier/kernel/semantics.cpp", "if (is_arbitrary(piece[0])) return pool_.one();",
     "if (is_arbitrary(piece[0])) return pool_.zero();", PLANS, "All/Attacks.IsNotProved/pad_div"),
    ("undefined-inherited", "verifier/kernel/semantics.cpp", "    for (TermId r : regions) region = either(region, r);\n", "", PLANS,
     "All/Attacks.IsNotProved/undefined_moved"),
    ("undefined-not-summed", "verifier/kernel/semantics.cpp", "    return meaning(i, moved, result);\n  }\n  throw",
     "    return meaning(i, moved, result);\n  }\n  if (true) return region;\n  throw", PLANS, "All/Attacks.IsNotProved/undefined_summed"),
    ("loop-carries-another-each-time", "verifier/kernel/run_program.cpp",
     ("if (!mentions(step, all)) {", "variables.insert(variables.end(), open_loops_.begin(), open_loops_.end());"), ("if (true) {", ""),
     PLANS, "All/Attacks.IsNotProved/recurrence"),
    ("loop-carries-what-is-defined", "verifier/kernel/run_program.cpp", "if (undefined_region(v) != pool_.zero())", "if (false)", PLANS,
     "All/Attacks.IsNotProved/undefined_in_loop"),
    ("loop-carries-numbers", "verifier/kernel/run_program.cpp",
     "if (infinities_[static_cast<std::size_t>(v.index)] != Infinity::none)\n          throw", "if (false)\n          throw", PLANS,
     "All/Attacks.IsNotProved/cancelled_loop_of_masked"),
    ("padding-is-arbitrary", "verifier/kernel/proof.cpp", "if (bound.care != pool_.one()) {", "if (false) {", PLANS,
     "All/Attacks.IsNotProved/padding_summed"),
    ("padding-is-open", "verifier/kernel/bindings.cpp", "if (placement.pad == ir::PadValue::any) care = pool_.mul(care, pad);", "", PLANS,
     "All/Attacks.IsNotProved/padding_summed"),
    ("gaps-are-open", "verifier/kernel/bindings.cpp", "if (binding.placement.pad == ir::PadValue::zero) cares", "cares", PLANS,
     "All/Attacks.IsNotProved/gap_summed"),
    ("owner-only", "verifier/kernel/bindings.cpp", "TermId care = owner_guard(placement);", "TermId care = pool_.one();", PLANS,
     "All/Attacks.IsNotProved/owned_elsewhere"),
    ("owner-of-fused-member", "verifier/kernel/bindings.cpp", "    result.care = pool_.mul(result.care, owner_guard(m.placement));\n", "",
     PLANS, "All/Attacks.IsNotProved/owned_fused_read"),
    ("owner-of-buffer", "verifier/kernel/bindings.cpp",
     "  Bound result{pool_.sum(terms), pool_.sum(cares)};\n  result.care = pool_.mul(result.care, owner_guard(binding.placement));",
     "  Bound result{pool_.sum(terms), pool_.sum(cares)};", PLANS, "All/Attacks.IsNotProved/owned_buffer_read"),
    ("owner-of-fused-state", "verifier/kernel/bindings.cpp",
     "    result.care = pool_.mul(result.care, owner_guard(binding.placement));\n    return result;", "    return result;", PLANS,
     "All/Attacks.IsNotProved/owned_fused_state"),
    ("partial-member", "verifier/kernel/bindings.cpp", "if (!m.placement.partial.empty())", "if (false)", PLANS,
     "All/Attacks.IsNotProved/partial_member"),
    ("partial-input", "verifier/kernel/proof.cpp", "if (!binding.placement.partial.empty())", "if (false)", PLANS,
     "All/Attacks.IsNotProved/partial_input"),
    ("partial-order", "verifier/kernel/proof.cpp", "if (maxima != 0 && maxima != static_cast<std::ptrdiff_t>(placement.partial.size()))",
     "if (false)", PLANS, "All/Attacks.IsNotProved/partial_mixed1"),
    ("shards-are-equal", "verifier/kernel/bindings.cpp", "if (!dim.offsets.empty()) throw", "if (false) throw", PLANS,
     "All/Attacks.IsNotProved/ragged_gathered"),
    ("group-order", "verifier/kernel/group_axes.cpp", "if (expected != position.at(group[p])) return std::nullopt;", "", PLANS,
     "All/Attacks.IsNotProved/group_order"),
    ("state-stays-real", "verifier/kernel/proof.cpp", "if (!reference_run_->is_finite(state.next))", "if (false)", PLANS,
     "All/Attacks.IsNotProved/ninf_state"),
    ("reference-needs-only", "verifier/kernel/proof.cpp",
     "return ir::without_unused(lowering::unfold(document.reference.program), needed);",
     "return lowering::unfold(document.reference.program);", PLANS, "All/Attacks.IsNotProved/dead_division"),
    ("claims-are-defined", "verifier/kernel/proof.cpp",
     "if (!is_zero_everywhere(atoms_, pool_.mul(c.care, plan_run_->undefined_region(value))))", "if (false)", PLANS,
     "All/Attacks.IsNotProved/undefined_moved"),
    ("plan-needs-no-more", "verifier/kernel/proof_conditions.cpp", "for (const DomainCondition& c : of_plan) fail(result.unmet, c);", "",
     PLANS, "All/Attacks.IsNotProved/cancelled_div"),
    ("premises-hold-for-some", "verifier/kernel/proof_conditions.cpp", "result.unshown.push_back({text, c.span, true});", "", PLANS,
     "All/Attacks.IsNotProved/unsat"),
    ("witness-in-extent", "verifier/kernel/side_conditions.cpp", "if (!atoms_.in_range(value, pool_.var(v).extent, {})) continue;", "",
     PLANS, "All/Attacks.IsNotProved/masked_row_by_sum"),
    ("premise-of-all-elements", "verifier/kernel/side_conditions.cpp",
     "if (tensor == nullptr || (whole && !is_whole(pool_.node(tensor->term)))) return std::nullopt;",
     "if (tensor == nullptr) return std::nullopt;", PLANS, "All/Attacks.IsNotProved/text_slice"),
    ("premise-sign", "verifier/kernel/side_conditions.cpp",
     "if (o.kind == Obligation::Kind::nonnegative && ir::sign(monomials[0].coefficient) < 0) return std::nullopt;", "", PLANS,
     "All/Attacks.IsNotProved/premise_of_the_opposite"),
    ("premise-scale", "verifier/kernel/side_conditions.cpp",
     "if (o.kind == Obligation::Kind::nonnegative && ir::sign(scale) < 0) scale = -scale;", "", PLANS,
     "All/Attacks.IsNotProved/scaled_premise"),
    ("one-minus-power-base", "verifier/kernel/side_conditions.cpp",
     "return base && ir::sign(*base) >= 0 && compare(*base, ir::Rational(1)) < 0 && positive",
     "return base && ir::sign(*base) >= 0 && positive", PLANS, "Premises.PowersOfZero"),
    ("one-minus-power-exponent", "verifier/kernel/side_conditions.cpp", " && positive(n.arguments[1], depth + 1);", ";", PLANS,
     "Premises.PowersOfZero"),
    ("one-minus-power-coefficient", "verifier/kernel/side_conditions.cpp",
     "  if (ir::sign(constant.coefficient + power.coefficient) < 0) return false;\n", "", PLANS, "Premises.PowersOfZero"),
    ("variance-finite", "verifier/kernel/side_conditions.cpp", "      if (!finite(body, depth + 1)) continue;\n", "", PLANS,
     "VarianceTest.OfMaskedNumbers"),
    ("positive-difference", "verifier/kernel/side_conditions.cpp",
     "        if (ir::sign(m.coefficient) < 0) return false;\n        bool all_positive", "        bool all_positive", PLANS,
     "All/Attacks.IsNotProved/cancelled_div_by_difference"),
    ("positive-factor", "verifier/kernel/side_conditions.cpp", "if (!nonnegative_factor(f, depth)) return false;\n        }", "}", PLANS,
     "All/Attacks.IsNotProved/cancelled_div_by_one_plus"),
    ("nonnegative-difference", "verifier/kernel/side_conditions.cpp", "        if (ir::sign(m.coefficient) < 0) return false;\n        for",
     "        for", PLANS, "All/Attacks.IsNotProved/cancelled_sqrt_of_difference"),
    ("nonnegative-factor", "verifier/kernel/side_conditions.cpp", "return f.power % 2 == 0 || nonnegative(f.term, depth + 1);",
     "return true;", PLANS, "All/Attacks.IsNotProved/sum_of_premise"),
    ("positive-sum-parts", "verifier/kernel/side_conditions.cpp", "if (parts_nonnegative && std::any_of", "if (std::any_of", PLANS,
     "All/Attacks.IsNotProved/sum_of_premise"),
    ("positive-max", "verifier/kernel/side_conditions.cpp",
     "case Function::max:\n          return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return positive",
     "case Function::max:\n          return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return nonnegative", PLANS,
     "All/Attacks.IsNotProved/cancelled_div_by_maximum"),
    ("max-finite", "verifier/kernel/side_conditions.cpp",
     "return n.reduction == Reduction::max && question == kAboveMinusInfinity && is_max_bounded(term, depth);",
     "return n.reduction == Reduction::max;", PLANS, "All/Attacks.IsNotProved/masked_row_by_sum"),
    ("states-stay-nonnegative", "verifier/kernel/nonnegative_states.cpp",
     ("std::erase_if(next, [&](const auto& entry) { return !conditions.holds({Obligation::Kind::nonnegative, entry.second}); });", "return closed ? kept : std::set<TensorId>{};"),
     ("", "static_cast<void>(closed);\n  return kept;"), PLANS, "NonnegativeStatesFuzz.KeptStatesNeverGetNegative"),
    ("cases-depth", "verifier/kernel/equality.cpp", "if (depth >= kMaxDepth) return has_no_points(atoms, guards);",
     "if (depth >= kMaxDepth) return true;", PLANS, "EqualityFuzz.EqualTermsHaveOneValue"),
    ("cases-each", "verifier/kernel/equality.cpp",
     "if (!equal_under(atoms, piece.terms[0], piece.terms[1], inner, depth + 1, expanded)) return false;", "", PLANS,
     "All/Attacks.IsNotProved/border_row"),
    ("cases-expanded", "verifier/kernel/equality.cpp", "if (expanded) return has_no_points(atoms, guards);", "if (expanded) return true;",
     PLANS, "All/Attacks.IsNotProved/border_row"),
    ("empty-piece", "verifier/kernel/equality.cpp", "if (lo > g.hi || hi < g.lo) return true;",
     "if (lo >= g.hi || hi <= g.lo) return true;", PLANS, "All/Attacks.IsNotProved/border_row"),
    ("no-points", "verifier/kernel/equality.cpp", "return !guards.empty() && (is_empty(atoms.pool(), guards) ||",
     "return !guards.empty() && (true || is_empty(atoms.pool(), guards) ||", PLANS, "All/Attacks.IsNotProved/border_row"),
    ("range-of-sum", "verifier/kernel/integer_range.cpp", "return times(count, body);", "return body;", PLANS,
     "All/Attacks.IsNotProved/sum_i8_scatter"),
    ("range-undeclared", "verifier/kernel/integer_range.cpp", "Interval{0, 0, true, true};", "Interval{0, 0, false, false};", PLANS,
     "All/Attacks.IsNotProved/state_i8"),
]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def copy_tree(target):
    names = run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]).stdout.split("\0")
    for name in filter(None, names):
        source, copy = ROOT / name, target / name
        if not source.is_file():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copyfile(source, copy)


def build(folder, programs):
    result = run(["cmake", "--build", str(folder / "build"), "--target", *programs])
    return None if result.returncode == 0 else result.stdout[-3000:]


def failing(folder, program, test):
    command = [str(folder / "build" / "tests" / program), "--gtest_brief=1"] + ([f"--gtest_filter={test}"] if test else [])
    try:
        result = run(command, timeout=900)
    except subprocess.TimeoutExpired:
        return ["(time-out)"]
    if test and "] 0 tests from 0" in result.stdout:
        sys.exit(f"there is no test {test}")
    names = sorted(set(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", result.stdout, re.MULTILINE)))
    return names or ([] if result.returncode == 0 else [f"(ends with {result.returncode}) {(result.stdout + result.stderr)[-300:]}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "trust")
    parser.add_argument("--find", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    folder = arguments.build.resolve()
    copy_tree(folder)
    configured = run(["cmake", "-S", str(folder), "-B", str(folder / "build"), "-G", "Ninja", "-DSHARDPROOF_WITH_TORCH=OFF", "-DSHARDPROOF_BENCHMARKS=OFF"])
    if configured.returncode != 0:
        sys.exit(configured.stderr)
    chosen = [c for c in CONDITIONS if not arguments.names or c[0] in arguments.names]
    if problem := build(folder, sorted({c[4] for c in chosen})):
        sys.exit(problem)
    unnoticed = 0
    for name, file, there, without, program, test in chosen:
        path = folder / file
        text = path.read_text()
        changed = text
        for old, new in [(there, without)] if isinstance(there, str) else zip(there, without):
            if text.count(old) != 1:
                sys.exit(f"{name}: stands {text.count(old)} times in {file}: {old}")
            changed = changed.replace(old, new)
        path.write_text(changed)
        try:
            if problem := build(folder, [program]):
                sys.exit(f"{name}: does not compile without it\n{problem}")
            failed = failing(folder, program, "" if arguments.find else test)
        finally:
            path.write_text(text)
        unnoticed += not failed
        print(f"{'noticed  ' if failed else 'UNNOTICED'} {name}: {', '.join(failed[:6]) or test or 'no test fails'}", flush=True)
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
