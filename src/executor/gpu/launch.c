/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of operations. Each launch has a ticket, which its last block stores. In a group the kernels of small calls
 * are held back until one comes that cannot go with them, or the group ends: then one launch has them all. A call that
 * is held back has the ticket of that launch. docs/executor.md, Groups.
 */
#include "executor/gpu/launch.h"

#include "device/cuda/device.h"
#include "executor/gpu/gpu.h"
#include "executor/stream/ticket.h"

#include <string.h>

static tutti_result_t launch_now(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                                 struct kernel_team *what, uint32_t ticket, CUstream stream)
{
    *what = gpu->kernels;
    what->ticket = ticket;
    tutti_result_t result = cuda_launch(gpu->base.device, how, type, what, stream);
    gpu->base.tickets.told = result == TUTTI_SUCCESS ? ticket : 0;
    return result;
}

static uint32_t launch_ticket(struct gpu *gpu)
{
    return gpu->base.tickets.capturing ? 0 : ticket_next(&gpu->base);
}

tutti_result_t launch_kernel(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_team *what, CUstream stream)
{
    tutti_result_t result = launch_flush(gpu);
    return result == TUTTI_SUCCESS ? launch_now(gpu, how, type, what, launch_ticket(gpu), stream) : result;
}

/* ---- What is held back ---- */

static tutti_result_t flush_messages(struct gpu *gpu, struct launch_held *held)
{
    struct kernel_launch how;
    struct kernel_messages *all = &held->messages;
    const struct kernel_room room = gpu->shapes.room;
    if (all->items == 1)
        kernel_choose_exchange(&all->item[0], room, gpu->shapes.in_host, &how);
    else
        kernel_choose_messages(all, room, gpu->shapes.in_host, &how);
    return launch_now(gpu, &how, TUTTI_UINT8, &all->item[0].team, held->ticket, held->stream);
}

static struct launch_turn *turns_of(struct gpu *gpu, enum kernel_id kernel)
{
    return kernel == KERNEL_REDUCE_LISTED ? &gpu->turns.lines : &gpu->turns.words;
}

static tutti_result_t flush_vectors(struct gpu *gpu, struct launch_held *held)
{
    struct kernel_list *list = &held->vectors;
    list->first = list->item[0].turn;
    list->width = turns_of(gpu, held->how.kernel)->width;
    kernel_shape_list(held->how.kernel, held->stripes, gpu->shapes.room, &held->how);
    list->reduce.stripes = held->how.stripes;
    return launch_now(gpu, &held->how, held->type, &list->reduce.team, held->ticket, held->stream);
}

tutti_result_t launch_flush(struct gpu *gpu)
{
    struct launch_held *held = &gpu->held;
    enum kernel_id kernel = held->kernel;
    held->kernel = KERNEL_NONE;
    if (kernel == KERNEL_NONE)
        return TUTTI_SUCCESS;
    return kernel == KERNEL_EXCHANGE ? flush_messages(gpu, held) : flush_vectors(gpu, held);
}

void launch_hold(struct gpu *gpu)
{
    gpu->held.holds = true;
}

tutti_result_t launch_release(struct gpu *gpu, tutti_result_t issued)
{
    gpu->held.holds = false;
    if (issued == TUTTI_SUCCESS)
        return launch_flush(gpu);
    gpu->held.kernel = KERNEL_NONE; /* the communicator fails: nobody waits for these any more */
    return issued;
}

/* The first call of a list. The operation ends with the list's launch, unless something comes behind. */
static void hold_first(struct gpu *gpu, enum kernel_id kernel, CUstream stream)
{
    gpu->held.kernel = kernel;
    gpu->held.stream = stream;
    gpu->held.ticket = launch_ticket(gpu);
}

/* ---- Turns ---- */

void launch_begins_group(struct gpu *gpu)
{
    gpu->turns.words.next = gpu->turns.lines.next = gpu->turns.messages = 0;
}

