/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/probing.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct probing {
    struct prober *prober;
    uint64_t round;
    uint8_t nic[PROBER_NICS][16];
    ProtobufCBinaryData nics[PROBER_NICS];
    struct try_path path[TRIES_PATHS];
    Tutti__PathProbed probed[TRIES_PATHS], *probeds[TRIES_PATHS];
    Tutti__PathHop hop[TRIES_PATHS][TRIES_TTLS], *hops[TRIES_PATHS][TRIES_TTLS];
    struct try_task task[TRIES_PATHS];
    struct prober_counts said;
    bool bonds;
};

struct probing *probing_open(const struct prober_options *options)
{
    struct probing *probing = calloc(1, sizeof *probing);
    if (probing)
        probing->bonds = options->marks[0] && options->marks[1];
    if (probing && (probing->prober = prober_open(options)))
        return probing;
    if (!probing)
        error_note(TUTTI_SYSTEM_ERROR, "no memory for probes");
    free(probing);
    return NULL;
}

void probing_close(struct probing *probing)
{
    if (!probing)
        return;
    prober_close(probing->prober);
    free(probing);
}

/* ---- questions ---- */

static void write_hops(struct probing *probing, int i, uint64_t now)
{
    for (int k = 0; k < TRIES_TTLS; k++) {
        const struct try_hop *hop = &probing->path[i].hop[k];
        Tutti__PathHop *out = probing->hops[i][k] = &probing->hop[i][k];
        *out = (Tutti__PathHop)TUTTI__PATH_HOP__INIT;
        out->router = (ProtobufCBinaryData){sizeof hop->router, (uint8_t *)hop->router};
        out->asked = hop->asked;
        out->heard = hop->heard;
        out->age_ms = hop->heard ? (now - hop->heard_at) / NS_PER_MS : 0;
    }
}

static void write_path(struct probing *probing, int i, uint64_t now)
{
    const struct try_path *path = &probing->path[i];
    Tutti__PathProbed *out = probing->probeds[i] = &probing->probed[i];
    *out = (Tutti__PathProbed)TUTTI__PATH_PROBED__INIT;
    out->ticket = path->task.ticket;
    out->judged = path->judged;
    out->lost = path->lost;
    out->silent = tries_silent(path);
    out->answers = path->answers;
    out->delay_least_ns = path->delay_least;
    out->delay_sum_ns = path->delay_sum;
    out->rate = path->rate;
    out->trains = path->trains;
    out->hops = probing->hops[i];
    out->n_hops = TRIES_TTLS;
    write_hops(probing, i, now);
}

void probing_ask(struct probing *probing, Tutti__PathAsk *ask)
{
    int count = prober_report(probing->prober, probing->path);
    uint64_t now = clock_ns();
    ask->n_nics = (size_t)prober_nics(probing->prober, probing->nic);
    for (size_t i = 0; i < ask->n_nics; i++)
        probing->nics[i] = (ProtobufCBinaryData){sizeof probing->nic[i], probing->nic[i]};
    ask->nics = probing->nics;
    ask->bonds = probing->bonds;
    ask->round = probing->round;
    for (int i = 0; i < count; i++)
        write_path(probing, i, now);
    ask->n_probed = (size_t)count;
    ask->probed = probing->probeds;
}

/* ---- answers ---- */

/* A host that sends from addresses of others would have no answers: only its own are taken. */
static bool is_own(const struct probing *probing, const ProtobufCBinaryData *address, size_t nics)
{
    for (size_t i = 0; i < nics; i++)
        if (memcmp(probing->nic[i], address->data, sizeof probing->nic[i]) == 0)
            return true;
    return false;
}

void probing_answer(struct probing *probing, const Tutti__PathAnswer *answer)
{
    int count = 0;
    size_t nics = (size_t)prober_nics(probing->prober, probing->nic);
    prober_sweep(probing->prober, answer->sweep);
    if (answer->round == probing->round)
        return;
    probing->round = answer->round;
    for (size_t i = 0; i < answer->n_tasks && count < TRIES_PATHS; i++) {
        const Tutti__PathTask *task = answer->tasks[i];
        struct try_task *out = &probing->task[count];
        if (probe_is_4(task->from.data) != probe_is_4(task->to.data) || !is_own(probing, &task->from, nics) ||
            (task->side && !probing->bonds))
            continue;
        *out = (struct try_task){.ticket = task->ticket,
                                 .port = (uint16_t)task->port,
                                 .back = (uint16_t)task->back,
                                 .side = task->side != 0,
                                 .trains = task->trains};
        memcpy(out->from, task->from.data, sizeof out->from);
        memcpy(out->to, task->to.data, sizeof out->to);
        count++;
    }
    prober_set(probing->prober, probing->task, count);
}

/* One sentence at a time: what it tells is not told again. */
bool probing_complaint(struct probing *probing, char out[160])
{
    struct prober_counts now = prober_counts(probing->prober), *said = &probing->said;
    unsigned long long forged = now.forged - said->forged, mute = now.mute - said->mute, late = now.late - said->late;
    if (forged) {
        snprintf(out, 160, "%llu packets that claim to answer probes fit none that was sent: they changed nothing",
                 forged);
        said->forged = now.forged;
    } else if (mute) {
        snprintf(out, 160, "%llu probes of others had no answer: the budget does not allow more", mute);
        said->mute = now.mute;
    } else if (late) {
        snprintf(out, 160,
                 "this host was late, or had no room for packets, %llu times: what was lost then is not counted", late);
        said->late = now.late;
    }
    return forged || mute || late;
}
