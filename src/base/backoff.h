/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread waits for another one that is nearly done: it yields at first, then sleeps between its looks. Yielding
 * without end is no way to wait, as the other thread may be one that was switched from. Linux 6.18 has been seen to
 * give the processor back to the thread that yields, for a second and more, while a hundred others were ready to run.
 */
#ifndef TUTTI_BASE_BACKOFF_H
#define TUTTI_BASE_BACKOFF_H

#include <sched.h>
#include <unistd.h>

#define BACKOFF_YIELDS 64
#define BACKOFF_US     20 /* and what the system adds */

/* `turn`: 0 when the wait begins. */
static inline void backoff(unsigned *turn)
{
    if (++*turn <= BACKOFF_YIELDS)
        sched_yield();
    else
        usleep(BACKOFF_US);
}

#endif
