# SPDX-License-Identifier: Apache-2.0
"""Every feature of torch.distributed on several versions of PyTorch: torch_matrix.py in the Python of each.

torch_versions.py [--pythons PYTHON,...] [--all] [--gloo] [--markdown FILE]

Without --pythons: those that `make torch-versions` fetched, the newest on PyPI and 2.11; with --all those of
`make torch-versions ALL=1`, and Debian's. All features run on 2 ranks, and some on 4. Gloo is asked what tutti refuses
or fails; with --gloo all. Exit status 1: a feature fails, or is refused and Gloo has it; 77: no PyTorch is there.
"""
import argparse
import contextlib
import glob
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
MANY = ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "coalesced_by_start_and_end",
        "batch_isend_irecv_20_MiB", "objects", "new_group", "split_group", "fsdp2", "pipelining", "reconfigure",
        "reconfigure_late", "reconfigure_apart", "reconfigure_fewer", "reconfigure_after_abort", "reconfigure_again",
        "shrink_group"]
SECONDS = 240


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pythons", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("--markdown")
    return parser.parse_args()


def pythons(arguments):
    """Those that are there."""
    if arguments.pythons:
        return arguments.pythons.split(",")
    wanted = ["build-torch-newest", "build-torch-2.11"] + (["build-torch-2.*"] if arguments.all else [])
    found = [path for name in wanted for path in sorted(glob.glob(os.path.join(ROOT, name, "bin", "python")))]
    return list(dict.fromkeys(found)) + (["/usr/bin/python3"] if arguments.all else [])


def version(python):
    """Of its PyTorch; None: it has none."""
    told = subprocess.run([python, "-c", "from importlib import metadata; print(metadata.version('torch'))"],
                          capture_output=True, text=True)
    return told.stdout.strip().split("+")[0] if told.returncode == 0 else None


def start(python):
    """torch_matrix.py: PyTorch takes longer to be imported than most features take."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TUTTI_DEBUG": "none", "CUDA_VISIBLE_DEVICES": "",
                   "GLOO_SOCKET_IFNAME": "lo", "PYTHONPYCACHEPREFIX": os.path.join(os.path.dirname(python), "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen([python, os.path.join(HERE, "torch_matrix.py")], env=environment, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def run(program, backend, ranks, features=()):
    """What became of each feature."""
    found, late = {}, threading.Timer(SECONDS, program.kill)
    late.start()
    with contextlib.suppress(BrokenPipeError):
        os.write(program.stdin.fileno(), " ".join((backend, str(ranks), *features, "\n")).encode())
    for line in iter(program.stdout.readline, "\n"):
        if not line:
            break
        if line.count("\t") == 2:
            name, told, _ = line.split("\t")
            found[name] = told
    late.cancel()
    for feature in features or (["shrink_group"] if "shrink_group" not in found else []):
        found.setdefault(feature, f"FAIL: its ranks ended before it, or took {SECONDS} s")
    return found


def join(two, four):
    """The worse of two outcomes of each feature."""
    return {name: four[name] if four.get(name, "ok").startswith(("FAIL", "refused")) else told
            for name, told in two.items()}


def kind(told):
    return told.split(":")[0]


def one_version(arguments, python):
    """The outcomes with tutti, and those with Gloo that were asked for."""
    with start(python) as program:
        tutti = join(run(program, "tutti", 2), run(program, "tutti", 4, MANY))
        asked = [] if arguments.gloo else [name for name, told in tutti.items() if kind(told) in ("refused", "FAIL")]
        gloo = run(program, "gloo", 2, asked) if asked or arguments.gloo else {}
        program.stdin.close()
    return tutti, gloo


def worse(name, tutti, gloo):
    return kind(tutti[name]) == "FAIL" or (kind(tutti[name]) == "refused" and gloo.get(name) == "ok")


def table(found):
    """Markdown: features by versions, those with the same outcomes in one line; what Gloo does is beside where that
    is not the same."""
    yield "| | " + " | ".join(found) + " |"
    yield "|---" * (len(found) + 1) + "|"
    rows = {}
    for name in dict.fromkeys(name for tutti, _ in found.values() for name in tutti):
        cells = []
        for tutti, gloo in found.values():
            mine, theirs = kind(tutti.get(name, "-")), kind(gloo.get(name, ""))
            cells.append(mine if theirs in ("", mine) else f"{mine} (Gloo: {theirs})")
        rows.setdefault(tuple(cells), []).append(f"`{name}`")
    for cells, names in rows.items():
        yield "| " + " | ".join((", ".join(names), *cells)) + " |"


def main():
    arguments = options()
    found, bad = {}, []
    for python in pythons(arguments):
        name = version(python)
        if name is None:
            print(f"left out: {python} has no PyTorch", flush=True)
            continue
        found[name] = tutti, gloo = one_version(arguments, python)
        for feature, told in tutti.items():
            if told not in ("ok", "-"):
                print(f"{name} {feature}: {told}\n    Gloo: {gloo.get(feature)}", flush=True)
        bad += [f"{name} {feature}" for feature in tutti if worse(feature, tutti, gloo)]
    if not found:
        print("SKIPPED: no PyTorch here: make torch-versions fetches the newest and 2.11")
        return 77
    lines = list(table(found))
    print("\n".join(lines))
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    print(*(f"worse than Gloo: {one}" for one in bad), sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
