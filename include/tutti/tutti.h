/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti.h: the public interface of tutti, a collective communication library.
 *
 * Shapes. Counts are in elements, sizes in bytes. "n" is the number of ranks. Every rank of a communicator must issue
 * the same collectives, in the same order, with the same arguments (roots, counts, types, operators).
 *
 * Order. Calls are asynchronous: they enqueue an operation on a stream and return. Operations of one stream, and of one
 * communicator, run in the order of their calls. A NULL stream is the communicator's own stream. Buffers belong to the
 * library from the call until the stream has been synchronized.
 *
 * Devices. A communicator works on host memory, or on the memory of one CUDA device per rank (tutti_config_t.device).
 * On a device its calls take device memory, and a CUstream as `stream` (NULL: the legacy default stream). They return
 * at once, and are ordered and waited for by the means of CUDA.
 *
 * Errors. Every call returns a tutti_result_t. On failure tutti_get_last_error() says what was tried, on what, what
 * came back and what to do. An argument error changes nothing. A fault (dead peer, timeout) is kept in the
 * communicator: tutti_comm_get_async_error() reports it, and every later call on it returns it.
 *
 * Threads. Different communicators may be used by different threads at once. One communicator may be used by one thread
 * at a time, except tutti_comm_abort() and tutti_comm_get_async_error(), which any thread may call at any time. A
 * thread must not be cancelled (pthread_cancel) in a call: what the call holds would stay locked.
 */
#ifndef TUTTI_H
#define TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION       (TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH)

#define TUTTI_API __attribute__((visibility("default")))

typedef enum tutti_result {
    TUTTI_SUCCESS = 0,
    TUTTI_DEVICE_ERROR = 1,     /* a call of the device's driver failed */
    TUTTI_SYSTEM_ERROR = 2,     /* the operating system refused: memory, sockets, files */
    TUTTI_INTERNAL_ERROR = 3,   /* a bug in tutti */
    TUTTI_INVALID_ARGUMENT = 4, /* one argument is wrong by itself */
    TUTTI_INVALID_USAGE = 5,    /* the arguments do not fit together, or the call does not fit the state or the peers */
    TUTTI_REMOTE_ERROR = 6,     /* a peer died, left, or did not answer in time */
    TUTTI_IN_PROGRESS = 7,      /* not finished yet; ask again */
    TUTTI_RESULT_COUNT = 8
} tutti_result_t;

typedef enum tutti_type {
    TUTTI_INT8 = 0,
    TUTTI_UINT8 = 1,
    TUTTI_INT32 = 2,
    TUTTI_UINT32 = 3,
    TUTTI_INT64 = 4,
    TUTTI_UINT64 = 5,
    TUTTI_FLOAT16 = 6,
    TUTTI_FLOAT32 = 7,
    TUTTI_FLOAT64 = 8,
    TUTTI_BFLOAT16 = 9,
    TUTTI_FLOAT8_E4M3 = 10, /* no infinities, NaN = 0x7f; overflow gives NaN's neighbour 448 (saturates) */
    TUTTI_FLOAT8_E5M2 = 11, /* IEEE-like; overflow saturates to 57344 */
    TUTTI_TYPE_COUNT = 12
} tutti_type_t;

typedef enum tutti_op {
    TUTTI_SUM = 0,
    TUTTI_PROD = 1,
    TUTTI_MAX = 2,
    TUTTI_MIN = 3,
    TUTTI_AVG = 4, /* sum, then divided by n; integers truncate towards zero */
    TUTTI_OP_COUNT = 5
    /* larger values come from tutti_op_create_premul_sum() */
} tutti_op_t;

typedef struct tutti_comm *tutti_comm_t;
typedef struct tutti_stream *tutti_stream_t;
typedef struct tutti_window *tutti_window_t;
typedef struct tutti_events *tutti_events_t;
typedef struct tutti_elastic *tutti_elastic_t;

#define TUTTI_UNIQUE_ID_BYTES 128
typedef struct tutti_unique_id {
    char bytes[TUTTI_UNIQUE_ID_BYTES];
} tutti_unique_id_t;

/* ---- Library ---- */

/* The library's TUTTI_VERSION. */
TUTTI_API int tutti_get_version(void);

/* A few words for a result: "invalid argument". Never NULL, static. */
TUTTI_API const char *tutti_get_error_string(tutti_result_t result);

/* The sentence of the last failure: of `comm` when it has failed, else of the calling thread. "" if none.
 * Valid until the next failing call of this thread, or until the communicator is destroyed. comm may be NULL. */
TUTTI_API const char *tutti_get_last_error(tutti_comm_t comm);

/* ---- Life of a communicator ---- */

typedef struct tutti_config {
    size_t size;    /* sizeof(tutti_config_t) of the caller: lets old programs meet new libraries */
    int blocking;   /* 1: init, split and the like return when done; 0: they return TUTTI_IN_PROGRESS at once and
                       tutti_comm_get_async_error() tells; -1: as TUTTI_COMM_BLOCKING says. While a child is made so,
                       calls on the parent, too, return TUTTI_IN_PROGRESS, and aborting the child aborts the parent.
                       Splits of a group are done when it ends */
    int timeout_ms; /* an operation fails when a process for which it waits has given no sign of life for this time: it
                       was stopped, or cut off. For a process that lives it waits. 0: TUTTI_TIMEOUT, of a child the
                       parent's */
    const char *name; /* shown by logs and tools; copied; NULL: made up */
    int device;       /* where the buffers are: TUTTI_HOST, TUTTI_CURRENT_DEVICE, or the number of a CUDA device */
    /* On a device, and the same on all ranks: */
    int blocks; /* of a kernel, at most, up to 64; 0: as TUTTI_BLOCKS says */
    int policy; /* TUTTI_POLICY_DEFAULT or another of those; -1: as TUTTI_CTA_POLICY says */
} tutti_config_t;

