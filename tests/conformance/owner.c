/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of the conformance tests. */
#include "owner.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct transport_ops *under_test;

static void take_note(struct end *end, struct note note, const void *bytes)
{
    end->counts[note.kind]++;
    if (!end->quiet) {
        if (bytes)
            note.hash = pattern_hash(bytes, note.length);
        if (end->count == end->room) {
            end->room = end->room ? 2 * end->room : 64;
            end->notes = realloc(end->notes, end->room * sizeof *end->notes);
            assert_non_null(end->notes);
        }
        end->notes[end->count++] = note;
    }
    if (end->hook)
        end->hook(end, &note, bytes);
}

static struct end *end_of(struct lane *lane)
{
    struct end *end = lane->user;
    assert_non_null(end);
    assert_ptr_equal(end->lane, lane); /* no upcall after close */
    return end;
}

static bool on_accepted(void *context, struct lane *lane, const struct wire_hello *hello)
{
    struct end *end = end_new(context);
    end->lane = lane;
    end->hello = *hello;
    lane->user = end;
    end->hook = end->party->greets;
    take_note(end, (struct note){.kind = NOTE_ACCEPTED, .id = hello->lane}, NULL);
    if (end->party->refuses)
        end_close(end);
    if (end->party->declines)
        end->lane = NULL;
    return !end->party->declines;
}

static void on_up(struct lane *lane)
{
    struct end *end = lane->user;
    end->lane = lane;
    take_note(end, (struct note){.kind = NOTE_UP}, NULL);
}

static void on_down(struct lane *lane, tutti_result_t why)
{
    struct end *end = end_of(lane);
    assert_int_equal(end->counts[NOTE_DOWN], 0);
    assert_int_not_equal(why, TUTTI_SUCCESS);
    take_note(end, (struct note){.kind = NOTE_DOWN, .id = why}, NULL);
}

static void on_message(struct lane *lane, const void *bytes, size_t length)
{
    assert_int_equal((uintptr_t)bytes % 8, 0);
    take_note(end_of(lane), (struct note){.kind = NOTE_MESSAGE, .length = length}, bytes);
}

static struct place on_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    struct end *end = end_of(lane);
    take_note(end, (struct note){.kind = NOTE_TARGET, .id = imm, .offset = offset, .length = length}, NULL);
    if (end->drop || offset > end->area_size || length > end->area_size - offset)
        return (struct place){0};
    return (struct place){.address = end->area + offset, .device = end->area_device};
}

static void on_arrived(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    struct end *end = end_of(lane);
    bool inside = end->area && offset <= end->area_size && length <= end->area_size - offset;
    const void *bytes = inside && !end->drop && !end->area_device ? end->area + offset : NULL;
    take_note(end, (struct note){.kind = NOTE_ARRIVED, .id = imm, .offset = offset, .length = length}, bytes);
}

static void on_sent(struct lane *lane, uint64_t token)
{
    take_note(end_of(lane), (struct note){.kind = NOTE_SENT, .id = token}, NULL);
}

static void on_writable(struct lane *lane)
{
    take_note(end_of(lane), (struct note){.kind = NOTE_WRITABLE}, NULL);
}

static void on_shared(struct lane *lane, uint64_t key, int fd)
{
    take_note(end_of(lane), (struct note){.kind = NOTE_SHARED, .id = key, .fd = fd}, NULL);
}

static void on_unreadable(struct lane *lane, uint64_t token)
{
    take_note(end_of(lane), (struct note){.kind = NOTE_UNREADABLE, .id = token}, NULL);
}

static void on_unwritable(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    struct end *end = end_of(lane);
    end->drop = true;
    take_note(end, (struct note){.kind = NOTE_UNWRITABLE, .id = imm, .offset = offset, .length = length}, NULL);
}

static void *on_lent(struct lane *lane, const void *bytes, size_t size, size_t length)
{
    struct end *end = end_of(lane);
    (void)bytes;
    take_note(end, (struct note){.kind = NOTE_LENT, .id = size, .length = length}, NULL);
    return end->drop || length > end->area_size ? NULL : end->area;
}

