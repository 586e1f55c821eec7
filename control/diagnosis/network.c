/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, their steps and their interfaces: what network.h reads from a snapshot. */
#include "diagnosis/network.h"

#include "diagnosis/flows.h"
#include "diagnosis/steps.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MOST 64 /* latest steps of a job */

const char *moment_name(enum moment moment)
{
    static const char *const names[] = {"network",       "program",     "late ranks", "no processor",
                                        "receiver late", "sender late", "waits"};
    return (unsigned)moment < MOMENTS ? names[moment] : "?";
}

uint64_t moments_sum(const struct moments *moments)
{
    uint64_t sum = 0;
    for (int i = 0; i < MOMENTS; i++)
        sum += moments->ns[i];
    return sum;
}

/* The snapshot in order: the job of each process, and the calls of each group. */
struct diagnosis_network {
    struct scene scene;
    struct timeline *timelines;
    struct timeline_calls *calls;
    size_t *job; /* for each process: the first process of its job */
};

/* ---- Jobs ---- */

static size_t find_job(size_t *job, size_t process)
{
    while (job[process] != process)
        process = job[process] = job[job[process]];
    return process;
}

static void find_jobs(struct diagnosis_network *network)
{
    const struct scene *scene = &network->scene;
    for (size_t i = 0; i < scene->snapshot->now.count; i++)
        network->job[i] = i;
    for (size_t i = 0; i < scene->group_count; i++)
        for (size_t j = 1; j < scene->groups[i].count; j++) {
            size_t a = find_job(network->job, scene->groups[i].members->process);
            size_t b = find_job(network->job, scene->groups[i].members[j].process);
            network->job[a > b ? a : b] = a < b ? a : b;
        }
}

/* ---- What a call is charged with ---- */

/* Keeps the longest time that a rank of each collective had data under way. */
static void find_longest(struct diagnosis_network *network, size_t process)
{
    const struct timeline *timeline = &network->timelines[process];
    for (const struct member *at = network->scene.of_process[process]; at; at = at->sibling)
        for (size_t i = 0; i < at->comm->op_count; i++) {
            const struct blackbox_op *op = &at->comm->ops[i];
            struct timeline_call *call =
                op->collective < WIRE_SEND
                    ? timeline_call_find(&network->calls[at->group - network->scene.groups], op->seq)
                    : NULL;
            uint64_t ns[MOMENTS] = {0};
            if (call)
                timeline_add(timeline, op->begin, op->end, ns);
            if (call && ns[MOMENT_NETWORK] > call->network)
                call->network = ns[MOMENT_NETWORK];
        }
}

/* Adds what this process did. In calls in which another rank's data was on its way longer, the process is charged with
 * that time. */
static void add_moments(const struct diagnosis_network *network, size_t process, uint64_t from, uint64_t to,
                        struct moments *moments)
{
    const struct timeline *timeline = &network->timelines[process];
    uint64_t ns[MOMENTS] = {0}, more = 0, free_time;
    timeline_add(timeline, from, to, ns);
    for (const struct member *at = network->scene.of_process[process]; at; at = at->sibling)
        for (size_t i = 0; i < at->comm->op_count; i++) {
            const struct blackbox_op *op = &at->comm->ops[i];
            const struct timeline_call *call =
                op->collective < WIRE_SEND && op->begin >= from && op->end > op->begin && op->end <= to
                    ? timeline_call_find(&network->calls[at->group - network->scene.groups], op->seq)
                    : NULL;
            uint64_t own[MOMENTS] = {0}, took = op->end - op->begin;
            if (!call)
                continue;
            timeline_add(timeline, op->begin, op->end, own);
            uint64_t charged = call->network < took ? call->network : took;
            more += charged > own[MOMENT_NETWORK] ? charged - own[MOMENT_NETWORK] : 0;
        }
    free_time = 0;
    for (int i = 0; i < MOMENTS; i++) {
        moments->ns[i] += ns[i];
        free_time += i == MOMENT_NETWORK || i == MOMENT_PROGRAM ? 0 : ns[i];
    }
    moments->charged += ns[MOMENT_NETWORK] + (more < free_time ? more : free_time);
}

