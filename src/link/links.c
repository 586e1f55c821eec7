/* SPDX-License-Identifier: Apache-2.0 */
/* Which links there are, and which lanes each is to have: over the best transport that reaches the peer, with what
 * carries data alone next to one that carries messages, as the path policy wishes. */
#include "link/links.h"

#include "base/param.h"
#include "link/early.h"
#include "link/nics.h"
#include "link/trial.h"

#include <stdlib.h>
#include <string.h>

struct link *link_find(struct link_domain *domain, const uint8_t *uuid, uint64_t session)
{
    list_each(node, &domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        if (link->session == session && wire_same_process(link->peer.uuid, uuid))
            return link;
    }
    return NULL;
}

static int links_nics(struct transport *transport, const struct transport_ops *ops, struct transport_nic out[LINK_NICS])
{
    int count = 0;
    while (count < LINK_NICS && ops->nic(transport, (unsigned)count, &out[count]))
        count++;
    return count;
}

static bool links_address(const struct wire_address *address, uint8_t out[16])
{
    static const uint8_t before[12] = {[10] = 0xff, [11] = 0xff}; /* of an address of IPv4 */
    bool four = address->family == 4;
    if (four)
        memcpy(out, before, sizeof before);
    memcpy(out + (four ? 12 : 0), address->bytes, four ? 4 : 16);
    return address->family;
}

/* Lanes take the interfaces of either end in turn, by their indexes. */
static bool links_ends(const struct wire_process *self, struct path_source *lane)
{
    unsigned theirs = 0;
    while (theirs < WIRE_DEVICES && lane->peer->verbs[theirs].family)
        theirs++;
    return theirs && lane->device < WIRE_DEVICES && links_address(&self->verbs[lane->device], lane->from) &&
           links_address(&lane->peer->verbs[lane->index % theirs], lane->to);
}

/* Is the lane opened anew to get another port, rather than because it failed? */
static bool links_moves(const struct link_domain *domain, const uint8_t *peer, uint16_t index)
{
    list_each(node, (struct list *)&domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        const struct link_lane *lane = link_lane(link, index);
        if (!link->lost && wire_same_process(link->peer.uuid, peer) && lane)
            return lane->move.closed || lane->move.said || lane->move.asked;
    }
    return false;
}

int links_source(void *context, const struct transport_ops *ops, const struct wire_process *peer, unsigned device,
                 uint16_t index)
{
    struct link_domain *domain = context;
    unsigned first = ops->caps & TRANSPORT_DATA && index >= LINK_DATA_LANE ? LINK_DATA_LANE : 0;
    for (int i = 0; i < domain->transports; i++) {
        if (domain->ops[i] != ops)
            continue;
        struct transport_nic nic[LINK_NICS];
        struct path_source lane = {.peer = peer,
                                   .device = device,
                                   .nics = (unsigned)links_nics(domain->transport[i], ops, nic),
                                   .place = index - first,
                                   .messages = index == LINK_MESSAGE_LANE,
                                   .index = index,
                                   .moves = links_moves(domain, peer->uuid, index)};
        lane.known = links_ends(&domain->self, &lane);
        return domain->policy.source(&lane, clock_ns());
    }
    return 0;
}

int links_steered(void *context, const uint8_t *peer, uint16_t index, uint16_t has)
{
    const struct link_domain *domain = context;
    return domain->policy.steered(peer, index, has, clock_ns());
}

struct link_lane *links_lane(struct link *link, unsigned index)
{
    struct link_lane *lane = &link->lane[index];
    if (!(link->present & lane_bit(index))) {
        lane->link = link;
        lane->index = lane->view.index = (uint16_t)index;
        lane->view.distance = wire_distance(&link->domain->self, &link->peer);
        lane->view.untold = wire_place_untold(&link->domain->self, &link->peer);
        lane->bit = (uint8_t)wire_fold(&link->domain->self, index);
        lane->peer_bit = (uint8_t)wire_fold(&link->peer, index);
    }
    link->present |= lane_bit(index);
    link->reports.most = link_lanes(link) < LINK_LANDED_FEW ? LINK_LANDED_FEW : LINK_LANDED;
    return lane;
}

/* Lanes of one transport, from index `first`: those that the policy wishes for. False: it does not know yet. */
static bool links_plan_on(struct link *link, int transport, int first, int most)
{
    struct link_domain *domain = link->domain;
    struct path_wish wishes[LINK_MAX_LANES];
    struct transport_nic listed[LINK_NICS], nic[LINK_NICS];
    struct path_question question = {
        .peer = &link->peer, .ops = domain->ops[transport], .messages = !first, .most = most};
    int likely = question.ops->lanes(domain->transport[transport], &link->peer);
    question.distance = wire_distance(&domain->self, &link->peer);
    question.likely = likely < most ? likely : most;
    question.nics = links_nics(domain->transport[transport], question.ops, listed);
    for (int i = 0; i < question.nics; i++) /* lanes go by their indexes, of which the first need not be 0 */
        nic[i] = listed[(first + i) % question.nics];
    question.nic = nic;
    question.data = !first && link->planned[1] < 0;
    int count = domain->policy.lanes(link->policy_state, &question, wishes);
    for (int i = 0; i < count && i < most; i++) {
        struct link_lane *lane = links_lane(link, (unsigned)(first + i));
        lane->ops = question.ops;
        lane->transport = domain->transport[transport];
        lane->view.roles = wishes[i].roles;
    }
    return count >= 0;
}

