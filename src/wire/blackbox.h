/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The black box of a process: the layout of its file. src/trace writes it, blackbox_read() in wire/boxread.h reads it.
 *
 *   header page | events ring | samples | communicator 0: page + ring of operations | communicator 1 | ... | lane 0:
 * record + ring of segments | lane 1 | ...
 *
 * Byte order and word size are the writer's; the magic tells. Times are ticks: see struct wire_box_clock. A stamp of 0
 * marks a record that was never written or is being written. New fields take reserved space or the ends of records,
 * whose size the header tells; anything else raises the version.
 */
#ifndef TUTTI_WIRE_BLACKBOX_H
#define TUTTI_WIRE_BLACKBOX_H

#include <stdint.h>

#define WIRE_BOX_MAGIC    0x584f424954545554ull /* "TUTTIBOX" */
#define WIRE_BOX_VERSION  5
#define WIRE_BOX_PAGE     4096
#define WIRE_BOX_COMMS    128 /* communicators with a place in the box */
#define WIRE_BOX_OPS      256 /* operations remembered for each: a power of 2 */
#define WIRE_BOX_EVENTS   512 /* a power of 2 */
#define WIRE_BOX_COUNTERS 64
#define WIRE_BOX_LANES    256 /* lanes with a place in the box */
#define WIRE_BOX_SEGMENTS 128 /* segments remembered for each: a power of 2 */
#define WIRE_BOX_NAME     64
#define WIRE_BOX_SENTENCE 256
#define WIRE_BOX_MEMORY   16 /* rows of a communicator's ledger */
#define WIRE_BOX_PAUSES   40 /* rows of pauses */
#define WIRE_BOX_SAMPLES  96 /* of its speed */

enum wire_event_kind {
    WIRE_EVENT_NONE,
#define EVENT(id, ...) WIRE_EVENT_##id,
#include "tables/events.tbl"
#undef EVENT
    WIRE_EVENT_COUNT
};

enum wire_counter {
#define COUNTER(id, ...) WIRE_COUNTER_##id,
#include "tables/counters.tbl"
#undef COUNTER
    WIRE_COUNTER_COUNT
};

enum wire_memory {
#define MEMORY(id, ...) WIRE_MEMORY_##id,
#include "tables/memory.tbl"
#undef MEMORY
    WIRE_MEMORY_COUNT
};

/* Order of struct wire_box_op.collective. */
enum wire_collective {
    WIRE_ALLREDUCE,
    WIRE_REDUCE,
    WIRE_BROADCAST,
    WIRE_ALLGATHER,
    WIRE_REDUCE_SCATTER,
    WIRE_ALLTOALL,
    WIRE_ALLTOALLV,
    WIRE_GATHER,
    WIRE_SCATTER,
    WIRE_BARRIER,
    WIRE_SCAN,
    WIRE_SEND,
    WIRE_RECV,
    WIRE_GROUP,
    WIRE_PUT,
    WIRE_SIGNAL,
    WIRE_GET,
    WIRE_FLUSH,
    WIRE_WAIT_SIGNAL,
    WIRE_COLLECTIVE_COUNT
};

/* A short name, padded with zeros; may fill all 16 bytes. */
struct wire_name {
    char text[16];
};

enum wire_clock_kind { WIRE_CLOCK_NS = 0, WIRE_CLOCK_TSC = 1, WIRE_CLOCK_ARM = 2 };

/* Ticks beside the same moment's clocks. Two of them a while apart give the rate; a reader of the same boot makes its
 * own. */
struct wire_box_clock {
    uint64_t ticks;
    uint64_t monotonic_ns;
    uint64_t realtime_ns;
};

/* A ring or table: `count` records of `bytes` each (what this header knows is at most that), from `offset`. */
struct wire_box_section {
    uint64_t offset;
    uint32_t bytes;
    uint32_t count;
};

enum wire_box_state { WIRE_BOX_OPEN = 1, WIRE_BOX_CLOSED = 2 };

