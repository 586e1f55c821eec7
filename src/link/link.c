/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of this process: made at first use, one for each peer process, over the best transport that reaches it.
 * What carries data alone is used next to one that carries messages.
 */
#include "base/affinity.h"
#include "base/param.h"
#include "base/random.h"
#include "link/accept.h"
#include "link/borrow.h"
#include "link/early.h"
#include "link/flight.h"
#include "link/hear.h"
#include "link/incoming.h"
#include "link/lanes.h"
#include "link/links.h"
#include "link/match.h"
#include "link/message.h"
#include "link/move.h"
#include "link/nics.h"
#include "link/outgoing.h"
#include "link/registration.h"
#include "link/self.h"
#include "link/trial.h"
#include "transport/pass/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A rank that lends waits for the peer's turn: where ranks share processors, lending pays from a size that is larger by
 * this factor. */
#define CROWDED_LENDS 4
#define GOODBYE_MS    2000

/* The user by the name that the host has for him: user namespaces call anybody root. */
static uint32_t user_identity(void)
{
    unsigned inside, outside, count, me = geteuid(), found = me;
    FILE *file = fopen("/proc/self/uid_map", "re");
    while (file && fscanf(file, "%u %u %u", &inside, &outside, &count) == 3)
        if (me - inside < count)
            found = outside + (me - inside);
    if (file)
        fclose(file);
    return found;
}

/* Processes with the same value share memory, abstract sockets and the right to each other's descriptors. */
static uint64_t host_identity(uint32_t user)
{
    char boot[64] = "";
    struct stat space = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            boot[0] = 0;
        fclose(file);
    }
    if (!boot[0])
        gethostname(boot, sizeof boot - 1);
    uint64_t seed = stat("/proc/self/ns/net", &space) == 0 ? space.st_ino : 0;
    const char *told = param_string(PARAM_HOSTID);
    return hash_bytes(mix64(seed) + user, boot, strlen(boot)) ^ (*told ? hash_bytes(1, told, strlen(told)) : 0);
}

static void count_memory(void *context, int64_t bytes)
{
    struct link_domain *domain = context;
    if (bytes > 0)
        trace_count(domain->trace, WIRE_COUNTER_LINK_MEMORY_TAKEN, (uint64_t)bytes);
    else
        trace_count(domain->trace, WIRE_COUNTER_LINK_MEMORY_RETURNED, (uint64_t)-bytes);
}

static void link_carrier_writable(struct lane *carrier)
{
    struct link_lane *lane = carrier->user;
    if (lane->link->control == lane->index)
        message_flush(lane->link);
    outgoing_pump(lane->link);
}

static void link_carrier_shared(struct lane *carrier, uint64_t key, int fd)
{
    struct link_lane *lane = carrier->user;
    struct link_owner *owner = &lane->link->domain->owner;
    owner->shared(owner->context, lane->link, key, fd);
}

static bool link_spares(void *context)
{
    return !((const struct link_domain *)context)->crowded;
}

static tutti_result_t open_transports(struct link_domain *domain)
{
    const struct transport_owner owner = {.context = domain,
                                          .accepted = accept_carrier,
                                          .up = lanes_carrier_up,
                                          .down = lanes_carrier_down,
                                          .message = hear_carrier,
                                          .target = incoming_target,
                                          .arrived = incoming_arrived,
                                          .sent = borrow_sent,
                                          .writable = link_carrier_writable,
                                          .shared = link_carrier_shared,
                                          .memory = count_memory,
                                          .source = links_source,
                                          .steered = links_steered,
                                          .stays = move_wanted,
                                          .unreadable = borrow_unreadable,
                                          .unwritable = incoming_unwritable,
                                          .flushed = incoming_flushed,
                                          .lent = borrow_target,
                                          .copied = borrow_copied,
                                          .lent_waits = borrow_waits,
                                          .spares = link_spares};
    for (int i = 0; transport_registry[i] && domain->transports < MAX_TRANSPORTS; i++) {
        const struct transport_ops *ops = transport_registry[i];
        if (!transport_is_wanted(ops))
            continue;
        const struct transport_ops *over = pass_over(ops);
        struct transport *transport;
        tutti_result_t result = TUTTI_SYSTEM_ERROR;
        if (over)
            result = over->open(over, &owner, domain->poller, &domain->self, &transport);
        if (result == TUTTI_SUCCESS) {
            domain->ops[domain->transports] = over;
            domain->transport[domain->transports++] = transport;
        } else if (transport_is_asked(ops)) {
            break; /* another one in its place would only hide that it cannot be used */
        } else {
            trial_unusable(domain, ops, result);
        }
    }
    if (domain->transports)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_SYSTEM_ERROR, "no transport can be used (TUTTI_TRANSPORT=%s): %s",
                     param_string(PARAM_TRANSPORT), error_last());
}

