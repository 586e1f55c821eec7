# SPDX-License-Identifier: Apache-2.0
"""names.py LIBRARY CALLS NAMES CONSTANTS: the library has every call by both names, under the SONAME that programs of
MPICH look for, and its constants are those of the header of MPICH where that is installed."""
import os
import re
import subprocess
import sys
import tempfile

# Variables there, not constants.
VARIABLES = {"MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY", "MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE"}
HEADER = "/usr/include/x86_64-linux-gnu/mpich"


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def check_names(library, calls, names, constants):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    have = {line.split()[2].split("@")[0] for line in listing.splitlines()}
    built = [f"MPI_{row.split('(')[0]}" for row in rows(calls)] + ["MPI_Wtime", "MPI_Wtick"]
    refused = [name for name in rows(names) if name.startswith("MPI_")]
    wanted = {*built, *refused} | {name.replace("MPI_", "MPIABI_") for name in [*built, *refused]}
    wanted |= {row.split(" |")[0].replace("MPI_", "MPIABI_") for row in rows(constants)}
    if set(built) & set(refused) or wanted - have:
        sys.exit(f"both built and refused: {set(built) & set(refused)}; missing: {sorted(wanted - have)}")
    dynamic = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    if not any(line.split() == ["SONAME", "libmpi.so.12"] for line in dynamic.splitlines()):
        sys.exit("the SONAME is not libmpi.so.12")
    print(f"{len(built)} calls are built, {len(refused)} are refused with a sentence")


def check_constants(constants):
    if not os.path.exists(f"{HEADER}/mpi.h"):
        print("the header of MPICH is not installed: constants are NOT compared")
        return
    listed = [[word.strip() for word in row.split("|")] for row in rows(constants)]
    numbers = [(name, value) for name, _, value in listed if re.fullmatch(r"-?\d+|0x[0-9a-f]+", value)
               and name not in VARIABLES]
    program = '#include <mpi.h>\n#include <stdint.h>\n' + "".join(
        f'_Static_assert((int)(intptr_t)({name}) == (int){value}, "{name}");\n' for name, value in numbers)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "constants.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        subprocess.run(["gcc", "-w", "-fsyntax-only", f"-I{HEADER}", path], check=True)
    print(f"{len(numbers)} constants are those of MPICH's header")


check_names(*sys.argv[1:])
check_constants(sys.argv[4])
