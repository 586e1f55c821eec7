#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two programs of a page say the same: the first over MPI, the second over tutti.

Usage: from_mpi.py PAGE TUTTI LIBRARY INCLUDE
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def run(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **more)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return sorted(done.stdout.splitlines())


def main():
    page, tutti, library, include = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        programs = re.findall(r"^```c\n(.*?)^```$", file.read(), re.S | re.M)
    assert len(programs) == 2 and "MPI_Scan" in programs[0] and "tutti_scan" in programs[1]
    where = os.path.dirname(library)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in zip(("mpi", "ours"), programs):
            with open(f"{folder}/{name}.c", "w", encoding="utf-8") as file:
                file.write(text)
        run(["cc", "-Wall", "-Werror", f"{folder}/ours.c", "-o", f"{folder}/ours", f"-I{include}", f"-L{where}",
             "-ltutti", f"-Wl,-rpath,{where}"])
        expected = [f"rank {r}: {r * (r + 1) // 2} to {(r + 1) * (r + 2) // 2}, last of all 5" for r in range(3)]
        said = run([tutti, "run", "-n", "3", "--no-tag", f"{folder}/ours"])
        assert said == expected, said
        if not shutil.which("mpicc.openmpi"):
            print("SKIPPED: no mpicc.openmpi: the program over MPI was NOT tested", file=sys.stderr)
            return 77
        run(["mpicc.openmpi", "-Wall", "-Werror", f"{folder}/mpi.c", "-o", f"{folder}/mpi"])
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        said = run(["mpirun.openmpi", "--oversubscribe", "-n", "3", f"{folder}/mpi"], env={**os.environ, **root})
        assert said == expected, said
    return 0


sys.exit(main())