/* Beside the lanes for data: a message that is put behind segments waits for all of them. */
static void links_plan_message_lane(struct link *link)
{
    struct link_domain *domain = link->domain;
    bool there = link->present & lane_bit(LINK_MESSAGE_LANE);
    if (!(domain->ops[link->planned[1]]->caps & TRANSPORT_MESSAGES) || link->lossless || there)
        return;
    struct link_lane *lane = links_lane(link, LINK_MESSAGE_LANE);
    lane->ops = domain->ops[link->planned[1]];
    lane->transport = domain->transport[link->planned[1]];
    lane->view.roles = PATH_CONTROL;
}

void links_plan(struct link *link)
{
    bool data = link->planned[1] >= 0;
    nics_list(link->domain, link->planned[data]);
    bool known = links_plan_on(link, link->planned[0], 0, data ? LINK_DATA_LANE : LINK_MESSAGE_LANE);
    known &= !data || links_plan_on(link, link->planned[1], LINK_DATA_LANE, LINK_DATA_LANES);
    if (data && known)
        links_plan_message_lane(link);
    link->life.unplanned = !known;
    lanes_choose_usable(link);
}

/* Of those that carry messages, or, with `data`, of those that carry data alone. */
static int links_best(const struct link_domain *domain, const struct wire_process *peer, bool data, int *cost)
{
    int best = -1;
    for (int i = 0; i < domain->transports; i++) {
        int here = domain->ops[i]->reach(domain->transport[i], peer);
        if (here < 0 || !(domain->ops[i]->caps & TRANSPORT_DATA) == data || (best >= 0 && here >= *cost))
            continue;
        best = i;
        *cost = here;
    }
    return best;
}

/* What carries the data of a link whose messages transport `messages` carries, at `cost`; -1: the same. */
static int links_data(const struct link_domain *domain, const struct wire_process *peer, int cost)
{
    int here = 0, best = links_best(domain, peer, true, &here);
    return best >= 0 && here < cost ? best : -1;
}

const struct transport_ops *link_domain_reach(struct link_domain *domain, const struct wire_process *peer)
{
    int cost = 0, index = links_best(domain, peer, false, &cost);
    int data = index < 0 ? -1 : links_data(domain, peer, cost);
    return index < 0 ? NULL : domain->ops[data < 0 ? index : data];
}

static void links_init_lists(struct link *link)
{
    list_init(&link->out.idle);
    list_init(&link->out.kept);
    list_init(&link->reports.telling);
    list_init(&link->puts.queue);
    list_init(&link->puts.granted);
    link->out.unsent = &link->out.kept;
    tags_of(&link->match.posted, struct link_recv, node, tag);
    tags_of(&link->early.arrived, struct unexpected, node, head.tag);
    tags_of(&link->match.waiting, struct link_send, node, tag);
}

/* What lanes of both transports take, for either may carry the next message. */
static size_t links_eager(const struct transport_ops *ops, const struct transport_ops *data)
{
    bool both = data && data->caps & TRANSPORT_MESSAGES && data->max_msg < ops->max_msg;
    size_t most = (both ? data : ops)->max_msg - sizeof(struct wire_message) - sizeof(struct wire_sequence);
    size_t wanted = (size_t)param_int(PARAM_EAGER);
    return wanted && wanted < most ? wanted : most;
}

static void links_choose(struct link *link, int index, int cost)
{
    struct link_domain *domain = link->domain;
    int data = links_data(domain, &link->peer, cost);
    link->messages = domain->ops[index];
    link->lossless = link->messages->caps & TRANSPORT_LOSSLESS;
    link->eager = links_eager(link->messages, data < 0 ? NULL : domain->ops[data]);
    bool asked = param_int(PARAM_EAGER) || link->messages->max_lent < link->eager;
    link->unasked = asked ? link->eager : link->messages->max_lent;
    bool all = !link->messages->lend || link->eager < domain->lend_from;
    link->brief = all ? link->eager : domain->lend_from - 1;
    link->early.most = (size_t)param_int(PARAM_EARLY);
    link->planned[0] = index;
    link->planned[1] = data;
    trial_planned(link);
    links_plan(link);
}

tutti_result_t links_make(struct link_domain *domain, const struct wire_process *peer, uint64_t session,
                          struct link **out)
{
    bool self = wire_same_process(peer->uuid, domain->self.uuid);
    int cost = 0, index = self ? -1 : links_best(domain, peer, false, &cost);
    if (!self && index < 0)
        return error_set(
            TUTTI_SYSTEM_ERROR,
            "process %u cannot be reached: TCP is off or has no address (see TUTTI_TRANSPORT, TUTTI_SOCKET_IFNAME); "
            "and the process is not on this host, or may not share memory (a seccomp profile refuses memfd_create to "
            "one of the two)",
            peer->pid);
    struct link *link = calloc(1, sizeof *link);
    void *state = calloc(1, domain->policy.state_bytes + 1);
    if (!link || !state) {
        free(link);
        free(state);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a link");
    }
    link->policy_state = state;
    link->domain = domain;
    link->peer = *peer;
    link->session = session;
    link->control = -1;
    link->life.patience = (uint64_t)param_int(PARAM_TIMEOUT) * NS_PER_MS;
    links_init_lists(link);
    links_lane(link, 0); /* by which events of the link tell its peer */
    link->present = 0;
    if (!self)
        links_choose(link, index, cost);
    list_push(&domain->links, &link->node);
    *out = link;
    return TUTTI_SUCCESS;
}
