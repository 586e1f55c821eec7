/* SPDX-License-Identifier: Apache-2.0 */
/* A job of elastic.c: what its members share. They find places in the library's calls where something is to happen. */
#ifndef TUTTI_TESTS_FAULT_ELASTIC_JOB_H
#define TUTTI_TESTS_FAULT_ELASTIC_JOB_H

#include "comm/elastic.h"

#include <stdatomic.h>
#include <stdbool.h>

#define MEMBERS 4
#define STEPS   6
#define COUNT   5000 /* elements of a call, */
#define MOST    200000
#define MARKS   16 /* elements that tell who is in the sum */

enum point {
    NOWHERE,
    BEFORE_STEP,
    BEFORE_WORK, /* of a step */
    IN_WORK,     /* about to send one of its payloads: some peers have all, and others never get it */
    ISSUED,      /* a GPU's work is in its stream */
    AFTER_WORK,  /* the turn is not finished yet */
    BEFORE_VOTE, /* the turn is finished, and nobody knows */
    IN_VOTE,     /* about to say so to one more: some peers know then that the turn counts, and others never do */
    AFTER_VOTE,  /* the turn counts */
    AT_THE_END,  /* another member is missing */
    AT_ASK,      /* about to ask */
    AT_CONCLUDE, /* about to propose */
    HEARS_ASK,   /* and has not answered */
    HEARS_PROMISE,
    HEARS_PROPOSE,
    HEARS_ACCEPT,
    HEARS_DECIDED,
    BEFORE_NEXT, /* about to open the next generation */
    IN_MAKING,   /* of its communicators */
    LEAVES,      /* before a step, and its process lives on */
    POINTS
};

struct said {
    bool counts;
    uint64_t generation, hash;
    int members;
    unsigned set;
};

struct told {
    struct said said[STEPS + 1];
    _Atomic int steps; /* that the member has done */
    _Atomic bool ended;
    tutti_result_t result;
    char sentence[600];
    bool wrong, fresh;
    _Atomic size_t under_way; /* bytes of steps to one member, at most */
    _Atomic bool unasked;     /* a piece has left that its receiver had not asked for */
};

struct job {
    tutti_unique_id_t id;
    _Atomic bool made, over;
    int timeout_ms, units, minimum, count;
    int whole;     /* members that do all steps, at least; */
    bool exactly;  /* no more */
    bool differs;  /* member 1 makes another call in step 3 */
    bool meets;    /* members of a unit wait for one another between two steps */
    bool compares; /* with a plain allreduce of those who are left */
    bool all;      /* that nothing happens to go on: the machine may be too slow for that where the timeout is short */
    size_t chunk_bytes;
    int chunks;
    struct {
        int point, signal, step, sends; /* signal 0: the network is cut */
    } fault[MEMBERS];
    bool cuts; /* members have a network of their own, */
    _Atomic bool to_cut, cut;
    struct told told[MEMBERS];
};
extern struct job *job;
extern int me, step_now;

/* ---- elastic_judge.c ---- */

/* Members read one another's memory, and put nothing on a network. */
bool in_one_memory(void);
/* `killed`: members that were, or may have been; `stops`: that come back. */
bool judge(const bool *stops, const bool *killed, const bool *died, const char *what);

/* ---- elastic_places.c ---- */

/* First the marks: element i is 1 of member i. Then numbers whose sum depends on the order of adding. */
void fill(float *in, int member, int step);
/* What the ring gives with pieces of chunk_bytes: the sum of a block begins at the member of its number. What is staged
 * goes round by itself in each slice: in_any_order. */
bool is_of_ring(const float *out, unsigned set, bool in_any_order);
/* Something happens at a place that this member has come to, if it is to. */
void reach(enum point point);
void nap(int ms);

/* ---- elastic_cut.c: the members' network, of this network namespace ---- */

/* An address for each member. False: this process may not, or there is no `ip`. */
bool network_make(void);
/* Of a member, before its first call. */
void network_take(int member);
/* What one of the two sends the other is lost from now on; `both`: and the other way round. */
void network_cut(int from, int to, bool both);
void network_heal(void);

/* ---- elastic_words.c ---- */

/* Warnings go to a file for each member. False: there is no room for a folder. */
bool words_begin(void);
/* Of a member, before its first call. */
void words_keep(int member);
/* Has each of those who went on named each one of the others, `left`? */
bool words_judge(const bool *left);
/* Does a member that ended say what became of the group? */
bool words_end(const char *sentence);
/* At the end of a run. */
void words_forget(void);

#endif