struct wire_box_header {
    uint64_t magic; /* written last */
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint32_t pid;
    uint32_t uid;
    uint64_t start_time;    /* of the process, in clock ticks since boot: field 22 of /proc/PID/stat */
    uint64_t pid_namespace; /* inode of /proc/self/ns/pid: `pid` means something only there */
    uint8_t boot_id[16];    /* ticks of two boots do not compare */
    uint32_t clock_kind;    /* enum wire_clock_kind */
    uint32_t state;         /* enum wire_box_state */
    uint32_t marked;        /* 1: while its process lives, the file carries boxfile_mark() */
    uint32_t samples;       /* offset of struct wire_box_samples; 0 in boxes of earlier writers */
    struct wire_box_clock opened;
    struct wire_box_clock latest; /* refreshed now and then, never by an operation */
    struct wire_box_section events;
    struct wire_box_section comms; /* bytes: page and ring together */
    struct wire_box_section ops;   /* offset: from the start of the communicator's place */
    struct wire_box_section counters;
    char host[WIRE_BOX_NAME];
    char command[128];
    char library[32];                 /* version of the writer */
    struct wire_box_section lanes;    /* bytes: record and ring together */
    struct wire_box_section segments; /* offset: from the start of the lane's place */
};

/*
 * Pauses of the process: from the end of a call to the begin of the next one, in whatever communicators. A row has
 * those of about one length, the next row those of 1.4 times it. In the header's page, after the header; all zero in
 * boxes of earlier writers.
 */
struct wire_box_pause {
    uint64_t count;
    uint64_t longest, latest; /* ticks: how long, and when the latest was over */
    uint64_t before, after;   /* of the latest: 1 + collective (8) | elements (56) of the calls around it */
};

/* What the program has said of a pause. Stamp as of a communicator. */
struct wire_box_expected {
    uint64_t stamp;
    uint64_t since, until; /* ns of CLOCK_MONOTONIC; until 0: it has said nothing, or that the pause is over */
    char what[WIRE_BOX_NAME];
};

struct wire_box_pauses {
    struct wire_box_pause rows[WIRE_BOX_PAUSES];
    struct wire_box_expected expected;
};

/*
 * How quick the process was: what it had counted at these times, oldest first. The newer, the denser: where there is no
 * room for one more, the sample goes whose neighbours are nearest for their age. Stamp as of a communicator.
 */
struct wire_box_sample {
    uint64_t at;           /* ticks */
    uint64_t calls, bytes; /* so far; bytes sent to other processes */
};

struct wire_box_samples {
    uint64_t stamp;
    uint64_t count;
    struct wire_box_sample items[WIRE_BOX_SAMPLES];
    uint64_t called[WIRE_BOX_SAMPLES]; /* bytes so far of collectives that processors made, about; earlier writers: 0 */
};

enum wire_comm_state { WIRE_COMM_OPEN = 1, WIRE_COMM_CLOSED = 2, WIRE_COMM_FAILED = 3, WIRE_COMM_ABORTED = 4 };

/* Stamp: odd while being written; else even and higher than before. */
struct wire_box_comm {
    uint64_t stamp;
    uint64_t id; /* the same on all ranks */
    int32_t rank;
    int32_t nranks;
    uint32_t state;             /* enum wire_comm_state */
    int32_t result;             /* tutti_result_t, when failed */
    int32_t culprit;            /* rank, -1 unknown */
    uint32_t local_ranks;       /* on this host, 0 unknown */
    uint64_t opened, closed;    /* ticks */
    uint64_t unrecorded;        /* operations that found no free record */
    uint64_t newest_unrecorded; /* sequence number of the last collective of those */
    char name[WIRE_BOX_NAME];
    char sentence[WIRE_BOX_SENTENCE]; /* why it failed */
    /* zero in boxes of earlier writers */
    uint64_t captured;                /* calls that went into graphs */
    uint64_t memory[WIRE_BOX_MEMORY]; /* bytes, by enum wire_memory; all 0 of a communicator on host memory */
};

/*
 * Stamp of an operation, 64 bits: position (40) | updates (8) | result (8) | state and flags (8). The position counts
 * the operations of the communicator's ring; its low bits are the record's index. `updates` counts changes of what is
 * waited for.
 */
enum wire_op_state { WIRE_OP_ENQUEUED = 1, WIRE_OP_RUNNING = 2, WIRE_OP_DONE = 3 };
/*
 * What a GPU carries out (WIRE_OP_DEVICE) is looked at now and then. Enqueued: being called; with a name, its call has
 * returned. Running: its kernel was seen waiting for peers. Done: it was seen to be over, and `end` is when, at the
 * latest.
 */
