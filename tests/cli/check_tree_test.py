"""tools/check_tree.py finds each kind of problem, and nothing in a clean tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK_TREE = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_tree.py"
PAGE = "# SP0001 syntax\n\nSeverity: error\n\nText.\n"


class CheckTree(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"verifier/rules/SP0001.md": PAGE, **files}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
            run = subprocess.run([sys.executable, CHECK_TREE, root], capture_output=True, text=True, check=False)
            return run.returncode, run.stdout

    def assert_problem(self, files, message):
        code, output = self.check(files)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)
        self.assertIn("1 problems", output)

    def test_clean_tree(self):
        code, output = self.check({
            "ir/a.h": '#pragma once\n#include <vector>\n',
            "verifier/b.cpp": '#include "ir/a.h"\n#include <nlohmann/json.hpp>\nauto code = {"SP0001", "syntax"};\n',
        })
        self.assertEqual(code, 0, output)

    def test_layers(self):
        self.assert_problem({"verifier/a.h": "#pragma once\n", "ir/b.cpp": '#include "verifier/a.h"\n'},
                            "ir/b.cpp:1: ir may include nothing besides itself, not verifier")
        self.assert_problem({"runtime/a.h": "#pragma once\n", "verifier/b.cpp": '#include "runtime/a.h"\n'},
                            "not runtime")

    def test_what_is_trusted_knows_no_search(self):
        self.assert_problem({"solvers/fold.h": "#pragma once\n", "solvers/kernel/b.cpp": '#include "solvers/fold.h"\n'},
                            "solvers/kernel may include ir besides itself, not solvers")
        self.assert_problem({"verifier/session.h": "#pragma once\n", "verifier/certificate/b.cpp": '#include "verifier/session.h"\n'},
                            "not verifier")
        self.assert_problem({"solvers/fold.h": "#pragma once\n", "tools/check_certificate/b.cpp": '#include "solvers/fold.h"\n'},
                            "not solvers")

    def test_third_parties(self):
        self.assert_problem({"ir/a.cpp": "#include <z3++.h>\n"}, "<z3++.h> belongs to solvers")
        self.assert_problem({"ir/a.h": "#pragma once\n#include <nlohmann/json.hpp>\n"}, "third-party header")

    def test_paths_and_guards(self):
        self.assert_problem({"ir/a.cpp": '#include "b.h"\n', "ir/b.h": "#pragma once\n"}, "not a path from the root")
        self.assert_problem({"ir/a.h": "int x;\n"}, "no #pragma once")

    def test_habits_of_libraries(self):
        self.assert_problem({"ir/a.cpp": "void f() { std::cout << 1; }\n"}, "libraries do not print")
        self.assert_problem({"ir/a.cpp": "void f() { exit(1); }\n"}, "libraries do not end the program")
        self.assert_problem({"ir/a.cpp": 'auto x = std::getenv("X");\n'}, "libraries do not read the environment")

    def test_size(self):
        self.assert_problem({"ir/a.cpp": "\n" * 601}, "601 lines")
        self.assertEqual(self.check({"ir/a.cpp": "\n" * 600})[0], 0)

    def test_codes(self):
        self.assert_problem({"ir/a.cpp": 'auto code = "SP0002";\n'}, "SP0002 has no page")
        self.assert_problem({"ir/a.cpp": 'f("SP0001", "other-name");\n'}, "called 'other-name' here and 'syntax'")
        self.assert_problem({"ir/a.cpp": 'd.code = "SP0001"; d.name = "other-name";\n'}, "called 'other-name'")
        self.assert_problem({"verifier/rules/SP0003.md": "# SP0004 name\n"}, "the title must be '# SP0003 name'")

    def test_text(self):
        self.assert_problem({"ir/a.cpp": "int x; \n"}, "trailing blanks")
        self.assert_problem({"ir/a.cpp": "int x;"}, "no newline")
        self.assert_problem({"ir/a.cpp": b"\xff\n"}, "not UTF-8")
        self.assert_problem({"README.md": "see .." + "/shared\n"}, "outside this repository")

    def test_scripts(self):
        self.assert_problem({"tools/a.py": "def f(:\n"}, "syntax error")
        self.assert_problem({"tools/a": "#!/usr/bin/env bash\nif\n"}, "syntax error")

    def test_empty_tree_is_a_problem(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, CHECK_TREE, folder], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)


if __name__ == "__main__":
    unittest.main()
