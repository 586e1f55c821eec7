/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lane takes which path of a fabric: a state that is a pure function of its events. No file, no socket, no clock.
 *
 * A lane is a flow of one direction between two NICs. Its path is an uplink of the leaf where it begins, which the
 * source port chooses, and what follows from it: the spine, and the link down. The k-th link of a spine to one leaf
 * leads to its k-th link to the other (the virtual routers that paths/acl.c makes). Over the core, uplink n of one leaf
 * leads to uplink n of the other.
 *
 * Questions (allot_ask() and the others) change nothing and answer with an event; allot_apply() makes it so. The same
 * events, applied again in their order, make the same state. Lanes belong to owners, agents of hosts, which live until
 * a time that they renew; that time alone is no event.
 */
#ifndef TUTTI_PATHMASTER_ALLOT_H
#define TUTTI_PATHMASTER_ALLOT_H

#include "paths/paths.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOT_LANES      (1 << 22)
#define ALLOT_OWNERS     (1 << 17)
#define ALLOT_OWN_LANES  (1 << 16) /* of one owner */
#define ALLOT_SECRET     16        /* bytes */
#define ALLOT_PARTS      128       /* lanes that share a NIC, at most */
#define ALLOT_WAVE_PARTS 8         /* waves of a plan, or more where one NIC has more lanes to move */

/* Links in the order of `load`: uplinks up, uplinks down, all core links of a spine up, the same down. */
struct allot_way {
    int32_t uplink, down; /* of the fabric's uplinks */
    int32_t out, in;      /* spines whose core links are taken; -1: the way stays in its zone */
    uint8_t side;         /* port of both NICs: a way never goes from the left one to a right one */
};

struct allot_lane {
    uint64_t number; /* the owner's */
    int32_t owner;   /* -1: the place is free */
    int32_t from, to;
    uint32_t weight; /* kbit/s */
    uint16_t port;
    struct allot_way way;
    uint64_t wave; /* in which the owner hears of the latest move; 0: there was none */
    int32_t next_own, before_own, next_number, next_port;
};

struct allot_owner {
    uint8_t secret[ALLOT_SECRET];
    int32_t tenant; /* -1: the place is free */
    int32_t first;  /* of its lanes; -1: none */
    int32_t count;
    uint64_t until; /* nanoseconds */
    int32_t next;   /* with the same hash */
};

struct allot {
    const struct paths *paths;
    double *capacity;      /* of each link, kbit/s; 0: it is left out */
    double *full;          /* the same of a link without faults */
    uint8_t *told, *found; /* percent that each uplink has of its rate, as operators told and as probes found */
    uint64_t *load;        /* kbit/s of the lanes */
    struct allot_lane *lane;
    int32_t lanes, places, room, free_lane;
    struct allot_owner *owner;
    int32_t owners, owner_places, owner_room, free_owner;
    int32_t *by_number, *by_port; /* hashes of lanes: the first of each chain, -1: none */
    int32_t *by_secret;           /* the same of owners */
    int32_t hashes;               /* of lanes; a power of two */
    uint64_t wave;                /* the latest that is planned */
    uint64_t events;              /* that were applied */
    bool uneven;                  /* something has changed since the latest plan */
};

enum allot_kind {
    ALLOT_OWNER = 1, /* an owner comes */
    ALLOT_GIVE,      /* a lane gets a path */
    ALLOT_MOVE,      /* another one */
    ALLOT_END,       /* a lane ends */
    ALLOT_LEAVE,     /* an owner, with all its lanes */
    ALLOT_LINK,      /* an uplink is faulty, slow, or whole again */
};

/* Only the fields of the kind have a meaning. */
struct allot_event {
    enum allot_kind kind;
    int32_t owner, tenant; /* all but LINK; OWNER */
    uint8_t secret[ALLOT_SECRET];
    uint64_t number;  /* GIVE, MOVE, END */
    int32_t from, to; /* GIVE: NICs */
    uint32_t weight;  /* GIVE */
    int32_t uplink;   /* GIVE, MOVE, LINK */
    uint8_t side;     /* GIVE, MOVE */
    uint16_t port;    /* GIVE, MOVE */
    uint64_t wave;    /* GIVE, MOVE */
    uint32_t percent; /* LINK: of its rate; 0: it takes nothing */
    bool probed;      /* LINK: probes found it; else an operator told it. The lesser one counts */
};

