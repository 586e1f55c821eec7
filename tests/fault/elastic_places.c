/* SPDX-License-Identifier: Apache-2.0 */
/* What members give, places in the library's calls (the linker wraps them), and what is under way between members. */
#include "base/random.h"
#include "elastic_job.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct job *job;
int me, step_now;
static _Atomic int sends; /* counted by any thread of the engine */
static _Atomic bool works, votes;

void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* ---- Inputs, and the sum of a ring ---- */

void fill(float *in, int member, int step)
{
    for (int i = 0; i < job->count; i++)
        in[i] = i < MARKS ? (float)(i == member)
                          : (float)(int32_t)mix64((uint64_t)step << 40 | (uint64_t)member << 32 | (uint64_t)i) * 1e-7f;
}

bool is_of_ring(const float *out, unsigned set, bool in_any_order)
{
    static float in[MEMBERS][MOST];
    int member[MEMBERS], members = 0;
    bool right = true;
    for (int i = 0; i < MEMBERS; i++)
        if (set >> i & 1)
            fill(in[member[members++] = i], i, STEPS);
    for (int i = 0; i < job->count; i++) {
        int block = i / (int)(job->chunk_bytes / sizeof *out) % members;
        float sum = in[member[block]][i];
        for (int j = 1; j < members; j++)
            sum += in[member[(block + j) % members]][i];
        right &= in_any_order ? fabsf(sum - out[i]) < 1e-3f : sum == out[i];
    }
    return right;
}

/* ---- Places ---- */

void reach(enum point point)
{
    if (!job || (int)point != job->fault[me].point || step_now < job->fault[me].step)
        return;
    job->fault[me].point = NOWHERE;
    if (job->fault[me].signal == 0) {
        for (atomic_store(&job->to_cut, true); !atomic_load(&job->cut); nap(1))
            ;
        return;
    }
    if (point == IN_WORK || point == IN_VOTE)
        nap(50); /* those who need nothing more of this member have their results */
    raise(job->fault[me].signal);
}

/* ---- What is under way ---- */

static _Atomic size_t under_way[MEMBERS]; /* by rank in the generation */
static _Thread_local const struct link_send *leaving;
static void (*_Atomic sent)(struct link_send *send, tutti_result_t result);

static void count_sent(struct link_send *send, tutti_result_t result)
{
    if (send == leaving && result == TUTTI_SUCCESS)
        job->told[me].unasked = true;
    under_way[send->tag.to] -= send->length;
    atomic_load (&sent)(send, result);
}

/* Until the receiver has said that all of it is there. */
static void count_send(struct link_send *send)
{
    if (send->done == count_sent || !works || send->length <= sizeof(float) || !job->chunk_bytes)
        return;
    atomic_store(&sent, send->done);
    send->done = count_sent;
    size_t bytes = under_way[send->tag.to] += send->length;
    for (size_t most = job->told[me].under_way; bytes > most;)
        if (atomic_compare_exchange_weak(&job->told[me].under_way, &most, bytes))
            break;
}

void __real_link_cancel_send(struct link *link, struct link_send *send);
void __wrap_link_cancel_send(struct link *link, struct link_send *send);
void __wrap_link_cancel_send(struct link *link, struct link_send *send)
{
    if (send->done == count_sent)
        under_way[send->tag.to] -= send->length;
    __real_link_cancel_send(link, send);
}

/* ---- The calls ---- */

tutti_result_t __real_generation_make(struct generation *generation, uint64_t deadline);
tutti_result_t __wrap_generation_make(struct generation *generation, uint64_t deadline);
tutti_result_t __wrap_generation_make(struct generation *generation, uint64_t deadline)
{
    works = false; /* of the generation before, which has failed */
    if (!generation->made)
        reach(IN_MAKING);
    tutti_result_t result = __real_generation_make(generation, deadline);
    if (result == TUTTI_SUCCESS)
        reach(BEFORE_WORK);
    works = true;
    sends = 0;
    return result;
}
void __real_link_send(struct link *link, struct link_send *send);
void __wrap_link_send(struct link *link, struct link_send *send);
void __wrap_link_send(struct link *link, struct link_send *send)
{
    if (works && sends++ == job->fault[me].sends)
        reach(IN_WORK);
    if (votes && sends++ == job->fault[me].sends)
        reach(IN_VOTE);
    count_send(send);
    leaving = send;
    __real_link_send(link, send);
    leaving = NULL;
}
tutti_result_t __real_comm_wait(struct tutti_comm *comm, bool end);
tutti_result_t __wrap_comm_wait(struct tutti_comm *comm, bool end);
tutti_result_t __wrap_comm_wait(struct tutti_comm *comm, bool end)
{
    if (works)
        reach(ISSUED);
    return __real_comm_wait(comm, end);
}
tutti_result_t __real_generation_finish(struct generation *generation, uint32_t turn);
tutti_result_t __wrap_generation_finish(struct generation *generation, uint32_t turn);
tutti_result_t __wrap_generation_finish(struct generation *generation, uint32_t turn)
{
    works = false;
    reach(AFTER_WORK);
    tutti_result_t result = __real_generation_finish(generation, turn);
    votes = false;
    if (result == TUTTI_SUCCESS)
        reach(AFTER_VOTE);
    return result;
}
bool __real_consent_finish(struct consent *consent, uint32_t turn);
bool __wrap_consent_finish(struct consent *consent, uint32_t turn);
bool __wrap_consent_finish(struct consent *consent, uint32_t turn)
{
    bool result = __real_consent_finish(consent, turn);
    reach(BEFORE_VOTE);
    votes = true;
    sends = 0;
    return result;
}
tutti_result_t __real_generation_end(struct generation *generation, uint64_t due);
tutti_result_t __wrap_generation_end(struct generation *generation, uint64_t due);
tutti_result_t __wrap_generation_end(struct generation *generation, uint64_t due)
{
    reach(AT_THE_END);
    return __real_generation_end(generation, due);
}
void __real_consent_ask(struct consent *consent);
void __wrap_consent_ask(struct consent *consent);
void __wrap_consent_ask(struct consent *consent)
{
    reach(AT_ASK);
    __real_consent_ask(consent);
}
bool __real_consent_conclude(struct consent *consent, uint64_t child);
bool __wrap_consent_conclude(struct consent *consent, uint64_t child);
bool __wrap_consent_conclude(struct consent *consent, uint64_t child)
{
    reach(AT_CONCLUDE);
    return __real_consent_conclude(consent, child);
}
void __real_consent_hear(struct consent *consent, int from, const struct consent_word *word);
void __wrap_consent_hear(struct consent *consent, int from, const struct consent_word *word);
void __wrap_consent_hear(struct consent *consent, int from, const struct consent_word *word)
{
    if (word->kind >= CONSENT_ASK && word->kind <= CONSENT_DECIDED)
        reach(HEARS_ASK + (int)word->kind - CONSENT_ASK);
    __real_consent_hear(consent, from, word);
}
tutti_result_t __real_generation_follow(const struct generation *old, uint64_t deadline, struct generation **out);
tutti_result_t __wrap_generation_follow(const struct generation *old, uint64_t deadline, struct generation **out);
tutti_result_t __wrap_generation_follow(const struct generation *old, uint64_t deadline, struct generation **out)
{
    reach(BEFORE_NEXT);
    return __real_generation_follow(old, deadline, out);
}
