# SPDX-License-Identifier: Apache-2.0
"""Draws jobs: ranks, communicators and the steps of each rank, as scripts of tests/diagnosis/player.c.

No step is written down anywhere: a shape is drawn first, then which collectives of which sizes and roots a step has, in
which communicators, where ranks compute, and whether each call is waited for at once or all at the end of the step.
"""
import math

ROOTED = ("reduce", "broadcast", "gather", "scatter")
COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "alltoall", "barrier", *ROOTED)
SMALL, LARGE = 12, 20000  # elements, drawn evenly by their logarithms
NETWORK = (20000, 80000)  # where the network is to matter


class Item:
    """A part of a step: for each rank its lines, each with the steps that it is for."""

    def __init__(self, name, lines, comm=None):
        self.name, self.comm = name, comm
        self.lines = {rank: [("*", line) for line in some] for rank, some in lines.items()}

    def differs(self, other, rank):
        return [line for _, line in self.lines.get(rank, [])] != [line for _, line in other.lines.get(rank, [])]


class Plan:
    def __init__(self, draw, ranks, network=False):
        self.draw, self.ranks, self.network = draw, ranks, network
        self.comms = {}  # name: color of each rank; the key is the rank
        self.items = []
        self.rest_us = draw.randrange(20000, 70000)
        self.at_once = draw.random() < 0.6
        shapes = ["flat"] + ["grid"] * 2 * (ranks >= 4) + ["parts"] * (ranks >= 4) + ["ring"] * (ranks >= 3)
        self.shape = draw.choice(shapes)
        getattr(self, self.shape)()
        if not self.at_once:
            self.wait_at_the_end()

    # ---- Communicators

    def members(self, comm, rank):
        if comm == "world":
            return list(range(self.ranks))
        return [one for one in range(self.ranks) if self.comms[comm][one] == self.comms[comm][rank]]

    def place(self, comm, rank):
        return self.members(comm, rank).index(rank)

    def add_comm(self, name, colors):
        """Not one in which a rank would be alone."""
        if all(colors.count(color) > 1 for color in colors):
            self.comms[name] = colors
            return True
        return False

    # ---- Parts of a step

    def count(self):
        low, high = NETWORK if self.network else (SMALL, LARGE)
        return int(math.exp(self.draw.uniform(math.log(low), math.log(high))))

    def compute(self, part):
        """Most of it rests, as the processor does while a GPU computes; no two ranks take the same time."""
        self.items.append(Item("compute", {
            rank: [f"rest {int(self.rest_us * part * self.draw.uniform(0.96, 1.04))}",
                   f"burn {int(self.rest_us * part * self.draw.uniform(0.005, 0.02))}"] for rank in range(self.ranks)}))

    def call(self, comm, when=None, names=COLLECTIVES):
        """A collective that the step does not have yet in this communicator."""
        least = min(len(self.members(comm, rank)) for rank in range(self.ranks))
        while True:
            name, count = self.draw.choice(names), self.count()
            if name in ("allgather", "gather", "scatter", "reduce_scatter", "alltoall"):
                count = max(1, count // self.ranks)
            if (name, comm) not in [(item.name, item.comm) for item in self.items]:
                break
        root = self.draw.randrange(least) if name in ROOTED else 0
        lines = [f"{name} {comm} {count} {root}"] + [f"sync {comm}"] * self.at_once
        item = Item(name, {rank: list(lines) for rank in range(self.ranks)}, comm)
        if when:
            item.lines = {rank: [(when, line) for _, line in some] for rank, some in item.lines.items()}
        self.items.append(item)

    def wait_at_the_end(self):
        used = sorted({item.comm for item in self.items if item.comm})
        self.items.append(Item("wait", {rank: [f"sync {comm}" for comm in used] for rank in range(self.ranks)}))

    # ---- Shapes

    def flat(self):
        self.compute(0.6)
        for number in range(self.draw.randrange(2, 5)):
            self.call("world")
            if number == 0:
                self.compute(0.4)

    def parts(self):
        """Groups of neighbours or of every so manieth rank; all meet in each step or now and then."""
        sizes = [n for n in range(2, self.ranks // 2 + 1) if self.ranks % n == 0]
        size = self.draw.choice(sizes or [self.ranks])
        self.add_comm("near", [rank // size for rank in range(self.ranks)])
        if sizes and self.draw.random() < 0.6:
            self.add_comm("far", [rank % size for rank in range(self.ranks)])
        self.compute(0.5)
        for name in self.comms:
            for _ in range(self.draw.randrange(1, 3)):
                self.call(name)
        self.compute(0.5)
        every = self.draw.choice((1, 1, 2, 5))
        self.call("world", None if every == 1 else f"%{every}.0")

    def ring(self):
        count = self.count()
        lines = {rank: ["group", f"send world {count} {(rank + 1) % self.ranks}",
                        f"recv world {count} {(rank - 1) % self.ranks}", "end", "sync world"]
                 for rank in range(self.ranks)}
        self.compute(0.5)
        self.items.append(Item("exchange", lines, "world"))
        self.compute(0.5)
        for _ in range(self.draw.randrange(1, 3)):
            self.call("world")

    def grid(self):
        """Tensor, stages, copies: the order of the three in the ranks' numbers is drawn, too."""
        fits = [(t, p, self.ranks // t // p) for t in (1, 2, 4) for p in (1, 2, 4, 3)
                if self.ranks % (t * p) == 0 and sum(n > 1 for n in (t, p, self.ranks // t // p)) > 1]
        if not fits:
            self.shape = "flat"
            self.flat()
            return
        sizes = dict(zip(("tensor", "stages", "copies"), self.draw.choice(fits)))
        order, stride, at = self.draw.sample(sorted(sizes), 3), 1, {}
        for name in order:
            at[name] = [rank // stride % sizes[name] for rank in range(self.ranks)]
            stride *= sizes[name]
        for name in sizes:
            others = [other for other in sizes if other != name]
            self.add_comm(name, [at[others[0]][rank] * 100 + at[others[1]][rank] for rank in range(self.ranks)])
        for way in (1, -1):
            self.through(at["stages"], sizes["stages"], way)
        if "copies" in self.comms:
            for _ in range(self.draw.randrange(1, 3)):
                self.call("copies")
        if self.draw.random() < 0.5 or not {"copies", "tensor"} & set(self.comms):
            self.call("world")

    def through(self, stage, stages, way):
        count = self.count()

        def message(verb, of):
            return {rank: [f"{verb} stages {count} {of(stage[rank])}", "sync stages"] for rank in range(self.ranks)
                    if 0 <= of(stage[rank]) < stages}
        if stages > 1:
            self.items.append(Item("recv", message("recv", lambda at: at - way), "stages"))
        self.compute(0.5 / max(1, stages - 1))
        if "tensor" in self.comms:
            self.call("tensor")
        if stages > 1:
            self.items.append(Item("send", message("send", lambda at: at + way), "stages"))

    # ---- Scripts

    def seconds(self):
        """Of a step, about."""
        stages = len(set(self.comms["stages"])) if "stages" in self.comms else 1
        return (self.rest_us + 4000) / 1e6 * (1.5 if stages > 1 else 1)

    def calls(self, rank, names=None):
        """Places of the collectives that this rank makes in each step."""
        return [at for at, item in enumerate(self.items) if item.name in (names or COLLECTIVES) and item.comm and
                item.lines.get(rank) and item.lines[rank][0][0] == "*"]

    def script(self, rank):
        lines = [f"comm {name} world {colors[rank]} {rank}" for name, colors in self.comms.items()]
        lines += [f"{when} {line}" for item in self.items for when, line in item.lines.get(rank, [])]
        return "\n".join(lines) + "\n"

    def words(self):
        return f"{self.shape} of {self.ranks}, {'each call' if self.at_once else 'each step'} waited for: " + \
            ", ".join(f"{item.name}{' in ' + item.comm if item.comm else ''}" for item in self.items)
