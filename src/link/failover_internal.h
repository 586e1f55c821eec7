/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the model share: connections are in failover_model.c, what an end does with them in
 * failover_ends.c. */
#ifndef TUTTI_LINK_FAILOVER_INTERNAL_H
#define TUTTI_LINK_FAILOVER_INTERNAL_H

#include "link/failover_model.h"

/* One step: what it is about, and the first thing that went wrong. */
struct step {
    const struct model_shape *shape;
    struct model_state *state;
    const char *wrong;
};

static inline void blame(struct step *step, const char *what)
{
    if (!step->wrong)
        step->wrong = what;
}

static inline bool mutated(const struct step *step, enum model_mutation mutation)
{
    return step->shape->mutation == mutation;
}

static inline bool is_message_lane(const struct model_shape *shape, int lane)
{
    return lane < shape->lanes;
}

static inline int lanes_of(const struct model_shape *shape)
{
    return shape->lanes + shape->data_lanes;
}

/* The connection of a lane that this side holds; NULL: it holds none. */
struct model_connection *model_held(struct model_state *state, int side, int lane);
void model_drop_flight(struct model_end *end);
/* What has left already goes on, and lands while the other end is open. */
void model_close_end(struct model_connection *c, int side);
void model_break_connection(struct model_connection *c);
/* Does the connection take nothing more from this side? */
bool model_refuses(const struct model_connection *c, int side);
/* Something leaves this side. */
void model_fly(struct step *step, struct model_connection *c, int side, uint8_t what);
/* The lane begins to read the source of a put. */
void model_read(struct step *step, struct model_connection *c, int side, uint8_t put);

/* The functions of the link that have these names, but for the prefix. */
uint16_t model_admit(struct step *step, int side);
void model_message_received(struct step *step, int side, uint16_t message);
void model_bulk_arrived(struct step *step, uint8_t put);
void model_bulk_credit(struct step *step, int payload);
void model_bulk_expect(struct step *step, int payload);
void model_bulk_pump(struct step *step, int side);
void model_finish_if_read(struct step *step, int payload);
void model_lane_is_up(struct step *step, int side, int lane);
void model_lane_down(struct step *step, int side, int lane);
void model_lane_suspect(struct step *step, int side, int lane, bool suspect);
void model_lane_retire(struct step *step, int side, int lane);
void model_lanes_accepted(struct step *step, int side, struct model_connection *c);
void model_lanes_lose(struct step *step, int side);

#endif
