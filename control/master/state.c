/* SPDX-License-Identifier: Apache-2.0 */
/* What several parts of the master say or ask. */
#include "master/state.h"

#include "verdict/verdict.h"

#include <time.h>

uint64_t master_day(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

bool master_silent(const struct job_host *host, uint64_t now)
{
    return now > host->heard + JOB_SILENT_NS;
}

uint64_t master_since(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

static json_t *host_json(const struct job_host *host, uint64_t now)
{
    struct job_unrecorded unrecorded = job_unrecorded(host);
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:b, s:I, s:I, s:I, s:I}", "name", host->name, "from", host->way,
                     "processes", (json_int_t)host->count, "heard_seconds",
                     (double)master_since(now, host->heard) / 1e9, "clock_ahead_seconds", -(double)host->clock / 1e9,
                     "silent", master_silent(host, now), "unreadable", (json_int_t)host->unreadable, "left_out",
                     (json_int_t)host->left_out, "communicators_unrecorded", (json_int_t)unrecorded.comms,
                     "lanes_unrecorded", (json_int_t)unrecorded.lanes);
}

json_t *master_state(const struct master *master)
{
    json_t *verdicts = json_array(), *hosts = json_array();
    for (size_t i = 0; i < master->ledger.count; i++) {
        const struct verdict *verdict = &master->ledger.items[i];
        json_t *one = verdict->number ? verdict_json(&verdict->finding) : NULL;
        if (!one)
            continue;
        json_object_set_new(one, "number", json_integer((json_int_t)verdict->number));
        json_object_set_new(one, "began", json_real((double)verdict->began / 1e9));
        json_array_append_new(verdicts, one);
    }
    for (size_t i = 0; i < master->job.count; i++)
        json_array_append_new(hosts, host_json(&master->job.hosts[i], clock_ns()));
    json_int_t turn = (json_int_t)(JOB_LANES_EVERY_NS / NS_PER_S);
    return json_pack("{s:i, s:I, s:o, s:I, s:I, s:o}", "version", 1, "total", (json_int_t)master->ledger.total,
                     "verdicts", verdicts, "findings_left_out", (json_int_t)master->ledger.left_out,
                     "lanes_each_seconds", (json_int_t)job_lanes_turns(master->job.count) * turn, "hosts", hosts);
}
