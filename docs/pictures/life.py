#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws an allreduce's way through the folders, for each kind of memory: life.py >life-of-an-operation.svg"""

ROW, TOP, LEFT, WIDTH, GAP = 62, 96, 150, 176, 12
LAYERS = ("api", "comm", "engine", "executor", "algorithm\nschedule", "link\npath", "transport", "device", "trace")
# Column -> colour and the steps: (layer, function, file).
WAYS = (
    ("host memory, several hosts", "#2471a3", {
        0: ("tutti_allreduce", "collective.c"), 1: ("comm_collective", "comm.h"),
        2: ("team_collective", "team.c"), 3: ("rounds_step", "engine/rounds.c"),
        4: ("choice_pick, ring", "choice.c, ring.c"), 5: ("link_send, pick", "bulk.c, stripe.c"),
        6: ("put, msg", "tcp/send.c"), 7: ("reduction_apply", "reduce.h"), 8: ("trace_op_name", "trace.c")}),
    ("host memory, one host", "#1e8449", {
        0: ("tutti_allreduce", "collective.c"), 1: ("comm_collective", "comm.h"),
        2: ("team_collective", "team.c"), 3: ("shared_step", "engine/shared.c"),
        4: ("choice_pick, direct", "choice.c, direct.c"),
        7: ("reduction_apply", "reduce.h"), 8: ("trace_op_name", "trace.c")}),
    ("GPUs that reach each other", "#b9770e", {
        0: ("tutti_allreduce", "collective.c"), 1: ("comm_collective", "comm.h"),
        3: ("reduce_issue", "gpu/reduce.c"),
        7: ("cuda_launch, kernels", "cuda/launch.c"), 8: ("record_call", "gpu/record.c")}),
    ("GPUs through the host", "#7d3c98", {
        0: ("tutti_allreduce", "collective.c"), 1: ("comm_collective", "comm.h"),
        2: ("team_collective", "team.c"), 3: ("slice_pipeline", "staged/slice.c"),
        4: ("choice_pick, ring", "choice.c, ring.c"), 5: ("link_send, pick", "bulk.c, stripe.c"),
        6: ("put, msg", "tcp/send.c"), 7: ("copies, reduction_apply", "cuda, reduce.h"),
        8: ("record_call", "gpu/record.c")}),
)
# The order in which a way goes through the layers: staging comes to its executor before the engine.
ORDER = {3: (0, 1, 3, 2, 4, 5, 6, 7, 8)}


def text(x, y, words, size=11, **more):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x}" y="{y}" font-size="{size}"{attributes}>{words}</text>'


def layer_rows(width):
    out = []
    for index, name in enumerate(LAYERS):
        y = TOP + index * ROW
        out.append(f'<rect x="8" y="{y}" width="{width - 16}" height="{ROW - 6}" '
                   f'fill="{"#f4f6f7" if index % 2 else "#eaeded"}"/>')
        for line, part in enumerate(name.split("\n")):
            out.append(text(18, y + 24 + 18 * line, "src/" + part, 13, font_weight="bold"))
    return out


def way(index, name, color, steps):
    x = LEFT + index * (WIDTH + GAP)
    out = [text(x + WIDTH / 2, TOP - 16, name, 12, font_weight="bold", fill=color, text_anchor="middle")]
    order = [layer for layer in ORDER.get(index, sorted(steps)) if layer in steps]
    for number, layer in enumerate(order, 1):
        function, file = steps[layer]
        y = TOP + layer * ROW + 6
        out += [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{ROW - 18}" rx="5" fill="#fff" stroke="{color}" '
                'stroke-width="1.6"/>', text(x + 8, y + 18, f"{number} {function}", 12, fill=color),
                text(x + 8, y + 35, file, 11, fill="#555")]
    return out


def main():
    width, height = LEFT + len(WAYS) * (WIDTH + GAP) + 8, TOP + len(LAYERS) * ROW + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           text(18, 34, "The way of an allreduce through the folders", 18, font_weight="bold"),
           text(18, 56, "Numbers are the order of a way; an empty cell is a folder that it does not enter.",
                12, fill="#555")]
    out += layer_rows(width)
    for index, (name, color, steps) in enumerate(WAYS):
        out += way(index, name, color, steps)
    print("\n".join(out + ["</svg>"]))


if __name__ == "__main__":
    main()