static bool on_lent_waits(struct lane *lane, const void *bytes, size_t size, size_t length)
{
    struct end *end = end_of(lane);
    (void)bytes;
    assert_true(size && length);
    end->left++;
    return end->leaves;
}

static bool on_spares(void *context)
{
    (void)context;
    return true;
}

static void on_copied(struct lane *lane, bool whole)
{
    take_note(end_of(lane), (struct note){.kind = NOTE_COPIED, .id = whole}, NULL);
}

/* Of a flush whose lanes went down nothing is heard. */
static void on_flushed(void *context, uint64_t token)
{
    struct party *party = context;
    assert_true((int)token > party->flushed);
    party->flushed = (int)token;
}

static void on_memory(void *context, int64_t bytes)
{
    struct party *party = context;
    party->memory += bytes;
    assert_true(party->memory >= 0);
}

void party_open(struct party *party)
{
    uint8_t uuid[WIRE_UUID_BYTES];
    assert_int_equal(random_bytes(uuid, sizeof uuid), TUTTI_SUCCESS);
    party_open_as(party, uuid);
}

bool party_try_open(struct party *party, const uint8_t *uuid)
{
    struct transport_owner owner = {.context = party,
                                    .accepted = on_accepted,
                                    .up = on_up,
                                    .down = on_down,
                                    .message = on_message,
                                    .target = on_target,
                                    .arrived = on_arrived,
                                    .sent = on_sent,
                                    .writable = on_writable,
                                    .shared = on_shared,
                                    .memory = on_memory,
                                    .unreadable = on_unreadable,
                                    .unwritable = on_unwritable,
                                    .flushed = on_flushed,
                                    .lent = on_lent,
                                    .copied = on_copied,
                                    .lent_waits = on_lent_waits,
                                    .spares = on_spares};
    memset(party, 0, sizeof *party);
    party->ops = under_test;
    party->self.host = 42;
    party->self.pid = (uint32_t)getpid();
    party->self.uid = geteuid();
    memcpy(party->self.uuid, uuid, sizeof party->self.uuid);
    assert_int_equal(random_bytes(party->self.secret, sizeof party->self.secret), TUTTI_SUCCESS);
    assert_int_equal(poller_open(&party->poller), TUTTI_SUCCESS);
    if (under_test->open(under_test, &owner, party->poller, &party->self, &party->transport) == TUTTI_SUCCESS)
        return true;
    poller_close(party->poller);
    return false;
}

void party_open_as(struct party *party, const uint8_t *uuid)
{
    assert_true(party_try_open(party, uuid));
}

void party_close(struct party *party)
{
    while (party->count)
        end_drop(party->ends[party->count - 1]);
    party->ops->close(party->transport);
    poller_close(party->poller);
}

int party_step(struct party *party)
{
    static _Thread_local unsigned turn;
    int done = party->ops->poll(party->transport);
    turn = done ? 0 : turn;
    if (!done)
        backoff(&turn);
    return done;
}

void party_sleep(struct party *party, int ms)
{
    if (party->ops->arm(party->transport))
        poller_wait(party->poller, ms);
    party->ops->disarm(party->transport);
    party->ops->poll(party->transport);
}

struct end *end_new(struct party *party)
{
    struct end *end = calloc(1, sizeof *end);
    assert_non_null(end);
    assert_true(party->count < MOST_ENDS);
    end->party = party;
    party->ends[party->count++] = end;
    return end;
}

struct end *end_open(struct party *party, const struct wire_process *peer, uint16_t index, uint32_t epoch)
{
    struct end *end = end_new(party);
    assert_int_equal(party->ops->lane_open(party->transport, peer, index, epoch, 0, 0, end, &end->lane), TUTTI_SUCCESS);
    assert_int_equal(end->count, 0); /* no upcall from inside */
    return end;
}

void end_close(struct end *end)
{
    struct lane *lane = end->lane;
    end->lane = NULL;
    if (lane)
        lane->ops->lane_close(lane);
}

void end_drop(struct end *end)
{
    struct party *party = end->party;
    int i = 0;
    end_close(end);
    while (party->ends[i] != end)
        i++;
    party->ends[i] = party->ends[--party->count];
    free(end->notes);
    free(end);
}

