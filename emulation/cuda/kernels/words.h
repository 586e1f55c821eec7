/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that streams write and kernels wait for, or the other way round, are mapped by each rank for itself, and what comes between may
 * happen in another process: the thread sanitizer knows neither. So it is told that who has waited sees what was there before any word
 * was written.
 */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_WORDS_H
#define TUTTI_EMULATION_CUDA_KERNELS_WORDS_H

#ifdef __SANITIZE_THREAD__

#include <sanitizer/tsan_interface.h>

__attribute__((weak)) char cuda_words;

static inline void words_written(void)
{
    __tsan_release(&cuda_words);
}

static inline void words_waited_for(void)
{
    __tsan_acquire(&cuda_words);
}

#else

static inline void words_written(void)
{
}

static inline void words_waited_for(void)
{
}

#endif

#endif
