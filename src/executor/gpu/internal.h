/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. The GPU executor: the GPUs of one host that a communicator's ranks own, one
 * each, and that write into one another's memory. What a team is to host memory it is to device memory: it carries out
 * collectives, in the order of CUDA streams, and never makes a caller wait for a peer's work. docs/executor.md.
 */
#ifndef TUTTI_EXECUTOR_GPU_INTERNAL_H
#define TUTTI_EXECUTOR_GPU_INTERNAL_H

#include "base/list.h"
#include "base/thread.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/memory.h"
#include "engine/executor.h"
#include "engine/p2p.h"
#include "engine/team.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/settle.h"
#include "executor/staged/staged.h"
#include "plan/plan.h"
#include "device/type.h"
#include "wire/blackbox.h"

#include <pthread.h>

/* A CUstream; NULL is the legacy default stream. */
typedef void *gpu_stream_t;

/* A peer's buffer that is mapped here. */
struct import {
    struct list node; /* in the list of those to be closed */
    int peer, offer;
    uint32_t number; /* of the offer */
    struct cuda_handle handle;
    CUdeviceptr address;
    bool told; /* to kernels, also if it is not any more: such as graphs replay may still store to it */
};

/* What this rank knows of an offer that it made. */
struct offered {
    uint32_t number; /* 0: none */
    uint64_t id, base, size;
    uint64_t used;           /* when, for the choice of what makes room */
    bool invited;            /* kernels are invited to it: it makes none */
    uint32_t pushed, pulled; /* the last messages that peers copy to and from it */
    uint32_t kept;           /* so many count on it: it stays as it is */
};

/* A descriptor that goes to a peer when the link is there. */
struct passed_fd {
    struct list node;
    int peer, fd;
    uint64_t key;
};

/* A message by copy engine between its two halves: what is begun and what the user's stream waits for. */
struct transfer {
    int peer;
    bool sends;
    char *memory;
    uint64_t bytes;
    uint64_t sent; /* by this rank, at the same time */
    uint32_t number;
    bool copies;    /* this rank does the copying */
    bool by_kernel; /* it is not staged: where that were its way it is left to a kernel */
    bool pushed;    /* its sender copies it, or nobody does */
    enum mailbox_way way;
    struct mailbox_post post;     /* of the end whose call came first */
    uint32_t piece;               /* the first one's number, of a staged message */
    const struct transfer *after; /* what this rank sends to another peer is to be copied first; NULL: nothing */
};

/* What a stream is to wait for and write, in this order: each by itself takes a stream some microseconds. */
#define SIDE_WORDS (4 * KERNEL_RANKS)
struct side_words {
    CUstreamBatchMemOpParams list[SIDE_WORDS];
    unsigned count;
};

/* Of a group: none waits for another. Of a collective: they may. Of one that none ends before all have come to it. */
enum exchange { EXCHANGE_GROUP, EXCHANGE_COLLECTIVE, EXCHANGE_ALL };

/* Messages of an exchange that copy engines carry. */
struct copies {
    struct transfer list[2 * KERNEL_RANKS];
    int count;
    enum exchange kind;
    struct side_words words; /* that the user's stream has yet to write */
};

struct record;    /* record.c */
struct symmetric; /* symmetric.c */

/* The last plan that was made. */
struct planned {
    bool made, symmetric;
    unsigned element; /* bytes */
    struct plan plan;
};

/* A rank that takes part no more. */
struct departure {
    int culprit;
    enum mailbox_cause cause;
};

#define MIXING_MESSAGES (2 * MAILBOX_POSTS)

/* Who looks for ranks that call what this one replays. */
struct mixing_watch {
    uint32_t suspects; /* of the last look: bits of ranks; kernels were asked then */
    uint32_t over[KERNEL_RANKS];
    unsigned looks[KERNEL_RANKS]; /* in a row, that found the same */
    uint64_t due;                 /* the next look */
};

