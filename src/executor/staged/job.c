/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job: when all channels that take part are through with it. */
#include "executor/staged/job.h"

#include "base/error.h"
#include "engine/failure.h"

#include <stdlib.h>

void job_free(struct job *job)
{
    free(job->items);
    free(job->asked);
    free(job->lengths);
    free(job->dynamic);
    free(job);
}

/* All words are written by one stream: an earlier job's number must not come after a later one's. */
static tutti_result_t job_write_word(struct staged *staged, const struct job *job)
{
    const struct cuda_driver *cu = staged->base.cu;
    CUstream last = staged->channel[0].out;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 1; i < staged->channels && result == TUTTI_SUCCESS; i++)
        if (job->channels >> i & 1)
            result =
                cuda_check(cu->StreamWaitEvent(last, staged->channel[i].finished, 0), "joining the parts of a job");
    return result == TUTTI_SUCCESS
               ? cuda_check(cu->StreamWriteValue32(last, staged->done_device, job->sequence, 0), "ending a job")
               : result;
}

/* No stream waits for ever, also when a part of the job failed. But no stream goes on while something is still copied
 * to its memory. */
static void job_release(struct staged *staged, const struct job *job)
{
    if (job->replayed) {
        __atomic_store_n(&staged->post->over, job->sequence, __ATOMIC_RELEASE);
        return;
    }
    if (staged->copies) { /* whose orders are over, or given up */
        atomic_store(staged->done, job->sequence);
        return;
    }
    for (int i = 1; i < staged->channels; i++)
        if (job->channels >> i & 1)
            staged->base.cu->EventSynchronize(staged->channel[i].finished);
    staged->base.cu->StreamSynchronize(staged->channel[0].out);
    atomic_store(staged->done, job->sequence);
}

static void end_job(struct staged *staged, struct job *job)
{
    tutti_result_t result = job->failed || staged->copies ? TUTTI_SUCCESS : job_write_word(staged, job);
    if (result != TUTTI_SUCCESS)
        team_fail(staged->base.team, result, staged->base.team->rank, error_last());
    staged->broken |= result != TUTTI_SUCCESS || job->failed;
    if (job->ticket)
        atomic_store(staged->done + 1,
                     job->ticket); /* before the courier ends: what waits for it may come behind that */
    if (result != TUTTI_SUCCESS || job->failed || staged->copies)
        job_release(staged, job);
    if (job->ready)
        staged->base.cu->EventDestroy(job->ready);
    job_free(job);
}

void job_left(struct staged *staged, struct job *job, bool failed)
{
    job->failed |= failed;
    job->left--;
    while (!list_empty(&staged->jobs)) {
        struct job *first = list_entry(staged->jobs.next, struct job, node);
        if (first->left)
            break;
        list_remove(&first->node);
        end_job(staged, first);
        pthread_cond_signal(&staged->channel[0].news);
    }
}
