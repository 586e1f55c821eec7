/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team: one rank's view of a group of ranks, with its queue of operations. What a communicator is to users, a team is
 * to the engine. One thread at a time enqueues; whoever holds the lock runs.
 */
#ifndef TUTTI_ENGINE_TEAM_H
#define TUTTI_ENGINE_TEAM_H

#include "algorithm/choice.h"
#include "base/cpu.h"
#include "device/reduce.h"
#include "engine/circle.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/op_kind.h"
#include "engine/stream.h"
#include "schedule/schedule.h"
#include "trace/trace.h"

#include <pthread.h>

#define TEAM_TURN     (1u << 20) /* bytes of work in a turn: some tenths of a millisecond */
#define TEAM_SENTENCE WIRE_ABORT_TEXT

struct op_block;
struct shared;
struct shared_exchange;
struct shared_plan;
struct rounds;
struct p2p;
struct team;

/* Under the engine's lock. */
typedef void word_fn(void *context, int from, const struct wire_word *word);

/* What a user asked for. */
struct call {
    enum coll coll;
    tutti_type_t type;
    size_t count; /* as in the API call */
    int root;
    int op;          /* tutti_op_t; -1: none */
    uint64_t scalar; /* of a pre-multiplied sum: op is TUTTI_SUM then */
    bool premul;
    const void *scalar_at; /* on devices: where the scalar is, read when the kernel runs; NULL: in `scalar` */
    const void *in;
    void *out;
    const size_t *send_counts, *send_offsets, *recv_counts, *recv_offsets; /* alltoallv: n each */
};

/* Of alltoallv: what this rank sends to a peer, or receives from it. */
struct call_part {
    char *at;
    size_t count;
};
static inline struct call_part call_part(const struct call *call, int peer, bool sends)
{
    size_t offset = (sends ? call->send_offsets : call->recv_offsets)[peer] * type_size(call->type);
    char *base = sends ? (char *)(uintptr_t)call->in : call->out;
    return (struct call_part){base + offset, (sends ? call->send_counts : call->recv_counts)[peer]};
}

/* How a call is carried out: the same for equal calls, so kept between them. */
struct route {
    const struct algorithm *algorithm;
    const struct op_kind *kind;
    struct shared_plan *plan; /* found when it starts */
    struct reduction reduction;
    uint32_t signature;
    struct wire_name name;
};

/* Progress of an operation that goes through shared memory. */
struct shared_run {
    size_t slice, slices;
    size_t stride; /* elements of a block of a slice */
    int round;
    int recv; /* next receive of the round */
    bool published, borrowed;
    bool in_shown, out_shown;       /* peers read these where they lie: none is given back before all have */
    uint32_t in_region, out_region; /* as in a slot_place */
    uint64_t in_offset, out_offset;
    bool settled;
    bool looked;                            /* has read peers' buffers where they lie */
    int prepared;                           /* blocks of the slice's input that have been multiplied */
    const struct shared_exchange *exchange; /* it goes by this, and has published; NULL: by a plan */
};

struct op {
    const struct op_kind *kind;
    bool started;
    struct call call;
    struct route route;
    struct team *team;
    uint64_t position;           /* in the team's queue */
    struct tutti_stream *stream; /* NULL: in order with its team's operations alone */
    struct list turn;            /* in stream->ops */
    enum wire_collective wire_kind;
    size_t bytes; /* of the vector that this rank holds */
    void *owned;  /* freed at the end: counts of alltoallv */
    uint32_t seq; /* of collectives the same on all ranks; sends and receives, which not all issue, are counted apart */
    struct trace_op *trace;
    int waiting; /* rank it waits for; -1 */
    uint32_t waiting_round, waiting_slice;
    int noted; /* the rank that the black box has: it is told only of waits that last */
    union {
        struct shared_run shared; /* the largest */
        struct rounds *rounds;
        struct p2p *p2p;
    };
};

/* queue.h */
struct op_queue {
    struct op_block *tail; /* where operations are put in; */
    uint64_t tail_first;   /* the position of its first place */
    uint64_t blocks;       /* in the ring */
    uint64_t limit;        /* operations from which on who puts one in waits for a while */
    struct op_block *head; /* likewise where they are taken out, under the team's lock */
    uint64_t head_first;
};

