/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a verbs lane, and the places by which work requests find theirs while it lasts. */
#include "transport/verbs/end.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool verbs_take_place(struct verbs_lane *lane)
{
    struct verbs_transport *verbs = verbs_of(lane);
    unsigned place = 0;
    while (place < verbs->places && verbs->lanes[place])
        place++;
    if (place == verbs->places) {
        unsigned more = verbs->places ? 2 * verbs->places : 16;
        struct verbs_lane **grown = more <= 65536 ? realloc(verbs->lanes, more * sizeof *grown) : NULL;
        if (!grown)
            return false;
        memset(grown + verbs->places, 0, (more - verbs->places) * sizeof *grown);
        verbs->lanes = grown;
        verbs->places = more;
    }
    verbs->lanes[place] = lane;
    lane->place = place;
    lane->serial = ++verbs->serial;
    return true;
}

struct verbs_lane *verbs_lane_by_number(const struct verbs_transport *verbs, uint64_t number)
{
    unsigned place = (unsigned)(number >> 16) & 0xffff;
    struct verbs_lane *lane = place < verbs->places ? verbs->lanes[place] : NULL;
    return lane && lane->serial == number >> 32 ? lane : NULL;
}

/* ---- Queue pairs with shared receives ---- */

static struct verbs_lane **end_chain(struct verbs_device *device, uint32_t queue)
{
    return &device->pairs[(queue ^ queue >> 8 ^ queue >> 16) % VERBS_PAIRS];
}

void verbs_join_pairs(struct verbs_lane *lane)
{
    struct verbs_lane **chain = end_chain(lane->device, lane->qp->qp_num);
    lane->next_pair = *chain;
    *chain = lane;
}

struct verbs_lane *verbs_lane_by_pair(const struct verbs_device *device, uint32_t queue)
{
    struct verbs_lane *lane = *end_chain((struct verbs_device *)device, queue);
    while (lane && lane->qp->qp_num != queue)
        lane = lane->next_pair;
    return lane;
}

static void end_leave_pairs(struct verbs_lane *lane)
{
    struct verbs_lane **at = end_chain(lane->device, lane->qp->qp_num);
    while (*at && *at != lane)
        at = &(*at)->next_pair;
    if (*at)
        *at = lane->next_pair;
}

/* For completions of other lanes. False: no memory. */
static bool end_reserve(struct verbs_device *device)
{
    if (device->kept_end + VERBS_BATCH <= device->kept_room)
        return true;
    unsigned more = 2 * device->kept_room + 4 * VERBS_BATCH;
    struct ibv_wc *grown = realloc(device->kept, more * sizeof *grown);
    if (!grown)
        return false;
    device->kept = grown;
    device->kept_room = more;
    return true;
}

/*
 * With its queue pair the completions of a lane go that nobody has looked at, and with those of receives the receives.
 * Of a shared queue they would be missing for good. So the queue pair is stopped, and they are taken before; those of
 * other lanes are kept for the next look.
 */
static void end_save_receives(struct verbs_lane *lane)
{
    struct verbs_device *device = lane->device;
    struct ibv_cq *cq = device->open.cq;
    struct ibv_wc wc[VERBS_BATCH];
    uint32_t queue = lane->qp->qp_num;
    int count = VERBS_BATCH;
    for (int i = 0; i < device->early_count; i++) /* the number may soon be another queue pair's */
        device->early[i].qp_num *= device->early[i].qp_num != queue;
    for (unsigned i = device->kept_first; i < device->kept_end; i++)
        device->kept[i].qp_num *= device->kept[i].qp_num != queue;
    while (count == VERBS_BATCH && end_reserve(device) && (count = cq->context->ops.poll_cq(cq, VERBS_BATCH, wc)) > 0)
        for (int i = 0; i < count; i++)
            if (!verbs_is_shared(wc[i].wr_id) || wc[i].qp_num != queue)
                device->kept[device->kept_end++] = wc[i];
            else
                verbs_shared_post(&device->open.shared, (uint32_t)wc[i].wr_id);
}

