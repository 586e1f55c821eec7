# SPDX-License-Identifier: Apache-2.0
"""dynamic: a dispatch of tokens to experts by lengths that only the GPUs know, beside one that is padded (tutti's and
NCCL's) and NCCL's grouped messages; called and in CUDA graphs, one token choice and four, balanced and skewed."""
import os
import tempfile

from . import ranks
from .run import Budget, say, table, tail

WORKER = ["-m", "gpu_parts.torch_dynamic"]
WAYS = ("tutti, dynamic", "tutti, padded", "NCCL, padded", "NCCL, grouped", "NCCL, grouped, lengths from the GPU")
TOKENS = (1, 8, 32, 128, 256)
BINDINGS = os.path.join(os.path.dirname(ranks.ROOT), "bindings", "python")


def add_arguments(parser):
    parser.add_argument("--hidden", type=int, default=7168, help="numbers of a token (7168)")
    parser.add_argument("--tokens", type=int, nargs="*", default=list(TOKENS), help="of each rank (1 to 256)")


def one(options, limit):
    """([output of each rank] or None, complaint). NCCL's library is loaded beside tutti's own."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as trace:
        program = [*WORKER, "--library", os.path.join(options.libraries["nccl"], "libnccl.so.2"),
                   "--hidden", str(options.hidden), "--tokens", *map(str, options.tokens)]
        os.environ["PYTHONPATH"] = ":".join(filter(None, (BINDINGS, os.environ.get("PYTHONPATH"))))
        os.symlink(os.path.join(options.libraries["tutti"], "libtutti.so.0"), os.path.join(trace, "libtutti.so.0"))
        jobs = ranks.start_torch(options, trace, program, folder,
                                 {"TUTTI_TRACE_DIR": trace, "GLOO_SOCKET_IFNAME": "lo"}, preload=False)
        ranks.wait(jobs, limit)
        outs = ranks.outputs(folder, options.gpus)
        bad = [job.status for job in jobs if job.status]
        text = tail("".join(job.text() for job in jobs), 2500)
        return (outs if all(outs) else None), f"exit statuses {bad}\n{text}" if bad else ""


def rows_of(outs, kind):
    """Times of the slowest rank, then others' / tutti's."""
    rows = []
    for name, first in outs[0].items():
        if "failed" in first:
            continue
        us = {way: max(out[name][way][kind] for out in outs) for way in WAYS if kind in first[way]}
        ours = us[WAYS[0]]
        rows.append([name, f"{max(out[name]['sent'] for out in outs) / 1024:.0f}",
                     *[f"{us[way]:.1f}" if way in us else "-" for way in WAYS],
                     *[f"{us[way] / ours:.2f}" if way in us else "-" for way in WAYS[1:]]])
    return rows


def show(outs):
    texts = []
    for kind, head in (("called", "us of a dispatch, called"), ("graph", "us of a dispatch in a graph")):
        texts += [f"{head}; others' time / tutti's:", "",
                  table(["tokens:k:draw", "KiB sent", *WAYS, *[f"{way} /" for way in WAYS[1:]]], rows_of(outs, kind))]
    return "\n".join(texts)


def main(options, results):
    budget = Budget(options.budget)
    if options.quick:
        options.tokens = options.tokens[::2]
    say("dynamic")
    outs, complaint = one(options, budget.limit(options.limit))
    said = [complaint] if complaint else []
    if outs:
        results.data["raw"] = outs
        said += [f"rank {rank}, {name}: {found.get('failed', 'wrong rows')}" for rank, out in enumerate(outs)
                 for name, found in out.items() if found.get("wrong") or "failed" in found]
        print(show(outs))
    results.data["complaints"] = said
    for line in said:
        say(tail(line, 1500))
    results.save(complete=not said)
    return len(said)
