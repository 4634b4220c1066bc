# The bundled planner from the command line.
. "$SOURCE/tests/cli/expect.sh"
configs=$SOURCE/tools/configs

sp 0 plan --model "$configs/llama-3.1-8b.json" --parallel "$configs/parallel.json" --select llama-3.1-8b@64 -o a.json
err_has '^wrote a.json: 64 ranks \(dp=8, tp=8\), [0-9]+ reference and [0-9]+ plan instructions$'
out_empty
# The model that the set-up names; the same bytes every time.
sp 0 plan --parallel "$configs/parallel.json" --select llama-3.1-8b@64 -o -
same out a.json
sp 0 fmt a.json --check

# Every set-up can be planned, and every plan is canonical and valid.
python3 -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$configs/parallel.json" >names
[ -s names ] || fail "no set-ups"
while read -r name; do
  sp 0 plan --parallel "$configs/parallel.json" --select "$name" --dropout-to-zero -o plan.json
  sp 0 fmt plan.json --check
done <names

rm -f b.json
sp 2 plan --parallel "$configs/parallel.json" --select gpt2-small@8 -o b.json
err_has 'error\[SP0024\].*attn_pdrop'
err_has '--dropout-to-zero|dropout as 0'
sp 2 plan --parallel "$configs/parallel.json" -o b.json
err_has 'error\[SP0020\]'
sp 2 plan --parallel "$configs/parallel.json" --select nothing -o b.json
err_has 'error\[SP0020\]'
sp 2 plan --parallel "$configs/nothing.json" -o b.json
err_has 'cannot open'
sp 2 plan --model "$configs/nothing.json" --parallel "$configs/parallel.json" --select gpt2-small@8 -o b.json
err_has 'cannot open'

setup() { printf '{"model": "%s", "world_size": %s, "tensor_model_parallel_size": %s, "global_batch_size": 16, "seq_length": 128%s}\n' "$@"; }
setup "$configs/llama-3.1-8b.json" 8 3 '' >p.json
sp 2 plan --parallel p.json -o b.json
err_has 'error\[SP00(23|30|31)\]'
setup "$configs/llama-3.1-8b.json" 6 3 ', "micro_batch_size": 2' >p.json
sp 2 plan --model "$configs/llama-3.1-8b.json" --parallel p.json -o b.json
err_has 'error\[SP0031\]'
setup "$configs/llama-3.1-8b.json" 8 2 ', "pipeline_model_parallel_size": 2' >p.json
sp 2 plan --model "$configs/llama-3.1-8b.json" --parallel p.json -o b.json
err_has 'error\[SP0033\]'
[ ! -e b.json ] || fail "a file was written although planning failed"
