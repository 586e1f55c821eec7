/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives whose blocks have sizes of their own. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/requests.h"
#include "mpi/types.h"
#include "mpi/calls.h"
#include "mpi/collectives.h"
#include "tutti/tutti.h"

/* The blocks of a buffer, in bytes. */
struct blocks {
    size_t *sizes, *places;
    void *room;
};

static int measure(struct comm *c, const int *counts, const int *places, int type_handle, struct blocks *b)
{
    struct type type;
    size_t next = 0;
    *b = (struct blocks){0};
    if (!type_of(type_handle, &type))
        return ERR_TYPE;
    b->room = calloc(2 * c->size, sizeof(size_t));
    if (!b->room)
        return shim_fail(c, ERR_NO_MEM, "no memory for the sizes of a collective");
    b->sizes = b->room;
    b->places = b->sizes + c->size;
    for (int r = 0; r < c->size; r++) {
        if (counts[r] < 0 || (places && places[r] < 0))
            return shim_fail(c, ERR_COUNT, "a collective with %d elements at %d for rank %d", counts[r],
                             places ? places[r] : 0, r);
        b->sizes[r] = counts[r] * type.size;
        b->places[r] = places ? places[r] * type.size : next;
        next += b->sizes[r];
    }
    return 0;
}

static size_t end_of(const struct comm *c, const struct blocks *b)
{
    size_t end = 0;
    for (int r = 0; r < c->size; r++)
        if (b->sizes[r] && b->places[r] + b->sizes[r] > end)
            end = b->places[r] + b->sizes[r];
    return end;
}

int shim_Allgatherv(const void *in, int in_count, int in_type, void *out, const int *counts, const int *places,
                    int out_type, int comm)
{
    struct comm *c;
    struct request *r = NULL;
    struct blocks b;
    size_t sent = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    wrong = measure(c, counts, places, out_type, &b);
    r->room = b.room;
    if (!wrong && in != IN_PLACE && (!bytes_of(c, in_count, in_type, &sent) || sent != b.sizes[c->rank]))
        wrong =
            shim_fail(c, ERR_COUNT, "MPI_Allgatherv: rank %d sends another number of bytes than the %zu of its block",
                      c->rank, b.sizes[c->rank]);
    if (wrong)
        return refused(r, wrong);
    if (in == IN_PLACE)
        in = (char *)out + b.places[c->rank];
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, "MPI_Allgatherv", tutti_allgatherv(in, out, b.sizes, b.places, TUTTI_UINT8, c->tutti, r->stream));
    return now(wrong, r);
}

int shim_Alltoallv(const void *in, const int *in_counts, const int *in_places, int in_type, void *out,
                   const int *out_counts, const int *out_places, int out_type, int comm)
{
    struct comm *c;
    struct request *r = NULL;
    struct blocks to = {0}, from;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    wrong = measure(c, out_counts, out_places, out_type, &from);
    if (!wrong && in != IN_PLACE)
        wrong = measure(c, in_counts, in_places, in_type, &to);
    void *copy = NULL;
    if (!wrong && in == IN_PLACE && !(copy = malloc(end_of(c, &from) + 1)))
        wrong = shim_fail(c, ERR_NO_MEM, "MPI_Alltoallv: no memory for what is sent");
    if (copy)
        in = memcpy(copy, out, end_of(c, &from));
    if (!wrong) {
        const struct blocks *sent = copy ? &from : &to;
        pthread_mutex_lock(&c->lock);
        wrong = issued(r, "MPI_Alltoallv",
                       tutti_alltoallv(in, sent->sizes, sent->places, out, from.sizes, from.places, TUTTI_UINT8,
                                       c->tutti, r->stream));
        wrong = now(wrong, r);
    } else {
        request_drop(r);
    }
    free(copy);
    free(to.room);
    free(from.room);
    return wrong;
}

/* Root and the others exchange messages, all at the same time. */
static tutti_result_t exchange(struct request *r, char *all, const struct blocks *b, void *mine, size_t bytes, int root,
                               bool gathers)
{
    struct comm *c = r->comm;
    tutti_result_t result = tutti_group_start();
    if (c->rank != root && bytes)
        result = gathers ? tutti_send(mine, bytes, TUTTI_UINT8, root, c->tutti, r->stream)
                         : tutti_recv(mine, bytes, TUTTI_UINT8, root, c->tutti, r->stream);
    for (int rank = 0; c->rank == root && rank < c->size && !result; rank++)
        if (rank != root && b->sizes[rank])
            result = gathers
                         ? tutti_recv(all + b->places[rank], b->sizes[rank], TUTTI_UINT8, rank, c->tutti, r->stream)
                         : tutti_send(all + b->places[rank], b->sizes[rank], TUTTI_UINT8, rank, c->tutti, r->stream);
    tutti_result_t ended = tutti_group_end();
    return result ? result : ended;
}

/* `all` and counts are looked at on root alone. */
static int rooted(char *all, const int *counts, const int *places, int all_type, void *mine, int count, int type,
                  int root, int comm, bool gathers)
{
    struct comm *c;
    struct request *r = NULL;
    struct blocks b = {0};
    size_t bytes = 0;
    int wrong = begin_collective(comm, &c, &r);
    if (wrong)
        return wrong;
    bool mine_counts = !(c->rank == root && mine == IN_PLACE);
    if (!root_fits(c, root))
        wrong = ERR_ROOT;
    else if (mine_counts && !bytes_of(c, count, type, &bytes))
        wrong = ERR_COUNT;
    else if (c->rank == root)
        wrong = measure(c, counts, places, all_type, &b);
    r->room = b.room;
    if (!wrong && c->rank == root && mine_counts && bytes != b.sizes[root])
        wrong = shim_fail(c, ERR_COUNT, "root has %zu bytes for itself, and a block of %zu", bytes, b.sizes[root]);
    if (wrong)
        return refused(r, wrong);
    if (c->rank == root && mine_counts && bytes)
        memcpy(gathers ? all + b.places[root] : mine, gathers ? mine : all + b.places[root], bytes);
    pthread_mutex_lock(&c->lock);
    wrong = issued(r, gathers ? "MPI_Gatherv" : "MPI_Scatterv", exchange(r, all, &b, mine, bytes, root, gathers));
    return now(wrong, r);
}

int shim_Gatherv(const void *in, int in_count, int in_type, void *out, const int *counts, const int *places,
                 int out_type, int root, int comm)
{
    return rooted(out, counts, places, out_type, (void *)in, in_count, in_type, root, comm, true);
}

int shim_Scatterv(const void *in, const int *counts, const int *places, int in_type, void *out, int out_count,
                  int out_type, int root, int comm)
{
    return rooted((char *)in, counts, places, in_type, out, out_count, out_type, root, comm, false);
}
