/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a schedule, round by round, for any number of ranks: rounds that look alike are looked at once and
 * counted.
 */
#ifndef TUTTI_FABRIC_PATTERN_H
#define TUTTI_FABRIC_PATTERN_H

#include "schedule/schedule.h"
#include "tutti/tutti.h"

#define PATTERN_MESSAGES (1 << 21) /* of one round, at most */
#define PATTERN_ROUNDS                                                                                                 \
    64 /* a schedule of at most this many rounds is looked at whole; the number of alike rounds that are looked at */

struct pattern_message {
    int32_t from, to; /* ranks */
    float part;       /* of the vector */
};

/* The rounds to look at, and the number that each stands for. */
struct pattern_list {
    int count;
    double rounds; /* of the schedule */
    int32_t *round;
    double *times;
};

struct pattern {
    int32_t count, room;
    struct pattern_message *message;
    double most;    /* messages that one rank sends or gets */
    double reduced; /* most that a rank folds, of the vector */
};

/* TUTTI_INVALID_ARGUMENT: the shape does not fit, or has rounds of more than PATTERN_MESSAGES messages. */
tutti_result_t pattern_rounds(const struct algorithm *algorithm, const struct shape *shape, struct pattern_list *out);
void pattern_list_free(struct pattern_list *list);

/* The messages of one round. `pattern` is zeroed before its first use, and grows. */
tutti_result_t pattern_round(const struct algorithm *algorithm, const struct shape *shape, int round,
                             struct pattern *pattern);
void pattern_free(struct pattern *pattern);

#endif
