/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/view.h"

#include "diagnosis/delays.h"
#include "diagnosis/slow.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/waits.h"

#include <stdlib.h>

const char *view_state_name(enum view_state state)
{
    static const char *const names[VIEW_STATES] = {"outside", "inside", "waits",   "ended", "silent",
                                                   "failed",  "traced", "stopped", "dead"};
    return names[state];
}

static int awaited_by(const struct member *member)
{
    if (member->stuck)
        return member->awaited;
    bool waits = member->op && member->op->state == WIRE_OP_RUNNING && member->op->wait_since;
    return waits ? member->op->wait_peer : -1;
}

static void add_comm(struct view *view, const struct scene *scene, struct member_group *group)
{
    struct view_comm *comm = &view->comms[view->comm_count++];
    comm->members = view->members + (group->members - scene->members);
    comm->count = group->count;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        comm->members[i] = (struct view_member){.process = member->process,
                                                .comm = member->comm,
                                                .op = member->op,
                                                .newest = member->newest,
                                                .awaited = awaited_by(member),
                                                .stuck = member->stuck};
    }
    delays_open(&comm->delays, group);
}

/* ---- Processes ---- */

/* A process in several communicators has the largest of its shares. */
static void fill_shares(struct view *view, struct scene *scene)
{
    double *shares = calloc(scene->count + 1, sizeof *shares);
    for (size_t i = 0; shares && i < scene->group_count; i++)
        slow_shares(scene, &scene->groups[i], shares + (scene->groups[i].members - scene->members));
    for (size_t i = 0; shares && i < scene->count; i++) {
        double *most = &view->processes[scene->members[i].process].holds_up;
        *most = shares[i] > *most ? shares[i] : *most;
    }
    free(shares);
}

static enum view_state state_of(const struct member *member)
{
    const struct blackbox *box = member->box;
    if (member->dead)
        return VIEW_DEAD;
    if (box->alive && member->facts->state == PROCESS_STOPPED)
        return VIEW_STOPPED;
    if (box->alive && member->facts->state == PROCESS_TRACED)
        return VIEW_TRACED;
    if (member->comm->state == WIRE_COMM_FAILED || member->comm->state == WIRE_COMM_ABORTED)
        return VIEW_FAILED;
    if (member->facts->unheard > UNHEARD_NS)
        return VIEW_SILENT;
    if (!box->alive)
        return VIEW_ENDED;
    return member->stuck ? VIEW_WAITS : member->op ? VIEW_INSIDE : VIEW_OUTSIDE;
}

/* Follows one wait until it leaves the process. In a circle within a process, the walk takes one step for each
 * member. */
static const struct member *leave(const struct scene *scene, const struct member *from)
{
    const struct member *at = from;
    for (const struct member *count = scene->of_process[from->process]; count; count = count->sibling)
        if (at->next && at->next->process == from->process)
            at = at->next;
    return at;
}

static void fill_process(struct view *view, const struct scene *scene, size_t number)
{
    struct view_process *process = &view->processes[number];
    const struct blackbox *box = scene->snapshot->now.boxes[number];
    int largest = 0;
    *process =
        (struct view_process){.state = box->alive ? VIEW_OUTSIDE : VIEW_ENDED, .world_rank = -1, .next = VIEW_NOBODY};
    for (const struct member *member = scene->of_process[number]; member; member = member->sibling) {
        enum view_state state = state_of(member);
        process->state = state > process->state ? state : process->state;
        if (member->comm->nranks > largest) {
            largest = member->comm->nranks;
            process->world_rank = member->comm->rank;
        }
        const struct member *at = leave(scene, member);
        bool waits = member->stuck && (at->next || at->ending == FINDING_ABSENT);
        if (!waits || process->next != VIEW_NOBODY || (process->in && !at->next))
            continue;
        process->in = &view->members[at - scene->members];
        process->next = at->next && at->next->process != number ? at->next->process : VIEW_NOBODY;
    }
}

bool view_open(struct view *view, const struct snapshot *snapshot)
{
    struct scene scene;
    *view = (struct view){0};
    if (!scene_open(&scene, snapshot, snapshot->stuck, false))
        return false;
    scene_follow(&scene);
    view->comms = calloc(scene.group_count + 1, sizeof *view->comms);
    view->members = calloc(scene.count + 1, sizeof *view->members);
    view->processes = calloc(snapshot->now.count + 1, sizeof *view->processes);
    bool fine = view->comms && view->members && view->processes;
    for (size_t i = 0; fine && i < scene.group_count; i++)
        add_comm(view, &scene, &scene.groups[i]);
    for (size_t i = 0; fine && i < snapshot->now.count; i++)
        fill_process(view, &scene, i);
    if (fine)
        fill_shares(view, &scene);
    view->process_count = fine ? snapshot->now.count : 0;
    scene_close(&scene);
    if (!fine)
        view_close(view);
    return fine;
}

double *diagnosis_holds_up(const struct snapshot *snapshot)
{
    struct view view;
    double *shares = calloc(snapshot->now.count + 1, sizeof *shares);
    if (!shares || !view_open(&view, snapshot)) {
        free(shares);
        return NULL;
    }
    for (size_t i = 0; i < view.process_count; i++)
        shares[i] = view.processes[i].holds_up;
    view_close(&view);
    return shares;
}

void view_close(struct view *view)
{
    for (size_t i = 0; i < view->comm_count; i++)
        free(view->comms[i].delays.cells);
    free(view->comms);
    free(view->members);
    free(view->processes);
    *view = (struct view){0};
}
