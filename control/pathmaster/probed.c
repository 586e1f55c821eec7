/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/probed.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_NS (15 * NS_PER_S) /* of a host, after which others probe instead */

/* ---- questions ---- */

static struct catalogue_report report_of(const Tutti__PathProbed *probed, uint64_t now)
{
    struct catalogue_report report = {.ticket = probed->ticket,
                                      .judged = probed->judged,
                                      .lost = probed->lost,
                                      .silent = probed->silent,
                                      .answers = probed->answers,
                                      .delay_least = probed->delay_least_ns,
                                      .delay_sum = probed->delay_sum_ns,
                                      .rate = probed->rate,
                                      .trains = probed->trains};
    for (size_t i = 0; i < probed->n_hops && i < CATALOGUE_HOPS; i++) {
        const Tutti__PathHop *hop = probed->hops[i];
        uint64_t age = hop->age_ms * NS_PER_MS;
        report.hop[i] = (struct catalogue_hop){.asked = hop->asked, .heard = hop->heard};
        if (hop->router.len == sizeof report.hop[i].router)
            memcpy(report.hop[i].router, hop->router.data, hop->router.len);
        report.hop[i].at = hop->heard && hop->age_ms < now / NS_PER_MS ? now - age : 0;
    }
    return report;
}

void probed_take(struct pathmaster *master, int32_t owner, const Tutti__PathAsk *ask)
{
    uint64_t now = clock_ns(), until = now + SILENT_NS;
    for (size_t i = 0; i < ask->n_nics; i++) {
        int32_t nic = names_nic(&master->names, ask->nics[i].data);
        if (nic >= 0)
            catalogue_join(&master->catalogue, owner, nic, ask->bonds, now, until);
    }
    for (size_t i = 0; i < ask->n_probed; i++) {
        struct catalogue_report report = report_of(ask->probed[i], now);
        catalogue_report(&master->catalogue, owner, &report, now);
    }
}

/* ---- answers ---- */

static void write_task(const struct pathmaster *master, int32_t at, uint8_t (*address)[PATH_ADDRESS],
                       Tutti__PathTask *out)
{
    const struct catalogue *c = &master->catalogue;
    const struct catalogue_row *row = &c->row[c->place[at]];
    names_address(master->fabric.nic[row->from].address, address[0]);
    names_address(master->fabric.nic[row->to].address, address[1]);
    *out = (Tutti__PathTask)TUTTI__PATH_TASK__INIT;
    out->ticket = row->last.ticket;
    out->from = (ProtobufCBinaryData){PATH_ADDRESS, address[0]};
    out->to = (ProtobufCBinaryData){PATH_ADDRESS, address[1]};
    out->port = row->port;
    out->back = row->back;
    out->side = row->way.side;
    out->trains = catalogue_wants_trains(c, row, clock_ns());
}

/* Of one port of a NIC. */
static void write_tasks(const struct pathmaster *master, int32_t owner, int32_t nic, int side,
                        Tutti__PathAnswer *answer, struct probed_tasks *tasks)
{
    const struct catalogue *c = &master->catalogue;
    int32_t at = catalogue_next(c, owner, nic, side, 0);
    for (; at >= 0 && answer->n_tasks < PATH_TASKS; at = catalogue_next(c, owner, nic, side, at + 1)) {
        tasks->tasks[answer->n_tasks] = &tasks->task[answer->n_tasks];
        write_task(master, at, tasks->address + 2 * answer->n_tasks, &tasks->task[answer->n_tasks]);
        answer->n_tasks++;
    }
}

bool probed_tell(struct pathmaster *master, int32_t owner, const Tutti__PathAsk *ask, Tutti__PathAnswer *answer,
                 struct probed_tasks *tasks)
{
    const struct catalogue *c = &master->catalogue;
    answer->round = c->round;
    answer->sweep = catalogue_sweeps(c, clock_ns());
    if (!ask->n_nics || ask->round == c->round)
        return true;
    tasks->task = calloc(PATH_TASKS, sizeof *tasks->task);
    tasks->tasks = calloc(PATH_TASKS, sizeof *tasks->tasks);
    tasks->address = calloc((size_t)PATH_TASKS * 2, sizeof *tasks->address);
    if (!tasks->task || !tasks->tasks || !tasks->address)
        return false;
    answer->tasks = tasks->tasks;
    for (size_t i = 0; i < ask->n_nics; i++) {
        int32_t nic = names_nic(&master->names, ask->nics[i].data);
        for (int side = 0; nic >= 0 && side < master->fabric.nic[nic].ports; side++)
            write_tasks(master, owner, nic, side, answer, tasks);
    }
    return true;
}

void probed_free(struct probed_tasks *tasks)
{
    free(tasks->task);
    free(tasks->tasks);
    free(tasks->address);
}

/* ---- faults ---- */

static bool on_link(void *context, int32_t uplink, uint32_t percent, const char *sentence)
{
    struct pathmaster *master = context;
    const struct allot_event event = {.kind = ALLOT_LINK, .uplink = uplink, .percent = percent, .probed = true};
    printf("%s\n", sentence);
    if (master->allot.found[uplink] == percent)
        return true;
    master->fault = true;
    return pathmaster_event(master, &event) == TUTTI_SUCCESS;
}

tutti_result_t probed_look(struct pathmaster *master)
{
    uint64_t now = clock_ns();
    if (now - master->looked < NS_PER_S)
        return TUTTI_SUCCESS;
    master->looked = now;
    return catalogue_look(&master->catalogue, now, on_link, master) ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
}
