/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads black boxes: a snapshot of a file that another process may be writing, or that nobody writes any more, or that
 * is damaged or hostile. Every offset and count is checked before use. Nothing is mapped, so a file cut short cannot
 * raise SIGBUS. A record that changes while it is read is read again or left out. Times come back in nanoseconds of
 * CLOCK_MONOTONIC.
 */
#ifndef TUTTI_WIRE_BOXREAD_H
#define TUTTI_WIRE_BOXREAD_H

#include "tutti/tutti.h"
#include "wire/blackbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLACKBOX_UNTOLD UINT64_MAX /* a count: it is not known, as in some dumps of other libraries */

struct blackbox_op {
    uint64_t position; /* in the communicator's ring */
    uint64_t seq, count, bytes;
    uint64_t begin, start, end; /* 0: not so far, or not measured */
    uint64_t wait_since;        /* 0: has not waited */
    uint64_t head_since;        /* of a GPU, not done: since then no operation before it is unfinished; else 0 */
    int collective, type, op;   /* numbers as written: may be unknown to this reader */
    int root;                   /* or peer; -1: none */
    enum wire_op_state state;
    int result;
    bool device, captured;       /* a GPU carries it out: `end` is when that was seen; it is part of a graph */
    uint64_t gpu_begin, gpu_end; /* of a GPU's, done: ns by its own clock, which compares with no other; 0: not known */
    uint32_t sends_to, recvs_from; /* ranks, as bits, of a GPU's sends and receives */
    uint64_t waited;               /* 1 + the ns in which the program waited for an end meanwhile; 0: not known */
    uint64_t registering;          /* ns in which its process registered memory meanwhile; 0 while it runs */
    int wait_peer;                 /* -1: nobody */
    uint32_t wait_round, wait_slice, rounds, slices;
    uint32_t step;      /* wire_op_step(); 0: it is none */
    char algorithm[17]; /* "": not named */
};

struct blackbox_comm {
    unsigned place;      /* in the box */
    uint64_t generation; /* another when the place was given to another communicator */
    uint64_t id;
    int rank, nranks, local_ranks;
    enum wire_comm_state state;
    int result, culprit;
    uint64_t opened, closed;
    uint64_t unrecorded, newest_unrecorded, captured;
    uint64_t memory[WIRE_BOX_MEMORY];
    bool undeclared; /* of a dump that does not name the members: `nranks` is what the dumps show */
    char name[WIRE_BOX_NAME], sentence[WIRE_BOX_SENTENCE];
    struct blackbox_op *ops; /* in the order of their calls */
    size_t op_count;
};

struct blackbox_event {
    uint64_t number, time;
    uint32_t kind, peer_pid;
    int lane, peer_rank;
    uint64_t peer_host, comm, value1, value2;
};

struct blackbox_segment {
    uint64_t position; /* of the lane's segments */
    uint64_t comm;
    uint32_t seq, peer, length;
    uint16_t slice, round;
    enum wire_segment_status status;
    uint64_t ready, credit, posted, completed; /* completed: 0 while under way */
};

struct blackbox_lane {
    unsigned place;
    uint64_t peer_host;
    uint32_t peer_pid, index, device;
    char interface[17]; /* "": not known */
    uint32_t rate;      /* Mbit/s; 0: not known */
    uint16_t port, roles, source;
    uint16_t distance; /* enum wire_distance */
    uint32_t window;   /* segments that may be under way; 0: any */
    uint64_t window_bytes;
    uint32_t trip;     /* ns to the peer and back; 0: not known */
    uint32_t segment;  /* bytes of the longest segments that come; 0: not known */
    bool own;          /* its process owns the interface */
    uint32_t owner;    /* process from which it was borrowed last; 0: it never was */
    uint64_t borrowed; /* bytes put that borrowed it */
    enum wire_lane_state state;
    uint64_t opened;
    char transport[17];
    uint32_t queue, peer_queue;            /* numbers of its queue pairs; 0: none */
    uint8_t address[16], peer_address[16]; /* of both ends, as GIDs; zeros: not known */
    struct wire_box_watch *watch;          /* boxwatch.h; NULL: it has carried nothing, or is of an earlier writer */
    struct blackbox_segment *segments;     /* in the order of their puts */
    size_t segment_count;
};

