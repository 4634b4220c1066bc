# tools/setup with pretended machines: PATH holds only what the machine is to have.
setup=$SOURCE/tools/setup
bash=$(command -v bash)
fail() {
  echo "FAILED at line ${BASH_LINENO[0]}: $*"
  cat log 2>/dev/null
  exit 1
}
machine() { # machine COMMAND...: these commands exist and do nothing
  rm -rf bin && mkdir bin
  ln -s "$(command -v env)" bin/env
  for name; do printf '#!%s\nexit 0\n' "$bash" >"bin/$name" && chmod +x "bin/$name"; done
}
uid() { printf '#!%s\necho %s\n' "$bash" "$1" >bin/id && chmod +x bin/id; }
# A command that writes down how it was called and runs the rest (sudo) or succeeds (apt-get).
recorder() {
  if [ "$1" = sudo ]; then printf '#!%s\necho "sudo $*" >>calls\nexec "$@"\n' "$bash" >bin/sudo
  else printf '#!%s\necho "%s $*" >>calls\nexit %s\n' "$bash" "$1" "${2:-0}" >"bin/$1"; fi
  chmod +x "bin/$1"
}
run() { # run EXIT_CODE
  rm -f calls
  PATH=$PWD/bin "$bash" "$setup" demo >log 2>&1
  local status=$?
  [ "$status" -eq "$1" ] || fail "exit code $status, expected $1"
}

# Headers are looked for on the real disk, so only commands can be taken away here.
[ -e /usr/include/z3++.h ] || { echo "skipped: headers are not where Debian has them"; exit 77; }

# All there: nothing is called, nothing said.
machine cmake ninja c++
uid 0
recorder apt-get
run 0
[ ! -e calls ] && [ ! -s log ] || fail "something was installed although nothing is missing"

# No Debian.
machine c++
run 1
grep -q '^missing: cmake ninja-build$' log && grep -q 'not a Debian system' log || fail "message"

# Debian, neither root nor sudo.
machine c++
uid 1000
recorder apt-get
run 1
grep -q 'not root and there is no sudo' log || fail "message"
grep -q 'apt-get install --no-install-recommends cmake ninja-build$' log || fail "message"
[ ! -e calls ] || fail "apt-get was called"

# Debian as root: only what is missing, with ccache as a convenience.
machine c++ cmake
uid 0
recorder apt-get
run 0
grep -q 'apt-get .*install -y --no-install-recommends ninja-build ccache$' calls || fail "$(cat calls)"
! grep -q 'cmake' calls || fail "installed what is present"

# With sudo.
machine c++ cmake ccache
uid 1000
recorder apt-get
recorder sudo
run 0
grep -q '^sudo env .*apt-get .* install .* ninja-build$' calls || fail "$(cat calls)"

# apt-get that fails, also after an update.
machine c++ cmake
uid 0
recorder apt-get 100
run 1
grep -q 'apt-get .*update' calls || fail "no update was tried"
grep -q 'apt-get could not install them' log || fail "message"

PATH=$PWD/bin "$bash" "$setup" everything >log 2>&1
[ $? -eq 2 ] || fail "an unknown scope is wrong usage"
