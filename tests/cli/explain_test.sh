# The pages of the codes come out of the program itself.
. "$SOURCE/tests/cli/expect.sh"

sp 0 explain
count=$(wc -l <out)
[ "$count" -eq "$(ls "$SOURCE"/verifier/rules/SP*.md | wc -l)" ] || fail "explain lists $count codes"
cut -d' ' -f1 out >codes
while read -r code; do
  sp 0 explain "$code"
  same out "$SOURCE/verifier/rules/$code.md"
done <codes
sp 0 explain sp0201
cp out by_code
sp 0 explain missing-reduction
same out by_code

sp 2 explain SP9999
err_has "no code or name 'SP9999'"
sp 2 explain missing-redction
err_has "the nearest is 'missing-reduction'"

# Works where the repository is not.
cp "$SHARDPROOF" elsewhere
(cd / && "$OLDPWD/elsewhere" explain SP0201 | cmp - "$OLDPWD/by_code") || fail "explain needs the repository"
