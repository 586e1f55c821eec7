/* SPDX-License-Identifier: Apache-2.0 */
/* The two sides of a script, and payloads between them. */
#include "link/link_testing.h"

#include "base/param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "the script cannot go on: %s\n", what);
    abort();
}

int script_setup(void **state)
{
    setenv("TUTTI_DEBUG", "none", 1);
    setenv("TUTTI_SEGMENT", "4096", 1);
    setenv("TUTTI_EAGER", "1024", 1);
    setenv("TUTTI_LANE_WINDOW", "2", 1);
    setenv("TUTTI_PROBE_AFTER", "3600s", 1);
    setenv("TUTTI_LANE_SILENCE", "3600s", 1);
    setenv("TUTTI_TIMEOUT", "3600s", 1);
    param_reload();
    return 0;
}

/* ---- Sides ---- */

static void on_lost(void *context, struct link *link)
{
    struct script_side *side = context;
    side->lost++;
    snprintf(side->lost_text, sizeof side->lost_text, "%s", error_last());
}

static void on_aborted(void *context, uint64_t comm, const struct wire_abort *abort)
{
    struct script_side *side = context;
    side->aborted++;
    side->abort = *abort;
}

static void on_shared(void *context, struct link *link, uint64_t key, int fd)
{
}

/* The lanes in turn: then a test knows where segments are. */
static int pick(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (lanes[i]->room && (best < 0 || lanes[i]->segments < lanes[best]->segments))
            best = i;
    return best;
}

const struct path_policy script_policy = {.name = "turns", .pick = pick};

static void open_side(struct script *script, int index)
{
    struct script_side *side = &script->side[index];
    const struct link_owner owner = {
        .context = side, .lost = on_lost, .aborted = on_aborted, .shared = on_shared, .near = script->shape.near};
    script_opening(script, index);
    if (script->shape.alone && index == 1) {
        side->transport = script_mute_transport(&side->self);
        return;
    }
    require(poller_open(&side->poller) == TUTTI_SUCCESS, "no poller");
    require(link_domain_open(&owner, side->poller, NULL, script->shape.policy ? script->shape.policy : &script_policy,
                             &side->domain) == TUTTI_SUCCESS,
            "no domain");
    side->self = *link_domain_self(side->domain);
}

struct script *script_new(const struct script_shape *shape)
{
    struct script *script = calloc(1, sizeof *script);
    require(script, "no memory");
    script->shape = *shape;
    for (int i = 0; i < 2; i++) {
        list_init(&script->held[i]);
        list_init(&script->flushes[i]);
    }
    for (int i = 0; i < 2; i++)
        open_side(script, i);
    return script;
}

void script_free(struct script *script)
{
    script->automatic = true;
    script->fail_opens = 0;
    if (script->shape.alone) /* nobody answers the goodbye */
        list_each(node, &script->side[0].domain->links)
            link_lose(list_entry(node, struct link, node), "the script ends");
    for (int i = 0; i < 2; i++) {
        if (script->side[i].domain)
            link_domain_close(script->side[i].domain);
        else if (script->side[i].transport)
            script_close_mute(script->side[i].transport);
        script->side[i].domain = NULL; /* script_settle() may look for it */
        if (script->side[i].poller)
            poller_close(script->side[i].poller);
    }
    script_drop_held(script);
    free(script);
}

void script_get_link(struct script *script, int side)
{
    struct script_side *mine = &script->side[side];
    require(link_get(mine->domain, &script->side[1 - side].self, script->session, &mine->link) == TUTTI_SUCCESS,
            "no link");
}

void script_join(struct script *script)
{
    script_get_link(script, 0);
    script_settle(script);
    script_get_link(script, 1);
    for (int i = 0; i < script->shape.lanes; i++)
        require(script->side[0].link->lane[i].state == LANE_UP && script->side[1].link->lane[i].state == LANE_UP,
                "a lane is not up");
}

struct script *script_start(struct script_shape shape)
{
    struct script *script = script_new(&shape);
    script_join(script);
    return script;
}

/* ---- Payloads ---- */

struct wire_tag script_tag(uint32_t seq)
{
    return (struct wire_tag){.comm = 1, .seq = seq, .slice = WIRE_TAG_P2P};
}

static unsigned char pattern(uint32_t seed, size_t position)
{
    return (unsigned char)((seed * 2654435761u + position * 40503u + position / 251) >> 5);
}

static void finish(struct payload *payload, tutti_result_t result)
{
    payload->done++;
    payload->result = result;
    snprintf(payload->text, sizeof payload->text, "%s", result == TUTTI_SUCCESS ? "" : error_last());
    if (payload->then)
        payload->then(payload);
}

static void sent(struct link_send *send, tutti_result_t result)
{
    finish(container_of(send, struct payload, send), result);
}

static void received(struct link_recv *recv, tutti_result_t result)
{
    finish(container_of(recv, struct payload, recv), result);
}

struct payload *payload_new(bool sends, uint32_t seq, uint32_t signature, size_t length)
{
    struct payload *payload = calloc(1, sizeof *payload);
    require(payload, "no memory");
    payload->sends = sends;
    payload->length = length;
    payload->seed = seq;
    payload->data = malloc(length ? length : 1);
    require(payload->data, "no memory");
    for (size_t i = 0; i < length; i++)
        payload->data[i] = sends ? pattern(seq, i) : 0;
    struct wire_tag tag = script_tag(seq);
    if (sends)
        payload->send = (struct link_send){.tag = tag,
                                           .call.signature = signature,
                                           .place = place_host(payload->data),
                                           .length = length,
                                           .done = sent};
    else
        payload->recv = (struct link_recv){.tag = tag,
                                           .call.signature = signature,
                                           .place = place_host(payload->data),
                                           .length = length,
                                           .done = received};
    return payload;
}

void payload_move(struct payload *payload, unsigned char *data)
{
    memcpy(data, payload->data, payload->length);
    free(payload->data);
    payload->data = data;
    payload->moved = true;
    if (payload->sends)
        payload->send.place = place_host(data);
    else
        payload->recv.place = place_host(data);
}

void payload_start(struct payload *payload, struct link *link)
{
    if (payload->sends)
        link_send(link, &payload->send);
    else
        link_recv(link, &payload->recv);
}

void payload_cancel(struct payload *payload, struct link *link)
{
    if (payload->sends)
        link_cancel_send(link, &payload->send);
    else
        link_cancel_recv(link, &payload->recv);
}

bool payload_right(const struct payload *payload)
{
    for (size_t i = 0; i < payload->length; i++)
        if (payload->data[i] != pattern(payload->seed, i))
            return false;
    return true;
}

void payload_free(struct payload *payload)
{
    if (!payload)
        return;
    if (!payload->moved)
        free(payload->data);
    free(payload);
}

void payload_pair(struct script *script, int side, uint32_t seq, size_t length, struct payload *out[2])
{
    out[0] = payload_new(true, seq, 7, length);
    out[1] = payload_new(false, seq, 7, length);
    payload_start(out[1], script->side[1 - side].link);
    payload_start(out[0], script->side[side].link);
}

bool payload_pair_right(struct payload *pair[2])
{
    bool done = pair[0]->done == 1 && pair[1]->done == 1;
    return done && pair[0]->result == TUTTI_SUCCESS && pair[1]->result == TUTTI_SUCCESS && payload_right(pair[1]);
}

void payload_pair_free(struct payload *pair[2])
{
    payload_free(pair[0]);
    payload_free(pair[1]);
}
