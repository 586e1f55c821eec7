/* SPDX-License-Identifier: Apache-2.0 */
/* What programs attach to communicators, and groups of processes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/objects.h"
#include "mpi/calls.h"
#include "tutti/tutti.h"

/* A caller's functions take a handle of the caller's ABI first. */
typedef int (*copy_short_t)(int, int, void *, void *, void *, int *);
typedef int (*copy_long_t)(uintptr_t, int, void *, void *, void *, int *);
typedef int (*drop_short_t)(int, int, void *, void *);
typedef int (*drop_long_t)(uintptr_t, int, void *, void *);

enum {
    KEYS = 256,
    FIRST_KEY = 0x24000001,
    TAG_UB = 0x64400001,
    WTIME_GLOBAL = 0x64400007,
    SIZE = 0x64400009,
    APPNUM = 0x6440000d,
    LASTCODE = 0x6440000b
};
static struct attributes_key {
    bool used;
    void *copy, *drop, *extra;
    enum abi abi;
} keys[KEYS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int mpi_copy_attribute(int handle, int keyval, void *extra, void *in, void *out, int *flag)
{
    memcpy(out, &in, sizeof(in));
    *flag = 1;
    return 0;
}

int shim_Comm_create_keyval(void *copy, void *drop, int *keyval, void *extra, enum abi abi)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < KEYS && keys[i].used)
        i++;
    if (i < KEYS)
        keys[i] = (struct attributes_key){true, copy, drop, extra, abi};
    pthread_mutex_unlock(&lock);
    if (i == KEYS)
        return shim_fail(NULL, ERR_OTHER, "MPI_Comm_create_keyval: there are %d keys already", KEYS);
    *keyval = FIRST_KEY + i;
    return 0;
}

/* A key that is free again may still be attached: its functions stay until another takes its place. */
int shim_Comm_free_keyval(int *keyval)
{
    *keyval = KEYVAL_INVALID;
    return 0;
}

static struct attributes_key *key_of(int keyval)
{
    int i = keyval - FIRST_KEY;
    return i >= 0 && i < KEYS && keys[i].used ? &keys[i] : NULL;
}

static int call_drop(struct comm *c, int keyval, void *value)
{
    struct attributes_key *k = key_of(keyval);
    if (!k || !k->drop)
        return 0;
    return k->abi == ABI_MPICH ? ((drop_short_t)k->drop)(c->handle, keyval, value, k->extra)
                               : ((drop_long_t)k->drop)((unsigned)c->handle, keyval, value, k->extra);
}

static struct attribute **find(struct comm *c, int keyval)
{
    struct attribute **a = &c->attributes;
    while (*a && (*a)->keyval != keyval)
        a = &(*a)->next;
    return a;
}

int shim_Comm_set_attr(int comm, int keyval, void *value)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    if (!key_of(keyval))
        return shim_fail(c, ERR_KEYVAL, "MPI_Comm_set_attr: there is no key 0x%x", (unsigned)keyval);
    struct attribute **at = find(c, keyval);
    if (*at) {
        call_drop(c, keyval, (*at)->value);
    } else {
        *at = calloc(1, sizeof(**at));
        if (!*at)
            return shim_fail(c, ERR_NO_MEM, "MPI_Comm_set_attr: no memory");
        (*at)->keyval = keyval;
    }
    (*at)->value = value;
    return 0;
}

int shim_Comm_get_attr(int comm, int keyval, void *value, int *flag)
{
    static int tag_most = TAG_MOST, no = 0, last = ERR_UNSUPPORTED, size;
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    struct attribute *a = *find(c, keyval);
    size = world.comm->size;
    void *found = a                        ? a->value
                  : keyval == TAG_UB       ? &tag_most
                  : keyval == WTIME_GLOBAL ? &no
                  : keyval == LASTCODE     ? &last
                  : keyval == SIZE         ? (void *)&size
                                           : NULL;
    *flag = a || found;
    if (*flag)
        memcpy(value, &found, sizeof(found));
    return 0;
}

int shim_Comm_delete_attr(int comm, int keyval)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    struct attribute **at = find(c, keyval), *a = *at;
    if (!a)
        return shim_fail(c, ERR_KEYVAL, "MPI_Comm_delete_attr: nothing is attached by key 0x%x", (unsigned)keyval);
    *at = a->next;
    int result = call_drop(c, keyval, a->value);
    free(a);
    return result;
}

int attributes_copy(struct comm *from, struct comm *to)
{
    for (struct attribute *a = from->attributes; a; a = a->next) {
        struct attributes_key *k = key_of(a->keyval);
        void *value = NULL;
        int flag = 0, result = 0;
        if (k && k->copy)
            result = k->abi == ABI_MPICH
                         ? ((copy_short_t)k->copy)(from->handle, a->keyval, k->extra, a->value, &value, &flag)
                         : ((copy_long_t)k->copy)((unsigned)from->handle, a->keyval, k->extra, a->value, &value, &flag);
        if (!result && flag)
            result = shim_Comm_set_attr(to->handle, a->keyval, value);
        if (result)
            return result;
    }
    return 0;
}

