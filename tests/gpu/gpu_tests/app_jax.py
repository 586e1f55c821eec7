# SPDX-License-Identifier: Apache-2.0
"""JAX collectives over all GPUs of one process (shard_map), compared with numpy. Run by gpu.py apps."""
import argparse
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpu_parts import served_by

COUNTS = (4096, 1 << 18, 1 << 23)  # elements of a device's shard; the large ones are beyond XLA's own kernels


def shard_map(function, mesh, out, where=PartitionSpec("x")):
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=where, out_specs=out, check_vma=False)
    from jax.experimental.shard_map import shard_map as older
    return older(function, mesh=mesh, in_specs=where, out_specs=out, check_rep=False)


def cases(n, count):
    """name: (what a device computes from its shard, how the result lies, what numpy says of the whole)"""
    split, whole = PartitionSpec("x"), PartitionSpec()
    steps = [(i, (i + 1) % n) for i in range(n)]
    return {
        "psum": (lambda x: jax.lax.psum(x, "x"), whole, lambda a: a.reshape(n, count).sum(0)),
        "pmax": (lambda x: jax.lax.pmax(x, "x"), whole, lambda a: a.reshape(n, count).max(0)),
        "all_gather": (lambda x: jax.lax.all_gather(x, "x", tiled=True), whole, lambda a: a),
        "psum_scatter": (lambda x: jax.lax.psum_scatter(x, "x", tiled=True),
                         split, lambda a: a.reshape(n, count).sum(0)),
        "ppermute": (lambda x: jax.lax.ppermute(x, "x", steps),
                     split, lambda a: numpy.roll(a.reshape(n, count), 1, 0).reshape(-1)),
        "all_to_all": (lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True), split,
                       lambda a: a.reshape(n, n, count // n).transpose(1, 0, 2).reshape(-1)),
    }


def training(mesh, n):
    """Gradient steps of a linear model, data-parallel: the mean gradient is a psum of each step. The weights,
    JAX's and numpy's."""
    rng = numpy.random.default_rng(1)
    x, goal = rng.standard_normal((64 * n, 32)).astype("float32"), rng.standard_normal(32).astype("float32")
    y, weights = x @ goal, numpy.zeros(32, "float32")

    def descend(w, x, y):
        return w - 0.1 * jax.lax.pmean(2 * x.T @ (x @ w - y) / x.shape[0], "x")

    split, whole = PartitionSpec("x"), PartitionSpec()
    step, ours = jax.jit(shard_map(descend, mesh, whole, (whole, split, split))), jnp.asarray(weights)
    for _ in range(20):
        ours = step(ours, x, y)
        weights = weights - 0.1 * numpy.mean([2 * a.T @ (a @ weights - b) / 64
                                              for a, b in zip(x.reshape(n, 64, 32), y.reshape(n, 64))], 0)
    return numpy.asarray(ours), weights


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=4)
    options = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "highest")
    devices, points, wrong = jax.devices()[:options.gpus], 0, []
    n, mesh = len(devices), Mesh(numpy.array(devices), ("x",))
    print(f"jax {jax.__version__}, {n} devices of {devices[0].platform}", flush=True)
    if n < options.gpus:
        wrong.append(f"only {n} devices")
    for count in COUNTS:
        for kind in ("float32", "int32"):
            data = numpy.random.default_rng(count).integers(0, 100, n * count).astype(kind)
            there = jax.device_put(data, NamedSharding(mesh, PartitionSpec("x")))
            for name, (function, out, expected) in cases(n, count).items():
                got = numpy.asarray(jax.jit(shard_map(function, mesh, out))(there))
                points += 1
                if not numpy.array_equal(got, expected(data)):
                    wrong.append(f"{name}, {kind}, {count} elements: wrong")
    ours, theirs = training(mesh, n)
    points += 1
    if not numpy.allclose(ours, theirs, rtol=1e-3, atol=1e-4):
        wrong.append(f"training: weights differ by {abs(ours - theirs).max()}")
    print(served_by.line())
    print(*wrong[:10], sep="\n")
    print(f"result: {points} points, {len(wrong)} wrong", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # the parent reads the output
        traceback.print_exc()
        sys.exit(1)
