/* SPDX-License-Identifier: Apache-2.0 */
/* Which launcher is it? And the launchers whose variables say everything. */
#include "base/error.h"
#include "base/log.h"
#include "base/net.h"
#include "base/param.h"
#include "base/parse.h"
#include "bootstrap/env_kind.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *env_text(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

tutti_result_t env_want(const char *name, int least, int most, int *out)
{
    const char *text = env_text(name);
    int64_t value;
    if (!text)
        return TUTTI_SUCCESS;
    if (!parse_int(text, &value) || value < least || value > most)
        return error_set(TUTTI_INVALID_USAGE, "%s=%.100s: want an integer, %d to %d", name, text, least, most);
    *out = (int)value;
    return TUTTI_SUCCESS;
}

tutti_result_t env_need(const char *name, int least, int most, int *out)
{
    if (!env_text(name))
        return error_set(TUTTI_INVALID_USAGE,
                         "%s is not set, though other variables of its launcher are; set it, or unset the others",
                         name);
    return env_want(name, least, most, out);
}

/* Rank, size and their local fellows, by the names that a launcher gives them. */
static tutti_result_t read_ranks(struct env_identity *out, const char *rank, const char *size, const char *local_rank,
                                 const char *local_size)
{
    tutti_result_t result = env_need(size, 1, INT_MAX, &out->nranks);
    if (result == TUTTI_SUCCESS)
        result = env_need(rank, 0, INT_MAX, &out->rank);
    if (result == TUTTI_SUCCESS && out->rank >= out->nranks)
        return error_set(TUTTI_INVALID_USAGE, "%s=%d is not below %s=%d; ranks count from 0", rank, out->rank, size,
                         out->nranks);
    if (result == TUTTI_SUCCESS)
        result = env_want(local_rank, 0, INT_MAX, &out->local_rank);
    if (result == TUTTI_SUCCESS)
        result = env_want(local_size, 1, INT_MAX, &out->local_size);
    if (result == TUTTI_SUCCESS && out->local_size > 0 && out->local_rank >= out->local_size)
        return error_set(TUTTI_INVALID_USAGE, "%s=%d is not below %s=%d; ranks count from 0", local_rank,
                         out->local_rank, local_size, out->local_size);
    return result;
}

static bool tutti_present(void)
{
    return env_text("TUTTI_RANK") || env_text("TUTTI_SIZE");
}

static tutti_result_t tutti_find(struct env_identity *out)
{
    return read_ranks(out, "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE");
}

static tutti_result_t tutti_meet(struct env_identity *out, unsigned generation)
{
    return error_set(TUTTI_INVALID_USAGE,
                     "TUTTI_RANK and TUTTI_SIZE are set, but TUTTI_ID (host:port of rank 0) is not");
}

static const struct env_kind env_tutti_run = {"tutti run", tutti_present, tutti_find, tutti_meet};

static bool torchrun_present(void)
{
    return env_text("TORCHELASTIC_RUN_ID") || env_text("WORLD_SIZE") || (env_text("RANK") && env_text("MASTER_ADDR"));
}

static tutti_result_t torchrun_find(struct env_identity *out)
{
    return read_ranks(out, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
}

static tutti_result_t torchrun_meet(struct env_identity *out, unsigned generation)
{
    char secret[600];
    bool met;
    int port = 0;
    tutti_result_t result = env_need("MASTER_PORT", 1, 65535, &port);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!env_text("MASTER_ADDR"))
        return error_set(TUTTI_INVALID_USAGE, "MASTER_ADDR is not set: torchrun sets it to the host of rank 0");
    const char *run = env_text("TORCHELASTIC_RUN_ID"), *restart = env_text("TORCHELASTIC_RESTART_COUNT");
    snprintf(secret, sizeof secret, "torchrun %.200s %.200s %.20s", run ? run : "", env_text("MASTER_ADDR"),
             restart ? restart : "");
    return env_meet_master(out, secret, generation, &met);
}

const struct env_kind env_torchrun = {"torchrun", torchrun_present, torchrun_find, torchrun_meet};

static bool open_mpi_present(void)
{
    return env_text("OMPI_COMM_WORLD_RANK") || env_text("OMPI_COMM_WORLD_SIZE");
}

static tutti_result_t open_mpi_find(struct env_identity *out)
{
    return read_ranks(out, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                      "OMPI_COMM_WORLD_LOCAL_SIZE");
}

static tutti_result_t open_mpi_meet(struct env_identity *out, unsigned generation)
{
    char secret[600];
    bool met;
    tutti_result_t result = env_meet_pmix(out, generation, &met);
    if (result != TUTTI_SUCCESS || met)
        return result;
    const char *space = env_text("PMIX_NAMESPACE"), *key = env_text("OMPI_MCA_orte_precondition_transports");
    snprintf(secret, sizeof secret, "Open MPI %.200s %.200s", space ? space : "", key ? key : "");
    result = env_meet_master(out, secret, generation, &met);
    return result != TUTTI_SUCCESS || met ? result : env_meet_local(out, secret, generation);
}

const struct env_kind env_open_mpi = {"Open MPI", open_mpi_present, open_mpi_find, open_mpi_meet};

