/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of black boxes reads from, a file or memory, and the clock of the box. Private to the reader. */
#ifndef TUTTI_WIRE_BOXSOURCE_H
#define TUTTI_WIRE_BOXSOURCE_H

#include "wire/boxread.h"

#define BOX_TRIES 8 /* readings of a part that is being written */

struct box_source {
    int fd; /* -1: memory */
    const uint8_t *bytes;
    uint64_t size;
};

/* Ticks to nanoseconds: mono + (ticks - base) * rate. A rate of 0 is unknown. */
struct box_rate {
    uint64_t base, mono;
    double ns_per_tick;
};

bool box_source_read(const struct box_source *source, uint64_t offset, void *to, size_t length);

/* 0 stays 0: not so far. Never overflows. */
uint64_t box_rate_ns(const struct box_rate *rate, uint64_t ticks);

/* Orders two readings of the same bytes, which the kernel copies. */
void box_source_barrier(void);

/* Appends the communicator in `place`, if there ever was one. False: no memory. */
bool box_read_comm(struct blackbox *box, const struct box_source *source, const struct box_rate *rate, unsigned place);

/* The same for a lane. */
bool box_read_lane(struct blackbox *box, const struct box_source *source, const struct box_rate *rate, unsigned place);

/* Copies text from outside: ends at the first zero or at the end, and holds no control characters. */
void box_copy_text(char *to, size_t to_size, const char *from, size_t from_size);

#endif
