/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs. Branches run side by side, as nodes of different branches may wait for one another: what a node
 * sets free goes to other threads, except the first, which this thread goes on with. */
#include "cuda/graph.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

#include <stdlib.h>

struct graph_exec_run {
    CUgraphExec exec;
    struct branch *branches; /* one for each node */
    size_t *missing;         /* of each node: predecessors not done */
    size_t left;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool failed;
};

struct branch {
    struct pool_task task;
    struct graph_exec_run *run;
    size_t node;
};

static bool link_nodes(CUgraphExec exec, CUgraph graph)
{
    for (size_t i = 0; i < exec->count; i++) {
        const struct node_set *after = &graph->nodes.nodes[i]->after;
        exec->nodes[i].after_count = after->count;
        for (size_t k = 0; k < after->count; k++) {
            struct exec_node *from = &exec->nodes[after->nodes[k]->index];
            size_t *larger = realloc(from->before, (from->before_count + 1) * sizeof(*larger));
            if (!larger)
                return false;
            from->before = larger;
            larger[from->before_count++] = i;
        }
    }
    return true;
}

static bool copy_nodes(CUgraphExec exec, CUgraph graph)
{
    exec->nodes = calloc(graph->nodes.count + 1, sizeof(*exec->nodes));
    for (size_t i = 0; exec->nodes && i < graph->nodes.count; i++) {
        if (!work_clone(&exec->nodes[i].work, &graph->nodes.nodes[i]->work)) {
            exec->nodes[i].work = (struct work){.kind = WORK_EMPTY};
            return false;
        }
        exec->count++;
    }
    return exec->nodes && link_nodes(exec, graph);
}

CUresult graph_instantiate(CUgraph graph, CUgraphExec *out)
{
    CUgraphExec exec = calloc(1, sizeof(*exec));
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->refs = 1;
    if (!copy_nodes(exec, graph) ||
        object_copy(&exec->objects, &exec->object_count, graph->objects, graph->object_count)) {
        graph_exec_unref(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = exec;
    return CUDA_SUCCESS;
}

void graph_exec_ref(CUgraphExec exec)
{
    exec->refs++;
}

void graph_exec_unref(CUgraphExec exec)
{
    if (--exec->refs)
        return;
    for (size_t i = 0; i < exec->count; i++) {
        work_clear(&exec->nodes[i].work);
        free(exec->nodes[i].before);
    }
    free(exec->nodes);
    op_unref(exec->last);
    object_drop_all(&exec->objects, &exec->object_count);
    free(exec);
}

static void give_up(struct graph_exec_run *run, size_t node);

/* With the run's lock. */
static void start(struct graph_exec_run *run, size_t node)
{
    if (!pool_start(&run->branches[node], 1, sizeof(struct branch)))
        give_up(run, node);
}

/* Counts the node as done. The first of its successors that is ready now, or SIZE_MAX; the others get threads. */
static size_t finish(struct graph_exec_run *run, size_t node)
{
    const struct exec_node *done = &run->exec->nodes[node];
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < done->before_count; i++) {
        size_t ready = done->before[i];
        if (--run->missing[ready])
            continue;
        if (next == SIZE_MAX)
            next = ready;
        else
            start(run, ready);
    }
    if (!--run->left)
        pthread_cond_signal(&run->done);
    return next;
}

/* No thread for it: the launch fails, its nodes count as done. */
static void give_up(struct graph_exec_run *run, size_t node)
{
    run->failed = true;
    while (node != SIZE_MAX)
        node = finish(run, node);
}

static void run_branch(struct pool_task *task)
{
    struct branch *branch = (struct branch *)task;
    struct graph_exec_run *run = branch->run;
    size_t node = branch->node;
    while (node != SIZE_MAX) {
        work_run(&run->exec->nodes[node].work);
        pthread_mutex_lock(&run->lock);
        node = finish(run, node);
        pthread_mutex_unlock(&run->lock);
    }
}

static void run_all(struct graph_exec_run *run)
{
    pthread_mutex_lock(&run->lock);
    for (size_t i = 0; i < run->exec->count; i++) {
        run->missing[i] = run->exec->nodes[i].after_count;
        run->branches[i] = (struct branch){.task = {.run = run_branch}, .run = run, .node = i};
    }
    for (size_t i = 0; i < run->exec->count; i++)
        if (!run->exec->nodes[i].after_count)
            start(run, i);
    while (run->left)
        pthread_cond_wait(&run->done, &run->lock);
    pthread_mutex_unlock(&run->lock);
}

void graph_exec_run(CUgraphExec exec)
{
    struct graph_exec_run run = {.exec = exec, .left = exec->count};
    if (!exec->count)
        return;
    run.branches = calloc(exec->count, sizeof(*run.branches));
    run.missing = calloc(exec->count, sizeof(*run.missing));
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.done, NULL);
    if (run.branches && run.missing)
        run_all(&run);
    if (!run.branches || !run.missing || run.failed)
        context_fail(exec->nodes[0].work.context, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    pthread_cond_destroy(&run.done);
    pthread_mutex_destroy(&run.lock);
    free(run.branches);
    free(run.missing);
}

/* ---- As work of a stream or a graph ---- */

static bool exec_clone(struct work *to, const struct work *from)
{
    graph_exec_ref(to->graph);
    return true;
}

static void exec_clear(struct work *work)
{
    graph_exec_unref(work->graph);
}

static void exec_run(const struct work *work)
{
    graph_exec_run(work->graph);
}

const struct work_ops graph_work = {.clone = exec_clone, .clear = exec_clear, .run = exec_run};
