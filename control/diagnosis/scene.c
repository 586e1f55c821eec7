/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts a snapshot, and finds the ranks that stand still. */
#include "diagnosis/scene.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>
#include <string.h>

static const struct process_facts nothing;

/* ---- The earlier look ---- */

/* Where a rank was in the earlier look. */
struct mark {
    uint64_t id, start_time;
    int rank;
    uint64_t calls;            /* the position of its last call */
    uint64_t position, waited; /* of the operation that it is in */
    int state;
};

static struct mark mark_of(const struct blackbox *box, const struct blackbox_comm *comm)
{
    const struct blackbox_op *op = blackbox_current(comm);
    struct mark mark = {.id = comm->id, .start_time = box->header.start_time, .rank = comm->rank};
    mark.calls = comm->op_count ? comm->ops[comm->op_count - 1].position + 1 : 0;
    mark.calls += comm->unrecorded;
    if (op) {
        mark.position = op->position;
        mark.waited =
            (uint64_t)op->wait_round << 32 ^ (uint64_t)op->wait_slice << 16 ^ (uint64_t)(uint32_t)op->wait_peer;
        mark.state = (int)op->state;
    }
    return mark;
}

static int by_mark(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->start_time < b->start_time ? -1 : a->start_time > b->start_time;
}

static size_t comms_in(const struct look *look)
{
    size_t count = 0;
    for (size_t i = 0; i < look->count; i++)
        count += look->boxes[i]->comm_count;
    return count;
}

static struct mark *marks_of(const struct look *look, size_t *count)
{
    struct mark *marks = calloc(comms_in(look) + 1, sizeof *marks);
    *count = 0;
    for (size_t i = 0; marks && i < look->count; i++)
        for (size_t j = 0; j < look->boxes[i]->comm_count; j++)
            marks[(*count)++] = mark_of(look->boxes[i], &look->boxes[i]->comms[j]);
    if (marks && *count)
        qsort(marks, *count, sizeof *marks, by_mark);
    return marks;
}

static bool same_place(const struct mark *a, const struct mark *b)
{
    return a->calls == b->calls && a->position == b->position && a->waited == b->waited && a->state == b->state;
}

static bool find_moved(struct scene *scene)
{
    size_t count;
    struct mark *marks = marks_of(&scene->snapshot->before, &count);
    for (size_t i = 0; marks && i < scene->count; i++) {
        struct member *member = &scene->members[i];
        struct mark now = mark_of(member->box, member->comm);
        const struct mark *then = bsearch(&now, marks, count, sizeof *marks, by_mark);
        member->moved = member->box->alive && !(then && same_place(&now, then));
    }
    free(marks);
    return marks != NULL;
}

static bool same_boot(const struct blackbox *a, const struct blackbox *b)
{
    return memcmp(a->header.boot_id, b->header.boot_id, sizeof a->header.boot_id) == 0;
}

static bool same_process(const struct blackbox *a, const struct blackbox *b)
{
    return a->header.pid == b->header.pid && a->header.start_time == b->header.start_time &&
           a->header.pid_namespace == b->header.pid_namespace && same_boot(a, b);
}

uint64_t process_key(const struct blackbox *box)
{
    uint64_t words[5] = {box->header.pid, box->header.start_time, box->header.pid_namespace}, key = 1;
    memcpy(words + 3, box->header.boot_id, sizeof box->header.boot_id);
    for (size_t i = 0; i < 5; i++)
        key = (key ^ words[i] ^ key >> 31) * 0x9e3779b97f4a7c15ull;
    return key ? key : 1;
}

const struct process_facts *facts_before(const struct scene *scene, const struct member *member)
{
    const struct look *before = &scene->snapshot->before;
    size_t at = member->process;
    if (!before->facts)
        return NULL;
    for (size_t i = 0; i < before->count; i++, at++) { /* most often in the same place */
        const struct blackbox *box = before->boxes[at % before->count];
        if (same_process(box, member->box))
            return &before->facts[at % before->count];
    }
    return NULL;
}

