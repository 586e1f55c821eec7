/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/device_testing.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct driver cu;
struct gpu rank[MOST];
int n;

#define LOAD(name) (*(void **)&cu.name = dlsym(driver, "cu" #name))

void select_device(int which)
{
    done(cu.CtxSetCurrent(rank[which].context));
}

/* Managed memory, if asked for: no other GPU reaches it by its address alone. */
static void allocate(float **out, bool managed)
{
    if (managed && getenv("TUTTI_TEST_MANAGED"))
        done(cu.MemAllocManaged((void **)out, MOST * COUNT * sizeof(float), 1));
    else
        good(ncclMemAlloc((void **)out, MOST * COUNT * sizeof(float)));
}

static void release(float *memory, bool managed)
{
    if (managed && getenv("TUTTI_TEST_MANAGED"))
        done(cu.MemFree_v2(memory));
    else
        good(ncclMemFree(memory));
}

int load_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver && LOAD(Init) && LOAD(DeviceGetCount) && LOAD(DeviceGet) && LOAD(DevicePrimaryCtxRetain) &&
                   LOAD(CtxSetCurrent) && LOAD(StreamCreate) && LOAD(StreamSynchronize) && LOAD(StreamDestroy_v2) &&
                   LOAD(StreamWaitValue32_v2) && LOAD(StreamQuery) && LOAD(MemHostAlloc) && LOAD(MemFreeHost) &&
                   LOAD(MemcpyHtoD_v2) && LOAD(MemcpyDtoH_v2) && LOAD(MemAllocManaged) && LOAD(MemFree_v2) &&
                   LOAD(StreamBeginCapture_v2) && LOAD(StreamEndCapture) && LOAD(GraphInstantiateWithFlags) &&
                   LOAD(GraphLaunch) && LOAD(GraphExecDestroy) && LOAD(GraphDestroy) && !cu.Init(0) &&
                   !cu.DeviceGetCount(&n)
               ? 0
               : -1;
}

/* As nccl-tests: all inits in one group, each with its device current, then memory and registration in another. */
void make_comms(void)
{
    ncclUniqueId id;
    good(ncclGetUniqueId(&id));
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.nvlinkCentricSched = 1;
        select_device(i);
        good(ncclCommInitRankConfig(&rank[i].comm, n, id, i, &config));
    }
    good(ncclGroupEnd());
}

int setup(void **state)
{
    n = n < MOST ? n : MOST;
    for (int i = 0; i < n; i++) {
        int device;
        done(cu.DeviceGet(&device, i));
        done(cu.DevicePrimaryCtxRetain(&rank[i].context, device));
        select_device(i);
        done(cu.StreamCreate(&rank[i].stream, 1));
    }
    make_comms();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        select_device(i);
        allocate(&rank[i].send, i == 0);
        allocate(&rank[i].recv, i == 1);
    }
    good(ncclGroupEnd());
    return 0;
}

int teardown(void **state)
{
    for (int i = 0; i < n; i++) {
        select_device(i);
        release(rank[i].send, i == 0);
        release(rank[i].recv, i == 1);
        good(ncclCommDestroy(rank[i].comm));
        done(cu.StreamDestroy_v2(rank[i].stream));
    }
    return 0;
}

float value_of(int who, int i)
{
    return (float)(100 * who + i % 50);
}

void fill(void)
{
    static float values[MOST * COUNT];
    for (int who = 0; who < n; who++) {
        for (int i = 0; i < MOST * COUNT; i++)
            values[i] = value_of(who, i);
        select_device(who);
        done(cu.MemcpyHtoD_v2(rank[who].send, values, sizeof values));
        memset(values, 0xff, sizeof values);
        done(cu.MemcpyHtoD_v2(rank[who].recv, values, sizeof values));
    }
}

const float *result_of(int who, size_t count)
{
    static float values[MOST * COUNT];
    select_device(who);
    done(cu.StreamSynchronize(rank[who].stream));
    done(cu.MemcpyDtoH_v2(values, rank[who].recv, count * sizeof *values));
    return values;
}

void check_sum(float factor)
{
    for (int who = 0; who < n; who++) {
        const float *values = result_of(who, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(values[i], factor * (float)(100 * (n * (n - 1) / 2) + n * (i % 50)), 0);
    }
}

void set_long(float **data, int who)
{
    static float values[LONG];
    for (int i = 0; i < LONG; i++)
        values[i] = value_of(who, i);
    select_device(who);
    done(cu.MemcpyHtoD_v2(data[who], values, sizeof values));
}