#define TUTTI_HOST           (-1)
#define TUTTI_CURRENT_DEVICE (-2) /* the CUDA device that is current to the calling thread */

#define TUTTI_POLICY_DEFAULT    0
#define TUTTI_POLICY_EFFICIENCY 1 /* as the default */
#define TUTTI_POLICY_ZERO       2 /* copy engines carry all that reduces nothing */

/* blocks and policy of a split's or shrink's config that say nothing are as the parent's. */
#define TUTTI_CONFIG_INITIALIZER                                                                                       \
    {                                                                                                                  \
        sizeof(tutti_config_t), -1, 0, NULL, TUTTI_HOST, 0, -1                                                         \
    }

/* Makes the meeting point of one new communicator: opens a port in this process that serves the ranks' joining. One
 * rank calls it and hands the id to the others by whatever means the program has. The id is a secret: a process that
 * knows it may join. */
TUTTI_API tutti_result_t tutti_get_unique_id(tutti_unique_id_t *id);

/* Joins the communicator `id` as `rank` of `nranks`. Returns when all have joined, or with an error that names a rank
 * that did not join within TUTTI_INIT_TIMEOUT. A rank that dies before it has reached rank 0 is missed only when 15/16
 * of that time have passed; a log line names it after 10 s. Several ranks may live in one process: call it from one
 * thread each, or inside a group. config may be NULL. Mechanism: docs/understand/bootstrap.md (NCCLX section 7.1: log n
 * control allgather, back-off). */
TUTTI_API tutti_result_t tutti_comm_init_rank(tutti_comm_t *comm, int nranks, const tutti_unique_id_t *id, int rank,
                                              const tutti_config_t *config);

/* Joins with rank, size and meeting point from the launcher's environment: tutti run, torchrun, Open MPI, MPICH, Slurm.
 * TUTTI_INVALID_USAGE, naming the variable, when the environment is incomplete. */
TUTTI_API tutti_result_t tutti_comm_init_from_env(tutti_comm_t *comm, const tutti_config_t *config);

/* Makes all n ranks of a communicator in this process: comms[i] is rank i. */
TUTTI_API tutti_result_t tutti_comm_init_all(tutti_comm_t *comms, int n);

#define TUTTI_SPLIT_NOCOLOR (-1)

/* Collective over `comm`: ranks of equal color (>= 0) form a communicator, ordered by key, then by old rank. *child is
 * NULL for TUTTI_SPLIT_NOCOLOR. Needs no meeting point; links to peers are shared with the parent. If one rank has no
 * memory or a wrong argument, the call still waits for all ranks. Then all ranks fail and name that rank, and may try
 * again. */
TUTTI_API tutti_result_t tutti_comm_split(tutti_comm_t comm, int color, int key, tutti_comm_t *child,
                                          const tutti_config_t *config);

/* Collective over `comm`: the same ranks in a communicator of their own. */
TUTTI_API tutti_result_t tutti_comm_duplicate(tutti_comm_t comm, tutti_comm_t *child, const tutti_config_t *config);

/* Called by every rank that is not in `excluded` (count ranks of `comm`, the same list everywhere): a communicator of
 * the remaining ones, in their old order. Works after a fault: the excluded ranks may be dead and `comm` may have
 * failed. If the process of an excluded rank has ended, `comm` fails on all ranks, so that those who wait there come,
 * too. If lists differ, a remaining rank dies, cannot, or does not come within TUTTI_INIT_TIMEOUT, all who remain fail
 * and name it, and may try again. A rank that dies in the very last step may be found by the first call on the
 * child: then shrink once more. A living rank that the others exclude must not call: it would wait until they destroy
 * `comm`. */
TUTTI_API tutti_result_t tutti_comm_shrink(tutti_comm_t comm, const int *excluded, int count, tutti_comm_t *child,
                                           const tutti_config_t *config);

/* Makes the meeting point of a communicator that `comm` is to grow into, opened by this rank, one of its members. It
 * hands the id to the newcomers by whatever means the program has. */
TUTTI_API tutti_result_t tutti_comm_get_unique_id(tutti_comm_t comm, tutti_unique_id_t *id);

/* Called by every rank of `comm`, and by newcomers, which have no communicator: a communicator of `nranks` ranks, in
 * which members keep their ranks. Members pass rank -1, and NULL for the id, but for the one that made it by
 * tutti_comm_get_unique_id(). Newcomers pass NULL for comm, the id, and each a rank of its own: from the number of
 * members on, below nranks. It is no operation of `comm`, which works on: with config.blocking 0 its
 * calls go on while the new one is made. Links between members are kept. If a member or a newcomer dies, or does
 * not come within TUTTI_INIT_TIMEOUT, all fail and name it. `comm` is then as it was. If no member has died, it may
 * grow again. What `comm` has failed of ends it, too, and so do tutti_comm_abort() and tutti_comm_shrink() of `comm`;
 * finalizing and destroying it wait for it. `comm` is not freed. After ncclCommGrow(). */