/* ---- Steps ---- */

/* Adds the finished steps that a rank remembers whole: a step ends where the next one begins. */
static void add_steps(const struct diagnosis_network *network, const struct member *member, struct network_job *job)
{
    const struct timeline *timeline = &network->timelines[member->process];
    uint64_t base = job->steps->first;
    size_t count;
    const struct blackbox_op **ops = steps_calls(member->comm, &count), *open = NULL;
    for (size_t i = 0; ops && i < count; i++) {
        if (ops[i]->seq < base || (ops[i]->seq - base) % job->period)
            continue;
        size_t step = open ? (size_t)((open->seq - base) / job->period) : 0;
        if (open && ops[i]->seq == open->seq + job->period && open->begin >= timeline->from &&
            ops[i]->begin <= timeline->to && step < job->step_count) {
            struct network_step *into = &job->steps[step];
            uint64_t took = ops[i]->begin - open->begin;
            into->ranks++;
            into->longest = took > into->longest ? took : into->longest;
            add_moments(network, member->process, open->begin, ops[i]->begin, &into->time);
        }
        open = ops[i];
    }
    free(ops);
}

static bool make_steps(const struct member_group *group, struct network_job *job)
{
    struct steps steps = steps_of(group);
    size_t left = steps.count > STEPS_MOST ? steps.count - STEPS_MOST : 0;
    job->period = steps.period;
    job->step_count = steps.count - left;
    job->steps = calloc(job->step_count + 1, sizeof *job->steps);
    for (size_t i = 0; job->steps && i < job->step_count; i++)
        job->steps[i].first = steps.base + (left + i) * steps.period;
    return job->steps != NULL;
}

/* Leaves out steps that no rank remembers whole. */
static bool find_steps(const struct diagnosis_network *network, const struct member_group *group,
                       struct network_job *job)
{
    size_t kept = 0;
    bool fine = make_steps(group, job);
    for (size_t i = 0; fine && job->step_count && i < group->count; i++)
        add_steps(network, &group->members[i], job);
    for (size_t i = 0; fine && i < job->step_count; i++)
        if (job->steps[i].ranks)
            job->steps[kept++] = job->steps[i];
    job->step_count = kept;
    return fine;
}

/* ---- Interfaces ---- */

struct carried {
    const char *host, *name;
    const struct blackbox_segment *segment;
    uint64_t begin, took; /* from its put, or from the landing of the segment before on its lane */
    uint32_t rate;
};

static int by_interface(const void *left, const void *right)
{
    const struct carried *a = left, *b = right;
    int hosts = strcmp(a->host, b->host), names = hosts ? hosts : strcmp(a->name, b->name);
    if (names)
        return names;
    return a->segment->posted < b->segment->posted ? -1 : a->segment->posted > b->segment->posted;
}

static int by_length(const void *left, const void *right)
{
    const struct carried *a = left, *b = right;
    if (a->segment->length != b->segment->length)
        return a->segment->length < b->segment->length ? -1 : 1;
    return a->took < b->took ? -1 : a->took > b->took;
}

static size_t gather_lane(const struct diagnosis_network *network, const struct blackbox *box,
                          const struct blackbox_lane *lane, struct carried *out)
{
    size_t count = 0;
    uint64_t over = 0;
    if (!timeline_receiver(&network->scene, box, lane))
        return 0;
    for (size_t i = 0; i < lane->segment_count; i++) {
        const struct blackbox_segment *segment = &lane->segments[i];
        if (!blackbox_landed(segment))
            continue;
        uint64_t from = segment->posted > over ? segment->posted : over;
        uint64_t took = segment->completed > from ? segment->completed - from : 0;
        over = segment->completed > over ? segment->completed : over;
        out[count++] = (struct carried){box->header.host, lane->interface, segment, segment->posted, took, lane->rate};
    }
    return count;
}

