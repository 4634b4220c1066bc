#!/usr/bin/env python3
"""Checks what compilers do not: the architecture and the habits of this tree. Prints one line per problem.

  layers     include lines obey the order of components in the top CMakeLists.txt
  headers    no third-party type in a header; each library is included only by the folder that owns it
  libraries  do not print, exit or read the environment
  size       no source file is longer than 600 lines
  codes      every SPxxxx that a source file mentions has a page, and names in the source agree with it
  text       no machine paths, tabs, trailing blanks or missing final newline
  python     every .py and shell script parses
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

USES = {  # component -> what it may include, besides itself
    "ir": set(),
    "solvers/kernel": {"ir"},
    "solvers": {"ir", "solvers/kernel"},
    "solvers/witness": {"ir", "solvers/kernel", "solvers"},
    "lowering": {"ir"},
    "verifier/execution": {"ir", "lowering"},
    "verifier/kernel": {"ir", "lowering", "solvers/kernel"},
    "verifier/witness": {"ir", "solvers/kernel", "solvers/witness", "verifier/kernel"},
    "verifier/structure": {"ir", "lowering"},
    "verifier/certificate": {"ir", "lowering", "solvers/kernel", "verifier/kernel", "verifier/structure"},
    "verifier": {"ir", "lowering", "solvers/kernel", "solvers", "solvers/witness", "verifier/execution", "verifier/kernel",
                 "verifier/witness", "verifier/structure", "verifier/certificate"},
    "runtime": {"ir", "verifier/execution"},
    "tools/check_certificate": {"ir", "verifier/certificate", "verifier/kernel"},
}
PROGRAMS = {"tools/check_certificate"}  # of USES: may print and exit
# What a wrong verdict of check-certificate could come from, besides reading the file (ir).
TRUSTED = ["solvers/kernel/*", "verifier/kernel/*", "verifier/structure/*", "verifier/certificate/*", "lowering/unfold*", "lowering/join*"]
UNTRUSTED = {"verifier/certificate/term_writer.h", "verifier/certificate/term_writer.cpp"}  # only the search uses them
LIBRARIES = {  # include prefix -> where it may be included
    "nlohmann/": {"ir", "lowering", "verifier", "tools", "tests"},
    "z3": {"solvers", "solvers/witness"},
    "openssl/": {"verifier/certificate"},
    "boost/": {"verifier/structure"},
    "torch/": {"runtime"},
    "ATen/": {"runtime"},
    "c10/": {"runtime"},
    "CLI/": {"tools", "tools/check_certificate"},
    "gtest/": {"tests"},
    "benchmark/": {"benchmarks"},
}
# Wraps a library for its own folder: may show its types.
WRAPPERS = {"runtime/torch_kernels.h"}
MAX_LINES = 600
# Spelled in two parts so that this file passes its own check.
FORBIDDEN = [".." + "/shared", "/work" + "/", "/tmp/" + "build-", "/root" + "/"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CODE = re.compile(r"\bSP\d{4}\b")
NAMED_CODE = re.compile(r'"(SP\d{4})"(?:,|;\s*\w+\.name\s*=)\s*"([a-z0-9-]+)"')
HABITS = [  # in libraries
    (re.compile(r"\bstd::(cout|cerr|clog)\b|\b(?:std::)?f?printf\s*\("), "libraries do not print"),
    (re.compile(r"\b(?:std::)?(?:exit|abort|_exit|quick_exit)\s*\("), "libraries do not end the program"),
    (re.compile(r"\b(?:std::)?getenv\s*\("), "libraries do not read the environment"),
]
CPP = {".cpp", ".h"}
TEXT = CPP | {".md", ".py", ".txt", ".cmake", ".json", ".sh", ""}


def tracked_files(root):
    """Files that are or would be committed."""
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("git") else None
    if listing and listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:  # an exported tree without its history, or no git
        names = [str(p.relative_to(root)) for p in root.rglob("*")
                 if not {"build", ".git", "__pycache__"} & set(p.relative_to(root).parts)]
    return sorted(pathlib.PurePosixPath(name) for name in names if (root / name).is_file())


def component_of(path):
    """The folder at the top, or one inside it that is a component of its own."""
    inner = "/".join(path.parts[:2])
    return inner if inner in USES else path.parts[0]


def strip_comments(line):
    return line.split("//", 1)[0]


class Checker:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.pages = {}  # code -> name
        for page in sorted((root / "verifier" / "rules").glob("SP*.md")):
            title = page.read_text().split("\n", 1)[0]
            match = re.fullmatch(r"# (SP\d{4}) ([a-z0-9-]+)", title)
            if not match or match[1] != page.stem:
                self.report(page.relative_to(root), 1, f"the title must be '# {page.stem} name'")
            else:
                self.pages[match[1]] = match[2]

    def report(self, path, line, message):
        self.problems.append(f"{path}:{line}: {message}")

    def check(self, path):
        raw = (self.root / path).read_bytes()
        if path.suffix not in TEXT or b"\0" in raw:
            return
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            self.report(path, 1, "not UTF-8")
            return
        lines = text.split("\n")
        if path.name != "LICENSE":
            self.check_text(path, text, lines)
        if path.suffix in CPP:
            self.check_cpp(path, lines)
        if path.suffix == ".py":
            self.check_python(path, text)
        if lines[0].startswith("#!") and "bash" in lines[0]:
            self.check_shell(path)

    def check_text(self, path, text, lines):
        if text and not text.endswith("\n"):
            self.report(path, len(lines), "no newline at the end of the file")
        for number, line in enumerate(lines, 1):
            for word in FORBIDDEN:
                if word in line:
                    self.report(path, number, f"'{word}' names a place outside this repository")
            if path.suffix not in {".json", ".md"} and line != line.rstrip():
                self.report(path, number, "trailing blanks")
            if path.suffix in CPP and "\t" in line:
                self.report(path, number, "tab")

    def check_cpp(self, path, lines):
        folder = component_of(path)
        if len(lines) - 1 > MAX_LINES:
            self.report(path, MAX_LINES, f"{len(lines) - 1} lines; the limit is {MAX_LINES}: split it by idea")
        if path.suffix == ".h" and not any(line.startswith("#pragma once") for line in lines):
            self.report(path, 1, "no #pragma once")
        for number, line in enumerate(lines, 1):
            include = INCLUDE.match(line)
            if include:
                self.check_include(path, folder, number, include[1], include[2])
            if folder in USES and folder not in PROGRAMS:
                for pattern, message in HABITS:
                    if pattern.search(strip_comments(line)):
                        self.report(path, number, message)
            if folder == "tests":
                continue
            for code in CODE.findall(line):
                if code not in self.pages:
                    self.report(path, number, f"{code} has no page verifier/rules/{code}.md")
        if folder != "tests":
            for code, name in NAMED_CODE.findall("\n".join(lines)):
                if self.pages.get(code, name) != name:
                    self.report(path, 1, f"{code} is called '{name}' here and '{self.pages[code]}' on its page")

    def check_include(self, path, folder, number, quote, target):
        for prefix, owners in LIBRARIES.items():
            if not target.startswith(prefix):
                continue
            if folder not in owners:
                self.report(path, number, f"<{target}> belongs to {', '.join(sorted(owners))}")
            if path.suffix == ".h" and folder != "tests" and str(path) not in WRAPPERS:
                self.report(path, number, f"third-party header <{target}> in a header")
        used = component_of(pathlib.PurePosixPath(target))
        # Tests may also name their neighbours, and folders of tests/.
        local = folder == "tests" and any((self.root / at / target).is_file() for at in (path.parent, "tests"))
        if quote == '"' and not local and not (self.root / target).is_file():
            self.report(path, number, f'"{target}" is not a path from the root of the repository')
        elif folder in USES and used != folder and quote == '"' and used not in USES[folder]:
            allowed = ", ".join(sorted(USES[folder])) or "nothing"
            self.report(path, number, f"{folder} may include {allowed} besides itself, not {used}")

    def check_python(self, path, text):
        try:
            compile(text, str(path), "exec")
        except SyntaxError as error:
            self.report(path, error.lineno or 1, f"syntax error: {error.msg}")

    def check_shell(self, path):
        parsed = subprocess.run(["bash", "-n", self.root / path], capture_output=True, text=True, check=False)
        if parsed.returncode != 0:
            self.report(path, 1, parsed.stderr.strip().replace("\n", "; "))


def print_trusted(root):
    """Lines of code, without blank lines and comments, of what a certificate's verdict rests on."""
    total = 0
    for pattern in TRUSTED:
        lines = 0
        for path in root.glob(pattern):
            if path.suffix in CPP and str(path.relative_to(root)) not in UNTRUSTED:
                lines += sum(1 for line in path.read_text().split("\n") if strip_comments(line).strip())
        print(f"{lines:6d} {pattern}")
        total += lines
    print(f"{total:6d} trusted lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("--trusted", action="store_true", help="print the number of trusted lines and check nothing")
    arguments = parser.parse_args()
    root = arguments.root
    if arguments.trusted:
        print_trusted(root)
        return 0
    checker = Checker(root)
    files = tracked_files(root)
    for path in files:
        checker.check(path)
    for problem in checker.problems:
        print(problem)
    print(f"{len(files)} files, {len(checker.problems)} problems")
    return 1 if checker.problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