/* What somebody knows who looks again and again at what this rank waits for. */
struct depart_watch {
    uint64_t from;             /* of step_first() */
    uint32_t ticket;           /* of the step that is being watched */
    unsigned looks;            /* in vain */
    uint64_t due;              /* the next one that counts */
    uint64_t deadline, latest; /* of one that leaves; 0: not set */
};

/* The choice of ways: src/plan. */
struct gpu_plan {
    struct plan_facts facts;               /* from these */
    struct plan_rules rules;               /* and these */
    struct planned planned[COLL_COUNT][2]; /* comes this, for calls and for what is captured: calls repeat */
    struct plan_forms forms;               /* of messages */
    uint32_t reads;                        /* launches whose contributions are read: their last number */
    struct way_flows flows;                /* what this rank does in each collective, as it was last carried out */
};

/* order.c: which operation comes behind which. */
struct gpu_order {
    const _Atomic uint32_t *over; /* pinned: the ticket of the last operation that is over */
    CUdeviceptr over_device;
    CUstream last;
    uint32_t tickets, told;  /* handed out; of this operation's last kernel, 0 if something was issued behind it */
    _Atomic uint32_t ticket; /* of the last operation outside of graphs; 0: there was none */
    bool capturing;
    _Atomic bool untracked; /* nothing will tell that an operation is over */
    _Atomic bool captured;  /* there was one in a graph: no ticket tells of those */
};

/* graphs.c: the order of what graphs replay; and whether the GPU still works. */
struct gpu_graphs {
    CUevent serial, tail; /* the last operation, of graphs and calls, and of those in the graph that is captured; NULL:
                             nothing was captured */
    cuuint64_t capture;   /* in which the last operation was captured */
    CUstream last_captured;
    CUevent sound; /* recorded in the stream behind it, in which nothing else is: tells whether the GPU has failed */
    CUstream sounded;
    _Atomic bool lost;   /* it has */
    _Atomic int refused; /* how often in a row nothing could be recorded */
};

/* scratch.c: memory that peers write to. */
struct gpu_scratch {
    CUdeviceptr window, bulk, stand_in; /* own device memory; 0: none */
    bool by_descriptor;                 /* peers map it so, as some could not open IPC handles */
    CUdeviceptr sealed;                 /* the window that these were of */
    struct mailbox_buffer windows[KERNEL_RANKS], bulks[KERNEL_RANKS];
    bool window_imported[KERNEL_RANKS], bulk_imported[KERNEL_RANKS];
    pthread_mutex_t posting; /* of bulk, by who calls, or waits in a call of another communicator */
    _Atomic bool bulk_posted;
    uint32_t bulk_taken; /* ranks whose bulk this one has reached */
};

/* transfer.c, copy.c: messages and pieces by copy engine, by peer; the helper reads their numbers when the team has
 * failed. */
struct gpu_messages {
    _Atomic uint32_t sent[KERNEL_RANKS], received[KERNEL_RANKS], sent_pieces[KERNEL_RANKS],
        received_pieces[KERNEL_RANKS];
    /* of the operations in which the latest were called, [0] of those sent, the first ticket; by number */
    _Atomic uint32_t first[2][KERNEL_RANKS][MIXING_MESSAGES];
    CUevent mark;                   /* where a stream stood */
    CUstream copy[2][KERNEL_RANKS]; /* [0] to a peer, [1] from it */
    bool pushes;                    /* within a process they push all, on the sender's GPU */
    uint64_t wait;                  /* percent of the time of its copies that a sender waits for the receiver's call */
    size_t stage;                   /* bytes of a piece of a staged message; 0: there are none */
};

