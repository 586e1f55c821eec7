/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of ncclConfig_t that shape the work on GPUs, seen in what a captured reduction would launch. Needs the
 * stand-in driver. */
#include "nccl/nccl_testing.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 2, COUNT = 12000, ANY = NCCL_CONFIG_UNDEF_INT };

/* The driver's parameters of a kernel in a graph, as far as they are looked at. */
struct kernel_node {
    void *function;
    unsigned grid[3], block[3], shared;
    void *rest[4];
};

static struct {
    int (*Init)(unsigned);
    int (*DevicePrimaryCtxRetain)(void **, int);
    int (*CtxSetCurrent)(void *);
    int (*StreamCreate)(void **, unsigned);
    int (*StreamDestroy_v2)(void *);
    int (*StreamBeginCapture_v2)(void *, int);
    int (*StreamEndCapture)(void *, void **);
    int (*GraphGetNodes)(void *, void **, size_t *);
    int (*GraphKernelNodeGetParams_v2)(void *, struct kernel_node *);
    int (*GraphDestroy)(void *);
} cu;

static void *context[GPUS], *stream[GPUS];
static float *memory[GPUS];

#define done(call) assert_int_equal((call), 0)
#define LOAD(name) (*(void **)&cu.name = dlsym(driver, "cu" #name))

static int load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver && LOAD(Init) && LOAD(DevicePrimaryCtxRetain) && LOAD(CtxSetCurrent) && LOAD(StreamCreate) &&
                   LOAD(StreamDestroy_v2) && LOAD(StreamBeginCapture_v2) && LOAD(StreamEndCapture) &&
                   LOAD(GraphGetNodes) && LOAD(GraphKernelNodeGetParams_v2) && LOAD(GraphDestroy) && !cu.Init(0)
               ? 0
               : -1;
}

static int setup(void **state)
{
    for (int i = 0; i < GPUS; i++) {
        done(cu.DevicePrimaryCtxRetain(&context[i], i));
        done(cu.CtxSetCurrent(context[i]));
        done(cu.StreamCreate(&stream[i], 1));
        good(ncclMemAlloc((void **)&memory[i], COUNT * sizeof(float)));
    }
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < GPUS; i++) {
        done(cu.CtxSetCurrent(context[i]));
        good(ncclMemFree(memory[i]));
        done(cu.StreamDestroy_v2(stream[i]));
    }
    return 0;
}

static ncclResult_t make(ncclComm_t *comms, const int *most_ctas, const int *policies)
{
    ncclUniqueId id;
    good(ncclGetUniqueId(&id));
    good(ncclGroupStart());
    for (int i = 0; i < GPUS; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.maxCTAs = most_ctas[i];
        config.CTAPolicy = policies[i];
        done(cu.CtxSetCurrent(context[i]));
        good(ncclCommInitRankConfig(&comms[i], GPUS, id, i, &config));
    }
    return ncclGroupEnd();
}

static ncclResult_t make_alike(ncclComm_t *comms, int most_ctas, int policy)
{
    return make(comms, (int[]){most_ctas, most_ctas}, (int[]){policy, policy});
}

static void end(ncclComm_t *comms)
{
    for (int i = 0; i < GPUS; i++)
        good(ncclCommDestroy(comms[i]));
}

/* Of the only kernel; beside it there are events. */
static unsigned blocks_in(void *graph)
{
    struct kernel_node params;
    void *nodes[8];
    size_t count = sizeof nodes / sizeof *nodes;
    unsigned blocks = 0;
    done(cu.GraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        if (cu.GraphKernelNodeGetParams_v2(nodes[i], &params))
            continue;
        assert_int_equal(blocks, 0);
        blocks = params.grid[0] * params.grid[1];
    }
    done(cu.GraphDestroy(graph));
    return blocks;
}

