/* SPDX-License-Identifier: Apache-2.0 */
/* One collective: its buffers, its call, its reference. */
#include "gpu.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD      64
#define GUARD_BYTE 0xa5
#define BLANK_BYTE 0x5a

static const char *const names[JOB_KINDS] = {"allreduce", "reduce",    "reduce_scatter", "reduce_scatterv", "scan",
                                             "broadcast", "allgather", "allgatherv",     "gather",          "scatter",
                                             "alltoall",  "alltoallv", "barrier",        "sendrecv"};

const char *job_name(enum job_kind kind)
{
    return names[kind];
}

bool job_reduces(enum job_kind kind)
{
    return kind < JOB_BROADCAST;
}

bool job_rooted(enum job_kind kind)
{
    return kind == JOB_REDUCE || kind == JOB_BROADCAST || kind == JOB_GATHER || kind == JOB_SCATTER;
}

bool job_may_be_in_place(enum job_kind kind)
{
    return kind < JOB_ALLTOALL;
}

struct job job_draw(uint64_t seed, uint64_t number, int nranks)
{
    uint64_t h = data_hash(seed, number), g = data_hash(h, 1);
    static const size_t most[] = {4, 300, 20000, 400000};
    struct job job = {.kind = (enum job_kind)(h % JOB_KINDS),
                      .type = (tutti_type_t)(h / 16 % TUTTI_TYPE_COUNT),
                      .op = (int)(h / 256 % (DATA_PREMUL + 1)),
                      .root = (int)(h / 4096 % (uint64_t)nranks),
                      .seed = h};
    job.count = g % (most[g / 8 % 4] + 1);
    job.in_place = job_may_be_in_place(job.kind) && g / 64 % 2;
    job.send_skew = (int)(g / 128 % 8);
    job.recv_skew = (int)(g / 1024 % 8);
    return job;
}

static size_t size_of(const struct job *job)
{
    return data_size(job->type);
}

static int op_of(const struct job *job)
{
    return job_reduces(job->kind) ? job->op : DATA_COPY;
}

/* Elements that a sends to b. */
static size_t pair_count(const struct job *job, int a, int b)
{
    uint64_t hash = data_hash(data_hash(job->seed, 77), (uint64_t)(a * 64 + b));
    return hash % 4 == 0 ? 0 : hash % (job->count + 1);
}

static size_t lay_out(const struct job *job, size_t counts[], size_t offsets[], bool sends)
{
    size_t end = 0;
    for (int peer = 0; peer < job->nranks; peer++) {
        counts[peer] = sends ? pair_count(job, job->rank, peer) : pair_count(job, peer, job->rank);
        offsets[peer] = end + (size_t)peer % 3;
        end = offsets[peer] + counts[peer];
    }
    return end;
}

/* Blocks of any sizes, the same on all ranks. */
static size_t lay_out_blocks(const struct job *job, size_t counts[], size_t offsets[])
{
    size_t end = 0;
    for (int rank = 0; rank < job->nranks; rank++) {
        counts[rank] = pair_count(job, JOB_RANKS, rank);
        offsets[rank] = end + (size_t)rank % 3;
        end = offsets[rank] + counts[rank];
    }
    return end;
}

/* Elements of the send and of the receive buffer on this rank; 0: none is passed. */
static void extents(struct job *job, size_t *send, size_t *recv)
{
    size_t one = job->count, all = one * (size_t)job->nranks;
    bool root = job->rank == job->root;
    *send = *recv = one;
    switch (job->kind) {
    case JOB_ALLGATHER:
        *recv = all;
        break;
    case JOB_REDUCE_SCATTER:
        *send = all;
        break;
    case JOB_GATHER:
        *recv = root ? all : one;
        break;
    case JOB_SCATTER:
        *send = root ? all : one;
        break;
    case JOB_ALLTOALL:
        *send = *recv = all;
        break;
    case JOB_EXCHANGE:
        *send = *recv = 2 * one;
        break;
    case JOB_ALLTOALLV:
        *send = lay_out(job, job->counts[0], job->counts[1], true);
        *recv = lay_out(job, job->counts[2], job->counts[3], false);
        break;
    case JOB_ALLGATHERV:
        *recv = lay_out_blocks(job, job->counts[0], job->counts[1]);
        *send = job->counts[0][job->rank];
        break;
    case JOB_REDUCE_SCATTERV:
        *send = lay_out_blocks(job, job->counts[0], job->counts[1]);
        *recv = job->counts[0][job->rank];
        break;
    case JOB_BARRIER:
        *send = *recv = 0;
        break;
    default:;
    }
}

