# Files made to hurt: exit code 2 if they are no plans, a verdict if they are; never a crash, a hang or much memory.
. "$SOURCE/tests/cli/expect.sh"
# What a sanitizer reserves is no memory.
if ! grep -aqE '__[at]san_init' "$SHARDPROOF"; then ulimit -v 4000000; fi

# Every prefix of a plan.
size=$(wc -c <good.json)
for cut in $(seq 0 $((size - 2))); do
  head -c "$cut" good.json >prefix.json
  sp 2 verify prefix.json --format concise
done

# One document for each file below, by a change of the good one.
cat >make.py <<'PYTHON'
import copy
import json

good = json.load(open("good.json"))


def write(verdict, name, change):
    document = copy.deepcopy(good)
    change(document)
    with open(f"{verdict}.{name}.json", "w") as out:
        json.dump(document, out)


def everywhere(document, old, new):
    return json.loads(json.dumps(document).replace(old, new))


def sizes(batch, hidden, ffn):
    def change(document):
        document.update(everywhere(document, "f32[8,16]", f"f32[{batch},{hidden}]"))
        document.update(everywhere(document, "f32[32,16]", f"f32[{ffn},{hidden}]"))
    return change


def appended(*instructions):
    return lambda document: document["body"].extend(instructions)


def nested(depth, trip):
    body = []
    for level in range(depth):
        body = [{"op": "loop", "index": f"i{level}", "trip": trip, "body": body}]
    return appended(*body)


big = 2**40
# Good plans of absurd sizes.
write(0, "extents-1e9", sizes(10**9, 10**9, 10**9))
write(0, "extents-at-limit", sizes(2**22, 2**20, big))
write(0, "ranks-at-limit", lambda d: d.update(mesh=[["dp", 2**16], ["tp", 2**16]]) or sizes(2**16, 16, 2**16)(d))
write(0, "loops-for-ever", nested(8, big))
write(0, "many-axes", lambda d: d["mesh"].extend([[f"a{i}", 1] for i in range(60)]))
write(0, "rank-1e5", lambda d: d["reference"]["inputs"].append({"name": "z", "type": "f32[" + "1," * 100000 + "1]"}))
write(0, "unused", appended(*[{"out": f"u{i}", "op": "exp", "in": "x" if i == 0 else f"u{i - 1}"} for i in range(1000)]))
write(0, "wide-sum", appended({"out": "sum", "op": "add", "in": ["x"] * 50000}))
# Bad ones.
write(2, "extents-above-limit", sizes(8, 16, big + 1))
write(2, "elements-above-limit", sizes(big, big, big))
write(2, "extent-zero", sizes(0, 16, 32))
write(2, "extent-negative", sizes(-8, 16, 32))
write(2, "ranks-above-limit", lambda d: d.update(mesh=[["dp", 2**17], ["tp", 2**16]]) or sizes(2**17, 16, 2**16)(d))
write(2, "ranks-above-64-bits", lambda d: d.update(mesh=[["dp", 2**40], ["tp", 2**40]]))
write(2, "no-ranks", lambda d: d.update(mesh=[["dp", 0], ["tp", 2]]))
write(2, "mesh-of-1e5-axes", lambda d: d.update(mesh=[[f"a{i}", 1] for i in range(100000)]))
write(2, "trip-above-64-bits", nested(1, 2**64))
write(2, "nested-too-deep", nested(40, 1))
write(2, "digits-1e5", lambda d: d["state"][0].update(dims=[["tp"] * 100000, []]))
write(2, "digits-multiply-to-0", lambda d: d["state"][0].update(dims=[[2**32, 2**32, "tp"], []]))
write(2, "sub-axis-of-nothing", lambda d: d["state"][0].update(dims=[["tp:(9223372036854775807)9223372036854775807"], []]))
write(2, "name-1e6", lambda d: d.update(everywhere(d, '"my_dw"', json.dumps("n" * 1000000))))
write(2, "spec-1e6", lambda d: d["body"][0].update(spec="b" * 1000000 + "h,fh->bf"))
write(2, "expression-1e5", appended({"out": "c", "op": "coord", "value": "(" * 100000 + "tp"}))
write(2, "division-by-0", appended({"out": "c", "op": "coord", "value": "tp/0"}))
write(2, "number-1e6", appended({"out": "c", "op": "constant", "type": "f32[]", "value": "9" * 1000000}))
write(2, "fraction-of-0", appended({"out": "c", "op": "constant", "type": "f32[]", "value": "1/0"}))
write(2, "table-too-short", appended({"out": "c", "op": "table", "type": f"f32[{big}]", "values": [1]}))
write(2, "slice-wraps", appended({"out": "c", "op": "slice", "in": "x", "dim": 0, "start": 2**63 - 1, "size": 2}))
write(2, "itself", appended({"out": "c", "op": "exp", "in": "c"}))
write(2, "devices", lambda d: d.update(meshes=[{"name": "mesh", "axes": d.pop("mesh"), "devices": [0, 1, 2, 2**62]}]))
PYTHON
python3 make.py || fail "make.py"

for file in [02].*.json; do
  sp "${file%%.*}" verify "$file" --timeout 60 --format concise
  for verb in show fmt; do sp "${file%%.*}" "$verb" "$file"; done
done
