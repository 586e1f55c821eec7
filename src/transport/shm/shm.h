/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared-memory transport, between processes of one host and user. Processes meet at a unix socket; a lane is a
 * piece of shared memory with a ring per direction. The socket stays open: its end is the peer's end, and descriptors
 * travel on it.
 */
#ifndef TUTTI_TRANSPORT_SHM_H
#define TUTTI_TRANSPORT_SHM_H

#include "transport/common.h"
#include "transport/acceptor.h"
#include "transport/shm/import.h"
#include "transport/shm/protocol.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define SHM_MAX_MSG  (131072 + 64) /* a payload of 128 KiB and what the link puts before it */
#define SHM_MAX_LENT (256u << 10)
#define SHM_QUEUE    32        /* unfinished puts of one lane */
#define SHM_TURN     (1 << 20) /* bytes put before others have their turn */

/* A process that we have lanes to. */
struct shm_peer {
    struct list node;
    uint8_t uuid[WIRE_UUID_BYTES];
    struct attach attach; /* pid 0: none that we can see */
    struct shm_page *page;
    int bell;
    struct list lanes;
    struct list imports; /* its regions, mapped here */
    uint32_t announced;  /* our regions with ids up to this were told to the peer */
    uint32_t *told;      /* those of them that it was not told to drop */
    uint32_t told_count;
    bool attaches; /* cross-memory attach works */
};

struct shm_transport;
struct shm_lane;

/* What poll() looks at: one word, and what it must become. */
struct shm_watch {
    struct ring_slot *slot;
    uint32_t number;
    struct shm_lane *lane;
};

struct shm_transport {
    struct transport base;
    struct acceptor acceptor;
    struct acceptor_socket listening;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* of the socket where abstract names are not to be had, else
                                                             "" */
    struct shm_page *page;
    int page_fd;
    struct poll_source bell;
    struct list peers;
    struct shm_watch *watches; /* the first are looked at in every poll, the others in turn */
    unsigned watch_count, watch_room, watch_turn;
    struct list active;            /* lanes with puts under way or an owner that waits for room */
    struct region_watcher watcher; /* rings our bell when a region is freed */
    uint32_t frees;                /* region_frees() when last told to the peers */
    struct transport_timer again;  /* for news of regions that a full socket did not take */
    uint64_t memory;               /* bytes of lanes that we fill */
    unsigned lent;                 /* how much is: second parts of messages that the peers have not copied */
    struct list wide;              /* lanes with more than the first window */
    uint64_t looked;               /* when they were last looked at */
};

struct shm_put {
    struct put put;
    uint64_t done;     /* pieces of it that have gone through the ring, in bytes */
    uint32_t number;   /* of a pull that was posted */
    bool pull, stream; /* the peer is to read it where it lies; to store it around its cache */
    uint32_t region;   /* of a pull, and where in it; 0: by attach */
    uint64_t address;
    bool lent;     /* not a put: the second part of a message */
    bool given_up; /* the source is not read any more */
};

/* Copies made ahead, of pulls that the peer has not come to. */
struct shm_stage {
    unsigned char *out;          /* what we copy, */
    const unsigned char *in;     /* and what the peer has copied */
    uint32_t last;               /* the latest pull that we have begun to copy */
    uint64_t left;               /* bytes of it that are not copied; 0: we are done with it */
    unsigned at;                 /* the stage that it goes to */
    uint32_t holds[RING_STAGES]; /* pulls; 0: none */
    bool held;                   /* `out` may have pages */
};

struct shm_lane {
    struct carrier base;
    struct poll_source source; /* the socket */
    struct shm_peer *peer;
    struct list of_peer;
    struct list active;
    unsigned watch; /* index; NO_WATCH: none */
    uint16_t index;
    uint8_t uuid[WIRE_UUID_BYTES]; /* the peer that should answer */
    struct transport_timer deadline;
    struct shm_ring_shape shape;
    void *memory;
    struct ring_out out;
    struct ring_in in;
    struct list wide;
    uint64_t held;                  /* bytes of out.data that may have pages */
    uint64_t quiet_at, quiet_since; /* out.position, when it was last seen to move */
    size_t wants_room;              /* bytes that the owner was refused room for and is to be told of; 0: none */
    bool progressing, share_due;
    bool welcome_due; /* accepted: first the owner says whether it is wanted, then the socket may be used */

    struct shm_put queue[SHM_QUEUE];
    unsigned first, posted, count; /* the first `posted` are in the ring, and wait for the peer to read them */
    uint32_t pulls;                /* numbers given out */
    uint64_t revoked;              /* as we have told it */

    struct ring_put put; /* being received, if total > 0 */
    uint64_t put_done;   /* also of a pull */
    uint32_t pulled;
    uint64_t refused;
    bool shuns_regions; /* the peer could not map one */
    bool shuns_attach;  /* nor read memory that this process can read */
    bool unfinished;    /* the slot at hand stays: a pull that goes on, */
    bool deferred;      /* or one that nobody has asked for */

    struct shm_stage stage;
};
#define NO_WATCH (~0u)

/* peer.c. Stores before this are seen by a peer that sleeps after: wake it if it does. */
void shm_ring_bell_slowly(struct shm_peer *peer);
static inline void shm_ring_bell(struct shm_peer *peer)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&peer->page->sleeping, memory_order_relaxed))
        shm_ring_bell_slowly(peer);
}

static inline struct shm_lane *shm_lane_of(struct lane *lane)
{
    return (struct shm_lane *)lane;
}

static inline struct shm_transport *shm_of(struct shm_lane *lane)
{
    return (struct shm_transport *)lane->base.lane.transport;
}

#endif
