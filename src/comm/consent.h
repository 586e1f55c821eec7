/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the members of a generation consent on its end: which turn was the last that counts, and which members make the
 * next generation. No input and no output: the caller passes words on, and says when it has waited enough. So the test
 * that looks at every order of events (consent_test.c) runs these very functions. docs/understand/elastic.md.
 */
#ifndef TUTTI_COMM_CONSENT_H
#define TUTTI_COMM_CONSENT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef CONSENT_MOST
#define CONSENT_MOST 1024 /* members */
#endif
#define CONSENT_WORDS ((CONSENT_MOST + 63) / 64)

struct consent_set {
    uint64_t word[CONSENT_WORDS];
};
static inline bool consent_has(const struct consent_set *set, int member)
{
    return set->word[member / 64] >> (member % 64) & 1;
}
static inline void consent_add(struct consent_set *set, int member)
{
    set->word[member / 64] |= 1ull << (member % 64);
}
static inline void consent_remove(struct consent_set *set, int member)
{
    set->word[member / 64] &= ~(1ull << (member % 64));
}

struct consent_value {
    uint32_t turn;          /* the last one that counts, with all members of this generation */
    uint64_t child;         /* the number of the next generation's communicator, */
    struct consent_set set; /* and its members */
};

enum consent_kind {
    CONSENT_ASK = 1, /* one that hears this finishes no turn any more, and answers */
    CONSENT_PROMISE, /* the answer: `finished`, and what the sender had accepted from an earlier asker. With a higher
                        ballot: a refusal, and who hears it asks no more */
    CONSENT_PROPOSE, /* the asker's value */
    CONSENT_ACCEPT,  /* the value is kept */
    CONSENT_DECIDED, /* all who had promised have accepted */
};

struct consent_word {
    uint32_t kind, ballot;
    uint32_t finished, accepted; /* of a promise; accepted: the ballot, 0: nothing */
    uint32_t at;                 /* of a promise: the turn that the sender works on; 0: it is in no call. Of an ask: the
                                    least that the asker knows of itself and of others */
    struct consent_value value;  /* of a promise without an accepted one: the set is whom the sender does not reach */
};

typedef void consent_say(void *context, int to, const struct consent_word *word);

/* One member's view of one generation. */
struct consent {
    int members, me;
    int minimum;     /* units that a generation must have */
    const int *unit; /* by member, numbers from 0 below `members`: a unit stays whole or not at all */
    consent_say *say;
    void *context;

    uint32_t finished; /* the last turn whose work this member has done; final when `open` */
    uint32_t at;       /* the turn that this member works on; 0: it is in no call */
    bool open;         /* this member finishes nothing more in this generation */
    uint32_t promised; /* ballots below are not heard any more */
    uint32_t accepted; /* the ballot of `value`; 0: none */
    struct consent_value value;
    bool decided;            /* `value` is the end of the generation */
    struct consent_set lost; /* whom this member does not reach: the caller's to set before it hears, opens or asks */

    uint32_t asked;  /* the ballot of the ask that came before this member had opened; 0: none */
    uint32_t ballot; /* of this member's own asking; 0: it does not ask */
    bool proposes;   /* the asker has chosen */
    uint32_t best;   /* the highest ballot of which an answer tells a value */
    uint32_t least;  /* turn that one of those who answered works on */
    struct consent_value proposal;
    struct consent_set answered, accepts;
    struct consent_set *cut;      /* by member: those it does not reach, and those that do not reach it */
    uint32_t turns[CONSENT_MOST]; /* that those who answered have finished */
};

/* `cut` has a set for each member, and stays the caller's. */
void consent_begin(struct consent *consent, int members, int me, int minimum, const int *unit, struct consent_set *cut,
                   consent_say *say, void *context);
/* A call that works on the turn begins; 0: it ends. A member that is in none answers only if all it might keep waiting
 * are at a turn that it has finished: else it is late. */
void consent_enter(struct consent *consent, uint32_t turn);
/* This member has done the work of the turn. False: it may not any more, as others end the generation. */
bool consent_finish(struct consent *consent, uint32_t turn);
/* This member finishes no more turns here. */
void consent_open(struct consent *consent);
/* Asks all, with a ballot above all that are known. Asked again, for words that were lost: consent_repeat(). */
void consent_ask(struct consent *consent);
void consent_repeat(const struct consent *consent);
/* Of the asker: does it wait for this member? */
bool consent_awaits(const struct consent *consent, int member);
/* The asker waits no longer for those who have not answered. `child`: a random number. False: too few have, or too few
 * of them reach one another. */
bool consent_conclude(struct consent *consent, uint64_t child);
/* Units that would go on if the asker concluded now. */
int consent_rest(const struct consent *consent);
void consent_hear(struct consent *consent, int from, const struct consent_word *word);
/* Units of which all members are in the set; *whole, if not NULL: their members. */
int consent_units(const struct consent *consent, const struct consent_set *set, struct consent_set *whole);
/* Tells all what has been decided: the last words of one that will not answer any more. */
void consent_tell(const struct consent *consent);
/* The member whose ballot it is. */
static inline int consent_asker(const struct consent *consent, uint32_t ballot)
{
    return (int)((ballot - 1) % (uint32_t)consent->members);
}

#endif
