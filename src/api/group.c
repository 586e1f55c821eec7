/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: calls of one thread are kept until the outermost end, then issued together. */
#include "api/group.h"
#include "api/internal.h"

#include "base/error.h"
#include "base/thread.h"
#include "engine/estimate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A parent's splits run one after another in a thread of their own: those of several ranks meet. */
struct split {
    struct split *next; /* of the same parent */
    struct making making;
    bool first;
    struct thread thread;
    tutti_result_t result;
    char sentence[1024];
};

_Static_assert(GROUP_FRONT <= FEW, "what is in front finds room among the first calls");

_Thread_local struct group_front group_front; /* apart from the rest, which is large */

static _Thread_local struct {
    char sentence[1024]; /* of group_front.error */
    struct entry *entry; /* NULL or `few` or malloc'ed */
    size_t count, room;
    struct entry few[FEW];
} group;

tutti_result_t group_note(tutti_result_t result)
{
    if (!group_front.depth || result == TUTTI_SUCCESS)
        return result;
    if (result == TUTTI_IN_PROGRESS)
        result = error_set(TUTTI_INVALID_USAGE,
                           "the communicator is still being made: calls on it come behind the group that makes it, "
                           "when tutti_comm_get_async_error() says success");
    if (group_front.error == TUTTI_SUCCESS) {
        group_front.error = result;
        snprintf(group.sentence, sizeof group.sentence, "%s", error_last());
    }
    return result;
}

static tutti_result_t grow(void)
{
    size_t room = group.room ? group.room * 2 : FEW;
    bool own = group.entry && group.entry != group.few;
    struct entry *grown = group.room ? realloc(own ? group.entry : NULL, room * sizeof *grown) : group.few;
    if (!grown)
        return group_note(error_set(TUTTI_SYSTEM_ERROR, "no memory for a group of %zu calls", room));
    if (group.room && !own)
        memcpy(grown, group.few, sizeof group.few);
    group.entry = grown;
    group.room = room;
    return TUTTI_SUCCESS;
}

static struct tutti_stream *host_stream(const struct entry *entry)
{
    return comm_joins_streams(entry->comm) ? NULL : entry->stream;
}

/* What the group keeps must not be destroyed: `by` is 1 when it is put in, -1 when the group ends. */
static void hold(const struct entry *entry, int by)
{
    struct tutti_stream *stream = host_stream(entry);
    atomic_fetch_add(&entry->comm->grouped, by);
    if (entry->kind == ENTRY_WINDOW && entry->window.window)
        atomic_fetch_add(&entry->comm->grouped_windows, by);
    if (stream)
        atomic_fetch_add(&stream->grouped, by);
}

static tutti_result_t group_append(const struct entry *entry)
{
    tutti_result_t result = group.count == group.room ? grow() : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS) {
        hold(entry, 1);
        group.entry[group.count++] = *entry;
    }
    return result;
}

static struct entry entry_of(tutti_comm_t comm, const struct p2p_item *item, tutti_stream_t stream)
{
    return (struct entry){.kind = ENTRY_P2P, .comm = comm, .stream = stream, .item = *item};
}

/* What comes is not like the messages before it: they take their places among the calls. The first calls have room. */
static void group_spread(void)
{
    struct group_front *front = &group_front;
    for (int i = 0; i < front->count; i++) {
        struct entry entry = entry_of(front->comm, &front->item[i], front->stream);
        group_append(&entry);
    }
    group_let_go(front);
}

static tutti_result_t add(const struct entry *entry)
{
    if (group_front.count)
        group_spread();
    return group_append(entry);
}

static void let_go_all(void)
{
    for (size_t i = 0; i < group.count; i++)
        hold(&group.entry[i], -1);
}