TUTTI_API tutti_result_t tutti_comm_grow(tutti_comm_t comm, int nranks, const tutti_unique_id_t *id, int rank,
                                         tutti_comm_t *grown, const tutti_config_t *config);

/* Waits until everything issued on `comm` is done. After it only destroy is allowed. TUTTI_INVALID_USAGE if a peer's
 * calls are seen to have differed, or if a message of a peer has come and was never received. A message that is still
 * on its way may go unnoticed, because nothing waits for it. */
TUTTI_API tutti_result_t tutti_comm_finalize(tutti_comm_t comm);

/* Finalizes if that has not been done, and frees the communicator. NULL is allowed. Not while an open group keeps calls
 * on it (TUTTI_INVALID_USAGE, and nothing is done). Returns what finalizing returned, if the communicator had not
 * failed before, or had because calls differed, which no call has said yet; it is freed all the same.
 * TUTTI_REMOTE_ERROR may say, as of tutti_comm_abort(), to which memory a peer's GPU may still store. With nothing
 * under way, or after a failure, it depends on no peer, also where others were shrunken from it: peers that are stopped
 * delay it by 2 s at most. */
TUTTI_API tutti_result_t tutti_comm_destroy(tutti_comm_t comm);

/* Gives up. Pending operations end with TUTTI_REMOTE_ERROR here and, soon, on all other ranks. Collectives that had
 * ended here end well there, also where they are called later. A lost process, or a send or receive before them there
 * that has not ended, prevents that. On GPUs what all its ranks have called is first brought to its end, within
 * seconds, and other ranks' operations that need nothing more of this rank complete. Returns when no buffer of the user
 * is touched any more. In an open group of the calling thread the call returns at once, so that communicators whose
 * operations wait for one another's can be given up together. tutti_comm_destroy(), or aborting once more behind the
 * group, then waits. TUTTI_REMOTE_ERROR: the communicator is given up, but a peer's GPU has not ended its stores to a
 * buffer of this rank within seconds. That GPU or its process was stopped, for example. The sentence names the peer and
 * the memory, which is not to be used or freed before that process has ended. The GPU of this rank is waited for,
 * however long it is held up. A finalized communicator is given up, too, if it has windows or calls in CUDA graphs. Any
 * thread may call it. The handle stays valid until tutti_comm_destroy(). */
TUTTI_API tutti_result_t tutti_comm_abort(tutti_comm_t comm);

/* *state: TUTTI_SUCCESS, TUTTI_IN_PROGRESS (a non-blocking init is running), or the error that ended the communicator.
 */
TUTTI_API tutti_result_t tutti_comm_get_async_error(tutti_comm_t comm, tutti_result_t *state);

TUTTI_API tutti_result_t tutti_comm_count(tutti_comm_t comm, int *count);
TUTTI_API tutti_result_t tutti_comm_rank(tutti_comm_t comm, int *rank);
/* Position among, and number of, the ranks of this host. */
TUTTI_API tutti_result_t tutti_comm_local_rank(tutti_comm_t comm, int *rank, int *count);

/* The address at which the process of `rank` is reached by its peers: an address of IP in numbers, without a port.
 * `text` of `bytes` bytes gets it, ended by a null byte; TUTTI_ADDRESS_BYTES are always enough. For what must meet
 * beside the communicator, such as a store of rank 0. TUTTI_INVALID_USAGE: that process has no address, as under
 * TUTTI_TRANSPORT=shm. */
enum { TUTTI_ADDRESS_BYTES = 46 };
TUTTI_API tutti_result_t tutti_comm_address(tutti_comm_t comm, int rank, char *text, size_t bytes);

/* The CUDA device of this rank, or TUTTI_HOST. */
TUTTI_API tutti_result_t tutti_comm_device(tutti_comm_t comm, int *device);
/* Bytes that the communicator holds at this moment, its children not counted. Either pointer may be NULL. */
TUTTI_API tutti_result_t tutti_comm_memory(tutti_comm_t comm, size_t *device_bytes, size_t *host_bytes);

/* Collective, and waits for all that was issued: gives back what the communicator holds of its GPU's memory, and what
 * its GPUs share on the host. Until tutti_comm_resume() all calls on it are refused, but to ask after it, to abort and
 * to destroy it. No rank suspends it where one cannot: TUTTI_INVALID_USAGE names what it has, windows, symmetric memory
 * or calls that a CUDA graph holds. Other communicators work on. Memory of a process that computes or communicates at
 * that moment is freed in its next pause. */
TUTTI_API tutti_result_t tutti_comm_suspend(tutti_comm_t comm);
/* Collective, and waits: takes the memory again. Where that fails the communicator has failed on all ranks. */
TUTTI_API tutti_result_t tutti_comm_resume(tutti_comm_t comm);

/* Waits until everything issued on `comm`, on any stream, is done. Returns the communicator's error if some of it
 * failed, or if nothing was issued since the last time and the communicator has failed. */
TUTTI_API tutti_result_t tutti_comm_synchronize(tutti_comm_t comm);

/* Tells the diagnosis that this process is outside of calls on purpose from now on: to save a checkpoint, to evaluate.
 * The pause ends after `seconds` at most (1 to 604800, which is a week). Ranks that wait for this process meanwhile are
 * told so, and nobody is blamed. 0 seconds: the pause is over. `what` is one word for people, of which 63 bytes are
 * kept; NULL: none. The pause holds for all communicators of the process, the latest call counts, and nothing but the
 * diagnosis changes: peers take a process for dead as before. TUTTI_INVALID_ARGUMENT: another number of seconds. Any
 * thread may call it, also inside an open group. */