#define WIRE_OP_STATE        0x03u
#define WIRE_OP_HAS_START    0x04u /* field `start` holds */
#define WIRE_OP_HAS_END      0x08u /* field `end` holds; a done operation without it was over at once */
#define WIRE_OP_HAS_NAME     0x10u /* fields `algorithm`, `rounds`, `slices` hold */
#define WIRE_OP_HAS_WAIT     0x20u /* wait[updates & 1] holds */
#define WIRE_OP_DEVICE       0x40u /* a GPU carries it out; field `peers` holds */
#define WIRE_OP_CAPTURED     0x80u /* it went into a graph, whose launches are not seen; the state is done */
#define WIRE_OP_RESULT       8     /* shifts */
#define WIRE_OP_UPDATES      16
#define WIRE_OP_POSITION     24
#define WIRE_OP_POSITION_MAX ((1ull << 40) - 1)

/* `waited`, once it is done: 1 + 254 times the part of the time since `begin` in which the program waited for an end.
 * 0: not known, as in boxes of earlier writers, or where the program is not seen waiting. */
#define WIRE_OP_WAITED       24 /* shift in `what` */
#define WIRE_OP_WAITED_WHOLE 254

/* Instead of an operator or a type. */
#define WIRE_OP_NONE   255
#define WIRE_OP_PREMUL 254

/* What is waited for: peer + 1 (24 bits, 0: nobody) | slice (16) | round (24). Of what a GPU carries out, `since` of
 * the two is when its kernels began and were over, in ns of the GPU's own clock; 0: not known. */
struct wire_box_wait {
    uint64_t what;
    uint64_t since; /* ticks */
};

/*
 * `slices` of an operation that is a step of a collective between hosts, and so has none: this bit | the collective
 * (7) | index of the island or rail (8) | number of the step, from 1 (8) | steps (8). The collective is the step's,
 * where the record is the whole collective's, as on rails; else that of which this is a step. 255 is 255 or more.
 */
#define WIRE_OP_STEP (1u << 31)

static inline uint32_t wire_op_step(unsigned collective, unsigned index, unsigned number, unsigned steps)
{
    return WIRE_OP_STEP | collective << 24 | (index < 255 ? index : 255) << 16 | number << 8 | steps;
}

/* The first 64 bytes are all that an operation that ends at once touches. */
struct wire_box_op {
    uint64_t stamp;
    uint64_t seq; /* of the communicator: the same on all ranks for collectives; sends and receives are counted apart,
                     by each rank */
    uint64_t count;
    uint64_t bytes;
    uint64_t what;              /* collective (8) | type (8) | operator (8) | waited (8) | root or peer + 1 (32) */
    uint64_t begin, start, end; /* ticks */
    struct wire_box_wait wait[2];
    struct wire_name algorithm;
    uint32_t rounds;
    uint32_t slices;
    uint64_t peers; /* of a GPU's: ranks sent to (bits 0..31) and received from (32..63), as far as they are below 32;
                       of a collective, once it has a name. Of others, done, with an end: ns in which this process has
                       registered memory meanwhile */
};

/* Stamp: 1 + number of the event, whose low bits are the record's index. */
struct wire_box_event {
    uint64_t stamp;
    uint64_t time; /* ticks */
    uint32_t kind; /* enum wire_event_kind */
    int32_t lane;  /* index in the link, -1: none */
    uint32_t peer_pid;
    int32_t peer_rank; /* -1: unknown or none */
    uint64_t peer_host;
    uint64_t comm; /* id, 0: none */
    uint64_t value1, value2;
};

enum wire_lane_state { WIRE_LANE_UP = 1, WIRE_LANE_DOWN = 2, WIRE_LANE_CLOSED = 3 };

/* What a lane is for: bits. */
enum wire_lane_role {
    WIRE_LANE_FOR_DATA = 1,
    WIRE_LANE_FOR_MESSAGES = 2,
    WIRE_LANE_IS_BACKUP = 4, /* for data while no lane for data is up */
};

/* A lane to another process. Stamp as of a communicator. */
struct wire_box_lane {
    uint64_t stamp;
    uint64_t peer_host;
    uint32_t peer_pid;
    uint32_t index;  /* in its link */
    uint32_t device; /* its interface here, as the transport numbers them */
    uint32_t state;  /* enum wire_lane_state */
    uint64_t opened; /* ticks */
    struct wire_name transport;
    struct wire_name interface; /* name of the device; "": not known */
    /* zero in boxes of earlier writers */
    uint32_t rate;     /* of the interface, Mbit/s; 0: not known */
    uint16_t port;     /* of the device; 0: it has none */
    uint16_t roles;    /* enum wire_lane_role */
    uint16_t source;   /* UDP source port of its packets; 0: any */
    uint16_t distance; /* enum wire_distance, of the peer */
    uint16_t own;      /* 1: this process owns the interface */
    uint16_t reserved;
    uint32_t window;       /* segments that may be under way; 0: as many as fit */
    uint32_t owner;        /* process that owned the interface when it was borrowed last; 0: it never was */
    uint64_t window_bytes; /* the same as `window`, in bytes */
    /* not in boxes of earlier writers, whose segments begin here or soon behind */
    uint32_t queue, peer_queue; /* numbers of the queue pairs at both ends; 0: it has none */
    uint8_t address[16];        /* of the interfaces at both ends, as GIDs; zeros: not known */
    uint8_t peer_address[16];
    uint64_t borrowed; /* bytes put that borrowed the interface, ever */
    uint32_t trip;     /* ns to the peer and back, when the lane came up; 0: not known */
    uint32_t segment;  /* bytes of the longest segments that this end asks for; 0: not known */
};

