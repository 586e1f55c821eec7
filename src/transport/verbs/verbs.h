/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over RDMA verbs. A lane is a reliable queue pair and a TCP connection. Over the connection the two ends
 * agree on the queue pair; then it is the sign of life: when it ends, so does the lane. Messages, and puts whose memory
 * is not registered, go by SEND through buffers of the lane; puts with a key are written where they belong by the
 * adapter (RDMA WRITE with immediate data).
 */
#ifndef TUTTI_TRANSPORT_VERBS_H
#define TUTTI_TRANSPORT_VERBS_H

#include "base/thread.h"
#include "transport/acceptor.h"
#include "transport/connector.h"
#include "transport/socket.h"
#include "transport/verbs/library.h"

#define VERBS_CHUNK      8192 /* bytes of one buffer of a lane, its head included */
#define VERBS_SENDS      32   /* work requests of a lane that are under way */
#define VERBS_RECEIVES   64   /* and receives that are posted */
#define VERBS_RESERVE    2    /* of the peer's receives, for words that give back ours */
#define VERBS_QUEUE      64   /* unfinished messages and puts of a lane */
#define VERBS_BATCH      16   /* completions taken at once */
#define VERBS_ROOM_FIRST 1024 /* completions that a new queue holds */
#define VERBS_MAX_MSG    (VERBS_CHUNK - sizeof(struct verbs_head))

enum verbs_type { VERBS_MSG = 1, VERBS_PUT, VERBS_ROOM, VERBS_TAKEN };

/* Before the payload of each SEND. A put is several of them. */
struct verbs_head {
    uint32_t type; /* enum verbs_type */
    uint32_t room; /* so many receives were posted anew since the last head */
    uint32_t imm;  /* of a put */
    uint32_t reserved;
    uint64_t length; /* of the message, or of the whole put */
    uint64_t offset; /* of the whole put */
};
_Static_assert(sizeof(struct verbs_head) == 32, "verbs_head is part of the protocol");

/* What one end must know of the other's queue pair. */
struct verbs_info {
    uint32_t qp, psn;
    uint8_t gid[16];
    uint16_t lid;
    uint8_t mtu;        /* enum ibv_mtu */
    uint8_t link_layer; /* of the port */
    uint8_t device;     /* by which struct wire_remote has the keys */
    uint8_t opened;     /* and how often it was opened anew, counted round: struct wire_remote says it, too */
    uint16_t receives;  /* posted */
};
_Static_assert(sizeof(struct verbs_info) == 32, "verbs_info is part of the protocol");

/*
 * The words over the connection, in this order: from who connects, the answer, that a packet has gone over the queue
 * pair and was acknowledged, and no. Yes is VERBS_TAKEN, over the queue pair, before all else.
 */
struct verbs_hello {
    struct wire_hello hello;
    struct verbs_info info;
};
struct verbs_welcome {
    struct socket_welcome welcome;
    struct verbs_info info;
};
#define VERBS_READY    0x52545455u /* "UTTR" */
#define VERBS_DECLINED 0x44545455u /* "UTTD" */
_Static_assert(sizeof(struct verbs_hello) <= ACCEPTOR_GREETING && sizeof(struct verbs_welcome) <= CONNECTOR_ANSWER,
               "greetings fit");

/* What is opened for one port of an adapter. */
struct verbs_parts {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
};

/* Closes what a lost device had, and opens the device anew when it is there again. Adapters take milliseconds and more
 * for that: a thread does it, and leaves `fresh` for the next poll. */
struct verbs_revival {
    struct verbs_device *device;
    struct thread thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;                    /* the transport is closed; under the lock */
    _Atomic bool done;            /* `fresh` is there */
    struct transport_timer start; /* when there was no thread to be had */
    struct verbs_parts old, fresh;
    struct ibv_mr **regions; /* of the old ones: of payloads that are still under way */
    int count;
};

/* One port of an adapter. */
struct verbs_device {
    struct verbs_transport *owner;
    unsigned index;                         /* among ours */
    char name[64];                          /* "mlx5_0:1" */
    struct verbs_parts open;                /* none: the device is lost */
    uint8_t opened;                         /* anew so often, modulo WIRE_OPENED */
    struct poll_source events, completions; /* descriptors of context and channel */
    int room;                               /* completions that the queue holds */
    int lanes;
    bool stuck; /* one of its queue pairs could not be ended, and may still write to memory */
    uint8_t port, link_layer, mtu;
    uint16_t lid;
    uint32_t most;                    /* bytes of a work request */
    uint32_t rate;                    /* Mbit/s; 0: not known */
    int distance;                     /* near_distance() */
    bool complained;                  /* a lane of it did not come up */
    struct ibv_gid_entry gid, home;   /* the address now, and that of the beginning, which peers know */
    struct ibv_wc early[VERBS_BATCH]; /* found while falling asleep */
    int early_count;
};