/* offer.c, import.c: users' buffers that peers map, and peers' that are mapped here. */
struct gpu_offers {
    struct offered offered[KERNEL_RANKS][MAILBOX_OFFERS];
    uint64_t used;
    pthread_mutex_t offering;                                    /* guards `offered`, for calls and the importer */
    struct import *_Atomic import[KERNEL_RANKS][MAILBOX_OFFERS]; /* the answers to peers' offers; NULL: not mapped */
    pthread_mutex_t lock;        /* guards descriptors under way, old imports, and what imports become old */
    struct list passed_fds, old; /* old: what is to be closed when nothing is under way */
    _Atomic bool any_old;
    uint32_t invited[KERNEL_RANKS];                      /* how many of each peer's */
    pthread_mutex_t telling;                             /* guards what follows */
    _Atomic uint32_t told[KERNEL_RANKS][MAILBOX_OFFERS]; /* numbers of offers that kernels know; 0: none */
    CUstream teller;
};

/* depart.c: ranks that take part no more, this one among them. settle.c: what they may still do to this one. */
struct gpu_departs {
    _Atomic bool leaving;      /* aborted: nothing begins any more, what is under way may end */
    _Atomic bool refused_call; /* a call was, because of `refusal`: the team fails of that when all before it is over */
    struct departure refusal;
    struct depart_watch at_exit;
    _Atomic bool parted;                          /* the team's failure is no news to peers but by the mailbox */
    _Atomic uint32_t awaited;                     /* bits of ranks for whose hosts a call waits */
    struct opened opening, opened[MAILBOX_STEPS]; /* of the call that is issued; of steps */
    uint32_t reached;                             /* the last ticket that was over when this rank gave up */
    uint64_t patient;                             /* so long it waits for peers to end what stores to it */
    _Atomic bool given_up;                        /* it has */
};

/* symmetric.c: memory that all ranks have registered and mapped. */
struct gpu_symmetric {
    pthread_mutex_t lock; /* guards the list */
    struct list memories;
    _Atomic int count;
};

struct gpu {
    struct executor executor;
    struct team *team;
    const struct cuda_driver *cu;
    struct cuda_device *device;
    int rank, nranks;
    bool here[KERNEL_RANKS]; /* the rank lives in this process */
    struct staged
        *staged; /* ranks share no memory: all goes by it, and nothing below is used but `order` and `graphs` */
    struct gpu_order order;
    struct gpu_graphs graphs;

    struct mailbox *mailbox;
    bool mailbox_registered;
    CUdeviceptr mailbox_device;
    struct kernel_team kernels;       /* what every launch takes */
    struct mailbox_step step;         /* of the call that is being issued: step.c */
    struct record *record;            /* NULL: there is no black box */
    size_t memory[WIRE_MEMORY_COUNT]; /* what it holds */
    struct gpu_plan plan;
    struct gpu_scratch scratch;
    struct gpu_messages messages;
    struct gpu_offers offers;
    struct gpu_symmetric symmetric;
    struct gpu_departs departs;

    struct list idle; /* in the process's list of executors */
    int visitors;     /* others that act on this executor; guarded by that list's lock */

    struct thread helper, importer;
    _Atomic bool stop, importer_stops;
};

/* executor.c: what communicators call; the executor is open */
struct executor *gpu_executor(struct gpu *gpu);
tutti_result_t gpu_open(struct team *team, const struct executor_config *config, int mailbox, struct executor **out);
/* Waits for this rank's work unless the team has failed. Does not wait for peers: memory that they may still write to
 * is freed when they have closed theirs. NULL is allowed. */
void gpu_close(struct gpu *gpu);

/*
 * The user aborts: no call begins any more. What peers have come to, too, is brought to its end, for a bounded time;
 * then the team fails, and peers' operations that need nothing more of this rank end as if nothing had happened. False:
 * there is no such way, or the team has failed.
 */
bool gpu_leave(struct gpu *gpu);
void gpu_wait_left(struct gpu *gpu);

/* What may need peers' hosts is begun: calls that one thread issues for several ranks are all prepared before any is
 * issued. */