static void domain_free(struct link_domain *domain)
{
    for (int i = 0; i < domain->transports; i++)
        domain->ops[i]->close(domain->transport[i]);
    free(domain);
}

/* Payloads of no bytes are never lent. */
static size_t lends_from(size_t times)
{
    size_t least = (size_t)param_int(PARAM_SHM_CMA_MIN);
    return param_int(PARAM_SHM_CMA) ? times * (least ? least : 1) : SIZE_MAX;
}

tutti_result_t link_domain_open(const struct link_owner *owner, struct poller *poller, struct trace *trace,
                                const struct path_policy *policy, struct link_domain **out)
{
    struct link_domain *domain = calloc(1, sizeof *domain);
    if (!domain)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for links");
    domain->owner = *owner;
    domain->upcalls = &lanes_upcalls;
    domain->poller = poller;
    domain->trace = trace;
    domain->policy = path_complete(policy);
    domain->lend_from = lends_from(1);
    domain->self.uid = user_identity();
    domain->self.host = host_identity(domain->self.uid);
    domain->self.pid = (uint32_t)getpid();
    cpu_set_t processors;
    domain->self.processors = (uint16_t)affinity_count(&processors);
    domain->self.processor_set = (uint16_t)hash_bytes(0, &processors, sizeof processors);
    list_init(&domain->links);
    list_init(&domain->copies);
    list_init(&domain->telling);
    list_init(&domain->registrations);
    list_init(&domain->flushing);
    domain->known_bell.fd = -1;
    tutti_result_t result = random_bytes(domain->self.uuid, sizeof domain->self.uuid);
    if (result == TUTTI_SUCCESS)
        result = random_bytes(domain->self.secret, sizeof domain->self.secret);
    if (result == TUTTI_SUCCESS)
        result = domain->policy.open(&domain->self);
    if (result == TUTTI_SUCCESS)
        result = open_transports(domain);
    if (result == TUTTI_SUCCESS)
        result = registrations_open(domain);
    if (result == TUTTI_SUCCESS)
        *out = domain;
    else
        domain_free(domain);
    return result;
}

void link_mourn(struct link_domain *domain, const uint8_t *uuid)
{
    list_each(node, &domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        link->mourned |= wire_same_process(link->peer.uuid, uuid);
    }
}

bool link_all_heard(const struct link_domain *domain)
{
    list_each(node, (struct list *)&domain->links)
    {
        const struct link *link = list_entry(node, struct link, node);
        bool gone = link->lost || (link->mourned && link->control < 0);
        if (!gone && link->messages && !message_all_heard(link))
            return false;
    }
    return true;
}

void link_domain_leave(struct link_domain *domain)
{
    uint64_t deadline = clock_deadline_ms(GOODBYE_MS);
    list_each(node, &domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        struct wire_message head = {.kind = WIRE_BYE};
        if (link->messages && link->started) /* also where no lane is up yet: something may wait for it */
            message_send(link, &head, NULL, 0);
    }
    while (!link_all_heard(domain) && !clock_passed(deadline)) {
        if (!link_poll(domain))
            poller_wait(domain->poller, 1);
        link_tick(domain, clock_ns()); /* lanes that are down come back to carry it */
    }
}

static void link_free(struct link *link)
{
    link->lost = true; /* for whoever sends from inside done() */
    snprintf(link->reason, sizeof link->reason, "this process leaves");
    for (lane_set left = link->present; left; left &= left - 1) {
        lane_close(&link->lane[lane_first(left)]);
        flight_drop_all(&link->lane[lane_first(left)]); /* others of this process may stay on the board */
    }
    message_drop_all(link);
    match_fail_all(link, TUTTI_REMOTE_ERROR);
    early_drop_all(link);
    list_remove(&link->node);
    list_remove(&link->reports.telling);
    tags_close(&link->match.posted);
    tags_close(&link->early.arrived);
    tags_close(&link->match.waiting);
    free(link->takes.receiving);
    free(link->puts.sending);
    free(link->puts.reading);
    for (lane_set left = link->present; left; left &= left - 1) {
        trace_lane_close(link->lane[lane_first(left)].trace);
        free(link->lane[lane_first(left)].flight.at);
    }
    free(link->policy_state);
    free(link);
}

void link_domain_close(struct link_domain *domain)
{
    if (!domain)
        return;
    link_domain_leave(domain);
    domain->closing = true;
    while (!list_empty(&domain->links))
        link_free(list_entry(domain->links.next, struct link, node));
    registrations_close(domain);
    nics_close(domain);
    domain_free(domain);
}

