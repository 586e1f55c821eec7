/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what the host orders, until the host says that a job is over: in the place of copies that would come behind
 * this stream in a hardware queue. A block takes the orders of one of the host's threads, one at a time.
 */
#include <memory.cuh>
#include <wait.cuh>

#define COURIER_VECTORS 8

struct courier_turn {
    uint64_t to, from, bytes;
    uint32_t number, quit;
};

/* By thread 0: the next order of this job. */
DEVICE void courier_next(struct courier_turn *turn, const struct kernel_courier &what, const struct kernel_copy *order,
                         uint32_t last)
{
    turn->quit = 0;
    for (uint32_t looks = 0;; looks++) {
        bool mine = load_acquire(&order->job) == what.job;
        turn->number = load_acquire(&order->number);
        if (mine && turn->number != last && load_acquire(&order->job) == what.job)
            break;
        turn->quit = reached(load_acquire(what.over), what.job);
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
    struct kernel_copy *order = what.copies + blockIdx.x;
    wait_for_stream();
    uint32_t last = load_relaxed(&order->done);
    for (;;) {
        if (threadIdx.x == 0)
            courier_next(&turn, what, order, last);
        barrier();
        if (turn.quit)
            return;
        copy_by<COURIER_VECTORS>((unsigned char *)(uintptr_t)turn.to, (const unsigned char *)(uintptr_t)turn.from,
                                 turn.bytes, whole_block());
        last = turn.number;
        barrier();
        if (threadIdx.x == 0) {
            fence_all();
            store_flag(&order->done, last);
        }
    }
}
