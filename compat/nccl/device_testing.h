/* SPDX-License-Identifier: Apache-2.0 */
/* A program of one process and all GPUs, a communicator of them and buffers: what the tests of NCCL's calls on device
 * memory share. */
#ifndef TUTTI_COMPAT_DEVICE_TESTING_H
#define TUTTI_COMPAT_DEVICE_TESTING_H

#include "nccl/nccl_testing.h"

enum { MOST = 4, COUNT = 3000, LONG = 300001 }; /* GPUs; floats of a usual and of a long vector */

/* The driver: the few calls that a program makes itself. */
struct driver {
    int (*Init)(unsigned);
    int (*DeviceGetCount)(int *);
    int (*DeviceGet)(int *, int);
    int (*DevicePrimaryCtxRetain)(void **, int);
    int (*CtxSetCurrent)(void *);
    int (*StreamCreate)(void **, unsigned);
    int (*StreamSynchronize)(void *);
    int (*StreamDestroy_v2)(void *);
    int (*StreamWaitValue32_v2)(void *, void *, uint32_t, unsigned);
    int (*MemHostAlloc)(void **, size_t, unsigned);
    int (*MemFreeHost)(void *);
    int (*StreamQuery)(void *);
    int (*MemcpyHtoD_v2)(void *, const void *, size_t);
    int (*MemcpyDtoH_v2)(void *, const void *, size_t);
    int (*MemAllocManaged)(void **, size_t, unsigned);
    int (*MemFree_v2)(void *);
    int (*StreamBeginCapture_v2)(void *, int);
    int (*StreamEndCapture)(void *, void **);
    int (*GraphInstantiateWithFlags)(void **, void *, unsigned long long);
    int (*GraphLaunch)(void *, void *);
    int (*GraphExecDestroy)(void *);
    int (*GraphDestroy)(void *);
};
extern struct driver cu;

struct gpu {
    void *context, *stream;
    ncclComm_t comm;
    float *send, *recv;
};
extern struct gpu rank[MOST];
extern int n;

#define done(call) assert_int_equal((call), 0)

int load_driver(void); /* not 0: there is none, or no device */
int setup(void **state);
int teardown(void **state);
void make_comms(void);
void select_device(int which);
/* What `who` sends: element i. */
float value_of(int who, int i);
/* All ranks' send buffers; the others get garbage. */
void fill(void);
const float *result_of(int who, size_t count);
/* Of the first COUNT elements, times a factor. */
void check_sum(float factor);
/* A long vector of `who`'s numbers. */
void set_long(float **data, int who);

/* device_groups.c */
void test_many_in_a_group(void **state);
void test_change_of_stream(void **state);
void test_long_group(void **state);
void test_quick_groups(void **state);
void test_long_group_by_gpu(void **state);
void test_many_messages(void **state);
void test_messages_around_collective(void **state);
void test_messages_on_streams(void **state);
void test_collectives_on_streams(void **state);
void test_aborts_in_a_group(void **state);

#endif
