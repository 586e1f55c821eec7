/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the ranks of a team on one host share, be it a communicator's or a part of one: rank 0 makes it, and the
 * descriptor goes down a tree of ranks, over links or in a process. So no rank has more links than the tree has
 * branches, however many ranks there are.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/collective.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/part.h"
#include "engine/shared.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BRANCHES 8    /* of each rank, at most */
#define LOOK_MS  50   /* between two looks at what wakes nobody: an abort, the time */
#define ASK_MS   200  /* between two questions whether the other has failed */
#define COME_MS  2000 /* for those below to connect; then we do, and learn whether they are there */

/* The same answer on every rank: may all of them share memory? */
static bool possible(const struct team *team)
{
    if (transport_shm_is_off() || !transport_is_wanted(&transport_shm))
        return false;
    return team->local_ranks == team->nranks && team->class == CHOICE_SHM && team->nranks <= SHARED_RANKS;
}

static tutti_result_t keep_here(struct engine *engine, uint64_t key, int fd)
{
    struct shared_fd *shared = malloc(sizeof *shared);
    int copy = shared ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) {
        free(shared);
        return error_set(TUTTI_SYSTEM_ERROR, "cannot keep shared memory: %s", strerror(errno));
    }
    *shared = (struct shared_fd){.key = key, .fd = copy};
    list_push(&engine->shared, &shared->node);
    return TUTTI_SUCCESS;
}

#define HOSTS 0x4849u /* the kind of the parts that hosts are, among those of a team */

/* What is shared, in the order of sharing. */
enum { ARENA, MAILBOX, SHARES };

/* Of what `rank` is to get: ranks of one process take out of one table. */
static uint64_t comm_share_key_of(const struct team *team, int what, int rank)
{
    return mix64(team->id + (uint64_t)what) + (uint64_t)rank;
}

static tutti_result_t comm_share_is_gone(struct team *team, int rank, const char *did)
{
    char why[100];
    snprintf(why, sizeof why, "process %u is gone before it %s shared memory", team_row(team, rank)->pid, did);
    return team_lose(team, rank, why);
}

/* What is shared of which team: the communicator's, or a part of it. */
struct sharing {
    struct tutti_comm *comm;
    struct team *team;
    uint64_t until;    /* ranks below us in the tree should have connected */
    uint64_t deadline; /* of all */
};

/* One attempt to give the memory to `rank`; TUTTI_IN_PROGRESS while the link is not up. */
static tutti_result_t comm_share_give(struct sharing *sharing, int what, int rank, int *fd)
{
    struct team *team = sharing->team;
    const struct roster_row *self = team_row(team, team->rank), *peer = team_row(team, rank);
    struct link *link = link_find(team->engine->links, peer->uuid, roster_session(self, peer));
    if (team_is_here(team, rank))
        return keep_here(team->engine, comm_share_key_of(team, what, rank), *fd);
    if (!link && !clock_passed(sharing->until))
        return TUTTI_IN_PROGRESS;
    tutti_result_t result = team_link(team, rank, &link);
    if (result == TUTTI_SUCCESS && link_is_lost(link))
        return comm_share_is_gone(team, rank, "got");
    if (result == TUTTI_SUCCESS)
        result = link_share(link, comm_share_key_of(team, what, rank), *fd);
    return result == TUTTI_REMOTE_ERROR ? TUTTI_IN_PROGRESS
                                        : result; /* its lane has ended: the next look finds the link lost */
}

static tutti_result_t out_of_time(const struct sharing *sharing, int rank)
{
    if (atomic_load(&sharing->comm->abort))
        return error_set(TUTTI_REMOTE_ERROR, "the communicator was aborted while it was made");
    if (clock_passed(sharing->deadline))
        return error_set(
            TUTTI_REMOTE_ERROR,
            "no link to rank %d came up within TUTTI_INIT_TIMEOUT; see whether its process runs, or raise that time",
            rank);
    return TUTTI_SUCCESS;
}

/* The rank may have failed before there was a link to tell us on. */
static void comm_share_ask(const struct team *team, int rank, uint64_t *at)
{
    const struct roster_row *self = team_row(team, team->rank), *peer = team_row(team, rank);
    struct link *link = link_find(team->engine->links, peer->uuid, roster_session(self, peer));
    struct wire_message head = {.kind = WIRE_ASK,
                                .tag = {.comm = team->id, .from = (uint32_t)team->rank, .to = (uint32_t)rank}};
    if (!link || !clock_passed(*at))
        return;
    link_call(link, &head, &(struct wire_begun){0}, sizeof(struct wire_begun));
    *at = clock_deadline_ms(ASK_MS);
}

/* Repeats `attempt` under the engine's lock, looking for news in between. */
typedef tutti_result_t attempt_fn(struct sharing *sharing, int what, int rank, int *fd);

