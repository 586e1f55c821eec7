/* SPDX-License-Identifier: Apache-2.0 */
/* Times when no call of this process is under way on any GPU. */
#ifndef TUTTI_EXECUTOR_STREAM_IDLE_H
#define TUTTI_EXECUTOR_STREAM_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct stream_base;

void idle_join(struct stream_base *base);
void idle_leave(struct stream_base *base);
void idle_disturb(void); /* a call is being issued */
void idle_settle(void);  /* it has been */
bool idle_try(void);     /* true: nothing is under way, nor will be until idle_end() */
void idle_end(void);
/* What the executors of this process are about; a moment later it may be otherwise. */
struct idle_view {
    bool graphs;      /* something was captured: what graphs replay is not seen */
    uint64_t devices; /* ordinals that have a GPU executor */
};
struct idle_view idle_look(void);

#endif
