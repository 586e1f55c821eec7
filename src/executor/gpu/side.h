/* SPDX-License-Identifier: Apache-2.0 */
/* What streams wait for and write; streams beside users' streams. */
#ifndef TUTTI_EXECUTOR_GPU_SIDE_H
#define TUTTI_EXECUTOR_GPU_SIDE_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/kernels.h"
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdint.h>

struct gpu;

/* What a stream is to wait for and write, in this order: each by itself takes a stream some microseconds. */
#define SIDE_WORDS (4 * KERNEL_RANKS)
struct side_words {
    CUstreamBatchMemOpParams list[SIDE_WORDS];
    unsigned count;
};

/* Where a word of the mailbox lies for the device. */
CUdeviceptr side_address(const struct gpu *gpu, const void *word);
tutti_result_t side_wait(const struct gpu *gpu, CUstream stream, const _Atomic uint32_t *word, uint32_t value);
tutti_result_t side_write(const struct gpu *gpu, CUstream stream, const _Atomic uint32_t *word, uint32_t value);
/* The same for several words at once. Words are noted, and issued where there is no room for more, or by side_issue(),
 * which is to follow. */
tutti_result_t side_add_wait(const struct gpu *gpu, struct side_words *words, CUstream stream,
                             const _Atomic uint32_t *word, uint32_t value);
tutti_result_t side_add_write(const struct gpu *gpu, struct side_words *words, CUstream stream,
                              const _Atomic uint32_t *word, uint32_t value);
tutti_result_t side_issue(const struct gpu *gpu, struct side_words *words, CUstream stream);
/* Lets streams go that wait for the word. To be repeated: a peer's stream that still runs may store a smaller number
 * over this one. */
void side_release(_Atomic uint32_t *word, uint32_t value);

#endif
