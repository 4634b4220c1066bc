# Progress shows on a terminal after a second and is wiped before the result; elsewhere there is none.
. "$SOURCE/tests/cli/expect.sh"

sp 0 plan --parallel "$SOURCE/tools/configs/parallel.json" --select llama-3.1-405b@1024 -o big.json
sp 3 verify big.json --timeout 1.5
err_empty

python3 - >log 2>&1 <<'PY' || fail "$(cat log)"
import os, pty, re, subprocess
shown, terminal = pty.openpty()
run = subprocess.Popen([os.environ["SHARDPROOF"], "verify", "big.json", "--timeout", "1.5"],
                       stdout=subprocess.PIPE, stderr=terminal, stdin=subprocess.DEVNULL)
os.close(terminal)
text = b""
while True:
    try:
        block = os.read(shown, 4096)
    except OSError:  # closed at the other end
        break
    if not block:
        break
    text += block
out = run.stdout.read()
run.wait()
assert b"\r\x1b[Kbig.json: " in text, text
assert re.search(rb" \([1-9][0-9]* s\)", text), text
assert text.endswith(b"\r\x1b[K"), text
assert b"\x1b" not in out and b"not proved" in out, out
PY
