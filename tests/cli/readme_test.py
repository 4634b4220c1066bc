"""Runs the console blocks of README.md and compares what they show with what happens.

In a ```console block each line that starts with "$ " is a command; the lines after it are its output. Commands run in one
folder with `shardproof` on the path, `tools` of the repository, and plan.json, the plan that README.md prints. Times differ
from run to run and are not compared.

    SHARDPROOF=build/release/bin/shardproof python3 tests/cli/readme_test.py [--write]     --write: replace the outputs
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CONSOLE = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
PLAN = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIME = re.compile(r"\b[0-9]+\.[0-9]+ s$", re.MULTILINE)


def run_block(block, folder, environment):
    shown = []
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        run = subprocess.run(["bash", "-c", line[2:]], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False)
        shown += [line] + run.stdout.splitlines()
    return "\n".join(shown) + "\n"


def main():
    program = pathlib.Path(os.environ["SHARDPROOF"]).resolve()
    environment = dict(os.environ, PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}", XDG_CACHE_HOME=os.devnull)
    text = README.read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "tools", pathlib.Path(folder) / "tools")
        (pathlib.Path(folder) / "plan.json").write_text(PLAN.search(text)[1])
        blocks = CONSOLE.findall(text)
        actual = [run_block(block, folder, environment) for block in blocks]
    if "--write" in sys.argv:
        outputs = iter(actual)
        README.write_text(CONSOLE.sub(lambda _: next(outputs), text))
        return 0
    same = bool(blocks)
    for written, found in zip(blocks, actual):
        if TIME.sub("T s", written) != TIME.sub("T s", found):
            same = False
            sys.stdout.writelines(difflib.unified_diff(written.splitlines(True), found.splitlines(True), "README.md", "found"))
    print("README.md shows what happens" if same else "README.md shows something else; --write updates it")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
