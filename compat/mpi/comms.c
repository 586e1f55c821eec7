/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: each has one of tutti's, and a number that its messages carry. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/objects.h"
#include "mpi/shim.h"
#include "mpi/calls.h"
#include "tutti/tutti.h"

static _Atomic int next_context = 2;

/* One number for a new communicator, higher than any that a member of the parent uses. */
static tutti_result_t agree(const struct comm *parent, int *context)
{
    int32_t mine = next_context, most = 0;
    tutti_result_t result = tutti_allreduce(&mine, &most, 1, TUTTI_INT32, TUTTI_MAX, parent->tutti, NULL);
    if (!result)
        result = tutti_comm_synchronize(parent->tutti);
    next_context = most + 1;
    *context = most;
    return result;
}

struct comm *comm_adopt(tutti_comm_t made, const struct comm *parent, int handle)
{
    struct comm *c = calloc(1, sizeof(*c));
    int size = 0;
    tutti_comm_count(made, &size);
    int *ranks = c ? calloc(size, sizeof(int)) : NULL;
    if (!ranks) {
        free(c);
        return NULL;
    }
    c->tutti = made;
    c->size = size;
    tutti_comm_rank(made, &c->rank);
    c->world = ranks;
    c->errhandler = parent ? parent->errhandler : ERRORS_ARE_FATAL;
    c->context = handle == COMM_SELF;
    pthread_mutex_init(&c->lock, NULL);
    for (int r = 0; r < size; r++)
        ranks[r] = r;
    c->handle = handle ? handle : object_new(KIND_COMM, c);
    return c;
}

void comm_drop(struct comm *c)
{
    if (c->handle != COMM_WORLD && c->handle != COMM_SELF)
        object_free(KIND_COMM, c->handle);
    pthread_mutex_destroy(&c->lock);
    free(c->world);
    free(c);
}

/* A child's place in the world: each member tells its own. */
static int settle(struct comm *parent, tutti_comm_t made, int context, int *handle)
{
    *handle = COMM_NULL;
    if (!made)
        return 0;
    struct comm *c = comm_adopt(made, parent, 0);
    if (!c || !c->handle)
        return shim_fail(parent, ERR_NO_MEM, "no memory for a communicator");
    c->context = context;
    int mine = parent->world[parent->rank];
    tutti_result_t result = tutti_allgather(&mine, c->world, 1, TUTTI_INT32, made, NULL);
    if (!result)
        result = tutti_comm_synchronize(made);
    *handle = c->handle;
    return shim_result(c, "MPI: making a communicator", result);
}

static int split(struct comm *c, int color, int key, int *handle)
{
    tutti_comm_t made = NULL;
    int context = 0;
    pthread_mutex_lock(&c->lock);
    tutti_result_t result = agree(c, &context);
    if (!result)
        result = tutti_comm_split(c->tutti, color, key, &made, NULL);
    pthread_mutex_unlock(&c->lock);
    if (result)
        return shim_result(c, "MPI_Comm_split", result);
    return settle(c, made, context, handle);
}

int shim_Comm_split(int comm, int color, int key, int *handle)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    if (color < 0 && color != UNDEFINED)
        return shim_fail(c, ERR_ARG, "MPI_Comm_split: color %d: it must be MPI_UNDEFINED or not negative", color);
    return split(c, color == UNDEFINED ? TUTTI_SPLIT_NOCOLOR : color, key, handle);
}

/* What is the same for all processes of this start of this host. */
static uint64_t host_mark(void)
{
    char text[64] = "";
    uint64_t mark = 1469598103934665603u;
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
        gethostname(text, sizeof(text) - 1);
    if (file >= 0)
        close(file);
    for (const char *p = text; *p; p++)
        mark = (mark ^ (unsigned char)*p) * 1099511628211u;
    return mark;
}

int shim_Comm_split_type(int comm, int kind, int key, int info, int *handle)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    if (kind != 1 && kind != UNDEFINED)
        return shim_fail(c, ERR_UNSUPPORTED, "MPI_Comm_split_type: kind %d: MPI_COMM_TYPE_SHARED is built", kind);
    uint64_t mark = host_mark(), *marks = calloc(c->size, sizeof(*marks));
    if (!marks)
        return shim_fail(c, ERR_NO_MEM, "MPI_Comm_split_type: no memory");
    int color = 0;
    pthread_mutex_lock(&c->lock);
    tutti_result_t result = tutti_allgather(&mark, marks, 1, TUTTI_UINT64, c->tutti, NULL);
    if (!result)
        result = tutti_comm_synchronize(c->tutti);
    pthread_mutex_unlock(&c->lock);
    while (color < c->rank && marks[color] != mark)
        color++;
    free(marks);
    if (result)
        return shim_result(c, "MPI_Comm_split_type", result);
    return split(c, kind == UNDEFINED ? TUTTI_SPLIT_NOCOLOR : color, key, handle);
}

