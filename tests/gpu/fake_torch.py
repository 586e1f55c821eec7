# SPDX-License-Identifier: Apache-2.0
"""In place of our programs on PyTorch: leaves what torch_layers.py, torch_pipeline.py, torch_late.py,
torch_groups.py, torch_between.py or torch_beside.py would, sooner over tutti (LD_PRELOAD is set). FAKE=wrong: wrong
sums; fail: exit status 3; absent: a way that this library lacks; foreign: tutti has served nobody."""
import argparse
import json
import os
import sys

here, mode, rank = "LD_PRELOAD" in os.environ, os.environ.get("FAKE", ""), int(os.environ["RANK"])
parser = argparse.ArgumentParser()
parser.add_argument("what", choices=("layers", "pipeline", "late", "between", "beside", "groups"))
parser.add_argument("--folder")
parser.add_argument("--ways", nargs="*", default=[])
for name in ("batches", "sizes", "products", "rates", "rows"):
    parser.add_argument("--" + name, nargs="*", default=[])
options = parser.parse_known_args()[0]
us = (2.0 if here else 3.0) + rank
out = {"served": f"served: tutti communicators {int(here and mode != 'foreign')}; ncclAllReduce from x"}
if options.what == "layers":
    for way in options.ways:
        out[way] = {"layers": {key: us for key in options.batches}, "graph": {key: us for key in options.sizes},
                    "calls": {key: us for key in options.sizes}, "wrong": [4096] if mode == "wrong" else []}
    if mode == "absent" and not here:
        out["window"] = {"failed": "ncclCommWindowRegister: no"}
elif options.what == "pipeline":
    out["steps"] = {count: {"0": 9.0, **{key: 9.0 + us for key in options.sizes}}
                    for count in options.products}
elif options.what == "late":
    out["calls"] = {row: {"in step": [900 * us, 100 * us, 200 * us], "late": [300 * us] * 3, "nap": 110 * us}
                    for row in options.rows}
elif options.what == "groups":
    right = {"called, right": True, "in a graph, right": mode != "wrong"}
    out["rows"] = {row: {"called": 9 * us, "in a graph": us, **right} for row in options.rows}
elif options.what == "between":
    apart = os.environ["NCCL_HOSTID"] == str(rank)
    out["sizes"] = {size: {"called": 100 * us, "captured": 50 * us, "processors": 10 * us, "replays": 5,
                           "wrong": 0 if apart and mode != "wrong" else 3} for size in options.sizes}
else:
    turn = {"alone": 1.0, "beside": 1 + us / 100, "call": 2.0, "outlasted": 5.0, "moved": 100.0, "GHz alone": 1.8,
            "GHz": 1.75}
    out.update({name: {"call alone": 1.0, "turns": [turn] * 3} for name in ("ring", "allreduce")})
    out["rates"] = [{"rate": float(rate), "turns": [turn] * 3} for rate in options.rates]
with open(os.path.join(options.folder, f"out.{rank}.json"), "w", encoding="utf-8") as file:
    json.dump(out, file)
sys.exit(3 if mode == "fail" else 0)
