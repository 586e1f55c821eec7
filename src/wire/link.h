/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the two ends of a link. A message is struct wire_message, then `length` bytes of body where said. */
#ifndef TUTTI_WIRE_LINK_H
#define TUTTI_WIRE_LINK_H

#include "wire/process.h"

#include <stddef.h>
#include <stdint.h>

enum wire_message_kind {
    WIRE_EAGER = 1, /* body: the whole payload */
    WIRE_CREDIT,    /* receiver: put `tag`'s payload into slot; body: struct wire_credit, with struct wire_remote or
                       without. Flags: WIRE_STANDS */
    WIRE_DONE,      /* receiver: everything of `slot` has arrived; body: array of struct wire_landed, often empty */
    WIRE_ANNOUNCE,  /* sender: I hold `tag` with this many bytes and see no credit; body: uint64_t length */
    WIRE_ABORT,     /* communicator `tag.comm` has failed; body: struct wire_abort */
    WIRE_DOWN,      /* lane `slot`, epoch `extra` is closed at my end: close yours */
    WIRE_HAVE,      /* receiver, after DOWN: body: bitmap of the segments of `slot` that have arrived */
    WIRE_DOWN_OK,   /* lane `slot`, epoch `extra` is closed at both ends, and HAVEs have been said */
    WIRE_ACK,       /* nothing but the acknowledgement in struct wire_sequence */
    WIRE_PROBE,     /* answer on this lane, with these 8 bytes */
    WIRE_PROBE_ANSWER,
    WIRE_BYE,   /* this process leaves in good order */
    WIRE_HOLD,  /* too much has come that was not asked for: announce small payloads too, and wait for credits */
    WIRE_GO_ON, /* the end of that */
    WIRE_CALL,  /* rank `tag.from` has waited long for rank `tag.to`, in collective `tag.seq` or, behind that, for
                   message `tag.round` between the two (slice WIRE_TAG_P2P; flags: enum wire_wait): is that one in
                   another  call? Body: struct wire_begun */
    WIRE_ASK, /* rank `tag.from` waits for what rank `tag.to` is to share before the communicator is made: has it failed
                 there? Body: struct wire_begun, of no meaning */
    WIRE_MEMO, /* rank `tag.from` of communicator `tag.comm` says something to rank `tag.to` that is no operation; body:
                  struct wire_memo */
    WIRE_LANDED,  /* receiver: these segments have arrived; body: array of struct wire_landed. Not repeated; DONE says
                     the rest */
    WIRE_REVOKED, /* receiver: the key in the credit for `slot` has ended: what is not put yet goes without */
    WIRE_BLOCKED, /* answer to WIRE_CALL, whose head it has: rank `tag.to` waits, too. Body: struct wire_blocked */
    WIRE_WINDOW, /* rank `tag.from` asks something of a window of rank `tag.to`; body: struct wire_window, then the data
                    of a short put */
    WIRE_TIMED,  /* receiver: when a message with WIRE_SEQUENCE_TIMED came; body: struct wire_timed. Not repeated */
    WIRE_ANEW,   /* lane `slot`, epoch `extra` is to be opened anew, and nothing more comes on it from here: close it
                    when nothing of yours is under way there */
};

/* What a payload is: both ends make the same one from the call they are in, and no other payload has it. Tags are
 * compared as bytes. */
struct wire_tag {
    uint64_t comm;     /* communicator: a random number, or made of one; with 64 bits no two of a program meet */
    uint32_t seq;      /* operation in the communicator, or in the pair for send and receive */
    uint32_t slice;    /* slice of the operation; WIRE_TAG_P2P for send and receive */
    uint32_t round;    /* round of the slice */
    uint32_t from, to; /* ranks in the communicator */
    uint32_t message;  /* which of the round, between the two */
};

#define WIRE_TAG_P2P 0xffffffffu
#define WIRE_STANDS  1 /* of a credit: after DONE the sender may put the next payload of that length there, unasked */
/* `message` of a payload that goes to or from a window, with the slice of messages; `seq` is the request's number. */
enum { WIRE_TAG_PUT = 1, WIRE_TAG_GET = 2 };