/* Twice, for tests that let one call fail. */
static unsigned char *memory_of(size_t bytes)
{
    unsigned char *memory = malloc(bytes);
    if (!memory)
        memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

unsigned char *job_memory(size_t bytes)
{
    void *memory = NULL;
    if (!gpu_wanted())
        return memory_of(bytes);
    if (tutti_device_mem_alloc(&memory, bytes) != TUTTI_SUCCESS) {
        fprintf(stderr, "no device memory: %s\n", tutti_get_last_error(NULL));
        abort();
    }
    return memory;
}

static void free_buffer(unsigned char *memory)
{
    if (gpu_wanted())
        tutti_device_mem_free(memory);
    else
        free(memory);
}

static size_t room_for(size_t bytes, int skew)
{
    return bytes + 2 * GUARD + (size_t)skew;
}

size_t job_room(const struct job *job, int which)
{
    return room_for(job->bytes[which], which ? job->recv_skew : job->send_skew);
}

static void make_guarded(struct job *job, int which)
{
    size_t room = job_room(job, which);
    int skew = which ? job->recv_skew : job->send_skew;
    job->memory[which] = job_memory(room);
    job->mirror[which] = gpu_wanted() ? memory_of(room) : job->memory[which];
    memset(job->mirror[which], GUARD_BYTE, room);
    memset(job->mirror[which] + GUARD + skew, BLANK_BYTE, job->bytes[which]);
}

/* Where processors see an address of a job's memory. */
static unsigned char *seen(const struct job *job, const unsigned char *at)
{
    int which = job->memory[1] && at >= job->memory[1] && at <= job->memory[1] + job_room(job, 1);
    return job->mirror[which] + (at - job->memory[which]);
}

static void copy_jobs(const struct job *job, bool to_see)
{
    for (int i = 0; i < 2 && job->memory[i]; i++)
        if (job->mirror[i] != job->memory[i])
            gpu_bytes_copy(to_see ? job->mirror[i] : job->memory[i], to_see ? job->memory[i] : job->mirror[i],
                           job_room(job, i));
}

/* Where in-place calls take their input: the block of the larger buffer that is this rank's. */
static bool truly_in_place(const struct job *job)
{
    return job->in_place && (!job_rooted(job->kind) || job->rank == job->root);
}

static void place_buffers(struct job *job)
{
    bool any = job->kind == JOB_ALLGATHERV || job->kind == JOB_REDUCE_SCATTERV;
    size_t mine = (any ? job->counts[1][job->rank] : (size_t)job->rank * job->count) * size_of(job);
    job->send = job->memory[0] + GUARD + job->send_skew;
    if (!truly_in_place(job)) {
        job->recv = job->memory[1] + GUARD + job->recv_skew;
        return;
    }
    job->recv = job->send;
    if (job->kind == JOB_ALLGATHER || job->kind == JOB_ALLGATHERV || job->kind == JOB_GATHER)
        job->send += mine;
    if (job->kind == JOB_REDUCE_SCATTER || job->kind == JOB_REDUCE_SCATTERV || job->kind == JOB_SCATTER)
        job->recv += mine;
}

/* A vector of `blocks` blocks; block b of rank r is the same endless vector, begun elsewhere. */
static size_t shift_of(int block)
{
    return (size_t)block * 131;
}

static void fill_blocks(const struct job *job, unsigned char *to, int blocks)
{
    struct data_table table;
    data_input(&table, job->type, op_of(job), job->rank, job->seed);
    for (int block = 0; block < blocks; block++)
        data_fill(to + (size_t)block * job->count * size_of(job), &table, shift_of(block), job->count);
}

/* Writes what this rank sends, at `to`, as it was before the call. */
static void fill_send(const struct job *job, unsigned char *to)
{
    struct data_table table;
    bool root = job->rank == job->root;
    switch (job->kind) {
    case JOB_BARRIER:
        return;
    case JOB_ALLTOALLV:
        data_input(&table, job->type, DATA_COPY, job->rank, job->seed);
        for (int peer = 0; peer < job->nranks; peer++)
            data_fill(to + job->counts[1][peer] * size_of(job), &table, shift_of(peer), job->counts[0][peer]);
        return;
    case JOB_ALLGATHERV:
        data_input(&table, job->type, DATA_COPY, job->rank, job->seed);
        data_fill(to, &table, shift_of(0), job->counts[0][job->rank]);
        return;
    case JOB_REDUCE_SCATTERV:
        data_input(&table, job->type, job->op, job->rank, job->seed);
        for (int block = 0; block < job->nranks; block++)
            data_fill(to + job->counts[1][block] * size_of(job), &table, shift_of(block), job->counts[0][block]);
        return;
    case JOB_ALLTOALL:
    case JOB_REDUCE_SCATTER:
        fill_blocks(job, to, job->nranks);
        return;
    case JOB_SCATTER:
        fill_blocks(job, to, root ? job->nranks : 1);
        return;
    default:
        fill_blocks(job, to, job->kind == JOB_EXCHANGE ? 2 : 1);
    }
}

void job_prepare(struct job *job, tutti_comm_t comm, int rank, int nranks)
{
    size_t send, recv;
    if (job->kind == JOB_SCAN && gpu_wanted())
        job->kind = JOB_ALLREDUCE; /* GPUs do not scan */
    if (job->kind == JOB_SCAN && job->op == TUTTI_AVG)
        job->op = TUTTI_SUM;
    job->comm = comm;
    job->rank = rank;
    job->nranks = nranks;
    job->memory[1] = NULL;
    extents(job, &send, &recv);
    if (truly_in_place(job))
        send = recv = send > recv ? send : recv;
    job->bytes[0] = send * size_of(job);
    job->bytes[1] = recv * size_of(job);
    make_guarded(job, 0);
    if (!truly_in_place(job))
        make_guarded(job, 1);
    place_buffers(job);
    fill_send(job, seen(job, job->send));
    copy_jobs(job, false);
    job->handle = (tutti_op_t)job->op;
    job->made = false;
}

static tutti_result_t exchange(const struct job *job, tutti_stream_t stream)
{
    size_t half = job->count * size_of(job);
    int next = (job->rank + 1) % job->nranks, last = (job->rank + job->nranks - 1) % job->nranks;
    tutti_group_start();
    tutti_send(job->send, job->count, job->type, next, job->comm, stream);
    tutti_recv(job->recv, job->count, job->type, last, job->comm, stream);
    tutti_recv(job->recv + half, job->count, job->type, job->rank, job->comm, stream);
    tutti_send(job->send + half, job->count, job->type, job->rank, job->comm, stream);
    return tutti_group_end();
}

static tutti_result_t issue_reduction(struct job *job, tutti_stream_t stream)
{
    if (job->op == DATA_PREMUL) {
        uint64_t scalar = data_scalar(job->type, job->rank);
        tutti_result_t result = tutti_op_create_premul_sum(&job->handle, &scalar, job->type, job->comm);
        if (result != TUTTI_SUCCESS)
            return result;
        job->made = true;
    }
    switch (job->kind) {
    case JOB_ALLREDUCE:
        return tutti_allreduce(job->send, job->recv, job->count, job->type, job->handle, job->comm, stream);
    case JOB_REDUCE:
        return tutti_reduce(job->send, job->recv, job->count, job->type, job->handle, job->root, job->comm, stream);
    case JOB_SCAN:
        return tutti_scan(job->send, job->recv, job->count, job->type, job->handle, job->comm, stream);
    case JOB_REDUCE_SCATTERV:
        return tutti_reduce_scatterv(job->send, job->counts[0], job->counts[1], job->recv, job->type, job->handle,
                                     job->comm, stream);
    default:
        return tutti_reduce_scatter(job->send, job->recv, job->count, job->type, job->handle, job->comm, stream);
    }
}

tutti_result_t job_issue(struct job *job, tutti_stream_t stream)
{
    size_t(*c)[JOB_RANKS] = job->counts;
    switch (job->kind) {
    case JOB_BROADCAST:
        return tutti_broadcast(job->send, job->recv, job->count, job->type, job->root, job->comm, stream);
    case JOB_ALLGATHER:
        return tutti_allgather(job->send, job->recv, job->count, job->type, job->comm, stream);
    case JOB_ALLGATHERV:
        return tutti_allgatherv(job->send, job->recv, c[0], c[1], job->type, job->comm, stream);
    case JOB_GATHER:
        return tutti_gather(job->send, job->recv, job->count, job->type, job->root, job->comm, stream);
    case JOB_SCATTER:
        return tutti_scatter(job->send, job->recv, job->count, job->type, job->root, job->comm, stream);
    case JOB_ALLTOALL:
        return tutti_alltoall(job->send, job->recv, job->count, job->type, job->comm, stream);
    case JOB_ALLTOALLV:
        return tutti_alltoallv(job->send, c[0], c[1], job->recv, c[2], c[3], job->type, job->comm, stream);
    case JOB_BARRIER:
        return tutti_barrier(job->comm, stream);
    case JOB_EXCHANGE:
        return exchange(job, stream);
    default:
        return issue_reduction(job, stream);
    }
}

/* One block of rank `from`, begun at block `block` of its vector. */
static void expect_block(const struct job *job, unsigned char *to, int from, int block, size_t count)
{
    struct data_table table;
    data_input(&table, job->type, DATA_COPY, from, job->seed);
    data_fill(to, &table, shift_of(block), count);
}

static void expect_reduced(const struct job *job, unsigned char *to)
{
    struct data_table table;
    bool any = job->kind == JOB_REDUCE_SCATTERV, part = any || job->kind == JOB_REDUCE_SCATTER;
    data_result(&table, job->type, job->op, job->kind == JOB_SCAN ? job->rank + 1 : job->nranks, job->seed);
    data_fill(to, &table, part ? shift_of(job->rank) : 0, any ? job->counts[0][job->rank] : job->count);
}

static void expect_from_all(const struct job *job, unsigned char *to)
{
    for (int from = 0; job->kind == JOB_ALLGATHERV && from < job->nranks; from++)
        expect_block(job, to + job->counts[1][from] * size_of(job), from, 0, job->counts[0][from]);
    for (int from = 0; job->kind != JOB_ALLGATHERV && from < job->nranks; from++) {
        int block = job->kind == JOB_ALLTOALL || job->kind == JOB_ALLTOALLV ? job->rank : 0;
        size_t count = job->kind == JOB_ALLTOALLV ? job->counts[2][from] : job->count;
        size_t offset = job->kind == JOB_ALLTOALLV ? job->counts[3][from] : job->count * (size_t)from;
        expect_block(job, to + offset * size_of(job), from, block, count);
    }
}

/* Writes what must be at recv after the call; elsewhere the buffer is as it was. */
static void expect(const struct job *job, unsigned char *to)
{
    int last = (job->rank + job->nranks - 1) % job->nranks;
    switch (job->kind) {
    case JOB_REDUCE:
        if (job->rank == job->root)
            expect_reduced(job, to);
        break;
    case JOB_BROADCAST:
        expect_block(job, to, job->root, 0, job->count);
        break;
    case JOB_GATHER:
        if (job->rank == job->root)
            expect_from_all(job, to);
        break;
    case JOB_SCATTER:
        expect_block(job, to, job->root, job->rank, job->count);
        break;
    case JOB_EXCHANGE:
        expect_block(job, to, last, 0, job->count);
        expect_block(job, to + job->count * size_of(job), job->rank, 1, job->count);
        break;
    case JOB_BARRIER:
        break;
    case JOB_ALLREDUCE:
    case JOB_REDUCE_SCATTER:
    case JOB_REDUCE_SCATTERV:
    case JOB_SCAN:
        expect_reduced(job, to);
        break;
    default:
        expect_from_all(job, to);
    }
}

static bool complain(const struct job *job, const char *what, size_t at)
{
    fprintf(stderr, "rank %d of %d: %s %s %s count %zu root %d%s skew %d/%d seed %#llx: %s at byte %zu\n", job->rank,
            job->nranks, job_name(job->kind), data_type_name(job->type), data_op_name(op_of(job)), job->count,
            job->root, job->in_place ? " in place" : "", job->send_skew, job->recv_skew, (unsigned long long)job->seed,
            what, at);
    return false;
}

static bool check_guards(const struct job *job, const unsigned char *memory, size_t bytes, int skew)
{
    size_t before = GUARD + (size_t)skew;
    for (size_t i = 0; i < before; i++)
        if (memory[i] != GUARD_BYTE)
            return complain(job, "wrote before a buffer", before - i);
    for (size_t i = 0; i < GUARD; i++)
        if (memory[before + bytes + i] != GUARD_BYTE)
            return complain(job, "wrote behind a buffer", i);
    return true;
}

static bool compare(const struct job *job, const unsigned char *got, const unsigned char *want, size_t bytes,
                    const char *what)
{
    bool rounds = op_of(job) == TUTTI_AVG;
    if (!bytes || !memcmp(got, want, bytes))
        return true;
    for (size_t i = 0; i < bytes; i += size_of(job))
        if (!data_same(got + i, want + i, job->type, rounds))
            return complain(job, what, i);
    return true;
}

static bool check_recv(const struct job *job)
{
    bool joint = truly_in_place(job);
    int which = !joint;
    size_t bytes = job->bytes[which];
    const unsigned char *start = job->mirror[which] + GUARD + (joint ? job->send_skew : job->recv_skew);
    size_t recv_at = (size_t)(seen(job, job->recv) - start);
    unsigned char *want = memory_of(bytes + 1);
    memset(want, BLANK_BYTE, bytes);
    if (joint)
        fill_send(job, want + (seen(job, job->send) - start));
    /* what an in-place reduce_scatter leaves in the other blocks is not said */
    if (joint && (job->kind == JOB_REDUCE_SCATTER || job->kind == JOB_REDUCE_SCATTERV))
        memcpy(want, start, bytes);
    expect(job, want + recv_at);
    bool right = compare(job, start, want, bytes, "wrong result");
    free(want);
    return right;
}

static bool check_send(const struct job *job)
{
    unsigned char *want = memory_of(job->bytes[0] + 1);
    memset(want, BLANK_BYTE, job->bytes[0]);
    fill_send(job, want);
    bool right = !memcmp(seen(job, job->send), want, job->bytes[0]) || complain(job, "changed its input", 0);
    free(want);
    return right;
}

bool job_check(const struct job *job)
{
    bool joint = truly_in_place(job);
    copy_jobs(job, true);
    bool right = check_recv(job) && check_guards(job, job->mirror[0], job->bytes[0], job->send_skew);
    if (right && !joint)
        right = check_send(job) && check_guards(job, job->mirror[1], job->bytes[1], job->recv_skew);
    return right;
}

static uint64_t digest_of(uint64_t digest, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

uint64_t job_result_digest(const struct job *job)
{
    copy_jobs(job, true);
    return digest_of(0, seen(job, job->recv), job->bytes[job->memory[1] != NULL]);
}

uint64_t job_digest(const struct job *job)
{
    copy_jobs(job, true);
    uint64_t digest = digest_of(0, job->mirror[0] + GUARD + job->send_skew, job->bytes[0]);
    return job->memory[1] ? digest_of(digest, job->mirror[1] + GUARD + job->recv_skew, job->bytes[1]) : digest;
}

void job_free(struct job *job)
{
    if (job->made)
        tutti_op_destroy(job->handle, job->comm);
    for (int i = 0; i < 2 && job->memory[i]; i++) {
        if (job->mirror[i] != job->memory[i])
            free(job->mirror[i]);
        free_buffer(job->memory[i]);
        job->memory[i] = job->mirror[i] = NULL;
    }
}
