/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of way, kernel and grid. */
#include "plan/plan.h"

#include "base/log.h"
#include "base/param.h"
#include "device/cuda/numbers.h"
#include "plan/row.h"

#include <string.h>
#include <strings.h>

enum { ANYWHERE = 0 };

#define LISTED_MOST ((uint64_t)UINT32_MAX) /* bytes: a list counts the elements of a vector in 32 bits */

#define OPEN                                                                                                           \
    {                                                                                                                  \
        LIMIT_OPEN, 0                                                                                                  \
    }
#define BYTES(number)                                                                                                  \
    {                                                                                                                  \
        LIMIT_BYTES, number                                                                                            \
    }
#define AT(id)                                                                                                         \
    {                                                                                                                  \
        LIMIT_AT, PARAM_##id                                                                                           \
    }
#define PAST(id)                                                                                                       \
    {                                                                                                                  \
        LIMIT_PAST, PARAM_##id                                                                                         \
    }
#define WAY(collectives_, where_, bytes_, from_, below_, way_, kernel_)                                                \
    {collectives_, where_, bytes_, from_, below_, WAY_##way_, KERNEL_##kernel_},
const struct plan_row plan_table[PLAN_ROWS] = {
#include "tables/ways.tbl"
};
#undef WAY

/* ---- What the parameters say ---------------------------------------------------------------------------------------
 */

static uint64_t resolve(struct plan_limit limit, uint64_t open)
{
    switch (limit.kind) {
    case LIMIT_OPEN:
        return open;
    case LIMIT_BYTES:
        return limit.value;
    default:
        return (uint64_t)param_int((enum param_id)limit.value) + (limit.kind == LIMIT_PAST);
    }
}

void plan_rules(bool zero, struct plan_rules *out)
{
    for (int i = 0; i < PLAN_ROWS; i++) {
        out->row[i].from = resolve(plan_table[i].from, 0);
        out->row[i].below = resolve(plan_table[i].below, UINT64_MAX);
    }
    out->copy_from = zero ? 1 : (uint64_t)param_int(PARAM_COPY_FROM);
    out->plain_from = (uint64_t)param_int(PARAM_PLAIN_FROM);
    out->lines_from = (uint64_t)param_int(PARAM_LINES_FROM);
    out->lines_to = (uint64_t)param_int(PARAM_LINES_TO);
    out->invite_from = (uint64_t)param_int(PARAM_INVITE_FROM);
    out->read_from = (uint64_t)param_int(PARAM_READ_FROM);
    out->group_from = param_int(PARAM_GROUP_SPREAD) && param_int(PARAM_REDUCE_LINES_TO)
                          ? (uint64_t)param_int(PARAM_GROUP_LINES_FROM)
                          : 0;
    out->group_to = (uint64_t)param_int(PARAM_GROUP_LINES_TO);
    out->group_to = out->group_to < LISTED_MOST ? out->group_to : LISTED_MOST;
    out->ring_halves = (enum plan_halves)param_int(PARAM_RING_HALVES);
    out->ring_least = (unsigned)param_int(PARAM_RING_LEAST);
    out->bulk_chunk = (uint64_t)param_int(PARAM_BULK_CHUNK);
    out->chain_chunk = (uint64_t)param_int(PARAM_CHAIN_CHUNK);
    out->chain_piece = (uint64_t)param_int(PARAM_CHAIN_PIECE);
}

static unsigned protocol_of(const char *name, size_t length)
{
    static const char *const names[] = {[KERNEL_PACKETS] = "LL", [KERNEL_LINES] = "LL128", [KERNEL_PLAIN] = "Simple"};
    for (unsigned form = 0; form < sizeof names / sizeof *names; form++)
        if (strlen(names[form]) == length && strncasecmp(names[form], name, length) == 0)
            return 1u << form;
    log_warn("%s=%s: %.*s is none of LL, LL128 and Simple, and is left out", param_source(PARAM_PROTO),
             param_string(PARAM_PROTO), (int)length, name);
    return 0;
}

unsigned plan_protocols(void)
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

/* ---- Messages ------------------------------------------------------------------------------------------------------
 */

static uint64_t copied_from(const struct plan_rules *rules, const struct plan_facts *facts, bool collective)
{
    if (!facts->copies)
        return UINT64_MAX;
    return rules->copy_from * (collective && rules->copy_from > 1 ? NUMBER_COLLECTIVE_TIMES : 1);
}

/* A form that is not allowed leaves its messages to the next one that is. */
static void obey_protocols(const struct plan_facts *facts, struct plan_forms *forms)
{
    bool packets = facts->protocols >> KERNEL_PACKETS & 1, plain = facts->protocols >> KERNEL_PLAIN & 1;
    if (!packets && facts->lines)
        forms->lines_from = 1;
    else if (!packets)
        forms->plain_from = 1;
    if (!plain && facts->lines)
        forms->lines_to = UINT64_MAX;
    else if (!plain)
        forms->plain_from = UINT64_MAX;
}

struct plan_forms plan_forms(const struct plan_rules *rules, const struct plan_facts *facts)
{
    bool nobody_invites = facts->in_host || (facts->apart && !facts->copies); /* peers' buffers are left alone */
    /* slots are behind lines for longer */
    uint64_t lines_to = nobody_invites ? rules->lines_to / 2 * 3 : rules->lines_to;
    struct plan_forms forms = {.copy_from = {copied_from(rules, facts, false), copied_from(rules, facts, true)},
                               .plain_from = facts->in_host
                                                 ? (rules->plain_from + NUMBER_HOST_TIMES - 1) / NUMBER_HOST_TIMES
                                                 : rules->plain_from,
                               .lines_from = rules->lines_from,
                               .lines_to = facts->lines ? lines_to : 0,
                               .invite_from = nobody_invites ? 0 : rules->invite_from};
    obey_protocols(facts, &forms);
    return forms;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------------
 */

/* Contributions, in memory that is alive until the call is over, of ranks that map one another's. */
static bool plan_readable(const struct plan_rules *rules, const struct plan_facts *facts, uint64_t given,
                          bool capturing)
{
    return !capturing && facts->nranks > 1 && rules->read_from && given >= rules->read_from &&
           plan_forms(rules, facts).invite_from;
}

/* Others are to be added up in more bits than they have, by one rank: all that go round would be rounded at each. */
static bool may_go_round(const struct plan_rules *rules, const struct plan_facts *facts, enum coll coll)
{
    bool halves = rules->ring_halves == HALVES_ALL || (rules->ring_halves == HALVES_ROOTED && coll == COLL_REDUCE);
    return facts->element == 2 ? halves : facts->element == 0 || facts->element >= 4;
}

/* A kernel with its flags in every line makes messages longer by less, and is for vectors from some size on. The kernel
 * for short ones has less to do before it begins. */
static bool in_words(const struct plan_rules *rules, const struct plan_facts *facts, uint64_t bytes)
{
    const struct plan_forms forms = plan_forms(rules, facts);
    const uint64_t lines = forms.lines_from > UINT64_MAX / NUMBER_GATHER_TIMES ? UINT64_MAX
                                                                               : NUMBER_GATHER_TIMES * forms.lines_from,
                   below = forms.lines_to ? lines : forms.plain_from;
    return facts->nranks > 1 && !facts->in_host && (facts->protocols >> KERNEL_PACKETS & 1) &&
           bytes < forms.copy_from[1] && bytes < below;
}

/* One hop or two, but no fence, and a sixteenth more bytes where words have twice as many. What copy engines carry by
 * the user's wish is theirs in groups, too. */
static bool is_grouped(const struct plan_rules *rules, const struct plan_facts *facts, enum coll coll, uint64_t bytes)
{
    if (!facts->lines || facts->nranks < 2 || facts->together < 2 || !rules->group_from || !bytes ||
        bytes >= rules->group_to)
        return false;
    return bytes >= (rules->group_from + facts->together - 1) / facts->together &&
           (schedule_reduces(coll) || bytes < copied_from(rules, facts, true));
}

static unsigned plan_bits(const struct plan_rules *rules, const struct plan_facts *facts, enum coll coll,
                          uint64_t bytes, uint64_t given, bool capturing)
{
    bool zero = facts->copies && rules->copy_from <= 1,
         parts = bytes / (uint64_t)facts->nranks >= copied_from(rules, facts, true),
         roomy = facts->room.most >= rules->ring_least || !plan_readable(rules, facts, given, capturing);
    return (facts->loads ? PLAN_LOADS : 0) | (facts->copies ? PLAN_COPIES : 0) |
           (facts->loads || facts->apart ? PLAN_ALIKE : 0) | (facts->in_host ? PLAN_IN_HOST : 0) |
           (zero ? PLAN_ZERO : 0) | (facts->nranks <= 2 ? PLAN_PAIR : 0) | (capturing ? 0 : PLAN_CALLED) |
           (parts ? PLAN_PARTS : 0) | (facts->lines && facts->nranks > 1 ? PLAN_LINES : 0) |
           (facts->symmetric ? PLAN_SYMMETRIC : 0) | (facts->nranks > 2 ? PLAN_MANY : 0) |
           (may_go_round(rules, facts, coll) ? PLAN_WIDE : 0) | (roomy ? PLAN_ROOMY : 0) |
           (in_words(rules, facts, bytes) ? PLAN_WORDS : 0) |
           (is_grouped(rules, facts, coll, bytes) ? PLAN_GROUPED : 0);
}

bool plan_concerns(enum plan_collectives collectives, enum coll coll)
{
    switch (collectives) {
    case REDUCING:
        return schedule_reduces(coll);
    case WHOLE:
        return coll == COLL_ALLREDUCE || coll == COLL_REDUCE;
    case UNROOTED:
        return coll == COLL_ALLREDUCE || coll == COLL_REDUCE_SCATTER;
    case ROOTED:
        return coll == COLL_REDUCE;
    case ALLREDUCE:
        return coll == COLL_ALLREDUCE;
    case SCATTER:
        return coll == COLL_REDUCE_SCATTER;
    case BROADCAST:
        return coll == COLL_BROADCAST;
    case GATHERING:
        return coll == COLL_ALLGATHER;
    case EXCHANGING:
        return coll == COLL_ALLGATHER || coll == COLL_ALLTOALL;
    default:
        return true;
    }
}

static const struct plan_row *plan_choose(const struct plan_rules *rules, enum coll coll, unsigned facts,
                                          const uint64_t *quantities)
{
    int i = 0;
    for (; i < PLAN_ROWS - 1; i++) {
        uint64_t bytes = quantities[plan_table[i].quantity];
        if (plan_concerns(plan_table[i].collectives, coll) && (plan_table[i].where & ~facts) == 0 &&
            bytes >= rules->row[i].from && bytes < rules->row[i].below)
            break;
    }
    return &plan_table[i]; /* the last one is for all that is left */
}

bool plan_goes_round(enum way way)
{
    return way == WAY_RING || way == WAY_RING_LINES || way == WAY_RING_COPY;
}

static enum kernel_mode mode_of(enum way way, enum coll coll)
{
    if (way == WAY_BULK_COPY || way == WAY_RING_COPY)
        return KERNEL_REDUCE_OWN;
    if (coll == COLL_BROADCAST)
        return KERNEL_BROADCAST;
    if (coll == COLL_ALLGATHER || coll == COLL_ALLTOALL)
        return coll == COLL_ALLGATHER ? KERNEL_ALLGATHER : KERNEL_ALLTOALL;
    return coll == COLL_REDUCE ? KERNEL_REDUCE : coll == COLL_REDUCE_SCATTER ? KERNEL_REDUCE_SCATTER : KERNEL_ALLREDUCE;
}

/* The blocks of a long vector; 0: the kernel's own number. */
static unsigned long_blocks(const struct plan_facts *facts, const struct plan *plan)
{
    const bool many = facts->nranks > 2, allreduce = plan->mode == KERNEL_ALLREDUCE;
    switch (plan->launch.kernel) {
    case KERNEL_REDUCE_LINES:
        if (plan_goes_round(plan->way))
            return NUMBER_RING_LINES_BLOCKS;
        if (allreduce)
            return NUMBER_LINES_BLOCKS;
        return many && plan->mode == KERNEL_REDUCE && plan->given >= NUMBER_ROOTED_LONG_FROM ? NUMBER_ROOTED_LONG_BLOCKS
                                                                                             : 0;
    case KERNEL_REDUCE_PEER:
        return !facts->symmetric ? 0 : allreduce ? NUMBER_SYMMETRIC_BLOCKS : NUMBER_SYMMETRIC_SCATTER_BLOCKS;
    case KERNEL_REDUCE_BULK:
        if (plan->reads)
            return NUMBER_READ_BLOCKS;
        return many && !facts->in_host ? NUMBER_MANY_BLOCKS : 0;
    case KERNEL_REDUCE_RING:
        return NUMBER_RING_BLOCKS;
    default:
        return 0;
    }
}

/* `blocks` blocks, unless the user wants more, but never more than the kernel has room for. */
static void take_blocks(const struct plan_facts *facts, unsigned blocks, struct plan *plan)
{
    unsigned most = kernel_most_blocks(plan->launch.kernel, facts->room);
    if (blocks < facts->room.least)
        blocks = facts->room.least;
    plan->launch.blocks = blocks < most ? blocks : most;
}

/* Contributions that one rank alone wants. */
static bool plan_reads(const struct plan_rules *rules, const struct plan_facts *facts, enum kernel_id kernel,
                       const struct plan *plan, bool capturing)
{
    bool stay = plan->mode == KERNEL_REDUCE_OWN || plan->mode == KERNEL_REDUCE_SCATTER;
    return kernel == KERNEL_REDUCE_BULK && stay && plan_readable(rules, facts, plan->given, capturing);
}

/* Through windows on GPUs a block of a bulk reduce-scatter is as much work as a vector of all blocks. */
static void shape(const struct plan_facts *facts, enum kernel_id kernel, struct plan *plan)
{
    bool all = kernel == KERNEL_REDUCE_PEER || kernel == KERNEL_REDUCE_LINES || kernel == KERNEL_REDUCE_RING ||
               (kernel == KERNEL_REDUCE_BULK && !facts->in_host);
    plan->launch.kernel = kernel;
    if (kernel == KERNEL_REDUCE_LISTED) {
        bool parts = plan->way == WAY_LINES && plan->mode != KERNEL_REDUCE_SCATTER;
        kernel_shape_lines(parts ? kernel_part_bytes(plan->bytes, facts->nranks) : plan->bytes, facts->together,
                           facts->room, &plan->launch);
        return;
    }
    if (kernel == KERNEL_CHAIN)
        kernel_choose_chain(plan->bytes, facts->room, &plan->launch);
    else if (kernel >= KERNEL_GATHER && kernel < KERNEL_NONE)
        kernel_shape_reduce(kernel, all ? plan->given : plan->bytes, facts->room, facts->in_host, &plan->launch);
    unsigned blocks = plan->given < NUMBER_LONG_FROM ? 0 : long_blocks(facts, plan);
    if (blocks)
        take_blocks(facts, blocks, plan);
}

static uint64_t chunk_of(const struct plan_rules *rules, const struct plan *plan)
{
    uint64_t piece =
        (plan->bytes / NUMBER_CHAIN_PIECES + NUMBER_CHAIN_ALIGN - 1) / NUMBER_CHAIN_ALIGN * NUMBER_CHAIN_ALIGN;
    if (plan->way == WAY_COPY_CHAIN)
        return plan->bytes / NUMBER_CHAIN_PIECES < rules->chain_piece ? rules->chain_piece : piece;
    if (plan->launch.kernel == KERNEL_CHAIN)
        return rules->chain_chunk;
    return rules->bulk_chunk ? rules->bulk_chunk : plan->launch.chunk;
}

struct plan plan_call(const struct plan_rules *rules, const struct plan_facts *facts, enum coll coll, uint64_t bytes,
                      bool capturing)
{
    uint64_t n = (uint64_t)facts->nranks, all = bytes > UINT64_MAX / n ? UINT64_MAX - 1 : bytes * n;
    const uint64_t quantities[] = {[VECTOR] = bytes, [INPUT] = coll == COLL_REDUCE_SCATTER ? all : bytes, [ALL] = all};
    const struct plan_row *row =
        plan_choose(rules, coll, plan_bits(rules, facts, coll, bytes, quantities[INPUT], capturing), quantities);
    struct plan plan = {.way = row->way, .bytes = bytes, .given = quantities[INPUT], .mode = mode_of(row->way, coll)};
    plan.reads = plan_reads(rules, facts, row->kernel, &plan, capturing);
    shape(facts, row->kernel, &plan);
    plan.chunk = chunk_of(rules, &plan);
    plan.needs_bulk = row->kernel == KERNEL_REDUCE_BULK || row->kernel == KERNEL_REDUCE_LINES ||
                      row->kernel == KERNEL_REDUCE_LISTED || row->kernel == KERNEL_REDUCE_RING ||
                      row->kernel == KERNEL_CHAIN;
    return plan;
}

const char *plan_kernel_name(enum kernel_id kernel)
{
    static const char *const names[] = {[KERNEL_EXCHANGE] = "exchange",
                                        [KERNEL_CHAIN] = "chain",
                                        [KERNEL_COURIER] = "courier",
                                        [KERNEL_MESSAGES] = "messages",
                                        [KERNEL_DYNAMIC] = "exchange_dynamic",
                                        [KERNEL_PUTS] = "puts",
                                        [KERNEL_GATHER] = "gather_words",
                                        [KERNEL_REDUCE_ONE] = "reduce_one",
                                        [KERNEL_REDUCE_TWO] = "reduce_two",
                                        [KERNEL_REDUCE_BULK] = "reduce_bulk",
                                        [KERNEL_REDUCE_PEER] = "reduce_peer",
                                        [KERNEL_REDUCE_LINES] = "reduce_lines",
                                        [KERNEL_REDUCE_RING] = "reduce_ring",
                                        [KERNEL_REDUCE_LISTED] = "reduce_listed",
                                        [KERNEL_REDUCE_FOLDED] = "reduce_folded"};
    return kernel < KERNEL_NONE ? names[kernel] : "none";
}
