/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer's program without a fuzzer: random inputs of a seed, for a second or as many as are asked for. It finds
 * less, and shows on every machine that the program can still be built and run. `PROGRAM [SEED [INPUTS]]`
 */
#include "base/clock.h"
#include "base/random.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LONGEST    1500 /* bytes of an input */
#define LONGEST_MS 1000

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small bytes are the likely ones: most choices are among a few. */
static size_t draw(uint64_t number, uint8_t *out)
{
    size_t size = mix64(number) % (LONGEST + 1);
    for (size_t i = 0; i < size; i++) {
        uint64_t any = mix64(number * 7919 + i);
        out[i] = (uint8_t)(any & 0x100 ? any & 31 : any);
    }
    return size;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, inputs = argc > 2 ? strtoull(argv[2], NULL, 0) : 0, i;
    uint64_t deadline = clock_deadline_ms(LONGEST_MS);
    static uint8_t bytes[LONGEST];
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (i = 0; inputs ? i < inputs : i < 50 || !clock_passed(deadline); i++)
        LLVMFuzzerTestOneInput(bytes, draw(mix64(seed) + i, bytes));
    printf("%llu inputs of seed %llu\n", (unsigned long long)i, (unsigned long long)seed);
    return 0;
}
