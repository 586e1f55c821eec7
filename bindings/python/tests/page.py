# SPDX-License-Identifier: Apache-2.0
"""Runs the Python examples of a page, as two ranks each, and compares what they print with what the page says.

page.py PAGE.md: an example is an indented block of Python with `import`;
the lines behind "# prints:" are what rank 0 prints.
"""
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(?:^    .*\n|^\n)+", re.M)


def examples(text):
    """(program, output) of each example."""
    for match in BLOCK.finditer(text):
        lines = [line[4:] for line in match.group(0).strip("\n").split("\n")]
        if not any(line.startswith(("import ", "from ")) for line in lines):
            continue
        program, output = lines, []
        if "# prints:" in lines:
            at = lines.index("# prints:")
            program, output = lines[:at], [line.removeprefix("# ") for line in lines[at + 1:]]
        yield "\n".join(program), "\n".join(output)


def run(program, folder, number):
    path = os.path.join(folder, f"example{number}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program + "\n")
    result = subprocess.run(["tutti", "run", "-n", "2", "--", sys.executable, path], capture_output=True,
                            text=True, timeout=60)
    lines = [line.removeprefix("[0] ") for line in result.stdout.split("\n") if line.startswith("[0] ")]
    return result.returncode, "\n".join(lines), result.stderr


def main():
    ran = failed = 0
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    wants_torch = len(sys.argv) > 2
    with tempfile.TemporaryDirectory() as folder:
        for program, output in examples(text):
            if ("import torch" in program) != wants_torch:
                continue
            ran += 1
            status, seen, errors = run(program, folder, ran)
            if status != 0 or seen != output:
                failed += 1
                print(f"{program}\n-- ended with {status} and printed:\n{seen}\n-- expected:\n{output}\n-- "
                      f"errors:\n{errors}")
    print(f"{ran - failed} of {ran} examples of {sys.argv[1]} print what the page says")
    return failed != 0 or ran == 0


sys.exit(main())