/* Pauses of about one length between two calls of the process. */
struct blackbox_pause {
    uint64_t count, longest, latest; /* ns; when the latest was over */
    int before, after;               /* collectives around the latest; -1: not known */
    uint64_t before_count, after_count;
};

/* What the process had counted at this time. */
struct blackbox_sample {
    uint64_t at;           /* ns */
    uint64_t calls, bytes; /* so far; bytes that were sent */
    uint64_t called;       /* bytes so far of the collectives, about, by whatever way they went */
};

struct blackbox {
    char *path;
    struct wire_box_header header; /* texts are terminated */
    bool outline;                  /* blackbox_outline(): without operations, events and lanes */
    bool alive;                    /* its process is there and still has the box open */
    bool dumped;                   /* made of another library's dump, which was written at `now`; 0: nobody knows */
    uint64_t now;                  /* time of the snapshot: of the reading if alive, else of the last sign of life */
    int64_t realtime_offset;       /* add it to a time to have CLOCK_REALTIME */
    struct blackbox_comm *comms;
    size_t comm_count;
    struct blackbox_event *events; /* oldest first */
    size_t event_count;
    struct blackbox_lane *lanes;
    size_t lane_count;
    uint64_t counters[WIRE_BOX_COUNTERS];
    size_t counter_count;
    struct blackbox_pause pauses[WIRE_BOX_PAUSES]; /* the shortest first; those that there were */
    size_t pause_count;
    struct blackbox_sample samples[WIRE_BOX_SAMPLES + 1]; /* oldest first, and as it is now */
    size_t sample_count;
    uint64_t expected_since, expected_until; /* the pause that the program has said it makes; until 0: none */
    char expected[WIRE_BOX_NAME];
    size_t torn; /* records left out because they were being written, or make no sense */
};

/* TUTTI_SYSTEM_ERROR: no file, no right, no memory. TUTTI_INVALID_USAGE: not a black box, or of another version.
 * Nothing is logged; error_last() tells. *out is freed by blackbox_free. */
tutti_result_t blackbox_read(const char *path, struct blackbox **out);

/* The same from a descriptor that stays the caller's: also after the file was removed. `path` is for sentences. */
tutti_result_t blackbox_read_fd(int fd, const char *path, struct blackbox **out);

/* The same from memory; never alive. */
tutti_result_t blackbox_parse(const void *bytes, size_t size, struct blackbox **out);

/* Whose it is, whether alive, its counters and communicators, and nothing that takes longer: a folder may hold
 * thousands of the dead. `now` is the last time that its header tells. */
tutti_result_t blackbox_outline(const char *path, struct blackbox **out);

/* Is its process surely gone? Not one of another host that shares the folder. */
bool blackbox_gone(const struct blackbox *box);

void blackbox_free(struct blackbox *box);
/* What a lane holds. */
void blackbox_free_lane(struct blackbox_lane *lane);

/* The segment has arrived, at times that make sense. */
static inline bool blackbox_landed(const struct blackbox_segment *segment)
{
    return segment->status == WIRE_SEGMENT_LANDED && segment->posted && segment->completed >= segment->posted;
}

/* The oldest operation that is not done, a running one before a waiting one; NULL if none. */
const struct blackbox_op *blackbox_current(const struct blackbox_comm *comm);
/* Since when the operation stands still. */
uint64_t blackbox_since(const struct blackbox_op *op);

/* Names for people. Never NULL: "?" for a number this reader does not know. */
const char *blackbox_collective_name(int collective);
const char *blackbox_type_name(int type); /* "" for none */
const char *blackbox_op_name(int op);     /* "" for none */

struct blackbox_event_row {
    const char *name, *value1, *value2, *help;
};
const struct blackbox_event_row *blackbox_event_row(uint32_t kind);

struct blackbox_memory_row {
    const char *name, *where, *help;
};
const struct blackbox_memory_row *blackbox_memory_row(size_t row);
/* Sum of the rows of this place; NULL: of all. */
uint64_t blackbox_memory(const struct blackbox_comm *comm, const char *where);

struct blackbox_counter_row {
    const char *metric, *label, *help;
};
const struct blackbox_counter_row *blackbox_counter_row(size_t counter);

#endif
