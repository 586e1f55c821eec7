/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport moves bytes on lanes: one lane joins this process and one peer process. This header is the contract of
 * all transports; tests/conformance checks each against it.
 *
 * Threads. All calls on a transport, and all upcalls, happen under the owner's lock: never two at once. No call blocks.
 * Upcalls come only from inside poll(), from poller handlers, and from put() and msg() where said. An upcall may call
 * any function of the transport, also close the lane that it is about: then no further upcall comes for that lane.
 *
 * Faults. A lane that fails goes down once, by upcall, with a result and error_last(). After that it only accepts
 * close(). Bytes of a message or put that were under way may or may not have reached the peer: the owner finds out and
 * repeats. Memory of the owner that cannot be read or written is the owner's fault, and no lane's: where the system
 * reads or writes it the owner is told by upcall. Where this process does, it gets the signal that it would get anyway.
 *
 * Hostility. Whatever a peer or stranger sends, a transport neither crashes nor writes outside what target() returned.
 */
#ifndef TUTTI_TRANSPORT_TRANSPORT_H
#define TUTTI_TRANSPORT_TRANSPORT_H

#include "base/place.h"
#include "base/poller.h"
#include "tutti/tutti.h"
#include "wire/blackbox.h"
#include "wire/link.h"
#include "wire/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct transport;
struct transport_ops;
struct lane;

enum transport_caps {
    TRANSPORT_SAME_HOST = 1, /* reaches only processes whose wire_process.host is ours */
    TRANSPORT_LOSSLESS = 2,  /* a lane loses nothing while the peer lives: no copy is kept for repeating */
    TRANSPORT_SHARES = 4,    /* share() works */
    TRANSPORT_CONFIRMS =
        8, /* sent() says that the peer has the put, or is about to: not that it lies in a long queue on its way */
    TRANSPORT_REGISTERS =
        32, /* a put with a key is stored at the address that the peer named by the hardware itself: see struct put */
    TRANSPORT_DATA = 16, /* for data: the messages of a link go over lanes of another transport, at least while none of
                            these is up */
    TRANSPORT_JUDGES = 128,  /* a lane whose peer's system confirms nothing goes down by itself, after a time that the
                                user sets: nobody else needs to ask whether it lives */
    TRANSPORT_MESSAGES = 64, /* for data, and as good for messages: a link has a lane of it for these alone */
};