const struct wire_process *link_domain_self(const struct link_domain *domain)
{
    return &domain->self;
}

bool link_domain_nic(const struct link_domain *domain, const struct transport_ops *ops, unsigned device,
                     struct transport_nic *out)
{
    for (int i = 0; i < domain->transports; i++)
        if (domain->ops[i] == ops)
            return ops->nic(domain->transport[i], device, out);
    return false;
}

bool link_domain_idle(struct link_domain *domain, const struct transport_ops *ops, uint32_t devices, bool comes)
{
    return nics_any_idle(domain, ops, devices, comes);
}

bool link_domain_registers(const struct link_domain *domain)
{
    for (int i = 0; i < domain->transports; i++)
        if (domain->ops[i]->caps & TRANSPORT_REGISTERS)
            return true;
    return false;
}

tutti_result_t link_get(struct link_domain *domain, const struct wire_process *peer, uint64_t session,
                        struct link **out)
{
    *out = link_find(domain, peer->uuid, session);
    tutti_result_t result = *out ? TUTTI_SUCCESS : links_make(domain, peer, session, out);
    if (result == TUTTI_SUCCESS && (*out)->messages)
        link_start(*out);
    return result;
}

void link_abort(struct link *link, uint64_t comm, const struct wire_abort *abort)
{
    struct wire_message head = {.kind = WIRE_ABORT, .tag.comm = comm};
    if (link->messages && !link->lost && link->started)
        message_send(link, &head, abort, sizeof *abort);
}

void link_call(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    if (link->messages && !link->lost)
        message_send(link, head, body, length);
}

void link_memo(struct link *link, const struct wire_tag *tag, const struct wire_memo *word)
{
    struct wire_message head = {.kind = WIRE_MEMO, .tag = *tag};
    if (link->messages && !link->lost)
        message_send(link, &head, word, sizeof *word);
}

void link_abort_all(struct link_domain *domain, uint64_t comm, const struct wire_abort *abort)
{
    list_each_safe(node, &domain->links) link_abort(list_entry(node, struct link, node), comm, abort);
}

tutti_result_t link_share(struct link *link, uint64_t key, int fd)
{
    if (link->control < 0 || !(link->messages->caps & TRANSPORT_SHARES))
        return TUTTI_IN_PROGRESS;
    return link->messages->share(link->lane[link->control].carrier, key, fd);
}

void link_be_patient(struct link *link, uint64_t ms)
{
    if (link->life.patience < ms * NS_PER_MS)
        link->life.patience = ms * NS_PER_MS;
}

void link_announce(struct link_domain *domain, const void *buffer)
{
    for (int i = 0; i < domain->transports; i++)
        domain->ops[i]->announce(domain->transport[i], buffer);
}

uint64_t link_session(const struct link *link)
{
    return link->session;
}

const struct wire_process *link_peer(const struct link *link)
{
    return &link->peer;
}

bool link_is_lost(const struct link *link)
{
    return link->lost;
}

uint64_t link_down(const struct link *link, uint64_t now)
{
    return link->life.down_since ? since(link->life.down_since, now) : 0;
}

bool link_has_left(const struct link *link)
{
    bool met = false;
    for (lane_set left = link->present; left; left &= left - 1)
        met |= link->lane[lane_first(left)].life.was_up;
    return link->life.bye || !met;
}

void link_crowd(struct link_domain *domain)
{
    domain->crowded = true;
    domain->lend_from = lends_from(CROWDED_LENDS);
}

bool link_met(struct link_domain *domain)
{
    bool met = domain->met;
    domain->met = false;
    return met;
}

bool link_copies(const struct link_domain *domain)
{
    return !list_empty(&domain->copies);
}

int link_poll(struct link_domain *domain)
{
    int done = self_poll(domain);
    for (int i = 0; i < domain->transports; i++)
        done += domain->ops[i]->poll(domain->transport[i]);
    if (!list_empty(&domain->telling))
        flight_tell(domain, false);
    return done;
}

uint64_t link_tick(struct link_domain *domain, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    list_each_safe(node, &domain->links)
    {
        uint64_t wanted = lanes_tick(list_entry(node, struct link, node), now);
        next = wanted < next ? wanted : next;
    }
    return next;
}

bool link_arm(struct link_domain *domain)
{
    bool quiet = !link_copies(domain);
    if (!list_empty(&domain->telling))
        flight_tell(domain, true);
    for (int i = 0; i < domain->transports; i++)
        quiet &= domain->ops[i]->arm(domain->transport[i]);
    return quiet;
}

void link_disarm(struct link_domain *domain)
{
    for (int i = 0; i < domain->transports; i++)
        domain->ops[i]->disarm(domain->transport[i]);
}