tutti_result_t gpu_prepare(struct gpu *gpu, const struct call *call);
tutti_result_t gpu_collective(struct gpu *gpu, const struct call *call, gpu_stream_t stream);
/* Sends and receives of one group, at the same time. */
tutti_result_t gpu_p2p(struct gpu *gpu, const struct p2p_item *items, int count, gpu_stream_t stream);
/* What comes on `stream` follows what is on `before`: for a group on several streams. */
tutti_result_t gpu_follow(struct gpu *gpu, gpu_stream_t stream, gpu_stream_t before);

/* Whether other threads may issue calls on the stream in the caller's stead: not what is captured, or the caller's own
 * stream. */
bool gpu_any_thread(struct gpu *gpu, gpu_stream_t stream);

/* The team's failure, also if so far only the mailbox tells of it: streams may have been let go already, with undefined
 * data. */
tutti_result_t gpu_hear_failure(struct gpu *gpu);

/* Waits for all that was issued outside of graphs. */
tutti_result_t gpu_synchronize(struct gpu *gpu);

void gpu_memory(struct gpu *gpu, size_t *device_bytes, size_t *host_bytes);

/* order.c: this rank's operations follow one another, whatever streams they are issued on */
tutti_result_t order_begin(struct gpu *gpu, CUstream stream, bool collective);
tutti_result_t order_end(struct gpu *gpu, CUstream stream, tutti_result_t issued);
/* Between the two: a kernel, with parameters that begin with `what`, which this fills in; something that is no kernel.
 */
tutti_result_t order_launch(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                            struct kernel_team *what, CUstream stream);
void order_more(struct gpu *gpu);
/* What is staged: a ticket that the host tells of, or 0. */
uint32_t order_staged(struct gpu *gpu);
/* Any thread. Is it over? Is all that was issued outside of graphs? */
bool order_is_over(const struct gpu *gpu, uint32_t ticket);
bool order_idle(const struct gpu *gpu);

/* step.c: what each operation needs of whom, told on the mailbox: how far a rank has come is seen there when it is gone
 */
void step_collective(struct gpu *gpu, const struct call *call);
void step_p2p(struct gpu *gpu, const struct p2p_item *items, int count);
/* The call has returned. `kernel`: one comes last. */
void step_issued(struct gpu *gpu, uint32_t ticket, bool kernel, bool whole);
/* The first that is not over of this rank's, outside of graphs; NULL: all are. *from: where it was when last looked
 * for. */
const struct mailbox_step *step_first(const struct gpu *gpu, uint64_t *from);
/* Has rank `peer` finished all that this rank's step needs of it? Has it issued that? */
bool step_is_served(const struct gpu *gpu, const struct mailbox_step *step, int peer);
bool step_is_met(const struct gpu *gpu, const struct mailbox_step *step, int peer);
/* Has that rank's host begun it, and its GPU not ended it? */
bool step_is_under_way(const struct gpu *gpu, const struct mailbox_step *step, int peer);

/* depart.c: ranks that take part no more. What others issued, and what needs nothing of those any more, ends as if
 * nothing had happened. */
bool depart_has(const struct gpu *gpu, int rank, struct departure *out);
bool depart_any(const struct gpu *gpu);
/* For the helper, again and again; the microseconds until it shall look again, 0: when there is news. */
uint64_t depart_look(struct gpu *gpu, struct depart_watch *watch);
/* Streams may have been let go by a rank that departed: what they waited for is undone, and the team fails. */
void depart_notice(struct gpu *gpu);
/* A call cannot be carried out without that rank. Returns the error. */
tutti_result_t depart_refuse(struct gpu *gpu, struct departure who);
/* Nothing is left of what came before a refused call: the team fails. */
void depart_settle(struct gpu *gpu);
/* A peer's team has failed because a rank takes part no more: it is for this executor to say what fails here. */
bool depart_excuses(void *gpu, const struct wire_abort *news);
/* This rank's team has, on the host: then this rank departs, too, as peers may be excused. False: of something else. */
bool depart_follow(struct gpu *gpu);
/* From now on the end of the process waits, for a bounded time, for what this rank's GPU still does for peers. */
void depart_at_exit(void);

