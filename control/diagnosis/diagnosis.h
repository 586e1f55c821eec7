/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the culprit of a hang or a slow job. A snapshot goes in, findings come out. The same snapshot always has the
 * same findings, because nothing here reads a file, asks the system or looks at a clock. process.h adds the system's
 * facts.
 */
#ifndef TUTTI_DIAGNOSIS_DIAGNOSIS_H
#define TUTTI_DIAGNOSIS_DIAGNOSIS_H

#include "wire/boxread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- What was seen ---- */

enum process_state { PROCESS_UNKNOWN, PROCESS_RUNS, PROCESS_SLEEPS, PROCESS_BLOCKED, PROCESS_STOPPED, PROCESS_TRACED };

#define FACTS_THREADS 16

/* What the system says about the process of a box. All fields 0: nothing is known. */
struct process_facts {
    uint32_t pid; /* in this PID namespace; 0: this system does not see it */
    enum process_state state;
    uint32_t tracer; /* process that stops this one by ptrace; 0: unknown */
    char tracer_name[32];
    uint64_t at;             /* CLOCK_MONOTONIC; 0: nothing is known about its threads */
    uint64_t unheard;        /* nanoseconds without a report, which is the age of these facts */
    uint64_t moved;          /* bytes that the process has read and written so far; 0: unknown */
    uint64_t throttled;      /* nanoseconds so far in which its control group's quota of processors was used up, */
    uint64_t stops;          /* and how often */
    uint64_t killed;         /* processes of its control group that were killed for memory so far */
    uint64_t faults;         /* pages so far that it had to wait for: major faults, of all threads */
    uint32_t watched;        /* how often its state was looked at from these facts to the next; 0: agents do not tell */
    uint32_t blocked;        /* and how often it waited in the kernel then (PROCESS_BLOCKED) */
    uint32_t stopped_parent; /* the process that started this one, if it is stopped; agents do not tell */
    bool replaced;           /* the process lives, and runs another program: exec */
    bool frozen;             /* by a control group */
    bool out_of_memory;      /* the process is dead: the kernel has killed it for memory */
    char group[64];  /* the control group that froze it, has the quota, or had the limit; "": none, or unknown */
    char detail[64]; /* replaced: the program. blocked: where in the kernel. "": unknown */
    struct thread_facts {
        uint32_t number;
        bool ready;            /* to run, or running */
        uint64_t ran, delayed; /* nanoseconds on a processor; ready to run without one, counted when that is over */
    } threads[FACTS_THREADS];  /* the first threads only */
    size_t thread_count;
};

struct look {
    struct blackbox *const *boxes;
    const struct process_facts *facts; /* one for each box; NULL: the system was not asked */
    size_t count;
};

/*
 * A rank stands still when it has been in the same step for `stuck` nanoseconds. If there is an earlier look, the rank
 * must have been in that step then. The job is quiet when no rank has moved between the looks: all that could finish
 * has finished.
 */
struct snapshot {
    struct look now, before; /* before.count 0: there is only one look */
    uint64_t stuck;
    bool watched; /* every host was asked for its dead processes; else only this host was */
};

/* ---- What follows ---- */

enum finding_class {
    CLASS_COMMUNICATION_HANG,
    CLASS_OTHER_HANG,
    CLASS_COMMUNICATION_SLOW,
    CLASS_OTHER_SLOW,
    CLASS_NO_FAULT
};

enum finding_kind {
#define KIND(id, ...) FINDING_##id,
#include "diagnosis/kinds.tbl"
#undef KIND
    FINDING_KINDS
};

enum confidence { POSSIBLE, LIKELY, CERTAIN };

/* The process, rank or link to blame. */
struct culprit {
    uint64_t comm;
    char name[WIRE_BOX_NAME]; /* of the communicator */
    int rank;                 /* -1: no single rank */
    int world_rank;           /* its rank in the largest communicator of its process */
    int peer;                 /* of a link: the other end; else -1 */
    uint32_t pid;             /* 0: unknown */
    uint64_t process;         /* unique for each process, also across hosts; 0: no single process */
    char host[WIRE_BOX_NAME];
};

#define FINDING_SENTENCE 900
#define FINDING_EVIDENCE 12
#define FINDING_LINE     256

struct finding {
    enum finding_kind kind;
    enum confidence confidence;
    struct culprit culprit;
    size_t victims; /* ranks that wait because of the culprit */
    bool settled;   /* events of black boxes tell it: another look says the same */
    char sentence[FINDING_SENTENCE];
    char evidence[FINDING_EVIDENCE][FINDING_LINE];
    size_t evidence_count;
    char remedy[FINDING_LINE];
};

struct findings {
    struct finding *items; /* the surest and gravest first */
    size_t count, left_out;
    struct finding *slower; /* beside what is slow: the job is slower than it was, whoever that is. NULL: it is not */
    uint64_t steps;         /* of the analysis; they grow no faster than n log n with the size of the snapshot */
};

/* The caller frees the findings by findings_free. Without memory there are no findings. */
struct findings diagnosis_find(const struct snapshot *snapshot);
/* Is the gravest one something slow that chance may look like? Further looks tell. */
bool findings_may_be_chance(const struct findings *findings);
/* Keeps hangs, and of what is slow what was slow before, too. Noise makes another rank slow every second. If nobody is
 * slow in both, though the job is slower than it was in both, that is kept. */
void findings_confirm(struct findings *now, const struct findings *before);
void findings_free(struct findings *findings);

/* For each process of the look: the part of its latest calls' time in which the others waited for it. The caller frees
 * the array; NULL: no memory. */
double *diagnosis_holds_up(const struct snapshot *snapshot);

struct finding_row {
    const char *name;
    enum finding_class class;
    const char *remedy; /* PID, PROCESS: the culprit's, as kinds.tbl says */
};
const struct finding_row *finding_row(enum finding_kind kind);
const char *finding_class_name(enum finding_class class);
bool finding_is_hang(enum finding_kind kind);
/* Is this finding a note? A note only says why ranks wait: nobody is to blame. */
bool finding_is_note(enum finding_kind kind);
/* The number of findings that are no notes; those come first. */
size_t findings_faults(const struct findings *findings);
bool finding_same_culprit(const struct finding *a, const struct finding *b);
const char *confidence_name(enum confidence confidence);

#endif