int shim_Comm_create(int comm, int group, int *handle)
{
    struct comm *c = comm_of(comm);
    struct mpi_group *g = c ? group_of(group) : NULL;
    if (!g)
        return c ? ERR_GROUP : ERR_COMM;
    int color = TUTTI_SPLIT_NOCOLOR, key = 0;
    for (int i = 0; i < g->size; i++)
        if (g->ranks[i] == c->world[c->rank]) {
            color = g->ranks[0];
            key = i;
        }
    return split(c, color, key, handle);
}

static int duplicate(int comm, int *handle)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    int result = split(c, 0, c->rank, handle);
    struct comm *child = result ? NULL : object_get(KIND_COMM, *handle);
    return child ? attributes_copy(c, child) : result;
}

int shim_Comm_dup(int comm, int *handle)
{
    return duplicate(comm, handle);
}

int shim_Comm_dup_with_info(int comm, int info, int *handle)
{
    return duplicate(comm, handle);
}

int shim_Comm_free(int *handle)
{
    if (world.ended)
        return ERR_COMM; /* objects that die at the end of a program */
    struct comm *c = comm_of(*handle);
    if (!c)
        return ERR_COMM;
    if (c == world.comm || c == world.self)
        return shim_fail(c, ERR_COMM, "MPI_Comm_free: MPI_COMM_WORLD and MPI_COMM_SELF stay");
    attributes_drop(c);
    tutti_comm_t tutti = c->tutti;
    struct comm *none = NULL;
    comm_drop(c);
    *handle = COMM_NULL;
    return shim_result(none, "MPI_Comm_free", tutti_comm_destroy(tutti));
}

int shim_Comm_disconnect(int *handle)
{
    return shim_Comm_free(handle);
}

int shim_Comm_rank(int comm, int *rank)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    *rank = c->rank;
    return 0;
}

int shim_Comm_size(int comm, int *size)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    *size = c->size;
    return 0;
}

int shim_Comm_compare(int one, int other, int *result)
{
    struct comm *a = comm_of(one), *b = a ? comm_of(other) : NULL;
    if (!b)
        return ERR_COMM;
    enum { IDENT, CONGRUENT, SIMILAR, UNEQUAL };
    *result = a == b ? IDENT : a->size == b->size ? CONGRUENT : UNEQUAL;
    for (int r = 0; *result == CONGRUENT && r < a->size; r++)
        if (a->world[r] != b->world[r])
            *result = SIMILAR;
    for (int r = 0; *result == SIMILAR && r < a->size; r++) {
        int at = 0;
        while (at < b->size && b->world[at] != a->world[r])
            at++;
        if (at == b->size)
            *result = UNEQUAL;
    }
    return 0;
}

int shim_Comm_test_inter(int comm, int *flag)
{
    *flag = 0;
    return comm_of(comm) ? 0 : ERR_COMM;
}

int shim_Comm_get_parent(int *handle)
{
    *handle = COMM_NULL;
    return 0;
}

int shim_Topo_test(int comm, int *status)
{
    *status = UNDEFINED;
    return comm_of(comm) ? 0 : ERR_COMM;
}

int shim_Comm_set_name(int comm, const char *name)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    strncpy(c->name, name, LONGEST_NAME - 1);
    return 0;
}

int shim_Comm_get_name(int comm, char *name, int *length)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    strcpy(name, c->name);
    *length = (int)strlen(name);
    return 0;
}

/* ---- What becomes of their errors ---- */

int shim_Comm_set_errhandler(int comm, int handler)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    c->errhandler = handler;
    return 0;
}

int shim_Comm_get_errhandler(int comm, int *handler)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    *handler = c->errhandler;
    return 0;
}

int shim_Comm_call_errhandler(int comm, int code)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    shim_fail(c, code, "the program calls its handler of errors with class %d (%s)", code, shim_words(code));
    return 0;
}

int shim_Errhandler_free(int *handler)
{
    *handler = ERRHANDLER_NULL;
    return 0;
}