struct end *end_accepted(struct party *party, uint16_t index)
{
    for (int i = 0; i < party->count; i++)
        if (party->ends[i]->lane && party->ends[i]->counts[NOTE_ACCEPTED] && party->ends[i]->hello.lane == index)
            return party->ends[i];
    return NULL;
}

const struct note *end_last(const struct end *end, enum note_kind kind)
{
    for (size_t i = end->count; i-- > 0;)
        if (end->notes[i].kind == kind)
            return &end->notes[i];
    return NULL;
}

void pair_step(struct pair *pair)
{
    static _Thread_local unsigned turn;
    int done = pair->a.ops->poll(pair->a.transport);
    done += pair->b.ops->poll(pair->b.transport);
    turn = done ? 0 : turn;
    if (!done)
        backoff(&turn);
}

void pair_open(struct pair *pair)
{
    party_open(&pair->a);
    party_open(&pair->b);
    pair->at = end_open(&pair->a, &pair->b.self, 0, 1);
    pair_until(pair, pair->at->counts[NOTE_UP] && (pair->bt = end_accepted(&pair->b, 0)));
}

void pair_close(struct pair *pair)
{
    party_close(&pair->a);
    party_close(&pair->b);
}

uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    return mix64(*state);
}

static uint8_t pattern_byte(uint64_t seed, size_t i)
{
    uint64_t word = (seed + i / 8) * 0x9e3779b97f4a7c15ull;
    return (uint8_t)(word >> (i % 8 * 7 + 3));
}

void fill_pattern(void *bytes, size_t length, uint64_t seed)
{
    uint8_t *out = bytes;
    for (size_t i = 0; i < length; i++)
        out[i] = pattern_byte(seed, i);
}

bool has_pattern(const void *bytes, size_t length, uint64_t seed)
{
    const uint8_t *in = bytes;
    for (size_t i = 0; i < length; i++)
        if (in[i] != pattern_byte(seed, i))
            return false;
    return true;
}

uint64_t pattern_hash(const void *bytes, size_t length)
{
    return hash_bytes(length, bytes, length);
}

void know(struct party *party, struct known_bytes *known)
{
    known->bytes = calloc(1, KNOWN_LENGTH);
    assert_non_null(known->bytes);
    assert_int_equal(
        party->ops->register_memory(party->transport, place_host(known->bytes), KNOWN_LENGTH, &known->memory),
        TUTTI_SUCCESS);
    assert_ptr_equal(known->memory->address, known->bytes);
    assert_int_equal(known->memory->length, KNOWN_LENGTH);
    assert_in_range(known->memory->devices, 1, WIRE_DEVICES);
    known->remote = (struct wire_remote){.address = (uintptr_t)known->bytes,
                                         .devices = (uint32_t)known->memory->devices,
                                         .opened = known->memory->opened};
    memcpy(known->remote.key, known->memory->key, sizeof known->remote.key);
}

void forget(struct party *party, struct known_bytes *known)
{
    if (known->memory)
        party->ops->deregister_memory(party->transport, known->memory);
    free(known->bytes);
}

tutti_result_t put_direct(struct end *end, const struct known_bytes *source, const struct wire_remote *remote,
                          size_t offset, size_t length, uint64_t token)
{
    struct put put = {.source = place_host(source->bytes + offset),
                      .length = length,
                      .imm = (uint32_t)token,
                      .offset = offset,
                      .token = token};
    put.remote = remote;
    put.memory = source->memory;
    return under_test->put(end->lane, &put);
}

tutti_result_t send_pattern(struct end *end, uint64_t seed, size_t length, int parts)
{
    struct iovec list[20];
    uint8_t *bytes = malloc(length);
    size_t used = 0;
    assert_non_null(bytes);
    fill_pattern(bytes, length, seed);
    for (int i = 0; i < parts; i++) {
        size_t next = i + 1 == parts ? length : used + (length - used) / 3;
        list[i] = (struct iovec){bytes + used, next - used};
        used = next;
    }
    tutti_result_t result = end->party->ops->msg(end->lane, list, parts);
    free(bytes);
    return result;
}
