# parity: right and wrong plans, tensor by tensor.
. "$SOURCE/tests/cli/expect.sh"

sp 0 parity good.json
out_has "agree in float64 on 1 tensors"
sp 0 parity good.json --seed 5
sp 0 edit good.json --drop dw -o wrong.json
sp 1 parity wrong.json
out_has "DIFFERS"
out_has "first: rank 0 .dp=0, tp=0. local .0, 0."
sp 0 parity wrong.json --tolerance 10
sp 2 parity wrong.json --tolerance -1
sp 2 parity nowhere.json
echo '{"shardproof": 1}' >empty.json
sp 2 parity empty.json

# A counterexample is kept, and shows again. --exact: a plan that only adds and multiplies has the same bits.
sp 1 verify wrong.json --keep-counterexample kept
out_has '^wrote kept.json and kept.inputs.json$'
sp 1 parity kept.json --inputs kept.inputs.json
out_has 'DIFFERS'
sp 0 parity good.json --inputs kept.inputs.json
sp 0 verify good.json --keep-counterexample none
[ ! -e none.json ] || fail "a counterexample of a right plan"
sp 2 verify good.json --keep-counterexample no/folder
sp 0 parity good.json --exact
out_has '^([0-9]+) of \1 tensors have the same bits in float64$'
for bad in '[]' '{"nothing": [1]}' '{' '{"x": 1}' '{"x": ["a"]}'; do
  echo "$bad" >bad.json
  sp 2 parity good.json --inputs bad.json
done
sp 2 parity good.json --inputs missing.json

# A read outside of a tensor is a difference, as it is for verify, and its counterexample replays.
cat >outside.json <<'EOF'
{"shardproof": 1, "mesh": [["dp", 2]],
 "reference": {"inputs": [{"name": "x", "type": "f32[4]"}], "outputs": [{"name": "y"}],
   "body": [{"out": "y", "op": "neg", "in": "x"}]},
 "inputs": [{"name": "x"}], "outputs": [{"name": "y", "dims": [["dp"]]}],
 "body": [{"out": "part", "op": "slice", "in": "x", "dim": 0, "size": 2, "start": "3*dp"},
          {"out": "y", "op": "neg", "in": "part"}]}
EOF
sp 1 parity outside.json
out_has 'rank 1 leaves a tensor, and the reference does not'
sp 1 verify outside.json --keep-counterexample outside.ce
sp 1 parity outside.ce.json --inputs outside.ce.inputs.json
out_has 'rank 1 leaves a tensor'