struct verbs_transport {
    struct transport base;
    const struct verbs_library *library;
    struct acceptor acceptor;
    struct acceptor_socket
        listening[WIRE_DEVICES + 1]; /* at the address of each port; the last one for those without */
    struct verbs_device device[WIRE_DEVICES];
    struct verbs_revival revival[WIRE_DEVICES];
    int devices;
    struct list memories;      /* registered */
    struct verbs_lane **lanes; /* by place */
    unsigned places;
    uint32_t serial; /* of the latest lane */
};

/* A message or put that waits, wholly or in part. */
struct verbs_item {
    bool is_put, given_up;
    uint32_t imm;
    uint64_t length, offset, token;
    uint64_t done; /* bytes that were sent */
    const unsigned char *body;
    void *copy; /* of a message, or of the rest of a put that was given up */
    const struct wire_remote *remote;
    const struct transport_memory *memory;
};

/* A work request that was posted. */
struct verbs_slot {
    bool direct;     /* it reads a put's source */
    uint32_t length; /* in bytes */
    uint64_t token;
};

/*
 * Of who connects: connecting; the first packet is under way; it got through, and the peer is to decide. Of the other:
 * greeted, and its owner does not know of the lane. Of both: usable.
 */
enum verbs_state { VERBS_CONNECTING, VERBS_PROVING, VERBS_ASKING, VERBS_GREETED, VERBS_OPEN };

struct verbs_lane {
    struct carrier base;
    struct connector connector;
    struct verbs_hello hello;  /* what who connects has said */
    struct poll_source source; /* the connection, once it was answered; fd -1: none */
    bool watched;
    struct transport_timer deadline; /* until the lane is usable */
    uint32_t word;                   /* from the connection, as far as it has come */
    size_t word_got;
    enum verbs_state state;
    uint16_t index;
    uint8_t peer[WIRE_UUID_BYTES];

    struct verbs_device *device;
    struct ibv_qp *qp;
    struct verbs_info mine, theirs;
    uint32_t place, serial; /* of the lane in work request numbers */
    unsigned char *memory;  /* VERBS_SENDS, then VERBS_RECEIVES chunks */
    struct ibv_mr *registered;
    uint32_t most_inline;

    struct verbs_item queue[VERBS_QUEUE];
    unsigned first, count;
    bool flushing, wants_room;
    struct verbs_slot slots[VERBS_SENDS]; /* of work request n at n % VERBS_SENDS */
    uint32_t posted, completed;
    uint32_t room; /* receives of the peer for us */
    uint32_t owed; /* receives of ours, posted anew, that it has not heard of */

    uint64_t acknowledged, taken; /* bytes of work requests that have ended: of sends, and of receives */
    uint64_t confirmed;           /* of the former, when last more was under way */

    struct verbs_head put; /* under way to us if length > 0 */
    uint64_t put_done;
};

/* device.c: ports of adapters */
/* Opens those that are wanted and work. TUTTI_INVALID_USAGE: there is none. */
tutti_result_t verbs_open_devices(struct verbs_transport *verbs);
void verbs_close_devices(struct verbs_transport *verbs);
/* The device is of no use any more: its lanes fail, and it is closed, and opened anew when it is there again. */
void verbs_lose_device(struct verbs_device *device, const char *what);
/* Of a device that is open: a protection domain, a completion channel and a queue. What could be made is in `parts`. */
tutti_result_t verbs_make_parts(const struct verbs_library *library, const char *name, struct verbs_parts *parts);
/* In the order opposite to that of making. What cannot be given back stays until the process ends. */
void verbs_close_parts(const struct verbs_library *library, const char *name, struct verbs_parts *parts);
/* From here on the device has these. If they cannot be watched they are the caller's again. */
tutti_result_t verbs_use_parts(struct verbs_device *device, const struct verbs_parts *parts);
/* That of a lane of this index, if its port is up: with room for its completions, and its address as it is now. No
 * other one takes its place, for the lane would stay there when the port is back. */
tutti_result_t verbs_take_device(struct verbs_transport *verbs, unsigned index, struct verbs_device **out);

