/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots for tests: jobs as they would be read, made in memory. */
#ifndef TUTTI_DIAGNOSIS_TESTING_H
#define TUTTI_DIAGNOSIS_TESTING_H

#include "diagnosis/diagnosis.h"

#define MADE_NOW   1000000000000ull
#define MADE_STUCK 2000000000ull

struct made_job {
    struct blackbox **boxes;
    struct process_facts *facts;
    size_t count;
};

struct made_job made_job(size_t processes);
void made_free(struct made_job *job);
struct look made_look(const struct made_job *job);
/* The look a second before, with the boxes of this one. Sets the facts of both: each process has one thread, which
 * sleeps. The caller frees its `facts`, and not its boxes. */
struct made_job made_before(struct made_job *now);
struct blackbox_comm *made_comm(struct blackbox *box, uint64_t id, const char *name, int rank, int nranks);
/* A finished float sum of 100 elements, which began and ended these nanoseconds before now. */
struct blackbox_op *made_call(struct blackbox_comm *comm, uint64_t seq, uint64_t begun, uint64_t ended);
/* A call of this kind in a step that ended `ago`: its beginning and its end in milliseconds of the step. */
struct blackbox_op *made_in_step(struct blackbox_comm *comm, uint64_t seq, uint64_t ago, int collective, int begin,
                                 int end);
/* As made_call(), still running: `peer` has been waited for in `round` for 10 s. */
struct blackbox_op *made_wait(struct blackbox_comm *comm, uint64_t seq, int peer, uint32_t round);
void made_event(struct blackbox *box, uint32_t kind, uint64_t comm, int rank, int nranks, uint64_t ago);

/* The snapshot has this finding alone, with these words in its sentence, its remedy or its first evidence. before:
 * NULL, or the look before. */
void made_expect(const struct made_job *before, const struct made_job *now, enum finding_kind kind, int world_rank,
                 const char *words);

/* tp x pp x dp ranks, each in a communicator of every dimension. Rank `culprit` of all has not called #8 of its first
 * dimension. */
struct made_job made_training(int tp, int pp, int dp, int culprit);

/* ---- Lanes ---- */

#define CLUSTER_HOSTS 4
#define CLUSTER_EACH  2 /* processes of a host */
#define CLUSTER_RANKS (CLUSTER_HOSTS * CLUSTER_EACH)
#define CLUSTER_QUICK (6 * NS_PER_MS)
#define CLUSTER_LATE  (60 * NS_PER_MS)

struct blackbox_lane *made_lane(struct blackbox *box, const struct blackbox *peer, uint16_t distance);
/* Segments one after another in communicator 1, `apart` from put to put. Each lands `took` after its put, or after the
 * landing of the one before. */
void made_segments(struct blackbox_lane *lane, int to, uint32_t length, uint64_t apart, uint64_t took);
/* One more segment to rank 1, of 1000 bytes, in this call of communicator 1; times in milliseconds before now. */
void made_segment(struct blackbox_lane *lane, uint32_t seq, int ready, int credit, int posted, int landed);
/* Each process has lanes to one process of every other host (node0, node1, ...), and quick ones within its host.
 * Segments of about every seventh lane take a little longer, and much longer where the lane is slow. */
struct made_job made_cluster(bool (*slow)(int from, int to));

#endif