/* ---- The end ---- */

/* A queue pair that is not stopped would go on reading and writing what is the owner's again. */
static void stop_pair(struct verbs_lane *lane)
{
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    int error = verbs_calls(lane)->modify_qp(lane->qp, &to, IBV_QP_STATE);
    if (error)
        log_warn("RDMA device %s: cannot stop a queue pair: %s", lane->device->name, strerror(error));
}

void verbs_pair_close(struct verbs_lane *lane)
{
    struct verbs_transport *verbs = verbs_of(lane);
    if (lane->serial && verbs->lanes[lane->place] == lane)
        verbs->lanes[lane->place] = NULL;
    if (lane->qp && lane->qp->srq) {
        end_leave_pairs(lane);
        stop_pair(lane);
        end_save_receives(lane);
    }
    int error = lane->qp ? verbs->library->destroy_qp(lane->qp) : 0;
    if (error) {
        stop_pair(lane);
        log_warn("RDMA device %s: cannot end a queue pair: %s; its buffers are not used again", lane->device->name,
                 strerror(error));
        lane->device->stuck = true;
    }
    for (unsigned i = 0; i < lane->steps; i++) /* of what the adapter may still read or write nothing is used again */
        verbs_buffers_forget(verbs->library, &lane->sends[i], error);
    verbs_buffers_forget(verbs->library, &lane->receives, error);
    lane->qp = NULL;
    if (lane->device)
        verbs_shared_left(&lane->device->open.shared, --lane->device->lanes);
    lane->device = NULL;
}

void verbs_pair_free(struct verbs_lane *lane)
{
    for (unsigned i = 0; i < lane->steps; i++)
        verbs_buffers_free(&lane->sends[i]);
    verbs_buffers_free(&lane->receives);
}

/* No more events or deadlines for this lane, and nothing that its adapter reads or writes. */
static void verbs_lane_silence(struct verbs_lane *lane)
{
    struct transport *transport = lane->base.lane.transport;
    transport_timer_clear(transport, &lane->deadline);
    transport_timer_clear(transport, &lane->again);
    connector_close(&lane->connector);
    if (lane->watched)
        poller_remove(transport->inner, &lane->source);
    lane->watched = false;
    list_remove(&lane->ringing);
    verbs_pair_close(lane);
}

void verbs_lane_close(struct lane *lane)
{
    verbs_lane_silence(verbs_lane_of(lane));
    carrier_close(&verbs_lane_of(lane)->base);
}

/* Of each port once: its data goes another way, which nobody asked for. Where nobody asked for RDMA either the owner
 * complains, once the lane has had its time. */
static void end_complain(const struct verbs_lane *lane, const char *what, int error)
{
    if (!lane->device || lane->device->complained || lane->state == VERBS_OPEN || error == EALREADY)
        return;
    lane->device->complained = true;
    log_at(verbs_is_asked() ? LOG_WARN : LOG_INFO,
           "RDMA device %s: verbs lane %u does not come up: %s%s%s; its data goes another way until it does",
           lane->device->name, lane->index, what, error ? ": " : "", error ? strerror(error) : "");
}

tutti_result_t verbs_fail(struct verbs_lane *lane, const char *what, int error)
{
    if (carrier_dead(&lane->base))
        return lane->base.why;
    if (lane->state == VERBS_GREETED && !lane->base.up) {
        log_info("verbs lane %u, which a peer began, does not come up: %s", lane->index, what);
        verbs_lane_close(&lane->base.lane);
        return TUTTI_REMOTE_ERROR;
    }
    end_complain(lane, what, error);
    char by[sizeof lane->device->name] = "no device";
    if (lane->device)
        memcpy(by, lane->device->name, sizeof by);
    verbs_lane_silence(lane);
    return carrier_fail(&lane->base, carrier_why(&lane->base, error), "verbs lane %u by %s%s%s: %s%s%s", lane->index,
                        by, *lane->to ? " to " : "", lane->to, what, error ? ": " : "", error ? strerror(error) : "");
}