/* Upcalls to the owner (the link layer). `user` is lane->user, set by the owner at open or accept. */
struct transport_owner {
    void *context;
    /* A peer that showed our secret opened a lane. The owner sets lane->user and returns true: what it says on the lane
     * from here on comes after the peer's up(). False, not now: the transport closes the lane, and down() at the peer
     * says TUTTI_SYSTEM_ERROR. An owner that closes the lane itself is gone for the peer: TUTTI_REMOTE_ERROR. Neither
     * was ever up at the peer. */
    bool (*accepted)(void *context, struct lane *lane, const struct wire_hello *hello);
    /* A lane made by open() is usable. */
    void (*up)(struct lane *lane);
    /* Before up(), TUTTI_REMOTE_ERROR says that nobody listens at the peer's address, or somebody else; other results,
     * that the peer could not be asked. */
    void (*down)(struct lane *lane, tutti_result_t why);
    /* A whole message, valid during the call, aligned to 8 bytes. Messages of one lane arrive in order, none twice. The
     * bytes may lie in memory that the peer can still write: copy what is checked before it is used. */
    void (*message)(struct lane *lane, const void *bytes, size_t length);
    /* Where bytes [offset, offset + length) of the put with `imm` go; address NULL: the bytes are dropped, silently.
     * The memory is valid until the owner gets control again; for the rest of a put the transport asks again. Where
     * this process or the system copies, a device's memory is refused: unwritable() follows, and the bytes are dropped.
     */
    struct place (*target)(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
    /* A whole put has arrived (also one that was dropped). Of one that was stored by its key `offset` is
     * TRANSPORT_NO_OFFSET. Puts and messages of one lane are notified in the order sent; only a put that we were to
     * read where it lies, and could not, comes later. */
    void (*arrived)(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
    /* The lane needs the source of the put with `token` no longer. */
    void (*sent)(struct lane *lane, uint64_t token);
    /* msg() or put() refused for want of room, and there is room again. */
    void (*writable)(struct lane *lane);
    /* A descriptor came from the peer by share(); the owner must close it. -1: this process may open no more. */
    void (*shared)(struct lane *lane, uint64_t key, int fd);
    /* The transport takes memory for its lanes, or gives it back: `bytes` bytes more. NULL: the owner does not count.
     */
    void (*memory)(void *context, int64_t bytes);
    /* The UDP source port that packets to `peer` of lane `index`, by interface `device`, are to have; 0: any; -1: not
     * known yet. Asked, where packets have one, each time before a lane is joined to the peer's. NULL: any. */
    int (*source)(void *context, const struct transport_ops *ops, const struct wire_process *peer, unsigned device,
                  uint16_t index);
    /* The UDP source port that the packets of a living lane to the process `peer` are to have from now on; 0: as it is,
     * which is `has`. Asked now and then. NULL: always as it is. */
    int (*steered)(void *context, const uint8_t *peer, uint16_t index, uint16_t has);
    /* The lane cannot have that port while it lives. Follows each time. */
    void (*stays)(struct lane *lane);
    /* The source of the put with `token` cannot be read, which is no fault of the lane. The put does not arrive, and no
     * sent() follows. NULL: the lane goes down instead. */
    void (*unreadable)(struct lane *lane, uint64_t token);
    /* What target() said for these bytes cannot be written here. They are dropped, and the next target() should say so.
     * NULL: the lane goes down instead. */
    void (*unwritable)(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
    /* A message of lend(): its first part, as in message(), and where `length` bytes of the second go; NULL: nowhere.
     * Else copied() follows before anything else, and says whether all was copied. What was not may come as a message.
     */
    void *(*lent)(struct lane *lane, const void *bytes, size_t size, size_t length);
    void (*copied)(struct lane *lane, bool whole);
    /* May the second part stay where it lies for now, as nothing has come behind it? lent() follows, or this again.
     * NULL: it may not. */
    bool (*lent_waits)(struct lane *lane, const void *bytes, size_t size, size_t length);
    /* What flush() was asked for with this token: the device sees it. NULL: the owner never asks. */
    void (*flushed)(void *context, uint64_t token);
    /* Has this process a processor that nobody else of the job wants? What it has no other work for may then help a
     * peer. NULL: not known. */
    bool (*spares)(void *context);
};

/* The queue pairs of a lane, and the addresses of the interfaces at both ends, as GIDs. Zeros: it has none. */
struct transport_ends {
    uint32_t queue, peer_queue;
    uint8_t address[16], peer_address[16];
};

/* Embedded first in each transport's own lane. */
struct lane {
    const struct transport_ops *ops;
    struct transport *transport;
    void *user;
    uint64_t bytes_sent, bytes_received; /* payload, kept by the transport */
    unsigned device;            /* our interface that it goes by, as the transport numbers them; known when it is up */
    uint64_t trip;              /* ns to the peer's adapter and back, the least of some; 0: not known. When it is up */
    uint16_t source;            /* UDP source port of its packets, where the owner has asked for one; 0: any */
    struct transport_ends ends; /* known when it is up */
};

/* An interface of this process. Where a transport has several, a lane of index i goes by the one of number i, counted
 * round, at each end by its own count. */
struct transport_nic {
    char name[32]; /* "eth0", "mlx5_0" */
    uint32_t port; /* of a device with ports; 0: it has none */
    uint32_t rate; /* Mbit/s; 0: not known */
    int distance;  /* to the nearest processor of this process, as near_distance() has it; 0: not known */
};

#define TRANSPORT_NO_OFFSET UINT64_MAX /* of a put of which nothing but `imm` and its length came along */

/* Memory that the hardware of a TRANSPORT_REGISTERS transport may read and write. */
struct transport_memory {
    void *address;
    size_t length;
    int devices;                /* of ours, at most WIRE_DEVICES */
    uint32_t key[WIRE_DEVICES]; /* for peers, by the device of ours to which they send; 0: this one cannot */
    uint32_t opened;            /* as in struct wire_remote */
    bool unordered;             /* a device's, which may see what was stored there only after flush() */
};

struct put {
    struct place source; /* valid until sent(), unreadable(), down() or close() */
    size_t length;       /* >= 1 */
    uint32_t imm;        /* handed to the peer's target() and arrived() */
    uint64_t offset;     /* the same */
    uint64_t whole;      /* bytes of all that the put is a part of; 0: of it alone */
    uint64_t
        token; /* handed to sent(), and known by it to give_up(); no other unfinished put of the lane has the same */
    /* For TRANSPORT_REGISTERS, if both ends have registered their memory; else NULL, and the peer is asked by target().
     * Then nobody is asked: the put is stored at remote->address + offset while the peer's end of the lane is open. The
     * owner of that memory closes the lane before giving it back. */
    const struct wire_remote *remote;
    struct transport_memory *memory; /* that `source` lies in */
};

struct transport_ops {
    const char *name;
    uint32_t caps;                    /* enum transport_caps */
    size_t max_msg;                   /* longest message */
    size_t max_lent;                  /* longest second part of lend(), also where that is NULL */
    enum wire_counter sent, received; /* where links count its bytes */
    uint32_t window; /* puts under way on a lane that keep it busy; more would only keep other lanes from their share */

    /* Listens, fills its part of `self` (addresses), and registers with the poller. self->uuid, secret, host, pid, uid
     * are set before; greetings say what is in `self` then, so it stays until close(). `ops` is this table.
     * TUTTI_INVALID_USAGE: this host has nothing of the kind, or it is switched off; another result: it has, and that
     * cannot be used. error_last() says why. */
    tutti_result_t (*open)(const struct transport_ops *ops, const struct transport_owner *owner, struct poller *poller,
                           struct wire_process *self, struct transport **out);
    /* All lanes have been closed by the owner before. */
    void (*close)(struct transport *transport);

    /* Can a lane to `peer` be opened? Lower is better, negative is no. */
    int (*reach)(struct transport *transport, const struct wire_process *peer);
    /* How many lanes to `peer` are worth having. */
    int (*lanes)(struct transport *transport, const struct wire_process *peer);
    /* What is known of interface `device`. False: there is none of this number. */
    bool (*nic)(struct transport *transport, unsigned device, struct transport_nic *out);
    /* Starts connecting; the hello carries epoch and known. TUTTI_IN_PROGRESS: the owner does not know the lane's
     * source port yet, and nothing was begun. A peer that does not know its own declines, as by accepted(). up() or
     * down() follows from a later poll or handler, never from inside. */
    tutti_result_t (*lane_open)(struct transport *transport, const struct wire_process *peer, uint16_t index,
                                uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out);
    /* From any state. Frees it. No upcall follows; the bytes of received puts are no longer touched when it returns.
     * What was said and has not reached the peer's system may be lost: owners that care wait for its answer first. */
    void (*lane_close)(struct lane *lane);

    /* Sends a message, the concatenation of `parts`, copied before it returns. TUTTI_IN_PROGRESS: no room now;
     * writable() follows. TUTTI_REMOTE_ERROR: the lane is failing; down() follows, or has come. */
    tutti_result_t (*msg)(struct lane *lane, const struct iovec *parts, int count);
    /* As msg(), of two parts, of which the second stays where it is until sent() or unreadable(): the peer copies it
     * from there. TUTTI_IN_PROGRESS: not now, or not this one, and nothing follows. NULL: never. */
    tutti_result_t (*lend)(struct lane *lane, const struct iovec parts[2], uint64_t token);
    /* Starts a put. TUTTI_IN_PROGRESS as above. TUTTI_INVALID_ARGUMENT: it is no put, or its source is a device's
     * memory, which this lane cannot read, or cannot carry by keys: nothing was taken, and the lane goes on. sent() or
     * unreadable() may come from inside. */
    tutti_result_t (*put)(struct lane *lane, const struct put *put);
    /* True: more follows, and the transport may keep what it takes. False: it keeps nothing, and for what it has kept
     * has the adapter called once for each lane. sent() may come from inside. NULL: it keeps nothing. */
    void (*gather)(struct transport *transport, bool gathers);
    /* When it returns the source of the put, or what was lent, with `token` is no longer needed, whatever the peer
     * does, and no sent() follows. The put arrives whole or not at all. If no put with this token is under way nothing
     * happens. */
    void (*give_up)(struct lane *lane, uint64_t token);
    /* Registers memory, which the caller keeps until it is deregistered. TUTTI_INVALID_ARGUMENT: the system cannot read
     * or write all of it, or it is a device's that no interface reaches. TRANSPORT_REGISTERS only. */
    tutti_result_t (*register_memory)(struct transport *transport, struct place place, size_t length,
                                      struct transport_memory **out);
    /* From here on nobody reads or writes it. No put from it is under way. */
    void (*deregister_memory)(struct transport *transport, struct transport_memory *memory);
    /* Of unordered memory: flushed() follows, never from inside, when the device sees all that lanes of interface
     * `device` have stored at `place` up to now. Or these lanes go down, and nothing follows. TRANSPORT_REGISTERS only.
     */
    void (*flush)(struct transport *transport, unsigned device, const struct transport_memory *memory,
                  struct place place, uint64_t token);
    /* Tells peers of this host of the shared memory that `address` lies in, if it does in any: they will read it where
     * it lies. */
    void (*announce)(struct transport *transport, const void *address);
    /* Hands a descriptor to the peer, in order with messages sent later on any lane to that peer. TUTTI_IN_PROGRESS as
     * above. TRANSPORT_SHARES only. */
    tutti_result_t (*share)(struct lane *lane, uint64_t key, int fd);

    /* Bytes of the lane that have come, and those that the peer's system has confirmed while more was under way: while
     * that grows, what was said last may not have come through yet. May enter the kernel: not for each message. Always
     * 0: not known. */
    uint64_t (*moved)(struct lane *lane);

    /* 0: the peer's system has confirmed all that the lane was given, or the transport does not know. Else not, and the
     * number changes whenever more is confirmed: what stays the same for long is stuck. A peer whose process stands
     * still confirms what its system takes without it. May say a word to find out. */
    uint64_t (*owes)(struct lane *lane);

    /* Looks at what may have come, without blocking and without entering the kernel where that can be avoided. Returns
     * how much was done; 0: nothing. */
    int (*poll)(struct transport *transport);
    /* Called before the process sleeps on the poller: from here on news must wake the poller. False: there is news
     * already. */
    bool (*arm)(struct transport *transport);
    void (*disarm)(struct transport *transport);
};

/* A table whose every call answers "unsupported": implementations start from a copy. */
extern const struct transport_ops transport_unsupported;
extern const struct transport_ops transport_shm;
extern const struct transport_ops transport_tcp;
extern const struct transport_ops transport_verbs;

/* The transports of this build, best first, NULL at the end. */
extern const struct transport_ops *const transport_registry[];

/* No memory may be shared by processes of this host. */
bool transport_shm_is_off(void);

/* Do the settings let processes use this transport? */
bool transport_is_wanted(const struct transport_ops *ops);
/* And do they name it? Then nothing else takes its place where it cannot be used; else it must show its worth first. */
bool transport_is_asked(const struct transport_ops *ops);

#endif
