#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares src/device/cuda/abi.h and driver.tbl with NVIDIA's cuda.h, where that is installed: numbers, sizes,
offsets, prototypes.

    abi_check.py ROOT CC [FOLDER OF cuda.h]      exit status 77 without cuda.h
"""
import os
import re
import subprocess
import sys
import tempfile

STRUCTS = ["CUuuid", "CUipcMemHandle", "CUstreamBatchMemOpParams", "CUmemLocation", "CUmemAllocationProp",
           "CUmemAccessDesc", "CUlaunchAttributeValue", "CUlaunchAttribute", "CUlaunchConfig"]
OFFSETS = [("CUstreamBatchMemOpParams", "waitValue.address"), ("CUstreamBatchMemOpParams", "waitValue.value64"),
           ("CUstreamBatchMemOpParams", "writeValue.flags"), ("CUstreamBatchMemOpParams", "waitValue.alias"),
           ("CUmemAllocationProp", "location"), ("CUmemAllocationProp", "allocFlags"), ("CUlaunchConfig", "hStream"),
           ("CUlaunchConfig", "attrs"), ("CUlaunchConfig", "numAttrs"), ("CUlaunchAttribute", "value")]


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def facts(cc, folder, include, names):
    """What a program prints that knows only this header."""
    lines = [f'printf("{n} %d\\n", (int){n});' for n in names]
    lines += [f'printf("sizeof {s} %zu\\n", sizeof({s}));' for s in STRUCTS]
    lines += [f'printf("{s}.{m} %zu\\n", offsetof({s}, {m}));' for s, m in OFFSETS]
    with tempfile.TemporaryDirectory() as at:
        source, program = os.path.join(at, "facts.c"), os.path.join(at, "facts")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f"#include <{include}>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{{\n"
                       + "\n".join(lines) + "\n}\n")
        subprocess.run([*cc, "-I", folder, "-o", program, source], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def prototypes(cc, folder, table):
    """Every row assigned from the function that it names."""
    rows = re.findall(r'CALL\((\w+), "(\w+)", [01],\s*(\(.*?\))\)\s*\n',
                      re.sub(r"/\*.*?\*/", "", table, flags=re.S), flags=re.S)
    text = "#define __CUDA_API_VERSION_INTERNAL 1\n#include <cuda.h>\n"
    text += "".join(f"CUresult (*row_{m}){a} = {s};\n" for m, s, a in rows)
    flags = ["-I", folder, "-x", "c", "-fsyntax-only", "-Werror=incompatible-pointer-types", "-"]
    return len(rows), subprocess.run([*cc, *flags], input=text, capture_output=True, text=True)


def main():
    root, cc = sys.argv[1], sys.argv[2].split()
    folder = sys.argv[3] if len(sys.argv) > 3 else "/usr/local/cuda/include"
    if not os.path.exists(os.path.join(folder, "cuda.h")):
        sys.exit(77)
    names = sorted(set(re.findall(r"\b(CU(?:DA)?_[A-Z0-9_]+)\s*=", read(root, "src/device/cuda/abi.h"))))
    mine, theirs = (facts(cc, *where, names)
                    for where in ((os.path.join(root, "src"), "device/cuda/abi.h"), (folder, "cuda.h")))
    wrong = [f"{a}, cuda.h: {b}" for a, b in zip(mine, theirs) if a != b]
    count, result = prototypes(cc, folder, read(root, "src/device/cuda/driver.tbl"))
    print("\n".join(wrong) + result.stderr)
    print(f"{len(mine)} facts, {count} prototypes compared")
    sys.exit(1 if wrong or result.returncode or not count else 0)


main()
