/* SPDX-License-Identifier: Apache-2.0 */
/* The window of one lane, as it follows the rate that the lane is seen to have. */
#ifndef TUTTI_PATH_SHARE_H
#define TUTTI_PATH_SHARE_H

#include "path/path.h"

struct path_share {
    struct path_window most;      /* by the distance */
    uint64_t top, limit;          /* its bytes; what is let be under way now */
    uint64_t trip;                /* ns that the way there and back takes; 0: the window stays as it is */
    uint64_t measured;            /* of the lane, when `trip` was reckoned by it */
    uint64_t segment;             /* bytes */
    uint64_t first, last, bytes;  /* of the round: when it began, when the latest segment landed, what has since */
    uint64_t least, since;        /* delay of a segment; when it was looked for anew */
    uint64_t round_least;         /* delay of a segment of this round */
    enum path_origin origin;      /* of `most` */
    bool begun, counting, filled; /* a segment was put; a round goes on; the window was full in it */
};

/* The lane is up. */
void path_share_begin(struct path_share *share, const struct path_lane *lane);
/* Before the first segment the most. payload: the next segment's; NULL: none. */
struct path_window path_share_window(const struct path_share *share, const struct path_payload *payload);
/* As of a policy. */
void path_share_posted(struct path_share *share, const struct path_lane *lane, uint64_t now);
void path_share_landed(struct path_share *share, const struct path_lane *lane, size_t length, uint64_t posted,
                       uint64_t when);

#endif
