/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a link asks a path policy: the seam of src/path. The link has the mechanism (segments, lanes, what is under
 * way). A policy decides which lanes there are, how much may be under way on each, and which takes the next segment.
 * Calls come under the engine's lock and must not call the link. Times are nanoseconds of CLOCK_MONOTONIC of this
 * process.
 */
#ifndef TUTTI_LINK_POLICY_H
#define TUTTI_LINK_POLICY_H

#include "base/param.h"
#include "base/place.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lanes by their indexes: those of the first transport, those of one that carries data alone, and that transport's lane
 * for messages. */
#define LINK_DATA_LANE    8  /* the first one of a transport that carries data alone, if any */
#define LINK_DATA_LANES   64 /* of that transport, at most */
#define LINK_MESSAGE_LANE (LINK_DATA_LANE + LINK_DATA_LANES) /* nothing is put there by a key */
#define LINK_MAX_LANES    (LINK_MESSAGE_LANE + 1)

/* Lanes of a link as bits, by index. */
__extension__ typedef unsigned __int128 lane_set;

static inline lane_set lane_bit(unsigned index)
{
    return (lane_set)1 << index;
}

/* Of a set that is not empty. */
static inline unsigned lane_first(lane_set set)
{
    uint64_t low = (uint64_t)set;
    return (unsigned)(low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(set >> 64)));
}

/* As messages have it. */
static inline lane_set lane_set_of(const uint64_t words[2])
{
    return (lane_set)words[1] << 64 | words[0];
}

struct board_use;

/* An interface of this process, as all links share it. */
struct path_nic {
    const struct transport_ops *ops;
    unsigned device; /* struct lane's */
    struct transport_nic about;
    int lanes;            /* lanes that are up, of all links */
    uint64_t outstanding; /* bytes put by all links that the peers do not have yet */
    uint64_t landed;      /* bytes that peers have, ever */
    bool own;             /* this process owns it, among those of the host (base/board.h), or has no other one */
    uint64_t took;        /* ns for which it serves a segment of its owner, the mean of the latest; */
    uint64_t pace;        /* a MiB of its owner */
    uint64_t served;      /* when it had served one last, */
    uint64_t serves;      /* or was given one to serve */
    uint64_t came;        /* when a segment came by it last whose sender owns the interface at its end, */
    uint32_t came_in;     /* the slot of its payload, */
    const void *came_by;  /* its link, */
    uint64_t takes;       /* ns for which it serves one of those, */
    uint64_t others;      /* and until when it is wanted for those of other links than that one */
    /* Of the other processes of this host, as last looked at: */
    uint64_t elsewhere; /* bytes outstanding */
    uint64_t theirs;    /* the quickest pace of an owner; 0: not known */
    int owners;         /* processes that own it; the process number of one: */
    uint32_t owner;
    bool busy;             /* its owners send, or did of late. One that does not run for longer than that is idle:
                              what it had under way has left */
    bool awaited;          /* a peer's owner is sending to one of them by it, or was of late */
    bool slow;             /* it is this process's own, and other owners find theirs much quicker */
    uint64_t lent;         /* bytes that borrow it, and wait here */
    struct board_use *use; /* where other processes read it; NULL: nowhere */
};

/* What a lane is for. One without any carries segments where no other lane can. */
enum path_role {
    PATH_DATA = WIRE_LANE_FOR_DATA,        /* segments */
    PATH_CONTROL = WIRE_LANE_FOR_MESSAGES, /* messages; while it is down, another lane carries them */
    PATH_BACKUP = WIRE_LANE_IS_BACKUP, /* segments while no lane for data is up, and until one has been for a while */
};

/* A lane as a policy sees it; kept by the link. */
struct path_lane {
    uint16_t index;              /* below LINK_MAX_LANES; also where a policy's state of it is */
    uint16_t roles;              /* enum path_role */
    bool room;                   /* takes a segment now: else it will, later */
    bool idle;                   /* the peer says that nobody needs the interface at its end, for what comes by it */
    enum wire_distance distance; /* of the peer, as the two say it */
    bool untold;                 /* they do not say it: FAR */
    uint64_t trip;               /* ns to the peer and back; 0: not known. Becomes less when it is measured again */
    uint32_t segments;           /* put, and not at the peer yet */
    uint64_t outstanding;        /* their bytes */
    struct path_nic *nic;        /* of its latest life */
};

/* Lanes of which transport to open? A link has lanes of one for messages, and perhaps of another for data alone. */
struct path_question {
    const struct wire_process *peer;
    const struct transport_ops *ops;
    bool messages;               /* its lanes carry messages */
    bool data;                   /* messages, and there is no other transport for data */
    enum wire_distance distance; /* of the peer */
    int likely;                  /* lanes that the transport finds worth having */
    int nics; /* interfaces of ours that it has: the i-th lane goes by the i-th, counted round; 0: it does not tell */
    const struct transport_nic *nic;
    int most; /* room for wishes */
};

enum path_class {
    PATH_PROMPT,  /* somebody waits for it */
    PATH_PATIENT, /* it may wait for what is prompt */
};