/* The user's counts and offsets are his again when the call returns. */
static tutti_result_t copy_counts(const tutti_comm_t comm, struct call *call, size_t **out)
{
    size_t n = (size_t)comm->team->nranks;
    const size_t *from[4] = {call->send_counts, call->send_offsets, call->recv_counts, call->recv_offsets};
    size_t *copy = malloc(4 * n * sizeof *copy);
    if (!copy)
        return group_note(error_set(TUTTI_SYSTEM_ERROR, "no memory for the counts of %zu ranks", n));
    for (size_t i = 0; i < 4; i++)
        memcpy(copy + i * n, from[i], n * sizeof *copy);
    call->send_counts = copy;
    call->send_offsets = copy + n;
    call->recv_counts = copy + 2 * n;
    call->recv_offsets = copy + 3 * n;
    *out = copy;
    return TUTTI_SUCCESS;
}

tutti_result_t group_keep(tutti_comm_t comm, struct call *call, tutti_stream_t stream)
{
    size_t *counts = NULL;
    tutti_result_t result = call->coll == COLL_ALLTOALLV ? copy_counts(comm, call, &counts) : TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS)
        return result;
    if (!group_front.depth)
        return group_pass(comm, call, counts, stream);
    result =
        add(&(struct entry){.kind = ENTRY_COLLECTIVE, .comm = comm, .stream = stream, .call = *call, .counts = counts});
    if (result != TUTTI_SUCCESS)
        free(counts);
    return result;
}

tutti_result_t group_keep_p2p(tutti_comm_t comm, const struct p2p_item *item, tutti_stream_t stream)
{
    struct group_front *front = &group_front;
    if (!front->count && !group.count && !comm_joins_streams(comm)) {
        front->comm = comm;
        front->stream = stream;
        front->item[front->count++] = *item;
        group_hold(front, 1);
        return TUTTI_SUCCESS;
    }
    struct entry entry = entry_of(comm, item, stream);
    return add(&entry);
}

tutti_result_t group_keep_window(tutti_comm_t comm, const struct window_item *item, tutti_stream_t stream)
{
    return add(&(struct entry){.kind = ENTRY_WINDOW, .comm = comm, .stream = stream, .window = *item});
}

tutti_result_t group_init(const struct comm_settings *settings, tutti_comm_t *out)
{
    tutti_comm_t comm;
    tutti_result_t result = comm_new(settings, &comm);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    if (group_front.depth) {
        result = add(&(struct entry){.kind = ENTRY_INIT, .comm = comm, .out = out});
        if (result == TUTTI_SUCCESS)
            *out = comm;
        else
            comm_free(comm);
        return result;
    }
    result = settings->blocking ? comm_join(comm) : comm_join_later(comm);
    if (result != TUTTI_SUCCESS) {
        comm_free(comm);
        return result;
    }
    *out = comm;
    return settings->blocking ? TUTTI_SUCCESS : TUTTI_IN_PROGRESS;
}

/* Inits meet each other, so all are begun before any is waited for. */
static tutti_result_t issue_inits(void)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; i < group.count; i++)
        if (group.entry[i].kind == ENTRY_INIT)
            result = group_worse(result, comm_join_later(group.entry[i].comm));
    for (size_t i = 0; i < group.count; i++) {
        struct entry *entry = &group.entry[i];
        if (entry->kind != ENTRY_INIT)
            continue;
        entry->kind = ENTRY_DONE;
        if (!entry->comm->settings.blocking) {
            result = group_worse(result, TUTTI_IN_PROGRESS);
            continue;
        }
        tutti_result_t joined = comm_join_wait(entry->comm);
        result = group_worse(result, joined);
        if (joined != TUTTI_SUCCESS) {
            comm_free(entry->comm);
            *entry->out = NULL;
        }
    }
    return result;
}

/* ---- Splits ---- */

static void drop_split(struct split *split)
{
    if (split->making.child)
        comm_free(split->making.child);
    free(split);
}

tutti_result_t group_split(tutti_comm_t comm, int color, int key, const tutti_config_t *config, tutti_comm_t *child)
{
    struct split *split = calloc(1, sizeof *split);
    *child = NULL;
    if (!split)
        return group_note(error_set(TUTTI_SYSTEM_ERROR, "no memory for a split"));
    making_split(&split->making, comm, color, key, config, TUTTI_SUCCESS);
    tutti_result_t result = add(&(struct entry){.kind = ENTRY_SPLIT, .comm = comm, .out = child, .split = split});
    if (result != TUTTI_SUCCESS)
        drop_split(split);
    return result;
}

