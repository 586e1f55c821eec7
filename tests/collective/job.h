/* SPDX-License-Identifier: Apache-2.0 */
/* One collective on checked buffers: described, issued, and verified bit by bit, with guards around what it may touch.
 */
#ifndef TUTTI_TESTS_COLLECTIVE_JOB_H
#define TUTTI_TESTS_COLLECTIVE_JOB_H

#include "data.h"

#define JOB_RANKS 16

enum job_kind {
    JOB_ALLREDUCE,
    JOB_REDUCE,
    JOB_REDUCE_SCATTER,
    JOB_REDUCE_SCATTERV,
    JOB_SCAN, /* these reduce */
    JOB_BROADCAST,
    JOB_ALLGATHER,
    JOB_ALLGATHERV,
    JOB_GATHER,
    JOB_SCATTER,
    JOB_ALLTOALL,
    JOB_ALLTOALLV,
    JOB_BARRIER,
    JOB_EXCHANGE, /* a group of sends and receives: to the next rank, from the last, and to itself */
    JOB_KINDS
};

struct job {
    enum job_kind kind;
    tutti_type_t type;
    int op; /* tutti_op_t, or DATA_PREMUL */
    int root;
    size_t count;
    bool in_place;
    int send_skew, recv_skew; /* bytes away from alignment */
    uint64_t seed;

    int rank, nranks;
    tutti_comm_t comm;
    tutti_op_t handle;
    bool made;                  /* handle */
    unsigned char *send, *recv; /* what the user passes */
    unsigned char *memory[2];   /* of send and of recv; [1] NULL when in place */
    unsigned char *mirror[2];   /* what processors see of them: a copy where they are a GPU's */
    size_t bytes[2];
    size_t counts[4][JOB_RANKS]; /* alltoallv: send counts, offsets, recv counts, offsets; others: counts, offsets */
};

const char *job_name(enum job_kind kind);
bool job_reduces(enum job_kind kind);
bool job_rooted(enum job_kind kind);
bool job_may_be_in_place(enum job_kind kind);

/* Memory where the ranks' buffers are: the host's or the GPU's. Ends the program if there is none. */
unsigned char *job_memory(size_t bytes);
/* Any job, up to 400,000 elements: the same on all ranks that ask with the same seed and number. */
struct job job_draw(uint64_t seed, uint64_t number, int nranks);
/* Makes the buffers. Fill kind ... seed before. */
void job_prepare(struct job *job, tutti_comm_t comm, int rank, int nranks);
/* Bytes of memory[which], with what is around the buffer. */
size_t job_room(const struct job *job, int which);
tutti_result_t job_issue(struct job *job, tutti_stream_t stream);
/* After synchronizing. Prints what is wrong; returns whether all is right. */
bool job_check(const struct job *job);
/* Of an allreduce's result. */
uint64_t job_result_digest(const struct job *job);
/* Of the bytes in both buffers. */
uint64_t job_digest(const struct job *job);
void job_free(struct job *job);

#endif
