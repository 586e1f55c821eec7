# SPDX-License-Identifier: Apache-2.0
"""One process of a training by hybrid sharding: a unit of two processes holds the model in two shards, and units
average their gradients by tutti.Elastic. elastic.py starts it.

Within a unit: weights are gathered, each process works on its half of the unit's batch, gradients are scattered. All of
that is one tutti communicator of two ranks. Between units: one elastic allreduce of the shard. If a process of a unit
dies, its partner fails in the unit's communicator, leaves, and the group goes on without the unit.
"""
import argparse
import json
import os
import sys
import time

import torch
from torch import nn

import tutti

SHARDS = 2
BATCH = 16  # samples of one process in one step


class Model:
    """A classifier of points on three spirals, as one flat vector of weights."""

    def __init__(self):
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
        self.count = sum(p.numel() for p in self.net.parameters())
        self.part = -(-self.count // SHARDS)

    def weights(self):
        flat = torch.zeros(self.part * SHARDS)
        flat[:self.count] = torch.cat([p.detach().flatten() for p in self.net.parameters()])
        return flat

    def load(self, flat):
        at = 0
        for p in self.net.parameters():
            p.data.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()

    def gradient(self, points, labels):
        loss = nn.functional.cross_entropy(self.net(points), labels)
        self.net.zero_grad()
        loss.backward()
        flat = torch.zeros(self.part * SHARDS)
        flat[:self.count] = torch.cat([p.grad.flatten() for p in self.net.parameters()])
        return loss.item(), flat


def samples(step, unit, shard):
    """What the process learns from in this step: every unit and shard has points of its own."""
    random = torch.Generator().manual_seed(step * 1000 + unit * SHARDS + shard)
    labels = torch.randint(3, (BATCH,), generator=random)
    radius = torch.rand(BATCH, generator=random)
    angle = radius * 5 + labels * 2.094 + torch.randn(BATCH, generator=random) * 0.1
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), labels


class Member:
    def __init__(self, folder, unit, shard, timeout):
        self.folder, self.unit, self.shard, self.timeout = folder, unit, shard, timeout
        self.model = Model()
        self.moments = torch.zeros(2, self.model.part)  # Adam's
        self.step = 0
        self.mine = self.model.weights().view(SHARDS, -1)[shard].clone()
        self.log = open(f"{folder}/log-{unit}-{shard}", "a", encoding="utf-8")
        self.pair = tutti.init_rank(SHARDS, self.meet(f"unit-{unit}", shard == 0, tutti.unique_id), shard,
                                    timeout=timeout)
        self.say(ready=time.time(), pid=os.getpid(), node=os.environ.get("SLURMD_NODENAME"))

    def meet(self, name, makes, make):
        """What one process makes the others read: by a file here, by a store in a real job."""
        path = f"{self.folder}/{name}"
        if makes:
            made = make()
            with open(path + ".new", "wb") as file:
                file.write(made)
            os.rename(path + ".new", path)
            return made
        until = time.monotonic() + self.timeout
        while not os.path.exists(path):
            if time.monotonic() > until:
                sys.exit(f"unit {self.unit}, shard {self.shard}: nobody made {name} within {self.timeout:g} s")
            time.sleep(0.002)
        with open(path, "rb") as file:
            return file.read()

    def train(self, group, knocks):
        """One step. Behind the gradient go the loss, and whether newcomers wait: all members must learn of them in the
        same step. In a unit its first process says so."""
        start = time.time()
        gathered = torch.zeros(SHARDS, self.model.part + 1)
        self.pair.allgather(torch.cat([self.mine, torch.tensor([float(knocks)])]), gathered)
        self.model.load(gathered[:, :-1].flatten())
        loss, gradient = self.model.gradient(*samples(self.step, self.unit, self.shard))
        sent = torch.zeros(self.model.part + 2)
        self.pair.reduce_scatter(gradient, sent[:-2], op="avg")
        sent[-2], sent[-1] = loss, gathered[0, -1]
        mean = torch.zeros_like(sent)
        done = group.allreduce(sent, mean, op="avg")
        self.adam(mean[:-2])
        self.step += 1
        self.say(step=self.step, loss=mean[-2].item(), units=done.units, generation=done.generation, tries=done.tries,
                 seconds=time.time() - start, at=time.time())
        return done, mean[-1] > 0

    def adam(self, gradient, rate=3e-3, first=0.9, second=0.999):
        self.moments[0].lerp_(gradient, 1 - first)
        self.moments[1].lerp_(gradient * gradient, 1 - second)
        n = self.step + 1
        self.mine -= rate * (self.moments[0] / (1 - first ** n)) / (
            (self.moments[1] / (1 - second ** n)).sqrt() + 1e-8)

    def share_state(self, group, gives):
        """A step of its own: one member of the shard gives its state, all others zeros."""
        state = torch.cat([self.mine, self.moments.flatten(), torch.tensor([float(self.step)])])
        if not gives:
            state.zero_()
        group.allreduce(state)
        part = self.model.part
        self.mine, self.moments = state[:part].clone(), state[part:3 * part].view(2, part).clone()
        self.step = int(state[-1])

    def grow(self, group, first):
        """The member with the lowest number gives the identity, and its unit the state."""
        me, members = group.info.member, group.info.members
        identity = group.unique_id() if me == first else None
        if me == first:
            told = json.dumps({"id": identity.hex(), "members": members}).encode()
            self.meet("growth", True, lambda: told)
        group.grow(SHARDS, identity)
        self.share_state(group, me // SHARDS == first // SHARDS)

    def say(self, **what):
        self.log.write(json.dumps(what) + "\n")
        self.log.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--unit", type=int, required=True)
    parser.add_argument("--shard", type=int, help="without it the process's number that torchrun or srun has set")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--newcomer", action="store_true")
    parser.add_argument("--pause", type=int, help="the step before which all wait until there are newcomers")
    args = parser.parse_args()
    if args.shard is None:
        args.shard = int(os.environ["LOCAL_RANK"] if "LOCAL_RANK" in os.environ else os.environ["SLURM_PROCID"])
    torch.set_num_threads(1)
    member = Member(args.folder, args.unit, args.shard, args.timeout)
    rank = args.unit * SHARDS + args.shard
    grown = False
    if args.newcomer:
        told = json.loads(member.meet("growth", False, None))
        group = tutti.Elastic.join(told["members"] + SHARDS, bytes.fromhex(told["id"]), told["members"] + args.shard,
                                   timeout=args.timeout, unit=args.unit, shard=args.shard)
        member.share_state(group, False)
        grown = True
    else:
        world = tutti.init_rank(args.units * SHARDS, member.meet("world", rank == 0, tutti.unique_id), rank,
                                timeout=args.timeout)
        group = tutti.Elastic(world, timeout=args.timeout, unit=args.unit, shard=args.shard)
        member.meet("go", False, None)
    try:
        while member.step < args.steps:
            if member.step == args.pause and not grown:
                member.meet("newcomers", False, None)
            done, grows = member.train(group, not grown and os.path.exists(f"{args.folder}/newcomers"))
            if grows and not grown:
                member.grow(group, done.members[0])
                grown = True
    except tutti.Error as error:
        member.say(left=str(error))
        sys.exit(3)
    member.say(weights=member.mine.double().sum().item())
    group.end()


if __name__ == "__main__":
    main()
