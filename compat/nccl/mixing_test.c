/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs and calls of one communicator at once, on several streams: GPUs carry them out in the order in which the host
 * issues them, though one GPU's stream comes to the first much later. All are equally long, so that otherwise one would
 * be taken for another.
 */
#include "nccl/device_testing.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLOATS = 500, WAYS = 2 };

static struct {
    int (*EventCreate)(void **, unsigned);
    int (*EventRecord)(void *, void *);
    int (*StreamWaitEvent)(void *, void *, unsigned);
    int (*EventDestroy_v2)(void *);
} more;

static void *other[MOST], *event[MOST];
static float *data[MOST][WAYS];
static uint32_t *word, expected;

#define LOAD(name) (*(void **)&more.name = dlsym(driver, "cu" #name))

static int load_more(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return load_driver() || !LOAD(EventCreate) || !LOAD(EventRecord) || !LOAD(StreamWaitEvent) ||
           !LOAD(EventDestroy_v2);
}

static int prepare(void **state)
{
    setup(state);
    done(cu.MemHostAlloc((void **)&word, 64, 3));
    *word = 0;
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamCreate(&other[i], 1));
        done(more.EventCreate(&event[i], 2));
        for (int k = 0; k < WAYS; k++)
            good(ncclMemAlloc((void **)&data[i][k], FLOATS * sizeof(float)));
    }
    return 0;
}

static int clear(void **state)
{
    for (int i = 0; i < n; i++) {
        select_device(i);
        for (int k = 0; k < WAYS; k++)
            good(ncclMemFree(data[i][k]));
        done(more.EventDestroy_v2(event[i]));
        done(cu.StreamDestroy_v2(other[i]));
    }
    done(cu.MemFreeHost(word));
    return teardown(state);
}

static void *stream_of(int who, int way)
{
    return way ? other[who] : rank[who].stream;
}

static void fill_data(void)
{
    static float values[FLOATS];
    for (int who = 0; who < n; who++)
        for (int way = 0; way < WAYS; way++) {
            for (int i = 0; i < FLOATS; i++)
                values[i] = (float)(1000 * way + 10 * who + i % 10);
            select_device(who);
            done(cu.MemcpyHtoD_v2(data[who][way], values, sizeof values));
        }
}

static void check_data(void)
{
    static float values[FLOATS];
    for (int who = 0; who < n; who++)
        for (int way = 0; way < WAYS; way++) {
            select_device(who);
            done(cu.StreamSynchronize(stream_of(who, way)));
            done(cu.MemcpyDtoH_v2(values, data[who][way], sizeof values));
            for (int i = 0; i < FLOATS; i++)
                assert_float_equal(values[i], (float)(n * (1000 * way + i % 10) + 10 * (n * (n - 1) / 2)), 0);
        }
}

static void call(int who, int way)
{
    select_device(who);
    good(
        ncclAllReduce(data[who][way], data[who][way], FLOATS, ncclFloat, ncclSum, rank[who].comm, stream_of(who, way)));
}

static void *instantiate(void *stream)
{
    void *graph, *exec;
    done(cu.StreamEndCapture(stream, &graph));
    done(cu.GraphInstantiateWithFlags(&exec, graph, 0));
    done(cu.GraphDestroy(graph));
    return exec;
}

static void *captured(int who, int way)
{
    select_device(who);
    done(cu.StreamBeginCapture_v2(stream_of(who, way), 2));
    call(who, way);
    return instantiate(stream_of(who, way));
}

static void hold(int who, int way)
{
    select_device(who);
    done(cu.StreamWaitValue32_v2(stream_of(who, way), word, ++expected, 0));
}

static void release(void)
{
    usleep(20000); /* what could overtake does */
    __atomic_store_n(word, expected, __ATOMIC_RELEASE);
}

/* In both ways a graph, or a call where exec is NULL; the first is held up on GPU 0. */
static void in_turn(void *exec[MOST][WAYS], int first)
{
    fill_data();
    hold(0, first);
    for (int k = 0; k < WAYS; k++)
        for (int who = 0; who < n; who++) {
            int way = k ? !first : first;
            select_device(who);
            if (exec[who][way])
                done(cu.GraphLaunch(exec[who][way], stream_of(who, way)));
            else
                call(who, way);
        }
    release();
    check_data();
}

/* which: bits of the ways that are graphs */
static void mix(unsigned which)
{
    void *exec[MOST][WAYS] = {{NULL}};
    for (int who = 0; who < n; who++)
        for (int way = 0; way < WAYS; way++)
            if (which >> way & 1)
                exec[who][way] = captured(who, way);
    for (int times = 0; times < 4; times++)
        in_turn(exec, times % 2);
    for (int who = 0; who < n; who++)
        for (int way = 0; way < WAYS; way++)
            if (exec[who][way])
                done(cu.GraphExecDestroy(exec[who][way]));
}

static void test_call_before_first_capture(void **state)
{
    void *exec[MOST];
    fill_data();
    hold(0, 0);
    for (int who = 0; who < n; who++)
        call(who, 0);
    for (int who = 0; who < n; who++)
        exec[who] = captured(who, 1);
    for (int who = 0; who < n; who++)
        done(cu.GraphLaunch(exec[who], stream_of(who, 1)));
    release();
    check_data();
    for (int who = 0; who < n; who++)
        done(cu.GraphExecDestroy(exec[who]));
}

static void test_graph_and_call(void **state)
{
    mix(1);
}

static void test_two_graphs(void **state)
{
    mix(3);
}

/* Two branches of a graph, of which one begins late on one GPU. */
static void test_branches(void **state)
{
    void *exec[MOST];
    for (int who = 0; who < n; who++) {
        select_device(who);
        done(cu.StreamBeginCapture_v2(stream_of(who, 0), 2));
        done(more.EventRecord(event[who], stream_of(who, 0)));
        done(more.StreamWaitEvent(stream_of(who, 1), event[who], 0));
        if (who == 0)
            hold(0, 0);
        call(who, 0);
        call(who, 1);
        done(more.EventRecord(event[who], stream_of(who, 1)));
        done(more.StreamWaitEvent(stream_of(who, 0), event[who], 0));
        exec[who] = instantiate(stream_of(who, 0));
    }
    fill_data();
    for (int who = 0; who < n; who++)
        done(cu.GraphLaunch(exec[who], stream_of(who, 0)));
    release();
    check_data();
    for (int who = 0; who < n; who++)
        done(cu.GraphExecDestroy(exec[who]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_call_before_first_capture),
                                       cmocka_unit_test(test_graph_and_call), cmocka_unit_test(test_two_graphs),
                                       cmocka_unit_test(test_branches)};
    if (load_more()) {
        print_message("no libcuda.so.1 with devices, or one without these calls\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, prepare, clear);
}
