/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives of one group on one team: all at the same time. */
#ifndef TUTTI_ENGINE_P2P_H
#define TUTTI_ENGINE_P2P_H

#include "engine/team.h"

struct p2p_item {
    bool sends;
    int peer;
    void *data;
    size_t count;
    tutti_type_t type;
};

/* Enqueues them as one operation. */
tutti_result_t p2p_issue(struct team *team, const struct p2p_item *items, int count, struct tutti_stream *stream);

/* Under the team's and the engine's locks. */
tutti_result_t p2p_start(struct team *team, struct op *op);
tutti_result_t p2p_step(struct team *team, struct op *op);
bool p2p_may_move(const struct op *op);
/* Is what the operation was last found to wait for still on its way? Under the engine's lock. */
bool p2p_waits(const struct op *op);
/* What a running one that waits for a peer waits for, as WIRE_CALL says it. */
void p2p_describe(const struct op *op, struct wire_message *head);
void p2p_end(struct team *team, struct op *op);
void p2p_free(struct p2p *p2p);

#endif
