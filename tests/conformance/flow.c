/* SPDX-License-Identifier: Apache-2.0 */
/* Random messages and puts, checked at the other end. */
#include "flow.h"
#include "transport/shm/region.h"

#include <stdlib.h>
#include <string.h>

struct operation {
    bool is_put;
    size_t length;
    uint64_t source, offset; /* of a put */
    uint32_t imm;
};

/* Operation `index` of the sequence `seed`. */
static struct operation operation_at(uint64_t seed, uint64_t index, size_t longest)
{
    uint64_t state = seed * 1000003 + index * 7919;
    struct operation op = {.is_put = random_next(&state) % 5 < 2, .imm = (uint32_t)random_next(&state)};
    size_t most = op.is_put ? longest : under_test->max_msg;
    uint64_t size = random_next(&state) % 10;
    most = size < 5 && most > 100 ? 100 : size < 9 && most > 65536 ? 65536 : most;
    op.length = 1 + random_next(&state) % most;
    op.source = random_next(&state) % (longest - (op.is_put ? op.length : 0) + 1);
    op.offset = index % FLOW_SLOTS * longest + random_next(&state) % (longest - (op.is_put ? op.length : 0) + 1);
    return op;
}

static void acknowledge(struct flow *flow)
{
    uint8_t bytes[16] = {'A'};
    struct iovec part = {bytes, 9};
    memcpy(bytes + 1, &flow->received, 8);
    if (flow->end->lane && under_test->msg(flow->end->lane, &part, 1) == TUTTI_SUCCESS)
        flow->acknowledged = flow->received;
}

static void check_message(struct flow *flow, const uint8_t *bytes, size_t length)
{
    struct operation op = operation_at(flow->rx_seed, flow->received, flow->longest);
    if (bytes[0] == 'A') {
        assert_int_equal(length, 9);
        memcpy(&flow->acked, bytes + 1, 8);
        assert_true(flow->acked <= flow->sent);
        return;
    }
    assert_false(op.is_put);
    assert_int_equal(length, op.length);
    assert_int_equal(bytes[0], 'D');
    assert_true(has_pattern(bytes + 1, length - 1, flow->received));
    flow->received++;
}

static void check_put(struct flow *flow, const struct note *note)
{
    struct operation op = operation_at(flow->rx_seed, flow->received, flow->longest);
    assert_true(op.is_put);
    assert_int_equal(note->id, op.imm);
    assert_int_equal(note->offset, op.offset);
    assert_int_equal(note->length, op.length);
    assert_memory_equal(flow->area + op.offset, flow->source + op.source, op.length);
    flow->received++;
}

static void on_note(struct end *end, const struct note *note, const void *bytes)
{
    struct flow *flow = end->hook_context;
    if (note->kind == NOTE_MESSAGE)
        check_message(flow, bytes, note->length);
    else if (note->kind == NOTE_ARRIVED)
        check_put(flow, note);
    else if (note->kind == NOTE_WRITABLE)
        flow->refused = false;
}

uint64_t flow_total(uint64_t full)
{
    return getenv("TUTTI_TEST_FULL") ? full : getenv("TUTTI_TEST_QUICK") ? full / 4 : full / 2;
}

void flow_open(struct flow *flow, struct end *end, uint64_t tx_seed, uint64_t rx_seed, uint64_t total, size_t longest,
               bool region)
{
    size_t size = FLOW_SLOTS * longest;
    *flow = (struct flow){.end = end, .tx_seed = tx_seed, .rx_seed = rx_seed, .total = total, .longest = longest};
    flow->random = tx_seed;
    flow->region = region;
    flow->source = region ? region_alloc(longest) : malloc(longest);
    flow->area = calloc(1, size);
    assert_non_null(flow->source);
    assert_non_null(flow->area);
    fill_pattern(flow->source, longest, 99);
    end->area = flow->area;
    end->area_size = size;
    end->quiet = true;
    end->hook = on_note;
    end->hook_context = flow;
}

void flow_close(struct flow *flow)
{
    flow->end->hook = NULL;
    flow->end->area = NULL;
    flow->end->area_size = 0;
    free(flow->area);
    if (flow->region)
        region_free(flow->source);
    else
        free(flow->source);
}

static tutti_result_t send_message(struct flow *flow, const struct operation *op)
{
    uint8_t *bytes = malloc(op->length);
    bytes[0] = 'D';
    fill_pattern(bytes + 1, op->length - 1, flow->sent);
    size_t cut = op->length / 3;
    struct iovec parts[3] = {{bytes, cut}, {bytes, 0}, {bytes + cut, op->length - cut}};
    tutti_result_t result = under_test->msg(flow->end->lane, parts, 3);
    memset(bytes, 0, op->length); /* it was copied */
    free(bytes);
    return result;
}

static tutti_result_t send_one(struct flow *flow)
{
    struct operation op = operation_at(flow->tx_seed, flow->sent, flow->longest);
    if (!op.is_put)
        return send_message(flow, &op);
    struct put put = {.source = place_host(flow->source + op.source),
                      .length = op.length,
                      .imm = op.imm,
                      .offset = op.offset,
                      .token = flow->sent};
    tutti_result_t result = under_test->put(flow->end->lane, &put);
    flow->tokens += result == TUTTI_SUCCESS;
    return result;
}

void flow_send(struct flow *flow)
{
    if (flow->received - flow->acknowledged >= 4 || (flow->received > flow->acknowledged && flow->sent == flow->total))
        acknowledge(flow);
    while (flow->end->lane && !flow->end->counts[NOTE_DOWN] && !flow->refused && flow->sent < flow->total &&
           flow->sent - flow->acked < FLOW_SLOTS) {
        tutti_result_t result = send_one(flow);
        if (result == TUTTI_REMOTE_ERROR)
            return;
        flow->refused = result == TUTTI_IN_PROGRESS;
        if (flow->refused)
            return;
        assert_int_equal(result, TUTTI_SUCCESS);
        flow->sent++;
    }
}

bool flow_done(const struct flow *flow, uint64_t expected)
{
    return flow->sent == flow->total && flow->acked == flow->total && flow->received == expected &&
           flow->acknowledged == flow->received && flow->end->counts[NOTE_SENT] == flow->tokens;
}
