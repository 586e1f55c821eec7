/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of env: launchers, and ways to agree on a unique id. */
#ifndef TUTTI_BOOTSTRAP_ENV_KIND_H
#define TUTTI_BOOTSTRAP_ENV_KIND_H

#include "bootstrap/env.h"

/* A launcher: one row a kind, in the order in which they are tried. */
struct env_kind {
    const char *name;
    bool (*present)(void);
    tutti_result_t (*find)(struct env_identity *out); /* rank, nranks, local_rank, local_size */
    tutti_result_t (*meet)(struct env_identity *out, unsigned generation);
};

extern const struct env_kind env_torchrun, env_open_mpi, env_pmi, env_slurm;

/* The variable's text, NULL if it is unset or empty. */
const char *env_text(const char *name);
/* The variable must be an integer in [least, most]. */
tutti_result_t env_need(const char *name, int least, int most, int *out);
/* As env_need, but *out stays as it is if the variable is unset. */
tutti_result_t env_want(const char *name, int least, int most, int *out);

/*
 * A fixed meeting point `address` ("host:port", from `what`). Generation g uses port + g and another nonce. The nonce
 * is TUTTI_NONCE or, without it, a hash of `secret`, which should say as much of the job as is known.
 */
tutti_result_t env_meet_fixed(struct env_identity *out, const char *what, const char *address, const char *secret,
                              unsigned generation);
/*
 * MASTER_ADDR, if it is set, and a port derived from `secret` and MASTER_PORT: MASTER_PORT itself is the launcher's,
 * and the one after it is that of the next job often enough. *met: false if MASTER_ADDR is not set.
 */
tutti_result_t env_meet_master(struct env_identity *out, const char *secret, unsigned generation, bool *met);
/* 127.0.0.1 and a port derived from `secret`; for jobs on one host. An error names what would help otherwise. */
tutti_result_t env_meet_local(struct env_identity *out, const char *secret, unsigned generation);
/* A port outside the range that systems give to clients. */
unsigned env_port_from(const char *secret);
/* Process id and start time of the launcher's daemon on this host: the same for all ranks of one job here, and for no
 * other. */
void env_local_job(char *out, size_t size);

/* For launchers that can carry a text from rank 0 to all: rank 0 reserves a port and makes a fresh id; others read it.
 */
#define ENV_ID_TEXT (2 * TUTTI_UNIQUE_ID_BYTES + 1)
tutti_result_t env_fresh_id(struct env_identity *out);
void env_id_to_text(const tutti_unique_id_t *id, char out[ENV_ID_TEXT]);
bool env_id_from_text(const char *text, tutti_unique_id_t *out);

/* *met: false if this way is not open here; then nothing has changed. */
tutti_result_t env_meet_pmix(struct env_identity *out, unsigned generation, bool *met);
tutti_result_t env_meet_pmi1(struct env_identity *out, unsigned generation, bool *met);
/* The PMI-1 conversation over a socket; split out for tests with a launcher of their own. */
tutti_result_t env_pmi1_exchange(int fd, struct env_identity *out, unsigned generation, bool *met);

#endif
