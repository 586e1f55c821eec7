/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of calls on several GPUs: their order, many calls, and several streams. */
#include "nccl/device_testing.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Twenty in a group, one behind the other: the last one's result is there. */
void test_many_in_a_group(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    check_sum(1);
}

/* A stream of each GPU that goes on when the word is 1. */
static _Atomic uint32_t *make_held(void **held)
{
    void *memory;
    select_device(0);
    done(cu.MemHostAlloc(&memory, sizeof(uint32_t), 1 | 2)); /* portable, mapped: its address is good everywhere */
    _Atomic uint32_t *go = memory;
    atomic_store(go, 0);
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamCreate(&held[i], 1));
        done(cu.StreamWaitValue32_v2(held[i], memory, 1, 0));
    }
    return go;
}

/* Operations of a communicator follow one another on different streams, too, also if the first is held up and its
 * stream is gone. */
void test_change_of_stream(void **state)
{
    void *held[MOST];
    fill();
    _Atomic uint32_t *go = make_held(held);
    for (int turn = 0; turn < 3; turn++) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(turn ? rank[i].recv : rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum,
                               rank[i].comm, turn == 1 ? rank[i].stream : held[i]));
        good(ncclGroupEnd());
    }
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        done(cu.StreamDestroy_v2(held[i]));
        good(ncclAllReduce(rank[i].recv, rank[i].recv, COUNT, ncclFloat, ncclMax, rank[i].comm, rank[i].stream));
    }
    good(ncclGroupEnd());
    atomic_store(go, 1);
    check_sum((float)(n * n));
    done(cu.MemFreeHost((void *)go));
}

/* More than the mailbox has places for: what is issued for one rank needs what was called before for another. */
void test_long_group(void **state)
{
    if (!getenv("TUTTI_COPY_FROM")) /* kernels carry it, and need no places */
        return;
    fill();
    good(ncclGroupStart());
    for (int turn = 0; turn < 70; turn++)
        for (int i = 0; i < n; i++)
            good(ncclAllGather(rank[i].send, rank[i].recv, COUNT, ncclFloat, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        for (int from = 0; from < n; from++)
            assert_float_equal(result_of(who, MOST * COUNT)[from * COUNT + 7], value_of(from, 7), 0);
}

/* In quick succession, so that other threads help to issue them: what each rank issues stays in order. */
void test_quick_groups(void **state)
{
    fill();
    for (int turn = 0; turn < 40; turn++) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++) {
            good(ncclSend(rank[i].send, COUNT, ncclFloat, (i + 1) % n, rank[i].comm, rank[i].stream));
            good(ncclRecv(rank[i].recv, COUNT, ncclFloat, (i + n - 1) % n, rank[i].comm, rank[i].stream));
        }
        good(ncclGroupEnd());
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(rank[i].recv, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        good(ncclGroupEnd());
    }
    check_sum(1);
}

static void many_by_gpu(void *per_thread)
{
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        for (int turn = 0; turn < 70; turn++) {
            void *stream = per_thread ? per_thread : rank[i].stream;
            good(ncclAllGather(rank[i].send, rank[i].recv, 600, ncclFloat, rank[i].comm, stream));
            good(ncclBroadcast(rank[i].send, rank[i].recv + n * 600, 600, ncclFloat, 0, rank[i].comm, stream));
        }
    good(ncclGroupEnd());
}

/* The same, all calls for one GPU before those for the next; also where no other thread may issue them. */
void test_long_group_by_gpu(void **state)
{
    fill();
    many_by_gpu(NULL);
    if (getenv("TUTTI_COPY_FROM")) /* kernels have room for more than that */
        many_by_gpu((void *)2);    /* CU_STREAM_PER_THREAD */
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamSynchronize((void *)2));
    }
    for (int who = 0; who < n; who++) {
        for (int from = 0; from < n; from++)
            assert_float_equal(result_of(who, MOST * COUNT)[from * 600 + 7], value_of(from, 7), 0);
        assert_float_equal(result_of(who, MOST * COUNT)[n * 600 + 7], value_of(0, 7), 0);
    }
}

/* The same, of one pair in one operation. */
void test_many_messages(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int turn = 0; turn < 70; turn++)
        for (int i = 0; i < n; i++) {
            good(ncclSend(rank[i].send + turn, 500, ncclFloat, (i + 1) % n, rank[i].comm, rank[i].stream));
            good(ncclRecv(rank[i].recv + turn, 500, ncclFloat, (i + n - 1) % n, rank[i].comm, rank[i].stream));
        }
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        for (int i = 0; i < 500; i++)
            assert_float_equal(result_of(who, COUNT)[69 + i], value_of((who + n - 1) % n, 69 + i), 0);
}

