/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan, as one actor takes them. */
#include "soak.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void select_gpu(struct actor *actor, int gpu)
{
    DONE(cu.CtxSetCurrent(actor->gpu[gpu].context));
}

static void begin(struct actor *actor)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        struct gpu *mine = &actor->gpu[gpu];
        int device;
        DONE(cu.DeviceGet(&device, gpu));
        DONE(cu.DevicePrimaryCtxRetain(&mine->context, device));
        select_gpu(actor, gpu);
        for (int i = 1; i < STREAMS; i++)
            DONE(cu.StreamCreate(&mine->stream[i], i % 2)); /* one waits for the null stream, one does not */
        DONE(cu.StreamCreate(&mine->side, 1));
        DONE(cu.EventCreate(&mine->event, 2));
    }
}

static void wait_for_streams(struct actor *actor)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        select_gpu(actor, gpu);
        for (int i = 0; i < STREAMS; i++) {
            note(actor, "waits for stream %d of GPU %d", i, gpu);
            DONE(cu.StreamSynchronize(actor->gpu[gpu].stream[i]));
        }
    }
}

static void check(struct actor *actor)
{
    wait_for_streams(actor);
    for (int i = 0; i < GRAPHS; i++) {
        for (int k = 0; actor->graph[i].ran && k < actor->graph[i].count; k++) {
            note(actor, "checks task %d of graph %d", k, i);
            task_check(actor, actor->graph[i].task[k]);
        }
        actor->graph[i].ran = false;
    }
    for (int i = 0; i < actor->npending; i++) {
        note(actor, "checks task %d of %d", i, actor->npending);
        task_check(actor, actor->pending[i]);
        task_free(actor, actor->pending[i]);
    }
    actor->npending = 0;
    for (int gpu = 0; gpu < GPUS; gpu++)
        actor->gpu[gpu].arena_used = 0;
}

/* ---- Batches ---- */

static const char *name_of(const struct task *task)
{
    return job_name(task->job.kind);
}

static ncclResult_t issue_one(struct actor *actor, struct task *task, int gpu)
{
    select_gpu(actor, gpu);
    note(actor, "issues %s of %zu on communicator %d, stream %d, GPU %d", name_of(task),
         task->job.count * data_size(task->job.type), task->family, task->stream, gpu);
    return task_issue(actor, task, gpu);
}

static void issue_times(struct actor *actor, struct task *task, int gpu, int times)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < times && (result == ncclSuccess || result == ncclInProgress); i++)
        result = issue_one(actor, task, gpu);
    if (result != ncclSuccess && result != ncclInProgress)
        wrong(actor, "a call", (int)result);
}

static void issue_good(struct actor *actor, struct task *task, int gpu)
{
    issue_times(actor, task, gpu, task->times);
}

static void end_group(struct actor *actor)
{
    note(actor, "ends a group");
    ncclResult_t result = ncclGroupEnd();
    if (result != ncclSuccess && result != ncclInProgress)
        wrong(actor, "ncclGroupEnd", (int)result);
}

static void around(struct actor *actor, struct task **task, int count, void (*what)(struct actor *, struct task *, int))
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        select_gpu(actor, gpu);
        note(actor, "copies around tasks on GPU %d", gpu);
        for (int i = 0; i < count; i++)
            if (plays(actor, &task[i]->ranks, gpu))
                what(actor, task[i], gpu);
    }
}

/* All in one group: call after call, or GPU after GPU. */
static void issue_grouped(struct actor *actor, struct task **task, int count, bool by_gpu)
{
    DONE(ncclGroupStart());
    for (int k = 0; k < count * actor->count; k++) {
        int i = by_gpu ? k % count : k / actor->count, gpu = actor->first + (by_gpu ? k / count : k % actor->count);
        if (plays(actor, &task[i]->ranks, gpu))
            issue_good(actor, task[i], gpu);
    }
    end_group(actor);
}

/* For several GPUs a group for each time: all ranks must put the same calls together, and one with a GPU has no group.
 */
static void issue_alone(struct actor *actor, struct task *task)
{
    for (int i = 0; i < task->times; i++) {
        if (actor->count > 1)
            DONE(ncclGroupStart());
        for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++)
            if (plays(actor, &task->ranks, gpu))
                issue_times(actor, task, gpu, 1);
        if (actor->count > 1)
            end_group(actor);
    }
}

static void issue_all(struct actor *actor, struct task **task, int count)
{
    uint32_t how = roll(actor, 4);
    bool by_gpu = roll(actor, 2), unlike = getenv("TUTTI_GROUP_SPREAD") != NULL; /* 0: ranks may group differently */
    for (int i = 0; i < count && how < 2; i++)
        for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++)
            task_join(task[i], task, count, gpu);
    around(actor, task, count, task_before);
    if (how < 2) {
        issue_grouped(actor, task, count, by_gpu);
    } else {
        for (int i = 0; i < count; i++) {
            if (how == 2 || (unlike && actor->count > 1))
                issue_grouped(actor, &task[i], 1, by_gpu);
            else
                issue_alone(actor, task[i]);
        }
    }
    around(actor, task, count, task_behind);
}

