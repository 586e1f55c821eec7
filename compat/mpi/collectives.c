/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives whose blocks are of one size. Each is issued on the stream of a request; what is left to do when the
 * stream has ended is the request's `finish`. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/requests.h"
#include "mpi/types.h"
#include "mpi/calls.h"
#include "mpi/collectives.h"

int begin_collective(int comm, struct comm **c, struct request **r)
{
    *c = comm_of(comm);
    *r = *c ? request_new(REQUEST_COLLECTIVE, *c) : NULL;
    return !*c ? ERR_COMM : *r ? 0 : ERR_NO_MEM;
}

int issued(struct request *r, const char *call, tutti_result_t result)
{
    pthread_mutex_unlock(&r->comm->lock);
    int wrong = shim_result(r->comm, call, result);
    if (wrong)
        request_drop(r);
    return wrong;
}

int refused(struct request *r, int class)
{
    request_drop(r);
    return class;
}

int now(int wrong, struct request *r)
{
    struct status s;
    return wrong ? wrong : request_wait(r, &s);
}

/* A call ends when its work has; its twin with I gives the request away. Both have one body. */
static int ended(int wrong, struct request *r, int *request)
{
    return request && !wrong ? request_give(r, request) : now(wrong, r);
}

bool make_room(struct request *r, size_t bytes)
{
    r->room = malloc(bytes ? bytes : 1);
    if (!r->room)
        shim_fail(r->comm, ERR_NO_MEM, "no %zu bytes for a collective", bytes);
    return r->room;
}

/* Bytes of `count` elements. False, and said, if they cannot be. */
bool bytes_of(struct comm *c, int count, int type_handle, size_t *bytes)
{
    struct type type;
    if (count < 0) {
        shim_fail(c, ERR_COUNT, "a collective of %d elements", count);
        return false;
    }
    if (!type_of(type_handle, &type))
        return false;
    *bytes = (size_t)count * type.size;
    return true;
}

bool root_fits(struct comm *c, int root)
{
    if (root >= 0 && root < c->size)
        return true;
    shim_fail(c, ERR_ROOT, "root %d is not in this communicator of %d ranks", root, c->size);
    return false;
}

/* ---- Movements ---- */

static int barrier(int comm, int *request)
{
    struct comm *c;
    struct request *r = NULL;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, "MPI_Barrier", tutti_barrier(c->tutti, r->stream));
    return ended(wrong, r, request);
}

int shim_Barrier(int comm)
{
    return barrier(comm, NULL);
}

int shim_Ibarrier(int comm, int *request)
{
    return barrier(comm, request);
}

static int bcast(void *buffer, int count, int type, int root, int comm, int *request)
{
    struct comm *c;
    struct request *r = NULL;
    size_t bytes = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if (!bytes_of(c, count, type, &bytes))
        return refused(r, ERR_COUNT);
    if (!root_fits(c, root))
        return refused(r, ERR_ROOT);
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, "MPI_Bcast", tutti_broadcast(buffer, buffer, bytes, TUTTI_UINT8, root, c->tutti, r->stream));
    return ended(wrong, r, request);
}

int shim_Bcast(void *buffer, int count, int type, int root, int comm)
{
    return bcast(buffer, count, type, root, comm, NULL);
}

int shim_Ibcast(void *buffer, int count, int type, int root, int comm, int *request)
{
    return bcast(buffer, count, type, root, comm, request);
}

static int allgather(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int comm,
                     int *request)
{
    struct comm *c;
    struct request *r = NULL;
    size_t bytes, sent = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if (!bytes_of(c, out_count, out_type, &bytes) || (in != IN_PLACE && !bytes_of(c, in_count, in_type, &sent)))
        return refused(r, ERR_COUNT);
    if (in == IN_PLACE)
        in = (char *)out + c->rank * bytes;
    else if (sent != bytes)
        return refused(
            r, shim_fail(c, ERR_COUNT, "MPI_Allgather: %zu bytes are sent, %zu received of each rank", sent, bytes));
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, "MPI_Allgather", tutti_allgather(in, out, bytes, TUTTI_UINT8, c->tutti, r->stream));
    return ended(wrong, r, request);
}

int shim_Allgather(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int comm)
{
    return allgather(in, in_count, in_type, out, out_count, out_type, comm, NULL);
}

int shim_Iallgather(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int comm,
                    int *request)
{
    return allgather(in, in_count, in_type, out, out_count, out_type, comm, request);
}

static int alltoall(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int comm,
                    int *request)
{
    struct comm *c;
    struct request *r = NULL;
    size_t bytes, sent = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if (!bytes_of(c, out_count, out_type, &bytes) || (in != IN_PLACE && !bytes_of(c, in_count, in_type, &sent)))
        return refused(r, ERR_COUNT);
    if (in == IN_PLACE) {
        if (!make_room(r, c->size * bytes))
            return refused(r, ERR_NO_MEM);
        in = memcpy(r->room, out, c->size * bytes);
    } else if (sent != bytes) {
        return refused(
            r, shim_fail(c, ERR_COUNT, "MPI_Alltoall: %zu bytes are sent to each rank, %zu received", sent, bytes));
    }
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, "MPI_Alltoall", tutti_alltoall(in, out, bytes, TUTTI_UINT8, c->tutti, r->stream));
    return ended(wrong, r, request);
}

