/* SPDX-License-Identifier: Apache-2.0 */
/* A group whose steps end also when members are missing: generations one after the other. docs/understand/elastic.md.
 */
#ifndef TUTTI_COMM_ELASTIC_H
#define TUTTI_COMM_ELASTIC_H

#include "comm/generation.h"

#define ELASTIC_MAGIC 0x5454414cu

struct elastic_settings {
    uint64_t timeout; /* of a step, ns */
    int minimum, unit, shard;
    int device; /* of a newcomer: CUDA ordinal, or TUTTI_HOST */
    struct team_bound bound;
};

struct tutti_elastic {
    uint32_t magic;
    uint32_t fork;                   /* fork_generation of the process that made it */
    struct generation *before, *now; /* before: for members that have not heard of its end; NULL: all have */
    uint64_t number;                 /* of the generation, from 0 */
    uint64_t steps;                  /* that count */
    uint32_t turn;                   /* the last one that counts: steps and growths */
    int32_t next;                    /* the number of the next newcomer */
    struct elastic_settings settings;
    void *kept; /* a copy of the input of a call in place, where that is: in memory of the GPU, or of the host */
    size_t kept_bytes;
    int *set; /* of the last step */
    int set_room;
    tutti_result_t over; /* this member takes part no more, */
    char sentence[1024]; /* because of this */
};

/* Of what a call does in one generation. It may be done again in the next one. */
struct elastic_work {
    struct call call;
    tutti_stream_t stream; /* of GPUs */
    const void *input;     /* what call.in holds at the beginning, if the call destroys that; else NULL */
    bool again;            /* a try that does not count has been there */
    /* of a growth */
    int newcomers;
    const tutti_unique_id_t *id;
    struct generation *grown;
    uint32_t turn;
};

/* Collective over `comm`, which is only used to make another one. */
tutti_result_t elastic_open(struct tutti_comm *comm, const struct elastic_settings *settings,
                            struct tutti_elastic **out);
/* A group of this process; elastic_check(): and it has not ended for this member. */
tutti_result_t elastic_known(const struct tutti_elastic *elastic);
tutti_result_t elastic_check(const struct tutti_elastic *elastic);
/* The CUDA ordinal of this member, or TUTTI_HOST. */
int elastic_device(const struct tutti_elastic *elastic);
tutti_result_t elastic_allreduce(struct tutti_elastic *elastic, const struct call *call, tutti_stream_t stream,
                                 tutti_elastic_step_t *step);
tutti_result_t elastic_grow(struct tutti_elastic *elastic, int newcomers, const tutti_unique_id_t *id);
tutti_result_t elastic_join(const tutti_unique_id_t *id, int nranks, int rank, const struct elastic_settings *settings,
                            struct tutti_elastic **out);
void elastic_close(struct tutti_elastic *elastic);
/* Bytes that the group holds. */
void elastic_memory(const struct tutti_elastic *elastic, size_t *device, size_t *host);

#endif
