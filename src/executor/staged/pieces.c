/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives in pieces, which both ends cut alike and deal to the channels alike. The messages to a rank, or
 * from one, are a direction, with memory of its own. Its pieces go in order and wait for no other direction: a peer may
 * take what it is sent only when it has sent something itself, or got something from elsewhere.
 */
#include "executor/staged/pieces.h"

#include "base/cpu.h"
#include "base/error.h"
#include "device/type.h"
#include "executor/staged/courier.h"
#include "executor/staged/direct.h"
#include "executor/staged/fail.h"
#include "executor/staged/slice.h"

#include <stdlib.h>
#include <string.h>

#define SMALL  65536 /* a message up to this wakes no other thread */
#define SPREAD 4     /* ranks at most, for whose directions pinned memory is enough */
#define DEPTH  32    /* pieces of a direction that are under way, if they are small */

enum place_state { PLACE_FREE, PLACE_COPYING, PLACE_POSTED };

/* Host memory for a piece that is under way. */
struct pieces_place {
    enum place_state state;
    const struct direction *of;
    char *host, *gpu;
    struct place direct; /* the same as `gpu`, or the slot, for adapters; device 0: it is copied */
    struct relay_slot slot;
    size_t bytes;
};

struct direction {
    bool sends, pageable;
    int peer;
    int item, last;             /* the item that the next piece is of, and the last one; -1: none is left */
    size_t next;                /* that piece */
    size_t left;                /* pieces that have had no place yet */
    size_t room;                /* of a place: the largest piece */
    struct pieces_place *place; /* taken in turn */
    size_t places, turn;
};

/* What one channel has to do of a job. */
struct pieces_work {
    struct channel *channel;
    struct team *team;
    const struct job *job;
    size_t left, bytes; /* pieces that are not over; of all */
    int *after;         /* by item: the next one of its direction; -1 */
    struct direction *direction;
    int directions, places;
    struct pieces_place *place;
    void *pageable;
    struct p2p *p2p; /* a message lies at the place of its number */
    int *ended;
};

static size_t pieces_piece_bytes(const struct staged *staged)
{
    size_t ranks = (size_t)staged->base.team->nranks;
    return staged->slice_bytes / (2 * (ranks < SPREAD ? ranks : SPREAD));
}

static size_t item_bytes(const struct p2p_item *item)
{
    return item->count * type_size(item->type);
}

/* A message of no bytes is a piece too. */
static size_t pieces_in(const struct staged *staged, size_t bytes)
{
    size_t piece = pieces_piece_bytes(staged);
    return bytes ? (bytes + piece - 1) / piece : 1;
}

static size_t item_pieces(const struct staged *staged, const struct p2p_item *item)
{
    return pieces_in(staged, item_bytes(item));
}

/* The channel of a message's first piece. The others follow round by round. */
static size_t first_channel(const struct staged *staged, const struct p2p_item *item)
{
    size_t me = (size_t)staged->base.team->rank, peer = (size_t)item->peer;
    size_t from = item->sends ? me : peer, to = item->sends ? peer : me;
    return item_bytes(item) <= SMALL ? 0 : (5 * from + to) % (size_t)staged->channels;
}

uint32_t pieces_channels(const struct staged *staged, const struct p2p_item *items, int count)
{
    uint32_t channels = 1;
    for (int i = 0; i < count; i++) {
        size_t pieces = item_pieces(staged, &items[i]), first = first_channel(staged, &items[i]),
               all = (size_t)staged->channels;
        for (size_t k = 0; k < pieces && k < all; k++)
            channels |= 1u << ((first + k) % all);
    }
    return channels;
}

uint32_t pieces_rail_channels(const struct staged *staged, size_t longest)
{
    size_t pieces = pieces_in(staged, longest), all = (size_t)staged->channels;
    return (1u << (pieces < all ? pieces : all)) - 1;
}

/* Of an item: the first piece that is this channel's, and how many are. */
static size_t first_piece(const struct pieces_work *work, const struct p2p_item *item)
{
    const struct channel *channel = work->channel;
    size_t channels = (size_t)channel->staged->channels,
           first = work->job->on_rail ? 0 : first_channel(channel->staged, item);
    return ((size_t)channel->index + channels - first) % channels;
}

static size_t own_pieces(const struct pieces_work *work, const struct p2p_item *item)
{
    const struct staged *staged = work->channel->staged;
    size_t pieces = item_pieces(staged, item), first = first_piece(work, item), channels = (size_t)staged->channels;
    return first < pieces ? (pieces - first + channels - 1) / channels : 0;
}

/* ---- Directions, and memory for them ---- */

