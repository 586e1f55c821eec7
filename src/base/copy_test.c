/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 20000

static void copies_all_and_nothing_else(void **state)
{
    static unsigned char from[ROOM], to[ROOM];
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1023, 1024, 1025, 1100, 4096, 5000, 16384};
    (void)state;
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 >> 2);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t shift = 0; shift < 130; shift += 7) {
            size_t size = sizes[s], start = 200 + shift, source = 100 + shift * 3 % 67;
            memset(to, 0xee, ROOM);
            copy_stream(to + start, from + source, size);
            assert_memory_equal(to + start, from + source, size);
            for (size_t i = start - 64; i < start; i++)
                assert_int_equal(to[i], 0xee);
            for (size_t i = start + size; i < start + size + 64; i++)
                assert_int_equal(to[i], 0xee);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_all_and_nothing_else)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
