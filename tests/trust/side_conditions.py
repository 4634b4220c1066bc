#!/usr/bin/env python3
"""Takes each side condition out of the prover, one at a time, and shows that a named test fails without it.

  tests/trust/side_conditions.py [--build DIR] [--find] [NAME...]

Works on a copy of the tree in DIR (default: build/trust), so nothing here is changed. --find runs both test programs in full and
prints which tests fail. Ends with 1 if a condition can be taken out unnoticed. Some minutes on two cores; not a part of tools/test.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
POOL, PLANS = "test_solvers", "test_verifier"

# name, file, what stands there, what stands there without the condition, program, test that fails then (empty: all are run)
CONDITIONS = [
    ("instance-in-shape", "solvers/kernel/atoms.cpp", "if (!in_range(indices[d], shape[d], guards)) return std::nullopt;", "", POOL,
     "AtomsTest.RefusesIndicesOutsideTheShape"),
    ("instance-conditions", "solvers/kernel/atoms.cpp", "for (const Obligation& o : variant.conditions) pool_.require(o.kind, o.term);", "",
     POOL, "FoldSpreadTest.SoftmaxWithoutTheMaximum"),
    ("instance-is-the-term", "solvers/kernel/atoms.cpp", "if (under_guards(instantiated) != under_guards(term)) return std::nullopt;", "", POOL,
     "AtomsTest.PiecesNeedTheirGuard"),
    ("x-over-x", "solvers/kernel/scalar.cpp", "else require(Obligation::Kind::nonzero, factor.term);", "", POOL, "FunctionsTest.InverseCancelsUnderTheObligationThatItIsNotZero"),
    ("exp-over-exp", "solvers/kernel/scalar.cpp", "if (is_positive_factor(factor.term)) require(Obligation::Kind::finite, n.arguments[0]);",
     "if (is_positive_factor(factor.term)) {}", POOL, "FoldSpreadTest.SoftmaxWithoutTheMaximum"),
    ("inverse-of-inverse", "solvers/kernel/scalar.cpp", "require(Obligation::Kind::nonzero, n.arguments[0]);", "", POOL, "FunctionsTest.InverseCancelsUnderTheObligationThatItIsNotZero"),
    ("square-of-root", "solvers/kernel/scalar.cpp", "require(Obligation::Kind::nonnegative, radicand);", "", POOL, "FunctionsTest.Roots"),
    ("exp-of-log", "solvers/kernel/functions.cpp", "require(Obligation::Kind::nonzero, x);\n        require(Obligation::Kind::nonnegative, x);", "",
     POOL, "FunctionsTest.ExpOfLogarithm"),
    ("log-of-exp", "solvers/kernel/functions.cpp", "require(Obligation::Kind::finite, exponent);", "", POOL, "FunctionsTest.LogarithmOfAProductWithAnExponential"),
    ("log-of-product", "solvers/kernel/functions.cpp", "if (!terms.empty()) require(Obligation::Kind::nonnegative, rest);", "", POOL, "FunctionsTest.LogarithmOfAProductWithAnExponential"),
    ("log-of-inverse", "solvers/kernel/functions.cpp",
     "require(Obligation::Kind::nonnegative, inverted);\n    require(Obligation::Kind::nonzero, inverted);", "", POOL, "FunctionsTest.LogarithmOfAReciprocal"),
    ("sigmoid-is-finite", "solvers/kernel/functions.cpp", "require(Obligation::Kind::finite, argument);", "", POOL, "FunctionsTest.SigmoidByExponentials"),
    ("running-sum-ends", "solvers/kernel/merge_sums.cpp", "if (mul(whole, range(place, length, kUnbounded)) != zero_) continue;", "", POOL, "RollFuzz.RunningSums"),
    ("unrolled-sum-is-its-summands", "solvers/kernel/merge_sums.cpp", "if (substitute(body, instance) != part) return std::nullopt;", "", POOL, "RollFuzz.OneMoreInstance"),
    ("slice-in-shape", "verifier/kernel/semantics_structure.cpp",
     'require_in_range(indices[dim], from[dim], {}, "slice of dimension " + std::to_string(dim));', "", PLANS, ""),
    ("take-in-shape", "verifier/kernel/semantics_structure.cpp", "require_in_range(e, x.type.shape[dim], guards, what);", "", PLANS, ""),
    ("scatter-in-shape", "verifier/kernel/semantics_structure.cpp", 'require_in_range(e, size, guards, "element written by `scatter_add`");', "",
     PLANS, ""),
    ("no-arithmetic-on-infinity", "verifier/kernel/semantics.cpp", "if (!takes_infinity(i, k)) require_finite(i, operands[k]);", "{}", PLANS, ""),
    ("masks-of-indices", "verifier/kernel/semantics_arithmetic.cpp", "      require_mask_of_indices(operands);\n", "", PLANS, ""),
    ("integers-fit", "verifier/kernel/semantics.cpp",
     "if (ir::is_integer(result.dtype) && computes(i)) require_result_fits(i, operands, term, result.dtype);", "", PLANS, ""),
    ("division-is-defined", "verifier/kernel/semantics.cpp", "case OpCode::div: return require_of(operands[1].term, {Kind::nonzero});",
     "case OpCode::div: return;", PLANS, ""),
    ("root-is-defined", "verifier/kernel/semantics.cpp", "case OpCode::sqrt: return require_of(operands[0].term, {Kind::nonnegative});",
     "case OpCode::sqrt: return;", PLANS, ""),
    ("loop-only-adds", "verifier/kernel/run_program.cpp", "if (!mentions(step, all)) {", "if (true) {", PLANS, ""),
    ("loop-keeps-the-last", "verifier/kernel/run_program.cpp", "} else if (!mentions(next, all)) {", "} else if (true) {", PLANS, ""),
    ("loop-carries-what-is-defined", "verifier/kernel/run_program.cpp", "if (undefined_region(v) != pool_.zero())", "if (false)", PLANS, ""),
    ("padding-is-arbitrary", "verifier/kernel/proof.cpp", "if (bound.care != pool_.one()) {", "if (false) {", PLANS, ""),
    ("owner-only", "verifier/kernel/bindings.cpp", "TermId care = owner_guard(placement);", "TermId care = pool_.one();", PLANS, ""),
    ("witness-in-extent", "verifier/kernel/side_conditions.cpp", "if (!atoms_.in_range(value, pool_.var(v).extent, {})) continue;", "", PLANS, ""),
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
        if text.count(there) != 1:
            sys.exit(f"{name}: stands {text.count(there)} times in {file}: {there}")
        path.write_text(text.replace(there, without))
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
