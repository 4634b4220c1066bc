# Sourced by the tests of the command line. Each test runs in an empty folder with SHARDPROOF (the program) and SOURCE (the
# repository) set; the first unmet expectation ends it.
set -uo pipefail

fail() {
  echo "FAILED at line ${BASH_LINENO[1]}: $*"
  echo "--- last command: shardproof ${last[*]:-}"
  echo "--- exit code: ${status:-}"
  echo "--- standard output:" && head -c 4000 out
  echo "--- standard error:" && head -c 4000 err
  exit 1
}

# Runs shardproof; the exit code must be the first argument. Output goes to the files out and err.
sp() {
  local wanted=$1
  shift
  last=("$@")
  "$SHARDPROOF" "$@" >out 2>err </dev/null
  status=$?
  [ "$status" -eq "$wanted" ] || fail "expected exit code $wanted"
}

out_has() { grep -qE -- "$1" out || fail "standard output lacks: $1"; }
err_has() { grep -qE -- "$1" err || fail "standard error lacks: $1"; }
out_lacks() { ! grep -qE -- "$1" out || fail "standard output has: $1"; }
out_empty() { [ ! -s out ] || fail "standard output is not empty"; }
err_empty() { [ ! -s err ] || fail "standard error is not empty"; }
same() { cmp "$1" "$2" >/dev/null || fail "$1 and $2 differ"; }

# The hand-written plan of the README (its first ```json block), and the same without its reduction.
awk '/^```json$/ {inside = 1; next} /^```$/ && inside {exit} inside' "$SOURCE/README.md" >good.json
[ -s good.json ] || fail "README.md has no plan"
sed -e '/"all_reduce"/d' -e 's/"my_dw"/"dw"/' good.json >wrong.json
