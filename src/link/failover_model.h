/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failover protocol of links as a model small enough to look at every state: two ends, a few lanes, a few payloads,
 * and a bounded number of faults, in every order. docs/understand/failover.md says what each part stands for.
 * link_model_test holds the code to it.
 */
#ifndef TUTTI_LINK_FAILOVER_MODEL_H
#define TUTTI_LINK_FAILOVER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_LANES       3
#define MODEL_PAYLOADS    2
#define MODEL_SEGMENTS    3
#define MODEL_CONNECTIONS 8
#define MODEL_QUEUE       20 /* messages that the peer does not have */
#define MODEL_FLIGHT      20 /* on their way on one connection, one way */
#define MODEL_ACTIONS     128
#define MODEL_WAY         256 /* steps from the beginning */
#define MODEL_READING     0x80
#define MODEL_ARRIVED     0x7f

/* What a mutation does to the protocol: the checker must find each. */
enum model_mutation {
    MODEL_AS_IT_IS,
    MODEL_NO_CONFIRMATION,  /* segments are put again when the lane is closed here, before DOWN_OK */
    MODEL_OK_UNCLOSED,      /* DOWN is answered, and the lane stays open */
    MODEL_OK_CONNECTING,    /* ... if the lane is not up yet */
    MODEL_NO_HAVE,          /* DOWN is answered without HAVE */
    MODEL_OK_BEFORE_HAVE,   /* the two in the wrong order */
    MODEL_UNCONFIRMED_USED, /* a lane that came back is used before the old epoch is confirmed */
    MODEL_NO_RESEND,        /* messages are not repeated on the next lane */
    MODEL_NO_SEQUENCE,      /* repetitions of messages are taken for new ones */
    MODEL_SAY_NOTHING,      /* no DOWN */
    MODEL_NO_REVOKE,        /* a receive is given up and its memory stays open to the peer's adapter */
    MODEL_SUSPECT_AGAIN,    /* segments of a lane are put again elsewhere when it is suspected, and it stays open */
    MODEL_SUSPECT_SILENT,   /* messages leave a suspected lane, and those that it had are not repeated */
    MODEL_RETIRE_OPEN,      /* a suspected lane is retired, and this end of it stays open */
    MODEL_STANDS_UNDONE,    /* a payload goes by a credit that stands, and DONE of the one before has not come */
    MODEL_MUTATIONS,
};

enum model_kind {
    MODEL_CONNECT,             /* the peer accepts or declines an attempt, also one that was given up */
    MODEL_UP,                  /* the side that connected learns of it */
    MODEL_DELIVER,             /* what `side` sent first on the connection arrives */
    MODEL_SENT,                /* the lane has read this side's oldest put */
    MODEL_DOWN,                /* this side learns that the connection is broken or closed by the peer */
    MODEL_RETRY,               /* this side connects a lane again that is down */
    MODEL_POST,                /* the receive of a later payload begins */
    MODEL_LOSE,                /* no lane came up for TUTTI_TIMEOUT */
    MODEL_TRUST,               /* a suspected lane goes on */
    MODEL_RETIRE,              /* a suspected lane does not, and others to the peer do */
    MODEL_FAULTS,              /* the rest needs a fault of the budget */
    MODEL_KILL = MODEL_FAULTS, /* the connection breaks, with all that is under way on it; nobody knows yet */
    MODEL_ALARM,               /* this side gives a lane up that may well work: silence, a port event */
    MODEL_REFUSE,              /* an attempt fails */
    MODEL_CANCEL,              /* a receive is given up */
    MODEL_SUSPECT,             /* this side takes nothing more to a lane that may well work: others are ahead of it */
    MODEL_GIVE_UP,             /* MODEL_LOSE, of the first side */
    MODEL_KINDS,
};

struct model_action {
    uint8_t kind, side, lane, epoch, payload;
};

struct model_payload_shape {
    int from, segments;
    int after;   /* its receive begins when that of this payload is over; -1: at once */
    bool stands; /* it goes by the credit of that one, and may come before its receive begins */
};

