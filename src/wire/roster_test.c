/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks have said comes back, in any order of reading, and equal rosters are one; packed bytes of any kind. */
#include "base/intern.h"
#include "base/random.h"
#include "base/sparse.h"
#include "wire/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define RANKS 333 /* the last block is not full */

static struct roster_entry said[RANKS];

static void from_array(const void *context, int index, struct roster_entry *out)
{
    const struct roster_entry *entries = context;
    *out = entries[index];
}

/* Eight ranks of a host have its adapters, each with ports of its own. */
static int begin(void **state)
{
    (void)state;
    memset(said, 0, sizeof said);
    for (int rank = 0; rank < RANKS; rank++) {
        struct wire_process *process = &said[rank].process;
        uint64_t host = (uint64_t)rank / 8;
        random_bytes(process->uuid, sizeof process->uuid);
        random_bytes(process->secret, sizeof process->secret);
        process->host = mix64(host + 1);
        process->pid = 1000 + (uint32_t)rank;
        process->losses = rank % 50 == 0;
        process->processors = 16;
        process->uid = 1000;
        for (int i = 0; i < WIRE_DEVICES; i++) {
            process->verbs[i] = (struct wire_address){.family = 4, .port = (uint16_t)(30000 + rank)};
            if (rank % 7 == i) /* another port number, none, or no adapter */
                process->verbs[i] = (struct wire_address){.family = rank % 3 ? 4 : 0, .port = (uint16_t)(rank % 2)};
            memcpy(process->verbs[i].bytes, &(uint32_t){(uint32_t)(host << 8) + (uint32_t)i}, 4);
        }
        said[rank].island = mix64(host + 2);
    }
    return 0;
}

static void read_one(struct roster_cursor *cursor, const struct roster *roster, int rank)
{
    const struct roster_row *row = &roster->row[rank];
    assert_memory_equal(roster_read(cursor, row), &said[rank], sizeof said[rank]);
    assert_memory_equal(row->uuid, said[rank].process.uuid, sizeof row->uuid);
    assert_int_equal(row->host, said[rank].process.host);
    assert_int_equal(row->pid, said[rank].process.pid);
    int other = (rank + 7) % RANKS;
    assert_int_equal(roster_session(row, &roster->row[other]), wire_session(&said[rank].process, &said[other].process));
}

static void comes_back(void **state)
{
    const struct roster *roster = roster_make(RANKS, from_array, said);
    struct roster_cursor cursor = {.roster = roster};
    (void)state;
    assert_non_null(roster);
    for (int rank = 0; rank < RANKS; rank++)
        read_one(&cursor, roster, rank);
    for (int rank = RANKS - 1; rank >= 0; rank--)
        read_one(&cursor, roster, rank);
    for (int i = 0; i < 4 * RANKS; i++)
        read_one(&cursor, roster, (int)(mix64((uint64_t)i) % RANKS));
    for (int i = 0; i < 2; i++)
        read_one(&cursor, roster, 5);
    assert_true(roster_share(roster) < RANKS * 100);
    roster_release(roster);
    assert_int_equal(intern_memory(), 0);
}

static void equal_are_one(void **state)
{
    const struct roster *one = roster_make(RANKS, from_array, said), *two = roster_make(RANKS, from_array, said);
    (void)state;
    assert_ptr_equal(one, two);
    said[RANKS - 1].island++;
    const struct roster *three = roster_make(RANKS, from_array, said);
    assert_ptr_not_equal(one, three);
    roster_release(one);
    roster_release(two);
    roster_release(three);
    roster_release(NULL);
    assert_int_equal(intern_memory(), 0);
}

#define BYTES 700

/* Zeros in runs of any length between others, and neither. */
static void draw(uint8_t bytes[BYTES], uint64_t seed)
{
    for (size_t at = 0; at < BYTES;) {
        uint64_t drawn = mix64(seed + at);
        size_t run = 1 + (drawn >> 8) % (drawn & 0x10000 ? 300 : 5);
        for (; run && at < BYTES; run--, at++)
            bytes[at] = drawn & 1 ? (uint8_t)(1 + drawn % 255) : 0;
    }
}

static void sparse(void **state)
{
    uint8_t bytes[BYTES], packed[SPARSE_MOST(BYTES) + 1], back[BYTES + 1];
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        size_t size = 1 + seed % BYTES;
        draw(bytes, seed << 32);
        packed[SPARSE_MOST(size)] = back[size] = 77;
        size_t length = sparse_pack(bytes, size, packed);
        assert_in_range(length, 2, SPARSE_MOST(size));
        assert_int_equal(packed[SPARSE_MOST(size)], 77);
        assert_int_equal(sparse_unpack(packed, length, back, size), length);
        assert_memory_equal(bytes, back, size);
        assert_int_equal(back[size], 77);
        assert_int_equal(sparse_unpack(packed, (size_t)(mix64(seed) % length), back, size), 0);
    }
    back[10] = 77;
    memset(packed, 0, sizeof packed); /* pairs that bring nothing */
    assert_int_equal(sparse_unpack(packed, sizeof packed, back, 10), 0);
    memset(packed, 200, sizeof packed); /* more than there is room for */
    assert_int_equal(sparse_unpack(packed, sizeof packed, back, 10), 0);
    assert_int_equal(back[10], 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(comes_back, begin),
        cmocka_unit_test_setup(equal_are_one, begin),
        cmocka_unit_test(sparse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