static unsigned blocks_of_call(ncclComm_t *comms, bool broadcast)
{
    unsigned blocks[GPUS];
    void *graph;
    for (int i = 0; i < GPUS; i++)
        done(cu.StreamBeginCapture_v2(stream[i], 2));
    good(ncclGroupStart());
    for (int i = 0; i < GPUS; i++)
        good(broadcast ? ncclBroadcast(memory[i], memory[i], COUNT, ncclFloat, 1, comms[i], stream[i])
                       : ncclAllReduce(memory[i], memory[i], COUNT, ncclFloat, ncclSum, comms[i], stream[i]));
    good(ncclGroupEnd());
    for (int i = 0; i < GPUS; i++) {
        done(cu.CtxSetCurrent(context[i]));
        done(cu.StreamEndCapture(stream[i], &graph));
        blocks[i] = blocks_in(graph);
    }
    assert_int_equal(blocks[0], blocks[1]);
    return blocks[0];
}

/* Of the kernel that an allreduce takes. */
static unsigned blocks_of(ncclComm_t *comms)
{
    return blocks_of_call(comms, false);
}

static void split(ncclComm_t *comms, ncclComm_t *children, int most_ctas)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = most_ctas;
    good(ncclGroupStart());
    for (int i = 0; i < GPUS; i++)
        good(ncclCommSplit(comms[i], 0, i, &children[i], most_ctas == ANY ? NULL : &config));
    good(ncclGroupEnd());
}

static void test_most_blocks(void **state)
{
    ncclComm_t comms[GPUS], children[GPUS];
    good(make_alike(comms, ANY, ANY));
    unsigned usual = blocks_of(comms);
    assert_true(usual > 3);
    split(comms, children, 2);
    assert_int_equal(blocks_of(children), 2);
    end(children);
    end(comms);
    good(make_alike(comms, 3, ANY));
    assert_int_equal(blocks_of(comms), 3);
    assert_int_equal(blocks_of_call(comms, true), 3);
    split(comms, children, ANY); /* as its parent */
    assert_int_equal(blocks_of(children), 3);
    end(children);
    end(comms);
    good(make_alike(comms, 1000, ANY)); /* more than there can be */
    assert_int_equal(blocks_of(comms), usual);
    end(comms);
}

static void test_environment_comes_first(void **state)
{
    ncclComm_t comms[GPUS];
    setenv("NCCL_MAX_CTAS", "", 1); /* holds nothing */
    setenv("NCCL_CTA_POLICY", "1", 1);
    good(make(comms, (int[]){3, 3}, (int[]){NCCL_CTA_POLICY_ZERO, ANY})); /* what is not looked at need not agree */
    assert_int_equal(blocks_of(comms), 3);
    end(comms);
    setenv("NCCL_MAX_CTAS", "0", 1);
    good(make(comms, (int[]){3, 2}, (int[]){ANY, ANY}));
    assert_true(blocks_of(comms) > 3);
    end(comms);
    setenv("NCCL_MAX_CTAS", "", 1);
    setenv("NCCL_MIN_CTAS", "20", 1);
    good(make_alike(comms, ANY, ANY));
    assert_int_equal(blocks_of_call(comms, true), 8); /* there is work for 6, and they come in fours */
    end(comms);
    unsetenv("NCCL_MIN_CTAS");
    unsetenv("NCCL_MAX_CTAS");
    unsetenv("NCCL_CTA_POLICY");
}

/* A rank finds it out, or is told by one that did. */
static bool is_refusal(ncclResult_t result)
{
    return result == ncclInvalidUsage || result == ncclRemoteError;
}

/* Kernels of different grids would wait for one another for ever. */
static void test_ranks_must_agree(void **state)
{
    ncclComm_t comms[GPUS];
    assert_true(is_refusal(make(comms, (int[]){3, 2}, (int[]){ANY, ANY})));
    said("rank 0 has blocks 3");
    assert_true(is_refusal(make(comms, (int[]){ANY, ANY}, (int[]){ANY, NCCL_CTA_POLICY_ZERO})));
    said("rank 1 has 0 and 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_most_blocks),
                                       cmocka_unit_test(test_environment_comes_first),
                                       cmocka_unit_test(test_ranks_must_agree)};
    if (load()) {
        print_message("no libcuda.so.1 that knows all of these calls\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
