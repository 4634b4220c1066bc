# Files that are no plans: a clear error, exit code 2, never a crash or a hang.
. "$SOURCE/tests/cli/expect.sh"

refused() { # refused FILE CODE
  for verb in verify show fmt; do
    sp 2 "$verb" "$1"
    cat out >>err
    err_has "error\[$2\]"
    [ "$verb" = verify ] || ! grep -q 'cannot be verified' err || fail "nobody wanted to verify"
  done
  sp 2 edit "$1" --drop x -o unwanted.json
  err_has "error\[$2\]"
  [ ! -e unwanted.json ] || fail "a file was written"
}

refused no-such-file.json SP0001
refused . SP0001
: >empty.json
refused empty.json SP0001
head -c 300 good.json >truncated.json
refused truncated.json SP0001
head -c 100000 /dev/zero >zeros.json
refused zeros.json SP0001
head -c 100000 "$SHARDPROOF" >binary.json
refused binary.json SP0001
echo '[]' >list.json
refused list.json SP0004
echo '{"shardproof": 2}' >future.json
refused future.json SP0011
python3 -c 'print("[" * 1000000)' >deep.json
refused deep.json SP0009
python3 -c 'print("{\"a\":" * 1000000)' >deeper.json
refused deeper.json SP0009
sed 's/"reduce": "sum"/"reduce": "sum", "hidden": 1/' good.json >unknown.json
refused unknown.json SP0002
sed 's/f32\[8,16\]/f32[8,99999999999999999999]/' good.json >overflow.json
refused overflow.json SP0005

# Every prefix of a plan is refused.
size=$(wc -c <good.json)
for cut in $(seq 1 37 $((size - 2))); do
  head -c "$cut" good.json >prefix.json
  sp 2 verify prefix.json --format concise
done
