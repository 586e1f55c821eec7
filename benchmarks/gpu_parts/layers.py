# SPDX-License-Identifier: Apache-2.0
"""layers: the all-reduces of a decoder's layers (tensor parallel, hidden 8192, bf16, two a layer, in a CUDA graph):
time for each token over NCCL, its symmetric windows, PyTorch's symmetric memory and tutti; and single sizes."""
import tempfile

from . import ranks
from .run import Budget, say, size_name, table, tail

WORKER = ["-m", "gpu_parts.torch_layers"]
# name in the tables: library, way of torch_layers.py
WAYS = {"NCCL": ("nccl", "plain"), "NCCL, windows": ("nccl", "window"), "PyTorch one-shot": ("nccl", "one-shot"),
        "PyTorch two-shot": ("nccl", "two-shot"), "tutti": ("tutti", "plain"), "tutti, windows": ("tutti", "window")}
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SIZES = tuple(1 << power for power in range(16, 25))
LAYERS = 80


def add_arguments(parser):
    parser.add_argument("--hidden", type=int, default=8192, help="numbers of a token (8192)")
    parser.add_argument("--batches", type=int, nargs="*", default=list(BATCHES), help="tokens of a step (1 to 256)")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="bytes of single calls (64K to 16M)")


def one(options, library, limit):
    """([output of each rank] or None, complaint)"""
    ways = [way for _, (mine, way) in WAYS.items() if mine == library]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as trace:
        path = options.libraries[library]
        program = [*WORKER, "--library", path + "/libnccl.so.2", "--ways", *ways, "--hidden", str(options.hidden),
                   "--layers", str(LAYERS), "--batches", *map(str, options.batches),
                   "--sizes", *map(str, options.sizes)]
        jobs = ranks.start_torch(options, path, program, folder,
                                 {"TUTTI_TRACE_DIR": trace, "GLOO_SOCKET_IFNAME": "lo"}, library == "tutti")
        ranks.wait(jobs, limit)
        outs = ranks.outputs(folder, options.gpus)
        bad = [job.status for job in jobs if job.status]
        text = tail("".join(job.text() for job in jobs), 2500)
        return (outs if all(outs) else None), f"exit statuses {bad}\n{text}" if bad else ""


def slowest(outs, way, kind):
    """{key: us of the slowest rank}"""
    found = [out.get(way, {}).get(kind, {}) for out in outs]
    return {key: max(one[key] for one in found) for key in found[0] if all(key in one for one in found)}


def complaints(outs, library):
    said = []
    for _, (mine, way) in WAYS.items():
        for rank, out in enumerate(outs if mine == library else []):
            got = out.get(way, {})
            said += [f"{library}, {way}, rank {rank}: {got['failed']}"] if "failed" in got else []
            said += [f"{library}, {way}, rank {rank}: wrong sums of {got['wrong']} bytes"] if got.get("wrong") else []
    if library == "tutti" and "tutti communicators 0" in outs[0].get("served", ""):
        said.append("nothing proves that tutti served it: " + outs[0]["served"])
    return said


def rows_of(found, kind, scale, name):
    """A row for each size: times of all ways, then peers' time / tutti's best."""
    keys = sorted({int(key) for way in found.values() for key in way.get(kind, {})})
    rows = []
    for key in keys:
        us = {way: kinds.get(kind, {}).get(str(key)) for way, kinds in found.items()}
        ours = [us[way] for way in WAYS if way.startswith("tutti") and us.get(way)]
        cells = [f"{us[way] * scale:.1f}" if us.get(way) else "-" for way in WAYS]
        ratios = [f"{us[way] / min(ours):.2f}" if ours and us.get(way) else "-"
                  for way in WAYS if not way.startswith("tutti")]
        rows.append([name(key), *cells, *ratios])
    return rows


def show(found, hidden=8192):
    peers = [f"{way} / tutti" for way in WAYS if not way.startswith("tutti")]
    texts = []
    for kind, head, scale, first, name in (
            ("layers", f"us for each token step of {LAYERS} layers, {2 * LAYERS} all-reduces in a graph", 2 * LAYERS,
             "tokens", lambda batch: f"{batch} ({size_name(batch * hidden * 2)})"),
            ("graph", "us of an all-reduce in a graph", 1, "size", size_name),
            ("calls", "us of an all-reduce, called", 1, "size", size_name)):
        texts += [f"{head}; peer's time / tutti's faster way:", "",
                  table([first, *WAYS, *peers], rows_of(found, kind, scale, name))]
    return "\n".join(texts)


def main(options, results):
    budget, failed = Budget(options.budget), 0
    if options.quick:
        options.batches, options.sizes = options.batches[::2], options.sizes[::2]
    found = results.data["found"] = {}
    results.data.update(complaints=[], raw={}, hidden=options.hidden)
    for library in options.libraries:
        limit = budget.limit(options.limit)
        if not limit:
            failed += 1
            continue
        say(f"layers: {library}")
        outs, complaint = one(options, library, limit)
        said = [complaint] if complaint else []
        if outs:
            results.data["raw"][library] = outs
            said += complaints(outs, library)
            for name, (mine, way) in WAYS.items():
                if mine == library:
                    found[name] = {kind: slowest(outs, way, kind) for kind in ("layers", "graph", "calls")}
        failed += bool(said) and library == "tutti"
        results.data["complaints"] += said
        for line in said:
            say(tail(line, 1500))
        results.save()
    print(show(found, options.hidden))
    results.save(complete=not failed)
    return failed
