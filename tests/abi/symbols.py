# SPDX-License-Identifier: Apache-2.0
"""symbols.py LIBRARY HEADER: the library exports what the header declares with TUTTI_API, and nothing else; and a
program that runs already can load it, which takes that none of its memory of threads has a place fixed when programs
start. It needs no library but the system's: what programs preload must bring nothing along that they have in another
version."""
import ctypes
import re
import subprocess
import sys


def main():
    library, header = sys.argv[1:3]
    text = re.sub(r"/\*.*?\*/", "", open(header, encoding="utf-8").read(), flags=re.S)
    declared = set(re.findall(r"^TUTTI_API\b[^;(]*?(\w+)\(", text, flags=re.M))
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[2].split("@")[0] for line in listing.splitlines() if line.split()[1] in "TDBRVW"}
    missing, surplus = sorted(declared - exported), sorted(exported - declared)
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    if "STATIC_TLS" in dynamic:
        print(f"{library} wants static memory of threads: dlopen() fails where little is left")
        return 1
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    strange = [name for name in needed if not re.match(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-\S+)\.so", name)]
    if strange:
        print(f"{library} needs {', '.join(strange)}")
        return 1
    ctypes.CDLL(library)
    if missing or surplus or not declared:
        print(f"declared but not exported: {missing}; exported but not declared: {surplus}; {len(declared)} declared")
    return 1 if missing or surplus or not declared else 0


if __name__ == "__main__":
    sys.exit(main())
