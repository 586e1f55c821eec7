/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence/evidence.h"
#include "evidence/parts.h"

#include "base/clock.h"
#include "diagnosis/process.h"
#include "diagnosis/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MOST     16 /* findings that get lines */
#define NICS_MOST      32 /* interfaces to count */
#define NICS_TOLD      3  /* under a finding */
#define STACKS_MOST    4  /* findings with stacks */
#define NEIGHBOUR_MOST 4  /* questions to the daemon of LLDP */

struct evidence {
    uint64_t at;
    struct nic *nics;
    size_t nic_count;
    char *stacks[SHOWN_MOST];
    unsigned asked, neighbours;
};

void evidence_close(struct evidence *evidence)
{
    for (size_t i = 0; evidence && i < SHOWN_MOST; i++)
        free(evidence->stacks[i]);
    if (evidence)
        free(evidence->nics);
    free(evidence);
}

const char *evidence_stack(const struct evidence *evidence, size_t finding)
{
    return evidence && finding < SHOWN_MOST ? evidence->stacks[finding] : NULL;
}

/* ---- Interfaces ---- */

static void count(struct evidence *evidence, const char *name, uint32_t pid)
{
    for (size_t i = 0; i < evidence->nic_count; i++)
        if (strcmp(evidence->nics[i].name, name) == 0)
            return; /* of several namespaces the first counts */
    if (*name && evidence->nic_count < NICS_MOST)
        nic_read(&evidence->nics[evidence->nic_count++], name, pid);
}

struct evidence *evidence_open(const struct look *look)
{
    struct evidence *evidence = calloc(1, sizeof *evidence);
    if (evidence)
        evidence->nics = calloc(NICS_MOST, sizeof *evidence->nics);
    if (!evidence || !evidence->nics) {
        evidence_close(evidence);
        return NULL;
    }
    for (size_t i = 0; i < look->count; i++) {
        const struct blackbox *box = look->boxes[i];
        uint32_t pid = box->lane_count ? process_seen_here(box) : 0;
        for (size_t j = 0; pid && j < box->lane_count; j++) {
            count(evidence, box->lanes[j].interface, pid);
            if (strcmp(box->lanes[j].transport, "tcp") == 0)
                count(evidence, "TCP", pid);
        }
    }
    evidence->at = clock_ns();
    return evidence;
}

static void add(struct finding *finding, const char *line)
{
    if (finding->evidence_count < FINDING_EVIDENCE)
        snprintf(finding->evidence[finding->evidence_count++], FINDING_LINE, "%s", line);
}

static bool is_of_network(enum finding_kind kind)
{
    return finding_row(kind)->class == CLASS_COMMUNICATION_HANG || finding_row(kind)->class == CLASS_COMMUNICATION_SLOW;
}

/* Does this box have a lane on the interface? */
static bool uses(const struct blackbox *box, const struct nic *nic)
{
    for (size_t i = 0; i < box->lane_count; i++)
        if (strcmp(box->lanes[i].interface, nic->name) == 0 ||
            (strcmp(nic->name, "TCP") == 0 && strcmp(box->lanes[i].transport, "tcp") == 0))
            return true;
    return false;
}

/* A finding that names an interface is about that one alone. */
static bool concerns(const struct evidence *evidence, const struct finding *finding, const struct nic *nic)
{
    bool named = false;
    for (size_t i = 0; i < evidence->nic_count; i++)
        named |= strcmp(evidence->nics[i].name, "TCP") != 0 && strstr(finding->sentence, evidence->nics[i].name);
    return !named || strstr(finding->sentence, nic->name) || strcmp(nic->name, "TCP") == 0;
}

static void add_nics(struct evidence *evidence, const struct blackbox *box, struct finding *finding)
{
    static struct nic now;
    char line[EVIDENCE_LINE];
    int told = 0;
    for (size_t i = 0; i < evidence->nic_count && told < NICS_TOLD; i++) {
        const struct nic *nic = &evidence->nics[i];
        if ((box && !uses(box, nic)) || !concerns(evidence, finding, nic))
            continue;
        nic_read(&now, nic->name, nic->pid);
        if (!nic_line(nic, &now, clock_ns() - evidence->at, line))
            continue;
        add(finding, line);
        told++;
        if (nic->here && strcmp(nic->name, "TCP") != 0 && evidence->neighbours++ < NEIGHBOUR_MOST &&
            neighbour_line(nic->name, line))
            add(finding, line);
    }
}

/* ---- Processes ---- */

/* The box of the process that the finding names; of none, the first of its communicator, if that is to stand for all.
 */
static const struct blackbox *box_of(const struct look *look, const struct finding *finding)
{
    bool any = finding->kind == FINDING_IDLE || finding->kind == FINDING_OUTSIDE || finding->kind == FINDING_SLOWED;
    for (size_t i = 0; i < look->count; i++) {
        const struct blackbox *box = look->boxes[i];
        if (finding->culprit.process && process_key(box) == finding->culprit.process)
            return box;
        for (size_t j = 0; any && j < box->comm_count; j++)
            if (box->comms[j].id == finding->culprit.comm)
                return box;
    }
    return NULL;
}

static bool waits_outside(enum finding_kind kind)
{
    return kind == FINDING_BEHIND || kind == FINDING_SLOW || kind == FINDING_IDLE || kind == FINDING_OUTSIDE ||
           kind == FINDING_AWAY || kind == FINDING_STOPPED;
}

void evidence_add(struct evidence *evidence, const struct look *look, struct findings *findings, bool stacks)
{
    char line[EVIDENCE_LINE];
    for (size_t i = 0; evidence && i < findings->count && i < SHOWN_MOST; i++) {
        struct finding *finding = &findings->items[i];
        const struct blackbox *box = box_of(look, finding);
        uint32_t pid = box ? process_seen_here(box) : 0;
        if (pid && waits_outside(finding->kind) && awaited_line(pid, line))
            add(finding, line);
        if (is_of_network(finding->kind))
            add_nics(evidence, box, finding);
        if (pid && stacks && evidence->asked++ < STACKS_MOST)
            stacks_add(&evidence->stacks[i], pid);
    }
}