/* ---- Members and groups ---- */

static int by_comm_and_rank(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    if (a->comm->id != b->comm->id)
        return a->comm->id < b->comm->id ? -1 : 1;
    if (a->comm->rank != b->comm->rank)
        return a->comm->rank < b->comm->rank ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

static void gather(struct scene *scene)
{
    const struct look *look = &scene->snapshot->now;
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->boxes[i]->comm_count; j++)
            scene->members[scene->count++] = (struct member){
                .box = look->boxes[i],
                .comm = &look->boxes[i]->comms[j],
                .facts = look->facts ? &look->facts[i] : &nothing,
                .process = i,
                .awaited = -1,
            };
    if (scene->count)
        qsort(scene->members, scene->count, sizeof *scene->members, by_comm_and_rank);
    for (size_t i = scene->count; i-- > 0;) {
        struct member *member = &scene->members[i];
        member->sibling = scene->of_process[member->process];
        scene->of_process[member->process] = member;
    }
}

static void find_newest(struct scene *scene, struct member *member)
{
    const struct blackbox_comm *comm = member->comm;
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].collective < WIRE_SEND && (!member->has_newest || comm->ops[i].seq > member->newest)) {
            member->newest = comm->ops[i].seq;
            member->has_newest = true;
        }
    if (comm->newest_unrecorded > member->newest) {
        member->newest = comm->newest_unrecorded;
        member->has_newest = true;
    }
    scene->steps += comm->op_count;
}

/* A box is dead beside a living one of its host; other hosts tell nothing here, unless they are watched. Where all are
 * dead, those who went with the last are not the cause: they were ended together. */
static bool is_dead(const struct scene *scene, const struct member_group *group, const struct member *member,
                    const struct blackbox *living, uint64_t last)
{
    if (member->box->alive || member->comm->state != WIRE_COMM_OPEN)
        return false;
    return living ? scene->snapshot->watched || same_boot(member->box, living)
                  : group->one_clock && member->box->now + DEAD_BEFORE_NS < last;
}

static void find_dead(const struct scene *scene, struct member_group *group)
{
    const struct blackbox *living = NULL;
    uint64_t last = 0;
    group->one_clock = true;
    for (size_t i = 0; i < group->count; i++) {
        const struct blackbox *box = group->members[i].box;
        living = box->alive ? box : living;
        last = box->now > last ? box->now : last;
        group->one_clock = group->one_clock && same_boot(box, group->members->box);
    }
    group->lives = living != NULL;
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        member->dead = is_dead(scene, group, member, living, last);
        if (member->dead && !group->first_dead)
            group->first_dead = member;
    }
}

static bool calls_less(const struct member *member, const struct member *than)
{
    return !than || (than->has_newest && (!member->has_newest || member->newest < than->newest));
}

static bool stands_still(const struct member *member, uint64_t stuck, bool moving)
{
    if (!member->op || member->dead || (member->moved && !moving))
        return false;
    uint64_t since = blackbox_since(member->op); /* 0: unknown */
    bool timed = member->box->alive || (member->box->dumped && member->box->now);
    return !timed || !since || member->box->now >= since + stuck;
}

static void find_facts(struct scene *scene, struct member_group *group, uint64_t stuck, bool moving)
{
    find_dead(scene, group);
    group->asked = -1;
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        member->group = group;
        if (member->comm->state != WIRE_COMM_CLOSED)
            member->op = blackbox_current(member->comm);
        find_newest(scene, member);
        member->stuck = stands_still(member, stuck, moving);
        if (calls_less(member, group->behind))
            group->behind = member;
        scene->steps++;
    }
}

