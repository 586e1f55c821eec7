/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say of calls: to whom, in which words, and whether a rank has begun one. */
#include "engine/calls.h"
#include "engine/links.h"
#include "engine/team.h"

#include <stdio.h>

const char *calls_text(const struct wire_message *said, char *out, size_t size)
{
    char call[WIRE_CALL_TEXT];
    wire_call_text(said->call, call, sizeof call);
    if (said->tag.slice == WIRE_TAG_P2P && said->flags == WIRE_WAITS_FOR_SIGNAL)
        snprintf(out, size, "the wait for a signal (number %u between the two)", said->tag.round);
    else if (said->tag.slice == WIRE_TAG_P2P && said->flags == WIRE_WAITS_FOR_WINDOW)
        snprintf(out, size, "what it asked of the other's window (number %u)", said->tag.round);
    else if (said->tag.slice != WIRE_TAG_P2P)
        snprintf(out, size, "%s (operation %u)", call, said->tag.seq);
    else
        snprintf(out, size, "%s %s (number %u between the two)", said->flags ? "the receive of" : "the send of", call,
                 said->tag.round);
    return out;
}

bool calls_has_begun(const struct wire_message *waits, struct wire_begun begun, uint32_t started)
{
    if (waits->tag.slice == WIRE_TAG_P2P && waits->flags == WIRE_WAITS_FOR_WINDOW)
        return true; /* by the rank's engine, whatever its user does */
    if (waits->tag.slice == WIRE_TAG_P2P && waits->flags == WIRE_WAITS_FOR_SIGNAL)
        return waits->tag.round < begun.signalled;
    if (waits->tag.slice == WIRE_TAG_P2P)
        return waits->tag.round < (waits->flags ? begun.sent : begun.received);
    return waits->tag.seq <= started;
}

bool calls_begun(const struct team *team, const struct wire_message *waits)
{
    return calls_has_begun(waits, team->calls.with[waits->tag.from], team->calls.started);
}

void calls_send(struct team *team, int rank, const struct wire_message *head, const void *body, size_t length)
{
    struct link *link;
    if (!team_is_here(team, rank)) {
        if (team_link(team, rank, &link) == TUTTI_SUCCESS)
            link_call(link, head, body, length);
        return;
    }
    list_each(node, &team->engine->teams)
    {
        struct team *sibling = list_entry(node, struct team, node);
        if (sibling->id == team->id && sibling->rank == rank)
            sibling->calls.hear(sibling, head, body);
    }
}