/* Whose bytes a payload's are. */
struct path_payload {
    struct place place; /* where they lie at this end */
    uint32_t near;      /* the interfaces nearest to them, as bits by path_nic.device; 0: not known, or all are alike */
    uint32_t slot;    /* those next to the slot that they lie in, on another GPU than the one they are of; 0: in none */
    uint32_t relayed; /* those next to slots of this process */
    const struct transport_ops *near_of; /* whose interfaces these are */
    enum path_class class;
    uint64_t left;    /* bytes that wait to be put, with this segment's */
    uint64_t segment; /* bytes of its segments; 0: not known */
};

/* TUTTI_BORROW_WHILE */
enum { PATH_WHILE_IDLE, PATH_WHILE_FRESH, PATH_WHILE_ANY };

#define PATH_BORROWED 2

/* Segments of borrowers that may wait for an interface; 0: all processes use all at any time. */
static inline uint64_t path_bound(void)
{
    int64_t told = param_int(PARAM_BORROW);
    return told < 0 ? PATH_BORROWED : (uint64_t)told;
}

/* Is it one of these, of the transport whose interfaces are told? */
static inline bool path_is_among(const struct path_nic *nic, const struct path_payload *payload, uint32_t nics)
{
    return nic->ops == payload->near_of && nic->device < 32 && nics >> nic->device & 1;
}

/* Is the interface the payload's own, by which it may go whatever others do? */
static inline bool path_is_direct(const struct path_nic *nic, const struct path_payload *payload)
{
    return payload->near ? path_is_among(nic, payload, payload->near) : nic->own;
}

/* A lane that is about to be joined to the peer's. */
struct path_source {
    const struct wire_process *peer;
    unsigned device; /* our interface, */
    unsigned nics;   /* of this number of interfaces */
    unsigned place;  /* of the lane among those of its transport: 0 for the first that path_policy.lanes() wishes for */
    bool messages;   /* it carries a link's messages alone, and is none of those */
    uint16_t index;  /* of the lane in its link */
    bool moves;      /* it was up, and did not fail: it is opened anew to get the port that steered() says */
    bool known;      /* both addresses are: of our interface and of the peer's, IPv4 behind ::ffff:0:0 */
    uint8_t from[16], to[16];
};

struct path_wish {
    uint16_t roles; /* enum path_role */
};

/* So much may be under way on a lane. 0: as much as fits. */
struct path_window {
    uint32_t segments;
    uint64_t bytes; /* a segment that is longer goes alone */
};

struct path_policy {
    const char *name;
    size_t state_bytes; /* of the state that each link has, zeroed when the link is made; handed to every call */

    /* Before there is any link: reads settings, and says in `self` where this process is. A failure is that of whoever
     * makes the first communicator. */
    tutti_result_t (*open)(struct wire_process *self);
    /* Which lanes to open: writes wishes for the first, second, ... of this transport and returns how many; negative:
     * not known yet, to be asked again within 20 ms. Before it has answered the link stands still, but for lanes that
     * the peer opens. */
    int (*lanes)(void *state, const struct path_question *question, struct path_wish *wishes);
    /* So much may be under way on the lane: no more is put before the peer has one of the segments. Asked for each,
     * after up(). payload: the next segment's; NULL: of no payload, to be shown. */
    struct path_window (*window)(void *state, const struct path_lane *lane, const struct path_payload *payload,
                                 uint64_t now);
    /* Position of the lane for the next segment, or -1: wait. All lanes that are up, with and without room; to choose
     * one without is to wait for it. After a wait it is asked again when a segment was sent or has landed; where none
     * is under way it may not wait. */
    int (*pick)(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now);
    /* A segment was put. */
    void (*posted)(void *state, const struct path_lane *lane, size_t length, uint64_t now);
    /* The peer has it, since `landed`: segments of a lane in the order of their puts. */
    void (*landed)(void *state, const struct path_lane *lane, size_t length, uint64_t posted, uint64_t landed);
    /* The lane works, from now on or again; it does not, and what was under way has come to nothing. */
    void (*up)(void *state, const struct path_lane *lane);
    void (*down)(void *state, const struct path_lane *lane);
    /* For a payload that is to come: the lanes on which it should land, as bits; 0: any. The credit carries it to the
     * sender, who keeps to it while one of them is up. */
    lane_set (*credit)(void *state, const struct path_payload *payload, uint64_t now);
    /* Bytes of a segment of that payload, `most` or fewer. lanes: those that may carry it. The credit says it to the
     * sender. */
    uint64_t (*segment)(void *state, const struct path_lane *const *lanes, int count,
                        const struct path_payload *payload, uint64_t most);
    /* The UDP source port of its packets; 0: any; -1: not known yet, to be asked again within 20 ms. Until then who
     * opens the lane waits, and who accepts it declines. The same for all links: there is no state. */
    int (*source)(const struct path_source *lane, uint64_t now);
    /* The port that a lane that is up is to have from now on; 0: as it is, which is `has`. `peer`: its uuid. */
    int (*steered)(const uint8_t *peer, uint16_t index, uint16_t has, uint64_t now);
};

/* As many lanes as are likely. All carry data, but those for messages only where there are no others; the first carries
 * messages. */
int path_all_data(void *state, const struct path_question *question, struct path_wish *wishes);

/*
 * The policy with an answer to every question: where its table has a gap, that of a policy to which the question means
 * nothing. All functions but pick() may be left out. Lanes are then those of path_all_data().
 */
struct path_policy path_complete(const struct path_policy *policy);

#endif
