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
sp 2 parity nowhere.json
echo '{"shardproof": 1}' >empty.json
sp 2 parity empty.json