static void *run_splits(void *argument)
{
    for (struct split *split = argument; split; split = split->next) {
        split->result = making_run(&split->making);
        if (split->result != TUTTI_SUCCESS)
            snprintf(split->sentence, sizeof split->sentence, "%s", error_last());
    }
    return NULL;
}

static struct split *split_of(size_t i)
{
    return group.entry[i].kind == ENTRY_SPLIT ? group.entry[i].split : NULL;
}

/* Behind the last one of its parent, if there is any. */
static void group_chain(size_t i)
{
    struct split *split = split_of(i);
    split->first = true;
    for (size_t k = i; k-- > 0 && split->first;) {
        struct split *before = split_of(k);
        if (!before || before->making.parent != split->making.parent)
            continue;
        before->next = split;
        split->first = false;
    }
}

static tutti_result_t end_split(struct entry *entry)
{
    struct split *split = entry->split;
    thread_end(&split->thread);
    if (split->result != TUTTI_SUCCESS)
        error_set(split->result, "%s", split->sentence);
    tutti_result_t result = making_end(&split->making, split->result, entry->out);
    entry->kind = ENTRY_DONE;
    free(split);
    return result;
}

static tutti_result_t issue_splits(void)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; i < group.count; i++)
        if (split_of(i))
            group_chain(i);
    for (size_t i = 0; i < group.count; i++) {
        struct split *split = split_of(i);
        if (!split || !split->first)
            continue;
        if (thread_start(&split->thread, "tutti-splitter", run_splits, split) !=
            TUTTI_SUCCESS) /* the others wait for this rank: it must not be missing */
            run_splits(split);
    }
    for (size_t i = 0; i < group.count; i++) {
        struct entry *entry = &group.entry[i];
        if (entry->kind != ENTRY_SPLIT)
            continue;
        result = group_worse(result, end_split(entry));
    }
    return result;
}

/* Nothing of the group is issued, but other ranks wait for this one in its splits: they are told. */
static tutti_result_t refuse_splits(void)
{
    for (size_t i = 0; i < group.count; i++)
        if (split_of(i))
            making_refuse(&split_of(i)->making, error_note(group_front.error, "%s", group.sentence));
    issue_splits();
    return error_note(group_front.error, "%s", group.sentence);
}

static void drop_all(void)
{
    for (size_t i = 0; i < group.count; i++) {
        struct entry *entry = &group.entry[i];
        if (entry->kind == ENTRY_COLLECTIVE)
            free(entry->counts);
        if (entry->kind == ENTRY_SPLIT)
            drop_split(entry->split);
        if (entry->kind == ENTRY_INIT) {
            comm_free(entry->comm);
            *entry->out = NULL;
        }
    }
}

static uint32_t collectives_of(tutti_comm_t comm, size_t first)
{
    uint32_t count = 0;
    for (size_t i = first; i < group.count; i++)
        count += group.entry[i].kind == ENTRY_COLLECTIVE && group.entry[i].comm == comm;
    return count;
}

/* Tells each collective how many its communicator has in the group. */
static void count_together(void)
{
    for (size_t i = 0; i < group.count; i++) {
        if (group.entry[i].kind != ENTRY_COLLECTIVE || group.entry[i].call.together)
            continue;
        tutti_comm_t comm = group.entry[i].comm;
        uint32_t together = collectives_of(comm, i);
        for (size_t j = i; j < group.count; j++)
            if (group.entry[j].kind == ENTRY_COLLECTIVE && group.entry[j].comm == comm)
                group.entry[j].call.together = together;
    }
}

/* One thread may issue for several ranks: none may wait for another that has not been told anything yet. */
static tutti_result_t prepare_all(void)
{
    tutti_result_t result = TUTTI_SUCCESS;
    count_together();
    for (size_t i = 0; i < group.count && result == TUTTI_SUCCESS; i++)
        if (group.entry[i].kind == ENTRY_COLLECTIVE)
            result = comm_prepare(group.entry[i].comm, &group.entry[i].call, &group.entry[i].note);
    return result;
}