/* What a lane did, or for what it stood still. Part of the format. */
enum window_cause {
    WINDOW_NETWORK,   /* segments were under way */
    WINDOW_SENDER,    /* the receiver had given credit, and there was no data: sender late */
    WINDOW_RECEIVER,  /* there was data and no credit: receiver late */
    WINDOW_STARVED,   /* both, and the process did not put the segment, nor had it others under way to that peer: no
                         processor */
    WINDOW_UNUSED,    /* both, and the segments went by other lanes to that peer */
    WINDOW_IDLE_TIME, /* neither: nobody waited */
    WINDOW_CAUSES,
};

#define WIRE_WATCH_RATES  96 /* rows of rates: 4 for each power of 2, from WIRE_WATCH_RATE bytes a second on */
#define WIRE_WATCH_RATE   16 /* a power of 2 */
#define WIRE_WATCH_TIMES  64 /* rows of times: 2 for each power of 2, from WIRE_WATCH_TIME ns on */
#define WIRE_WATCH_TIME   10 /* a power of 2 */
#define WIRE_WATCH_SLOTS  4  /* the third parts of a span: the one that it is, and the three before */
#define WIRE_WATCH_SLOWS  4
#define WIRE_WATCH_SECOND 333333333ull /* ns of a slot */
#define WIRE_WATCH_MINUTE (60 * WIRE_WATCH_SECOND)
#define WIRE_WATCH_HOUR   (60 * WIRE_WATCH_MINUTE)

enum wire_watch_span { WIRE_LAST_SECOND, WIRE_LAST_MINUTE, WIRE_LAST_HOUR, WIRE_WATCH_SPANS };

/* A window of segments, a pause, or a message. It stands in the slot of its end. Times are ns of CLOCK_MONOTONIC. */
struct wire_box_mark {
    uint64_t slot; /* 1 + end / ns of a slot; 0: none */
    uint64_t end;
    uint64_t ns; /* of a window: in which it was busy */
    uint64_t bytes;
    uint32_t segments;
    uint32_t cause; /* enum window_cause */
};

/* Windows in a row that were slow. */
struct wire_box_slow {
    uint64_t begin, end; /* of the first and the last window */
    uint64_t ns, bytes;
    uint64_t usual;   /* bytes a second */
    uint32_t windows; /* 0: none */
    uint32_t cause;   /* enum window_cause */
};

/*
 * What a lane has done since its place was opened, by constant work a segment. A mark of one span that leaves its slot
 * goes on to the next longer span: so a reader looks at all spans up to the one it asks for. Stamp as of a
 * communicator; `time` may be newer than the rest. All zero in a lane that has carried nothing.
 */
struct wire_box_watch {
    uint64_t stamp;
    uint64_t windows, segments, bytes; /* of windows that are over */
    uint64_t slow_windows, slows;      /* windows below half of the usual rate; rows of them that were told of */
    uint64_t usual;                    /* bytes a second: nine of ten windows are slower */
    uint64_t messages;                 /* small messages whose time was taken */
    uint64_t time[8];                  /* ns, by enum window_cause */
    struct wire_box_mark least[WIRE_WATCH_SPANS][WIRE_WATCH_SLOTS];   /* the slowest window */
    struct wire_box_mark pause[WIRE_WATCH_SPANS][WIRE_WATCH_SLOTS];   /* the longest pause that had a cause */
    struct wire_box_mark message[WIRE_WATCH_SPANS][WIRE_WATCH_SLOTS]; /* the message that took longest */
    struct wire_box_slow slow[WIRE_WATCH_SLOWS]; /* the latest: number n in place n % WIRE_WATCH_SLOWS, from 0 */
    uint32_t rates[WIRE_WATCH_RATES];            /* windows, by rate */
    uint32_t times[WIRE_WATCH_TIMES];            /* messages, by time */
};

