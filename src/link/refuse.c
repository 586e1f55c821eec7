/* SPDX-License-Identifier: Apache-2.0 */
/* The errors of payloads that are refused, for the two ends do not fit or memory is not what the call says. */
#include "link/refuse.h"

#include "base/error.h"
#include "base/reach.h"

#include <stdio.h>

static tutti_result_t refuse_message(const struct wire_tag *tag, const char *sent, const char *wanted,
                                     const char *lengths)
{
    return error_note(
        TUTTI_INVALID_USAGE,
        "rank %u sends %s, rank %u receives %s%s: message %u differs between the two; both ends must name "
        "the same number of elements, and the same type", /* WIRE_ENDS_DIFFER is part of it */
        tag->from, sent, tag->to, wanted, lengths, tag->seq);
}

tutti_result_t refuse_call(const struct wire_tag *tag, const struct wire_call *mine, size_t my_length,
                           const struct wire_call *theirs, size_t their_length, uint32_t their_rank)
{
    char here[WIRE_CALL_TEXT], there[WIRE_CALL_TEXT], lengths[80] = "";
    bool sends = tag->to == their_rank;
    wire_call_text(*mine, here, sizeof here);
    wire_call_text(*theirs, there, sizeof there);
    if (mine->signature == theirs->signature)
        snprintf(lengths, sizeof lengths, " (a block of %zu bytes here, of %zu there)", my_length, their_length);
    if (tag->slice == WIRE_TAG_P2P)
        return refuse_message(tag, sends ? here : there, sends ? there : here, lengths);
    return error_note(
        TUTTI_INVALID_USAGE,
        "rank %u called %s, rank %u called %s%s: operation %u differs; all ranks must make the same calls",
        sends ? tag->from : tag->to, here, their_rank, there, lengths, tag->seq);
}

/* The caller's memory is not what the call says: neither the peer's fault nor the lane's. */
static tutti_result_t refuse_memory(const struct wire_tag *tag, const struct wire_call *call, bool sends,
                                    struct place place, size_t length)
{
    char text[WIRE_CALL_TEXT];
    const void *data = place.address;
    if (!place_is_host(place))
        return error_note(TUTTI_INVALID_ARGUMENT,
                          "rank %u gave memory of GPU %d for %s, %zu bytes %s rank %u: no lane between the two reaches "
                          "it; copy them through host memory, or use a communicator on GPUs",
                          sends ? tag->from : tag->to, place.device - 1, wire_call_text(*call, text, sizeof text),
                          length, sends ? "to" : "from", sends ? tag->to : tag->from);
    const void *at = sends ? reach_unreadable(data, length) : reach_unwritable(data, length);
    return error_note(TUTTI_INVALID_ARGUMENT,
                      "rank %u gave memory that cannot be %s for %s: address %p, in %zu bytes from %p %s rank %u; the "
                      "page is protected or not mapped, or its file is too short",
                      sends ? tag->from : tag->to, sends ? "read" : "written", wire_call_text(*call, text, sizeof text),
                      at ? at : data, length, data, sends ? "to" : "for what comes from", sends ? tag->to : tag->from);
}

tutti_result_t refuse_source(const struct link_send *send)
{
    return refuse_memory(&send->tag, &send->call, true, send->place, send->length);
}

tutti_result_t refuse_target(const struct link_recv *recv)
{
    return refuse_memory(&recv->tag, &recv->call, false, recv->place, recv->length);
}