/* What a rank waits for that is no collective: WIRE_CALL's flags. */
enum wire_wait {
    WIRE_WAITS_TO_SEND,
    WIRE_WAITS_TO_RECEIVE,
    WIRE_WAITS_FOR_SIGNAL, /* `tag.round`: signals of that rank that it has heard */
    WIRE_WAITS_FOR_WINDOW, /* that a window takes or gives what was asked: the user of that rank has nothing to do */
};

/* The call that a payload belongs to: a rank that meets another call can say what both are. */
struct wire_call {
    uint32_t signature; /* see wire_signature() */
    int32_t root;
    uint64_t count;
};

struct wire_message {
    struct wire_tag tag;
    uint8_t kind;
    uint8_t flags;
    uint16_t slot;
    uint16_t own;  /* of its lanes, folded (wire_fold()): those by an interface that the sender of the message owns, */
    uint16_t idle; /* and those by whose interface nothing comes to its host that another owns at its end, as bits */
    struct wire_call call;
};
_Static_assert(sizeof(struct wire_tag) == 32 && sizeof(struct wire_message) == 56,
               "wire_message is part of the protocol");

/* Before every message on lanes that may lose bytes: sequence 0 is not repeated. */
struct wire_sequence {
    uint64_t sequence; /* of this message, from 1; and whether the sender wants to know when it came */
    uint64_t received; /* all messages up to this one have been received */
};

#define WIRE_SEQUENCE_TIMED (1ull << 63)
struct wire_timed {
    uint64_t sequence;
    uint64_t when; /* ns of the receiver's clock */
};

struct wire_begun {
    uint32_t sent, received; /* messages to and from `tag.to` that have begun */
    uint32_t signalled;      /* signals to it */
};

struct wire_blocked {
    uint64_t label;            /* the highest one of those that wait for each other from here on */
    uint64_t idle;             /* 1: none of these waits is for something that may be on its way */
    struct wire_message other; /* the nearest of them in another call, as its WIRE_CALL; kind 0: there is none */
};

struct wire_credit {
    uint64_t length;
    uint64_t segment;  /* bytes of a segment, the last may be shorter */
    uint64_t lanes[2]; /* on which it is to come, as bits, the lowest first; 0: any */
};

/* Behind wire_credit, where the receiver has registered the memory for a transport whose hardware writes there by
 * itself. */
struct wire_remote {
    uint64_t address;
    uint32_t devices;
    uint32_t key[WIRE_DEVICES]; /* by the receiver's device that the segment comes to */
    uint32_t opened;            /* 4 bits a device: how often it was opened anew, for its keys end with that */
};

#define WIRE_OPENED 16 /* they are counted modulo this */
static inline uint32_t wire_opened(const struct wire_remote *remote, uint32_t device)
{
    return remote->opened >> 4 * device & (WIRE_OPENED - 1);
}

/* A segment has arrived. Also the body of DONE: what has arrived and was not said yet, of any payload. */
struct wire_landed {
    uint64_t when;  /* ns of the receiver's clock, of which only differences mean something */
    uint32_t epoch; /* of the lane on which it came, */
    uint32_t lane;
    uint32_t imm; /* with the put */
    uint32_t
        number; /* of this report, from 1: most reports are said again and again, on lanes that overtake each other */
};

#define WIRE_ABORT_TEXT 720 /* so that messages of all transports hold it */
enum wire_cause {
    WIRE_CAUSE_ERROR, /* of a rank that lives: an operation failed there, or it gave up */
    WIRE_CAUSE_LEFT,  /* a process is missing that left in good order, or was never seen: its own reason may be another
                         failure */
    WIRE_CAUSE_LOST,  /* a process ended without a word */
};

/* Why a communicator failed: what the rank says that noticed first. All others pass it on and report it as their own.
 */
struct wire_abort {
    uint8_t from[WIRE_UUID_BYTES]; /* the process that passes it on */
    uint8_t lost[WIRE_UUID_BYTES]; /* the process, but of WIRE_CAUSE_ERROR */
    int32_t culprit;               /* rank, or -1 */
    int32_t result;
    uint32_t cause;    /* enum wire_cause */
    uint32_t finished; /* collectives up to this one the sender has finished, or can still finish: with them it keeps
                          nobody waiting */
    char text[WIRE_ABORT_TEXT]; /* with the rank that noticed, and when */
};