static void begin_item(const struct pieces_work *work, struct direction *direction, int item)
{
    direction->item = item;
    direction->next = item < 0 ? 0 : first_piece(work, &work->job->items[item]);
}

static size_t padded(size_t bytes)
{
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static void pieces_add_item(struct pieces_work *work, struct direction *direction, int i)
{
    const struct p2p_item *item = &work->job->items[i];
    size_t bytes = item_bytes(item), most = pieces_piece_bytes(work->channel->staged),
           largest = bytes < most ? bytes : most, pieces = own_pieces(work, item);
    if (direction->left)
        work->after[direction->last] = i;
    else
        begin_item(work, direction, i);
    direction->last = i;
    direction->room = direction->room > padded(largest) ? direction->room : padded(largest);
    direction->left += pieces;
    work->left += pieces;
    work->bytes += pieces * largest;
}

/* number: by peer and way, 0: it has none yet. */
static void sort_items(struct pieces_work *work, int *number)
{
    for (int i = 0; i < work->job->count; i++) {
        const struct p2p_item *item = &work->job->items[i];
        int *mine = &number[2 * item->peer + item->sends];
        work->after[i] = -1;
        if (!own_pieces(work, item))
            continue;
        if (!*mine) {
            *mine = ++work->directions;
            work->direction[*mine - 1].peer = item->peer;
            work->direction[*mine - 1].sends = item->sends;
        }
        pieces_add_item(work, &work->direction[*mine - 1], i);
    }
}

/* Every direction has a place. Directions that found pinned memory share the rest of that memory. Returns the bytes
 * that did not fit. */
static size_t count_places(struct pieces_work *work)
{
    const struct staged *staged = work->channel->staged;
    size_t pinned = SLICES * staged->slice_bytes, most = SLICES * padded(pieces_piece_bytes(staged)), missing = 0;
    for (size_t depth = 0; depth < DEPTH; depth++) {
        for (int i = 0; i < work->directions; i++) {
            struct direction *direction = &work->direction[i];
            bool fits = direction->room <= pinned,
                 wants = direction->left > depth && direction->room * (depth + 1) <= most && !direction->pageable;
            if (depth && !(wants && fits))
                continue;
            direction->pageable |= !fits;
            pinned -= fits ? direction->room : 0;
            missing += fits ? 0 : direction->room;
            direction->places++;
            work->places++;
        }
    }
    return missing;
}

static tutti_result_t pieces_no_memory(const struct job *job)
{
    return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", job->count);
}

static tutti_result_t find_places(struct pieces_work *work)
{
    size_t missing = count_places(work);
    char *pinned = work->channel->slice[0].memory, *pageable = missing ? malloc(missing) : NULL;
    work->pageable = pageable;
    work->place = calloc((size_t)work->places, sizeof *work->place);
    work->ended = calloc((size_t)work->places, sizeof *work->ended);
    if (!work->place || !work->ended || (missing && !pageable))
        return pieces_no_memory(work->job);
    struct pieces_place *place = work->place;
    for (int i = 0; i < work->directions; i++) {
        struct direction *direction = &work->direction[i];
        char **memory = direction->pageable ? &pageable : &pinned;
        direction->place = place;
        for (size_t k = 0; k < direction->places; k++, *memory += direction->room)
            *place++ = (struct pieces_place){.of = direction, .host = *memory};
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t set_out(struct pieces_work *work)
{
    size_t count = (size_t)work->job->count;
    int *number = calloc(2 * (size_t)work->channel->staged->base.team->nranks, sizeof *number);
    work->after = calloc(count, sizeof *work->after);
    work->direction = calloc(count, sizeof *work->direction);
    bool have = number && work->after && work->direction;
    if (have)
        sort_items(work, number);
    free(number);
    if (!have)
        return pieces_no_memory(work->job);
    return work->left ? find_places(work) : TUTTI_SUCCESS;
}

/* ---- The way of a piece ---- */

static void pieces_post(struct pieces_work *work, struct pieces_place *place)
{
    const struct p2p_item item = {.sends = place->of->sends,
                                  .peer = place->of->peer,
                                  .data = place->host,
                                  .count = place->bytes,
                                  .type = TUTTI_UINT8,
                                  .on_device = place->direct};
    place->state = PLACE_POSTED;
    p2p_post(work->team, work->p2p, (int)(place - work->place), &item);
}

/* Between the GPU and the slot on the one that relays for it. */
static tutti_result_t pieces_move(struct pieces_work *work, struct pieces_place *place, void *to, const void *from)
{
    if (place->bytes > SMALL)
        engine_notice(work->team->engine); /* as copy() does */
    tutti_result_t result = courier_move(work->channel, to, from, place->bytes);
    if (result != TUTTI_SUCCESS)
        place->slot.relay = NULL; /* a kernel that did not answer may be there still: nobody gets it */
    return result;
}

static tutti_result_t pieces_relay(struct pieces_work *work, struct pieces_place *place)
{
    tutti_result_t result = pieces_move(work, place, place->direct.address, place->gpu);
    if (result == TUTTI_SUCCESS)
        pieces_post(work, place);
    return result;
}

static void pieces_relayed(struct pieces_work *work, struct pieces_place *place)
{
    if (place->slot.relay)
        trace_count(work->channel->staged->base.team->engine->trace, WIRE_COUNTER_RELAYED_BYTES, place->bytes);
    relay_give(work->channel, &place->slot);
}

/* What is to be sent has come from the GPU; or what was received has come to it, or what was sent has left. */
static void go_on(struct pieces_work *work, struct pieces_place *place)
{
    if (place->of->sends && place->state == PLACE_COPYING) {
        pieces_post(work, place);
        return;
    }
    place->state = PLACE_FREE;
    work->left--;
}

static tutti_result_t copy(struct pieces_work *work, struct pieces_place *place)
{
    tutti_result_t result = TUTTI_SUCCESS;
    place->state = PLACE_COPYING;
    if (place->bytes > SMALL)
        engine_notice(work->team->engine); /* what is posted goes on while this thread waits for the copy */
    if (place->bytes)
        result = slice_copy(work->channel, place->gpu, place->host, place->bytes, !place->of->sends);
    if (result == TUTTI_SUCCESS && work->channel->staged->copies)
        go_on(work, place);
    return result;
}

/* From the slot, where it came to one; and what lanes brought to host memory instead. */
static tutti_result_t pieces_came(struct pieces_work *work, struct pieces_place *place)
{
    tutti_result_t result =
        place->slot.relay ? pieces_move(work, place, place->gpu, place->direct.address) : TUTTI_SUCCESS;
    pieces_relayed(work, place);
    uint64_t segment, spilled = p2p_in_spare(work->p2p, (int)(place - work->place), &segment);
    if (!spilled)
        trace_count(work->channel->staged->base.team->engine->trace, WIRE_COUNTER_DIRECT_BYTES, place->bytes);
    for (; spilled && result == TUTTI_SUCCESS; spilled &= spilled - 1) {
        size_t from = (size_t)__builtin_ctzll(spilled) * segment, left = place->bytes - from;
        result =
            slice_copy(work->channel, place->gpu + from, place->host + from, left < segment ? left : segment, true);
    }
    place->state = PLACE_FREE;
    work->left--;
    return result;
}

/* No lane reads a piece from the GPU's memory any more. */
static tutti_result_t spill(struct pieces_work *work, struct pieces_place *place)
{
    place->direct.device = 0;
    relay_give(work->channel, &place->slot);
    tutti_result_t result = slice_copy(work->channel, place->gpu, place->host, place->bytes, false);
    if (result == TUTTI_SUCCESS)
        p2p_spilled(work->team, work->p2p, (int)(place - work->place));
    return result;
}

static tutti_result_t pieces_take_spilling(struct pieces_work *work, bool *moved)
{
    tutti_result_t result = TUTTI_SUCCESS;
    int spilling = p2p_take_spilling(work->team, work->p2p, work->ended);
    *moved |= spilling > 0;
    for (int i = 0; i < spilling && result == TUTTI_SUCCESS; i++)
        result = spill(work, &work->place[work->ended[i]]);
    return result;
}

/* What was taken first is posted first. */
static void end_copies(struct pieces_work *work, const struct direction *direction)
{
    for (size_t k = 0; k < direction->places; k++) {
        struct pieces_place *place = &direction->place[(direction->turn + k) % direction->places];
        if (place->state == PLACE_COPYING)
            go_on(work, place);
    }
}

/* Without a courier: copies are in streams. */
static tutti_result_t await_copies(struct pieces_work *work)
{
    const struct channel *channel = work->channel;
    tutti_result_t result = cuda_check(channel->staged->base.cu->StreamSynchronize(channel->in), "waiting for copies");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(channel->staged->base.cu->StreamSynchronize(channel->out), "waiting for copies");
    for (int i = 0; i < work->directions && result == TUTTI_SUCCESS; i++)
        end_copies(work, &work->direction[i]);
    return result;
}

static bool pieces_leave_host(const struct pieces_work *work, const struct direction *direction)
{
    const struct team *team = work->team;
    return team_row(team, direction->peer)->host != team_row(team, team->rank)->host;
}

/* The place of the next piece. NULL: none is left, or all places are taken. */
static struct pieces_place *pieces_take_place(const struct pieces_work *work, struct direction *direction)
{
    const struct staged *staged = work->channel->staged;
    struct pieces_place *place = &direction->place[direction->turn % direction->places];
    if (!direction->left || place->state != PLACE_FREE)
        return NULL;
    const struct p2p_item *item = &work->job->items[direction->item];
    size_t each = pieces_piece_bytes(staged), from = direction->next * each, rest = item_bytes(item) - from;
    place->gpu = (char *)item->data + from;
    place->bytes = rest < each ? rest : each;
    place->direct = direct_piece(item->on_device, from, place->bytes);
    if (!place_is_host(place->direct) && pieces_leave_host(work, direction) &&
        relay_take(work->channel, direction->next / (size_t)staged->channels, direction->sends, &place->slot))
        place->direct = place->slot.place;
    direction->turn++;
    direction->left--;
    direction->next += (size_t)staged->channels;
    if (direction->next >= item_pieces(staged, item))
        begin_item(work, direction, work->after[direction->item]);
    return place;
}

static tutti_result_t begin_pieces(struct pieces_work *work, struct direction *direction, bool *moved)
{
    struct pieces_place *place;
    tutti_result_t result = TUTTI_SUCCESS;
    while (result == TUTTI_SUCCESS && (place = pieces_take_place(work, direction)) != NULL) {
        *moved = true;
        if (direction->sends && place_is_host(place->direct))
            result = copy(work, place);
        else if (direction->sends && place->slot.relay)
            result = pieces_relay(work, place);
        else
            pieces_post(work, place);
    }
    return result;
}

static void pieces_sent(struct pieces_work *work, struct pieces_place *place)
{
    if (work->job->dynamic)
        atomic_fetch_add(&work->channel->staged->sent, place->bytes);
    if (!place_is_host(place->direct))
        trace_count(work->channel->staged->base.team->engine->trace, WIRE_COUNTER_DIRECT_BYTES, place->bytes);
    pieces_relayed(work, place);
    go_on(work, place);
}

/* All that can be done now. Receives come first, so that peers find them posted. */
static tutti_result_t take_turn(struct pieces_work *work, bool *moved)
{
    tutti_result_t result = TUTTI_SUCCESS;
    int ended = p2p_take_ended(work->team, work->p2p, work->ended);
    *moved = ended > 0;
    for (int i = 0; i < ended && result == TUTTI_SUCCESS; i++) {
        struct pieces_place *place = &work->place[work->ended[i]];
        if (place->of->sends)
            pieces_sent(work, place);
        else
            result = place_is_host(place->direct) ? copy(work, place) : pieces_came(work, place);
    }
    if (result == TUTTI_SUCCESS)
        result = pieces_take_spilling(work, moved);
    for (int sends = 0; sends < 2; sends++)
        for (int i = 0; i < work->directions && result == TUTTI_SUCCESS; i++)
            if (work->direction[i].sends == sends)
                result = begin_pieces(work, &work->direction[i], moved);
    return result == TUTTI_SUCCESS && *moved && !work->channel->staged->copies ? await_copies(work) : result;
}

static tutti_result_t carry(struct pieces_work *work)
{
    struct team *team = work->team;
    tutti_result_t result = work->channel->staged->copies ? TUTTI_SUCCESS : await_copies(work); /* of a job before */
    bool moved = true;
    if (result == TUTTI_SUCCESS)
        result = p2p_open(team, work->job->items, work->job->count, work->bytes, work->places, &work->p2p);
    while (result == TUTTI_SUCCESS && work->left) {
        result = take_turn(work, &moved);
        if (result == TUTTI_SUCCESS && !moved)
            result = p2p_await(team, work->p2p);
    }
    return result;
}

tutti_result_t pieces_run(struct channel *channel, const struct job *job)
{
    struct pieces_work work = {.channel = channel, .team = job_team(channel, job), .job = job};
    tutti_result_t result = set_out(&work);
    if (result == TUTTI_SUCCESS && work.left)
        result = carry(&work);
    if (result != TUTTI_SUCCESS)
        channel_fail(channel, result); /* nothing reads or writes what is freed here after this */
    for (int i = 0; work.place && i < work.places; i++)
        relay_give(channel, &work.place[i].slot);
    if (work.p2p)
        p2p_close(work.team, work.p2p);
    free(work.after);
    free(work.direction);
    free(work.place);
    free(work.ended);
    free(work.pageable);
    return result;
}