static void typical(struct carried *carried, size_t count, struct network_interface *interface)
{
    size_t most = 0;
    qsort(carried, count, sizeof *carried, by_length);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && carried[end].segment->length == carried[i].segment->length;)
            end++;
        if (end - i <= most)
            continue;
        most = end - i;
        interface->length = carried[i].segment->length;
        interface->best = carried[i + most / 8].took;
        interface->median = carried[i + most / 2].took;
    }
}

static struct network_interface sum_interface(struct carried *carried, size_t count)
{
    struct network_interface interface = {.segments = count};
    uint64_t over = 0;
    snprintf(interface.host, sizeof interface.host, "%s", carried->host);
    snprintf(interface.name, sizeof interface.name, "%s", carried->name);
    for (size_t i = 0; i < count; i++) {
        uint64_t from = carried[i].segment->posted > over ? carried[i].segment->posted : over;
        uint64_t end = carried[i].segment->completed;
        interface.busy += end > from ? end - from : 0;
        over = end > over ? end : over;
        interface.bytes += carried[i].segment->length;
        interface.rate = carried[i].rate > interface.rate ? carried[i].rate : interface.rate;
    }
    typical(carried, count, &interface);
    return interface;
}

static bool find_interfaces(const struct diagnosis_network *network, size_t first, struct network_job *job)
{
    const struct look *look = &network->scene.snapshot->now;
    size_t room = 0, count = 0;
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; network->job[i] == first && j < look->boxes[i]->lane_count; j++)
            room += look->boxes[i]->lanes[j].segment_count;
    struct carried *carried = calloc(room + 1, sizeof *carried);
    for (size_t i = 0; carried && i < look->count; i++)
        for (size_t j = 0; network->job[i] == first && j < look->boxes[i]->lane_count; j++)
            count += gather_lane(network, look->boxes[i], &look->boxes[i]->lanes[j], carried + count);
    if (carried)
        qsort(carried, count, sizeof *carried, by_interface);
    size_t ends = 0;
    for (size_t i = 0; i < count; i++)
        ends += !i || strcmp(carried[i].host, carried[i - 1].host) != 0 ||
                strcmp(carried[i].name, carried[i - 1].name) != 0;
    job->interfaces = calloc(ends + 1, sizeof *job->interfaces);
    for (size_t i = 0, end; carried && job->interfaces && i < count; i = end) {
        for (end = i + 1; end < count && strcmp(carried[i].host, carried[end].host) == 0 &&
                          strcmp(carried[i].name, carried[end].name) == 0;)
            end++;
        job->interfaces[job->interface_count++] = sum_interface(carried + i, end - i);
    }
    free(carried);
    return carried && job->interfaces;
}

/* ---- All of it ---- */

static void count_hosts(const struct diagnosis_network *network, size_t first, struct network_job *job)
{
    const struct look *look = &network->scene.snapshot->now;
    for (size_t i = first; i < look->count; i++) {
        if (network->job[i] != first)
            continue;
        bool seen = false;
        for (size_t j = i; j-- > first && !seen;) /* neighbours are most often of one host */
            seen = network->job[j] == first && same_host(look->boxes[i], look->boxes[j]);
        job->hosts += !seen;
    }
}

static bool look_at_job(const struct diagnosis_network *network, size_t first, struct network_job *job)
{
    const struct member *world = world_member(&network->scene, first);
    uint64_t seen = 0;
    bool one_world = true;
    snprintf(job->name, sizeof job->name, "%s", world->comm->name);
    for (size_t i = first; i < network->scene.snapshot->now.count; i++) {
        const struct timeline *timeline = &network->timelines[i];
        if (network->job[i] != first)
            continue;
        job->ranks++;
        job->without += !timeline->lanes;
        seen += timeline->to - timeline->from;
        one_world = one_world && world_member(&network->scene, i)->group == world->group;
        add_moments(network, i, timeline->from, timeline->to, &job->time);
    }
    job->seen = seen / job->ranks;
    count_hosts(network, first, job);
    return find_interfaces(network, first, job) && (!one_world || find_steps(network, world->group, job));
}

