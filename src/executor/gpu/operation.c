/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation on GPUs does at its turn, beside what operations on streams do anyway. */
#include "executor/gpu/operation.h"

#include "executor/gpu/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/import.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/step.h"

static struct gpu *operation_gpu(struct stream_base *base)
{
    return (struct gpu *)((char *)base - offsetof(struct gpu, base));
}

/* In a pause that is too short for another thread to find it. */
static void operation_tidy(struct stream_base *base)
{
    struct gpu *gpu = operation_gpu(base);
    if (atomic_load_explicit(&gpu->offers.any_old, memory_order_relaxed))
        import_close_old(gpu);
}

/* This word comes before the look at ranks that have departed. So either this rank sees one that has, or that one sees
 * this word. */
static void say_issuing(struct gpu *gpu, uint32_t it_is)
{
    atomic_store(&gpu->ranks[gpu->rank].issuing, it_is);
    atomic_thread_fence(memory_order_seq_cst);
}

static void operation_begins(struct stream_base *base)
{
    say_issuing(operation_gpu(base), 1);
}

/* What was issued while a peer was being lost, or the team failed: the helper may have looked before it was there. */
static void operation_ends(struct stream_base *base, bool issued)
{
    struct gpu *gpu = operation_gpu(base);
    say_issuing(gpu, 0);
    if (issued && (atomic_load(&base->team->failed) || gone_any(gpu)))
        mailbox_ring(&gpu->ranks[gpu->rank]);
}

static tutti_result_t operation_refuses(struct stream_base *base, bool collective)
{
    (void)collective;
    return gpu_failure(operation_gpu(base));
}

static void operation_issued(struct stream_base *base, bool kernel, bool whole)
{
    step_issued(operation_gpu(base), atomic_load_explicit(&base->tickets.ticket, memory_order_relaxed), kernel, whole);
}

/* From now on the helper looks now and then. */
static void operation_captured(struct stream_base *base)
{
    struct gpu *gpu = operation_gpu(base);
    atomic_store(gpu->captured, 1);
    mailbox_ring(&gpu->ranks[gpu->rank]);
}

static bool operation_fails_later(struct stream_base *base)
{
    return atomic_load(&operation_gpu(base)->departs.refused_call);
}

const struct stream_ops gpu_stream_ops = {.tidy = operation_tidy,
                                          .begins = operation_begins,
                                          .ends = operation_ends,
                                          .refuses = operation_refuses,
                                          .issued = operation_issued,
                                          .captured = operation_captured,
                                          .fails_later = operation_fails_later};