/* watch.c: the wait that lasts */
struct watch {
    uint64_t position;
    int peer;
    uint32_t round, slice;
    uint64_t since, next, warn; /* when it began, when to look again, when to warn */
};

/* calls.c: what ranks say of the calls that they wait in */
#define CALLS_KEPT 64
struct calls {
    struct wire_call kept[CALLS_KEPT]; /* collectives, by number: those that have started last */
    uint32_t started;                  /* the last of them */
    uint32_t *sent, *received;         /* messages by peer, that have started */
    uint64_t say;                      /* when to say ours */
    struct wire_message said;          /* by the rank that we wait for; under the engine's lock, */
    struct wire_begun begun;           /* and what it has begun */
    _Atomic int looks; /* at it, in which nothing had moved; -1: nothing was said since this rank waits */
    struct circle circle;
};

struct team {
    struct executor host; /* host.c: its calls on host memory */
    struct engine *engine;
    struct list node; /* in engine->teams */
    int rank, nranks;
    int local_rank, local_ranks;
    uint64_t id;
    uint64_t timeout_ms;          /* silence of a peer after which operations fail */
    struct watch watch;           /* under the lock */
    struct calls calls;           /* likewise */
    _Atomic bool ending;          /* this rank makes no more calls: it waits for those that it has made */
    bool one_process;             /* all ranks live in it */
    bool crowded;                 /* more ranks than processors here: yield, do not spin */
    struct wire_process *process; /* by rank */
    struct link **link;           /* by rank, NULL until used */
    _Atomic uint8_t *gone;        /* by rank: enum wire_cause of how its process left; 0: it has not */
    const struct choice_table *choices;
    enum choice_class class;
    struct levels *levels; /* who is near whom; NULL: one host, or each rank has its own */
    struct trace_comm *trace;
    struct shared *shared;      /* NULL: ranks do not all share memory */
    struct rounds *rounds_idle; /* kept for the next operation */
    _Atomic(struct p2p *) p2p_idle;
    uint32_t *sent, *received; /* p2p sequence by peer, at issue */

    /* the last route, for calls that repeat */
    uint64_t route_key[2];
    struct route route;

    struct try_lock lock;
    size_t work; /* bytes copied and reduced in this turn */
    _Atomic bool attended;
    _Atomic int visitors; /* threads that wait for a stream, by stream_visit(), or run what nobody waits for */
    _Atomic int awaited;  /* rank that the running operation waits for: a hint for who looks without the lock */
    /* If set, nothing is to be done before this word has this value: looked at without the lock. Now and then all is
     * looked at. */
    _Atomic(const _Atomic uint64_t *) awaited_word;
    _Atomic uint64_t awaited_value;
    _Atomic uint64_t issued, completed; /* queue positions */
    _Atomic uint32_t seq;               /* collectives: all ranks count alike. Of who issues; others may look */
    uint32_t p2p_seq;                   /* sends and receives: this rank's own number */
    struct op_queue queue;

    /* failure.c. The cause is written once, under `failing` */
    _Atomic bool failing;
    _Atomic int failed; /* tutti_result_t */
    struct wire_abort cause;
    _Atomic bool flood;           /* peers must be told, */
    _Atomic bool telling;         /* and nobody has waited yet until they knew */
    bool met_some;                /* links to tell them have been made; under the engine's lock */
    _Atomic bool stopped;         /* an operation has failed here, or this rank gave up: those behind it fail too */
    _Atomic uint32_t finished;    /* the last collective that ended well */
    _Atomic uint32_t limit;       /* of a failed team: collectives up to this one go on */
    _Atomic uint64_t failed_from; /* position of the first operation that failed; UINT64_MAX: none has */
    _Atomic uint64_t told;        /* the user has waited for the operations below */