enum wire_segment_status {
    WIRE_SEGMENT_POSTED = 1,
    WIRE_SEGMENT_LANDED = 2,
    WIRE_SEGMENT_LOST = 3,     /* with its lane: what of it the peer has is found out, and the rest put again */
    WIRE_SEGMENT_GIVEN_UP = 4, /* with its operation */
};

/*
 * A segment that was put on a lane. Stamp: position + 1 (56 bits) | status (8); the position counts the segments of the
 * lane, its low bits are the record's index. Times are nanoseconds of CLOCK_MONOTONIC. `completed` holds when the
 * status is not POSTED.
 */
struct wire_box_segment {
    uint64_t stamp;
    uint64_t comm;
    uint32_t seq;
    uint16_t slice, round; /* their low bits; slice 0xffff: of a send or receive */
    uint32_t peer;         /* the rank that receives it */
    uint32_t length;       /* bytes; 0xffffffff: that, or more */
    uint64_t ready;        /* the payload was given to the link */
    uint64_t credit;       /* the receiver's credit had come */
    uint64_t posted, completed;
};

#define WIRE_BOX_COUNTER_AT (WIRE_BOX_PAGE - 8 * WIRE_BOX_COUNTERS)
#define WIRE_BOX_PAUSE_AT   1024

_Static_assert(sizeof(struct wire_box_header) <= WIRE_BOX_PAGE - 8 * WIRE_BOX_COUNTERS,
               "the header page holds the counters too");
_Static_assert(sizeof(struct wire_box_header) <= WIRE_BOX_PAUSE_AT &&
                   WIRE_BOX_PAUSE_AT + sizeof(struct wire_box_pauses) <= WIRE_BOX_COUNTER_AT,
               "the header page holds the pauses too");
_Static_assert(sizeof(struct wire_box_samples) <= WIRE_BOX_PAGE, "the samples have a page");
_Static_assert(sizeof(struct wire_box_comm) <= WIRE_BOX_PAGE, "a communicator's record has a page");
_Static_assert(sizeof(struct wire_box_op) == 128, "wire_box_op is part of the format");
_Static_assert(sizeof(struct wire_box_event) == 64, "wire_box_event is part of the format");
_Static_assert(sizeof(struct wire_box_lane) == 160, "wire_box_lane is part of the format");
_Static_assert(sizeof(struct wire_box_watch) == 2400, "wire_box_watch is part of the format");
_Static_assert(sizeof(struct wire_box_segment) == 64, "wire_box_segment is part of the format");
_Static_assert(WINDOW_CAUSES <= 8, "the times by cause have room");
_Static_assert(WIRE_COUNTER_COUNT <= WIRE_BOX_COUNTERS, "the counters have room");
_Static_assert(WIRE_MEMORY_COUNT <= WIRE_BOX_MEMORY, "the ledger has room");

#define WIRE_BOX_COMM_BYTES (WIRE_BOX_PAGE + WIRE_BOX_OPS * sizeof(struct wire_box_op))
#define WIRE_BOX_EVENT_AT   WIRE_BOX_PAGE
#define WIRE_BOX_SAMPLE_AT  (WIRE_BOX_EVENT_AT + WIRE_BOX_EVENTS * sizeof(struct wire_box_event))
#define WIRE_BOX_COMM_AT    (WIRE_BOX_SAMPLE_AT + WIRE_BOX_PAGE)
#define WIRE_BOX_LANE_AT    (WIRE_BOX_COMM_AT + WIRE_BOX_COMMS * WIRE_BOX_COMM_BYTES)
#define WIRE_BOX_LANE_LEAST 104 /* bytes of a lane's record, of the earliest writers */
#define WIRE_BOX_WATCH_AT   192 /* in a lane's place; in boxes of earlier writers segments begin before */
#define WIRE_BOX_SEGMENT_AT 3072
#define WIRE_BOX_LANE_BYTES (WIRE_BOX_SEGMENT_AT + WIRE_BOX_SEGMENTS * sizeof(struct wire_box_segment))
_Static_assert(WIRE_BOX_WATCH_AT + sizeof(struct wire_box_watch) <= WIRE_BOX_SEGMENT_AT, "a lane's watch has room");
#define WIRE_BOX_BYTES (WIRE_BOX_LANE_AT + WIRE_BOX_LANES * WIRE_BOX_LANE_BYTES)

#endif
