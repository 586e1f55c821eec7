/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, one to and one from each at most: small ones by kernel, large ones by copy engine. */
#include "executor/gpu/exchange.h"

#include "device/cuda/numbers.h"
#include "executor/gpu/copy.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/layout.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/opened.h"

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

/* what: the messages that are left for a kernel. */
static uint64_t longest_other(const struct gpu *gpu, const struct kernel_exchange *what)
{
    uint64_t longest = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (peer != gpu->rank)
            longest = larger(longest, larger(what->send_bytes[peer], what->recv_bytes[peer]));
    return longest;
}

/* The kernel copies a rank's own message, as a call for it costs more than the copy. A longer one would make the kernel
 * last longer, and gets its own call. */
static bool own_by_kernel(const struct gpu *gpu, const struct kernel_exchange *what)
{
    uint64_t own = what->send_bytes[gpu->rank], longest = longest_other(gpu, what);
    return longest && (own < NUMBER_SELF_COPY_FROM || own <= longest);
}

/* Both ends of a message decide alike: by its size alone. */
static uint32_t large(const struct gpu *gpu, const uint64_t *bytes, bool collective)
{
    uint64_t from = gpu->shapes.forms.copy_from[collective];
    uint32_t set = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (peer != gpu->rank && bytes[peer] >= from)
            set |= 1u << peer;
    return set;
}

static uint32_t sent_to(const struct gpu *gpu, const struct kernel_exchange *what)
{
    uint32_t set = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (what->send_bytes[peer])
            set |= 1u << peer;
    return set;
}

static void leave_out(uint64_t *bytes, uint32_t set)
{
    for (; set; set &= set - 1)
        bytes[__builtin_ctz(set)] = 0;
}

/* The buffer of a call lives until all that it invites to has been stored. The buffer of a graph may be gone: senders
 * find that out. */
static void gpu_exchange_invite(struct gpu *gpu, struct kernel_exchange *what)
{
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (peer != gpu->rank && kernel_exchange_invites(what, what->recv_bytes[peer])) {
            what->invite[peer] = offer_invite(gpu, peer, what->recv[peer], what->recv_bytes[peer]);
            opened_invited(gpu, what->invite[peer] ? 1u << peer : 0, what->recv[peer], what->recv_bytes[peer]);
        }
}

void exchange_take_forms(const struct gpu *gpu, struct kernel_exchange *what)
{
    const struct plan_forms *forms = &gpu->shapes.forms;
    what->plain_from = forms->plain_from;
    what->lines_from = forms->lines_from;
    what->lines_to = forms->lines_to;
    what->invite_from = forms->invite_from;
}

bool exchange_by_slots(const struct gpu *gpu, uint64_t bytes)
{
    struct kernel_exchange forms;
    exchange_take_forms(gpu, &forms);
    return gpu->nranks > 1 && bytes < gpu->shapes.forms.copy_from[1] && !kernel_exchange_invites(&forms, bytes);
}

uint32_t exchange_stripes(const struct gpu *gpu, uint64_t bytes)
{
    struct kernel_exchange forms;
    exchange_take_forms(gpu, &forms);
    return kernel_exchange_stripes(&forms, bytes);
}

static tutti_result_t gpu_exchange_launch(struct gpu *gpu, struct kernel_exchange *what, CUstream stream)
{
    uint64_t any = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        any |= what->send_bytes[peer] | what->recv_bytes[peer];
    if (!any)
        return TUTTI_SUCCESS;
    what->team = gpu->kernels;
    exchange_take_forms(gpu, what);
    what->mappings = layout_mappings(gpu);
    gpu_exchange_invite(gpu, what);
    return launch_messages(gpu, what, stream);
}

/*
 * The kernel may wait for a peer that waits for one of the copies, as a peer does that calls its messages one after
 * another. So what copy engines carry comes behind what is in the stream before the kernel, and is waited for behind
 * the kernel.
 */
tutti_result_t exchange_issue(struct gpu *gpu, struct kernel_exchange *what, enum exchange kind, CUstream stream,
                              bool capturing)
{
    struct kernel_exchange small = *what;
    struct copies copies;
    uint32_t ways[2] = {0, 0};
    tutti_result_t result = gpu_needs(gpu, sent_to(gpu, what));
    if (!capturing) {
        ways[0] = large(gpu, what->send_bytes, kind != EXCHANGE_GROUP);
        ways[1] = large(gpu, what->recv_bytes, kind != EXCHANGE_GROUP);
    }
    bool copied = ways[0] || ways[1];
    if (result == TUTTI_SUCCESS && copied)
        result = launch_flush(gpu);
    if (result == TUTTI_SUCCESS)
        result = copy_begin(gpu, what, ways, kind, stream, &copies);
    if (result != TUTTI_SUCCESS)
        return result;
    leave_out(small.send_bytes, ways[0]);
    leave_out(small.recv_bytes, ways[1]);
    bool own_kernel = own_by_kernel(gpu, &small);
    copied = copied || (!own_kernel && what->send_bytes[gpu->rank]);
    struct kernel_exchange *other = own_kernel ? what : &small;
    leave_out(other->send_bytes, 1u << gpu->rank);
    leave_out(other->recv_bytes, 1u << gpu->rank);
    result = gpu_exchange_launch(gpu, &small, stream);
    if (result == TUTTI_SUCCESS && copied)
        result = launch_flush(gpu);
    return result == TUTTI_SUCCESS ? copy_end(gpu, what, &copies, stream) : result;
}
