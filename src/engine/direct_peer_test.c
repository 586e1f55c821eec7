/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers to the buffers of many peers at once. */
#include "engine/direct_peer.h"
#include "transport/shm/region.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define RANKS 80
#define BYTES 4096

static unsigned char *buffer[RANKS];
static const unsigned char *seen[RANKS];

/* A reduction of all ranks' blocks holds a pointer to each. */
static void pointers_to_all_peers_stay(void **state)
{
    struct peer_memory memory;
    (void)state;
    assert_true(peer_memory_open(&memory, RANKS));
    for (int rank = 0; rank < RANKS; rank++) {
        buffer[rank] = region_alloc(BYTES);
        assert_non_null(buffer[rank]);
        buffer[rank][BYTES - 1] = (unsigned char)(rank + 1);
    }
    for (int round = 0; round < 2; round++) {
        for (int rank = 0; rank < RANKS; rank++) {
            struct slot_place place;
            peer_describe(buffer[rank], NULL, &place);
            seen[rank] = peer_pointer(&memory, &place, true, 0, BYTES);
            assert_non_null(seen[rank]);
        }
        for (int rank = 0; rank < RANKS; rank++)
            assert_int_equal(seen[rank][BYTES - 1], rank + 1);
    }
    peer_memory_close(&memory);
    for (int rank = 0; rank < RANKS; rank++)
        assert_true(region_free(buffer[rank]));
}

/* What was used last stays. */
static void more_buffers_than_room(void **state)
{
    struct peer_memory memory;
    struct slot_place place;
    const unsigned char *before = NULL;
    (void)state;
    assert_true(peer_memory_open(&memory, 2));
    for (int i = 0; i < RANKS; i++) {
        unsigned char *one = region_alloc(BYTES);
        assert_non_null(one);
        one[0] = (unsigned char)(i + 1);
        peer_describe(one, NULL, &place);
        const unsigned char *now = peer_pointer(&memory, &place, true, 0, BYTES);
        assert_non_null(now);
        assert_int_equal(now[0], i + 1);
        if (before)
            assert_int_equal(before[0], i);
        before = now;
        assert_true(region_free(one));
    }
    peer_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pointers_to_all_peers_stay), cmocka_unit_test(more_buffers_than_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
