/* SPDX-License-Identifier: Apache-2.0 */
/* What every exported call does first. */
#pragma once

#include "cuda/state.h"

#include <pthread.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    CALL_PLAIN = 0,
    CALL_INIT = 1,    /* cuInit must have been called */
    CALL_CONTEXT = 3, /* a current context that is alive */
    CALL_UNSAFE = 4,  /* not allowed while a stream is being captured, unless relaxed */
    CALL_BEHIND =
        8, /* comes behind a call that holds the current context (context_hold), as calls that need a context do */
};

/* Injected faults, then the needs. `name` is that of the exported function. */
CUresult call_enter(const char *name, unsigned need);

#define CALL(need)                                                                                                     \
    do {                                                                                                               \
        CUresult call_result_ = call_enter(__func__, need);                                                            \
        if (call_result_)                                                                                              \
            return call_result_;                                                                                       \
    } while (0)
