/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that only its own GPU addresses, in a process with several: of pools, as cudaMallocAsync makes it, and mapped
 * pieces to which nobody else was given access. Large messages go by copy engines.
 */
#include "nccl/device_testing.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FLOATS = 5000, PIECE = 2 << 20 };
enum kind { LEGACY, POOLED, MAPPED, KINDS };

static struct {
    int (*MemAllocAsync)(void **, size_t, void *);
    int (*MemFreeAsync)(void *, void *);
    int (*MemAddressReserve)(void **, size_t, size_t, void *, unsigned long long);
    int (*MemAddressFree)(void *, size_t);
    int (*MemCreate)(unsigned long long *, size_t, const void *, unsigned long long);
    int (*MemMap)(void *, size_t, size_t, unsigned long long, unsigned long long);
    int (*MemSetAccess)(void *, size_t, const void *, size_t);
    int (*MemUnmap)(void *, size_t);
    int (*MemRelease)(unsigned long long);
} more;

static float *data[MOST][2];

#define LOAD(name) (*(void **)&more.name = dlsym(driver, "cu" #name))

static int load_more(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return load_driver() || !LOAD(MemAllocAsync) || !LOAD(MemFreeAsync) || !LOAD(MemAddressReserve) ||
           !LOAD(MemAddressFree) || !LOAD(MemCreate) || !LOAD(MemMap) || !LOAD(MemSetAccess) || !LOAD(MemUnmap) ||
           !LOAD(MemRelease);
}

static float *map(int device)
{
    struct {
        int type, handles, location, ordinal;
        void *meta;
        unsigned char flags[8];
    } what = {.type = 1, .location = 1, .ordinal = device};
    struct {
        int location, ordinal, access;
    } who = {1, device, 3};
    unsigned long long handle;
    void *at;
    done(more.MemAddressReserve(&at, PIECE, 0, NULL, 0));
    done(more.MemCreate(&handle, PIECE, &what, 0));
    done(more.MemMap(at, PIECE, 0, handle, 0));
    done(more.MemSetAccess(at, PIECE, &who, 1));
    done(more.MemRelease(handle));
    return at;
}

static float *make(int who, enum kind kind)
{
    void *at = NULL;
    select_device(who);
    if (kind == MAPPED)
        return map(who);
    if (kind == POOLED)
        done(more.MemAllocAsync(&at, MOST * FLOATS * sizeof(float), rank[who].stream));
    else
        good(ncclMemAlloc(&at, MOST * FLOATS * sizeof(float)));
    return at;
}

static void end(int who, float *at, enum kind kind)
{
    select_device(who);
    if (kind == POOLED) {
        done(more.MemFreeAsync(at, rank[who].stream));
        done(cu.StreamSynchronize(rank[who].stream));
    } else if (kind == MAPPED) {
        done(more.MemUnmap(at, PIECE));
        done(more.MemAddressFree(at, PIECE));
    } else {
        good(ncclMemFree(at));
    }
}

static float number(int who, int i)
{
    return (float)(1000 * who + i % 997);
}

static void set(int who)
{
    static float values[MOST * FLOATS];
    for (int i = 0; i < MOST * FLOATS; i++)
        values[i] = number(who, i);
    select_device(who);
    done(cu.MemcpyHtoD_v2(data[who][0], values, sizeof values));
    memset(values, 0xee, sizeof values);
    done(cu.MemcpyHtoD_v2(data[who][1], values, sizeof values));
}

static const float *got(int who)
{
    static float values[MOST * FLOATS];
    select_device(who);
    done(cu.StreamSynchronize(rank[who].stream));
    done(cu.MemcpyDtoH_v2(values, data[who][1], sizeof values));
    return values;
}

/* The first to come is one time the sender, one time the receiver: the order decides which side copies. */
static void ring(bool receive_first)
{
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < n; i++) {
            select_device(i);
            if (receive_first == (half == 0))
                good(ncclRecv(data[i][1], FLOATS, ncclFloat, (i + n - 1) % n, rank[i].comm, rank[i].stream));
            else
                good(ncclSend(data[i][0], FLOATS, ncclFloat, (i + 1) % n, rank[i].comm, rank[i].stream));
        }
}

static void check_ring(bool receive_first)
{
    for (int i = 0; i < n; i++)
        set(i);
    good(ncclGroupStart());
    ring(receive_first);
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++) {
        const float *values = got(who);
        for (int i = 0; i < FLOATS; i++)
            assert_float_equal(values[i], number((who + n - 1) % n, i), 0);
    }
}

static void check_alltoall(void)
{
    for (int i = 0; i < n; i++)
        set(i);
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclAlltoAll(data[i][0], data[i][1], FLOATS, ncclFloat, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++) {
        const float *values = got(who);
        for (int i = 0; i < n * FLOATS; i++)
            assert_float_equal(values[i], number(i / FLOATS, who * FLOATS + i % FLOATS), 0);
    }
}

static void check_allreduce(void)
{
    for (int i = 0; i < n; i++)
        set(i);
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclAllReduce(data[i][0], data[i][1], MOST * FLOATS, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++) {
        const float *values = got(who);
        for (int i = 0; i < MOST * FLOATS; i++)
            assert_float_equal(values[i], (float)(1000 * (n * (n - 1) / 2) + n * (i % 997)), 0);
    }
}

/* What is sent is of one kind, what is received of another; one rank has the usual one. */
static void test_kinds(void **state)
{
    for (int kinds = 1; kinds < KINDS * KINDS; kinds++) {
        for (int i = 0; i < n; i++) {
            data[i][0] = make(i, i == 2 ? LEGACY : (enum kind)(kinds % KINDS));
            data[i][1] = make(i, i == 2 ? LEGACY : (enum kind)(kinds / KINDS));
        }
        check_ring(false);
        check_ring(true);
        check_alltoall();
        check_allreduce();
        for (int i = 0; i < n; i++) {
            end(i, data[i][0], i == 2 ? LEGACY : (enum kind)(kinds % KINDS));
            end(i, data[i][1], i == 2 ? LEGACY : (enum kind)(kinds / KINDS));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    if (load_more()) {
        print_message("no libcuda.so.1 with devices, or one without these calls\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
