/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host orders is carried out until the host says that a job is over: copies of other streams could come behind
 * this stream in a hardware queue. Each of the host's threads gives one order at a time. A block serves one of these
 * threads, or several, so that a launch needs few blocks.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_COURIER_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_COURIER_CUH

#include <memory.cuh>
#include <wait.cuh>

#define COURIER_VECTORS 8

/* number: of the order, 0: there is none. */
struct courier_turn {
    uint64_t to, from, bytes, own;
    uint32_t number, fold;
};

/* Of a block. `last`: numbers of the orders that were the last ones. */
struct courier_job {
    const uint32_t *over;
    uint32_t number, launch, quit;
    uint32_t last[KERNEL_COURIER_CHANNELS];
    struct courier_turn turn[KERNEL_COURIER_CHANNELS];
};

DEVICE uint32_t courier_channels(const struct kernel_courier &what)
{
    return blockIdx.x < what.channels ? (what.channels - 1 - blockIdx.x) / gridDim.x + 1 : 0;
}

DEVICE struct kernel_copy *courier_order(const struct kernel_courier &what, uint32_t channel)
{
    return what.copies + blockIdx.x + channel * gridDim.x;
}

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
    load_halves_acquire(order->part + KERNEL_ORDER_JOB, &part[KERNEL_ORDER_JOB], &part[KERNEL_ORDER_FOLD]);
    const uint32_t number = (uint32_t)(part[0] >> 32);
    bool whole = true;
    UNROLL for (int i = 1; i < KERNEL_ORDER_PARTS; i++) whole &= (uint32_t)(part[i] >> 32) == number;
    return whole ? number : 0;
}

DEVICE uint64_t courier_word(const uint64_t *part)
{
    return part[1] << 32 | (uint32_t)part[0];
}

/* False: there is no order of this job. */
DEVICE bool courier_find(struct courier_job *job, const struct kernel_courier &what, uint32_t channel)
{
    uint64_t part[KERNEL_ORDER_PARTS];
    struct courier_turn *turn = &job->turn[channel];
    turn->number = courier_look(part, courier_order(what, channel));
    if (turn->number == job->last[channel] || (uint32_t)part[KERNEL_ORDER_JOB] != job->number)
        turn->number = 0;
    turn->to = courier_word(part + KERNEL_ORDER_TO);
    turn->from = courier_word(part + KERNEL_ORDER_FROM);
    turn->bytes = courier_word(part + KERNEL_ORDER_BYTES);
    turn->own = courier_word(part + KERNEL_ORDER_OWN);
    turn->fold = (uint32_t)part[KERNEL_ORDER_FOLD];
    return turn->number != 0;
}

/* By the first warp, of which each thread looks at other orders: until there is one, or the job is over. */
DEVICE void courier_next(struct courier_job *job, const struct kernel_courier &what)
{
    const uint32_t mine = courier_channels(what);
    bool found = false, quit = false;
    for (uint32_t looks = 0; !warp_any(found || quit); looks++) {
        const uint32_t over = load_relaxed(job->over);
        for (uint32_t i = threadIdx.x; i < mine; i += WARP)
            found |= courier_find(job, what, i);
        quit = reached(over, job->number);
        if (!found && !quit)
            pause_spin(looks);
    }
    if (threadIdx.x == 0)
        job->quit = quit;
}

/* The thread that looks for the order tells of its end. */
template <class FOLD>
DEVICE void courier_carry_out(struct courier_job *job, const struct kernel_courier &what, uint32_t channel,
                              const FOLD &fold)
{
    const struct courier_turn &turn = job->turn[channel];
    if (!turn.number)
        return;
    if (turn.fold)
        fold(turn);
    else
        copy_by<COURIER_VECTORS>((unsigned char *)(uintptr_t)turn.to, (const unsigned char *)(uintptr_t)turn.from,
                                 turn.bytes, whole_block());
    barrier();
    if (threadIdx.x == channel % WARP) {
        job->last[channel] = turn.number;
        fence_all();
        store_flag(&courier_order(what, channel)->done, turn.number);
    }
}

/* The kernel: `fold(turn)` carries out a fold. */
template <class FOLD> DEVICE void courier_work(const struct kernel_courier &what, const FOLD &fold)
{
    __shared__ struct courier_job job;
    const uint32_t mine = courier_channels(what);
    wait_for_stream();
    if (threadIdx.x == 0)
        courier_begin(&job, what);
    for (uint32_t i = threadIdx.x; i < mine; i += blockDim.x)
        job.last[i] = load_relaxed(&courier_order(what, i)->done);
    barrier();
    for (;;) {
        if (threadIdx.x < WARP)
            courier_next(&job, what);
        barrier();
        if (job.quit)
            break;
        ROLLED for (uint32_t i = 0; i < mine; i++) courier_carry_out(&job, what, i, fold);
        barrier();
    }
    if (threadIdx.x == 0)
        courier_end(&job, what);
}

#endif