static int by_ranks(const void *left, const void *right)
{
    const struct network_job *a = left, *b = right;
    return a->ranks > b->ranks ? -1 : a->ranks < b->ranks;
}

static bool look_at_all(struct diagnosis_network *network, struct network_report *report)
{
    const struct scene *scene = &network->scene;
    size_t count = scene->snapshot->now.count;
    bool fine = true;
    for (size_t i = 0; fine && i < scene->group_count; i++)
        fine = timeline_calls_open(&scene->groups[i], &network->calls[i]);
    for (size_t i = 0; fine && i < count; i++)
        fine = timeline_open(scene, network->calls, i, &network->timelines[i]);
    for (size_t i = 0; fine && i < count; i++)
        find_longest(network, i);
    find_jobs(network);
    for (size_t i = 0; i < count; i++)
        network->job[i] = find_job(network->job, i);
    for (size_t i = 0; fine && i < count; i++)
        if (network->job[i] == i && scene->of_process[i])
            fine = look_at_job(network, i, &report->jobs[report->count++]);
    qsort(report->jobs, report->count, sizeof *report->jobs, by_ranks);
    return fine;
}

bool network_look(const struct snapshot *snapshot, struct network_report *report)
{
    struct diagnosis_network network = {0};
    size_t count = snapshot->now.count;
    bool fine = scene_open(&network.scene, snapshot, snapshot->stuck, false);
    *report = (struct network_report){calloc(count + 1, sizeof *report->jobs), 0};
    network.timelines = calloc(count + 1, sizeof *network.timelines);
    network.calls = calloc(network.scene.group_count + 1, sizeof *network.calls);
    network.job = calloc(count + 1, sizeof *network.job);
    fine = fine && report->jobs && network.timelines && network.calls && network.job && look_at_all(&network, report);
    for (size_t i = 0; network.timelines && i < count; i++)
        free(network.timelines[i].atoms);
    for (size_t i = 0; network.calls && i < network.scene.group_count; i++)
        free(network.calls[i].items);
    free(network.timelines);
    free(network.calls);
    free(network.job);
    scene_close(&network.scene);
    return fine;
}

void network_free(struct network_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->jobs[i].steps);
        free(report->jobs[i].interfaces);
    }
    free(report->jobs);
    *report = (struct network_report){0};
}

static bool is_of_network(const struct finding *finding)
{
    return finding->kind == FINDING_INTERFACE || finding->kind == FINDING_LINK || finding->kind == FINDING_SENDER ||
           finding->kind == FINDING_RECEIVER;
}

void network_conclude(const struct network_job *job, const struct findings *findings, char *out, size_t size)
{
    uint64_t sum = moments_sum(&job->time);
    double share = sum ? (double)job->time.ns[MOMENT_NETWORK] / (double)sum : 0;
    double charged = sum ? (double)job->time.charged / (double)sum : 0;
    bool blamed = false;
    for (size_t i = 0; i < findings->count; i++)
        blamed = blamed || is_of_network(&findings->items[i]);
    const char *word =
        blamed                     ? "the network is to blame, as a verdict says"
        : charged < NETWORK_LITTLE ? "nothing says that the network is to blame, nor has it much of the time"
        : charged < NETWORK_MUCH   ? "nothing says that the network is to blame, but it has a part of the time"
                                   : "nothing says that the network is to blame, but it has much of the time";
    if (job->without == job->ranks || !sum)
        snprintf(out, size, "nothing is remembered of data between hosts, so nothing is said of the network");
    else
        snprintf(out, size, "%s: ranks had data on its way between hosts for %.1f %% of it%s", word, 100 * share,
                 blamed ? ", and others waited for that" : "");
    size_t length = strlen(out);
    if (!blamed && sum && charged > share + 0.005)
        snprintf(out + length, size - length, ", %.1f %% if a call counts as with the rank whose data took longest",
                 100 * charged);
}
