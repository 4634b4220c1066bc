# schedule: tables by name and of plans, and what verify says of a plan that has one.
. "$SOURCE/tests/cli/expect.sh"

sp 0 schedule --generator 1f1b --ranks 2 --microbatches 3
out_has '^rank 0 \| 0F0 0F1 \.   0B0 0F2 0B1 \.   0B2$'
out_has '^rank 1 \| \.   1F0 1B0 1F1 1B1 1F2 1B2 \.$'
out_has '^8 slots on 2 pipeline ranks, 4 of 16 idle'
err_empty
sp 0 schedule --generator 1f1b --ranks 2 --microbatches 2 --virtual 2 --format csv -o interleaved.csv
[ "$(head -1 interleaved.csv)" = '0F0,0F1,2F0,2F1,,2B0,,2B1,0B0,0B1' ] || fail "interleaved.csv is $(cat interleaved.csv)"
[ "$(wc -l <interleaved.csv)" -eq 2 ] || fail "interleaved.csv has not two rows"
sp 0 schedule --generator dualpipe --ranks 2 --microbatches 4
out_has 'OVERLAP_F_B'
sp 0 schedule --help
out_has 'zb-h2 +the same without idle slots'

sp 2 schedule
err_has 'a plan or --generator is required'
sp 2 schedule --generator 1f1b --ranks 4
err_has 'needs --ranks and --microbatches'
sp 2 schedule --generator 1f1c --ranks 4 --microbatches 8
err_has "there is no schedule '1f1c'; the nearest is '1f1b'; there are gpipe"
sp 2 schedule --generator dualpipe --ranks 3 --microbatches 8
err_has 'pairs each pipeline rank with its mirror image: expected an even number'
sp 2 schedule --generator gpipe --ranks 4 --microbatches 9000000000000000000
err_has 'too many actions'
sp 2 schedule --generator gpipe --ranks 4 --microbatches 99999999999999999999
err_has 'microbatches'
sp 2 schedule --generator gpipe --ranks -4 --microbatches 4
err_has 'needs pipeline ranks'
sp 2 schedule good.json
err_has 'good.json has no `schedule`'
sp 2 schedule good.json --generator gpipe
err_has 'excludes'
sp 2 schedule nowhere.json

# The plans of the rule pages: the wrong one first.
example() { awk -v wanted="$2" '/^```json/ {n++; inside = (n == wanted); next} /^```$/ {inside = 0} inside' "$SOURCE/verifier/rules/$1.md" >"$3"; }
example SP0313 1 gpipe.json
example SP0314 2 right.json
example SP0310 1 twice.json
example SP0121 1 malformed.json
sp 0 schedule right.json
out_has '^rank 0 \| 0F0 0F1 \.   0B0 \.   0B1$'
out_has '^6 slots on 2 pipeline ranks, 4 of 12 idle'
sp 0 schedule right.json --format csv
out_has '^0F0,0F1,,0B0,,0B1$'
out_has '^,1F0,1B0,1F1,1B1,$'
sp 2 schedule malformed.json
err_has 'error\[SP0121\]'
err_has 'nothing is shown'
# A table that is not right can be looked at; one that never ends has no slots.
sp 0 schedule twice.json
out_has '^rank 1 \|'
python3 - <<'PY'
import json
plan = json.load(open("right.json"))
plan["schedule"] = {"microbatches": 2, "actions": [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]}
json.dump(plan, open("circle.json", "w"))
PY
sp 0 schedule circle.json
err_has 'ranks wait for each other'
out_has '^rank 1 \| 1F0 1F1 1B0 1B1$'
out_lacks 'slots'

sp 1 verify circle.json
out_has 'error\[SP0302\]'
sp 1 verify gpipe.json
out_has 'error\[SP0313\]'
out_has '^schedule gpipe: 2 microbatches on 2 pipeline ranks, at most 2 in flight on a rank, 4 of 12 slots idle$'
sp 0 verify right.json --format json
python3 - <<'PY' || fail "the report lacks the schedule"
import json
schedule = json.load(open("out"))["schedule"]
assert schedule == {"name": "1f1b", "microbatches": 2, "peak_in_flight": 2, "in_flight": [2, 1], "slots": 12, "idle_slots": 4}, schedule
PY
sp 1 verify circle.json --format json
out_has '"name": "explicit"'

# 10^6 actions that are all wrong end with a bounded number of findings.
python3 - <<'PY'
import json
plan = json.load(open("right.json"))
plan["schedule"] = {"microbatches": 2, "actions": [["0F0"] * 1000000, ["1F0"]]}
json.dump(plan, open("hostile.json", "w"))
plan["schedule"]["actions"][0] = ["7X7"] * 1000000
json.dump(plan, open("hostile2.json", "w"))
plan["schedule"]["actions"][0] = ["0F0"] * 2000000
json.dump(plan, open("hostile3.json", "w"))
PY
sp 1 verify hostile.json --format concise
out_has 'error\[SP0310\] stage `first` runs 0F0 twice'
sp 2 verify hostile2.json --format concise
out_has 'row 1, column 1 of the schedule'
[ "$(wc -l <out)" -le 101 ] || fail "too many findings"
sp 2 verify hostile3.json --format concise
out_has 'error\[SP0009\] the schedule has too many actions'
