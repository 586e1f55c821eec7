/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life. */
#ifndef TUTTI_LINK_SILENCE_H
#define TUTTI_LINK_SILENCE_H

#include "link/domain.h"

/* Asks the peer for a sign on this lane. False: it takes no message now. */
bool silence_question(struct link_lane *lane);

/* Does anything wait for what the lane carries? An idle one has time: on a slow interface a question takes long. */
bool silence_matters(const struct link_lane *lane);
/* Asks a lane that has been silent for long for an answer. False: none came, and nothing moves, so it is given up;
 * error_last() says so. */
bool silence_probe(struct link_lane *lane, uint64_t now);

#endif