/* graphs.c: between calls of order_begin() and order_end(), in front of and behind the operation */
tutti_result_t graphs_begin(struct gpu *gpu, CUstream stream);
tutti_result_t graphs_end(struct gpu *gpu, CUstream stream);
void graphs_close(struct gpu *gpu);

/* mixing.c: ranks that replay what others call, where that cannot go well: then the team fails. As depart_look(). */
uint64_t mixing_look(struct gpu *gpu, struct mixing_watch *watch);
/* Likewise, while a call waits for the other end's of MAILBOX_POSTS messages before: was that carried without a call?
 */
void mixing_wait(struct gpu *gpu, int peer, int end, uint32_t number);

/* record.c: what the black box shows of this rank */
/* The executor is made. Whatever fails here leaves the executor without records. */
void record_open(struct gpu *gpu);
void record_close(struct gpu *gpu);
/* A call begins; it has returned, and has its ticket. Between the two: how it is carried. */
void record_call(struct gpu *gpu, const struct call *call);
void record_p2p(struct gpu *gpu, const struct p2p_item *items, int count);
/* The call goes this way: returns what this rank does in its schedule, which is what the black box shows. NULL: it
 * cannot, with a sentence. */
const struct flow *record_way(struct gpu *gpu, enum way way, const struct call *call);
/* Of an exchange: copy engines carry messages of it. */
void record_copies(struct gpu *gpu);
void record_returned(struct gpu *gpu, tutti_result_t result);
/* Notes what is over. */
void record_look(struct gpu *gpu);
/* It holds so many bytes more. */
void record_memory(struct gpu *gpu, enum wire_memory row, size_t bytes);

/* memory.c */
tutti_result_t memory_zeroed(const struct cuda_driver *cu, size_t size, CUdeviceptr *out);
/* Of the current device, for users: peers can map it. */
tutti_result_t gpu_memory_alloc(void **out, size_t size);
tutti_result_t gpu_memory_free(void *pointer);
/* Do GPUs of this process address it, whichever it is on? Not memory of pools, mapped pieces and managed memory, as far
 * as is known. */
bool memory_is_reached(const struct gpu *gpu, const void *memory);
tutti_result_t gpu_copy(const struct gpu *gpu, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);

/* scratch.c: windows, and bulk, the larger scratch that is made at its first use */
tutti_result_t scratch_window(struct gpu *gpu);
/* Where a piece from `peer` lies in rank `rank`'s window. */
CUdeviceptr scratch_stage(const struct gpu *gpu, int rank, int peer, uint32_t piece);
/* For peers: by a handle, or by descriptors, which are on their way to them when this returns. */
enum scratch_kind { SCRATCH_WINDOW, SCRATCH_BULK };
tutti_result_t scratch_describe(struct gpu *gpu, CUdeviceptr memory, enum scratch_kind kind,
                                struct mailbox_buffer *out);
/* Where kernels look up what this rank has mapped; NULL: windows are in host memory. */
struct kernel_mappings *scratch_mappings(const struct gpu *gpu);
tutti_result_t scratch_reach(struct gpu *gpu, int peer, const struct mailbox_buffer *theirs, enum scratch_kind kind,
                             CUdeviceptr *out, bool *imported);
/* Makes this rank's, and tells the others. */
tutti_result_t scratch_post_bulk(struct gpu *gpu);
/* By the importer: makes this rank's when a peer has made its own, so that a call there need not wait for one here. */
void scratch_answer(struct gpu *gpu);
/* Reaches that of these ranks, this one among them. */
tutti_result_t scratch_take_bulk(struct gpu *gpu, uint32_t ranks);
/* Peers' windows are not used any more: they are unmapped in a pause. */
void scratch_give_back_windows(struct gpu *gpu);
/* Memory in place of a user's that peers do not reach: two vectors of PEER_MOST bytes. */
tutti_result_t scratch_stand_in(struct gpu *gpu);
/* Unmaps peers' memory as soon as nothing is under way; frees own, and what staging has pinned, as soon as peers have
 * unmapped it, too. Waits for neither. */
