#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tables as gpu_limits does, with made-up figures: for the tests of benchmarks/gpu.py.
FAKE=wrong|fail|hang|garbage misbehaves."""
import json
import os
import sys
import time

TABLES = {
    "copies": {"title": "GB/s of each GPU, by fake_limits.py",
               "heads": ["copy engines", "1 MiB"], "rows": [["ring, pushing", 389.1]]},
    "waits": {"title": "Driver calls", "heads": ["call", "beside a kernel"],
              "rows": [["cuMemFree", "WAITS"], ["cuMemCreate", "0.12 ms"]]},
}
TAKING = ("--json", "--gpus", "--most", "--limit")


def main():
    words, given, todo = sys.argv[1:], {}, []
    while words:
        word = words.pop(0)
        if word in TAKING:
            given[word] = words.pop(0)
        else:
            todo.append(word)
    mode = os.environ.get("FAKE")
    if mode == "garbage":
        print("Segmentation fault")
        return 139
    said = ["ring: 7 words are wrong"] if mode == "wrong" else []
    parts = [{"part": name, "seconds": 1, "notes": ["a note"], "complaints": said, "tables": [TABLES[name]]}
             for name in todo or TABLES]
    with open(given["--json"], "w", encoding="utf-8") as file:
        json.dump({"gpus": int(given["--gpus"]), "name": "none", "driver": 0, "complete": mode != "hang",
                   "parts": parts}, file)
    if mode == "hang":
        time.sleep(600)
    return {"wrong": 1, "fail": 2}.get(mode, 0)


if __name__ == "__main__":
    sys.exit(main())