static struct task *add_task(struct actor *actor, int family, bool tiny)
{
    struct task *task = plan_task(actor, family, false, tiny);
    note(actor, "prepares %s", name_of(task));
    task_prepare(actor, task);
    actor->pending[actor->npending++] = task;
    return task;
}

static void batch(struct actor *actor)
{
    uint32_t how = roll(actor, 10), more = roll(actor, 1000);
    int count = how < 6 ? 1 + (int)more % 3 : how < 9 ? 3 + (int)more % 6 : 10 + (int)more % 11;
    if (actor->npending + count > PENDING)
        check(actor);
    struct task **task = &actor->pending[actor->npending];
    for (int i = 0; i < count; i++)
        add_task(actor, plan_family(actor, true), false);
    issue_all(actor, task, count);
}

/* ---- Graphs ---- */

static void end_graph(struct actor *actor, struct graph *graph)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        select_gpu(actor, gpu);
        if (graph->exec[gpu])
            DONE(cu.GraphExecDestroy(graph->exec[gpu]));
        graph->exec[gpu] = NULL;
    }
    for (int k = 0; k < graph->count; k++)
        task_free(actor, graph->task[k]);
    graph->alive = graph->ran = false;
}

static void end_graphs_of(struct actor *actor, int family)
{
    bool any = false;
    for (int i = 0; i < GRAPHS; i++)
        any |= actor->graph[i].alive && actor->graph[i].families >> family & 1;
    if (any)
        check(actor);
    for (int i = 0; i < GRAPHS; i++)
        if (actor->graph[i].alive && actor->graph[i].families >> family & 1)
            end_graph(actor, &actor->graph[i]);
}

/* The other stream's work is a branch beside, of which each communicator is in one. */
static void fork_or_join(struct actor *actor, struct graph *graph, bool forks)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        CUstream mine = actor->gpu[gpu].stream[graph->stream], other = actor->gpu[gpu].stream[3 - graph->stream];
        select_gpu(actor, gpu);
        if (forks)
            DONE(cu.StreamBeginCapture(mine, 2));
        DONE(cu.EventRecord(actor->gpu[gpu].event, forks ? mine : other));
        DONE(cu.StreamWaitEvent(forks ? other : mine, actor->gpu[gpu].event, 0));
    }
}

static void capture(struct actor *actor)
{
    int which = (int)roll(actor, GRAPHS), count = 1 + (int)roll(actor, GRAPH_TASKS);
    struct graph *graph = &actor->graph[which];
    graph->stream = 0;
    if (graph->alive) {
        check(actor);
        end_graph(actor, graph);
    }
    *graph = (struct graph){.alive = true, .count = count, .stream = 1 + (int)roll(actor, 2)};
    for (int k = 0; k < count; k++) {
        struct task *task = graph->task[k] = plan_task(actor, plan_family(actor, true), true, false);
        task->stream = task->before = task->behind = 1 + task->family % 2;
        graph->families |= 1u << task->family;
        note(actor, "prepares %s for a graph", name_of(task));
        task_prepare(actor, task);
    }
    wait_for_streams(actor);
    note(actor, "captures");
    fork_or_join(actor, graph, true);
    issue_all(actor, graph->task, count);
    fork_or_join(actor, graph, false);
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        CUgraph made;
        select_gpu(actor, gpu);
        DONE(cu.StreamEndCapture(actor->gpu[gpu].stream[graph->stream], &made));
        DONE(cu.GraphInstantiate(&graph->exec[gpu], made, 0));
        DONE(cu.GraphDestroy(made));
    }
    meet_actors(actor); /* nobody leaves before all have captured */
}

/* Behind all that was issued before, and before all that comes. */
static void launch(struct actor *actor, struct graph *graph, int gpu, int stream)
{
    struct gpu *mine = &actor->gpu[gpu];
    select_gpu(actor, gpu);
    note(actor, "launches a graph on GPU %d", gpu);
    for (int i = 0; i < STREAMS; i++) {
        DONE(cu.EventRecord(mine->event, mine->stream[i]));
        DONE(cu.StreamWaitEvent(mine->stream[stream], mine->event, 0));
    }
    for (int k = 0; k < graph->count; k++)
        if (plays(actor, &graph->task[k]->ranks, gpu))
            task_blank(actor, graph->task[k], gpu, mine->stream[stream]);
    DONE(cu.GraphLaunch(graph->exec[gpu], mine->stream[stream]));
    DONE(cu.EventRecord(mine->event, mine->stream[stream]));
    for (int i = 0; i < STREAMS; i++)
        DONE(cu.StreamWaitEvent(mine->stream[i], mine->event, 0));
}