void scratch_close(struct gpu *gpu, void *const pinned[STAGED_PINNED]);
/* The process ends, and with it all that it has mapped: peers are told. */
void scratch_exit(void);
/* A call on this executor: is it the time to free what closed ones have left? */
void scratch_sweep(struct gpu *gpu);

/* reduce.c */
tutti_result_t reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan, const struct flow *flow,
                            CUstream stream);

/* symmetric.c: memory that all ranks register together, and map */
/* Collective, and waits for peers. NULL, also at a success: some rank could not map all, or none needs to. */
tutti_result_t symmetric_open(struct gpu *gpu, void *buffer, size_t size, struct symmetric **out);
void symmetric_close(struct gpu *gpu, struct symmetric *symmetric);
void symmetric_close_all(struct gpu *gpu);
/* Does the reduction's memory lie in such? Then it does on all ranks. */
bool symmetric_holds(struct gpu *gpu, const struct call *call);
/* Where the memory that holds it begins on each rank, as this one addresses it; all 0: it lies in none. */
void symmetric_bases(struct gpu *gpu, const void *memory, size_t bytes, uint64_t *base);

/* peer_reduce.c: reductions of users' memory where it lies */
tutti_result_t peer_reduce_prepare(struct gpu *gpu, const struct call *call);
tutti_result_t peer_reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                 const struct kernel_reduce *reduce, CUstream stream);

/* exchange.c: any pattern of messages between ranks, of which each sends and receives one to and from each. */
tutti_result_t exchange_issue(struct gpu *gpu, struct kernel_exchange *what, enum exchange kind, CUstream stream,
                              bool capturing);

/* copy.c: large messages, by copy engine */
/* `ways`: bits of the peers to which and from which messages are to go this way; of those that go after all, as buffers
 * that peers have not mapped yet are left to the kernel. Nothing of them comes behind what is put into the stream from
 * here on; what peers wait for may be. */
tutti_result_t copy_begin(struct gpu *gpu, const struct kernel_exchange *what, uint32_t ways[2], enum exchange kind,
                          CUstream stream, struct copies *copies);
/* What a rank has for itself, and the stream waits for all. */
tutti_result_t copy_end(struct gpu *gpu, const struct kernel_exchange *what, const struct copies *copies,
                        CUstream stream);
tutti_result_t copy_chain(struct gpu *gpu, const char *from, char *to, uint64_t bytes, uint64_t piece, int before,
                          int after, CUstream stream);
/* Of all streams beside the user's: waits for what is in them; ends them. */
tutti_result_t copy_drain(struct gpu *gpu);
void copy_close(struct gpu *gpu);

/* transfer.c: one message. Between the parts others may begin. What tells the peer, behind what is in the stream, is
 * left in `words`: the caller issues it, and before this waits for a peer's host it does. */
tutti_result_t transfer_begin(struct gpu *gpu, struct transfer *transfer, struct side_words *words, CUstream stream);
/* Beside the stream, from where it was marked: side_mark(). */
tutti_result_t transfer_copy(struct gpu *gpu, const struct transfer *transfer);
/* Some that this rank copies to other processes: one behind another, when all of their receivers have come. */
bool transfer_is_push(const struct transfer *transfer);
tutti_result_t transfer_push_all(struct gpu *gpu, const struct transfer *const *list, int count);
/* The user's stream goes on when it is done: that is left in `words`. */
tutti_result_t transfer_end(struct gpu *gpu, const struct transfer *transfer, struct side_words *words,
                            CUstream stream);