static tutti_result_t persist(struct sharing *sharing, attempt_fn *attempt, int what, int rank, int *fd)
{
    struct team *team = sharing->team;
    uint64_t ask_at = clock_deadline_ms(ASK_MS);
    for (;;) {
        lock_take(&team->engine->lock);
        engine_poll(team->engine);
        /* What is there counts, also if the giver has given the communicator up since. A rank that is gone may have
         * left because of a failure. */
        tutti_result_t result = attempt(sharing, what, rank, fd);
        if (result != TUTTI_SUCCESS && team_failure(team) != TUTTI_SUCCESS)
            result = team_failure(team);
        if (result == TUTTI_IN_PROGRESS)
            comm_share_ask(team, rank, &ask_at);
        lock_release(&team->engine->lock);
        if (result == TUTTI_IN_PROGRESS) {
            result = out_of_time(sharing, rank);
            if (result == TUTTI_SUCCESS) {
                engine_sleep(team->engine, NULL, LOOK_MS);
                continue;
            }
        }
        return result;
    }
}

static tutti_result_t comm_share_take(struct sharing *sharing, int what, int rank, int *fd)
{
    struct team *team = sharing->team;
    struct link *link = NULL;
    *fd = engine_take_shared(team->engine, comm_share_key_of(team, what, team->rank));
    if (*fd == SHARED_NO_ROOM)
        return error_set(TUTTI_SYSTEM_ERROR, "no descriptor is free for shared memory; raise ulimit -n");
    if (*fd >= 0)
        return TUTTI_SUCCESS;
    tutti_result_t result = team_is_here(team, rank) ? TUTTI_SUCCESS : team_link(team, rank, &link);
    if (result == TUTTI_SUCCESS && link && link_is_lost(link))
        return comm_share_is_gone(team, rank, "gave");
    return result == TUTTI_SUCCESS ? TUTTI_IN_PROGRESS : result;
}

/* To those below us in the tree, who connect to us: if both sides did, half of the lanes would be in vain. */
static tutti_result_t comm_share_hand_down(struct sharing *sharing, int what, int *fd)
{
    int first = BRANCHES * sharing->team->rank + 1, end = first + BRANCHES;
    tutti_result_t result = TUTTI_SUCCESS;
    sharing->until = clock_deadline_ms(COME_MS);
    if (end > sharing->team->nranks)
        end = sharing->team->nranks;
    for (int rank = first; rank < end && result == TUTTI_SUCCESS; rank++)
        result = persist(sharing, comm_share_give, what, rank, fd);
    return result;
}

/* *fd is the caller's to close, if it is not -1, whatever comes back. */
static tutti_result_t comm_share_share(struct sharing *sharing, int what, tutti_result_t (*create)(int nranks, int *fd),
                                       int *fd)
{
    int rank = sharing->team->rank;
    *fd = -1;
    tutti_result_t result =
        rank ? persist(sharing, comm_share_take, what, (rank - 1) / BRANCHES, fd) : create(sharing->team->nranks, fd);
    sharing->team->shares_taken += rank && result == TUTTI_SUCCESS;
    return result == TUTTI_SUCCESS ? comm_share_hand_down(sharing, what, fd) : result;
}

void share_forget(struct team *team)
{
    if (team->rank == 0)
        return;
    lock_take(&team->engine->lock);
    for (int what = team->shares_taken; what < SHARES; what++) {
        int fd = engine_take_shared(team->engine, comm_share_key_of(team, what, team->rank));
        if (fd >= 0)
            close(fd);
    }
    lock_release(&team->engine->lock);
}

static tutti_result_t share_arena(struct sharing *sharing)
{
    int fd;
    struct team *team = sharing->team;
    tutti_result_t result = comm_share_share(sharing, ARENA, arena_create, &fd);
    if (result == TUTTI_SUCCESS)
        result = shared_open(team, fd);
    if (fd >= 0)
        close(fd);
    return result;
}

tutti_result_t share_part(struct tutti_comm *comm, struct team *part)
{
    struct sharing sharing = {
        .comm = comm, .team = part, .deadline = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_TIMEOUT))};
    if (!possible(part))
        return TUTTI_SUCCESS;
    tutti_result_t result = share_arena(&sharing);
    if (result != TUTTI_SUCCESS)
        return team_fail(part, result, -1, error_last()); /* others wait for this rank */
    return comm_agree(part, TUTTI_SUCCESS);
}

