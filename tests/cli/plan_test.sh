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
cp "$configs/llama-3.1-8b.json" own.json
sp 2 plan --model own.json --parallel "$configs/parallel.json" --select llama-3.1-8b@64 -o ./own.json
err_has "the plan would replace 'own.json'"
same own.json "$configs/llama-3.1-8b.json"
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
setup "$configs/llama-3.1-8b.json" 8 2 ', "expert_model_parallel_size": 2' >p.json
sp 2 plan --model "$configs/llama-3.1-8b.json" --parallel p.json -o b.json
err_has 'error\[SP0033\]'
err_has 'p.json:1:[0-9]+$'

# Findings say which set-up, where, and what therefore did not happen.
refused_setup() { # refused_setup CODE FIELDS
  printf '{"mine": {"world_size": 8, "global_batch_size": 16, "seq_length": 128,\n%s}}\n' "$2" >p.json
  sp 2 plan --model "$configs/${3:-llama-3.1-8b}.json" --parallel p.json --dropout-to-zero -o b.json
  err_has "error\[$1\]"
  err_has 'p.json:[12]:[0-9]+$'
  err_has '^note: in set-up `mine`$'
  err_has '^no plan was made: 1 error$'
}
refused_setup SP0026 '"tensor_model_paralell_size": 2'
err_has '^help: did you mean `tensor_model_parallel_size`\?$'
refused_setup SP0025 '"optimizer": "sgd"'
refused_setup SP0033 '"context_parallel_size": 2'
refused_setup SP0023 '"num_layers": 2'
refused_setup SP0023 '"untie_embeddings_and_output_weights": false'
refused_setup SP0023 '"data_parallel_size": 2'
sed -e 's/128,/1025,/' p.json >q.json
sed -i -e 's/"data_parallel_size": 2/"bf16": true/' q.json
sp 2 plan --model "$configs/gpt2-small.json" --parallel q.json --dropout-to-zero -o b.json
err_has 'error\[SP0032\].*longer than the model has positions'
sed -i -e 's/1025,/131073,/' q.json
sp 2 plan --model "$configs/llama-3.1-8b.json" --parallel q.json -o b.json
err_has 'error\[SP0032\].*longer than the model has positions'
sed -i -e 's/131073,/8192,/; s/"world_size": 8/"world_size": 1099511627776/' q.json
sp 2 plan --model "$configs/llama-3.1-8b.json" --parallel q.json -o b.json
err_has 'error\[SP0021\]: `world_size`'
setup "$configs/llama-3.1-8b.json" 8 2 '' >p.json
sp 2 plan --parallel p.json --select foo -o b.json
err_has 'no configuration called `foo`'
[ ! -e b.json ] || fail "a file was written although planning failed"
printf '{"mine": {"world_size": 8, "global_batch_size": 16, "seq_length": 128}}\n' >p.json
sp 2 plan --parallel p.json -o b.json
err_has '^error: no model: give --model, or a "model" in set-up `mine` of p.json$'
sed -i -e 's/"world_size"/"model": "none.json", "world_size"/' p.json
sp 2 plan --parallel p.json -o b.json
err_has "^error: cannot open 'none.json', the model of set-up .mine. of p.json$"
sp 2 plan --parallel p.json --select mime -o b.json
err_has '^help: did you mean `mine`\?$'

# An unknown field of a model is said, and no more.
sed -e 's/"model_type"/"rotary_speed": 2, "model_type"/' "$configs/llama-3.1-8b.json" >m.json
setup "$configs/llama-3.1-8b.json" 8 2 '' >p.json
sp 0 plan --model m.json --parallel p.json -o b.json
err_has 'warning\[SP0027\]: `rotary_speed`'
err_has '^wrote b.json'

sp 2 plan --parallel "$configs/parallel.json" --select llama-3.1-8b@64 -o no/folder/b.json
err_has "^error: cannot write 'no/folder/b.json': there is no folder"
[ ! -e no ] || fail "a folder was made"