/* A piece of a staged message; false: there are no more. Pieces of several messages go in turn. */
bool transfer_piece(struct gpu *gpu, const struct transfer *transfer, uint32_t index, CUstream stream,
                    tutti_result_t *result);
/*
 * Lets go all streams that wait for words; to be called again and again. Those that wait for a copy go when it is over,
 * as their user may then free its memory: unless the copier is lost, or `at_once`.
 */
void transfer_give_up(struct gpu *gpu, bool at_once);
/* Is there a message with `peer` that one of the two has let go before it was done? */
bool transfer_undone(const struct gpu *gpu, int peer);

/* side.c: what streams wait for and write */
tutti_result_t side_wait(const struct gpu *gpu, CUstream stream, const _Atomic uint32_t *word, uint32_t value);
tutti_result_t side_write(const struct gpu *gpu, CUstream stream, const _Atomic uint32_t *word, uint32_t value);
/* The same for several at once: they are noted, and issued where there is no room for more, or by side_issue(), which
 * is to follow. */
tutti_result_t side_add_wait(const struct gpu *gpu, struct side_words *words, CUstream stream,
                             const _Atomic uint32_t *word, uint32_t value);
tutti_result_t side_add_write(const struct gpu *gpu, struct side_words *words, CUstream stream,
                              const _Atomic uint32_t *word, uint32_t value);
tutti_result_t side_issue(const struct gpu *gpu, struct side_words *words, CUstream stream);
/* A stream of `owner` beside users' streams, if there is none yet. It is waited for and destroyed. */
tutti_result_t side_make(const struct gpu *owner, CUstream *side);
void side_end(const struct gpu *owner, CUstream side);
tutti_result_t side_wait_all(const struct gpu *owner, CUstream side);
/* Where a stream stands; `gpu`'s context is current, as the default streams are the current context's. */
tutti_result_t side_mark(const struct gpu *gpu, CUstream stream);
/* As side_make(); it goes on from there. `owner`'s context is current. */
tutti_result_t side_branch(const struct gpu *gpu, const struct gpu *owner, CUstream *side);
/* Lets go who waits for it. To be repeated: a peer's stream that still runs may put a smaller number in place of this
 * one. */
void side_release(_Atomic uint32_t *word, uint32_t value);

/* offer.c: which buffers of this rank peers have mapped */
/* -1: not (yet); an offer was made, if one can be. */
int offer_find(struct gpu *gpu, int peer, const struct cuda_range *range);
/* For a message that a graph receives: what its kernel tells the sender's (kernels.h). 0: to use slots. */
uint64_t offer_invite(struct gpu *gpu, int peer, const void *memory, uint64_t bytes);
void offer_use(struct gpu *gpu, int peer, int offer, const struct transfer *transfer);
/* It stays, even if its memory is freed, until it is let go as often; whether it is mapped is not known yet. -1: there
 * is none. */
int offer_keep(struct gpu *gpu, int peer, const struct cuda_range *range);
void offer_let_go(struct gpu *gpu, int peer, int offer);
/* Gives peers the descriptors that go with offers. Returns whether some are left. */
/* Lets peers go of what has been freed. Returns whether there are any offers. */
bool offer_withdraw_freed(struct gpu *gpu);
bool offer_deliver(struct gpu *gpu);
/* A copy of the descriptor is to go to a peer. */
tutti_result_t offer_pass_fd(struct gpu *gpu, int peer, int fd, uint64_t key);
void offer_close(struct gpu *gpu);