TUTTI_API tutti_result_t tutti_expect_pause(tutti_comm_t comm, const char *what, int seconds);

/* ---- Events ---- */

/* What a program can hear besides the errors of its calls, of all communicators of the process. */
typedef enum tutti_event_kind {
    TUTTI_EVENT_LOST = 1,      /* a rank's process is gone without a word; the communicator may work on until a call
                                  needs that rank. A process hears so of those that it has exchanged data with, or
                                  waits for */
    TUTTI_EVENT_FAILED = 2,    /* a communicator failed; rank: the one that was lost, or that is to blame */
    TUTTI_EVENT_LANE_DOWN = 3, /* a connection to a process is down; its data go on by others, if there are any */
    TUTTI_EVENT_LANE_BACK = 4, /* it works again */
    TUTTI_EVENT_WAITING = 5,   /* an operation on host memory, or between hosts, has waited for TUTTI_EVENT_WAIT, and
                                  again for twice that time, for a rank that lives */
    TUTTI_EVENT_VERDICT = 6,   /* tutti master has found what a hang or slowness of the job comes from, and tutti agent
                                  tells it on this host; rank: of the largest communicator of the process to blame */
    TUTTI_EVENT_VERDICT_OVER = 7, /* the master finds it no longer */
    TUTTI_EVENT_KIND_COUNT = 8
} tutti_event_kind_t;

typedef struct tutti_event {
    size_t size;      /* set by the caller: sizeof(tutti_event_t) */
    int kind;         /* tutti_event_kind_t; one that a program does not know it leaves alone */
    int rank;         /* of the communicator; -1: unknown, or it is of no communicator */
    int lane;         /* number of the lane to that process; -1: not of a lane */
    uint32_t process; /* the peer's process id on its host; 0: unknown */
    uint32_t missed;  /* events before this one that the queue had no room for: it keeps the latest 256 */
    uint64_t time_ns; /* CLOCK_REALTIME */
    char text[512];   /* one sentence for people */
} tutti_event_t;

/* *events: hears what happens from now on. *descriptor: readable (poll, epoll, select) while events wait, and at times
 * while none does; not to be read or closed; ends with *events. Several may be open. A forked child has none. */
TUTTI_API tutti_result_t tutti_events_open(tutti_events_t *events, int *descriptor);
/* Takes the oldest event; never waits. TUTTI_IN_PROGRESS: there is none. Any thread. */
TUTTI_API tutti_result_t tutti_events_next(tutti_events_t events, tutti_event_t *event);
/* NULL is allowed. */
TUTTI_API tutti_result_t tutti_events_close(tutti_events_t events);

/* ---- Elastic groups ---- */

/* Members whose allreduce ends also when some of them die or are late: the others go on without those, in the same
 * step. Members are processes on host memory, or with a GPU each. From step to step they are a generation; when one is
 * missing, those who answer are the next one. Not for several ranks of one process. Contract, and where it ends:
 * docs/understand/elastic.md (NCCLX section 5.3: fault-tolerant allreduce, hybrid sharding). */
typedef struct tutti_elastic_config {
    size_t size;    /* sizeof(tutti_elastic_config_t) of the caller */
    int timeout_ms; /* a member that does not come to a step within this time is left out, whether it lives or not; the
                       same on all members. 0: TUTTI_TIMEOUT */
    int minimum;    /* units with which the group may go on; the same on all members. 1: down to the last one. Only with
                       more than half of the units can two parts of a network that is cut not both go on */
    int unit;       /* the replica group that this member belongs to: its members stay together, or leave together. -1:
                       a unit of its own */
    int shard;      /* of the unit: members of equal shard reduce with one another. Each unit has the same shards, each
                       once */
    int device;     /* of a newcomer: TUTTI_HOST, TUTTI_CURRENT_DEVICE, or the number of a CUDA device; all members have
                       one, or none has. tutti_elastic_init() takes that of its communicator instead */
    /* A bound of what a step puts on the network; the same on all members. At most `chunks` pieces (1 to 32) of
     * chunk_bytes bytes (4 KiB to 256 MiB) are under way from a member to another one. Each has been asked for by its
     * receiver. Members that share no memory form a ring, by rank; with GPUs processors reduce what goes over the
     * network then. Both 0: as a plain allreduce */
    size_t chunk_bytes;
    int chunks;
} tutti_elastic_config_t;
#define TUTTI_ELASTIC_CONFIG_INITIALIZER                                                                               \
    {                                                                                                                  \
        sizeof(tutti_elastic_config_t), 0, 1, -1, 0, TUTTI_HOST, 0, 0                                                  \
    }

/* What a step has reduced. */
typedef struct tutti_elastic_step {
    size_t size;         /* set by the caller: sizeof(tutti_elastic_step_t) */
    uint64_t step;       /* number of the step, from 1 */
    uint64_t generation; /* with whose members the step counts, from 0 */
    int members, units;  /* how many they are */
    int tries;           /* 1, and one more for each generation that ended in the step */
    double scale;        /* 1.0 / units: a sum times this is the mean */
    const int *set;      /* the numbers of the members, until the next call on the group */
} tutti_elastic_step_t;

