# Verdicts, exit codes, formats, several plans.
. "$SOURCE/tests/cli/expect.sh"

sp 0 verify good.json
out_has '^plan is equivalent to its reference: [1-9][0-9]* obligations? proved'
err_empty
cp out all_is_well

# Not equivalent or not decided, never equivalent.
"$SHARDPROOF" verify wrong.json >out 2>err
wrong=$?
[ $wrong -eq 1 ] || [ $wrong -eq 3 ] || fail "a plan that lacks a reduction exits with $wrong"
out_has '^error\[SP02[0-9][0-9]\]'
out_has '^ +--> wrong.json:[0-9]+:[0-9]+$'
out_lacks 'is equivalent to'

sp $wrong verify wrong.json --format concise
out_has '^wrong.json:[0-9]+:[0-9]+: error\[SP02[0-9][0-9]\] '
sp $wrong verify wrong.json --format concise --quiet
[ "$(grep -vc '^wrong.json:' out)" -eq 0 ] || fail "--quiet prints more than findings"
sp 0 verify good.json --quiet
out_empty

sp $wrong verify wrong.json --format json
python3 - <<'PY' || fail "the JSON report is not as documented"
import json
report = json.load(open("out"))
assert report["schema"] == "shardproof-report/1"
assert report["verdict"] in ("not-equivalent", "unknown")
assert report["exit_code"] in (1, 3)
assert report["plan"]["path"] == "wrong.json"
finding = report["diagnostics"][0]
assert finding["code"].startswith("SP02")
primary = [label for label in finding["labels"] if label["primary"]]
assert len(primary) == 1
line = open("wrong.json").read().split("\n")[primary[0]["start"]["line"] - 1]
assert 1 <= primary[0]["start"]["column"] <= len(line)
PY
sp 0 verify good.json --format json
python3 -c 'import json; assert json.load(open("out"))["verdict"] == "equivalent"' || fail "verdict"

# A verified fix, applied, makes the plan equivalent.
sp $wrong verify wrong.json --format json
python3 - <<'PY' || fail "the fix cannot be applied"
import json
text = open("wrong.json", "rb").read()
fixes = [d["fix"] for d in json.load(open("out"))["diagnostics"] if d.get("fix", {}).get("applicability") == "verified"]
assert fixes, "no verified fix"
for edit in sorted(fixes[0]["edits"], key=lambda e: -e["start"]["offset"]):
    text = text[:edit["start"]["offset"]] + edit["content"].encode() + text[edit["end"]["offset"]:]
open("fixed.json", "wb").write(text)
PY
sp 0 verify fixed.json

# Input from standard input; report to a file.
"$SHARDPROOF" verify - <good.json >out 2>err || fail "a plan on standard input"
out_has 'is equivalent'
sp 0 verify good.json -o report.txt
out_empty
grep -q 'is equivalent' report.txt || fail "the report was not written"
sp 2 verify good.json -o /dev/null/report
err_has "cannot write '/dev/null/report'"
sp 2 verify good.json -o no/folder/report.txt
err_has "cannot write 'no/folder/report.txt': there is no folder 'no/folder'"
[ ! -e no ] || fail "a folder was made"

# Several plans: reports in order, the worst exit code, the same for any number of jobs.
sp $wrong verify good.json wrong.json good.json --format concise --jobs 1
sed 's/[0-9.]* s$//' out >one
sp $wrong verify good.json wrong.json good.json --format concise --jobs 3
sed 's/[0-9.]* s$//' out >three
same one three
sp 2 verify good.json missing.json wrong.json
sp $wrong verify good.json wrong.json --format json
python3 -c 'import json; assert len(json.load(open("out"))) == 2' || fail "a list of reports"

# Colours only when asked for, since this is no terminal.
sp $wrong verify wrong.json
out_lacks $'\033'
sp $wrong verify wrong.json --color always
out_has $'\033\\[1;31merror'
