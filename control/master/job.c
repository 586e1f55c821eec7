/* SPDX-License-Identifier: Apache-2.0 */
#include "master/job.h"

#include "base/error.h"
#include "base/random.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a process reported of its box. Nobody changes a box; the last holder frees it. */
struct job_box {
    atomic_uint holders;
    struct blackbox *box;
    size_t bytes;
};

struct job_process {
    struct job_box *told;
    struct process_facts facts;
    uint32_t box_number;
    bool alive;
    uint64_t now, died; /* of the box, on its host's clock; when its death was reported, on ours */
};

static struct job_box *hold(struct job_box *told)
{
    atomic_fetch_add(&told->holders, 1);
    return told;
}

static void let_go(struct job_box *told)
{
    if (told && atomic_fetch_sub(&told->holders, 1) == 1) {
        blackbox_free(told->box);
        free(told);
    }
}

/* ---- Taking ---- */

static void empty(struct master_job *job, struct job_host *host)
{
    job->bytes -= host->bytes;
    for (size_t i = 0; i < host->count; i++)
        let_go(host->processes[i].told);
    free(host->processes);
    host->processes = NULL;
    host->count = host->bytes = 0;
}

static uint64_t name_key(const char *name)
{
    return hash_bytes(0, name, strlen(name));
}

static struct job_host *find_host(const struct master_job *job, const char *name)
{
    uint64_t key = name_key(name);
    size_t turn = 0;
    for (int64_t i; (i = slots_next(&job->names, key, &turn)) >= 0;)
        if (strcmp(job->hosts[i].name, name) == 0)
            return &job->hosts[i];
    return NULL;
}

static struct job_host *add_host(struct master_job *job, const char *name)
{
    struct job_host *more = job->count < JOB_HOSTS ? realloc(job->hosts, (job->count + 1) * sizeof *more) : NULL;
    if (more)
        job->hosts = more;
    if (!more || !slots_put(&job->names, name_key(name), (uint32_t)job->count))
        return NULL;
    struct job_host *host = &more[job->count++];
    *host = (struct job_host){.clock = INT64_MAX};
    memcpy(host->name, name, sizeof host->name);
    return host;
}

static struct job_process *find_process(struct job_host *host, size_t hint, const struct report_process *wanted)
{
    const struct wire_box_header *header = &wanted->box->header;
    for (size_t i = 0; i < host->count; i++) { /* most often in the same place */
        struct job_process *process = &host->processes[(hint + i) % host->count];
        const struct wire_box_header *known = &process->told->box->header;
        if (known->pid == header->pid && known->start_time == header->start_time &&
            known->pid_namespace == header->pid_namespace && process->box_number == wanted->box_number)
            return process;
    }
    return NULL;
}

/* Does the master know every process that is as it was? */
static bool knows_all(struct job_host *host, const struct report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->processes[i].as_before && !(host && find_process(host, i, &report->processes[i])))
            return false;
    return true;
}

static size_t bytes_of(const struct blackbox *box)
{
    size_t bytes = sizeof *box + box->comm_count * sizeof *box->comms + box->event_count * sizeof *box->events;
    for (size_t i = 0; i < box->comm_count; i++)
        bytes += box->comms[i].op_count * sizeof *box->comms[i].ops;
    bytes += box->lane_count * sizeof *box->lanes;
    for (size_t i = 0; i < box->lane_count; i++)
        bytes += box->lanes[i].segment_count * sizeof *box->lanes[i].segments +
                 (box->lanes[i].watch ? sizeof *box->lanes[i].watch : 0);
    return bytes;
}

/* Is there memory for this report: for its sender, and in all? A host that needs no more than before asks nobody. */
static bool has_memory(const struct master_job *job, struct job_host *host, const struct report *report,
                       const struct job_origin *origin)
{
    size_t need = report->count * sizeof(struct job_process), had = host ? host->bytes : 0, same = 0;
    for (size_t i = 0; i < report->count; i++)
        need += report->processes[i].as_before ? find_process(host, i, &report->processes[i])->told->bytes
                                               : bytes_of(report->processes[i].box);
    if (need + job->bytes - had > JOB_BYTES) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory for what host %s tells: all hosts together have told of %llu MiB",
                   report->host, JOB_BYTES >> 20);
        return false;
    }
    if (need + job->bytes - had <= JOB_FROM_ONE || (need <= had && host && strcmp(host->source, origin->source) == 0))
        return true;
    for (size_t i = 0; i < job->count; i++)
        same += &job->hosts[i] == host || strcmp(job->hosts[i].source, origin->source) != 0 ? 0 : job->hosts[i].bytes;
    if (need + same <= JOB_FROM_ONE)
        return true;
    error_note(TUTTI_SYSTEM_ERROR, "no memory for what host %s tells: %s has told of too much", report->host,
               origin->source);
    return false;
}

