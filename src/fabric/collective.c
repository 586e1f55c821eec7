/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives but reductions: long broadcasts are passed on, all others are exchanges. */
#include "fabric/internal.h"
#include "fabric/steps.h"

#include "base/error.h"
#include "base/param.h"
#include "device/type.h"

#include <stdlib.h>
#include <string.h>

#define FEW          16 /* sends and receives that need no memory of their own */
#define CHAIN_PIECES 24 /* of a large broadcast; the board has room for more */

/* ---- Long broadcasts ----------------------------------------------------------------------------------------------- */

/* Kernels carry what cannot be copied only. */
static bool copies_all(const struct fabric *fabric)
{
    return fabric->copies && fabric->copy_from <= 1;
}

/* It is passed on from rank to rank. Between two it is no more than a message. */
static bool passed_on(const struct fabric *fabric, const struct call *call)
{
    return call->coll == COLL_BROADCAST && fabric->nranks > 2 && call_bytes(call) >= (uint64_t)param_int(PARAM_CHAIN_FROM);
}

static bool by_chain_kernel(const struct fabric *fabric, const struct call *call)
{
    return passed_on(fabric, call) && !copies_all(fabric);
}

static bool by_chain_of_copies(const struct fabric *fabric, const struct call *call, bool capturing)
{
    return passed_on(fabric, call) && fabric->copies && !capturing &&
           (copies_all(fabric) || call_bytes(call) >= (uint64_t)param_int(PARAM_CHAIN_COPY_FROM));
}

/* In pieces: every GPU passes a piece on while the next comes in, so that the root's link carries the vector once, not n - 1 times. */
static tutti_result_t chain_of_copies(struct fabric *fabric, const struct call *call, CUstream stream)
{
    const struct flow *flow = record_way(fabric, WAY_COPY_CHAIN, call);
    if (!flow)
        return TUTTI_INTERNAL_ERROR;
    uint64_t bytes = call_bytes(call), least = (uint64_t)param_int(PARAM_CHAIN_PIECE), piece = bytes / CHAIN_PIECES;
    int before = flow->source[0], after = flow->next[0] ? __builtin_ctz(flow->next[0]) : -1;
    tutti_result_t result = fabric_needs(fabric, flow->next[0]);
    if (result != TUTTI_SUCCESS)
        return result;
    piece = piece < least ? least : (piece + 4095) / 4096 * 4096;
    result = copy_chain(fabric, before < 0 ? call->in : call->out, call->out, bytes, piece, before, after, stream);
    if (result == TUTTI_SUCCESS && before < 0 && call->in != call->out)
        result = fabric_copy(fabric, stream, device_address(call->out), device_address(call->in), bytes);
    return result;
}

/* Only ranks that this one sends to need have come: the others may be done with this call and gone. */
static tutti_result_t chain_kernel(struct fabric *fabric, const struct call *call, CUstream stream)
{
    bool fan = call_bytes(call) <= (uint64_t)param_int(PARAM_CHAIN_FAN);
    const struct flow *flow = record_way(fabric, fan ? WAY_FAN : WAY_CHAIN, call);
    if (!flow)
        return TUTTI_INTERNAL_ERROR;
    struct kernel_chain what = {.team = fabric->kernels, .in = call->in, .out = call->out, .bytes = call_bytes(call),
                                .chunk = (uint64_t)param_int(PARAM_CHAIN_CHUNK)};
    struct kernel_launch how;
    steps_chain(flow, &what);
    kernel_choose_chain(what.bytes, fabric->room, &how);
    uint32_t to = kernel_chain_receivers(&what, how.blocks);
    tutti_result_t result = fabric_needs(fabric, to);
    if (result == TUTTI_SUCCESS)
        result = scratch_take_bulk(fabric, 1u << fabric->rank | to);
    return result == TUTTI_SUCCESS ? order_launch(fabric, &how, TUTTI_UINT8, &what.team, stream) : result;
}

/* ---- Preparing ----------------------------------------------------------------------------------------------------- */

/* It may: whether the call is captured, and copy engines are no way, is not known here. */
static bool needs_bulk(const struct fabric *fabric, const struct call *call)
{
    return schedule_reduces(call->coll) ? reduce_needs_bulk(fabric, call) : by_chain_kernel(fabric, call);
}

tutti_result_t fabric_prepare(struct fabric *fabric, const struct call *call)
{
    if (!call->count || fabric->staged)
        return TUTTI_SUCCESS;
    bool direct = schedule_reduces(call->coll) && direct_wanted(fabric, call);
    if (!direct && (fabric->bulk_posted || !needs_bulk(fabric, call)))
        return TUTTI_SUCCESS;
    cuda_enter(fabric->device);
    tutti_result_t result = direct ? direct_prepare(fabric, call) : scratch_post_bulk(fabric);
    cuda_leave();
    return result == TUTTI_SUCCESS ? result : team_fail(fabric->team, result, fabric->rank, error_last()); /* peers wait for what is not there */
}

/* ---- Exchanges ----------------------------------------------------------------------------------------------------- */

static void send_to(struct kernel_exchange *what, int peer, const void *from, uint64_t bytes)
{
    what->send[peer] = from;
    what->send_bytes[peer] = bytes;
}

