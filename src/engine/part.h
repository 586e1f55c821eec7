/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a team: some of its ranks, as a team of their own, such as those of one host, or those of one index on each
 * host. A part belongs to the calls of its whole, fails with it, and takes a place in the black box only where it is
 * asked to. docs/engine.md.
 */
#ifndef TUTTI_ENGINE_PART_H
#define TUTTI_ENGINE_PART_H

#include "engine/op.h"
#include "engine/team.h"

/* What tells parts apart that are made at one place of the whole's sequence. */
struct part_config {
    uint32_t kind, index;
    const char *name;
};

/*
 * The part with members[0 .. count - 1], ranks of the whole, of which this rank is one; in this order they are ranks of
 * the part. All members make it at the same place in the sequence of the whole's collectives: what they have the same
 * (whole, place, kind, index) is the same part. Ended by team_close(), before the whole. No part of a part.
 */
tutti_result_t team_part(struct team *whole, const int *members, int count, const struct part_config *config,
                         struct team **out);
/* Gives this part a place in the black box, named after its whole and `index`. Before its first operation. */
void team_part_show(struct team *part, uint32_t index);
/*
 * A call of the whole that its parts carry out has a number and a record among the whole's own calls, between these
 * two. Operations of parts belong to that call meanwhile. For the thread that issues, while nothing of the whole's own
 * is under way. step: wire_op_step(); 0: it is all of the call.
 */
void team_carry(struct team *whole, const struct call *call, uint32_t step);
void team_carried(struct team *whole, tutti_result_t result);
/* Of one level of the whole (see team_levels()): those of this rank's group, in the order of levels. The index is the
 * group's number, whatever the config says. */
tutti_result_t team_part_of_level(struct team *whole, int level, const struct part_config *config, struct team **out);

#endif