    /* who wants to hear of lost peers and of the failure */
    pthread_mutex_t news_lock;
    void (*news)(void *context);
    bool (*excuses)(void *context, const struct wire_abort *news);
    void *news_context;
    _Atomic bool excused; /* nothing of the host's begins any more, because of this: */
    int excused_culprit;
    char excused_sentence[TEAM_SENTENCE];
    uint32_t quiet; /* runs no collective above this one any more; under the engine's lock */

    /* words.c, likewise */
    word_fn *hear;
    void *hear_context;
};

/* Ranks for each processor where `rank` may run, in percent: of the machine, which has `online` of them, or of those
 * that its launcher or container has left it, whichever is more. Above 100 they must take turns. Sets of processors
 * that overlap in part are taken for apart. */
int team_crowd(const struct wire_process *processes, int nranks, int rank, long online);
extern const struct executor_ops host_executor_ops;
/* What a team is to be. The engine's thread may use a team as soon as it is in the list: nothing of this is changed
 * later. */
struct team_config {
    uint64_t id;
    const char *name;
    int rank, nranks;
    const struct wire_process *processes; /* by rank */
    const struct choice_table *choices;   /* or NULL */
    uint64_t timeout_ms;                  /* 0: TUTTI_TIMEOUT */
};
/* The team of `rank` among the processes; takes over nothing: the table is copied. Joins the engine's list. */
tutti_result_t team_open(struct engine *engine, const struct team_config *config, struct team **out);
/* No operation is running or queued. Waits for visitors, who leave since none is. */
void team_close(struct team *team);
/* Who came by stream_visit() leaves. */
static inline void team_part(struct team *team)
{
    atomic_fetch_sub(&team->visitors, 1);
}

/* Bytes that it holds. */
size_t team_memory(const struct team *team);

/* Nothing is queued, and nothing stands in the way of what comes now. For who puts in. */
static inline bool team_idle(const struct team *team)
{
    return atomic_load_explicit(&team->completed, memory_order_acquire) ==
               atomic_load_explicit(&team->issued, memory_order_relaxed) &&
           !atomic_load_explicit(&team->failed, memory_order_relaxed) &&
           !atomic_load_explicit(&team->excused, memory_order_acquire);
}

/* Something was issued and is over, which had no place in the queue: to wait for what is issued is not to wait again
 * for the same. */
static inline void team_forget_told(struct team *team)
{
    atomic_store_explicit(&team->told, 0, memory_order_relaxed);
}

/* A place at the end of the queue; who is far ahead of what runs is held back while that goes on. Fill it, then
 * team_issue. In a team that has failed there may be one for collectives alone (team_takes_collective). */
tutti_result_t team_place(struct team *team, bool collective, struct op **out);
static inline void op_clear(struct op *op)
{
    op->started = false;
    op->waiting = op->noted = -1;
    op->owned = NULL;
    op->shared =
        (struct shared_run){0}; /* and so what shares its place: one that fails before it begins has nothing to end */
}
/* The number of the next collective. For who issues. */
static inline uint32_t team_next_seq(struct team *team)
{
    uint32_t seq = atomic_load_explicit(&team->seq, memory_order_relaxed) + 1;
    atomic_store_explicit(&team->seq, seq, memory_order_relaxed);
    return seq;
}
/* Enqueues one that has a number and is in the black box; nobody runs it before. */
void team_enqueue(struct team *team, struct op *op, struct tutti_stream *stream);
/* Numbers, enqueues and begins it, without waiting; and sees that it goes on if nobody waits. */
void team_begin(struct team *team, struct op *op, struct tutti_stream *stream);
void team_issue(struct team *team, struct op *op, struct tutti_stream *stream);

/* Runs what can be run now, for about a millisecond at most: then it has paused, and who called sees to other things
 * before going on. Not under the engine's lock, which it takes for links alone: what takes time is done without. */
