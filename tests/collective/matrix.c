/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matrix [-c COLLECTIVE,...] [-k K] [-s SEED]: every collective x type x operator x count x root x in and out of place,
 * bit by bit. One process a rank: tutti run -n N -- matrix. K: only one case in K, drawn by the seed.
 */
#include "gpu.h"
#include "box.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 6
#define LARGE 300001

static struct {
    const char *only;
    uint64_t stride, seed;
    int rank, nranks;
    tutti_comm_t comm;
    struct job batch[BATCH];
    int pending;
    uint64_t cases, run, wrong;
} m = {.stride = 1, .seed = 1};

static bool failed(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return false;
    fprintf(stderr, "rank %d: %s: %s: %s\n", m.rank, what, tutti_get_error_string(result),
            tutti_get_last_error(m.comm));
    return true;
}

/* Averages may round, but all ranks must hold the same bits. `words`: mine, then one of each rank, where the ranks'
 * buffers are. */
static void agree(const struct job *job)
{
    static uint64_t *words;
    uint64_t seen[JOB_RANKS + 1];
    if (job->kind != JOB_ALLREDUCE || job->op != TUTTI_AVG)
        return;
    if (!words)
        words = (uint64_t *)(void *)job_memory((JOB_RANKS + 1) * sizeof *words);
    seen[0] = job_result_digest(job);
    gpu_bytes_copy(words, seen, sizeof *seen);
    if (failed(tutti_allgather(words, words + 1, 1, TUTTI_UINT64, m.comm, NULL), "allgather") ||
        failed(tutti_comm_synchronize(m.comm), "synchronize"))
        exit(1);
    gpu_bytes_copy(seen, words, sizeof seen);
    for (int rank = 0; rank < m.nranks; rank++)
        if (seen[1 + rank] != seen[0]) {
            fprintf(stderr, "rank %d: rank %d has another average of %s\n", m.rank, rank, data_type_name(job->type));
            m.wrong++;
        }
}

static void flush_batch(void)
{
    if (m.pending && failed(tutti_comm_synchronize(m.comm), "synchronize"))
        exit(1);
    for (int i = 0; i < m.pending; i++) {
        m.wrong += !job_check(&m.batch[i]);
        agree(&m.batch[i]);
        job_free(&m.batch[i]);
    }
    m.pending = 0;
    if (m.wrong > 10)
        exit(1);
}

static void run_case(struct job job)
{
    uint64_t hash = data_hash(m.seed, ++m.cases), skew = data_hash(hash, (uint64_t)m.rank);
    if (hash / 64 % m.stride)
        return;
    job.seed = hash;
    if (hash % 2) {
        job.send_skew = (int)(skew % 16);
        job.recv_skew = (int)(skew / 16 % 16);
    }
    struct job *slot = &m.batch[m.pending++];
    *slot = job;
    job_prepare(slot, m.comm, m.rank, m.nranks);
    m.run++;
    if (failed(job_issue(slot, NULL), job_name(job.kind)))
        exit(1);
    if (m.pending == BATCH)
        flush_batch();
}

static void places(struct job job)
{
    for (int in_place = 0; in_place <= job_may_be_in_place(job.kind); in_place++) {
        job.in_place = in_place;
        run_case(job);
    }
}

static void roots(struct job job)
{
    const int candidate[] = {0, m.nranks - 1, m.nranks / 2};
    int count = !job_rooted(job.kind) || m.nranks == 1 ? 1 : m.nranks == 2 ? 2 : 3;
    for (int i = 0; i < count; i++) {
        job.root = candidate[i];
        places(job);
    }
}

/* One type of each size, summed or moved: the rest is the same code. */
static bool is_large_type(tutti_type_t type)
{
    return type == TUTTI_UINT8 || type == TUTTI_FLOAT16 || type == TUTTI_FLOAT32 || type == TUTTI_INT64;
}

static void counts(struct job job)
{
    static const size_t small[] = {0, 1, 3, 1001};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        job.count = small[i];
        roots(job);
    }
    if (!is_large_type(job.type) || (job_reduces(job.kind) && job.op != TUTTI_SUM && job.op != DATA_PREMUL))
        return;
    bool vector = job.kind <= JOB_REDUCE || job.kind == JOB_BROADCAST || job.kind == JOB_EXCHANGE;
    job.count = vector ? LARGE : (size_t)(LARGE / m.nranks) | 1;
    roots(job);
}

static bool is_wanted(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = m.only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    return !m.only;
}

static void collective(enum job_kind kind)
{
    if (!is_wanted(job_name(kind)))
        return;
    if (kind == JOB_BARRIER) {
        run_case((struct job){.kind = kind});
        return;
    }
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (int op = 0; op <= (job_reduces(kind) ? DATA_PREMUL : 0); op++)
            counts((struct job){.kind = kind, .type = (tutti_type_t)type, .op = op});
}

int main(int argc, char **argv)
{
    bool by_verbs = false;
    for (int option; (option = getopt(argc, argv, "c:k:s:v")) != -1;) {
        if (option == 'c')
            m.only = optarg;
        else if (option == 'k')
            m.stride = strtoull(optarg, NULL, 10);
        else if (option == 's')
            m.seed = strtoull(optarg, NULL, 10);
        else if (option == 'v')
            by_verbs = true;
        else
            return 2;
    }
    if (gpu_wanted())
        gpu_select(atoi(getenv("TUTTI_LOCAL_RANK")));
    tutti_config_t config = gpu_config();
    if (failed(tutti_comm_init_from_env(&m.comm, &config), "init") ||
        failed(tutti_comm_rank(m.comm, &m.rank), "rank") || failed(tutti_comm_count(m.comm, &m.nranks), "count"))
        return 1;
    if (m.nranks > JOB_RANKS)
        return 2;
    for (int kind = 0; kind < JOB_KINDS; kind++)
        collective((enum job_kind)kind);
    flush_batch();
    if (by_verbs && !(box_counter(WIRE_COUNTER_SENT_VERBS) && box_counter(WIRE_COUNTER_RECEIVED_VERBS))) {
        fprintf(stderr, "rank %d: nothing went over RDMA verbs\n", m.rank);
        return 1;
    }
    if (failed(tutti_comm_destroy(m.comm), "destroy"))
        return 1;
    if (m.rank == 0)
        printf("%llu of %llu cases, %llu wrong\n", (unsigned long long)m.run, (unsigned long long)m.cases,
               (unsigned long long)m.wrong);
    return m.wrong != 0;
}
