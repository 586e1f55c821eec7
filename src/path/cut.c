/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the segments of a payload are. One that has fewer segments than there are lanes would leave the others idle,
 * and all of it goes by one or two uplinks: so it is cut into at least one piece for each lane, and into as many for
 * each as for any other. Each distance has its longest segment (DQPLB, NCCLX section 4.4.1). A piece that is sent
 * faster than it is posted would cost more than it brings.
 */
#include "path/path.h"

#define LEAST   16384 /* bytes of a piece */
#define POST_US 4     /* a piece takes the wire for this time at least */
#define ALIGN   4096  /* pieces begin at pages of an aligned payload */

/* Bytes of the shortest piece; 0: nobody knows how fast a lane is. */
static uint64_t shortest(const struct path_lane *const *lanes, int count)
{
    uint64_t most = 0;
    for (int i = 0; i < count; i++) {
        uint64_t bytes = (uint64_t)lanes[i]->nic->about.rate * POST_US / 8;
        if (!bytes)
            return 0;
        most = bytes > most ? bytes : most;
    }
    return most > LEAST ? most : LEAST;
}

/* Of lanes to different ports the nearest port's, and the slowest's. */
static uint64_t cut_most(const struct path_lane *const *lanes, int count, uint64_t most)
{
    for (int i = 0; i < count; i++) {
        uint64_t here = path_segment_of(lanes[i]);
        most = here < most ? here : most;
    }
    return most;
}

uint64_t path_cut(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                  uint64_t most)
{
    uint64_t least = count > 1 ? shortest(lanes, count) : 0, ways = (uint64_t)count;
    most = cut_most(lanes, count, most);
    if (!least || least >= most || payload->left < 2 * least)
        return most;
    uint64_t pieces = (payload->left + most - 1) / most, fit = payload->left / least;
    uint64_t even = (pieces + ways - 1) / ways * ways;
    even = even < fit ? even : fit;
    if (even <= pieces)
        return most;
    uint64_t piece = (payload->left + even - 1) / even;
    piece = (piece + ALIGN - 1) / ALIGN * ALIGN;
    return piece < most ? piece : most;
}