static struct job_box *box_of(struct report_process *process, const struct job_process *known)
{
    if (process->as_before)
        return hold(known->told);
    struct job_box *told = malloc(sizeof *told);
    if (told) {
        *told = (struct job_box){1, process->box, bytes_of(process->box)};
        process->box = NULL;
    }
    return told;
}

/* False: no memory, and the host has lost its processes. */
static bool replace(struct master_job *job, struct job_host *host, struct report *report, uint64_t now)
{
    struct job_process *processes = calloc(report->count + 1, sizeof *processes);
    struct job_host next = {.processes = processes};
    bool fine = processes != NULL;
    for (size_t i = 0; fine && i < report->count; i++) {
        struct report_process *process = &report->processes[i];
        const struct job_process *known = find_process(host, i, process);
        struct job_process *made = &processes[next.count++];
        *made = (struct job_process){.facts = process->facts,
                                     .box_number = process->box_number,
                                     .alive = process->box->alive,
                                     .now = process->box->now};
        made->died = made->alive ? 0 : known && known->died ? known->died : now;
        fine = (made->told = box_of(process, known)) != NULL;
        next.bytes += sizeof *made + (fine ? made->told->bytes : 0);
    }
    empty(job, host);
    host->processes = next.processes;
    host->count = next.count;
    host->bytes = next.bytes;
    job->bytes += next.bytes;
    if (!fine)
        empty(job, host);
    return fine;
}

/* May this agent speak for the host now? */
static bool is_welcome(const struct job_host *host, const struct report *report, uint64_t now)
{
    bool other = host && host->agent != report->agent;
    if (other && now < host->heard + JOB_SILENT_NS)
        error_note(TUTTI_INVALID_USAGE,
                   "another agent calls its host %s, and reports from %s: give each host a name of its own",
                   report->host, host->way);
    else if (host && !other && report->number <= host->number)
        error_note(TUTTI_INVALID_USAGE, "report %llu of host %s has come before", (unsigned long long)report->number,
                   report->host);
    else
        return true;
    return false;
}

static void note(struct job_host *host, const struct report *report, const struct job_origin *origin, uint64_t now,
                 uint64_t day)
{
    int64_t clock = (int64_t)(day - report->realtime);
    if (host->agent != report->agent)
        host->clock = INT64_MAX;
    host->clock = clock < host->clock ? clock : host->clock;
    host->agent = report->agent;
    host->number = report->number;
    host->heard = now;
    host->reports++;
    host->left_out = report->left_out;
    host->unreadable = report->unreadable;
    snprintf(host->source, sizeof host->source, "%s", origin->source);
    snprintf(host->way, sizeof host->way, "%s", origin->way);
}

enum job_answer job_take(struct master_job *job, struct report *report, const struct job_origin *origin, uint64_t now,
                         uint64_t day)
{
    struct job_host *host = find_host(job, report->host);
    if (!is_welcome(host, report, now))
        return JOB_REFUSES;
    if (!knows_all(host && host->agent == report->agent ? host : NULL, report))
        return JOB_WANTS_ALL;
    if (!has_memory(job, host, report, origin))
        return JOB_REFUSES;
    if (!host && !(host = add_host(job, report->host))) {
        error_note(TUTTI_SYSTEM_ERROR, "no room for host %s: there are %zu", report->host, job->count);
        return JOB_REFUSES;
    }
    note(host, report, origin, now, day);
    if (replace(job, host, report, now))
        return JOB_TAKEN;
    error_note(TUTTI_SYSTEM_ERROR, "no memory for what host %s tells", report->host);
    return JOB_REFUSES;
}

void job_look_at_lanes(struct master_job *job, const char *name, uint64_t until)
{
    struct job_host *host = find_host(job, name);
    if (host)
        host->lanes = until;
}

size_t job_lanes_turns(size_t hosts)
{
    return (hosts + JOB_LANES_HOSTS - 1) / JOB_LANES_HOSTS;
}

bool job_wants_lanes(const struct master_job *job, const char *name, uint64_t now)
{
    const struct job_host *host = find_host(job, name);
    uint64_t turns = job_lanes_turns(job->count);
    bool turn = host && now % JOB_LANES_EVERY_NS < JOB_LANES_FOR_NS &&
                now / JOB_LANES_EVERY_NS % turns == (uint64_t)(host - job->hosts) / JOB_LANES_HOSTS;
    return host && (turn || now < host->lanes || now < job->lanes);
}

void job_look_closer(struct master_job *job, uint64_t now)
{
    job->lanes = now + JOB_LANES_FOR_NS;
}

