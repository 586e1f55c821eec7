/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions whose contributions are read where they lie: all types and operations, in place, at odd places and of odd
 * lengths, in buffers that peers have mapped by then. On the stand-in driver.
 * gpu_read: ends with an error unless nearly all were read. gpu_read pushed: in memory that peers cannot map none is.
 * gpu_read fresh: peers map buffers while kernels look whether they have. gpu_read ring: contributions go from rank to
 * rank, but those of narrow elements, and those of rooted reductions, too.
 */
#include "data.h"
#include "gpu_piece.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST  30000 /* elements of a rank's block */
#define ROOM  ((MOST + 16) * 8)
#define RANKS 8
#define PIECE ((size_t)4 << 20)
#define FRESH 60
#define NAPS  4 /* rounds: the first ones have peers map the input */
#define WIDE  4 /* bytes of elements from which on they go round */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static unsigned char *in, *out, *here;

struct reduction {
    tutti_type_t type;
    int op;
    bool scatter, in_place;
    size_t count, shift; /* elements of a vector, or of a block of it; in front of it */
    uint64_t seed;
    bool rooted;
    int root;
};

static void copy(void *to, const void *from, size_t bytes)
{
    DONE(cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, NULL));
    DONE(cu->StreamSynchronize(NULL));
}

/* How many elements a rank gives. */
static size_t given(const struct reduction *what)
{
    return what->count * (what->scatter ? (size_t)nranks : 1);
}

static void put(const struct reduction *what, unsigned char *to)
{
    struct data_table table;
    size_t size = data_size(what->type);
    data_input(&table, what->type, what->op, rank, what->seed);
    data_fill(here, &table, 0, given(what));
    copy(to + what->shift * size, here, given(what) * size);
}

static void issue(const struct reduction *what, const unsigned char *from, unsigned char *to)
{
    tutti_op_t op = (tutti_op_t)what->op;
    uint64_t scalar = data_scalar(what->type, rank);
    if (what->op == DATA_PREMUL)
        OK(tutti_op_create_premul_sum(&op, &scalar, what->type, comm));
    OK(what->rooted    ? tutti_reduce(from, to, what->count, what->type, op, what->root, comm, NULL)
       : what->scatter ? tutti_reduce_scatter(from, to, what->count, what->type, op, comm, NULL)
                       : tutti_allreduce(from, to, what->count, what->type, op, comm, NULL));
    if (what->op == DATA_PREMUL)
        OK(tutti_op_destroy(op, comm));
    OK(tutti_comm_synchronize(comm));
}

static void reduce(const struct reduction *what)
{
    struct data_table table;
    size_t size = data_size(what->type), mine = what->scatter ? what->count * (size_t)rank : 0;
    unsigned char *from = in + what->shift * size, *to = what->in_place ? from + mine * size : out + what->shift * size;
    put(what, in);
    issue(what, from, to);
    if (what->rooted && what->root != rank)
        return;
    copy(here, to, what->count * size);
    data_result(&table, what->type, what->op, nranks, what->seed);
    for (size_t i = 0; i < what->count; i++) {
        const unsigned char *want = table.bytes + (mine + i) % DATA_PERIOD * size;
        if (data_same(here + i * size, want, what->type, what->op == TUTTI_AVG))
            continue;
        fprintf(stderr, "rank %d: %s of %s, %s, %zu elements behind %zu%s: element %zu is wrong\n", rank,
                data_op_name(what->op), data_type_name(what->type),
                what->rooted    ? "to a root"
                : what->scatter ? "scattered"
                                : "of all",
                what->count, what->shift, what->in_place ? ", in place" : "", i);
        exit(1);
    }
}

/* Of the types, with sanitizers every third. */
static int next_type(int type)
{
    return type + (getenv("TUTTI_TEST_QUICK") ? 3 : 1);
}

static void reduce_all(void)
{
    static const size_t counts[] = {1000, 20011, MOST};
    uint64_t seed = 1;
    for (int type = 0; type < TUTTI_TYPE_COUNT; type = next_type(type))
        for (int op = 0; op <= DATA_PREMUL; op++)
            for (int form = 0; form < 4; form++, seed++) {
                struct reduction what = {(tutti_type_t)type,       op,  form & 1, form & 2, counts[seed % 3],
                                         seed % 4 ? 0 : seed % 16, seed};
                reduce(&what);
            }
}

/* Rooted ones, of which some are narrow, too, and broadcasts. */
static void reduce_to_roots(void)
{
    uint64_t seed = 1000;
    for (int type = 0; type < TUTTI_TYPE_COUNT; type = next_type(type))
        for (int op = 0; op <= DATA_PREMUL; op++, seed++) {
            struct reduction what = {.type = (tutti_type_t)type,
                                     .op = op,
                                     .rooted = true,
                                     .root = (int)(seed % (uint64_t)nranks),
                                     .in_place = seed % 2,
                                     .count = MOST - seed % 7,
                                     .shift = seed % 4 ? 0 : seed % 16,
                                     .seed = seed};
            reduce(&what);
        }
}

