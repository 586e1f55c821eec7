# SPDX-License-Identifier: Apache-2.0
"""names.py LIBRARY NAMES [OTHER]: the library exports the names, each with its twin, and nothing else, under NCCL's
SONAME. OTHER is NVIDIA's library where it is installed: of what it exports nothing may be missing,
but for what is said below. Nor may anything be that a PyTorch needs which `make torch-versions` has fetched."""
import glob
import os
import subprocess
import sys

INSIDE = {"ncclResetDebugInitInternal"}  # exported by mistake: no header declares it


def exported(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[2].split("@")[0] for line in listing.splitlines() if line.split()[1] in "TDBRVW"}


def needed(library):
    """The names of this interface that a library of PyTorch wants from another one."""
    listing = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True,
                             text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    return {name for name in names if name.startswith(("nccl", "pnccl"))}


def pytorches():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return sorted(glob.glob(os.path.join(root, "build-torch*", "lib", "python3*", "site-packages", "torch", "lib",
                                         "libtorch_cuda.so")))


def main():
    library, names = sys.argv[1:3]
    with open(names, encoding="utf-8") as file:
        listed = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    listed |= {"p" + name for name in listed}
    have = exported(library)
    if listed != have or len(have) < 104:
        print(f"not exported: {sorted(listed - have)}; not listed: {sorted(have - listed)}")
        return 1
    dynamic = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    if not any(line.split() == ["SONAME", "libnccl.so.2"] for line in dynamic.splitlines()):
        print("the SONAME is not libnccl.so.2")
        return 1
    if len(sys.argv) > 3 and os.path.exists(sys.argv[3]):
        missing = exported(sys.argv[3]) - have - INSIDE
        if missing:
            print(f"{sys.argv[3]} has {sorted(missing)}")
            return 1
    for library in pytorches():
        missing = needed(library) - have
        if missing:
            print(f"{library} needs {sorted(missing)}")
            return 1
        print(f"{library} needs {len(needed(library))} of them")
    print(f"{len(have)} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