tutti_result_t group_prepare_and_pass(tutti_comm_t comm, const struct call *call, size_t *counts, tutti_stream_t stream)
{
    struct executor_note note;
    tutti_result_t result = comm_prepare(comm, call, &note);
    if (result == TUTTI_SUCCESS)
        return comm_collective(comm, call, counts, stream, &note);
    free(counts);
    return result;
}

static tutti_result_t issue_all(void)
{
    tutti_result_t result = issue_inits();
    if (group_goes_on(result))
        result = group_worse(result, issue_splits());
    if (group_goes_on(result))
        result = group_worse(result, prepare_all());
    if (group_goes_on(result))
        result = group_worse(result, group_issue_windows(group.entry, group.count, false));
    if (group_goes_on(result))
        result = group_worse(result, batch_issue_all(group.entry, group.count));
    if (group_goes_on(result))
        result = group_worse(result, group_issue_windows(group.entry, group.count, true));
    return result;
}

/* A few messages of one communicator on host memory, as exchanges are: there is nothing to arrange. */
static inline tutti_result_t issue_front(struct group_front *front)
{
    int count = front->count;
    group_let_go(front);
    return comm_p2p(front->comm, front->item, count, front->stream);
}

/* The calls of the group that have places of their own. */
static __attribute__((noinline)) tutti_result_t end_entries(void)
{
    if (group_front.count)
        group_spread();
    let_go_all();
    tutti_result_t result = group_front.error == TUTTI_SUCCESS ? issue_all() : refuse_splits();
    drop_all();
    if (group.entry != group.few)
        free(group.entry);
    group.entry = NULL;
    group.count = group.room = 0;
    group_front.error = TUTTI_SUCCESS;
    return result;
}

tutti_result_t tutti_group_start(void)
{
    group_front.depth++;
    return TUTTI_SUCCESS;
}

static double price_entry(const struct entry *entry)
{
    const struct team *team = entry->comm->team;
    bool calls = entry->kind == ENTRY_COLLECTIVE || entry->kind == ENTRY_P2P || entry->kind == ENTRY_WINDOW;
    bool devices = calls && comm_device(entry->comm) != TUTTI_HOST;
    switch (entry->kind) {
    case ENTRY_COLLECTIVE:
        return team_estimate(team, devices, &entry->call);
    case ENTRY_P2P:
        return team_estimate_message(team, devices, entry->item.peer, entry->item.count * type_size(entry->item.type));
    case ENTRY_WINDOW:
        return team_estimate_message(team, devices, entry->window.peer,
                                     entry->window.call == WINDOW_WAIT ? 0 : entry->window.length);
    default:
        return 0; /* it is about to be made */
    }
}

/* Calls of one communicator follow one another, those of several go at the same time. */
static double price_communicator(size_t first)
{
    double seconds = 0;
    for (size_t i = 0; i < group.count; i++) {
        bool own = group.entry[i].comm == group.entry[first].comm;
        if (own && i < first)
            return 0; /* counted there */
        seconds += own ? price_entry(&group.entry[i]) : 0;
    }
    return seconds;
}

tutti_result_t tutti_group_estimate(double *seconds)
{
    if (!group_front.depth)
        return error_set(TUTTI_INVALID_USAGE, "tutti_group_estimate() without tutti_group_start()");
    if (!seconds)
        return group_note(error_set(TUTTI_INVALID_ARGUMENT, "seconds is NULL"));
    if (group_front.count)
        group_spread();
    *seconds = 0;
    for (size_t i = 0; i < group.count; i++) {
        double own = price_communicator(i);
        *seconds = own > *seconds ? own : *seconds;
    }
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_group_cancel(void)
{
    if (!group_front.depth)
        return error_set(TUTTI_INVALID_USAGE, "tutti_group_cancel() without tutti_group_start()");
    group_note(error_set(TUTTI_INVALID_USAGE, "the group was cancelled"));
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_group_end(void)
{
    struct group_front *front = &group_front;
    if (!front->depth)
        return error_set(TUTTI_INVALID_USAGE, "tutti_group_end() without tutti_group_start()");
    if (--front->depth)
        return TUTTI_SUCCESS;
    return front->count && front->error == TUTTI_SUCCESS ? issue_front(front) : end_entries();
}