static void broadcast(void)
{
    for (int root = 0; root < nranks; root++)
        for (size_t shift = 0; shift < 24; shift += 5) {
            const size_t bytes = ROOM - 100 - 3 * shift;
            for (size_t i = 0; i < bytes; i++)
                here[i] = (unsigned char)(i * 7 + (size_t)root * 31 + shift);
            if (rank == root)
                copy(in + shift, here, bytes);
            OK(tutti_broadcast(in + shift, shift % 2 ? in + shift : out + 2 * shift, bytes, TUTTI_UINT8, root, comm,
                               NULL));
            OK(tutti_comm_synchronize(comm));
            unsigned char *found = here + bytes;
            copy(found, shift % 2 ? in + shift : out + 2 * shift, bytes);
            require(memcmp(found, here, bytes) == 0, "a broadcast");
        }
}

/* A sum that is no number has the bits of the type's own, beside a neighbour that is one. */
static void reduce_nothing(tutti_type_t type, uint16_t none, uint16_t wanted)
{
    struct reduction what = {type, TUTTI_SUM, true, false, MOST, 0, 1};
    uint16_t *words = (uint16_t *)(void *)here;
    put(&what, in);
    for (size_t i = 0; i < given(&what); i++)
        words[i] = i % 3 ? 0 : none;
    copy(in, here, given(&what) * 2);
    issue(&what, in, out);
    copy(here, out, MOST * 2);
    for (size_t i = 0; i < MOST; i++)
        require(words[i] == ((i + MOST * (size_t)rank) % 3 ? 0 : wanted), "what is no number");
}

static unsigned counted(const char *format)
{
    unsigned read = 0, pushed = 0;
    char line[400] = "";
    const char *at = logged(" large reductions where they were", line, sizeof line) ? strstr(line, " read ") : NULL;
    require(at && sscanf(at, " read %u large reductions where they were, and had %u pushed", &read, &pushed) == 2,
            "the log counts");
    return strcmp(format, "read") == 0 ? read : pushed;
}

static void make_memory(bool apart, void **at)
{
    CUdeviceptr base = 0;
    if (!apart) {
        OK(tutti_device_mem_alloc(at, (size_t)nranks * ROOM));
        return;
    }
    DONE(cu->MemAddressReserve(&base, PIECE, 0, 0, 0));
    map_piece(cu, rank, base, PIECE, false);
    *at = (void *)(uintptr_t)base;
}

static void reduce_in_fresh_memory(void)
{
    for (uint64_t round = 0; round < (getenv("TUTTI_TEST_QUICK") ? FRESH / 3 : FRESH); round++) {
        void *found = NULL, *old = in;
        make_memory(false, &found);
        in = found;
        for (uint64_t i = 0; i < 4; i++) {
            struct reduction what = {TUTTI_INT32, TUTTI_SUM, true, false, MOST, 0, 4 * round + i};
            reduce(&what);
        }
        OK(tutti_device_mem_free(old));
    }
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    void *found[2] = {NULL, NULL};
    bool pushed = argc > 1 && strcmp(argv[1], "pushed") == 0, fresh = argc > 1 && strcmp(argv[1], "fresh") == 0,
         ring = argc > 1 && strncmp(argv[1], "ring", 4) == 0;
    if (!local_rank)
        return 2;
    log_open("info");
    OK(cuda_driver(&cu));
    DONE(cu->Init(0));
    gpu_select(atoi(local_rank));
    gpu_join(&comm, &rank, &nranks);
    require(nranks <= RANKS, "not so many ranks");
    for (int i = 0; i < 2; i++)
        make_memory(pushed, &found[i]);
    in = found[0];
    out = found[1];
    here = malloc((size_t)nranks * ROOM);
    require(here != NULL, "memory");
    for (int i = 0; i < NAPS; i++) {
        struct reduction what = {TUTTI_INT8, TUTTI_SUM, i % 2, false, 5000, 0, 7}; /* which never go round */
        reduce(&what);
        if (!pushed)
            await_mapped(nranks - 1);
    }
    if (fresh)
        reduce_in_fresh_memory();
    else
        reduce_all();
    if (ring) {
        reduce_to_roots();
        broadcast();
    }
    reduce_nothing(TUTTI_BFLOAT16, 0xffff, 0x7fc0);
    reduce_nothing(TUTTI_FLOAT16, 0xffff, 0x7e00);
    OK(tutti_comm_destroy(comm));
    unsigned read = counted("read"), others = counted("pushed"),
             narrow = NAPS + 2; /* the first ones, and that which is no number */
    for (int type = 0; type < TUTTI_TYPE_COUNT; type = next_type(type))
        narrow += data_size((tutti_type_t)type) < WIDE ? 4 * (DATA_PREMUL + 1) : 0;
    require(fresh    ? read && others
            : pushed ? !read && others
            : ring   ? narrow && read <= narrow && read > narrow / 2
                     : read > 10 * others,
            "contributions are read where they can be, and nowhere else");
    free(here);
    return 0;
}