enum team_moved { TEAM_STILL, TEAM_MOVED, TEAM_PAUSED };
enum team_moved team_progress(struct team *team);
/* Could the operation at the head move? Under the engine's lock. */
bool team_may_move(struct team *team);
/* Has so much been copied in this turn that others should have theirs? Under the team's lock. */
static inline bool team_should_pause(const struct team *team)
{
    return team->work >= TEAM_TURN;
}
/* The operation at the head of the queue. False: there is none, or another thread runs it just now. */
struct team_head {
    const struct op_kind *kind;
    bool started;
    int waiting; /* rank it waits for; -1 */
};
bool team_head(struct team *team, struct team_head *head);
/* Tells the black box whom the running operation waits for; fails it if that one gives no sign of life. */
void team_note_wait(struct team *team, uint64_t now);
/* calls.c, under the team's lock: a collective starts; a message with `peer` starts. */
static inline void calls_start(struct team *team, uint32_t seq, struct wire_call call)
{
    team->calls.kept[seq % CALLS_KEPT] = call;
    team->calls.started = seq;
}
static inline void calls_message(struct team *team, int peer, bool sends)
{
    (sends ? team->calls.sent : team->calls.received)[peer]++;
}
/* A wait begins; it lasts, under both locks: tells the peer of it, and finds out whether that one is in another call.
 */
void calls_wait(struct team *team, uint64_t now);
void calls_look(struct team *team, const struct op *op, uint64_t now);
/* A peer has said what it waits in, or answered: the body of WIRE_CALL or WIRE_BLOCKED. Under the engine's lock. */
void calls_hear(struct team *team, const struct wire_message *said, const void *body);
/* For circle.c: has this rank begun the call that another one waits for? To another rank, here or over its link. */
bool calls_begun(const struct team *team, const struct wire_message *waits);
void calls_send(struct team *team, int rank, const struct wire_message *head, const void *body, size_t length);
#define CALLS_TEXT (WIRE_CALL_TEXT + 60)
const char *calls_text(const struct wire_message *said, char *out, size_t size);
/* watch.c: `op` waits for op->waiting. Under the team's lock. */
void team_watch(struct team *team, const struct op *op, uint64_t now);

/* Waits, progressing, until `position` operations have completed. The failure of the team if one of them failed; what
 * had completed before is not reported as failed, but once: who waits again for the same hears of a failure behind it
 * too. */
tutti_result_t team_wait(struct team *team, uint64_t position);
/* The same, but ends well as soon as `enough`, too. */
tutti_result_t team_wait_or(struct team *team, uint64_t position, const _Atomic bool *enough);

/* calls.c: everything issued has ended: has any peer been in other calls, as far as that can be seen? At the `end`
 * also: what has come and was never received? */
tutti_result_t team_audit(struct team *team, bool end);
/* Likewise, and remembers what was begun for peers that still wait. Under the engine's lock. */
void calls_keep(struct team *team);
void calls_closed(struct engine *engine, struct link *link, const struct wire_message *said);

/*
 * failure.c. The first failure stays, and all ranks report the same one. Any thread; under the engine's lock or not.
 * What comes back is the team's failure, whatever it was.
 *
 * team_fail: this rank cannot go on. team_lose: it waits for `peer`, whose process has left; the peer is blamed, unless
 * it left because of another failure. team_hear: another rank says so. Then collectives that the other had finished may
 * still end well here.
 */
tutti_result_t team_fail(struct team *team, tutti_result_t result, int culprit, const char *sentence);
tutti_result_t team_lose(struct team *team, int peer, const char *why);
tutti_result_t team_hear(struct team *team, const struct wire_abort *news);
tutti_result_t team_failure(const struct team *team);
/* The failure, for the team's user, who may end the process when he has it: peers know before, those that do not answer
 * soon apart. Not under the engine's lock. */
tutti_result_t team_report(struct team *team);
/* Of a team that has failed: may this operation still go on? */
bool team_allows(struct team *team, const struct op *op);
/* Likewise, may the next collective be issued? Those may that who gave up had finished, however late the call. For who
 * issues. */