/* Everybody sends to rank 0, the odd ones in front of a collective and the others behind it. */
void test_messages_around_collective(void **state)
{
    float *to[MOST];
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        to[i] = rank[i].send + COUNT;
        if (i == 0)
            good(ncclRecv(rank[0].recv + COUNT + 7 * (1 % n), 7, ncclFloat, 1 % n, rank[0].comm, rank[0].stream));
        else if (i % 2)
            good(ncclSend(to[i], 7, ncclFloat, 0, rank[i].comm, rank[i].stream));
        good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        if (i % 2 == 0)
            good(ncclSend(to[i], 7, ncclFloat, 0, rank[i].comm, rank[i].stream));
    }
    for (int i = 0; i < n; i++)
        if (i != 1 % n)
            good(ncclRecv(rank[0].recv + COUNT + 7 * i, 7, ncclFloat, i, rank[0].comm, rank[0].stream));
    good(ncclGroupEnd());
    check_sum(1);
    for (int i = 0; i < n; i++)
        assert_float_equal(result_of(0, 2 * COUNT)[COUNT + 7 * i + 3], value_of(i, COUNT + 3), 0);
}

/* One operation on several streams, which differ from rank to rank. The messages are longer than what waits in a
 * window. */
void test_messages_on_streams(void **state)
{
    void *beside[MOST];
    float *data[MOST];
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamCreate(&beside[i], 1));
        good(ncclMemAlloc((void **)&data[i], 2 * LONG * sizeof(float)));
        set_long(data, i);
    }
    for (int turn = 0; turn < 3; turn++) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++) {
            good(ncclSend(data[i], LONG, ncclFloat, (i + 1) % n, rank[i].comm, i % 2 ? beside[i] : rank[i].stream));
            good(ncclRecv(data[i] + LONG, LONG, ncclFloat, (i + n - 1) % n, rank[i].comm,
                          i % 2 ? rank[i].stream : beside[i]));
        }
        good(ncclGroupEnd());
    }
    for (int i = 0; i < n; i++) {
        float last;
        select_device(i);
        done(cu.StreamSynchronize(i % 2 ? beside[i] : rank[i].stream)); /* the sender's waits for what comes, too */
        done(cu.MemcpyDtoH_v2(&last, data[i] + 2 * LONG - 1, sizeof last));
        assert_float_equal(last, value_of((i + n - 1) % n, LONG - 1), 0);
        done(cu.StreamSynchronize(i % 2 ? rank[i].stream : beside[i]));
        done(cu.StreamDestroy_v2(beside[i]));
        good(ncclMemFree(data[i]));
    }
}

/* Collectives of a group on several streams are one operation: none begins before all streams have come to it, and all
 * go on behind it. */
void test_collectives_on_streams(void **state)
{
    void *held[MOST];
    float *twice[MOST];
    fill();
    for (int i = 0; i < n; i++) {
        select_device(i);
        good(ncclMemAlloc((void **)&twice[i], COUNT * sizeof(float)));
    }
    _Atomic uint32_t *go = make_held(held);
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        good(ncclAllReduce(rank[i].send, twice[i], COUNT, ncclFloat, ncclSum, rank[i].comm, held[i]));
    }
    good(ncclGroupEnd());
    usleep(20000);
    for (int i = 0; i < n; i++) {
        select_device(i);
        assert_int_equal(cu.StreamQuery(rank[i].stream), 600); /* not ready */
    }
    atomic_store(go, 1);
    check_sum(1); /* looks at the usual streams alone */
    for (int i = 0; i < n; i++) {
        float first, last;
        select_device(i);
        done(cu.MemcpyDtoH_v2(&first, rank[i].recv + COUNT - 1, sizeof first));
        done(cu.MemcpyDtoH_v2(&last, twice[i] + COUNT - 1, sizeof last));
        assert_float_equal(last, first, 0);
        done(cu.StreamSynchronize(held[i]));
        done(cu.StreamDestroy_v2(held[i]));
        good(ncclMemFree(twice[i]));
    }
    done(cu.MemFreeHost((void *)go));
}

/* One communicator's operation waits behind another's, which waits for ranks that do not come: all of a group are told
 * before one is waited for. */
static void give_up_together(ncclResult_t (*how)(ncclComm_t comm, int), ncclComm_t other)
{
    good(ncclGroupStart());
    good(how(rank[0].comm, 0));
    good(how(other, 0));
    good(ncclGroupEnd());
    done(cu.StreamSynchronize(rank[0].stream));
}

static ncclResult_t abort_it(ncclComm_t comm, int flags)
{
    return ncclCommAbort(comm);
}

static void get_stuck(bool revoked)
{
    ncclComm_t other[MOST];
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclCommSplit(rank[i].comm, 0, i, &other[i], NULL));
    good(ncclGroupEnd());
    select_device(0);
    good(ncclAllReduce(rank[0].send, rank[0].recv, 10, ncclFloat, ncclSum, other[0], rank[0].stream));
    good(ncclAllReduce(rank[0].send, rank[0].recv, 10, ncclFloat, ncclSum, rank[0].comm, rank[0].stream));
    if (revoked)
        give_up_together(ncclCommRevoke, other[0]);
    give_up_together(abort_it, other[0]);
    for (int i = 1; i < n; i++) {
        good(ncclCommAbort(rank[i].comm));
        good(ncclCommAbort(other[i]));
    }
    make_comms();
}

void test_aborts_in_a_group(void **state)
{
    get_stuck(false);
    get_stuck(true);
}
