/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a transport for data that nobody asked for by name is worth having: on this host, and to each peer. */
#include "link/trial.h"

#include "base/log.h"
#include "base/param.h"

#include <stdio.h>

#define REST_S 30 /* a network that heals is found, and one that does not costs next to nothing */

static bool on_trial(const struct link_lane *lane)
{
    return lane->ops && lane->ops->caps & TRANSPORT_DATA && !transport_is_asked(lane->ops);
}

void trial_unusable(struct link_domain *domain, const struct transport_ops *ops, tutti_result_t why)
{
    if (!(ops->caps & TRANSPORT_DATA) || why == TUTTI_INVALID_USAGE)
        log_info("transport %s is not used: %s", ops->name, error_last());
    else
        snprintf(domain->unusable, sizeof domain->unusable, "%s", error_last());
}

static bool may_try(const struct link_domain *domain)
{
    bool can = false;
    for (int i = 0; i < domain->transports; i++)
        can |= domain->ops[i]->caps & TRANSPORT_DATA && !transport_is_asked(domain->ops[i]);
    return can;
}

void trial_planned(const struct link *link)
{
    struct link_domain *domain = link->domain;
    if (link->messages->caps & TRANSPORT_SAME_HOST)
        return;
    if (*domain->unusable)
        log_warn("RDMA cannot be used here, and data for other hosts goes by TCP: %s", domain->unusable);
    *domain->unusable = 0;
    if (link->planned[1] >= 0 || domain->alone || !may_try(domain))
        return;
    domain->alone = true;
    log_warn("process %u, on another host, offers no RDMA, and its data goes by TCP. Type `tutti doctor rdma` on its "
             "host",
             link->peer.pid);
}

void trial_begin(struct link *link)
{
    bool tried = link->planned[1] >= 0 && !transport_is_asked(link->domain->ops[link->planned[1]]);
    link->trial.until = tried ? clock_ns() + (uint64_t)param_int(PARAM_IB_TRIAL) * NS_PER_MS : 0;
}

void trial_failed(struct link_lane *lane)
{
    struct link_trial *trial = &lane->link->trial;
    if (on_trial(lane) && !lane->life.was_up)
        snprintf(trial->why, sizeof trial->why, "%s", error_last());
}

void trial_passed(struct link_lane *lane)
{
    struct link *link = lane->link;
    if (!on_trial(lane) || !link->trial.failed)
        return;
    link->trial.failed = false;
    log_info("RDMA to process %u works now, and carries the data", link->peer.pid);
}

uint64_t trial_rest(const struct link_lane *lane)
{
    return lane->link->trial.failed && on_trial(lane) ? REST_S * NS_PER_S : 0;
}

/* Of each process once, for what is wrong with one peer is often wrong with many. */
static void trial_complain(struct link *link, int up)
{
    enum log_level level = link->domain->trial_complained ? LOG_INFO : LOG_WARN;
    link->domain->trial_complained = true;
    if (up)
        log_at(level,
               "of the RDMA lanes to process %u only %d came up, which carry the data: %s. Type `tutti doctor "
               "rdma` on both hosts; TUTTI_IB_HCA names the ports to use",
               link->peer.pid, up, link->trial.why);
    else
        log_at(level,
               "RDMA to process %u does not work: %s. Its data goes by TCP, and RDMA is tried again every %d s. "
               "Type `tutti doctor rdma` on both hosts; TUTTI_IB_HCA names other ports, TUTTI_IB_GID_INDEX other "
               "addresses, and TUTTI_TRANSPORT=tcp tries nothing",
               link->peer.pid, link->trial.why, REST_S);
}

void trial_look(struct link *link, uint64_t now)
{
    int up = 0, missing = 0;
    if (!link->trial.until || now < link->trial.until)
        return;
    for (lane_set left = link->present; left; left &= left - 1) {
        const struct link_lane *lane = &link->lane[lane_first(left)];
        up += on_trial(lane) && lane->life.was_up;
        missing += on_trial(lane) && !lane->life.was_up;
    }
    if ((missing || !up) && !*link->trial.why) /* the first attempt is still under way, or waits for its plan */
        return;
    link->trial.until = 0;
    link->trial.failed = !up;
    if (missing)
        trial_complain(link, up);
}