/* revive.c: devices that are lost */
tutti_result_t verbs_revival_init(struct verbs_revival *revival, struct verbs_device *device);
/* Ends its thread, and closes what it has. Safe after a failed verbs_revival_init(), and without one. */
void verbs_revival_fini(struct verbs_revival *revival);
/* The device has just lost its parts, `old`. */
void verbs_revive(struct verbs_revival *revival, const struct verbs_parts *old);
/* From poll: takes what is done. True: the device is open again. */
bool verbs_revived(struct verbs_revival *revival);

/* pair.c: a lane's queue pair */
/* Makes it, with its buffers, and fills lane->mine. On failure verbs_pair_close() takes back what there is. */
tutti_result_t verbs_pair_open(struct verbs_lane *lane);
/* Joins it to that of the peer's info. */
tutti_result_t verbs_pair_join(struct verbs_lane *lane, const struct verbs_info *theirs);
/* From here on no adapter reads or writes anything for the lane. */
void verbs_pair_close(struct verbs_lane *lane);
/* Gives the memory of the buffers back, of which upcalls know until then. */
void verbs_pair_free(struct verbs_lane *lane);
/* The lane of a work request; NULL: it is closed. */
struct verbs_lane *verbs_lane_by_number(const struct verbs_transport *verbs, uint64_t number);

/* lane.c: the life of a lane */
tutti_result_t verbs_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                               uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out);
void verbs_lane_close(struct lane *lane);
void verbs_lane_reap(struct lane *lane);
void verbs_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]);
/* The lane fails: its queue pair ends at once, and down() follows; one that its owner does not know of is gone. */
tutti_result_t verbs_fail(struct verbs_lane *lane, const char *what, int error);
/* The peer's adapter has acknowledged a packet. */
void verbs_proven(struct verbs_lane *lane);
/* The peer has taken the lane. */
void verbs_taken(struct verbs_lane *lane);

/* send.c */
tutti_result_t verbs_msg(struct lane *lane, const struct iovec *parts, int count);
tutti_result_t verbs_put(struct lane *lane, const struct put *put);
void verbs_give_up(struct lane *lane, uint64_t token);
/* Sends a head without a payload, and asks for its completion. False: the lane has failed. */
bool verbs_say(struct verbs_lane *lane, enum verbs_type type);
/* Sends what there is room for, and tells the owner of room. From poll and handlers only. */
void verbs_move(struct verbs_lane *lane);
/* Work request `slot`, and all before it, are done. */
void verbs_sent(struct verbs_lane *lane, uint32_t slot);
void verbs_forget_queue(struct verbs_lane *lane);
uint64_t verbs_moved(struct lane *lane);

/* receive.c */
/* Posts receive `index`. False: the lane has failed. */
bool verbs_post_receive(struct verbs_lane *lane, uint32_t index);
/* Handles up to VERBS_BATCH completions of a device. Returns how many. */
int verbs_complete(struct verbs_device *device);

/* memory.c: registered memory */
tutti_result_t verbs_register(struct transport *transport, void *address, size_t length, struct transport_memory **out);
void verbs_deregister(struct transport *transport, struct transport_memory *memory);
/* Takes what is registered with a device that has no queue pairs any more: *out is to be freed. Returns how many. */
int verbs_take_regions(struct verbs_device *device, struct ibv_mr ***out);
/* False: the device does not know the memory. */
bool verbs_local_key(const struct transport_memory *memory, const struct verbs_device *device, uint32_t *out);

static inline struct verbs_lane *verbs_lane_of(struct lane *lane)
{
    return (struct verbs_lane *)lane;
}

static inline struct verbs_transport *verbs_of(struct verbs_lane *lane)
{
    return (struct verbs_transport *)lane->base.lane.transport;
}

static inline const struct verbs_library *verbs_calls(struct verbs_lane *lane)
{
    return verbs_of(lane)->library;
}

static inline unsigned char *verbs_send_chunk(const struct verbs_lane *lane, uint32_t slot)
{
    return lane->memory + (size_t)slot * VERBS_CHUNK;
}

static inline unsigned char *verbs_receive_chunk(const struct verbs_lane *lane, uint32_t index)
{
    return lane->memory + (size_t)(VERBS_SENDS + index) * VERBS_CHUNK;
}

/* Numbers of work requests say which lane, of all that ever were, and which of its sends or receives. */
#define VERBS_IS_RECEIVE 0x8000u
static inline uint64_t verbs_number(const struct verbs_lane *lane, uint32_t which)
{
    return (uint64_t)lane->serial << 32 | lane->place << 16 | which;
}

#endif
