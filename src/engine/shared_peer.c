/* SPDX-License-Identifier: Apache-2.0 */
/* Three ways to a peer's bytes. Which process a rank lives in its uuid says; a pid is but a means, where it means the
 * same to both. */
#include "engine/shared_peer.h"

#include "base/param.h"
#include "wire/boxfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool peer_memory_open(struct peer_memory *memory, int nranks)
{
    size_t n = (size_t)nranks;
    *memory = (struct peer_memory){.views = calloc(n, sizeof *memory->views),
                                   .attach = calloc(n, sizeof *memory->attach),
                                   .viewed = calloc(2 * n, sizeof *memory->viewed)};
    if (memory->views && memory->attach && memory->viewed)
        return true;
    peer_memory_close(memory);
    return false;
}

void peer_memory_close(struct peer_memory *memory)
{
    peer_memory_let_go(memory);
    free(memory->views);
    free(memory->attach);
    free(memory->viewed);
}

static void shared_peer_release(struct shm_import **import)
{
    if (*import)
        import_release(*import);
    *import = NULL;
}

void peer_memory_let_go(struct peer_memory *memory)
{
    while (memory->views_held) {
        struct peer_views *views = &memory->views[memory->viewed[--memory->views_held]];
        shared_peer_release(&views->in);
        shared_peer_release(&views->out);
    }
}

void peer_introduce(struct arena_rank *self)
{
    self->pid = (uint32_t)getpid();
    self->pid_namespace = boxfile_pid_namespace();
    self->word = attach_mine();
    atomic_store_explicit(&self->introduced, true, memory_order_release);
}

bool peer_try_attach(struct peer_memory *memory, int rank, const struct arena_rank *shown)
{
    bool named = shown->pid_namespace && shown->pid_namespace == boxfile_pid_namespace();
    memory->attach[rank] = (struct attach){.pid = named ? (pid_t)shown->pid : 0, .word = shown->word};
    return param_int(PARAM_SHM_CMA) && attach_works(&memory->attach[rank]);
}

static const struct shm_import *view(const struct team *team, struct peer_memory *memory, int rank, bool in,
                                     uint32_t region)
{
    struct shm_import **held = in ? &memory->views[rank].in : &memory->views[rank].out;
    if (*held)
        return (*held)->id == region ? *held : NULL;
    struct region_pair who;
    memcpy(who.owner, team_row(team, rank)->uuid, sizeof who.owner);
    memcpy(who.mapper, team_row(team, team->rank)->uuid, sizeof who.mapper);
    *held = import_hold(&who, region);
    if (*held)
        memory->viewed[memory->views_held++] = rank;
    return *held;
}

const void *peer_pointer(const struct team *team, struct peer_memory *memory, int rank, const struct slot_place *place,
                         bool in, uint64_t offset, size_t length)
{
    uint32_t region = in ? place->in_region : place->out_region;
    if (team_is_here(team, rank))
        return (const void *)(uintptr_t)((in ? place->in : place->out) + offset);
    const struct shm_import *import = region ? view(team, memory, rank, in, region) : NULL;
    uint64_t from = (in ? place->in_offset : place->out_offset) + offset;
    return import && from <= import->size && length <= import->size - from ? import->base + from : NULL;
}

bool peer_read(const struct peer_memory *memory, int rank, const struct slot_place *place, bool in, uint64_t offset,
               void *to, size_t length)
{
    errno = ENOENT; /* not mapped, or not any more */
    return !(in ? place->in_region : place->out_region) &&
           attach_read(&memory->attach[rank], (in ? place->in : place->out) + offset, to, length);
}
