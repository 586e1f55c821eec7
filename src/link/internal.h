/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef TUTTI_LINK_INTERNAL_H
#define TUTTI_LINK_INTERNAL_H

#include "base/clock.h"
#include "base/error.h"
#include "base/known.h"
#include "link/link.h"
#include "trace/trace.h"

#include <stdatomic.h>

#define LINK_LISTS     32
#define MAX_TRANSPORTS 4
#define LINK_FLIGHTS   128 /* segments under way on a lane, at most */
#define LINK_LANDED    32  /* words about landed segments that each message about them has, at most */
#define LINK_NICS      32

/* tags.c: things by tag, each with a list node. Those of one tag are in the order in which they were added. */
struct tags {
    struct list *list;   /* mask + 1 lists: `few`, or as many as keep each short */
    uint32_t mask, room; /* so many are added before they are counted again */
    uint32_t cursor;     /* of tags_any() */
    ptrdiff_t distance;  /* from a node to its tag */
    struct list few[LINK_LISTS];
};

#define tags_of(tags, type, node, tag) tags_init(tags, offsetof(type, node), offsetof(type, tag))
#define tags_each(node, tags)                                                                                          \
    for (uint32_t node##_list = 0; node##_list <= (tags)->mask; node##_list++)                                         \
    list_each(node, &(tags)->list[node##_list])

enum lane_state { LANE_NONE, LANE_CONNECTING, LANE_UP, LANE_DEAD };

/* A segment under way. */
struct flight {
    uint64_t posted; /* ns */
    uint64_t token, length;
    uint32_t imm;
    bool over; /* landed, or given up, while one before it has not */
};

/* How the peer's clock differs from ours, from its words: see flight.c. */
struct peer_clock {
    int64_t least, before; /* ns: of this span, of the one before */
    uint64_t since;        /* when this span began; 0: nothing was heard */
};

struct link_lane {
    struct link *link;
    const struct transport_ops *ops; /* of the transport that the lane is of; NULL: there is no such lane */
    struct transport *transport;
    struct lane *lane; /* NULL unless connecting or up */
    enum lane_state state;
    uint16_t index;
    bool unconfirmed; /* the peer has not yet said what arrived on the dead epoch */
    bool was_up;
    uint32_t epoch, dead_epoch; /* wire_epoch() */
    uint32_t attempts;          /* of ours to connect it, so far */
    uint32_t known;             /* epoch of the last one that the peer connected and we took */
    uint32_t puts;              /* whose source is still read */
    bool confirms;              /* TRANSPORT_CONFIRMS */
    struct path_lane view;
    struct flight *flights; /* LINK_FLIGHTS of them, by position; NULL: none was ever put */
    uint64_t first_flight, next_flight;
    struct trace_lane *trace; /* NULL: its segments are not recorded */
    uint32_t landed_heard;    /* number of the peer's latest word about it */
    uint32_t landed_said;     /* and of ours that went over it, */
    uint32_t landed_latest;   /* and of our latest one about it */
    uint64_t heard;           /* last sign of life */
    uint64_t probed;          /* when a probe was sent that is not answered; 0: none */
    uint64_t moved, moved_at; /* what the transport last said that had moved, and when that was news */
    uint64_t retry_at, backoff_ns;
    uint64_t up_since, calm_ns; /* for so long it must have been up again before it takes over from backups */
    bool settling;              /* it has not yet */
};

/* A message that is queued, or kept until acknowledged. */
struct message {
    struct list node;
    uint64_t sequence;
    size_t length;
    unsigned char bytes[];
};

/* What is kept of a credit that came before its send. */
struct early_credit {
    struct wire_credit credit;
    struct wire_remote memory; /* no devices: the peer named none */
    uint64_t since;            /* when it came */
};

/* A payload that came before it was asked for. */
struct unexpected {
    struct list node;
    struct wire_message head;
    size_t length;
    unsigned char body[];
};

struct link {
    struct list node; /* in domain->links */
    struct link_domain *domain;
    struct wire_process peer;
    uint64_t session;                     /* wire_session() */
    const struct transport_ops *messages; /* of the lanes that carry messages, or stand in for those that carry data and
                                             messages (TRANSPORT_MESSAGES); NULL: the peer is this process itself */
    int lanes;                            /* indexes in use are below; not all need be in use */
    struct link_lane lane[LINK_MAX_LANES];
    int planned[2]; /* the domain's transports for messages and, or -1, for data alone */
    void *policy_state;
    uint32_t usable; /* lanes that take segments, with or without room, as bits */
    int control;     /* index of the lane that carries messages, -1: none of those that can is up */
    bool lossless, started, lost, bye;
    bool cut;           /* lanes were closed by lanes_cut_direct() since the last tick */
    bool unplanned;     /* started, and the policy has not said yet which lanes to open */
    char reason[480];   /* why it is lost */
    char obstacle[200]; /* to the lane that failed to come up last */
    size_t eager;
    uint64_t down_since; /* since when no lane for messages is up; 0: one is */
    int refusals;        /* connections for messages refused since a lane was up */
    uint64_t patience;   /* ns without a lane for messages after which it is lost */
    uint64_t heard;
    uint64_t asked;       /* since when link_silence() has asked in vain; 0: it has not */
    uint64_t moves_asked; /* when lanes were last asked whether anything moves */
    uint64_t asked_on;    /* the lane and epoch on which the question went; 0: none yet */

    /* messages */
    uint64_t next_sequence, received, acked_to_peer;
    struct list outgoing; /* messages kept: sent but not acknowledged, then unsent ones */
    size_t outgoing_bytes;
    struct list *unsent; /* first unsent in outgoing, or &outgoing */
    bool flushing;       /* message_flush() is at work */
    uint32_t resends;    /* how often `unsent` was set back */

    /* matching */
    struct tags posted, arrived, waiting; /* link_recv; unexpected; link_send without a credit */
    struct link_recv *expected;           /* by link_expect(); not posted */
    size_t early, most_early;             /* bytes in arrived */
    size_t early_of_operations;           /* how many of arrived are of collectives */
    bool held, holding;           /* small payloads too wait until they are asked for: here, at the peer (early.c) */
    uint64_t looked;              /* when strays were last looked for */
    struct list bulk;             /* link_send with segments to put */
    struct link_recv **receiving; /* by slot */
    struct link_send **sending;   /* by the peer's slot, until DONE */
    struct link_send **reading;   /* by our id, until no lane reads the source */
    uint32_t receiving_size, sending_size, reading_size, receiving_count;
    bool pumping; /* bulk_pump() is at work */
    struct peer_clock clock;
    struct list telling;                    /* in domain->telling, if any is unsaid */
    struct wire_landed landed[LINK_LANDED]; /* the latest, the latest about each lane among them; the next one at
                                               landed_next % LINK_LANDED */
    uint64_t landed_next;
    uint32_t landed_unsaid;
    uint64_t landed_said; /* when a word was said last */
};

struct link_domain {
    struct link_owner owner;
    struct poller *poller;
    struct trace *trace;
    struct path_policy policy;      /* complete */
    struct path_nic nic[LINK_NICS]; /* the last one stands for all that found no place */
    int nics;
    struct wire_process self;
    const struct transport_ops *ops[MAX_TRANSPORTS];
    struct transport *transport[MAX_TRANSPORTS];
    int transports;
    struct list links;
    struct list telling; /* links with arrivals that the peer does not know of */
    struct list copies;  /* sends to this very process that are being copied */
    struct list registrations;
    uint64_t registered;                /* bytes of them */
    struct poll_source known_bell;      /* rings when known memory comes or goes; fd -1: nobody asks */
    struct known_watcher known_watcher; /* its number */
    _Atomic int kept;                   /* payloads and the like that came before they were asked for, on all links */
    bool met;                           /* a send and a receive of this process, since link_met() */
    bool closing;
};

/* Time from `then` to `now`; 0 if `then` is later, for `now` may have been read before. */
static inline uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* What a link moves, in the black box: `what` counts things, the counter of the lane's transport their bytes. */
static inline void link_count_sent(const struct link *link, const struct transport_ops *ops, enum wire_counter what,
                                   uint64_t bytes)
{
    trace_count(link->domain->trace, what, 1);
    trace_count(link->domain->trace, ops->sent, bytes);
}

static inline void link_count_received(const struct link_lane *lane, uint64_t bytes)
{
    trace_count(lane->link->domain->trace, lane->ops->received, bytes);
}

/* message.c: ordered, repeated when a lane dies */
void message_send(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* The common case, without the others: nothing queued, nothing to be kept. False: the message was not taken. */
bool message_send_now(struct link *link, const struct wire_message *head, const void *body, size_t length);
void message_flush(struct link *link);
void message_received(struct link *link, struct link_lane *lane, const void *bytes, size_t length);
void message_resend(struct link *link);
void message_acknowledge(struct link *link);
void message_drop_all(struct link *link);
/* A message of the lane itself, not repeated. False: it was not taken. */
bool message_send_on(struct link_lane *lane, unsigned kind);
/* The same with a body. */
bool message_say_on(struct link_lane *lane, unsigned kind, const void *body, size_t length);

/* tags.c */
void tags_init(struct tags *tags, size_t node_offset, size_t tag_offset);
void tags_close(struct tags *tags);
/* May move all to other lists, so never within tags_each(). */
void tags_add(struct tags *tags, const struct wire_tag *tag, struct list *node);
/* One of them; NULL: there are none. */
struct list *tags_any(struct tags *tags);

/* Where things of this tag are, among others. */
static inline struct list *tags_list(const struct tags *tags, const struct wire_tag *tag)
{
    uint32_t x = tag->seq * 31 + tag->slice * 7 + tag->round * 4096 + tag->message + tag->from * 17 + tag->to * 5 +
                 (uint32_t)tag->comm;
    return &tags->list[(x ^ x >> 5 ^ x >> 12) & tags->mask];
}

/* match.c */
/* Ends it, and with an error its slot. */
void match_finish_recv(struct link *link, struct link_recv *recv, tutti_result_t result);
void match_dispatch(struct link *link, struct link_lane *lane, const struct wire_message *head, const void *body,
                    size_t length);
void match_fail_all(struct link *link, tutti_result_t result);
void match_look_for_strays(struct link *link, uint64_t now);
/* Tells the peer what it waits for in vain, or does not know of. */
void match_announce(struct link *link, struct link_send *send);
/* The error of a transfer that met one of `their_rank` which is of another call, or has another length. Not in the log:
 * the communicator that fails because of it says so there. */
tutti_result_t match_refuse(const struct wire_tag *tag, const struct wire_call *mine, size_t my_length,
                            const struct wire_call *theirs, size_t their_length, uint32_t their_rank);
bool tag_equal(const struct wire_tag *a, const struct wire_tag *b);

/* self.c: of the link to this very process */
/* The two have met. False: it is short, or they do not fit; nothing was done. */
bool self_begin(struct link *link, struct link_send *send, struct link_recv *recv);
/* Copies a piece. Returns how much was done. */
int self_poll(struct link_domain *domain);
/* The send, or the receive, is withdrawn: the other waits again. */
void self_part_send(struct link *link, struct link_send *send);
void self_part_recv(struct link *link, const struct link_recv *recv);

/* early.c: what came before it was asked for. NULL: nothing of this kind */
struct unexpected *early_find(struct link *link, const struct wire_tag *tag, unsigned kind);
void early_keep(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* Out of the list; the caller frees it. */
void early_take(struct link *link, struct unexpected *item);
/* The key in a credit for `slot` that waits has ended. */
void early_revoke(struct link *link, uint32_t slot);
void early_drop_all(struct link *link);
/* Must small payloads wait for a credit now? */
static inline bool early_held(const struct link *link)
{
    return link->held || link->outgoing_bytes > link->most_early / 4;
}

/* bulk.c: credits and segments */
void bulk_credit(struct link *link, struct link_recv *recv);
/* since: when the credit came. */
void bulk_start(struct link *link, struct link_send *send, const struct wire_message *head,
                const struct early_credit *early);
void bulk_pump(struct link *link);
/* The peer has everything of `slot`; `words` as of flight_hear(). */
void bulk_done(struct link *link, uint32_t slot, const void *words, size_t length);
void *bulk_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
void bulk_arrived(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
void bulk_sent(struct lane *lane, uint64_t token);
/* The source of a segment cannot be read, or its target not be written: the caller's call is wrong, and fails. */
void bulk_unreadable(struct lane *lane, uint64_t token);
void bulk_unwritable(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
void bulk_say_have(struct link *link);
/* The key of the memory of `slot` has ended. */
void bulk_revoked(struct link *link, uint32_t slot);
void bulk_have(struct link *link, uint32_t slot, const void *bitmap, size_t length);
void bulk_put_again(struct link *link, unsigned lane_index);
void bulk_release_recv(struct link *link, struct link_recv *recv);
void bulk_burn_recv(struct link *link, struct link_recv *recv);
void bulk_give_up(struct link *link, struct link_send *send);
void bulk_release_send(struct link *link, struct link_send *send);
void bulk_lane_gone(struct link *link, unsigned lane_index);

/* flight.c: what is under way on lanes, and when it landed */
/* A segment is about to be put. False: no memory. */
bool flight_begin(struct link_lane *lane, const struct link_send *send, const struct put *put, uint64_t now);
/* The lane needs its source no longer. */
void flight_sent(struct link_lane *lane, uint64_t token, uint64_t now);
/* It was refused or given up. */
void flight_give_up(struct link_lane *lane, uint64_t token);
/* The lane is down. */
void flight_drop_all(struct link_lane *lane);
/* The peer says what has landed: an array of struct wire_landed. */
void flight_hear(struct link *link, const void *words, size_t length);
/* The peer has all of `slot`: for segments of which no word came. */
void flight_all_landed(struct link *link, uint32_t slot);
/* The first flight that may not be sent yet, so that a message may overtake it. A probe carries it, and its answer
 * brings it back: what was before it has landed, whatever words say, or do not, which may be lost with a peer's clock
 * that stood still. */
uint64_t flight_unsent(const struct link_lane *lane);
void flight_answered(struct link_lane *lane, const void *body, size_t length);
/* A segment has arrived on the lane, just now: to be said. */
void flight_arrived(struct link_lane *lane, uint32_t imm);
/* Says what has arrived, if that is due. all: before a sleep. */
void flight_tell(struct link_domain *domain, bool all);
/* A lane is down, and words may have gone with it: the latest are said again. */
void flight_tell_again(struct link *link);
/* Says DONE, and with it what else has landed. */
void flight_done(struct link *link, uint32_t slot);

/* memory.c: registered memory, for lanes whose hardware stores puts by itself */
struct link_memory {
    struct link_registration *source;
    struct wire_remote remote; /* no devices: it was revoked */
};
/* The memory of a receive, for its credit; `out` says what the peer needs. NULL: the peer must do without. */
struct link_registration *memory_offer(struct link *link, void *data, size_t length, struct wire_remote *out);
/* The source of a send, if the credit came with memory. NULL: as above. */
struct link_memory *memory_meet(struct link *link, const struct link_send *send, const struct wire_remote *remote);
void memory_part(struct link *link, struct link_memory *memory);

/* registration.c: what is registered with transports, kept where the memory's life is known */
struct link_registration {
    struct list node; /* in domain->registrations, the latest used last */
    struct transport_memory *memory;
    int transport;
    uint64_t known; /* number of the memory; 0: to be ended with its last user */
    bool target;    /* peers are told its key */
    unsigned users; /* payloads */
};
tutti_result_t registrations_open(struct link_domain *domain);
/* All payloads are gone. */
void registrations_close(struct link_domain *domain);
/* For a payload, until registration_drop(). NULL: it cannot, or is not to be, registered. */
struct link_registration *registration_take(struct link_domain *domain, int transport, void *data, size_t length,
                                            bool target);
/* NULL: nothing. */
void registration_drop(struct link_domain *domain, struct link_registration *registration);
/* From here on no peer writes there: all receives that share it have lost it, and their peers are told. */
void registration_revoke(struct link_domain *domain, struct link_registration *registration);

/* control.c: which lane carries messages */
/* What is refused on this one says something of the peer: on others, only of them. */
bool control_tells_of_peer(const struct link_lane *lane);
/* Other lanes carry data alone: they neither keep a link nor lose one. */
bool control_carries(const struct link_lane *lane);
/* Lanes have come or gone: the best one. All that the peer has not acknowledged goes again over a new one: it takes
 * what follows on what it has, by whatever lane that comes, and nothing else. */
void control_choose(struct link *link);

/* lanes.c: life and death of lanes */
/* Asks the policy which lanes there are to be. */
void lanes_plan(struct link *link);
void lanes_start(struct link *link);
void lanes_dead(struct link_lane *lane, tutti_result_t why);
/* Closes the lanes on which the peer may write memory without asking, at once; the rest of their end follows with the
 * next tick. */
void lanes_cut_direct(struct link *link);
void lanes_peer_says_dead(struct link *link, unsigned index, uint32_t epoch);
void lanes_confirmed(struct link *link, unsigned index, uint32_t epoch);
uint16_t lanes_source(void *context, const struct transport_ops *ops, unsigned device, uint16_t index);
bool lanes_accepted(void *context, struct lane *lane, const struct wire_hello *hello);
void lanes_up(struct lane *lane);
void lanes_down(struct lane *lane, tutti_result_t why);
uint64_t lanes_tick(struct link *link, uint64_t now);
void lanes_lose(struct link *link, const char *why);
void lanes_event(const struct link_lane *lane, enum wire_event_kind kind, uint64_t value1, uint64_t value2);

/* silence.c: signs of life */
void lanes_heard(struct link_lane *lane);
/* Asks a lane that has been silent for long for an answer, and gives it up if none comes and nothing moves. */
void lanes_probe(struct link_lane *lane, uint64_t now);

/* link.c */
void link_message(struct lane *lane, const void *bytes, size_t length);
void link_writable(struct lane *lane);
void link_shared(struct lane *lane, uint64_t key, int fd);
tutti_result_t link_make(struct link_domain *domain, const struct wire_process *peer, uint64_t session,
                         struct link **out);

#endif
