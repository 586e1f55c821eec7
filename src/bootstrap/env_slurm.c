/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm without PMI: rank 0 runs on the first host of the step's list. */
#include "base/error.h"
#include "bootstrap/env_kind.h"
#include "bootstrap/env_slurm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the first of each bracket: "rack[1-2]node[3-4],x" begins with rack1node3. */
bool slurm_first_host(const char *list, char *out, size_t size)
{
    size_t used = 0;
    while (*list && *list != ',') {
        bool bracket = *list == '[';
        list += bracket;
        size_t length = strcspn(list, bracket ? "-,]" : "[,");
        if (!length || used + length >= size)
            return false;
        memcpy(out + used, list, length);
        used += length;
        list += length;
        if (bracket) {
            list = strchr(list, ']');
            if (!list)
                return false;
            list++;
        }
    }
    out[used] = 0;
    return used > 0;
}

bool slurm_tasks_of_node(const char *tasks, int node, int *out)
{
    while (*tasks) {
        char *end;
        long count = strtol(tasks, &end, 10), times = 1;
        if (end == tasks || count < 1 || count > INT_MAX)
            return false;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')' || times < 1)
                return false;
        }
        if (node < times) {
            *out = (int)count;
            return true;
        }
        node -= (int)times;
        if (*end == ',')
            end++;
        else if (*end)
            return false;
        tasks = end;
    }
    return false;
}

static bool present(void)
{
    return env_text("SLURM_PROCID");
}

static const char *either(const char *first, const char *second)
{
    return env_text(first) ? first : second;
}

static tutti_result_t env_slurm_find(struct env_identity *out)
{
    int node = -1;
    const char *size = either("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
    tutti_result_t result = env_need("SLURM_PROCID", 0, INT_MAX, &out->rank);
    if (result == TUTTI_SUCCESS)
        result = env_need(size, 1, INT_MAX, &out->nranks);
    if (result == TUTTI_SUCCESS && out->rank >= out->nranks)
        return error_set(TUTTI_INVALID_USAGE, "SLURM_PROCID=%d is not below %s=%d; start the program with srun",
                         out->rank, size, out->nranks);
    if (result == TUTTI_SUCCESS)
        result = env_want("SLURM_LOCALID", 0, INT_MAX, &out->local_rank);
    if (result == TUTTI_SUCCESS)
        result = env_want("SLURM_NODEID", 0, INT_MAX, &node);
    const char *tasks = env_text("SLURM_STEP_TASKS_PER_NODE");
    if (result == TUTTI_SUCCESS && tasks && node >= 0 && !slurm_tasks_of_node(tasks, node, &out->local_size))
        return error_set(
            TUTTI_INVALID_USAGE,
            "SLURM_STEP_TASKS_PER_NODE=%.100s has no entry for SLURM_NODEID=%d; start the program with srun", tasks,
            node);
    return result;
}

static tutti_result_t env_slurm_meet(struct env_identity *out, unsigned generation)
{
    char secret[300], host[256], address[300];
    bool met;
    const char *job = env_text("SLURM_JOB_ID"), *step = env_text("SLURM_STEP_ID"), *user = env_text("SLURM_JOB_UID");
    if (env_text("PMIX_NAMESPACE")) {
        tutti_result_t result = env_meet_pmix(out, generation, &met);
        if (result != TUTTI_SUCCESS || met)
            return result;
    }
    if (!job)
        return error_set(TUTTI_INVALID_USAGE,
                         "SLURM_PROCID is set, but SLURM_JOB_ID is not; set it, or TUTTI_ID to host:port of rank 0");
    snprintf(secret, sizeof secret, "Slurm %.64s %.64s %.64s", job, step ? step : "", user ? user : "");
    tutti_result_t result = env_meet_master(out, secret, generation, &met);
    if (result != TUTTI_SUCCESS || met)
        return result;
    const char *variable = either("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"), *list = env_text(variable);
    if (!list)
        return error_set(TUTTI_INVALID_USAGE,
                         "SLURM_STEP_NODELIST is not set; set it, or TUTTI_ID to host:port of rank 0");
    if (!slurm_first_host(list, host, sizeof host))
        return error_set(TUTTI_INVALID_USAGE, "%s=%.200s: cannot read the first host of this list", variable, list);
    snprintf(address, sizeof address, "%s:%u", host, env_port_from(secret));
    return env_meet_fixed(out, variable, address, secret, generation);
}

const struct env_kind env_slurm = {"Slurm", present, env_slurm_find, env_slurm_meet};
