/* SPDX-License-Identifier: Apache-2.0 */
/* The library as MPItrampoline loads it: names by dlsym, constants from variables, handles of 8 bytes.
 * trampoline LIBRARY [lost], as one rank of a job. */
#include <complex.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uintptr_t handle_t;
struct status {
    int64_t own[3];
    int source, tag, error;
};

static void *library;
static int rank, size;

static void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return found;
}

#define CONSTANT(type, name) (*(const type *)find("MPIABI_" #name))
#define CALL(name, ...)      ((int (*)())find("MPIABI_" #name))(__VA_ARGS__)
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define DOES(name, ...) CHECK(CALL(name, __VA_ARGS__) == 0)

static handle_t everybody, ints, bytes, floats, sum;

static void take_constants(void)
{
    everybody = CONSTANT(handle_t, COMM_WORLD);
    ints = CONSTANT(handle_t, INT);
    bytes = CONSTANT(handle_t, BYTE);
    floats = CONSTANT(handle_t, FLOAT);
    sum = CONSTANT(handle_t, SUM);
    CHECK(*(const int *)find("mpiabi_version_major") == 2);
    ((void (*)(void))find("mpiwrapper_export_fortran_constants_"))();
    CHECK(CONSTANT(int, ANY_SOURCE) < 0 && CONSTANT(void *, IN_PLACE) == (void *)-1);
}

/* Tags out of order, wildcards, a message that is too long, none at all, oneself. */
static void messages(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, any = CONSTANT(int, ANY_SOURCE);
    int out[2] = {10 + rank, 20 + rank}, in[3] = {0};
    handle_t requests[3];
    struct status s;
    DOES(Isend, &out[0], 1, ints, right, 1, everybody, &requests[0]);
    DOES(Isend, &out[1], 1, ints, right, 2, everybody, &requests[1]);
    DOES(Recv, &in[1], 1, ints, left, 2, everybody, &s);
    CHECK(in[1] == 20 + left && s.source == left && s.tag == 2);
    DOES(Probe, any, CONSTANT(int, ANY_TAG), everybody, &s);
    CHECK(s.source == left && s.tag == 1);
    DOES(Irecv, in, 3, ints, any, CONSTANT(int, ANY_TAG), everybody, &requests[2]);
    struct status all[3];
    DOES(Waitall, 3, requests, all);
    int count = 0;
    DOES(Get_count, &all[2], ints, &count);
    CHECK(in[0] == 10 + left && count == 1 && requests[2] == CONSTANT(handle_t, REQUEST_NULL));
    DOES(Sendrecv, out, 1, ints, rank, 3, in, 1, ints, rank, 3, everybody, CONSTANT(void *, STATUS_IGNORE));
    CHECK(in[0] == out[0]);
    DOES(Send, out, 1, ints, CONSTANT(int, PROC_NULL), 3, everybody);
    int flag = 1;
    DOES(Iprobe, any, 99, everybody, &flag, &s);
    CHECK(!flag);
    DOES(Barrier, everybody);
    for (int i = 0; i < 3; i++)
        DOES(Bsend, &i, 1, ints, right, 10, everybody);
    for (int i = 0; i < 3; i++) {
        DOES(Recv, in, 1, ints, left, 10, everybody, CONSTANT(void *, STATUS_IGNORE));
        CHECK(in[0] == i);
    }
    DOES(Isend, out, 2, ints, right, 4, everybody, &requests[0]);
    CHECK(CALL(Recv, in, 1, ints, left, 4, everybody, &s) == CONSTANT(int, ERR_TRUNCATE));
    DOES(Wait, &requests[0], &s);
    CHECK(in[0] == 10 + left);
    CHECK(CALL(Send, out, 1, ints, size, 0, everybody) == CONSTANT(int, ERR_RANK));
    CHECK(CALL(Send, out, 1, ints, right, -5, everybody) == CONSTANT(int, ERR_TAG));
}

