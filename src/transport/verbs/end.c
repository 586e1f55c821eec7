/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a verbs lane, and the places by which work requests find theirs while it lasts. */
#include "transport/verbs/end.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    int error = lane->qp ? verbs->library->destroy_qp(lane->qp) : 0;
    if (error) {
        stop_pair(lane);
        log_warn("RDMA device %s: cannot end a queue pair: %s; its buffers are not used again", lane->device->name,
                 strerror(error));
        lane->memory = NULL; /* the adapter may be writing there */
        lane->device->stuck = true;
    } else if (lane->registered && verbs->library->dereg_mr(lane->registered) != 0) {
        lane->memory = NULL; /* still known to the adapter: never used again */
    }
    lane->registered = NULL;
    lane->qp = NULL;
    if (lane->device)
        lane->device->lanes--;
    lane->device = NULL;
}

void verbs_pair_free(struct verbs_lane *lane)
{
    if (lane->memory)
        munmap(lane->memory, VERBS_BUFFERS);
}

/* No more events or deadlines for this lane, and nothing that its adapter reads or writes. */
static void verbs_lane_silence(struct verbs_lane *lane)
{
    struct transport *transport = lane->base.lane.transport;
    transport_timer_clear(transport, &lane->deadline);
    connector_close(&lane->connector);
    if (lane->watched)
        poller_remove(transport->inner, &lane->source);
    lane->watched = false;
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
