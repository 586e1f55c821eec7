/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives that can be measured: sizes, bus bandwidth, calls, and what each rank must receive.
 * Sizes and bus bandwidth are defined as nccl-tests' doc/PERFORMANCE.md does; alltoallv has uneven parts with equal
 * totals.
 */
#include "cli/perf_collectives.h"
#include "cli/perf_data.h"

#include <string.h>

static double factor_one(int size)
{
    return 1;
}

static double factor_parts(int size)
{
    return (size - 1.0) / size;
}

static double factor_allreduce(int size)
{
    return 2 * factor_parts(size);
}

static size_t sends_count(const struct perf_shape *shape, int rank)
{
    return shape->count;
}

static size_t sends_part(const struct perf_shape *shape, int rank)
{
    return shape->part;
}

static size_t sends_from_root(const struct perf_shape *shape, int rank)
{
    return rank == shape->root ? shape->count : 0;
}

static size_t sends_nothing(const struct perf_shape *shape, int rank)
{
    return 0;
}

static size_t at_start(const struct perf_shape *shape, int rank)
{
    return 0;
}

static size_t at_own_part(const struct perf_shape *shape, int rank)
{
    return (size_t)rank * shape->part;
}

/* ---- what arrives ---- */

static bool whole(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){0, shape->count, shape->collective->reduces ? DATA_REDUCED : shape->root, 0};
    return index == 0;
}

static bool whole_so_far(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){0, shape->count, data_first(rank), 0};
    return index == 0;
}

static bool whole_on_root(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    return rank == shape->root && whole(shape, rank, index, out);
}

static bool own_part(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){0, shape->part, shape->collective->reduces ? DATA_REDUCED : shape->root,
                          at_own_part(shape, rank)};
    return index == 0;
}

static bool part_of_each(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){(size_t)index * shape->part, shape->part, index, 0};
    return index < shape->size;
}

static bool parts_on_root(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    return rank == shape->root && part_of_each(shape, rank, index, out);
}

static bool exchanged_parts(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){(size_t)index * shape->part, shape->part, index, at_own_part(shape, rank)};
    return index < shape->size;
}

static bool from_left(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){0, shape->count, (rank + shape->size - 1) % shape->size, 0};
    return index == 0;
}

static bool nothing(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    return false;
}

/* The part that `from` sends to `to`: a Latin square, so every rank sends and receives the same total in parts of all
 * sizes. */
static size_t uneven(const struct perf_shape *shape, int from, int to)
{
    size_t size = (size_t)shape->size, weight = 1 + (size_t)(from + to) % size;
    return shape->part * 2 * weight / (size + 1);
}

static size_t uneven_before(const struct perf_shape *shape, int rank, int peer)
{
    size_t sum = 0;
    for (int r = 0; r < peer; r++)
        sum += uneven(shape, rank, r);
    return sum;
}

static bool uneven_parts(const struct perf_shape *shape, int rank, int index, struct piece *out)
{
    *out = (struct piece){uneven_before(shape, rank, index), uneven(shape, index, rank), index,
                          uneven_before(shape, index, rank)};
    return index < shape->size;
}

void collective_vectors(const struct perf_shape *shape, int rank, size_t *out)
{
    int size = shape->size;
    for (int peer = 0; peer < size; peer++) {
        out[peer] = out[2 * size + peer] = uneven(shape, rank, peer);
        out[size + peer] = out[3 * size + peer] = peer ? out[size + peer - 1] + out[peer - 1] : 0;
    }
}

/* ---- calls ---- */

static tutti_result_t allreduce(const struct perf_call *c)
{
    return tutti_allreduce(c->send, c->recv, c->shape->part, c->shape->type, c->op, c->comm, c->stream);
}

static tutti_result_t reduce(const struct perf_call *c)
{
    return tutti_reduce(c->send, c->recv, c->shape->part, c->shape->type, c->op, c->shape->root, c->comm, c->stream);
}

static tutti_result_t broadcast(const struct perf_call *c)
{
    return tutti_broadcast(c->send, c->recv, c->shape->part, c->shape->type, c->shape->root, c->comm, c->stream);
}

static tutti_result_t allgather(const struct perf_call *c)
{
    return tutti_allgather(c->send, c->recv, c->shape->part, c->shape->type, c->comm, c->stream);
}

static tutti_result_t reduce_scatter(const struct perf_call *c)
{
    return tutti_reduce_scatter(c->send, c->recv, c->shape->part, c->shape->type, c->op, c->comm, c->stream);
}

static tutti_result_t scan(const struct perf_call *c)
{
    return tutti_scan(c->send, c->recv, c->shape->part, c->shape->type, c->op, c->comm, c->stream);
}

