/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is to blame for a hang or a slow job. A snapshot goes in, findings come out: nothing here reads a file, asks the
 * system or looks at a clock, so that the same snapshot always has the same findings. process.h fills in what the
 * system says.
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

/* What the system says of the process of a box. All 0: nothing. */
struct process_facts {
    enum process_state state;
    uint32_t tracer; /* the process that stops it by ptrace; 0: unknown */
    char tracer_name[32];
    uint64_t at;      /* CLOCK_MONOTONIC; 0: nothing is known of its threads */
    uint64_t unheard; /* for so long nobody has told of it: what is known is as old */
    uint64_t moved;   /* bytes that it has read and written so far; 0: not known */
    struct thread_facts {
        uint32_t number;
        bool ready;            /* to run, or running */
        uint64_t ran, delayed; /* nanoseconds on a processor, and ready to run without one: counted when that is over */
    } threads[FACTS_THREADS];  /* the first of them */
    size_t thread_count;
};

struct look {
    struct blackbox *const *boxes;
    const struct process_facts *facts; /* one for each box; NULL: the system was not asked */
    size_t count;
};

/*
 * A rank stands still when it has been in the same step for `stuck` nanoseconds and, where there is an earlier look,
 * was in that step then. The job is quiet when no rank has moved between the looks: then all that could finish has.
 */
struct snapshot {
    struct look now, before; /* before.count 0: there is one look only */
    uint64_t stuck;
    bool watched; /* what is said to be dead is: each was asked for on its own host. Else that holds of this host alone
                   */
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

/* Who it is. */
struct culprit {
    uint64_t comm;
    char name[WIRE_BOX_NAME]; /* of the communicator */
    int rank;                 /* -1: no single one */
    int world_rank;           /* the same one's in the largest communicator of its process */
    int peer;                 /* of a link, the other end; else -1 */
    uint32_t pid;             /* 0: unknown */
    uint64_t process;         /* another for each process, also where hosts have the same numbers; 0: no single one */
    char host[WIRE_BOX_NAME];
};

#define FINDING_SENTENCE 900
#define FINDING_EVIDENCE 8
#define FINDING_LINE     256

struct finding {
    enum finding_kind kind;
    enum confidence confidence;
    struct culprit culprit;
    size_t victims; /* ranks that wait because of it */
    char sentence[FINDING_SENTENCE];
    char evidence[FINDING_EVIDENCE][FINDING_LINE];
    size_t evidence_count;
    char remedy[FINDING_LINE];
};

struct findings {
    struct finding *items; /* the surest and gravest first */
    size_t count, left_out;
    uint64_t steps; /* of the analysis: grows with the size of the snapshot, and not faster than n log n */
};

/* Freed by findings_free. No memory: no findings. */
struct findings diagnosis_find(const struct snapshot *snapshot);
/* Noise makes another one slow every second: of what is slow, keeps what was so before, too. Hangs stay. */
void findings_confirm(struct findings *now, const struct findings *before);
void findings_free(struct findings *findings);

/* Of each process of the look, in which part of the latest calls' time the others waited for it. Freed by the caller;
 * no memory: NULL. */
double *diagnosis_holds_up(const struct snapshot *snapshot);

struct finding_row {
    const char *name;
    enum finding_class class;
    const char *remedy; /* PID stands for the culprit's process */
};
const struct finding_row *finding_row(enum finding_kind kind);
const char *finding_class_name(enum finding_class class);
bool finding_is_hang(enum finding_kind kind);
/* It only says why ranks wait: nobody is to blame. */
bool finding_is_note(enum finding_kind kind);
/* How many are no notes: those come first. */
size_t findings_faults(const struct findings *findings);
bool finding_same_culprit(const struct finding *a, const struct finding *b);
const char *confidence_name(enum confidence confidence);

#endif
