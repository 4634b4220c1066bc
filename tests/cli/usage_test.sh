# Verbs, options and the exit codes of wrong usage.
. "$SOURCE/tests/cli/expect.sh"

sp 2
err_has '^usage: shardproof VERB'
out_empty
sp 0 --help
out_has 'verify +prove that'
out_has 'exit codes: 0 .* 1 not equivalent, 2 .* 3 not decided, 70'
err_empty
sp 0 --version
out_has '^shardproof [0-9]+\.[0-9]+\.[0-9]+$'

sp 2 verfy
err_has "^error: unknown verb 'verfy'; the nearest is 'verify'"
sp 2 frobnicate
err_has "^error: unknown verb 'frobnicate'; see"
sp 2 verify good.json --time-out 3
err_has "unknown option '--time-out'; the nearest is '--timeout'"
sp 2 verify good.json --formt=json
err_has "unknown option '--formt'; the nearest is '--format'"
sp 2 show good.json --frobnicate
err_has "^error: unknown option '--frobnicate'; see \`shardproof show --help\`$"
sp 2 explain SP0201 SP0202
err_has "unexpected argument 'SP0202'"

sp 2 verify
err_has 'plans is required'
sp 2 verify good.json --format xml
err_has '--format: .*xml'
sp 2 verify good.json --timeout -1
err_has '--timeout'
sp 2 verify good.json --jobs 0
err_has '--jobs'
sp 2 verify good.json --memory lots
err_has '--memory'

for verb in plan verify show schedule explain fmt edit; do
  sp 0 "$verb" --help
  out_has "shardproof $verb"
  err_empty
done
