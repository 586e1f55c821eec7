/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what the host orders, until the host says that a job is over: copies of other streams could come behind this
 * stream in a hardware queue. A block takes the orders of one of the host's threads, one at a time.
 */
#include <memory.cuh>
#include <wait.cuh>

#define COURIER_VECTORS 8

struct courier_turn {
    uint64_t to, from, bytes;
    uint32_t number, quit;
};

struct courier_job {
    const uint32_t *over;
    uint32_t number, launch;
};

/* By thread 0. In a graph block 0 asks for all blocks. */
DEVICE void courier_begin(struct courier_job *job, const struct kernel_courier &what)
{
    job->over = what.over;
    job->number = what.job;
    job->launch = 0;
    if (!what.post)
        return;
    job->launch = load_relaxed(what.launches + 1) + 1;
    job->over = &what.post->over;
    if (blockIdx.x == 0) {
        store_flag(&what.post->recipe, what.recipe);
        fence_all();
        store_flag(&what.post->asked, job->launch);
    }
    for (uint32_t looks = 0; load_acquire(&what.post->answered) != job->launch; looks++)
        pause_spin(looks);
    job->number = load_relaxed(&what.post->job);
}

/* By thread 0 of each block: the last one lets the next launch have the next number. */
DEVICE void courier_end(const struct courier_job *job, const struct kernel_courier &what)
{
    if (what.post && is_last_of(what.launches, gridDim.x))
        store_flag(what.launches + 1, job->launch);
}

/* The numbers of the order's parts; 0: they are not equal. All loads go at once, as each takes a microsecond. */
DEVICE uint32_t courier_look(uint64_t *part, const struct kernel_copy *order)
{
    UNROLL for (int i = 0; i < KERNEL_ORDER_JOB; i += 2) load_halves(order->part + i, &part[i], &part[i + 1]);
    load_halves_acquire(order->part + KERNEL_ORDER_JOB, &part[KERNEL_ORDER_JOB], &part[KERNEL_ORDER_LAST]);
    const uint32_t number = (uint32_t)(part[0] >> 32);
    bool whole = true;
    UNROLL for (int i = 1; i < KERNEL_ORDER_PARTS; i++) whole &= (uint32_t)(part[i] >> 32) == number;
    return whole ? number : 0;
}

DEVICE uint64_t courier_word(const uint64_t *part)
{
    return part[1] << 32 | (uint32_t)part[0];
}

/* By thread 0: the next order of this job. */
DEVICE void courier_next(struct courier_turn *turn, const struct courier_job *job, const struct kernel_copy *order,
                         uint32_t last)
{
    uint64_t part[KERNEL_ORDER_PARTS];
    turn->quit = 0;
    for (uint32_t looks = 0;; looks++) {
        const uint32_t over = load_relaxed(job->over);
        turn->number = courier_look(part, order);
        if (turn->number && turn->number != last && (uint32_t)part[KERNEL_ORDER_JOB] == job->number)
            break;
        turn->quit = reached(over, job->number);
        if (turn->quit)
            return;
        pause_spin(looks);
    }
    turn->to = courier_word(part + KERNEL_ORDER_TO);
    turn->from = courier_word(part + KERNEL_ORDER_FROM);
    turn->bytes = courier_word(part + KERNEL_ORDER_BYTES);
}

KERNEL(KERNEL_COURIER_THREADS) tutti_courier(PARAMETER(struct kernel_courier) what)
{
    __shared__ struct courier_turn turn;
    struct courier_job job;
    struct kernel_copy *order = what.copies + blockIdx.x;
    wait_for_stream();
    uint32_t last = load_relaxed(&order->done);
    if (threadIdx.x == 0)
        courier_begin(&job, what);
    for (;;) {
        if (threadIdx.x == 0)
            courier_next(&turn, &job, order, last);
        barrier();
        if (turn.quit)
            break;
        copy_by<COURIER_VECTORS>((unsigned char *)(uintptr_t)turn.to, (const unsigned char *)(uintptr_t)turn.from,
                                 turn.bytes, whole_block());
        last = turn.number;
        barrier();
        if (threadIdx.x == 0) {
            fence_all();
            store_flag(&order->done, last);
        }
    }
    if (threadIdx.x == 0)
        courier_end(&job, what);
}