bool team_takes_collective(const struct team *team);
/* The user issues nothing more: peers of a failed team wait in vain for what he has not issued. For who issues. */
void team_end_calls(struct team *team);
/* An operation has failed: no other begins. */
void team_stop(struct team *team);
/* A transfer with `peer` failed. why: error_last() of the thread that learnt of it. */
tutti_result_t team_fail_transfer(struct team *team, int peer, tutti_result_t result, const char *why);
/* What a failed team has to say to others. */
struct wire_abort team_news(const struct team *team);
/* What a peer, or a rank of this process, says of one of the engine's teams. Under the engine's lock. */
void failure_heard(struct engine *engine, uint64_t comm, const struct wire_abort *news);
/* What has been said of the team before it was open. Likewise. */
void failure_heard_early(struct team *team);
/* Tells peers of teams that have failed here: over links, and those that live in this process, which have no link to
 * it. Under the engine's lock. */
void failure_flood(struct engine *engine);

/* The cause of a failure that this rank notices, to be told to others. team_blame: as team_lose finds it. */
struct wire_abort team_cause(const struct team *team, tutti_result_t result, int culprit, const char *sentence);
struct wire_abort team_blame(const struct team *team, int peer, const char *why);
/* The result that a rank reports for what another one says has failed there. */
tutti_result_t failure_here(tutti_result_t there);

/* Fails it for two ranks whose collectives of number `seq` differ. */
tutti_result_t team_refuse(struct team *team, struct wire_call mine, int peer, struct wire_call theirs, uint32_t seq);

/* `news` is called, by any thread and under any lock, when a peer's process is lost or the team fails. NULL: no longer;
 * when this returns it is not being called. `excuses` (or NULL): does that failure of a peer's leave what this rank has
 * issued alone? */
void team_on_news(struct team *team, void (*news)(void *context),
                  bool (*excuses)(void *context, const struct wire_abort *news), void *context);
void team_tell_news(struct team *team);
/* A peer's team has failed. Is this one excused from failing for that? Then the host begins nothing any more. */
bool team_excuses(struct team *team, const struct wire_abort *news);

/* The operation waits for `peer` from now on. */
static inline void op_waits(struct op *op, int peer, uint32_t round, uint32_t slice)
{
    op->waiting = peer;
    atomic_store_explicit(&op->team->awaited, peer, memory_order_relaxed);
    atomic_store_explicit(&op->team->awaited_word, NULL, memory_order_relaxed);
    op->waiting_round = round;
    op->waiting_slice = slice;
}

/* The running operation has nothing to do before the word, which only grows, has this value. */
static inline void team_awaits(struct team *team, const _Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(&team->awaited_value, value, memory_order_relaxed);
    atomic_store_explicit(&team->awaited_word, word, memory_order_relaxed);
}

/* A collective as its messages name it. */
static inline struct wire_call op_call(const struct op *op)
{
    return (struct wire_call){op->route.signature, op->call.root, op->call.count};
}

/* Does the rank live in this process? */
static inline bool team_is_here(const struct team *team, int rank)
{
    return team->one_process || wire_same_process(team->process[rank].uuid, team->process[team->rank].uuid);
}
/* The link to a rank. Under the engine's lock. */
tutti_result_t team_link(struct team *team, int rank, struct link **out);

/* words.c: what ranks tell one another besides operations, also when the team has failed. `hear` is called under the
 * engine's lock, and speaks but WIRE_WORD_LEAVE. Who speaks to a rank that has closed the team is answered that it has
 * left. team_say: under the engine's lock. */
void team_on_words(struct team *team, word_fn *hear, void *context);
tutti_result_t team_say(struct team *team, int to, const struct wire_word *word);
void words_heard(void *context, struct link *link, const struct wire_tag *tag, const struct wire_word *word);

/* Bytes of the whole vector of a call: what algorithms are chosen by. */
size_t team_vector_bytes(const struct team *team, const struct call *call);
/* A collective: checks nothing, enqueues. Takes over `owned` (malloc'ed, may be NULL), whatever it returns. */
tutti_result_t team_collective(struct team *team, const struct call *call, void *owned, struct tutti_stream *stream);

/* Collectives among ranks of the library itself, which wait. team_tell_all: every rank tells all others `size` bytes.
 */
tutti_result_t team_do(struct team *team, const struct call *call);
tutti_result_t team_tell_all(struct team *team, const void *mine, size_t size, void *all);

#endif