int shim_Alltoall(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int comm)
{
    return alltoall(in, in_count, in_type, out, out_count, out_type, comm, NULL);
}

int shim_Ialltoall(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int comm,
                   int *request)
{
    return alltoall(in, in_count, in_type, out, out_count, out_type, comm, request);
}

int shim_Gather(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int root, int comm)
{
    struct comm *c;
    struct request *r = NULL;
    size_t bytes = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if (!root_fits(c, root))
        return refused(r, ERR_ROOT);
    bool in_place = c->rank == root && in == IN_PLACE;
    if (!bytes_of(c, in_place ? out_count : in_count, in_place ? out_type : in_type, &bytes))
        return refused(r, ERR_COUNT);
    pthread_mutex_lock(&c->lock);
    wrong = issued(
        r, "MPI_Gather",
        tutti_gather(in_place ? (char *)out + root * bytes : in, out, bytes, TUTTI_UINT8, root, c->tutti, r->stream));
    return now(wrong, r);
}

int shim_Scatter(const void *in, int in_count, int in_type, void *out, int out_count, int out_type, int root, int comm)
{
    struct comm *c;
    struct request *r = NULL;
    size_t bytes = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if (!root_fits(c, root))
        return refused(r, ERR_ROOT);
    bool in_place = c->rank == root && out == IN_PLACE;
    if (!bytes_of(c, in_place ? in_count : out_count, in_place ? in_type : out_type, &bytes))
        return refused(r, ERR_COUNT);
    pthread_mutex_lock(&c->lock);
    wrong = issued(
        r, "MPI_Scatter",
        tutti_scatter(in, in_place ? (char *)in + root * bytes : out, bytes, TUTTI_UINT8, root, c->tutti, r->stream));
    return now(wrong, r);
}

/* ---- Reductions ---- */

static int check_reduction(struct request *r, int count, int type, int op)
{
    r->type_handle = type;
    if (count < 0)
        return shim_fail(r->comm, ERR_COUNT, "a reduction of %d elements", count);
    if (!type_of(type, &r->type))
        return ERR_TYPE;
    if (!op_of(op, &r->op))
        return ERR_OP;
    return r->op.function ? 0 : fold(&r->op, type, &r->type, NULL, NULL, 0); /* whether the type has the operator */
}

/* The contributions of ranks `first` to `last` - 1 are folded in their order into `out`. */
static int fold_all(struct request *r)
{
    size_t bytes = r->count * r->type.size;
    char *all = r->room;
    if (r->first >= r->last)
        return 0;
    char *sum = all + (size_t)(r->last - 1) * bytes;
    int wrong = 0;
    for (int rank = r->last - 2; rank >= r->first && !wrong; rank--)
        wrong = fold(&r->op, r->type_handle, &r->type, all + rank * bytes, sum, r->count);
    if (!wrong)
        memcpy(r->out, sum, bytes);
    return wrong;
}

/* Operators and types that the library has not: everybody gets all contributions. */
static tutti_result_t by_gathering(struct request *r, const void *in, void *out, size_t count, int first, int last)
{
    size_t bytes = count * r->type.size;
    if (!make_room(r, r->comm->size * bytes))
        return TUTTI_SYSTEM_ERROR;
    r->out = out;
    r->count = count;
    r->first = first;
    r->last = last;
    r->finish = fold_all;
    return tutti_allgather(in, r->room, bytes, TUTTI_UINT8, r->comm->tutti, r->stream);
}

static int allreduce(const void *in, void *out, int count, int type, int op, int comm, int *request)
{
    struct comm *c;
    struct request *r = NULL;
    tutti_op_t number;
    tutti_type_t element;
    int wrong = begin_collective(comm, &c, &r);
    if (!wrong && (wrong = check_reduction(r, count, type, op)))
        return refused(r, wrong);
    if (wrong)
        return wrong;
    if (in == IN_PLACE)
        in = out;
    pthread_mutex_lock(&c->lock);
    tutti_result_t result = op_of_tutti(&r->op, &r->type, &number, &element)
                                ? tutti_allreduce(in, out, count * r->type.items, element, number, c->tutti, r->stream)
                                : by_gathering(r, in, out, count, 0, c->size);
    wrong = issued(r, "MPI_Allreduce", result);
    return ended(wrong, r, request);
}

int shim_Allreduce(const void *in, void *out, int count, int type, int op, int comm)
{
    return allreduce(in, out, count, type, op, comm, NULL);
}

