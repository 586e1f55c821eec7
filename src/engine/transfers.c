/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of messages. */
#include "engine/transfers.h"

#include "base/error.h"
#include "engine/failure.h"

#include <stdio.h>

void transfers_note(struct transfers *transfers, int peer, tutti_result_t result)
{
    if (transfers->result != TUTTI_SUCCESS)
        return;
    transfers->result = result;
    transfers->culprit = peer;
    snprintf(transfers->sentence, sizeof transfers->sentence, "%s", error_last());
}

/* Whose memory it is that cannot be read or written. */
static int own_rank(const struct transfer *transfer)
{
    return (int)(transfer->sends ? transfer->send.tag.from : transfer->recv.tag.to);
}

static void complete(struct transfer *transfer, tutti_result_t result)
{
    transfer->of->spilling -= transfer->spills;
    transfer->spills = false;
    transfer->pending = false;
    transfer->of->pending--;
    transfer->well = result == TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS)
        transfers_note(transfer->of, result == TUTTI_INVALID_ARGUMENT ? own_rank(transfer) : transfer->peer, result);
}

void transfer_sent(struct link_send *send, tutti_result_t result)
{
    complete(container_of(send, struct transfer, send), result);
}

void transfer_received(struct link_recv *recv, tutti_result_t result)
{
    complete(container_of(recv, struct transfer, recv), result);
}

void transfer_spill(struct link_send *send)
{
    struct transfer *transfer = container_of(send, struct transfer, send);
    transfer->spills = true;
    transfer->of->spilling++;
}

void transfer_post(struct transfer *transfer, struct link *link)
{
    transfer->link = link;
    transfer->pending = true;
    transfer->well = false;
    if (transfer->sends)
        link_send(link, &transfer->send);
    else
        link_recv(link, &transfer->recv);
}

void transfers_cancel(struct transfer *list, int count)
{
    for (struct transfer *transfer = list; transfer < list + count; transfer++) {
        if (!transfer->pending || !transfer->link)
            continue;
        if (transfer->sends)
            link_cancel_send(transfer->link, &transfer->send);
        else
            link_cancel_recv(transfer->link, &transfer->recv);
        transfer->pending = false;
    }
}

tutti_result_t transfers_fail(struct team *team, const struct transfers *transfers)
{
    return team_fail_transfer(team, transfers->culprit, transfers->result, transfers->sentence);
}
