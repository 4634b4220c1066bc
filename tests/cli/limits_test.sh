# Time, memory and interrupts end in "not decided", exit code 3.
. "$SOURCE/tests/cli/expect.sh"

sp 0 plan --parallel "$SOURCE/tools/configs/parallel.json" --select llama-3.1-405b@1024 -o big.json
sp 3 verify big.json --timeout 0.05
out_has '^error\[SP0901\]: not decided'
out_has '^plan is not proved equivalent to its reference, nor disproved: '
sp 3 verify big.json --memory 1
out_has '^error\[SP0902\]: not decided'
sp 3 verify big.json --timeout 0.05 --format json
python3 -c 'import json; assert json.load(open("out"))["unknown_reason"]' || fail "no reason"

"$SHARDPROOF" verify big.json >out 2>err </dev/null &
sleep 0.5
kill -INT $!
wait $!
status=$?
last=(verify big.json, interrupted)
[ "$status" -eq 3 ] || fail "expected exit code 3"
out_has '^error\[SP0906\]: not decided'