/* `paths` stays the caller's until allot_close(), which may follow a failure, too. */
tutti_result_t allot_open(struct allot *allot, const struct paths *paths);
void allot_close(struct allot *allot);

/* TUTTI_INVALID_ARGUMENT after error_note: the event makes no sense in this state, which stays as it was. */
tutti_result_t allot_apply(struct allot *allot, const struct allot_event *event);

/* ---- questions ---- */

enum allot_answer {
    ALLOT_NEW,       /* the event gives the path */
    ALLOT_KNOWN,     /* the lane has one */
    ALLOT_NEAR,      /* both NICs are at one leaf: any port will do */
    ALLOT_NO_WAY,    /* no path without a fault leads there */
    ALLOT_NO_PORT,   /* all source ports of the paths between the two are taken */
    ALLOT_TOO_MANY,  /* the owner has ALLOT_OWN_LANES, or there are ALLOT_LANES */
    ALLOT_DIFFERENT, /* the owner has another lane of that number */
    ALLOT_UNKNOWN,   /* the fabric does not have both NICs */
};

struct allot_ask {
    int32_t owner;
    uint64_t number;
    int32_t from, to; /* NICs */
    uint32_t parts;   /* lanes that share what the NIC sends; 1 to ALLOT_PARTS */
    bool idle;        /* it carries next to nothing */
    bool again;       /* the lane failed where it was: another path, if there is one */
    uint16_t port;    /* that a new lane would keep: it had the port before; 0: none */
};

enum allot_answer allot_ask(const struct allot *allot, const struct allot_ask *ask, struct allot_event *out);

int32_t allot_find_owner(const struct allot *allot, int32_t tenant, const uint8_t secret[ALLOT_SECRET]); /* -1: none */
/* The place of the next owner; -1: there are ALLOT_OWNERS. */
int32_t allot_next_owner(const struct allot *allot);
/* An owner whose time is over, at place `from` or behind it; -1: there is none. */
int32_t allot_overdue(const struct allot *allot, int32_t from, uint64_t now);
int32_t allot_find_lane(const struct allot *allot, int32_t owner, uint64_t number); /* -1: none */

/* The way by an uplink; false: it leads elsewhere. */
bool allot_way(const struct allot *allot, int32_t from, int32_t to, uint8_t side, int32_t uplink,
               struct allot_way *out);
/* Is no link of the way left out? */
bool allot_is_open(const struct allot *allot, const struct allot_way *way);

/* How full a way is with so much more on it; 1 is full. */
struct allot_fill {
    double most, sum; /* of its fullest link, and of all */
};
/* `self`: a lane that is not counted where it is; NULL: all are. */
struct allot_fill allot_fill(const struct allot *allot, const struct allot_way *way, uint32_t weight,
                             const struct allot_lane *self);

bool allot_is_taken(const struct allot *allot, int32_t from, int32_t to, uint16_t port);
/* A source port of the uplink that no other lane between the two NICs has; 0: none. */
uint16_t allot_port(const struct allot *allot, int32_t from, int32_t to, int32_t uplink);

/* Places in `load`. */
struct allot_links {
    int count;
    int32_t link[4];
};
struct allot_links allot_links(const struct allot *allot, const struct allot_way *way);

/* The emptiest way for a lane. */
struct allot_choice {
    struct allot_way way;
    uint16_t port;
    struct allot_fill fill; /* with the lane on it */
};
enum allot_answer allot_choose(const struct allot *allot, const struct allot_lane *lane, bool placed, int32_t avoid,
                               struct allot_choice *out);

/* ---- plans ---- */

/*
 * One plan: lanes leave links that are left out, then links that are fuller than others by more than the lane, until
 * none is. Each event is applied, and handed to `event` before that; false from there ends the plan. The lanes of the
 * plan are told in waves, of which each has one lane of a NIC and an ALLOT_WAVE_PARTS-th of all, or 64.
 */
tutti_result_t allot_plan(struct allot *allot, bool (*event)(void *context, const struct allot_event *event),
                          void *context);

#endif