static void replay(struct actor *actor)
{
    int which = (int)roll(actor, GRAPHS), times = 1 + (int)roll(actor, 3), stream = (int)roll(actor, STREAMS);
    struct graph *graph = &actor->graph[which];
    if (!graph->alive)
        return;
    for (int i = 0; i < times; i++)
        for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++)
            launch(actor, graph, gpu, stream);
    graph->ran = true;
}

/* ---- Communicators ---- */

static void end_one(struct actor *actor)
{
    int which = plan_family(actor, true);
    bool first_check = roll(actor, 2);
    end_graphs_of(actor, which);
    if (first_check)
        check(actor);
    comms_end(actor, which);
}

/* Whatever comes of it. */
static void issue_stuck(struct actor *actor, struct task *task, uint32_t missing)
{
    task->given_up = true;
    around(actor, &task, 1, task_before);
    DONE(ncclGroupStart());
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++)
        if (plays(actor, &task->ranks, gpu) &&
            (uint32_t)task->ranks.rank[gpu] != missing % (uint32_t)task->ranks.size[gpu])
            issue_one(actor, task, gpu);
    note(actor, "ends a group that gets stuck");
    ncclGroupEnd();
    around(actor, &task, 1, task_behind);
}

static bool is_one(const struct family *family)
{
    for (int gpu = 0; gpu < run.nranks; gpu++)
        if (family->color[gpu] != family->color[0])
            return false;
    return true;
}

/*
 * One rank never comes: the others' operation is stuck until all give the communicator up. Others go on behind it. What
 * they need is made before: a program that waits behind what is stuck waits for ever. A thread with several GPUs may
 * not issue calls that wait for a peer's host, either. To give one communicator up waits for the GPU's other work, and
 * that work may not be behind a second stuck one.
 */
static void abort_one(struct actor *actor)
{
    int which = plan_family(actor, true), beside = (int)roll(actor, 3), first;
    uint32_t missing = roll(actor, GPUS * 3);
    end_graphs_of(actor, which);
    check(actor);
    meet_actors(actor);
    bool several = run.mode == ONE_THREAD || run.mode == PAIRS;
    beside = several && !is_one(&actor->family[which]) ? 0 : beside;
    struct task *stuck = add_task(actor, which, several);
    actor->family[which].alive = false;
    first = actor->npending;
    int other = plan_family(actor, true);
    for (int i = 0; i < beside && other >= 0; i++)
        add_task(actor, other, false);
    issue_stuck(actor, stuck, missing);
    for (int i = first; i < actor->npending; i++)
        issue_all(actor, &actor->pending[i], 1);
    comms_abort(actor, which);
    if (roll(actor, 2))
        check(actor);
}

/* ---- All ---- */

static void nap(struct actor *actor)
{
    uint32_t who = roll(actor, GPUS), us = roll(actor, 3000);
    note(actor, "naps");
    if ((int)who == actor->first)
        usleep(us);
}

static bool left_out(const char *what)
{
    return strstr(run.without, what) != NULL;
}

/* Communicators whose calls wait: what is registered, all register together. */
static void use_window(struct actor *actor)
{
    int which = plan_family(actor, true), stream = (int)roll(actor, STREAMS);
    if (run.mode != PROCESSES || left_out("puts") || which < 0 || !actor->family[which].waits)
        nap(actor);
    else
        puts_play(actor, which, stream);
}

static void step(struct actor *actor)
{
    uint32_t what = roll(actor, 100);
    bool any = false;
    for (int i = 0; i < FAMILIES; i++)
        any |= actor->family[i].alive;
    if (!any || (what >= 66 && what < 73))
        comms_make(actor);
    else if (what < 55)
        batch(actor);
    else if (what < 66)
        check(actor);
    else if (what < 78)
        end_one(actor);
    else if (what < 81)
        left_out("aborts") ? nap(actor) : abort_one(actor);
    else if (what < 87)
        run.no_graphs || left_out("graphs") ? nap(actor) : capture(actor);
    else if (what < 94)
        replay(actor);
    else if (what < 98)
        use_window(actor);
    else
        nap(actor);
}

void play(struct actor *actor)
{
    begin(actor);
    for (int i = 0; i < run.steps; i++) {
        note(actor, "step %d", i);
        step(actor);
    }
    check(actor);
    for (int i = 0; i < GRAPHS; i++)
        if (actor->graph[i].alive)
            end_graph(actor, &actor->graph[i]);
    for (int i = 0; i < FAMILIES; i++)
        if (actor->family[i].alive)
            comms_end(actor, i);
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        select_gpu(actor, gpu);
        for (int i = 1; i < STREAMS; i++)
            DONE(cu.StreamDestroy(actor->gpu[gpu].stream[i]));
        DONE(cu.StreamDestroy(actor->gpu[gpu].side));
        DONE(cu.EventDestroy(actor->gpu[gpu].event));
        if (actor->gpu[gpu].arena)
            DONE(cu.MemFree(actor->gpu[gpu].arena));
    }
    note(actor, "is done");
}
