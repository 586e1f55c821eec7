/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators come and go: of all ranks, halves, copies in another order; ended in order, or given up with somebody
 * stuck. */
#include "soak.h"

#include <string.h>
#include <unistd.h>

void comms_good(struct actor *actor, const char *what, ncclComm_t comm, ncclResult_t result)
{
    while (result == ncclInProgress && comm) {
        if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
            wrong(actor, "asking for an error", 0);
        usleep(50);
    }
    if (result != ncclSuccess)
        wrong(actor, what, (int)result);
}

/* ---- Beginning ---- */

/* The actor of rank 0 makes the id, and the others wait for it. */
static ncclUniqueId meeting(struct actor *actor)
{
    uint32_t number = actor->meetings++;
    if (number >= MEETINGS)
        wrong(actor, "too many communicators", 0);
    if (actor->first == 0) {
        ncclResult_t got = ncclGetUniqueId(&run.shared->meeting[number].id);
        if (got != ncclSuccess)
            wrong(actor, "an id", (int)got);
        atomic_store(&run.shared->meeting[number].ready, 1);
    }
    while (!atomic_load(&run.shared->meeting[number].ready))
        usleep(100);
    return run.shared->meeting[number].id;
}

static void draw_config(struct actor *actor, struct family *family, ncclConfig_t *config)
{
    family->waits = roll(actor, 4) > 0;
    config->blocking = family->waits;
    if (roll(actor, 5) == 0)
        config->maxCTAs = 1 + (int)roll(actor, 4);
    if (roll(actor, 8) == 0)
        config->CTAPolicy = (int)roll(actor, 3);
}

static void settle_all(struct actor *actor, int which, const char *what, ncclResult_t result)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        ncclComm_t comm = actor->comm[which][gpu];
        if (plays(actor, &actor->family[which], gpu) && !comm)
            wrong(actor, what, (int)result);
        if (plays(actor, &actor->family[which], gpu))
            comms_good(actor, what, comm, result);
    }
}

static void make_new(struct actor *actor, int which)
{
    struct family *family = &actor->family[which];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    bool all = roll(actor, 3) == 0;
    draw_config(actor, family, &config);
    for (int gpu = 0; gpu < run.nranks; gpu++) {
        family->rank[gpu] = gpu;
        family->color[gpu] = 0;
        family->size[gpu] = run.nranks;
    }
    note(actor, "makes communicator %d", which);
    if (all && run.mode == ONE_THREAD) {
        family->waits = true;
        comms_good(actor, "ncclCommInitAll", NULL, ncclCommInitAll(actor->comm[which], run.nranks, NULL));
        return;
    }
    ncclUniqueId id = meeting(actor);
    ncclResult_t result = ncclGroupStart();
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        select_gpu(actor, gpu);
        result = ncclCommInitRankConfig(&actor->comm[which][gpu], run.nranks, id, gpu, &config);
    }
    result = ncclGroupEnd();
    settle_all(actor, which, "ncclCommInitRankConfig", result);
}

/* The members of each child, from what every rank asks for. */
static void divide(const struct family *parent, struct family *child, const int *color, const int *key)
{
    for (int a = 0; a < run.nranks; a++) {
        bool in = parent->color[a] >= 0 && color[a] >= 0;
        child->color[a] = -1;
        child->rank[a] = child->size[a] = 0;
        for (int b = 0; b < run.nranks; b++) {
            bool together = in && parent->color[b] == parent->color[a] && color[b] == color[a];
            bool before = key[b] < key[a] || (key[b] == key[a] && parent->rank[b] < parent->rank[a]);
            child->color[a] = together && child->color[a] < 0 ? b : child->color[a]; /* named after the first of them */
            child->size[a] += together;
            child->rank[a] += together && before;
        }
    }
}

static void make_split(struct actor *actor, int which, int from)
{
    struct family *child = &actor->family[which];
    int color[GPUS], key[GPUS], how = (int)roll(actor, 3);
    bool with_config = roll(actor, 3) == 0;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    for (int gpu = 0; gpu < GPUS; gpu++) {
        color[gpu] = how == 0 ? 0 : how == 1 ? gpu % 2 : (int)roll(actor, 3) - 1;
        key[gpu] = (int)roll(actor, 3) - 1;
    }
    child->waits = actor->family[from].waits;
    if (with_config)
        draw_config(actor, child, &config);
    divide(&actor->family[from], child, color, key);
    note(actor, "splits communicator %d into %d", from, which);
    ncclResult_t result = ncclGroupStart();
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        actor->comm[which][gpu] = NULL;
        if (!plays(actor, &actor->family[from], gpu))
            continue;
        select_gpu(actor, gpu);
        result = ncclCommSplit(actor->comm[from][gpu], color[gpu], key[gpu], &actor->comm[which][gpu],
                               with_config ? &config : NULL);
    }
    result = ncclGroupEnd();
    if (result != ncclSuccess && result != ncclInProgress)
        wrong(actor, "ncclCommSplit", (int)result);
    settle_all(actor, which, "ncclCommSplit", result);
}

void comms_make(struct actor *actor)
{
    int which = plan_family(actor, false), from = plan_family(actor, true);
    bool split = roll(actor, 3) > 0;
    if (which < 0)
        return;
    if (split && from >= 0)
        make_split(actor, which, from);
    else
        make_new(actor, which);
    actor->family[which].alive = true;
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        int rank = -1, size = -1;
        if (!plays(actor, &actor->family[which], gpu))
            continue;
        DONE(ncclCommUserRank(actor->comm[which][gpu], &rank));
        DONE(ncclCommCount(actor->comm[which][gpu], &size));
        if (rank != actor->family[which].rank[gpu] || size != actor->family[which].size[gpu])
            wrong(actor, "a rank has another place than it should", gpu);
    }
}

/* ---- End ---- */

void comms_end(struct actor *actor, int which)
{
    bool finalize = roll(actor, 2), grouped = roll(actor, 3) == 0;
    note(actor, "ends communicator %d", which);
    if (grouped)
        DONE(ncclGroupStart());
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        ncclComm_t comm = actor->comm[which][gpu];
        if (!plays(actor, &actor->family[which], gpu))
            continue;
        select_gpu(actor, gpu);
        if (finalize && !grouped)
            comms_good(actor, "ncclCommFinalize", comm, ncclCommFinalize(comm));
        comms_good(actor, "ncclCommDestroy", NULL, ncclCommDestroy(comm));
        actor->comm[which][gpu] = NULL;
    }
    if (grouped)
        DONE(ncclGroupEnd());
    actor->family[which].alive = false;
}

void comms_abort(struct actor *actor, int which)
{
    note(actor, "aborts communicator %d", which);
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        if (!plays(actor, &actor->family[which], gpu))
            continue;
        select_gpu(actor, gpu);
        comms_good(actor, "ncclCommAbort", NULL, ncclCommAbort(actor->comm[which][gpu]));
        actor->comm[which][gpu] = NULL;
    }
    actor->family[which].alive = false;
}
