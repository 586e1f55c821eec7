/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages of a pipeline inside a block, which work at the same time. Each has working warps for the data and two warps
 * more: the waiter waits until the next step may begin, the signaller tells others of what is done. So a working warp
 * neither waits for a word nor for the fence before one.
 *
 *   waiter:    ready(t) --.                    ready(t+1) --.
 *                       v go(t)                           v go(t+1)
 *   workers:               |- work(t) ------.                |- work(t+1) ----
 *                                        v done(t)
 *   signaller:                              |- announce(t) ----
 *
 * Barriers go and done are two each, for even and odd steps. Nobody comes to one of step t+2 before all have left that
 * of step t: the signaller takes part in go(t+2), which it reaches when it has seen done(t).
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_STAGES_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_STAGES_CUH

#include <memory.cuh>

#define STAGES_MOST 3

/* In shared memory. Each waiter begins with its own. */
struct stages_state {
    uint32_t quit[STAGES_MOST]; /* 1 + the step at which the waiter has given up; 0: it has not */
};

enum stage_role { STAGE_WORK, STAGE_WAIT, STAGE_SIGNAL };

struct stage {
    int index;
    enum stage_role role;
    struct thread_group thread_group;
    uint32_t lane;
};

DEVICE uint32_t go(const struct stage &s, uint32_t t)
{
    return 1 + 4 * (uint32_t)s.index + (t & 1);
}

DEVICE uint32_t done(const struct stage &s, uint32_t t)
{
    return 3 + 4 * (uint32_t)s.index + (t & 1);
}

/* Made of the block's warps from `first` up to `end`, which this thread is in: two of them are the waiter and the
 * signaller. */
DEVICE struct stage stage_among(int index, uint32_t first, uint32_t end)
{
    const uint32_t warp = threadIdx.x / WARP;
    struct stage s;
    s.index = index;
    s.role = warp == first ? STAGE_WAIT : warp == first + 1 ? STAGE_SIGNAL : STAGE_WORK;
    s.thread_group.thread = threadIdx.x - (first + 2) * WARP;
    s.thread_group.threads = (end - first - 2) * WARP;
    s.lane = threadIdx.x % WARP;
    return s;
}

/* The block's warps are shared out by weight. */
template <class W> DEVICE struct stage stage_of(const W &work, int stages)
{
    const uint32_t warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    uint32_t all = 0, before = 0, first, end = 0;
    int index;
    for (int i = 0; i < stages; i++)
        all += work.weight(i);
    for (index = 0;; index++) {
        first = end;
        before += work.weight(index);
        end = warps * before / all;
        if (warp < end)
            break;
    }
    return stage_among(index, first, end);
}

template <class W> DEVICE bool stage_wait(const W &work, struct stages_state *state, const struct stage &s)
{
    if (s.lane == 0)
        store_shared(&state->quit[s.index], 0);
    ROLLED for (uint32_t t = 0; t < work.steps(); t++)
    {
        bool good = true;
        for (int p = (int)s.lane; p < work.ranks(); p += (int)WARP)
            good = good && work.ready(s.index, t, p);
        good = !warp_any(!good);
        if (!good && s.lane == 0)
            store_shared(&state->quit[s.index], t + 1);
        named_sync(go(s, t), s.thread_group.threads + 2 * WARP);
        if (!good)
            return false;
    }
    for (int p = (int)s.lane; p < work.ranks(); p += (int)WARP)
        work.close(s.index, p);
    return true;
}

template <class W> DEVICE bool stage_signal(const W &work, const struct stages_state *state, const struct stage &s)
{
    const uint32_t steps = work.steps();
    named_arrive(go(s, 0), s.thread_group.threads + 2 * WARP);
    if (steps > 1)
        named_arrive(go(s, 1), s.thread_group.threads + 2 * WARP);
    ROLLED for (uint32_t t = 0; t < steps; t++)
    {
        named_sync(done(s, t), s.thread_group.threads + WARP);
        if (load_shared(&state->quit[s.index]) == t + 1)
            return false;
        if (t + 2 < steps)
            named_arrive(go(s, t + 2), s.thread_group.threads + 2 * WARP);
        for (int p = (int)s.lane; p < work.ranks(); p += (int)WARP)
            work.announce(s.index, t, p);
    }
    return true;
}

template <class W> DEVICE bool stage_work(const W &work, const struct stages_state *state, const struct stage &s)
{
    ROLLED for (uint32_t t = 0; t < work.steps(); t++)
    {
        named_sync(go(s, t), s.thread_group.threads + 2 * WARP);
        const bool quit = load_shared(&state->quit[s.index]) == t + 1;
        if (!quit)
            work.work(s.index, t, s.thread_group);
        named_arrive(done(s, t), s.thread_group.threads + WARP);
        if (quit)
            return false;
    }
    return true;
}

/* A block of one thread: everything in turn, each stage a step behind the one before. */
template <class W> DEVICE bool stage_step(const W &work, int stage, uint32_t t)
{
    const struct thread_group alone = {0, 1};
    if (t >= work.steps())
        return true;
    for (int p = 0; p < work.ranks(); p++)
        if (!work.ready(stage, t, p))
            return false;
    work.work(stage, t, alone);
    for (int p = 0; p < work.ranks(); p++)
        work.announce(stage, t, p);
    return true;
}

template <class W> DEVICE bool stages_in_turn(const W &work, int stages)
{
    for (uint32_t t = 0; t < work.steps() + (uint32_t)stages - 1; t++)
        for (int stage = 0; stage < stages; stage++)
            if (t >= (uint32_t)stage && !stage_step(work, stage, t - (uint32_t)stage))
                return false;
    for (int stage = 0; stage < stages; stage++)
        for (int p = 0; p < work.ranks(); p++)
            work.close(stage, p);
    return true;
}

/*
 * One stage, by all threads of its warps. There is a step or more. False, in all of them: given up. Otherwise another
 * run of the stage may follow at once: the first warp there comes to no barrier before the signaller does, which has
 * seen the last step done.
 */
template <class W> DEVICE bool stage_run(const W &work, struct stages_state *state, const struct stage &s)
{
    if (s.role == STAGE_WAIT)
        return stage_wait(work, state, s);
    if (s.role == STAGE_SIGNAL)
        return stage_signal(work, state, s);
    return stage_work(work, state, s);
}

/* W: steps(), ranks(), weight(), ready(), work(), announce(), close(). False: this thread's stage was given up. */
template <class W> DEVICE bool stages_run(const W &work, struct stages_state *state, int stages)
{
    return ALONE ? stages_in_turn(work, stages) : stage_run(work, state, stage_of(work, stages));
}

#endif