struct job_unrecorded job_unrecorded(const struct job_host *host)
{
    struct job_unrecorded sum = {0, 0};
    for (size_t i = 0; i < host->count; i++) {
        const uint64_t *counters = host->processes[i].told->box->counters;
        sum.comms += counters[WIRE_COUNTER_COMMS_UNRECORDED];
        sum.lanes += counters[WIRE_COUNTER_LANES_UNRECORDED];
    }
    return sum;
}

void job_forget(struct master_job *job, uint64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (now > job->hosts[i].heard + JOB_FORGET_NS)
            empty(job, &job->hosts[i]);
        else
            job->hosts[kept++] = job->hosts[i];
    }
    if (kept < job->count)
        slots_clear(&job->names);
    for (size_t i = 0; i < kept && kept < job->count; i++)
        slots_put(&job->names, name_key(job->hosts[i].name), (uint32_t)i); /* has room, as more were in */
    job->count = kept;
}

void job_free(struct master_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        empty(job, &job->hosts[i]);
    free(job->hosts);
    slots_free(&job->names);
    *job = (struct master_job){0};
}

/* ---- Looking ---- */

static int by_id(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The communicators of living processes, sorted. */
struct living {
    uint64_t *ids;
    size_t count;
};

static struct living find_living(const struct master_job *job)
{
    size_t most = 0;
    for (size_t i = 0; i < job->count; i++)
        for (size_t j = 0; j < job->hosts[i].count; j++)
            most += job->hosts[i].processes[j].told->box->comm_count;
    struct living living = {.ids = malloc((most + 1) * sizeof(uint64_t))};
    for (size_t i = 0; living.ids && i < job->count; i++)
        for (size_t j = 0; j < job->hosts[i].count; j++) {
            const struct job_process *process = &job->hosts[i].processes[j];
            for (size_t k = 0; process->alive && k < process->told->box->comm_count; k++)
                living.ids[living.count++] = process->told->box->comms[k].id;
        }
    if (living.count)
        qsort(living.ids, living.count, sizeof(uint64_t), by_id);
    return living;
}

/* A dead process is looked at if it shares a communicator with a living one, which may wait for it, or if it died a
 * moment ago. */
static bool is_looked_at(const struct job_process *process, const struct living *living, uint64_t now)
{
    const struct blackbox *box = process->told->box;
    bool wanted = process->alive || now < process->died + JOB_DEAD_NS;
    for (size_t i = 0; !wanted && living->count && i < box->comm_count; i++)
        wanted = bsearch(&box->comms[i].id, living->ids, living->count, sizeof(uint64_t), by_id) != NULL;
    return wanted;
}

static size_t count_processes(const struct master_job *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++)
        count += job->hosts[i].count;
    return count;
}

/* Pointers without const beside those of the look, which have it. */
struct parts {
    struct blackbox **boxes;
    struct process_facts *facts;
};

static void add(struct job_look *out, const struct parts *parts, const struct job_process *process,
                const struct job_host *host, uint64_t now)
{
    size_t at = out->look.count++;
    out->shared[at] = hold(process->told);
    out->copies[at] = *process->told->box;
    out->copies[at].alive = process->alive;
    out->copies[at].now = process->now;
    parts->boxes[at] = &out->copies[at];
    parts->facts[at] = process->facts;
    parts->facts[at].unheard = now - host->heard;
    out->clocks[at] = host->clock;
}

bool job_look(const struct master_job *job, uint64_t now, struct job_look *out)
{
    size_t most = count_processes(job) + 1;
    struct living living = find_living(job);
    struct parts parts = {malloc(most * sizeof(struct blackbox *)), malloc(most * sizeof(struct process_facts))};
    *out = (struct job_look){.look = {.boxes = parts.boxes, .facts = parts.facts}};
    out->copies = malloc(most * sizeof *out->copies);
    out->shared = malloc(most * sizeof(struct job_box *));
    out->clocks = malloc(most * sizeof(int64_t));
    bool fine = living.ids && parts.boxes && parts.facts && out->copies && out->shared && out->clocks;
    for (size_t i = 0; fine && i < job->count; i++)
        for (size_t j = 0; j < job->hosts[i].count; j++)
            if (is_looked_at(&job->hosts[i].processes[j], &living, now))
                add(out, &parts, &job->hosts[i].processes[j], &job->hosts[i], now);
    free(living.ids);
    if (!fine)
        job_look_free(out);
    return fine;
}

void job_look_free(struct job_look *look)
{
    for (size_t i = 0; i < look->look.count; i++)
        let_go(look->shared[i]);
    free((void *)look->look.boxes);
    free((void *)look->look.facts);
    free(look->copies);
    free(look->shared);
    free(look->clocks);
    *look = (struct job_look){0};
}