int shim_Iallreduce(const void *in, void *out, int count, int type, int op, int comm, int *request)
{
    return allreduce(in, out, count, type, op, comm, request);
}

int shim_Reduce(const void *in, void *out, int count, int type, int op, int root, int comm)
{
    struct comm *c;
    struct request *r = NULL;
    tutti_op_t number;
    tutti_type_t element;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if ((wrong = check_reduction(r, count, type, op)) || (wrong = root_fits(c, root) ? 0 : ERR_ROOT))
        return refused(r, wrong);
    if (in == IN_PLACE)
        in = out;
    pthread_mutex_lock(&c->lock);
    tutti_result_t result =
        op_of_tutti(&r->op, &r->type, &number, &element)
            ? tutti_reduce(in, out, count * r->type.items, element, number, root, c->tutti, r->stream)
            : by_gathering(r, in, out, count, 0, c->rank == root ? c->size : 0);
    wrong = issued(r, "MPI_Reduce", result);
    return now(wrong, r);
}

static int scan(const void *in, void *out, int count, int type, int op, int comm, bool inclusive)
{
    struct comm *c;
    struct request *r = NULL;
    tutti_op_t number;
    tutti_type_t element;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    if ((wrong = check_reduction(r, count, type, op)))
        return refused(r, wrong);
    if (in == IN_PLACE)
        in = out;
    pthread_mutex_lock(&c->lock);
    tutti_result_t result = inclusive && op_of_tutti(&r->op, &r->type, &number, &element)
                                ? tutti_scan(in, out, count * r->type.items, element, number, c->tutti, r->stream)
                                : by_gathering(r, in, out, count, 0, c->rank + inclusive);
    wrong = issued(r, "MPI_Scan", result);
    return now(wrong, r);
}

int shim_Scan(const void *in, void *out, int count, int type, int op, int comm)
{
    return scan(in, out, count, type, op, comm, true);
}

int shim_Exscan(const void *in, void *out, int count, int type, int op, int comm)
{
    return scan(in, out, count, type, op, comm, false);
}

/* This rank's block of everybody's contributions: all of them came, this folds the block alone. */
static int fold_block(struct request *r)
{
    size_t whole = r->count, mine = (size_t)r->last;
    char *all = r->room;
    char *sum = all + (r->comm->size - 1) * whole * r->type.size + r->first * r->type.size;
    int wrong = 0;
    for (int rank = r->comm->size - 2; rank >= 0 && !wrong; rank--)
        wrong = fold(&r->op, r->type_handle, &r->type, all + (rank * whole + r->first) * r->type.size, sum, mine);
    if (!wrong)
        memcpy(r->out, sum, mine * r->type.size);
    return wrong;
}

static tutti_result_t scatter_sums(struct request *r, const void *in, void *out, const int *counts, size_t whole)
{
    struct comm *c = r->comm;
    tutti_op_t number;
    tutti_type_t element;
    size_t bytes = whole * r->type.size, *sizes;
    if (!op_of_tutti(&r->op, &r->type, &number, &element)) {
        tutti_result_t result = by_gathering(r, in, out, whole, 0, 0);
        for (int rank = 0; rank < c->rank; rank++)
            r->first += counts[rank];
        r->last = counts[c->rank];
        r->finish = fold_block;
        return result;
    }
    if (!make_room(r, bytes + c->size * sizeof(*sizes)))
        return TUTTI_SYSTEM_ERROR;
    sizes = r->room;
    for (int rank = 0; rank < c->size; rank++)
        sizes[rank] = counts[rank] * r->type.items;
    if (in == out) /* the result may lie where the first block is */
        in = memcpy((char *)r->room + c->size * sizeof(*sizes), in, bytes);
    return tutti_reduce_scatterv(in, sizes, NULL, out, element, number, c->tutti, r->stream);
}

int shim_Reduce_scatter(const void *in, void *out, const int *counts, int type, int op, int comm)
{
    struct comm *c;
    struct request *r = NULL;
    size_t whole = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    for (int rank = 0; rank < c->size && !wrong; whole += counts[rank++])
        wrong = check_reduction(r, counts[rank], type, op);
    if (wrong)
        return refused(r, wrong);
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, "MPI_Reduce_scatter", scatter_sums(r, in == IN_PLACE ? out : in, out, counts, whole));
    return now(wrong, r);
}

int shim_Reduce_scatter_block(const void *in, void *out, int count, int type, int op, int comm)
{
    struct comm *c = comm_of(comm);
    int *counts = c ? malloc(c->size * sizeof(*counts)) : NULL;
    if (!counts)
        return c ? shim_fail(c, ERR_NO_MEM, "MPI_Reduce_scatter_block: no memory") : ERR_COMM;
    for (int rank = 0; rank < c->size; rank++)
        counts[rank] = count;
    int result = shim_Reduce_scatter(in, out, counts, type, op, comm);
    free(counts);
    return result;
}