/* Long messages are not buffered, and do not keep later ones waiting; a barrier lets them go on. */
static void long_messages(void)
{
    enum { LONG = 1 << 20 };
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    char *out = malloc(LONG), *in = malloc(LONG), small = (char)rank, got = -1;
    handle_t request, synchronous;
    memset(out, rank + 1, LONG);
    DOES(Isend, out, LONG, bytes, right, 7, everybody, &request);
    DOES(Issend, &small, 1, bytes, right, 9, everybody, &synchronous);
    DOES(Send, &small, 1, bytes, right, 8, everybody);
    DOES(Recv, &got, 1, bytes, left, 8, everybody, CONSTANT(void *, STATUS_IGNORE));
    CHECK(got == left);
    int flag = -1;
    DOES(Test, &synchronous, &flag, CONSTANT(void *, STATUS_IGNORE));
    DOES(Barrier, everybody); /* nobody has received the others yet */
    CHECK(!flag);
    DOES(Recv, in, LONG, bytes, left, 7, everybody, CONSTANT(void *, STATUS_IGNORE));
    for (int i = 0; i < LONG; i += 4095)
        CHECK(in[i] == left + 1);
    DOES(Recv, &got, 1, bytes, left, 9, everybody, CONSTANT(void *, STATUS_IGNORE));
    DOES(Barrier, everybody);
    DOES(Wait, &request, CONSTANT(void *, STATUS_IGNORE));
    DOES(Wait, &synchronous, CONSTANT(void *, STATUS_IGNORE));
    free(out);
    free(in);
}

/* Types and operators that the library has, and those that are folded on the host. */
static void reductions(void)
{
    float f[3] = {(float)rank, 1, 2}, g[3] = {0};
    DOES(Allreduce, f, g, 3, floats, sum, everybody);
    CHECK(g[0] == (float)(size * (size - 1) / 2) && g[1] == (float)size);
    int16_t h = (int16_t)(rank + 1), most = 0;
    DOES(Allreduce, &h, &most, 1, CONSTANT(handle_t, INT16_T), CONSTANT(handle_t, MAX), everybody);
    CHECK(most == size);
    float complex z = 1 + rank * I, total = 0;
    DOES(Reduce, &z, &total, 1, CONSTANT(handle_t, C_COMPLEX), sum, 0, everybody);
    CHECK(rank || (crealf(total) == (float)size && cimagf(total) == (float)(size * (size - 1) / 2)));
    struct {
        double value;
        int place;
    } mine = {rank % 2, rank}, best;
    DOES(Allreduce, &mine, &best, 1, CONSTANT(handle_t, DOUBLE_INT), CONSTANT(handle_t, MAXLOC), everybody);
    CHECK(best.place == (size > 1));
    int *many = malloc(size * sizeof(int)), counts[64], one = -1;
    for (int r = 0; r < size; r++) {
        many[r] = r + rank;
        counts[r] = 1;
    }
    DOES(Reduce_scatter, many, &one, counts, ints, sum, everybody);
    CHECK(one == size * rank + size * (size - 1) / 2);
    DOES(Scan, &rank, &one, 1, ints, sum, everybody);
    CHECK(one == rank * (rank + 1) / 2);
    DOES(Allreduce, CONSTANT(void *, IN_PLACE), many, size, ints, CONSTANT(handle_t, BXOR), everybody);
    CHECK(CALL(Allreduce, f, g, 3, floats, CONSTANT(handle_t, BAND), everybody) == CONSTANT(int, ERR_OP));
    free(many);
}

static void movements(void)
{
    int *all = malloc(2 * size * sizeof(int)), *out = malloc(size * sizeof(int)), counts[64], places[64];
    DOES(Allgather, &rank, 1, ints, all, 1, ints, everybody);
    for (int r = 0; r < size; r++) {
        CHECK(all[r] == r);
        out[r] = 100 * rank + r;
        counts[r] = 1;
        places[r] = 2 * r;
    }
    DOES(Alltoall, out, 1, ints, all, 1, ints, everybody);
    CHECK(all[size - 1] == 100 * (size - 1) + rank);
    memset(all, 0, 2 * size * sizeof(int));
    DOES(Gatherv, &rank, 1, ints, all, counts, places, ints, 0, everybody);
    CHECK(rank || all[2 * (size - 1)] == size - 1);
    int value = rank == size - 1 ? 42 : 0;
    DOES(Bcast, &value, 1, ints, size - 1, everybody);
    CHECK(value == 42);
    free(all);
    free(out);
}

