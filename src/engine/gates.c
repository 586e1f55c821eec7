/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank that puts knows a gate by window, offset and length, the receiver by the slot of its credit. The rank that
 * puts decides which put asks for a gate, and which gate ends for another one. A put whose gate is busy goes without.
 */
#include "engine/gates.h"

#include "base/error.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/op.h"
#include "engine/windows.h"
#include "link/link.h"

#include <stdlib.h>

/* At the rank that puts. */
struct gate_out {
    struct list node;
    uint32_t window;
    uint64_t offset, length;
    struct link_grant grant;
};

/* At the receiver. Until a payload asks for it the credit stands, and nothing is known of what comes. */
struct gate_in {
    struct list node;
    struct gates *gates;
    struct link *link;
    uint32_t window;
    uint64_t offset;
    struct window_request *request; /* whose payload comes; NULL: it is parked */
    struct link_recv recv;
};

void gates_begin(struct gates *gates, struct team *team,
                 void (*landed)(struct window_request *request, tutti_result_t result))
{
    gates->team = team;
    gates->landed = landed;
    list_init(&gates->out);
    list_init(&gates->in);
}

/* ---- The rank that puts ---- */

static void gate_out_free(struct gate_out *gate)
{
    list_remove(&gate->node);
    link_grant_end(&gate->grant);
    free(gate);
}

static struct gate_out *gate_out_new(void)
{
    struct gate_out *gate = malloc(sizeof *gate);
    if (gate)
        link_grant_begin(&gate->grant);
    return gate;
}

/* The place of another one, which ends: the longest unused. NULL: all are busy. */
static struct gate_out *gate_out_instead(struct gates *gates, struct wire_window *what)
{
    list_each(node, &gates->out)
    {
        struct gate_out *gate = list_entry(node, struct gate_out, node);
        if (gate->grant.send)
            continue;
        if (gate->grant.stands)
            what->ends = gate->grant.slot + 1u;
        link_grant_end(&gate->grant);
        list_remove(&gate->node);
        return gate;
    }
    return NULL;
}

struct link_grant *gates_choose(struct gates *gates, const struct link *link, struct wire_window *what)
{
    struct gate_out *gate = NULL;
    int count = 0;
    if (!link_asks(link, what->length))
        return NULL;
    list_each(node, &gates->out)
    {
        struct gate_out *other = list_entry(node, struct gate_out, node);
        if (other->window == what->window && other->offset == what->offset && other->length == what->length)
            gate = other;
        count++;
    }
    if (gate && gate->grant.send)
        return NULL;
    if (gate)
        list_remove(&gate->node);
    else if (!(gate = count < GATES_MOST ? gate_out_new() : gate_out_instead(gates, what)))
        return NULL;
    list_push(&gates->out, &gate->node);
    gate->window = what->window;
    gate->offset = what->offset;
    gate->length = what->length;
    what->gate = gate->grant.stands ? gate->grant.slot + 1u : WIRE_GATE_ASKED;
    return &gate->grant;
}

/* ---- The rank that has the window ---- */

static void gate_in_free(struct gate_in *gate)
{
    list_remove(&gate->node);
    free(gate);
}

/* A gate that is not parked now is of use no more: the peer, or the memory, is lost. */
static void gate_landed(struct link_recv *recv, tutti_result_t result)
{
    struct gate_in *gate = container_of(recv, struct gate_in, recv);
    struct window_request *request = gate->request;
    struct gates *gates = gate->gates;
    gate->request = NULL;
    if (!recv->parked)
        gate_in_free(gate);
    if (request)
        gates->landed(request, result);
    else if (result == TUTTI_INVALID_ARGUMENT)
        team_fail(gates->team, result, gates->team->rank, error_last());
}

bool gates_open(struct gates *gates, const struct wire_window *what, struct link *link, const struct link_recv *recv,
                struct window_request *request)
{
    int count = 0;
    list_each(node, &gates->in) count++;
    struct gate_in *gate = count < GATES_MOST ? malloc(sizeof *gate) : NULL;
    if (!gate)
        return false;
    *gate = (struct gate_in){.gates = gates,
                             .link = link,
                             .window = what->window,
                             .offset = what->offset,
                             .request = request,
                             .recv = *recv};
    gate->recv.done = gate_landed;
    list_push(&gates->in, &gate->node);
    link_recv_standing(link, &gate->recv);
    return true;
}

static struct gate_in *gate_of_slot(struct gates *gates, uint32_t slot)
{
    list_each(node, &gates->in)
    {
        struct gate_in *gate = list_entry(node, struct gate_in, node);
        if (!gate->request && gate->recv.slot == slot)
            return gate;
    }
    return NULL;
}

bool gates_take(struct gates *gates, const struct wire_window *what, const struct wire_tag *tag,
                struct window_request *request)
{
    struct gate_in *gate = gate_of_slot(gates, what->gate - 1);
    if (!gate || gate->window != what->window || gate->offset != what->offset || gate->recv.length != what->length)
        return false;
    gate->request = request;
    gate->recv.tag = *tag;
    link_recv_again(gate->link, &gate->recv);
    return true;
}

bool gates_give_back(struct gates *gates, uint32_t slot)
{
    struct gate_in *gate = gate_of_slot(gates, slot);
    if (!gate)
        return false;
    link_recv_part(gate->link, &gate->recv);
    gate_in_free(gate);
    return true;
}

/* ---- The end ---- */

void gates_forget(struct gates *gates, const struct tutti_window *window)
{
    list_each_safe(node, &gates->out)
    {
        struct gate_out *gate = list_entry(node, struct gate_out, node);
        if (gate->window == window->number)
            gate_out_free(gate);
    }
    list_each_safe(node, &gates->in)
    {
        struct gate_in *gate = list_entry(node, struct gate_in, node);
        if (gate->window != window->number)
            continue;
        link_recv_part(gate->link, &gate->recv);
        gate_in_free(gate);
    }
}

void gates_stop(struct gates *gates)
{
    while (!list_empty(&gates->out))
        gate_out_free(list_entry(gates->out.next, struct gate_out, node));
    while (!list_empty(&gates->in)) {
        struct gate_in *gate = list_entry(gates->in.next, struct gate_in, node);
        link_cancel_recv(gate->link, &gate->recv);
        gate_in_free(gate);
    }
}