static bool pmi_present(void)
{
    return env_text("PMI_RANK") || env_text("PMI_SIZE");
}

static tutti_result_t pmi_find(struct env_identity *out)
{
    return read_ranks(out, "PMI_RANK", "PMI_SIZE", env_text("MPI_LOCALRANKID") ? "MPI_LOCALRANKID" : "SLURM_LOCALID",
                      "MPI_LOCALNRANKS");
}

static tutti_result_t pmi_meet(struct env_identity *out, unsigned generation)
{
    char secret[200] = "PMI ";
    bool met;
    tutti_result_t result = env_meet_pmi1(out, generation, &met);
    if (result != TUTTI_SUCCESS || met)
        return result;
    if (env_slurm.present())
        return env_slurm.meet(out, generation);
    env_local_job(secret + 4, sizeof secret - 4);
    result = env_meet_master(out, "PMI", generation, &met);
    return result != TUTTI_SUCCESS || met ? result : env_meet_local(out, secret, generation);
}

const struct env_kind env_pmi = {"PMI", pmi_present, pmi_find, pmi_meet};

/* What a launcher sets beside its ranks. One of them alone: the process is one of several, and cannot tell which. */
static const char *stray_variable(void)
{
    static const char *const names[] = {"RANK",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TUTTI_LOCAL_RANK",
                                        "PMIX_RANK",
                                        "PMI_ID",
                                        "PMI_FD",
                                        "PMI_PORT",
                                        "MPI_LOCALRANKID",
                                        "SLURM_LOCALID",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "TUTTI_LOCAL_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (env_text(names[i]))
            return names[i];
    return *param_string(PARAM_ID) ? param_source(PARAM_ID) : NULL;
}

/* As MPI programs do that no launcher has started. */
static bool alone_present(void)
{
    return !stray_variable();
}

static tutti_result_t alone_find(struct env_identity *out)
{
    out->nranks = out->local_size = 1;
    out->rank = out->local_rank = 0;
    log_info("no launcher has set its variables: this process is the only rank");
    return TUTTI_SUCCESS;
}

static tutti_result_t alone_meet(struct env_identity *out, unsigned generation)
{
    (void)generation;
    return env_fresh_id(out);
}

static const struct env_kind env_alone = {"no launcher", alone_present, alone_find, alone_meet};

static const struct env_kind *const kinds[] = {&env_tutti_run, &env_torchrun, &env_open_mpi,
                                               &env_pmi,       &env_slurm,    &env_alone};

static tutti_result_t nothing_found(void)
{
    return error_set(TUTTI_INVALID_USAGE,
                     "%s is set, but nothing tells this process its rank: start it with tutti run, torchrun, mpirun or "
                     "srun; or set TUTTI_RANK, TUTTI_SIZE and TUTTI_ID, or RANK, WORLD_SIZE, MASTER_ADDR and "
                     "MASTER_PORT; or unset it, and the process is rank 0 of 1",
                     stray_variable());
}

/* TUTTI_ID says where to meet, whoever says the ranks. */
static tutti_result_t env_meet(const struct env_kind *kind, struct env_identity *out, unsigned generation)
{
    char secret[300];
    const char *address = param_string(PARAM_ID);
    if (!*address)
        return kind->meet(out, generation);
    snprintf(secret, sizeof secret, "id %.200s", address);
    return env_meet_fixed(out, param_source(PARAM_ID), address, secret, generation);
}

tutti_result_t env_identity_named(struct env_identity *out, bool *named)
{
    char secret[300];
    const char *address = param_string(PARAM_ID), *variable = param_source(PARAM_ID);
    *out = (struct env_identity){.rank = -1, .local_rank = -1, .local_size = -1, .reserved_fd = -1};
    *named = *address && strcmp(variable, param_row(PARAM_ID)->alias) == 0;
    snprintf(secret, sizeof secret, "id %.200s", address);
    return *named ? env_meet_fixed(out, variable, address, secret, 0) : TUTTI_SUCCESS;
}

tutti_result_t env_identity_find(struct env_identity *out)
{
    static _Atomic unsigned calls;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i]->present())
            continue;
        *out = (struct env_identity){.local_rank = -1, .local_size = -1, .reserved_fd = -1};
        snprintf(out->source, sizeof out->source, "%s", kinds[i]->name);
        tutti_result_t result = kinds[i]->find(out);
        if (result == TUTTI_SUCCESS)
            result = env_meet(kinds[i], out, atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed));
        if (result != TUTTI_SUCCESS)
            env_identity_release(out);
        out->root_here = out->rank == 0;
        return result;
    }
    return nothing_found();
}

tutti_result_t env_root_open(struct env_identity *identity, struct poller *poller, struct bootstrap_root **out)
{
    tutti_result_t result = TUTTI_SUCCESS;
    *out = NULL;
    if (identity->root_here)
        result = identity->root_anywhere ? bootstrap_root_open_anywhere(poller, &identity->id, out)
                                         : bootstrap_root_open(poller, &identity->id, NULL, out);
    env_identity_release(identity);
    return result;
}

void env_identity_release(struct env_identity *identity)
{
    if (identity->reserved_fd >= 0)
        close(identity->reserved_fd);
    identity->reserved_fd = -1;
}