static tutti_result_t alltoall(const struct perf_call *c)
{
    return tutti_alltoall(c->send, c->recv, c->shape->part, c->shape->type, c->comm, c->stream);
}

static tutti_result_t alltoallv(const struct perf_call *c)
{
    const size_t *v = c->vectors, n = (size_t)c->shape->size;
    return tutti_alltoallv(c->send, v, v + n, c->recv, v + 2 * n, v + 3 * n, c->shape->type, c->comm, c->stream);
}

static tutti_result_t gather(const struct perf_call *c)
{
    return tutti_gather(c->send, c->recv, c->shape->part, c->shape->type, c->shape->root, c->comm, c->stream);
}

static tutti_result_t scatter(const struct perf_call *c)
{
    return tutti_scatter(c->send, c->recv, c->shape->part, c->shape->type, c->shape->root, c->comm, c->stream);
}

static tutti_result_t sendrecv(const struct perf_call *c)
{
    int size = c->shape->size, right = (c->rank + 1) % size, left = (c->rank + size - 1) % size;
    tutti_result_t result = tutti_group_start();
    if (result != TUTTI_SUCCESS)
        return result;
    tutti_send(c->send, c->shape->part, c->shape->type, right, c->comm, c->stream);
    tutti_recv(c->recv, c->shape->part, c->shape->type, left, c->comm, c->stream);
    return tutti_group_end();
}

static tutti_result_t barrier(const struct perf_call *c)
{
    return tutti_barrier(c->comm, c->stream);
}

#define REDUCES .reduces = true
#define ROOTED  .rooted = true
#define SPLITS  .splits = true
#define PLACED  .in_place = true

const struct collective collectives[] = {
    {"allreduce", REDUCES, PLACED, .bus_factor = factor_allreduce, .sends = sends_count, .piece = whole,
     .offset = at_start, .issue = allreduce},
    {"allgather", SPLITS, PLACED, .recv_is_larger = true, .bus_factor = factor_parts, .sends = sends_part,
     .piece = part_of_each, .offset = at_own_part, .issue = allgather},
    {"reduce_scatter", REDUCES, SPLITS, PLACED, .bus_factor = factor_parts, .sends = sends_count, .piece = own_part,
     .offset = at_own_part, .issue = reduce_scatter},
    {"alltoall", SPLITS, .bus_factor = factor_parts, .sends = sends_count, .piece = exchanged_parts, .offset = at_start,
     .issue = alltoall},
    {"alltoallv", SPLITS, .vectors = true, .bus_factor = factor_parts, .sends = sends_count, .piece = uneven_parts,
     .offset = at_start, .issue = alltoallv},
    {"broadcast", ROOTED, PLACED, .bus_factor = factor_one, .sends = sends_from_root, .piece = whole,
     .offset = at_start, .issue = broadcast},
    {"reduce", REDUCES, ROOTED, PLACED, .bus_factor = factor_one, .sends = sends_count, .piece = whole_on_root,
     .offset = at_start, .issue = reduce},
    {"gather", ROOTED, SPLITS, PLACED, .recv_is_larger = true, .bus_factor = factor_parts, .sends = sends_part,
     .piece = parts_on_root, .offset = at_own_part, .issue = gather},
    {"scatter", ROOTED, SPLITS, PLACED, .bus_factor = factor_parts, .sends = sends_from_root, .piece = own_part,
     .offset = at_own_part, .issue = scatter},
    {"scan", REDUCES, PLACED, .no_average = true, .bus_factor = factor_one, .sends = sends_count, .piece = whole_so_far,
     .offset = at_start, .issue = scan},
    {"sendrecv", .bus_factor = factor_one, .sends = sends_count, .piece = from_left, .offset = at_start,
     .issue = sendrecv},
    {"barrier", .meets = true, .bus_factor = factor_one, .sends = sends_nothing, .piece = nothing, .offset = at_start,
     .issue = barrier},
};
const int collective_count = sizeof collectives / sizeof *collectives;

static bool joins(char c)
{
    return c == '_' || c == '-';
}

/* Ignores '-' and '_', which join words: all_reduce, all_reduce_perf and reduce-scatter are names, too. */
static bool same_name(const char *ours, const char *given)
{
    for (const char *begin = given;; ours++, given++) {
        ours += joins(*ours);
        if (joins(*given) && !*ours)
            return strcmp(given + 1, "perf") == 0;
        given += joins(*given) && given > begin;
        if (!*ours || *ours != *given)
            return *ours == *given;
    }
}

const struct collective *collective_find(const char *name)
{
    for (int i = 0; i < collective_count; i++)
        if (same_name(collectives[i].name, name))
            return &collectives[i];
    return NULL;
}

size_t collective_part(const struct collective *collective, size_t count, int size)
{
    return collective->splits ? count / (size_t)size : count;
}