struct model_shape {
    const char *name;
    int lanes, data_lanes, payloads;
    struct model_payload_shape payload[MODEL_PAYLOADS];
    int faults;
    unsigned kinds; /* of faults, as bits */
    int window;
    bool remote; /* the adapter writes where the sender says, asking nobody */
    enum model_mutation mutation;
};

enum model_lane_state { MODEL_NONE, MODEL_CONNECTING, MODEL_IS_UP, MODEL_LANE_DOWN };
enum model_message { MODEL_SAYS_CREDIT, MODEL_SAYS_DONE, MODEL_SAYS_DOWN, MODEL_SAYS_HAVE, MODEL_SAYS_OK };
/* Of a send or a receive. OVER: all has arrived, and a lane still reads. */
enum model_status { MODEL_UNBEGUN, MODEL_WAITS, MODEL_ACTIVE, MODEL_OVER, MODEL_DONE, MODEL_FAILED };

#define MODEL_SAY(kind, a, b)       ((uint16_t)((kind) << 12 | (a) << 8 | (b)))
#define MODEL_PUT(payload, segment) ((uint8_t)(0x80 | (payload) << 4 | (segment)))

/* One end of a connection. */
struct model_end {
    uint8_t there, up, closed, down;
    uint8_t flights, sources;
    uint8_t flight[MODEL_FLIGHT]; /* sent from here: MODEL_PUT(), or the how manyth of the messages that the peer does
                                     not have, from 1 */
    uint8_t source[MODEL_SEGMENTS * MODEL_PAYLOADS]; /* puts whose source is still read */
};

struct model_connection {
    uint8_t there, lane, opener, epoch, known, connecting, accepted, broken;
    struct model_end end[2];
};

struct model_lane {
    uint8_t state, epoch, dead_epoch, known, attempts, unconfirmed, puts, suspect;
};

struct model_side {
    struct model_lane lane[MODEL_LANES];
    uint8_t control; /* the lane, + 1; 0: none */
    uint8_t lost;
    uint8_t queued;
    uint8_t bulks, bulk[MODEL_PAYLOADS]; /* sends with segments to put */
    uint16_t queue[MODEL_QUEUE];         /* what the peer does not have of what was said */
};

struct model_send {
    uint8_t status, slot, next, lane_of[MODEL_SEGMENTS];
};

struct model_recv {
    uint8_t status, slot, bitmap, cancelled;
    uint8_t expected; /* of one that goes by a credit which stands: its receive has begun */
};

struct model_state {
    struct model_connection connection[MODEL_CONNECTIONS];
    struct model_side side[2];
    struct model_send send[MODEL_PAYLOADS];
    struct model_recv recv[MODEL_PAYLOADS];
    uint8_t faults; /* left */
};

void model_begin(const struct model_shape *shape, struct model_state *state);
/* What can happen next. Returns how much. */
int model_actions(const struct model_shape *shape, const struct model_state *state,
                  struct model_action actions[MODEL_ACTIONS]);
/* The action happens. Returns what is wrong with it, NULL: nothing. */
const char *model_act(const struct model_shape *shape, struct model_state *state, struct model_action action);
/* Are all payloads over, in good order or not? */
bool model_over(const struct model_shape *shape, const struct model_state *state);
void model_print_action(struct model_action action, char *out, size_t size);

/* failover_check.c: looks at every state that can be reached. */
struct model_result {
    uint64_t states, steps;
    uint64_t ended;    /* states in which all is over */
    const char *wrong; /* NULL: nothing is */
    int length;        /* of the shortest way there, */
    struct model_action way[MODEL_WAY];
};
/* Is told of each step: which of model_actions() was chosen, from the beginning on. */
typedef void model_visit(const struct model_shape *shape, const uint8_t *choices, int length);
/* most: states, with more of them the answer is "too many states". visit: may be NULL. */
void model_check(const struct model_shape *shape, uint32_t most, model_visit *visit, struct model_result *result);

#endif
