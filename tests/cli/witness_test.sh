# The second witness: counted, remembered, written out, and left out when nobody asks for it.
. "$SOURCE/tests/cli/expect.sh"
export XDG_CACHE_HOME="$PWD/cache"

sp 0 verify good.json
out_has '^Z3 confirmed ([0-9]+) of \1 distinct steps \(of [0-9]+\)$'
out_has '^executed on'
[ -s cache/shardproof/smt-answers ] || fail "no answers were kept"
cp out first
sp 0 verify good.json --smt-answers none
grep -v ' proved (' first >a; grep -v ' proved (' out >b
same a b

# A damaged file of answers is no reason for anything.
head -c 150 cache/shardproof/smt-answers >cut && printf 'garbage\n\377\376\n' >>cut
sp 0 verify good.json --smt-answers cut
out_has '^Z3 confirmed'
mkdir folder
sp 0 verify good.json --smt-answers folder
out_has '^Z3 confirmed'

sp 0 verify good.json --witnesses execution
out_lacks 'Z3 confirmed'
sp 0 verify good.json --witnesses none
out_lacks '^executed on'
sp 2 verify good.json --witnesses some

sp 0 verify good.json --format json
python3 -c '
import json
smt = json.load(open("out"))["smt"]
assert 0 < smt["confirmed"] <= smt["distinct"] <= smt["steps"] and smt["solver"].startswith("z3-"), smt'

mkdir queries
sp 0 verify good.json --dump-smt queries
[ -n "$(ls queries)" ] || fail "no queries"
for query in queries/*.smt2; do
  grep -q '^(check-sat)$' "$query" || fail "$query asks nothing"
done
sp 2 verify good.json --dump-smt nowhere
err_has "there is no folder 'nowhere'"
sp 2 verify good.json --witnesses none --dump-smt queries