typedef struct tutti_elastic_state {
    size_t size; /* set by the caller: sizeof(tutti_elastic_state_t) */
    uint64_t steps, generation;
    int members, units;      /* of the present generation, some of whom may be gone */
    int member, unit, shard; /* of this member. Numbers of members are never used again */
    size_t host_bytes;       /* that the group holds, with the copy of an input on host memory */
    size_t device_bytes;     /* the same of the member's GPU, with the copy of an input there */
} tutti_elastic_state_t;

/* Collective over `comm`: its ranks are the first generation. The group has communicators of its own; `comm` may be
 * destroyed. Members work where `comm` does: on host memory, or on their GPUs. config may be NULL. */
TUTTI_API tutti_result_t tutti_elastic_init(tutti_elastic_t *elastic, tutti_comm_t comm,
                                            const tutti_elastic_config_t *config);

/* One step: out[i] is the reduction of in[i] of all members of this one's shard, in the generation that *step names.
 * Waits for the end. TUTTI_SUCCESS: every member that returns it for this step has the same set and scale. Members of a
 * shard have the same bits: those of a plain allreduce of the set; with chunk_bytes, of a ring (TUTTI_ALGO) whose
 * TUTTI_SLICE is that. A member that is missing is left out, with its unit, and the step is done again from `in`, which
 * is kept. in == out: a copy of it is kept, of count elements, until the end of the group.
 * op: TUTTI_SUM to TUTTI_AVG, which divides by the number of units. step may be NULL.
 *
 * Every failure is for good: the group can only be ended. TUTTI_REMOTE_ERROR: the others have left this member out, or
 * fewer than the minimum have answered. TUTTI_INVALID_USAGE: calls differ. The first wait for one that is late lasts
 * timeout_ms, the second a fourth of it. Members with GPUs: as tutti_elastic_allreduce_on() with the stream NULL. */
TUTTI_API tutti_result_t tutti_elastic_allreduce(tutti_elastic_t elastic, const void *in, void *out, size_t count,
                                                 tutti_type_t type, tutti_op_t op, tutti_elastic_step_t *step);

/* The same for members with GPUs: in and out are device memory. The step begins behind what is on `stream`, a CUstream
 * (NULL: the legacy default stream). It has ended when the call returns, so any stream may use the result: whether the
 * step counts is a question to all members, which the host asks. PyTorch: pass the current stream. The time that
 * the stream needs for what comes before is part of timeout_ms. in == out: the copy is device memory.
 * More failures: TUTTI_INVALID_USAGE: the stream is being captured; the group goes on. TUTTI_REMOTE_ERROR: a member's
 * GPU has begun to store to this one's memory, and does not say that it has ended, as its process was stopped. */
TUTTI_API tutti_result_t tutti_elastic_allreduce_on(tutti_elastic_t elastic, const void *in, void *out, size_t count,
                                                    tutti_type_t type, tutti_op_t op, tutti_stream_t stream,
                                                    tutti_elastic_step_t *step);

/* Makes the meeting point at which newcomers join, opened by this member. */
TUTTI_API tutti_result_t tutti_elastic_get_unique_id(tutti_elastic_t elastic, tutti_unique_id_t *id);

/* Called by all members between two steps, and with tutti_elastic_join() by `newcomers` processes: the next generation
 * has them all. One member passes the id, which it made by tutti_elastic_get_unique_id(), the others NULL. If a
 * newcomer does not come within timeout_ms, or somebody dies meanwhile, all members get TUTTI_REMOTE_ERROR. Then the
 * group goes on without newcomers, as tutti_elastic_get_state() tells, and may grow again. */
TUTTI_API tutti_result_t tutti_elastic_grow(tutti_elastic_t elastic, int newcomers, const tutti_unique_id_t *id);

/* A newcomer: `members` is the number of all with the newcomers, `rank` its own place, from the number of the old
 * members on. What the application keeps, as weights, it gets by means of its own: a step in which all other members
 * give zeros will do. */
TUTTI_API tutti_result_t tutti_elastic_join(tutti_elastic_t *elastic, int members, const tutti_unique_id_t *id,
                                            int rank, const tutti_elastic_config_t *config);

TUTTI_API tutti_result_t tutti_elastic_get_state(tutti_elastic_t elastic, tutti_elastic_state_t *state);

/* Leaves the group and frees it; waits for nobody. Others go on without this member. NULL is allowed. */
TUTTI_API tutti_result_t tutti_elastic_end(tutti_elastic_t elastic);

/* ---- Host streams ---- */

/* A stream orders operations of several communicators. Operations of one stream run one after another. */
TUTTI_API tutti_result_t tutti_stream_create(tutti_stream_t *stream);
/* Waits for the stream's operations first. NULL is allowed. Not while an open group keeps calls on it. */
TUTTI_API tutti_result_t tutti_stream_destroy(tutti_stream_t stream);
/* Waits for all operations issued on the stream; returns the first error among those since the last synchronize. */
TUTTI_API tutti_result_t tutti_stream_synchronize(tutti_stream_t stream);
/* TUTTI_SUCCESS when idle, TUTTI_IN_PROGRESS otherwise. Makes progress. */
TUTTI_API tutti_result_t tutti_stream_query(tutti_stream_t stream);

/* ---- Memory ---- */

