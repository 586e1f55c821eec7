/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that peers open. */
#include "link/accept.h"

#include "link/lanes.h"
#include "link/links.h"

/*
 * Both sides connected at once: the attempt of the smaller uuid stays. A lane that is up here makes way for one that
 * the peer began after it had done with this lane, not for one that it began before.
 */
static bool accept_is_welcome(const struct link *link, const struct link_lane *lane, const struct wire_hello *hello)
{
    switch (lane->state) {
    case LANE_CONNECTING:
        return !lanes_begin_here(link);
    case LANE_UP:
        return wire_epoch_later(hello->epoch, lane->epoch) || hello->known == lane->epoch;
    default:
        return true;
    }
}

/* A lane is of one transport at both ends. The peer may want more than this side does. */
static bool accept_fits(const struct link *link, unsigned index, const struct transport_ops *ops)
{
    const struct link_lane *lane = &link->lane[index];
    return lane->ops ? lane->ops == ops
                     : link->messages == ops || ((ops->caps & TRANSPORT_DATA) && index >= LINK_DATA_LANE);
}

/* The link that a hello is for, NULL if it is for none of ours. */
static struct link *accept_addressee(struct link_domain *domain, const struct lane *lane,
                                     const struct wire_hello *hello)
{
    struct link *link = link_find(domain, hello->from.uuid, hello->session);
    if (!link && links_make(domain, &hello->from, hello->session, &link) != TUTTI_SUCCESS)
        return NULL;
    bool right =
        !link->lost && !domain->closing && hello->lane < LINK_MAX_LANES && accept_fits(link, hello->lane, lane->ops);
    return right ? link : NULL;
}

/* The lane is no more what it was, for the peer has connected it anew. */
static void accept_in_place(struct link_lane *lane)
{
    if (lane->state == LANE_UP) {
        error_note(TUTTI_REMOTE_ERROR, "the peer connected lane %u anew", lane->index);
        lane_down(lane, TUTTI_REMOTE_ERROR);
    }
    lane_close(lane);
}

bool accept_carrier(void *context, struct lane *carrier, const struct wire_hello *hello)
{
    struct link *link = accept_addressee(context, carrier, hello);
    struct link_lane *lane = link ? &link->lane[hello->lane] : NULL;
    if (link && !accept_is_welcome(link, lane, hello))
        return false;
    if (link)
        accept_in_place(links_lane(link, hello->lane));
    if (!link || link->lost) {
        carrier->ops->lane_close(carrier);
        return true;
    }
    if (!lane->ops) /* one that we would not have opened */
        lane->view.roles = PATH_DATA;
    lane->carrier = carrier;
    lane->ops = carrier->ops;
    lane->transport = carrier->transport;
    lane->epoch = lane->life.known = hello->epoch;
    carrier->user = lane;
    if (!link->started)
        link->life.down_since = clock_ns();
    lane_up(lane);
    return true;
}
