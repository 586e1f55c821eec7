# SPDX-License-Identifier: Apache-2.0
"""What a type checker makes of a program: mypy --strict on one that is right, and on one whose mistakes are marked."""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = """\
import tutti

comm = tutti.init(timeout=30.0)
data = bytearray(8)
half = comm.split(comm.rank % 2)
half.barrier()  # no None
if comm.split(None if comm.rank else 0) is None:
    print("in none")
comm.allreduce(data, op="max").wait(1.0)
operator: tutti.OpName = "avg"
comm.reduce(data, op=operator)
comm.allreduce(data, op=comm.premul_sum(0.5, "float32"))
try:
    comm.scan(data, wait=False).wait()
except tutti.RemoteError as error:
    print(error.code.name)
with tutti.group():
    comm.send(data, 1)
"""
MISTAKES = """\
import tutti

comm = tutti.init(timeout="long")  # arg-type
comm.allreduce(bytearray(8), op="summ")  # arg-type
comm.split(0 if comm.rank else None).barrier()  # union-attr
comm.split("red")  # call-overload
comm.broadcst(bytearray(8))  # attr-defined
"""


def complaints(folder, text):
    path = os.path.join(folder, "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary",
                           f"--cache-dir={folder}/cache", path], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "MYPYPATH": os.environ["PYTHONPATH"]}, check=False)
    assert not done.stderr, done.stderr
    return [(int(line), kind) for line, kind in re.findall(r"(?m):(\d+): error: .*\[([a-z-]+)\]$", done.stdout)]


with tempfile.TemporaryDirectory() as own:
    found = complaints(own, PROGRAM)
    assert found == [], found
    found = complaints(own, MISTAKES)
    wanted = [(number, line.split("# ")[1]) for number, line in enumerate(MISTAKES.splitlines(), 1) if "# " in line]
    assert found == wanted, (found, wanted)