/* Page-aligned zeroed memory that peers of this host can map: collectives on it copy less. RDMA devices register it
 * once, not for each payload; so nothing else may be mapped over it. Free with tutti_mem_free. */
TUTTI_API tutti_result_t tutti_mem_alloc(void **pointer, size_t size);
TUTTI_API tutti_result_t tutti_mem_free(void *pointer);

/* Zeroed memory of the CUDA device that is current to the calling thread; peers of this host can map it. */
TUTTI_API tutti_result_t tutti_device_mem_alloc(void **pointer, size_t size);
TUTTI_API tutti_result_t tutti_device_mem_free(void *pointer);

/* Tells the library that [buffer, buffer + size) will be used often with `comm`: what can be prepared once is prepared.
 * Host memory is registered with RDMA devices once, not for each payload, from here to the matching deregister.
 * Until then it must stay mapped as it is. Never needed for correctness. */
TUTTI_API tutti_result_t tutti_comm_register(tutti_comm_t comm, void *buffer, size_t size, void **handle);
/* Collective over `comm`, and waits: every rank registers memory of the same size. Each promises that a collective uses
 * the memory at the same place on all ranks, or on none. GPUs of different processes then reduce it where it lies,
 * without copies: allreduces whose input and output lie in it, reduce-scatters whose input does. Deregister the memory
 * before it is freed, and after the last launch of graphs that were captured while it was registered. After NCCL's
 * symmetric windows. */
TUTTI_API tutti_result_t tutti_comm_register_symmetric(tutti_comm_t comm, void *buffer, size_t size, void **handle);
TUTTI_API tutti_result_t tutti_comm_deregister(tutti_comm_t comm, void *handle);
/* *window: for puts into the memory of a registration, and gets, as of tutti_window_register(); NULL: the memory is no
 * window, as not all ranks have mapped it. The window ends with the registration: deregistering waits for nobody, so no
 * rank may put any more when another one deregisters. Waits for nobody. TUTTI_INVALID_ARGUMENT: handle is no
 * registration of `comm`. After NCCL's symmetric windows, which both are. */
TUTTI_API tutti_result_t tutti_comm_symmetric_window(tutti_comm_t comm, void *handle, tutti_window_t *window);

/* ---- Operators ---- */

/* *op: every rank's input is multiplied by its own *scalar (one element of `type`, read during the call), then summed.
 */
TUTTI_API tutti_result_t tutti_op_create_premul_sum(tutti_op_t *op, const void *scalar, tutti_type_t type,
                                                    tutti_comm_t comm);
/* The same with a scalar in device memory, read when the operation runs: it must stay valid until then. */
TUTTI_API tutti_result_t tutti_op_create_premul_sum_device(tutti_op_t *op, const void *device_scalar, tutti_type_t type,
                                                           tutti_comm_t comm);
TUTTI_API tutti_result_t tutti_op_destroy(tutti_op_t op, tutti_comm_t comm);

/* ---- Collectives ---- */
/*
 * In place means: send and receive buffer overlap exactly as said below. Other overlaps are not allowed. A count of 0
 * is legal and still synchronizes nothing but the order of calls. Buffers need no alignment.
 */

/* recv[i] = op over ranks of send[i], i < count; the same bits on every rank. In place: recv == send. */
TUTTI_API tutti_result_t tutti_allreduce(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                                         tutti_comm_t comm, tutti_stream_t stream);
/* As allreduce, the result only on `root`; recv is ignored elsewhere. In place: recv == send on root. */
TUTTI_API tutti_result_t tutti_reduce(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                                      int root, tutti_comm_t comm, tutti_stream_t stream);
/* recv = root's send; send is ignored elsewhere. In place: recv == send on root. */
TUTTI_API tutti_result_t tutti_broadcast(const void *send, void *recv, size_t count, tutti_type_t type, int root,
                                         tutti_comm_t comm, tutti_stream_t stream);
/* recv holds n blocks of count elements; block r = rank r's send. In place: send == recv + rank * count. */
TUTTI_API tutti_result_t tutti_allgather(const void *send, void *recv, size_t count, tutti_type_t type,
                                         tutti_comm_t comm, tutti_stream_t stream);
/* send holds n blocks of count elements; recv = op over ranks of block `rank`. In place: recv == send + rank * count.
 */
TUTTI_API tutti_result_t tutti_reduce_scatter(const void *send, void *recv, size_t count, tutti_type_t type,
                                              tutti_op_t op, tutti_comm_t comm, tutti_stream_t stream);
/* recv[i] = op over ranks 0 to mine of send[i] (an inclusive scan). Not of TUTTI_AVG. Host memory only. In place: recv
 * == send. */
TUTTI_API tutti_result_t tutti_scan(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                                    tutti_comm_t comm, tutti_stream_t stream);
/* As allgather with blocks of any sizes: rank r's counts[r] elements come to recv + offsets[r]. Both are in elements, n
 * entries each, the same on all ranks, read during the call; offsets NULL: one block behind the other. In place: send
 * == recv + offsets[rank]. */
TUTTI_API tutti_result_t tutti_allgatherv(const void *send, void *recv, const size_t *counts, const size_t *offsets,
                                          tutti_type_t type, tutti_comm_t comm, tutti_stream_t stream);
/* As reduce_scatter with blocks of any sizes: recv = op over ranks of the counts[rank] elements at send +
 * offsets[rank]. Counts and offsets as in allgatherv. In place: recv == send + offsets[rank]. */
