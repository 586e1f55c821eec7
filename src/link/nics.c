/* SPDX-License-Identifier: Apache-2.0 */
/* The interfaces that lanes go by, and what other processes of the host do by them. */
#include "link/nics.h"

#include "base/random.h"

#include <string.h>

#define BATCH 8 /* choices that one look at the board is for */

uint64_t nics_name(const struct transport_nic *about)
{
    return hash_bytes(about->port, about->name, strlen(about->name)) | 1;
}

/* One interface leaves no choice, and nobody asks what others do by it. */
static void nics_post(struct link_domain *domain)
{
    if (domain->nics < 2)
        return;
    if (!domain->board && !(domain->board = board_open(domain->self.host)))
        return;
    for (int i = 0; i < domain->nics; i++)
        if (!domain->nic[i].use)
            domain->nic[i].use = board_use(domain->board, nics_name(&domain->nic[i].about));
}

struct path_nic *nics_find(struct link_domain *domain, const struct lane *carrier)
{
    for (int i = 0; i < domain->nics; i++)
        if (domain->nic[i].ops == carrier->ops && domain->nic[i].device == carrier->device)
            return &domain->nic[i];
    if (domain->nics < LINK_NICS) {
        struct path_nic *nic = &domain->nic[domain->nics++];
        *nic = (struct path_nic){.ops = carrier->ops, .device = carrier->device};
        carrier->ops->nic(carrier->transport, carrier->device, &nic->about);
        nics_post(domain);
    }
    return &domain->nic[domain->nics - 1];
}

void nics_look(struct link_domain *domain, uint64_t now)
{
    if (!domain->board || domain->choices++ % BATCH)
        return;
    for (int i = 0; i < domain->nics; i++)
        domain->nic[i].elsewhere = board_look(domain->board, nics_name(&domain->nic[i].about), now).outstanding;
}

void nics_close(struct link_domain *domain)
{
    board_close(domain->board);
    domain->board = NULL;
}

/* Of the transport that carries the link's data. */
static const struct path_nic *nics_nearest(const struct link *link, struct place place)
{
    const struct link_domain *domain = link->domain;
    const struct transport_ops *ops = domain->ops[link->planned[link->planned[1] >= 0]];
    int device = domain->owner.near ? domain->owner.near(domain->owner.context, place, ops) : -1;
    for (int i = 0; device >= 0 && i < domain->nics; i++)
        if (domain->nic[i].ops == ops && domain->nic[i].device == (unsigned)device)
            return &domain->nic[i];
    return NULL;
}

struct path_payload nics_payload(const struct link *link, struct place place, enum path_class class, uint64_t left)
{
    const struct path_nic *near = place_is_host(place) ? NULL : nics_nearest(link, place);
    return (struct path_payload){.place = place, .near = near, .class = class, .left = left};
}