static void communicators(void)
{
    handle_t half, twin, nothing;
    int r = -1, n = -1;
    DOES(Comm_split, everybody, rank % 2, -rank, &half);
    DOES(Comm_rank, half, &r);
    DOES(Comm_size, half, &n);
    CHECK(n == (size + 1 - rank % 2) / 2 && r == n - 1 - rank / 2);
    int value = rank, peer = 0;
    DOES(Comm_dup, everybody, &twin);
    /* The same pair, the same tag, another communicator. */
    handle_t requests[2];
    if (size > 1 && rank < 2) {
        int to = 1 - rank, in[2] = {-1, -1}, out[2] = {1, 2};
        DOES(Isend, &out[0], 1, ints, to, 5, everybody, &requests[0]);
        DOES(Isend, &out[1], 1, ints, to, 5, twin, &requests[1]);
        DOES(Recv, &in[1], 1, ints, to, 5, twin, CONSTANT(void *, STATUS_IGNORE));
        DOES(Recv, &in[0], 1, ints, to, 5, everybody, CONSTANT(void *, STATUS_IGNORE));
        CHECK(in[0] == 1 && in[1] == 2);
        DOES(Waitall, 2, requests, CONSTANT(void *, STATUSES_IGNORE));
    }
    DOES(Sendrecv, &value, 1, ints, n - 1 - r, 6, &peer, 1, ints, n - 1 - r, 6, half, CONSTANT(void *, STATUS_IGNORE));
    DOES(Comm_split, everybody, CONSTANT(int, UNDEFINED), 0, &nothing);
    CHECK(nothing == CONSTANT(handle_t, COMM_NULL));
    DOES(Comm_free, &half);
    DOES(Comm_free, &twin);
    CHECK(half == CONSTANT(handle_t, COMM_NULL));
}

/* What is not built says so; what is wrong is an error of a class. */
static void refusals(void)
{
    handle_t made = 0;
    char text[8192];
    int length = 0, refused = CALL(Win_create, NULL, 0, 1, CONSTANT(handle_t, INFO_NULL), everybody, &made);
    CHECK(refused == CONSTANT(int, ERR_UNSUPPORTED_OPERATION));
    DOES(Error_string, refused, text, &length);
    CHECK(strstr(text, "MPI_Win_create is not built"));
    CHECK(CALL(Comm_rank, CONSTANT(handle_t, COMM_NULL), &length) == CONSTANT(int, ERR_COMM));
    CHECK(CALL(Comm_rank, (handle_t)12345, &length) == CONSTANT(int, ERR_COMM));
    CHECK(CALL(Bcast, text, 1, bytes, size, everybody) == CONSTANT(int, ERR_ROOT));
    CHECK(CALL(Bcast, text, 1, (handle_t)77, 0, everybody) != 0);
    CHECK(CALL(Init, NULL, NULL) != 0);
}

/* The last rank goes without a word: a rank that waits for it gets an error that names it. */
static void lose(void)
{
    int value = 0, length, last = size - 1;
    char text[8192];
    DOES(Barrier, everybody);
    if (rank == last)
        _exit(0);
    int code = CALL(Recv, &value, 1, ints, last, 0, everybody, CONSTANT(void *, STATUS_IGNORE));
    CHECK(code == CONSTANT(int, ERR_OTHER));
    DOES(Error_string, code, text, &length);
    CHECK(strstr(text, "lost"));
    CHECK(CALL(Probe, CONSTANT(int, ANY_SOURCE), 0, everybody, CONSTANT(void *, STATUS_IGNORE)) != 0);
    CHECK(CALL(Send, &value, 1, ints, last, 0, everybody) != 0);
    CHECK(CALL(Barrier, everybody) != 0);
    _exit(0);
}

int main(int argc, char **argv)
{
    library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int flag = 1, provided = 0;
    take_constants();
    DOES(Initialized, &flag);
    CHECK(!flag && CALL(Barrier, everybody) != 0);
    DOES(Init_thread, &argc, &argv, 1, &provided);
    DOES(Comm_rank, everybody, &rank);
    DOES(Comm_size, everybody, &size);
    if (argc > 2)
        lose();
    for (int times = 0; times < 3; times++) {
        messages();
        long_messages();
        reductions();
        movements();
        communicators();
        refusals();
    }
    DOES(Barrier, everybody);
    DOES(Finalize);
    CHECK(CALL(Barrier, everybody) != 0);
    if (rank == 0)
        printf("%d ranks: right\n", size);
    return 0;
}