TUTTI_API tutti_result_t tutti_reduce_scatterv(const void *send, const size_t *counts, const size_t *offsets,
                                               void *recv, tutti_type_t type, tutti_op_t op, tutti_comm_t comm,
                                               tutti_stream_t stream);
/* Both hold n blocks of count elements; my block r goes to rank r's block `rank`. In place: not allowed. */
TUTTI_API tutti_result_t tutti_alltoall(const void *send, void *recv, size_t count, tutti_type_t type,
                                        tutti_comm_t comm, tutti_stream_t stream);
/* send_counts[r] elements at send + send_offsets[r] go to rank r; recv_counts[r] elements arrive at recv +
 * recv_offsets[r]. Counts and offsets are in elements, n entries each, copied during the call. What r sends me must be
 * what I expect. */
TUTTI_API tutti_result_t tutti_alltoallv(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                         void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                         tutti_type_t type, tutti_comm_t comm, tutti_stream_t stream);

/* What tutti_alltoallv_dynamic() exchanges. Rows are what is counted: `row` elements each. All that is a pointer is
 * device memory, which the GPU reads when the call runs: a kernel in front of the call may write it, and a graph is
 * replayed with what is there then. Until the call is over nobody may write it. */
#define TUTTI_DYNAMIC_SPLITS 2048
typedef struct tutti_dynamic {
    size_t size;                 /* sizeof(tutti_dynamic_t) of the caller */
    size_t row;                  /* elements of a row. The same on all ranks */
    int splits;                  /* number of splits of `send`, 1 to TUTTI_DYNAMIC_SPLITS. The same on all ranks */
    int windows;                 /* of `send`, each with as many of the splits; mostly 1. The same on all ranks */
    const int64_t *split_rows;   /* `splits` entries: rows of each split. In a window splits follow one another */
    const int64_t *index_counts; /* n entries: how many of the indices are for rank 0, for rank 1 and so on */
    const int64_t *indices; /* which splits go to rank 0, then which go to rank 1 and so on, in any order. A split may
                               go to several ranks, or to none */
    size_t index_room;      /* indices that there may be, at most */
    size_t send_rows;       /* rows that a window of `send` has: window w begins at row w * send_rows */
    size_t recv_rows;       /* rows that a window of `recv` has */
    size_t recv_stride; /* what comes from rank r is stored in the window that begins at row r * recv_stride of `recv`;
                           0: all windows are one */
    int64_t
        *recv_splits; /* n * splits entries: gets split_rows of rank 0, then of rank 1 and so on; NULL: not wanted */
} tutti_dynamic_t;

/*
 * Exchange of which only the GPUs know how much goes where. My splits that the indices name for rank r come to rank r's
 * window for me, to the rows where they lie in mine. Between them nothing is stored, and nothing is sent. For a layer
 * of experts: split e are the rows for expert e, and index_counts says how many experts each rank has. To bring results
 * back, call it with recv as send: windows = n, splits = n * the former, split_rows = recv_splits, the indices r *
 * former + e for rank r, and recv_stride 0.
 *
 * The call needs no host: it may be captured in a graph. Counts that are negative, that do not fit the windows, or that
 * name no split fail the communicator, on all ranks, with a sentence that names the rank. Nothing is stored outside the
 * windows then. tutti_comm_get_async_error() and tutti_comm_synchronize() tell. On host memory TUTTI_INVALID_USAGE. Not
 * in a group. In place: not allowed. Needs 33 KiB of device memory for each peer, which every communicator of up to 8
 * GPUs of one host has. Rows of GPUs that share no memory go by way of their hosts. After AllToAllvDynamic (NCCLX
 * section 6.1).
 */
TUTTI_API tutti_result_t tutti_alltoallv_dynamic(const void *send, void *recv, tutti_type_t type,
                                                 const tutti_dynamic_t *what, tutti_comm_t comm, tutti_stream_t stream);
/* On root recv holds n blocks of count elements; block r = rank r's send. In place on root: send == recv + root *
 * count. */
TUTTI_API tutti_result_t tutti_gather(const void *send, void *recv, size_t count, tutti_type_t type, int root,
                                      tutti_comm_t comm, tutti_stream_t stream);
/* On root send holds n blocks of count elements; recv = root's block `rank`. In place on root: recv == send + root *
 * count. */
TUTTI_API tutti_result_t tutti_scatter(const void *send, void *recv, size_t count, tutti_type_t type, int root,
                                       tutti_comm_t comm, tutti_stream_t stream);
/* Done when every rank has called it. */
TUTTI_API tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_stream_t stream);

/* count elements to / from `peer`. Matched in the order of calls between the two ranks; the counts must agree. Calls
 * that must run at the same time (exchange with a peer) belong in one group. A rank may send to itself inside a group.
 */
TUTTI_API tutti_result_t tutti_send(const void *send, size_t count, tutti_type_t type, int peer, tutti_comm_t comm,
                                    tutti_stream_t stream);
TUTTI_API tutti_result_t tutti_recv(void *recv, size_t count, tutti_type_t type, int peer, tutti_comm_t comm,
                                    tutti_stream_t stream);

