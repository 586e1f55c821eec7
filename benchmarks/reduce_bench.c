/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of host reductions: GB/s of output, and nanoseconds per call, by kernel set, type, operator, sources and size.
 */
#include "cli/cli.h"
#include "cli/options.h"
#include "device/host/kernel.h"

#include "base/clock.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_SOURCES 16

struct bench {
    const char *set;
    int type, op, nsrc; /* -1: the usual ones */
    int64_t bytes;
    char *buffers[MAX_SOURCES + 1];
};

typedef void run_fn(const struct bench *b, const struct reduction *r, const struct kernel_set *set, size_t count);

static void run_fold(const struct bench *b, const struct reduction *r, const struct kernel_set *set, size_t count)
{
    reduction_apply(r, b->buffers[MAX_SOURCES], (const void *const *)b->buffers, b->nsrc, count);
}

static void run_in_place(const struct bench *b, const struct reduction *r, const struct kernel_set *set, size_t count)
{
    reduction_apply(r, b->buffers[0], (const void *const *)b->buffers, b->nsrc, count);
}

static void run_stream(const struct bench *b, const struct reduction *r, const struct kernel_set *set, size_t count)
{
    reduction_apply_stream(r, b->buffers[MAX_SOURCES], (const void *const *)b->buffers, b->nsrc, count);
}

static void run_copy(const struct bench *b, const struct reduction *r, const struct kernel_set *set, size_t count)
{
    memory_copy(b->buffers[MAX_SOURCES], b->buffers[0], count * r->size);
}

static void run_copy_stream(const struct bench *b, const struct reduction *r, const struct kernel_set *set,
                            size_t count)
{
    set->copy_stream(b->buffers[MAX_SOURCES], b->buffers[0], count * r->size);
}

/* Best of five runs of about 20 ms. */
static double nanoseconds(run_fn *run, const struct bench *b, const struct reduction *r, const struct kernel_set *set,
                          size_t count)
{
    double best = 1e18;
    uint64_t start, spent = 0;
    int64_t times = 1;
    for (int round = 0; round < 6; spent = 0) {
        start = clock_ns();
        for (int64_t i = 0; i < times; i++) {
            run(b, r, set, count);
            __asm__ volatile("" ::: "memory");
        }
        spent = clock_ns() - start;
        if (spent < 20000000) {
            times *= spent < 2000000 ? 10 : 2;
            continue;
        }
        if ((double)spent / (double)times < best)
            best = (double)spent / (double)times;
        round++;
    }
    return best;
}

static void measure(struct bench *b, const struct kernel_set *set, tutti_type_t type, tutti_op_t op, int64_t bytes)
{
    static const struct {
        const char *name;
        run_fn *run;
    } forms[] = {{"fold", run_fold},
                 {"in-place", run_in_place},
                 {"stream", run_stream},
                 {"copy", run_copy},
                 {"copy-stream", run_copy_stream}};
    struct reduction r;
    size_t count = (size_t)bytes / type_size(type);
    if (count == 0 || reduction_init_from(set, &r, type, op, b->nsrc, NULL) != TUTTI_SUCCESS)
        return;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        bool copy = f >= 3;
        if (copy && (type != TUTTI_FLOAT32 || op != TUTTI_SUM || b->nsrc != 2))
            continue;
        double ns = nanoseconds(forms[f].run, b, &r, set, count);
        printf("%-7s %-9s %-5s %-11s %2d %11" PRId64 " %12.1f %9.2f\n", set->name, type_name(type), op_name(op),
               forms[f].name, copy ? 1 : b->nsrc, bytes, ns, (double)(count * r.size) / ns);
        fflush(stdout);
    }
}

static void each_size(struct bench *b, const struct kernel_set *set, tutti_type_t type, tutti_op_t op)
{
    static const int64_t sizes[] = {8, 64, 4096, 65536, 262144, 8 << 20, 128 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (b->bytes == 0 || i == 0)
            measure(b, set, type, op, b->bytes ? b->bytes : sizes[i]);
}

static void each_type(struct bench *b, const struct kernel_set *set)
{
    for (int type = 0; type < TUTTI_TYPE_COUNT; type++)
        for (int op = 0; op < KERNEL_OPS; op++)
            if ((b->type == type || (b->type < 0 && type >= TUTTI_FLOAT16)) &&
                (b->op == op || (b->op < 0 && op == TUTTI_SUM)))
                each_size(b, set, (tutti_type_t)type, (tutti_op_t)op);
}

static void each_set(struct bench *b)
{
    printf("%-7s %-9s %-5s %-11s %2s %11s %12s %9s\n", "#set", "type", "op", "form", "n", "bytes", "ns", "GB/s");
    for (int s = 0; kernel_sets[s]; s++)
        if (kernel_set_usable(kernel_sets[s]) && (!b->set || strcmp(b->set, kernel_sets[s]->name) == 0))
            each_type(b, kernel_sets[s]);
}

static int take_type(void *request, const char *text)
{
    tutti_type_t type;
    if (!type_parse(text, &type))
        return OPTION_REFUSED;
    ((struct bench *)request)->type = (int)type;
    return OPTION_TAKEN;
}

static int take_op(void *request, const char *text)
{
    tutti_op_t op;
    if (!op_parse(text, &op) || op == TUTTI_AVG)
        return OPTION_REFUSED;
    ((struct bench *)request)->op = (int)op;
    return OPTION_TAKEN;
}

#define B struct bench
static const struct option_row rows[] = {
    {'s', NULL, "SET", "instructions (default: all that run here)", .choices = "plain avx2 avx512 neon",
     TO_TEXT(B, set)},
    {'t', NULL, "TYPE", "type of the elements (default: those of 2 to 8 bytes)",
     TO_CALL(take_type, "a type such as float32")},
    {'o', NULL, "OP", "operator (default sum)", TO_CALL(take_op, "sum, prod, max or min")},
    {'n', NULL, "SOURCES", "vectors that are reduced (default 2)", TO_INT(B, nsrc, 1, MAX_SOURCES)},
    {'b', NULL, "BYTES", "size of a vector (default: several, to 128M)", TO_SIZE(B, bytes, 1)},
};
#undef B

static const struct options options_of_bench = {
    .command = "reduce_bench",
    .usage = "[OPTION...]",
    .before = "Speed of host reductions. What no option says runs over a list.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .alone = true,
};

int main(int argc, char **argv)
{
    struct bench b = {NULL, -1, -1, 2, 0, {NULL}};
    int status = 1;
    int code = options_parse(&options_of_bench, argc, argv, &b);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("reduce_bench", "takes no arguments, got %s", argv[optind]);
    size_t size = b.bytes ? (size_t)b.bytes : 128 << 20;
    for (int i = 0; i <= MAX_SOURCES; i++) {
        if (i >= b.nsrc && i < MAX_SOURCES)
            continue;
        b.buffers[i] = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
        if (!b.buffers[i]) {
            fprintf(stderr, "reduce_bench: no memory for %zu bytes\n", size);
            goto out;
        }
        memset(b.buffers[i], 0x11, size);
    }
    each_set(&b);
    status = 0;
out:
    for (int i = 0; i <= MAX_SOURCES; i++)
        free(b.buffers[i]);
    return status;
}
