# Certificates: written for a proved plan only, checked by another program, bound to the plan and its reference.
. "$SOURCE/tests/cli/expect.sh"

check() { # check EXIT_CODE ARGUMENT...
  local wanted=$1
  shift
  last=(check-certificate "$@")
  "$CHECKER" "$@" >out 2>err </dev/null
  status=$?
  [ "$status" -eq "$wanted" ] || fail "expected exit code $wanted"
}

sp 0 verify good.json --certificate good.cert
out_has '^wrote good.cert: a certificate of [0-9]+ bytes$'
check 0 good.json good.cert
out_has '^certified: the plan is equivalent to its reference: 1 claim, [0-9]+ recorded results checked, [0-9]+ bytes; [0-9.]+ s$'
out_has '^  - real arithmetic'
err_empty
cp good.cert kept.cert
sp 0 verify good.json --certificate again.cert --quiet
out_empty
same good.cert again.cert

# Nothing is written for a plan that is not proved, nor is what is there lost.
"$SHARDPROOF" verify wrong.json --no-counterexample --certificate good.cert >out 2>err
[ $? -eq 3 ] || fail "a wrong plan"
same good.cert kept.cert
"$SHARDPROOF" verify wrong.json --no-counterexample --certificate none.cert >out 2>err
[ ! -e none.cert ] || fail "a certificate of a wrong plan"

# Spelling is no matter, one instruction or the reference is.
sp 0 fmt good.json
cp out formatted.json
check 0 formatted.json good.cert
check 1 wrong.json good.cert
out_has '^wrong.json: error\[SP0802\]: the certificate is that of another plan$'
python3 - <<'PY'
import json
plan = json.load(open("good.json"))
plan["reference"]["body"][-1]["op"] = "add"
json.dump(plan, open("other.json", "w"))
PY
check 1 other.json good.cert
out_has 'SP0802.*another reference'
out_has '^rejected: '

# Cut off, changed, no certificate at all.
size=$(wc -c <good.cert)
for cut in 0 1 30 200 $((size / 2)) $((size - 1)); do
  head -c "$cut" good.cert >part.cert
  check 1 good.json part.cert
  out_has 'SP0801'
done
sed -e '$!s/^val/ref/' good.cert >changed.cert
check 1 good.json changed.cert
out_has 'SP0801.*cut off or changed'
check 1 good.json good.json
out_has 'SP0801.*this is no certificate'

# A certificate that says what does not hold, with a good seal.
python3 - <<'PY' || fail "cannot edit the certificate"
import hashlib
lines = open("good.cert").read().split("\n")[:-2]
value = next(i for i, line in enumerate(lines) if line.startswith("val my_dw ") or line.startswith("val dw "))
lines[value] = lines[value].rsplit(" ", 1)[0] + " 0"
text = "\n".join(lines) + "\n"
open("forged.cert", "w").write(text + f"end {len(lines)} sha256 {hashlib.sha256(text.encode()).hexdigest()}\n")
PY
check 1 good.json forged.cert
out_has '^good.json:[0-9]+:[0-9]+: error\[SP0803\]: line [0-9]+ of the certificate does not hold for `dw`'

# Bad input and usage.
check 2 missing.json good.cert
out_has 'cannot open'
check 2 good.json missing.cert
check 2 good.cert good.cert
out_has 'error\[SP00'
check 2 good.json
check 0 --help
sp 2 verify good.json good.json --certificate two.cert
err_has 'for one plan'
sp 2 verify good.json --assume-defined --certificate assumed.cert
err_has 'without --assume-defined'
sp 2 verify good.json --certificate no/such/folder/good.cert
err_has 'there is no folder'