/* ---- Windows ---- */
/*
 * A window is memory of each rank that the others put into and get from without a call of that rank's. Communicators on
 * host memory have windows, and those on GPUs, but for up to 8 GPUs of one host that do not reach one another's memory:
 * these return TUTTI_INVALID_USAGE. What one rank asks of one other rank is done in the order of the calls. So a signal
 * is there when the data of all puts before it are. Puts may overtake one another. A put or a signal says nothing of
 * its arrival: a flush does. A rank may read what was put into its memory when it has waited for a signal behind it. In
 * a group puts, gets, signals and flushes come before the other calls, and waits for signals behind them.
 *
 * On GPUs all of these calls lie in CUDA streams, and return at once. They follow the communicator's other operations.
 * A window lies whole in one allocation of the rank's GPU that peers can map (of tutti_device_mem_alloc() or
 * cudaMalloc()), and `local` is memory of that GPU. If each rank is on a host of its own, a rank's part of a window may
 * be host memory instead, and `local` pinned host memory. A wait is for 2147483647 signals at most. CUDA graphs may
 * hold the calls, but with TUTTI_STAGE_KERNEL=0 not those to GPUs that share no memory with this one:
 * TUTTI_INVALID_USAGE. A graph is not launched any more when its window is deregistered. GPUs that share no memory, as
 * those of several hosts, have signals from the communicator's first window on. Threads of the library carry their
 * data: wait for the stream, not in a driver's call that holds up other threads.
 */
#define TUTTI_SIGNALS 8 /* counted apart, from each rank to each other one: 0 to 7 */

/* Collective over `comm`, and waits; not in a group: every rank registers [buffer, buffer + size), of a size of its
 * own, which may be 0. The memory must stay mapped as it is until it is deregistered. If one rank cannot, all fail. */
TUTTI_API tutti_result_t tutti_window_register(tutti_comm_t comm, void *buffer, size_t size, tutti_window_t *window);
/* Collective over `comm`, and waits; not in a group, nor while an open group of another thread keeps calls on windows
 * of `comm`. All that any rank has put is there then, and nothing comes any more. After a failure of `comm` the call
 * waits for nobody and returns the failure; the window is closed all the same. A window that is not deregistered ends
 * with the communicator. */
TUTTI_API tutti_result_t tutti_window_deregister(tutti_comm_t comm, tutti_window_t window);
/* *address: where this process reaches the memory of `rank`, to load from and store to; NULL: it does not. It does if
 * the rank lives in this process, or if a process of this host has that memory from tutti_mem_alloc(). On GPUs the
 * address is for kernels and copies of this rank's GPU. *size: the bytes
 * that the rank has registered. Either pointer may be NULL. What is stored there comes before a signal that is called
 * afterwards. */
TUTTI_API tutti_result_t tutti_window_address(tutti_comm_t comm, tutti_window_t window, int rank, void **address,
                                              size_t *size);

/* count elements go to the memory of `peer`, `offset` bytes behind its beginning. A rank may put to itself. */
TUTTI_API tutti_result_t tutti_put(const void *local, size_t count, tutti_type_t type, int peer, tutti_window_t window,
                                   size_t offset, tutti_comm_t comm, tutti_stream_t stream);
/* As tutti_put(), then a signal. */
TUTTI_API tutti_result_t tutti_put_signal(const void *local, size_t count, tutti_type_t type, int peer,
                                          tutti_window_t window, size_t offset, int signal, tutti_comm_t comm,
                                          tutti_stream_t stream);
/* A signal to `peer`, behind all that this rank has put there before. It needs no window. */
TUTTI_API tutti_result_t tutti_signal(int peer, int signal, tutti_comm_t comm, tutti_stream_t stream);

/* Signals of a peer to wait for. */
typedef struct tutti_signal_wait {
    int peer;
    int signal;
    unsigned count;
} tutti_signal_wait_t;

/* Waits for n numbers of signals. Each signal is waited for once: those that have come before count, and those that an
 * earlier wait was over with do not. */
TUTTI_API tutti_result_t tutti_wait_signal(const tutti_signal_wait_t *waits, int n, tutti_comm_t comm,
                                           tutti_stream_t stream);
/* count elements come from the memory of `peer`, with what this rank has put there before. */
TUTTI_API tutti_result_t tutti_get(void *local, size_t count, tutti_type_t type, int peer, tutti_window_t window,
                                   size_t offset, tutti_comm_t comm, tutti_stream_t stream);
/* Over when all that this rank has put to `peer` before is there; -1: to all ranks. */
TUTTI_API tutti_result_t tutti_window_flush(int peer, tutti_window_t window, tutti_comm_t comm, tutti_stream_t stream);

/* ---- Groups ---- */

/* Calls of this thread between start and end are issued together at the (outermost) end. Sends and receives of one
 * communicator run at the same time, and inits of several ranks by one thread meet. Groups nest. An error of any call
 * inside makes the end return it, and nothing of the group is issued. */
TUTTI_API tutti_result_t tutti_group_start(void);
TUTTI_API tutti_result_t tutti_group_end(void);
/* *seconds: how long the calls so far would take that the open group of this thread keeps, by a model of latency and
 * bandwidth. A rough number: 5 us and 300 GB/s between GPUs of a host, 0.5 us and 10 GB/s between processes, 20 us and
 * 1 GB/s between hosts. What makes communicators counts as 0. */
TUTTI_API tutti_result_t tutti_group_estimate(double *seconds);
/* Drops what the open group of this thread keeps, and what comes into it: its outermost end issues nothing and fails.
 * Communicators that it was to make are NULL then. */
TUTTI_API tutti_result_t tutti_group_cancel(void);

#ifdef __cplusplus
}
#endif
#endif