static void divide(struct scene *scene)
{
    for (size_t i = 0; i < scene->count; i++) {
        struct member *member = &scene->members[i];
        if (i == 0 || member->comm->id != member[-1].comm->id)
            scene->groups[scene->group_count++] = (struct member_group){.members = member};
        scene->groups[scene->group_count - 1].count++;
    }
}

static bool of_one_host(const struct look *look)
{
    for (size_t i = 1; i < look->count; i++)
        if (strcmp(look->boxes[i]->header.host, look->boxes[0]->header.host) != 0)
            return false;
    return true;
}

bool scene_open(struct scene *scene, const struct snapshot *snapshot, uint64_t stuck, bool moving)
{
    size_t most = comms_in(&snapshot->now);
    *scene = (struct scene){.snapshot = snapshot};
    scene->members = calloc(most + 1, sizeof *scene->members);
    scene->groups = calloc(most + 1, sizeof *scene->groups);
    scene->of_process = calloc(snapshot->now.count + 1, sizeof(struct member *));
    bool fine = scene->members && scene->groups && scene->of_process;
    if (fine) {
        gather(scene);
        divide(scene);
        fine = !snapshot->before.count || find_moved(scene);
    }
    bool one_host = of_one_host(&snapshot->now);
    for (size_t i = 0; fine && i < scene->group_count; i++) {
        scene->groups[i].one_host = one_host;
        find_facts(scene, &scene->groups[i], stuck, moving);
    }
    if (!fine)
        scene_close(scene);
    return fine;
}

void scene_close(struct scene *scene)
{
    free(scene->members);
    free(scene->groups);
    free(scene->of_process);
    free(scene->crowds);
    for (size_t i = 0; scene->ends && i < scene->snapshot->now.count; i++)
        ends_free(&scene->ends[i]);
    free(scene->ends);
    *scene = (struct scene){0};
}

struct member *scene_find(struct member_group *group, int rank)
{
    size_t low = 0, high = group->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->members[middle].comm->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < group->count && group->members[low].comm->rank == rank ? &group->members[low] : NULL;
}

struct member_group *scene_group(const struct scene *scene, uint64_t id)
{
    size_t low = 0, high = scene->group_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (scene->groups[middle].members->comm->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scene->group_count && scene->groups[low].members->comm->id == id ? &scene->groups[low] : NULL;
}

struct member_group *scene_largest(const struct scene *scene)
{
    struct member_group *largest = NULL;
    for (size_t i = 0; i < scene->group_count; i++) {
        struct member_group *group = &scene->groups[i];
        if (group->count > 1 && group->count == (size_t)group->members->comm->nranks &&
            group->members->comm->state == WIRE_COMM_OPEN && (!largest || group->count > largest->count))
            largest = group;
    }
    return largest;
}

uint64_t process_remembers(const struct blackbox *box, uint64_t most)
{
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        bool forgets = comm->op_count && comm->ops[0].position > 0 && comm->ops[0].begin < box->now;
        if (forgets && box->now - comm->ops[0].begin < most)
            most = box->now - comm->ops[0].begin;
    }
    return most;
}

bool member_has_called(const struct member *member, const struct blackbox_op *op)
{
    return member->has_newest && member->newest >= op->seq;
}

bool member_is_replaced(const struct member *member)
{
    return !member->box->alive && member->facts->replaced && member->group->lives;
}

uint64_t member_waited(const struct member *waiter)
{
    uint64_t since = blackbox_since(waiter->op);
    return since && waiter->box->now > since ? waiter->box->now - since : 0;
}

const struct ends *scene_ends(struct scene *scene, size_t process)
{
    static const struct ends none;
    const struct look *look = &scene->snapshot->now;
    if (!scene->ends)
        scene->ends = calloc(look->count + 1, sizeof *scene->ends);
    if (!scene->ends)
        return &none;
    struct ends *ends = &scene->ends[process];
    if (!ends->end) { /* a process without calls has an array, too */
        *ends = ends_of(look->boxes[process]);
        scene->steps += ends->count;
    }
    return ends;
}