static void recv_from(struct kernel_exchange *what, int peer, const void *to, uint64_t bytes)
{
    what->recv[peer] = (void *)(uintptr_t)to;
    what->recv_bytes[peer] = bytes;
}

/* A message's memory. Where a schedule's message is empty (of a barrier) words go behind this rank's own window, which nobody reads. */
struct piece {
    const char *at;
    uint64_t bytes;
};

static struct piece piece_of(const struct fabric *fabric, const struct call *call, const struct flow_place *place, int peer, bool sends)
{
    size_t size = type_size(call->type), block = (size_t)place->block;
    if (!place->nblocks) {
        const unsigned char *words = fabric->kernels.window[fabric->rank] + kernel_window_bytes(fabric->nranks);
        return (struct piece){(const char *)words + (sends ? 0 : 64 * (peer + 1)), 4};
    }
    const char *base = place->buffer == BUFFER_IN ? call->in : call->out;
    if (call->coll != COLL_ALLTOALLV)
        return (struct piece){base + block * call->count * size, (uint64_t)place->nblocks * call->count * size};
    const size_t *offsets = sends ? call->send_offsets : call->recv_offsets, *counts = sends ? call->send_counts : call->recv_counts;
    return (struct piece){base + offsets[block] * size, counts[block] * size};
}

static void describe(const struct fabric *fabric, const struct call *call, const struct flow *flow, struct kernel_exchange *what)
{
    memset(what, 0, sizeof *what);
    for (int peer = 0; peer < fabric->nranks; peer++) {
        const struct flow_peer *with = &flow->peer[peer];
        struct piece out = piece_of(fabric, call, &with->send, peer, true), in = piece_of(fabric, call, &with->recv, peer, false);
        if (with->send.used)
            send_to(what, peer, out.at, out.bytes);
        if (with->recv.used)
            recv_from(what, peer, in.at, in.bytes);
    }
}

static tutti_result_t exchange(struct fabric *fabric, const struct call *call, CUstream stream, bool capturing)
{
    struct kernel_exchange what;
    if (by_chain_of_copies(fabric, call, capturing))
        return chain_of_copies(fabric, call, stream);
    if (by_chain_kernel(fabric, call))
        return chain_kernel(fabric, call, stream);
    const struct flow *flow = record_way(fabric, WAY_EXCHANGE, call);
    if (!flow)
        return TUTTI_INTERNAL_ERROR;
    describe(fabric, call, flow, &what);
    return exchange_issue(fabric, &what, true, stream, capturing);
}

tutti_result_t fabric_collective(struct fabric *fabric, const struct call *call, fabric_stream_t stream)
{
    if (!call->count && call->coll != COLL_BARRIER && call->coll != COLL_ALLTOALLV)
        return fabric_failure(fabric);
    cuda_enter(fabric->device);
    record_call(fabric, call);
    tutti_result_t result = order_begin(fabric, stream);
    if (result == TUTTI_SUCCESS) {
        step_collective(fabric, call);
        result = fabric->staged                   ? staged_collective(fabric->staged, call, order_staged(fabric), stream)
                 : schedule_reduces(call->coll) ? reduce_issue(fabric, call, fabric->capturing, stream)
                                                : exchange(fabric, call, stream, fabric->capturing);
        result = order_end(fabric, stream, result);
    }
    record_returned(fabric, result);
    cuda_leave();
    return result;
}

/* ---- Sends and receives -------------------------------------------------------------------------------------------- */

/* Takes the next send to and receive from each peer out of the list. False: none was left. */
static bool next_round(const struct p2p_item *items, int count, bool *issued, struct kernel_exchange *what)
{
    bool any = false;
    memset(what, 0, sizeof *what);
    for (int i = 0; i < count; i++) {
        const struct p2p_item *item = &items[i];
        uint64_t bytes = item->count * type_size(item->type);
        bool taken = item->sends ? what->send[item->peer] != NULL : what->recv[item->peer] != NULL;
        if (issued[i] || taken)
            continue;
        issued[i] = any = true;
        if (!bytes)
            continue;
        if (item->sends)
            send_to(what, item->peer, item->data, bytes);
        else
            recv_from(what, item->peer, item->data, bytes);
    }
    return any;
}

tutti_result_t fabric_p2p(struct fabric *fabric, const struct p2p_item *items, int count, fabric_stream_t stream)
{
    struct kernel_exchange what;
    bool few[FEW] = {false}, *issued = count <= FEW ? few : calloc((size_t)count, sizeof *issued);
    if (!issued)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", count);
    cuda_enter(fabric->device);
    record_p2p(fabric, items, count);
    tutti_result_t result = order_begin(fabric, stream);
    if (result == TUTTI_SUCCESS) {
        step_p2p(fabric, items, count);
        if (fabric->staged)
            result = staged_p2p(fabric->staged, items, count, order_staged(fabric), stream);
        while (!fabric->staged && result == TUTTI_SUCCESS && next_round(items, count, issued, &what))
            result = exchange_issue(fabric, &what, false, stream, fabric->capturing);
        result = order_end(fabric, stream, result);
    }
    record_returned(fabric, result);
    cuda_leave();
    if (issued != few)
        free(issued);
    return result;
}
