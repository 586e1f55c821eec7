/* SPDX-License-Identifier: Apache-2.0 */
/* Who am I, how many are we, where do we meet? Asked of whatever started this process; see docs/bootstrap.md for the
 * variables. */
#ifndef TUTTI_BOOTSTRAP_ENV_H
#define TUTTI_BOOTSTRAP_ENV_H

#include "bootstrap/bootstrap.h"

struct env_identity {
    int rank, nranks;
    int local_rank, local_size; /* among the ranks of this host; -1 if nothing tells */
    tutti_unique_id_t id;
    bool root_here;     /* this process must open the root: env_root_open */
    bool root_anywhere; /* the id's address is a host's name: the root listens on all addresses of the host */
    int reserved_fd;    /* holds the root's port until the root listens; -1: none */
    char source[32];    /* "tutti run", "torchrun", "Open MPI", "PMI", "Slurm", "no launcher" */
};

/*
 * Finds it, and exchanges the id through the launcher where that is possible: then it blocks until all ranks have
 * called. All ranks call it equally often; the k-th calls belong together and do not disturb the others. Errors name
 * the variable.
 */
tutti_result_t env_identity_find(struct env_identity *out);
/* NCCL_COMM_ID names a meeting point for whoever asks for an id; rank 0 of those who use it opens the root. */
tutti_result_t env_identity_named(struct env_identity *out, bool *named);
/* Opens the root if it belongs here, else *out is NULL. */
tutti_result_t env_root_open(struct env_identity *identity, struct poller *poller, struct bootstrap_root **out);
/* Gives back the reserved port, if the root was not opened. */
void env_identity_release(struct env_identity *identity);

#endif