uint32_t launch_turn(struct gpu *gpu, uint32_t stripes)
{
    struct launch_turns *turns = &gpu->turns;
    const uint32_t turn = turns->messages;
    if (turns->words.width)
        turns->messages = (turn + stripes) % KERNEL_EXCHANGE_MOST;
    return turn;
}

bool launch_may_join(const struct gpu *gpu, uint32_t stripes)
{
    return !gpu->turns.words.width || stripes <= gpu->turns.words.width;
}

static uint32_t turn_of_vector(struct gpu *gpu, enum kernel_id kernel, uint32_t stripes)
{
    struct launch_turn *turns = turns_of(gpu, kernel);
    const uint32_t turn = turns->next;
    if (!turns->width || stripes > turns->width)
        return 0;
    turns->next = (turn + stripes) % turns->width;
    return turn;
}

/* ---- Reductions ---- */

/* Has this call in common with the list all that calls of a list must? */
static bool fits_list(const struct launch_held *held, const struct kernel_launch *how, tutti_type_t type,
                      const struct kernel_reduce *what)
{
    const struct kernel_reduce *list = &held->vectors.reduce;
    return held->kernel == how->kernel && held->type == type && held->vectors.items < KERNEL_LIST_MOST &&
           list->mode == what->mode && list->op == what->op && list->wants == what->wants &&
           list->gives == what->gives && list->takes == what->takes && list->parts == what->parts &&
           list->premul == what->premul && list->scalar == what->scalar && list->scalar_at == what->scalar_at &&
           memcmp(list->part, what->part, sizeof list->part) == 0;
}

static void add_item(struct launch_held *held, const struct kernel_reduce *what, uint32_t stripes, uint32_t turn,
                     bool spread)
{
    struct kernel_list *list = &held->vectors;
    list->item[list->items++] =
        (struct kernel_item){what->in, what->out, (uint32_t)what->count, (uint16_t)stripes, (uint16_t)turn};
    if (spread)
        held->stripes += stripes;
    else if (stripes > held->stripes)
        held->stripes = stripes;
}

tutti_result_t launch_vector(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_list *what, CUstream stream)
{
    struct launch_held *held = &gpu->held;
    const uint32_t stripes = how->stripes > how->blocks ? how->stripes : how->blocks,
                   turn = turn_of_vector(gpu, how->kernel, stripes);
    if (!held->holds && !turn && how->kernel != KERNEL_REDUCE_LISTED)
        return launch_kernel(gpu, how, type, &what->reduce.team, stream);
    if (held->kernel != KERNEL_NONE && !fits_list(held, how, type, &what->reduce)) {
        tutti_result_t result = launch_flush(gpu);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    if (held->kernel == KERNEL_NONE) {
        hold_first(gpu, how->kernel, stream);
        held->how = *how;
        held->type = type;
        held->vectors.reduce = what->reduce;
        held->vectors.items = 0;
        held->stripes = 0;
    }
    add_item(held, &what->reduce, stripes, turn, turns_of(gpu, how->kernel)->width != 0);
    gpu->base.tickets.told = held->ticket;
    return held->holds ? TUTTI_SUCCESS : launch_flush(gpu);
}

/* ---- Exchanges ---- */

tutti_result_t launch_messages(struct gpu *gpu, struct kernel_exchange *what, CUstream stream)
{
    struct launch_held *held = &gpu->held;
    bool joins = held->kernel == KERNEL_EXCHANGE && held->messages.items < KERNEL_MESSAGES_MOST;
    if (!held->holds || !joins) {
        tutti_result_t result = launch_flush(gpu);
        if (result != TUTTI_SUCCESS)
            return result;
        hold_first(gpu, KERNEL_EXCHANGE, stream);
        held->messages.items = 0;
    }
    held->messages.item[held->messages.items++] = *what;
    gpu->base.tickets.told = held->ticket;
    return held->holds ? TUTTI_SUCCESS : launch_flush(gpu);
}
