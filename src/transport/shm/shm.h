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
#include "transport/shm/attach.h"
#include "transport/shm/import.h"
#include "transport/shm/ring.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define SHM_MAX_MSG (131072 + 64) /* a payload of 128 KiB and what the link puts before it */
#define SHM_QUEUE   32            /* unfinished puts of one lane */
#define SHM_TURN    (1 << 20)     /* bytes put before others have their turn */

/* The first packet of whoever connects; with it the lane's memory, its page and its bell. */
struct shm_hello {
    struct wire_hello hello;
    struct ring_shape shape;
    struct attach_word word; /* of the sender */
};
_Static_assert(sizeof(struct shm_hello) == 440, "shm_hello is part of the protocol");

enum shm_notice_type { SHM_WELCOME = 1, SHM_SHARE, SHM_REGION, SHM_DROP, SHM_DECLINE, SHM_MAPPED };

/* Any later packet. A welcome answers a hello, or a decline does: not now. A welcome brings page and bell, a share or
 * region its descriptor. */
struct shm_notice {
    uint32_t magic;                /* SHM_MAGIC */
    uint32_t type;                 /* enum shm_notice_type */
    uint64_t key;                  /* of a share; id of a region; address of a welcome's attach_word */
    uint64_t size;                 /* of a region; value of a welcome's attach_word */
    uint8_t uuid[WIRE_UUID_BYTES]; /* of the sender of a welcome */
};
#define SHM_MAGIC 0x53545455u /* "UTTS" */
_Static_assert(sizeof(struct shm_notice) == 40, "shm_notice is part of the protocol");

/* The page that a process shows to all its peers. */
struct shm_page {
    _Alignas(CACHE_LINE) _Atomic uint32_t sleeping; /* ring the bell after a store */
};
#define SHM_PAGE 4096

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
    bool given_up; /* the source is not read any more */
};

struct shm_lane {
    struct carrier base;
    struct poll_source source; /* the socket */
    struct shm_peer *peer;
    struct list of_peer;
    struct list active;
    unsigned watch; /* index; NO_WATCH: none */
    uint16_t index;
    uint8_t uuid[WIRE_UUID_BYTES]; /* who should answer */
    struct transport_timer deadline;
    struct ring_shape shape;
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
    bool unfinished;    /* the slot at hand stays: a pull that goes on */
};
#define NO_WATCH (~0u)

/* lane.c */
tutti_result_t shm_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                             uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out);
void shm_lane_close(struct lane *lane);
void shm_lane_reap(struct lane *lane);
void shm_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]);
tutti_result_t shm_fail(struct shm_lane *lane, const char *what, int error);

/* watch.c */
bool shm_watch_add(struct shm_lane *lane);
void shm_watch_remove(struct shm_lane *lane);
/* Receives on the lanes whose slot has come. */
int shm_watch_poll(struct shm_transport *shm);
bool shm_watch_news(const struct shm_transport *shm);

/* control.c: packets on the socket */
/* Reads what came on all sockets of the peer, from inside a slot's handling. */
void shm_fetch_shared(struct shm_lane *lane);
bool shm_control_send(int fd, const void *bytes, size_t size, const int *fds, int count);
/* Reads packets until there is none. `inside` a slot's handling, the end of the socket is left for later. */
void shm_control_drain(struct shm_lane *lane, bool inside);
tutti_result_t shm_share(struct lane *lane, uint64_t key, int fd);

/* peer.c */
struct shm_peer *shm_peer_join(struct shm_lane *lane, const uint8_t *uuid, pid_t pid, int page_fd, int bell);
void shm_peer_leave(struct shm_lane *lane);
void shm_peer_try_attach(struct shm_peer *peer, struct attach_word word);
/* The lane whose socket carries what concerns the peer as a whole; -1: none. */
int shm_peer_socket(const struct shm_peer *peer);

/* share.c: regions of this process and of peers */
/* Tells the peer of regions that it does not know, and of those of its own that are mapped here. */
void shm_announce(struct shm_transport *shm, struct shm_peer *peer);
/* Tells peers which regions are freed. */
void shm_tell_frees(struct shm_transport *shm);
/* What a full socket did not take is said again. */
void shm_say_again(struct transport_timer *again);
void shm_peer_region(struct shm_peer *peer, uint32_t id, uint64_t size, int fd);
void shm_peer_drop(struct shm_peer *peer, uint32_t id);
void shm_peer_maps(struct shm_peer *peer, uint32_t id);
/* The peer's end: nothing of it is mapped any more, nor of ours there. */
void shm_peer_forget_regions(struct shm_peer *peer, const struct shm_transport *shm);
/* In the peer's region; NULL if it is not mapped here or does not hold [from, from + length). */
const char *shm_peer_map(struct shm_peer *peer, uint32_t id, uint64_t from, uint64_t length);
/* Has the peer our region mapped? Else it is told of it. */
bool shm_peer_has(struct shm_lane *lane, uint32_t region);
void shm_announce_region(struct transport *transport, const void *address);

/* send.c */
tutti_result_t shm_msg(struct lane *lane, const struct iovec *parts, int count);
tutti_result_t shm_put(struct lane *lane, const struct put *put);
void shm_give_up(struct lane *lane, uint64_t token);
/* Goes on with puts, and tells the owner of room. Returns how much was done. */
int shm_progress(struct shm_lane *lane);
/* Could shm_progress do something? */
bool shm_can_progress(struct shm_lane *lane);
void shm_activate(struct shm_lane *lane);

/* window.c: how much memory a direction of a lane uses */
/* What ring_reserve() gives; if that is nothing, asks for what will do later. */
void *shm_reserve(struct shm_lane *lane, size_t size);
/* Bulk comes: as wide a window as can be had, for a ring that is small bounces between two caches. */
void shm_widen(struct shm_lane *lane);
/* A message of this size can never go in the window as it is, and nothing has been done about that yet. */
bool shm_window_short(const struct shm_lane *lane, size_t size);
/* The lane's memory is mapped; it is about to be unmapped. */
void shm_window_open(struct shm_lane *lane);
void shm_window_close(struct shm_lane *lane);

/* pull.c */
/* Decides how a put is done. */
void shm_choose(struct shm_lane *lane, struct shm_put *put);
/* Tells the peer whether we can read its memory. */
void shm_tell_attach(struct shm_lane *lane);
/* Reads the next bytes of a put where they lie. True: it is done with. */
bool shm_pull(struct shm_lane *lane, const struct ring_pull *pull);

/* receive.c */
int shm_receive(struct shm_lane *lane);

/* Stores before this are seen by a peer that sleeps after: wake it if it does. */
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

/* The name of the socket of process `uuid`; abstract, or in /dev/shm. Returns the length of the address. */
socklen_t shm_name(const uint8_t *uuid, bool abstract, struct sockaddr_un *out);

#endif