/* What ranks say that are to be the members of a shrunken communicator, or that grow one (src/comm/meet.h). A visit is
 * one call of one rank. */
enum wire_memo_kind {
    WIRE_MEMO_COME = 1, /* I have come, without those whom `list` names */
    WIRE_MEMO_READY,    /* all below me are here, with the same list; `id` if one of us has it */
    WIRE_MEMO_GO,       /* all are: the new communicator has number `child`, and newcomers wait at `id` */
    WIRE_MEMO_LEAVE,    /* I am gone again, because of `why` */
    WIRE_MEMO_CONSENT,  /* of the members of a generation: src/comm/consent.h */
};
#define WIRE_MEMO_SHOWN 32
struct wire_list {
    uint64_t hash; /* of the whole list */
    int32_t count;
    int32_t first[WIRE_MEMO_SHOWN];
    int32_t nranks; /* that the communicator is to grow to; 0: it shrinks */
};
#define WIRE_ID_BYTES  128
#define WIRE_SET_BYTES 128
enum wire_member { /* of enum consent_kind, what this needs; and one that takes part no more */
                   WIRE_MEMBER_ASKS = 1,
                   WIRE_MEMBER_DECIDED = 5,
                   WIRE_MEMBER_LEFT = 255,
};
struct wire_consent {
    uint32_t what; /* enum consent_kind, or enum wire_member */
    uint32_t ballot, finished, accepted, turn, at;
    uint64_t child;
    uint8_t set[WIRE_SET_BYTES]; /* a bit for each member, the lowest first */
};
struct wire_memo {
    uint32_t kind;  /* enum wire_memo_kind */
    uint32_t owes;  /* visits of the receiver that the sender will end at once: of attempts that failed before that one
                       came */
    uint64_t visit; /* the sender's, counted by it from 1; 0: it is not in a call */
    uint64_t yours; /* the receiver's visit that this is about; 0: the sender knows of none */
    union {
        struct wire_list list;
        struct {
            uint64_t child;
            uint8_t id[WIRE_ID_BYTES]; /* a tutti_unique_id_t; zeros: none */
        };
        struct wire_abort why;
        struct wire_consent consent;
    };
};

/* Requests of one rank to another are heard in order. Those of one pair are numbered from 0: puts, and gets with
 * flushes. */
enum wire_window_what {
    WIRE_WINDOW_PUT = 1, /* `length` bytes come, as a payload or behind this; `signal` is raised when all that was asked
                            before has been done, too */
    WIRE_WINDOW_SIGNAL,  /* the same, without bytes */
    WIRE_WINDOW_GET,     /* send `length` bytes when all that was asked before has been done; 0 bytes: a flush, of no
                            window */
};
#define WIRE_NO_SIGNAL    UINT32_MAX
#define WIRE_WINDOW_SHORT 512 /* bytes that may come with a put */
#define WIRE_GATE_ASKED   UINT32_MAX
struct wire_window {
    uint32_t what;   /* enum wire_window_what */
    uint32_t number; /* of the payload */
    uint32_t window; /* the same on all ranks */
    uint32_t signal;
    uint32_t gate; /* of a put: the slot, + 1, of a standing credit by which the payload comes; WIRE_GATE_ASKED: its
                      credit is to stand; 0: neither */
    uint32_t ends; /* the slot, + 1, of a standing credit that the sender uses no more; 0: of none */
    uint64_t offset, length;
};

/* The call in 32 bits: equal when collective, type, operator and a hash of count and root are equal. */
#define WIRE_SIGNATURE_P2P 15 /* the collective of a send or receive */
static inline uint32_t wire_signature(unsigned collective, unsigned type, unsigned op, uint32_t hash)
{
    return (collective & 15) << 28 | (type & 15) << 24 | (op & 7) << 21 | (hash & 0x1fffff);
}

/* "broadcast of 8 float32, root 1" */
#define WIRE_CALL_TEXT 96
const char *wire_call_text(struct wire_call call, char *out, size_t size);
/* Words of the sentence on a message whose ends differ. The end that noticed names the other one, and either may be
 * wrong. */
#define WIRE_ENDS_DIFFER "differs between the two"

#endif
