/* SPDX-License-Identifier: Apache-2.0 */
/* Policies for lanes: which of the lanes that have room takes the next segment. The mechanism is src/link. */
#ifndef TUTTI_PATH_PATH_H
#define TUTTI_PATH_PATH_H

#include "link/policy.h"

/* The lane that will be free first: the fewest unfinished segments, weighed by how long its segments take. C4P
 * section 3.2 sends on the queue pair that completes fastest; DQPLB (NCCLX section 4.4) bounds what is outstanding on
 * each, by the distance of the peer. */
extern const struct path_policy path_stripe;

/* A policy's open(): where this process is, by TUTTI_PLACE or TUTTI_PLACE_FILE; refuses those, and TUTTI_WINDOWS, with
 * a sentence where they are wrong. */
tutti_result_t path_settings(struct wire_process *self);
/* "zone=z1,rack=r7" for struct wire_process. False: the text is no place. */
bool path_parse_place(const char *text, uint32_t place[WIRE_PLACES]);

/* How far the peer is: as the two say, or by the round trip where they do not. */
enum wire_distance path_distance_of(const struct path_lane *lane);
/* Segments under way that a lane has at least where nobody tells a place: the queue of verbs lanes. Lanes that share a
 * link measure different round trips, by when they came up; a lower limit for one of them would be less of that link.
 */
#define PATH_UNTOLD 4
/* The most that may be under way, by that distance: as TUTTI_WINDOWS says or what the rate fills. us: of the way there
 * and back, if the window is to follow what goes through; 0: it is not. */
enum path_origin { PATH_AS_TOLD, PATH_BY_PLACE, PATH_BY_TRIP }; /* by the rate, from the second one on */
struct path_window path_window_of(const struct path_lane *lane, uint64_t *us, enum path_origin *origin);

struct path_windows {
    bool told[WIRE_DISTANCES];
    struct path_window window[WIRE_DISTANCES];
    uint64_t us[WIRE_DISTANCES]; /* there and back; 0: not told */
};
/* "rack=2,zone=8/4M,campus=0@400". False: the text is nothing of the kind. */
bool path_parse_windows(const char *text, struct path_windows *out);
/* "rack=1,campus=4": the same, with queue pairs for segments and nothing else. */
bool path_parse_queues(const char *text, struct path_windows *out);
/* "rack=64K,campus=1M": bytes of a segment; 0: not told. False: the text is nothing of the kind. */
bool path_parse_segments(const char *text, uint64_t out[WIRE_DISTANCES]);
/* The longest segment on a lane, TUTTI_SEGMENT at most: as TUTTI_SEGMENTS says of the distance. Else, where
 * TUTTI_SEGMENT is not set, the power of 2 that holds what the lane sends in a round trip and 4 us; 64 KiB at least.
 * Where nobody tells a place, and a round trip was measured, that of a rack counts. */
uint64_t path_segment_of(const struct path_lane *lane);

/* A policy's lanes(): as path_all_data(), but some lanes are backups (ICCL section 3.3: a queue pair on another
 * adapter, open and idle). Backups are the lanes of interfaces that TUTTI_BACKUP names, or that are farther from this
 * process than the nearest, unless those were all. */
int path_lanes_and_backups(void *state, const struct path_question *question, struct path_wish *wishes);

/* The lanes that the payload may go by, now: its own, and those of others that are idle (TUTTI_BORROW). Writes them in
 * their order and returns how many. 0, of what lies in a relay's slot alone: it is to wait for a segment that is under
 * way. */
int path_borrow(const struct path_lane *const *lanes, int count, const struct path_payload *payload, size_t length,
                const struct path_lane **out);

/* A policy's segment(): short payloads are cut for all lanes. */
uint64_t path_cut(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                  uint64_t most);

/* A policy's source(): the port that the path master gives, else the one that TUTTI_PATHS plans. */
int path_lane_source(const struct path_source *lane, uint64_t now);
/* The one that TUTTI_PATHS plans (dnlb.h). */
int path_planned_source(const struct path_source *lane, uint64_t now);
/* The one that the path master gives, by the agent at TUTTI_PATH_AGENT; 0: none. */
int path_leased_source(const struct path_source *lane, uint64_t now);
/* A policy's steered(): the port to which the path master has moved a lane. */
int path_leased_port(const uint8_t *peer, uint16_t index, uint16_t has, uint64_t now);

#endif