/* Collective: do all ranks say so? */
static tutti_result_t all_say(struct team *team, bool mine, bool *out)
{
    bool *all = malloc((size_t)team->nranks * sizeof *all);
    tutti_result_t result =
        all ? team_tell_all(team, &mine, sizeof mine, all) : error_set(TUTTI_SYSTEM_ERROR, "no memory for an executor");
    *out = true;
    for (int rank = 0; rank < team->nranks && result == TUTTI_SUCCESS; rank++)
        *out &= all[rank];
    free(all);
    return result;
}

static void close_near(struct team *near)
{
    share_forget(near);
    team_close(near);
}

/* Collective: this rank's host as a part, if the ranks of each host can share memory, and the kind takes them all; else
 * NULL. */
static tutti_result_t open_near(struct team *team, const struct executor_kind *kind, struct team **out)
{
    struct team *near = NULL;
    bool all = false;
    tutti_result_t result =
        team_part_of_level(team, TEAM_LEVEL_HOST, &(struct part_config){.kind = HOSTS, .name = "host"}, &near);
    if (result == TUTTI_SUCCESS)
        result = all_say(team, kind->takes(team, false) && possible(near), &all);
    if (near && !(result == TUTTI_SUCCESS && all)) {
        close_near(near);
        near = NULL;
    }
    *out = near;
    return result;
}

static tutti_result_t open_kind(struct sharing *sharing, const struct executor_kind *kind, struct team *near,
                                struct executor **out)
{
    struct tutti_comm *comm = sharing->comm;
    struct sharing by_host = {.comm = comm, .team = near, .deadline = sharing->deadline};
    tutti_result_t result = TUTTI_SUCCESS;
    int fd = -1;
    if (kind->create_shared)
        result = comm_share_share(near ? &by_host : sharing, MAILBOX, kind->create_shared, &fd);
    if (result == TUTTI_SUCCESS)
        result = kind->open(&(struct executor_members){comm->team, near}, &comm->settings.executor, fd, out);
    else if (near)
        close_near(near);
    if (fd >= 0)
        close(fd);
    return result;
}

/* A user who names a transport may think of what goes between hosts alone. */
static void say_what_stays_away(const struct team *team)
{
    static atomic_bool said;
    bool named = !transport_is_wanted(&transport_shm) && !transport_shm_is_off();
    if (named && team->local_ranks > 1 && team->local_rank == 0 && !atomic_exchange(&said, true))
        log_info("rank %d: TUTTI_TRANSPORT=%s counts within a host, too: its GPUs exchange through the host's memory, "
                 "without NVLink and islands; leave it unset (TUTTI_IB_DISABLE=1: no RDMA)",
                 team->rank, param_string(PARAM_TRANSPORT));
}

/* By the first kind that takes these ranks. */
static tutti_result_t open_on_device(struct sharing *sharing, bool shared, struct executor **out)
{
    struct team *team = sharing->team;
    say_what_stays_away(team);
    for (const struct executor_kind *const *kind = executor_kinds; *kind; kind++) {
        struct team *near = NULL;
        bool by_hosts = (*kind)->by_hosts, takes = !by_hosts && (*kind)->takes(team, shared);
        tutti_result_t result = TUTTI_SUCCESS;
        if (by_hosts && !shared && levels_between_hosts(team->levels))
            result = open_near(team, *kind, &near);
        if (result != TUTTI_SUCCESS)
            return result;
        if (near || takes)
            return open_kind(sharing, *kind, near, out);
    }
    return error_set(TUTTI_INTERNAL_ERROR, "no kind of executor takes %d ranks", team->nranks);
}

static bool is_on_device(const struct tutti_comm *comm)
{
    return comm->settings.executor.device != TUTTI_HOST && !comm->settings.on_host;
}

tutti_result_t share_executor(struct tutti_comm *comm, struct executor **out)
{
    struct sharing sharing = {
        .comm = comm, .team = comm->team, .deadline = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_TIMEOUT))};
    tutti_result_t result = is_on_device(comm) ? open_on_device(&sharing, possible(comm->team), out) : TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS)
        return team_fail(comm->team, result, comm->team->rank, error_last()); /* others wait for this rank */
    return comm_agree(comm->team, TUTTI_SUCCESS);
}

tutti_result_t share_all(struct tutti_comm *comm)
{
    bool shared = possible(comm->team), on_device = is_on_device(comm);
    struct sharing sharing = {.comm = comm, .team = comm->team, .deadline = comm->settings.deadline};
    tutti_result_t result = shared ? share_arena(&sharing) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = comm_publish_team(comm);
    if (!on_device)
        comm->executor = &comm->team->host;
    if (result == TUTTI_SUCCESS && on_device)
        result = open_on_device(&sharing, shared, &comm->executor);
    /* A rank that cannot share fails the team instead of coming here. */
    return result == TUTTI_SUCCESS && (shared || on_device) ? comm_agree(comm->team, TUTTI_SUCCESS) : result;
}
