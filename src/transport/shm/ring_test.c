/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shm/ring.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const struct shm_ring_shape shape = {.slots = 8, .chunk = 256, .data = 1024};

struct rings {
    void *memory;
    struct ring_out out;
    struct ring_in in;
};

static int make(void **state)
{
    struct rings *rings = calloc(1, sizeof *rings);
    rings->memory = aligned_alloc(CACHE_LINE, ring_pair_size(&shape));
    memset(rings->memory, 0, ring_pair_size(&shape));
    ring_out_init(&rings->out, &shape, rings->memory, false);
    ring_in_init(&rings->in, &shape, rings->memory, false);
    *state = rings;
    return 0;
}

static int drop(void **state)
{
    struct rings *rings = *state;
    free(rings->memory);
    free(rings);
    return 0;
}

static bool send(struct rings *rings, size_t size, unsigned char value)
{
    unsigned char *room = ring_reserve(&rings->out, size);
    if (!room)
        return false;
    assert_true(room >= rings->out.data && room + size <= rings->out.data + shape.data);
    memset(room, value, size);
    ring_post(&rings->out, RING_LONG, size, &size, sizeof size);
    return true;
}

static bool receive(struct rings *rings, unsigned char value)
{
    uint32_t number;
    size_t size;
    struct ring_slot *slot = ring_expected(&rings->in, &number);
    uint64_t head = atomic_load(&slot->head);
    if ((uint32_t)head != number)
        return false;
    memcpy(&size, slot->payload, sizeof size);
    if ((head >> 32 & 0xff) == RING_WINDOW) {
        assert_true(ring_follow(&rings->in, size));
        assert_true(ring_release(&rings->in));
        return receive(rings, value);
    }
    const unsigned char *bytes = ring_take(&rings->in, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(bytes[i], value);
    ring_release(&rings->in);
    return true;
}

static void is_two_lines_a_slot(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct ring_slot), 2 * CACHE_LINE);
    assert_int_equal(sizeof(struct ring_control), 2 * CACHE_LINE);
    assert_int_equal(ring_pair_size(&shape) % 4096, 0);
}

static void fills_up_and_goes_on(void **state)
{
    struct rings *rings = *state;
    unsigned char in = 0, out = 0;
    for (int round = 0; round < 1000; round++) {
        while (send(rings, (size_t)(round * 37 % 257), out))
            out++;
        assert_true(out != in);
        for (int i = 0; i < 1 + round % 8 && receive(rings, in); i++)
            in++;
    }
    while (receive(rings, in))
        in++;
    assert_int_equal(in, out);
}

static void slots_run_out_before_data(void **state)
{
    struct rings *rings = *state;
    for (int i = 0; i < 8; i++)
        assert_true(send(rings, 0, 0));
    assert_false(send(rings, 0, 0));
    assert_false(ring_has_slot(&rings->out));
    for (int i = 0; i < 3; i++)
        assert_true(receive(rings, 0));
    assert_true(ring_has_slot(&rings->out));
}

static void largest_piece_always_fits_at_last(void **state)
{
    struct rings *rings = *state;
    for (size_t lead = 0; lead <= 256; lead += 64) {
        while (send(rings, lead, 7))
            ;
        while (receive(rings, 7))
            ;
        assert_true(send(rings, 256, 9));
        assert_true(receive(rings, 9));
    }
}

/* The receiver's counters are its word: nonsense means no room, never room that is not there. */
static void believes_no_nonsense(void **state)
{
    struct rings *rings = *state;
    while (send(rings, 64, 1))
        ;
    uint64_t bytes[] = {UINT64_MAX, 1ull << 40, 100000};
    uint32_t slots[] = {UINT32_MAX, 1u << 30, 9};
    for (int i = 0; i < 3; i++) {
        atomic_store(&rings->out.control->bytes_consumed, bytes[i]);
        atomic_store(&rings->out.control->slots_consumed, slots[i]);
        assert_false(send(rings, 64, 1));
    }
}

static void takes_no_more_than_the_ring(void **state)
{
    struct rings *rings = *state;
    assert_null(ring_take(&rings->in, 1025));
    assert_null(ring_take(&rings->in, UINT64_MAX));
    assert_non_null(ring_take(&rings->in, 1024));
}

static void numbers_wrap(void **state)
{
    struct rings *rings = *state;
    rings->out.head = rings->out.seen = rings->in.head = rings->in.published = UINT32_MAX - 11;
    atomic_store(&rings->out.control->slots_consumed, UINT32_MAX - 11);
    for (int i = 0; i < 40; i++) {
        assert_true(send(rings, 10, (unsigned char)i));
        assert_true(receive(rings, (unsigned char)i));
    }
}

/* Windows of all sizes follow one another while data is under way; nothing is lost, overwritten or taken twice. */
static void windows_move_under_way(void **state)
{
    struct rings *rings = *state;
    uint64_t windows[] = {256, 1024, 64, 512, 1024, 128};
    unsigned char in = 0, out = 0;
    int moves = 0;
    for (int round = 0; round < 5000; round++) {
        size_t most = ring_window(&rings->out) < 256 ? (size_t)ring_window(&rings->out) : 256;
        for (int i = 0; i < round % 4 && send(rings, (size_t)(round * 37 + i) % (most + 1), out); i++)
            out++;
        if (round % 5 == 0 && ring_move(&rings->out, windows[(unsigned)moves % 6])) {
            assert_null(ring_reserve(&rings->out, 8)); /* not before the receiver has got there */
            assert_false(ring_move(&rings->out, 64));
            moves++;
        }
        for (int i = 0; i < round % 3 + 1 && receive(rings, in); i++)
            in++;
    }
    while (receive(rings, in))
        in++;
    assert_true(ring_moved(&rings->out));
    assert_int_equal(in, out);
    assert_true(moves > 300);
}

/* The same window again brings the free parts together: what fills the ring fits at once. */
static void same_window_again_empties_it(void **state)
{
    struct rings *rings = *state;
    assert_true(send(rings, 192, 1) && receive(rings, 1));
    assert_null(ring_reserve(&rings->out, 1024));
    assert_true(ring_move(&rings->out, 1024));
    assert_false(receive(rings, 0)); /* one slot: the window */
    assert_true(send(rings, 1024, 2) && receive(rings, 2));
}

static void follows_no_nonsense(void **state)
{
    struct rings *rings = *state;
    uint64_t bad[] = {0, 32, 63, 1000, 2048, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ring_follow(&rings->in, bad[i]));
    assert_true(ring_follow(&rings->in, 64));
}

static void checks_shapes(void **state)
{
    struct shm_ring_shape bad[] = {{7, 256, 1024}, {8, 256, 1000}, {8, 512, 1024},        {8, 0, 1024},
                                   {8, 100, 1024}, {0, 256, 1024}, {1u << 31, 256, 1024}, {8, 256, 1ull << 40}};
    (void)state;
    assert_true(ring_shape_ok(&shape));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ring_shape_ok(&bad[i]));
}

#define test(name) cmocka_unit_test_setup_teardown(name, make, drop)
int main(void)
{
    const struct CMUnitTest tests[] = {
        test(is_two_lines_a_slot),
        test(fills_up_and_goes_on),
        test(slots_run_out_before_data),
        test(largest_piece_always_fits_at_last),
        test(windows_move_under_way),
        test(same_window_again_empties_it),
        test(follows_no_nonsense),
        test(believes_no_nonsense),
        test(takes_no_more_than_the_ring),
        test(numbers_wrap),
        test(checks_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
