# fmt, show and edit.
. "$SOURCE/tests/cli/expect.sh"

sp 0 fmt good.json
cp out canonical.json
sp 0 fmt canonical.json
same out canonical.json
sp 0 fmt canonical.json --check
sp 1 fmt good.json --check
err_has 'good.json: not in canonical form'
"$SHARDPROOF" fmt - <good.json >out 2>err || fail "fmt of standard input"
same out canonical.json
sp 0 verify canonical.json

# In place, keeping permissions of a new file and leaving nothing else behind.
cp good.json copy.json
sp 0 fmt -i copy.json
same copy.json canonical.json
sp 2 fmt -i copy.json -o other.json
[ -z "$(ls | grep '^copy.json.')" ] || fail "temporary files are left"

# A refused file is not touched, and a result that cannot be written leaves nothing.
head -c 200 good.json >broken.json
cp broken.json before.json
sp 2 fmt -i broken.json
same broken.json before.json
sp 2 fmt good.json -o /dev/full
err_has "cannot write '/dev/full'"
mkdir -p folder && sp 2 fmt good.json -o folder
err_has "cannot write 'folder'"

sp 0 show good.json
out_has 'all_reduce\[axes=dp, reduce=sum\]'
out_has 'einsum\[bh,fh->bf\]'

# Dropping the reduction is what wrong.json is.
sp 0 edit good.json --drop dw -o dropped.json
err_has '^removed %dw = all_reduce'
sp 0 fmt dropped.json
out_lacks '"all_reduce"'
sp 0 edit good.json --drop dw -o -
same out dropped.json
sp 2 edit good.json --drop nothing -o unwanted.json
err_has "no instruction of the plan produces a value 'nothing'"
sp 2 edit good.json --drop y -o unwanted.json
err_has 'cannot drop `%y = einsum.*it has 2 operands and 1 result'
[ ! -e unwanted.json ] || fail "a file was written"
