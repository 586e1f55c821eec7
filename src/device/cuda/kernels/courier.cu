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

/* By thread 0: the next order of this job. */
DEVICE void courier_next(struct courier_turn *turn, const struct courier_job *job, const struct kernel_copy *order,
                         uint32_t last)
{
    turn->quit = 0;
    for (uint32_t looks = 0;; looks++) {
        bool mine = load_acquire(&order->job) == job->number;
        turn->number = load_acquire(&order->number);
        if (mine && turn->number != last && load_acquire(&order->job) == job->number)
            break;
        turn->quit = reached(load_acquire(job->over), job->number);
        if (turn->quit)
            return;
        pause_spin(looks);
    }
    turn->to = *(const volatile uint64_t *)&order->to;
    turn->from = *(const volatile uint64_t *)&order->from;
    turn->bytes = *(const volatile uint64_t *)&order->bytes;
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
