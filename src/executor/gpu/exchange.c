/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks, one to and one from each at most: small ones by kernel, large ones by copy engine. */
#include "executor/gpu/internal.h"

#include "base/error.h"
#include "base/log.h"
#include "base/param.h"

#include <string.h>
#include <strings.h>

#define COLLECTIVE_TIMES 2 /* as long must its messages be to be copied */
#define HOST_TIMES       16 /* through host memory a flag in every word pays for messages so many times shorter */
#define SELF_FROM (64u << 20) /* bytes for itself that a rank copies by copy engine though there is a kernel, too */

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

/* `what`: what is left for a kernel. */
static uint64_t longest_other(const struct gpu *gpu, const struct kernel_exchange *what)
{
    uint64_t longest = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (peer != gpu->rank)
            longest = larger(longest, larger(what->send_bytes[peer], what->recv_bytes[peer]));
    return longest;
}

/* A call of its own costs more than the copy, unless that is so long that the kernel would last longer for it. */
static bool own_by_kernel(const struct gpu *gpu, const struct kernel_exchange *what)
{
    uint64_t own = what->send_bytes[gpu->rank], longest = longest_other(gpu, what);
    return longest && (own < SELF_FROM || own <= longest);
}

/* Of a collective kernels carry longer messages as fast: copy engines must take turns there, and that takes time. */
static uint64_t copied_from(const struct gpu *gpu, bool collective)
{
    return gpu->copy_from * (collective && gpu->copy_from > 1 ? COLLECTIVE_TIMES : 1);
}

bool exchange_copies(const struct gpu *gpu, uint64_t bytes)
{
    return gpu->copies && bytes >= copied_from(gpu, true);
}

/* Both ends of a message decide alike: by its size alone. */
static uint32_t large(const struct gpu *gpu, const uint64_t *bytes, bool collective)
{
    uint64_t from = copied_from(gpu, collective);
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

static unsigned protocol_of(const char *name, size_t length)
{
    static const char *const names[] = {[KERNEL_PACKETS] = "LL", [KERNEL_LINES] = "LL128", [KERNEL_PLAIN] = "Simple"};
    for (unsigned form = 0; form < sizeof names / sizeof *names; form++)
        if (strlen(names[form]) == length && strncasecmp(names[form], name, length) == 0)
            return 1u << form;
    log_warn("%s=%s: %.*s is none of LL, LL128 and Simple, and is left out", param_source(PARAM_PROTO), param_string(PARAM_PROTO), (int)length, name);
    return 0;
}

unsigned exchange_protocols(void)
{
    const unsigned all = 1u << KERNEL_PACKETS | 1u << KERNEL_LINES | 1u << KERNEL_PLAIN;
    const char *text = param_string(PARAM_PROTO);
    bool but = *text == '^';
    unsigned named = 0;
    for (text += but; *text; text += strspn(text, ",")) {
        size_t length = strcspn(text, ",");
        named |= protocol_of(text, length);
        text += length;
    }
    unsigned allowed = but ? all & ~named : named;
    return allowed ? allowed : all;
}

/* Who may not take its way takes the next one that is allowed. */
static void obey_protocols(const struct gpu *gpu, struct kernel_exchange *what)
{
    bool packets = gpu->protocols >> KERNEL_PACKETS & 1, plain = gpu->protocols >> KERNEL_PLAIN & 1;
    if (!packets && gpu->lines)
        what->lines_from = 1;
    else if (!packets)
        what->plain_from = 1;
    if (!plain && gpu->lines)
        what->lines_to = UINT64_MAX;
    else if (!plain)
        what->plain_from = UINT64_MAX;
}

static tutti_result_t launch(struct gpu *gpu, struct kernel_exchange *what, CUstream stream)
{
    struct kernel_launch how;
    uint64_t any = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        any |= what->send_bytes[peer] | what->recv_bytes[peer];
    if (!any)
        return TUTTI_SUCCESS;
    what->team = gpu->kernels;
    what->plain_from = (uint64_t)param_int(PARAM_PLAIN_FROM);
    if (gpu->in_host)
        what->plain_from = (what->plain_from + HOST_TIMES - 1) / HOST_TIMES;
    what->lines_from = (uint64_t)param_int(PARAM_LINES_FROM);
    what->lines_to = gpu->lines ? (uint64_t)param_int(PARAM_LINES_TO) : 0;
    obey_protocols(gpu, what);
    kernel_choose_exchange(what, gpu->room, gpu->in_host, &how);
    return order_launch(gpu, &how, TUTTI_UINT8, &what->team, stream);
}

tutti_result_t exchange_issue(struct gpu *gpu, struct kernel_exchange *what, bool collective, CUstream stream, bool capturing)
{
    struct kernel_exchange small = *what;
    uint32_t sends = 0, recvs = 0;
    tutti_result_t result = gpu_needs(gpu, sent_to(gpu, what));
    if (gpu->copies && !capturing) {
        sends = large(gpu, what->send_bytes, collective);
        recvs = large(gpu, what->recv_bytes, collective);
    }
    leave_out(small.send_bytes, sends);
    leave_out(small.recv_bytes, recvs);
    struct kernel_exchange *other = own_by_kernel(gpu, &small) ? what : &small;
    leave_out(other->send_bytes, 1u << gpu->rank);
    leave_out(other->recv_bytes, 1u << gpu->rank);
    if (result == TUTTI_SUCCESS)
        result = launch(gpu, &small, stream);
    return result == TUTTI_SUCCESS ? copy_exchange(gpu, what, sends, recvs, collective, stream) : result;
}