int attributes_drop(struct comm *c)
{
    while (c->attributes) {
        struct attribute *a = c->attributes;
        c->attributes = a->next;
        call_drop(c, a->keyval, a->value);
        free(a);
    }
    return 0;
}

/* ---- Groups ---- */

struct mpi_group *group_of(int handle)
{
    static struct mpi_group empty;
    struct mpi_group *g = handle == GROUP_EMPTY ? &empty : object_get(KIND_GROUP, handle);
    if (!g)
        shim_fail(NULL, ERR_GROUP, "there is no group of handle 0x%x", (unsigned)handle);
    return g;
}

static int keep(struct mpi_group *g, int *handle)
{
    *handle = g ? object_new(KIND_GROUP, g) : 0;
    if (*handle)
        return 0;
    free(g);
    return shim_fail(NULL, ERR_NO_MEM, "no memory for a group");
}

static struct mpi_group *room(int size)
{
    struct mpi_group *g = calloc(1, sizeof(*g) + size * sizeof(int));
    if (g)
        g->size = size;
    return g;
}

int shim_Comm_group(int comm, int *handle)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return ERR_COMM;
    struct mpi_group *g = room(c->size);
    if (g)
        memcpy(g->ranks, c->world, c->size * sizeof(int));
    return keep(g, handle);
}

int shim_Group_size(int group, int *size)
{
    struct mpi_group *g = group_of(group);
    if (!g)
        return ERR_GROUP;
    *size = g->size;
    return 0;
}

static int place_in(const struct mpi_group *g, int rank)
{
    for (int i = 0; i < g->size; i++)
        if (g->ranks[i] == rank)
            return i;
    return UNDEFINED;
}

int shim_Group_rank(int group, int *rank)
{
    struct mpi_group *g = group_of(group);
    if (!g)
        return ERR_GROUP;
    *rank = place_in(g, world.comm->rank);
    return 0;
}

static int check_ranks(const struct mpi_group *g, int count, const int *ranks, const char *call)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] < 0 || ranks[i] >= g->size)
            return shim_fail(NULL, ERR_RANK, "%s: rank %d is not in a group of %d", call, ranks[i], g->size);
    return count < 0 ? shim_fail(NULL, ERR_ARG, "%s: %d ranks", call, count) : 0;
}

int shim_Group_incl(int group, int count, const int *ranks, int *handle)
{
    struct mpi_group *g = group_of(group);
    int wrong = g ? check_ranks(g, count, ranks, "MPI_Group_incl") : ERR_GROUP;
    if (wrong)
        return wrong;
    struct mpi_group *made = room(count);
    for (int i = 0; made && i < count; i++)
        made->ranks[i] = g->ranks[ranks[i]];
    return keep(made, handle);
}

int shim_Group_excl(int group, int count, const int *ranks, int *handle)
{
    struct mpi_group *g = group_of(group);
    int wrong = g ? check_ranks(g, count, ranks, "MPI_Group_excl") : ERR_GROUP;
    if (wrong)
        return wrong;
    struct mpi_group *made = room(g->size);
    int left = 0;
    for (int i = 0; made && i < g->size; i++) {
        int at = 0;
        while (at < count && ranks[at] != i)
            at++;
        if (at == count)
            made->ranks[left++] = g->ranks[i];
    }
    if (made)
        made->size = left;
    return keep(made, handle);
}

int shim_Group_translate_ranks(int one, int count, const int *ranks, int other, int *out)
{
    struct mpi_group *a = group_of(one), *b = a ? group_of(other) : NULL;
    if (!b)
        return ERR_GROUP;
    for (int i = 0; i < count; i++) {
        if (ranks[i] != PROC_NULL && (ranks[i] < 0 || ranks[i] >= a->size))
            return shim_fail(NULL, ERR_RANK, "MPI_Group_translate_ranks: rank %d is not in a group of %d", ranks[i],
                             a->size);
        out[i] = ranks[i] == PROC_NULL ? PROC_NULL : place_in(b, a->ranks[ranks[i]]);
    }
    return 0;
}

int shim_Group_compare(int one, int other, int *result)
{
    struct mpi_group *a = group_of(one), *b = a ? group_of(other) : NULL;
    if (!b)
        return ERR_GROUP;
    enum { IDENT, SIMILAR = 2, UNEQUAL };
    *result = a->size == b->size ? IDENT : UNEQUAL;
    for (int i = 0; *result != UNEQUAL && i < a->size; i++)
        if (a->ranks[i] != b->ranks[i])
            *result = place_in(b, a->ranks[i]) == UNDEFINED ? UNEQUAL : SIMILAR;
    return 0;
}

int shim_Group_free(int *handle)
{
    free(object_get(KIND_GROUP, *handle));
    object_free(KIND_GROUP, *handle);
    *handle = GROUP_NULL;
    return 0;
}
