/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of this process and of its devices, and their names. */
#include "verbs/counters.h"

_Atomic uint64_t counters[COUNTER_COUNT];

static _Atomic uint64_t nobody[COUNTER_COUNT];
_Atomic uint64_t *counters_here = nobody;

void counters_are(_Atomic uint64_t *counts)
{
    counters_here = counts ? counts : nobody;
}

static const char *const names[] = {
#define COUNTER_NAME(name) #name,
    COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
};

const char *counter_name(enum counter counter)
{
    return names[counter];
}

uint64_t counter_read(enum counter counter)
{
    return atomic_load_explicit(&counters[counter], memory_order_relaxed);
}
