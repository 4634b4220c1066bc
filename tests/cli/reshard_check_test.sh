# reshard-check: training saved by one plan, and another plan.
. "$SOURCE/tests/cli/expect.sh"
configs=$SOURCE/tools/configs

plan() { # NAME RANKS TENSOR-PARALLEL MORE
  printf '{"model": "%s", "world_size": %s, "tensor_model_parallel_size": %s, "global_batch_size": 64, "seq_length": 128%s}\n' "$configs/llama-3.1-8b.json" "$2" "$3" "$4" >p.json
  sp 0 plan --parallel p.json -o "$1"
}
plan a.json 64 8 ', "use_distributed_optimizer": true'
plan b.json 32 8 ', "use_distributed_optimizer": true'
plan c.json 64 4 ''
plan d.json 16 2 ''

sp 0 reshard-check a.json a.json
out_has 'goes on with the saved state: 874 reference states'
# Another data parallel size cuts the same buckets; another tensor parallel size cuts each parameter.
sp 0 reshard-check a.json b.json
sp 0 reshard-check c.json d.json
# Buckets of one plan are no keys of the other.
sp 1 reshard-check a.json c.json
out_has 'error\[SP050[78]\]'
out_has 'does not go on with the saved state'

# A checkpoint that lacks the step counter is wrong whoever loads it; verify says so too.
python3 - <<'PY'
import json
plan = json.load(open("a.json"))
plan["checkpoint"] = [e for e in plan["checkpoint"] if e["state"] != "step"]
json.dump(plan, open("lacks.json", "w"))
PY
sp 1 reshard-check lacks.json a.json
out_has 'error\[SP0505\].*`step`'
out_has 'does not hold the state of its own plan'
sp 1 verify lacks.json
out_has 'error\[SP0505\].*`step`'
out_has 'not equivalent'

sp 2 reshard-check good.json good.json
err_has 'good.json has no `checkpoint`'
sp 2 reshard-check a.json
sp 2 reshard-check a.json nowhere.json