/* import.c: peers' buffers that are mapped here, by a thread of its own */
tutti_result_t import_start(struct gpu *gpu);
void import_stop(struct gpu *gpu);
/* Where a buffer is that the peer knows to be mapped. */
CUdeviceptr import_address(const struct gpu *gpu, int peer, uint32_t offer);
/* The same of an offer that has just been made: waits until it is answered. 0: it cannot be mapped. */
tutti_result_t import_wait(struct gpu *gpu, int peer, uint32_t offer, CUdeviceptr *out);
/* Closes old ones if nothing is under way. Returns whether some are left. */
bool import_close_old(struct gpu *gpu);
/* What is mapped there is used no more, and becomes old. */
void import_put_off(struct gpu *gpu, int peer, const struct cuda_handle *handle, CUdeviceptr address);
/* The executor is closed: what is mapped, old or not, goes to `out`. Nothing is unmapped yet. */
void import_take_all(struct gpu *gpu, struct list *out);
/* In a pause; frees it. */
void import_unmap(struct cuda_device *device, int rank, struct import *import);

/* tell.c: which of them kernels know, for messages that kernels of their owner invite to */
/* By the importer: tells of the mapping in that place if it is wanted. */
void tell_mapping(struct gpu *gpu, int peer, int offer);
/* From here on no kernel that begins stores to that offer; one that has begun may. Number 0: whichever it is. */
void tell_no_more(struct gpu *gpu, int peer, int offer, uint32_t number);
/* Is none under way that may? In a pause: idle_try(). */
bool tell_is_over(const struct gpu *gpu, const struct import *import);
/* Writes to the log how messages went; nothing is told any more. */
void tell_close(struct gpu *gpu);

/* idle.c: times when no call of this process is under way on any GPU */
void idle_join(struct gpu *gpu);
void idle_leave(struct gpu *gpu);
void idle_disturb(void); /* a call is being issued */
void idle_settle(void);  /* it has been */
bool idle_try(void);     /* true: nothing is under way, nor will be until idle_end() */
void idle_end(void);
/* What the executors of this process are about; a moment later it may be otherwise. */
struct idle_view {
    bool graphs;      /* something was captured: what graphs replay is not seen */
    uint64_t devices; /* ordinals that have a GPU executor */
};
struct idle_view idle_look(void);
/* Asks all executors of this process, under the lock of their list. */
bool idle_any(bool (*says)(struct gpu *gpu, const void *argument), const void *argument);
/* An executor of this process of which that is true, asked under the lock of their list; it stays until idle_go().
 * NULL: there is none. */
struct gpu *idle_visit(bool (*says)(const struct gpu *gpu, const void *argument), const void *argument);
/* That of another rank of the communicator. */
struct gpu *idle_visit_rank(const struct gpu *gpu, int rank);
void idle_go(struct gpu *visited);

/* helper.c: the thread that acts on news of peers */
tutti_result_t helper_start(struct gpu *gpu);
void helper_stop(struct gpu *gpu);
/* Something was issued while a peer was being lost or the team failed: the helper may have looked before it was there.
 */
void helper_look_again(struct gpu *gpu);
/* The team's failure; asked before every issue, and while waiting for a peer's host. */
tutti_result_t gpu_failure(struct gpu *gpu);
/* Likewise, of a call: where all is staged some collectives may still be issued. */
tutti_result_t gpu_refuses(struct gpu *gpu, bool collective);
/* Something of a peer's could not be reached, perhaps because the peer is gone: its loss may be heard of a little
 * later. Success stays. */
tutti_result_t gpu_explain(struct gpu *gpu, tutti_result_t result);
/* Of a failure that a peer tells of on the mailbox. Peers tell before they let go what waits for words or data. */
tutti_result_t gpu_hear_failure(struct gpu *gpu);
/* What this rank's team has failed of, if it has, is told to peers that may hear of it in no other way. */
void gpu_tell_failure(struct gpu *gpu);
/* An error if one of these takes part no more: it will not take what this rank sends. */
tutti_result_t gpu_needs(struct gpu *gpu, uint32_t ranks);

static inline CUdeviceptr device_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static inline CUdeviceptr mailbox_address(const struct gpu *gpu, const void *word)
{
    return gpu->mailbox_device + (CUdeviceptr)((const char *)word - (const char *)gpu->mailbox);
}

#endif
