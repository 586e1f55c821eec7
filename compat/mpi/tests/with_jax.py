# SPDX-License-Identifier: Apache-2.0
"""JAX on CPUs over tutti: collectives of XLA in a mesh of processes, contents checked. One rank of a job."""
import os

RANK, SIZE = int(os.environ["TUTTI_RANK"]), int(os.environ["TUTTI_SIZE"])
os.environ["MPITRAMPOLINE_LIB"] = os.environ["TUTTI_MPI"]
os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "mpi"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import tutti  # noqa: E402

jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", SIZE, RANK)
mesh = Mesh(np.array(jax.devices()), ("x",))
ROWS = 3


def same(seen, expected, what):
    if not np.array_equal(np.asarray(seen), np.asarray(expected)):
        raise SystemExit(f"rank {RANK}: {what}: {seen}, expected {expected}")


def spread(whole):
    return jax.make_array_from_callback(whole.shape, NamedSharding(mesh, P("x")), lambda index: whole[index])


def mine(array):
    shard, = array.addressable_shards
    return shard.data


def every(body, whole, out=P("x")):
    mapped = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False)
    return mine(jax.jit(mapped)(spread(whole)))


def collectives(kind):
    whole = (np.arange(SIZE * ROWS) % 5 + 1).astype(kind)
    parts = whole.reshape(SIZE, ROWS)
    same(every(lambda a: jax.lax.psum(a, "x"), whole, P()), parts.sum(0), f"psum {kind}")
    if not np.iscomplexobj(whole):
        same(every(lambda a: jax.lax.pmax(a, "x"), whole, P()), parts.max(0), f"pmax {kind}")
    same(every(lambda a: jax.lax.all_gather(a, "x", tiled=True), whole, P()), whole, f"all_gather {kind}")
    around = [(i, (i + 1) % SIZE) for i in range(SIZE)]
    same(every(lambda a: jax.lax.ppermute(a, "x", around), whole), parts[(RANK - 1) % SIZE], f"ppermute {kind}")
    same(every(lambda a: jax.lax.psum_scatter(jnp.tile(a, SIZE), "x", tiled=True), whole), parts.sum(0),
         f"psum_scatter {kind}")
    table = np.arange(SIZE * SIZE).astype(kind)
    same(every(lambda a: jax.lax.all_to_all(a, "x", 0, 0, tiled=True), table),
         table.reshape(SIZE, SIZE)[:, RANK], f"all_to_all {kind}")


for kind in ("float32", "int32", "int8", "uint8", "int16", "complex64", "bfloat16"):
    collectives(kind)

# What pjit puts in by itself: a product whose inner dimension is spread, and a large one.
a = np.arange(4 * 4 * SIZE, dtype="float32").reshape(4, 4 * SIZE) % 7
left = jax.make_array_from_callback(a.shape, NamedSharding(mesh, P(None, "x")), lambda index: a[index])
right = jax.make_array_from_callback(a.T.shape, NamedSharding(mesh, P("x", None)), lambda index: a.T[index])
product = jax.jit(jnp.matmul, out_shardings=NamedSharding(mesh, P()))(left, right)
same(mine(product), a @ a.T, "a product over pjit")
large = np.ones(SIZE << 18, "float32")
same(mine(jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(spread(large))), SIZE << 18, "a large sum")
if SIZE >= 4:  # groups of a mesh of two dimensions: communicators of a part
    square = Mesh(np.array(jax.devices()).reshape(2, -1), ("y", "z"))
    whole = np.arange(SIZE, dtype="float32")
    placed = jax.make_array_from_callback(whole.shape, NamedSharding(square, P(("y", "z"))), lambda index: whole[index])
    mapped = jax.shard_map(lambda a: jax.lax.psum(a, "z"), mesh=square, in_specs=P(("y", "z")), out_specs=P("y"),
                           check_vma=False)
    row = RANK // (SIZE // 2)
    same(mine(jax.jit(mapped)(placed)), whole.reshape(2, -1)[row].sum(keepdims=True), "psum of a row")

# Its arrays cannot be written, so tutti refuses to.
alone, = tutti.init_all(1)
for kind in ("float32", "bfloat16"):
    array = jnp.arange(4, dtype=kind)
    try:
        alone.allreduce(array)
        raise SystemExit(f"an array of JAX was written: {array}")
    except ValueError as error:
        assert "read-only" in str(error), error
alone.allreduce(jnp.arange(4, dtype="float32"), seen := np.zeros(4, "float32"))
same(seen, np.arange(4), "an array of JAX as an input")

maps = open("/proc/self/maps", encoding="utf-8").read()
assert os.path.realpath(os.environ["TUTTI_MPI"]) in maps, "JAX did not load tutti"
jax.distributed.shutdown()
if RANK == 0:
    print(f"JAX {jax.__version__}, {SIZE} processes: right", flush=True)
