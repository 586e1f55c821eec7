/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by a kernel of the user's stream that takes orders. Channels only touch memory, and call no driver, for two
 * reasons. A user's call may wait in the driver for all work of the GPU, and so for the channels: a channel's call
 * would wait behind that one. And streams may share few hardware queues: a channel's copies would come behind what the
 * user's stream has in the queue, which waits for these very copies. A kernel has begun, and so holds up nothing.
 */
#include "executor/staged/courier.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "device/cuda/device.h"
#include "device/cuda/launch.h"
#include "engine/failure.h"
#include "executor/staged/direct.h"
#include "executor/staged/fail.h"
#include "executor/stream/ticket.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNTS     64                  /* bytes of what counts launches of graphs */
#define BOUNCE     ((size_t)256 << 10) /* bytes of pinned memory for what lies in memory that GPUs do not reach */
#define FIRST      ((size_t)16 << 10)  /* bytes of pinned memory for what comes with the news of a kernel */
#define LOOKS      4000 /* at an answer, one after another; then they come slowly: the stream may be busy for long */
#define PAUSE_US   50   /* between two that come slowly, */
#define LONG_US    500  /* and where a job has waited for long: a part of that time, up to this, */
#define LATER      64   /* so that it begins no later than by this part */
#define REST_FROM  (100 * NS_PER_US)   /* ns of a copy, from which on the thread sleeps for half of it */
#define PACED      ((size_t)128 << 10) /* bytes of a copy that shows how long copies take */
#define SLOW_LOOKS 1000              /* slow looks, after which the driver is asked again whether the GPU still works */
#define LOOK_AFTER (500 * NS_PER_MS) /* ns between two looks for freed memory */

/* ---- Does the GPU still work? ---- */

/* Sleeps until somebody asks for something, for `ns` at most. Under the lock. */
static void doubt_sleep(struct staged *staged, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ns;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    pthread_cond_timedwait(&staged->doubt.news, &staged->doubt.lock, &until);
}

/* Adapters keep memory that the user has freed until somebody finds out. Relays want memory, or others want theirs.
 * Under the lock. */
static void look_after_memory(struct staged *staged)
{
    pthread_mutex_unlock(&staged->doubt.lock);
    uint64_t pause = relay_tend(staged), now = clock_ns();
    if (now - staged->doubt.looked >= LOOK_AFTER) {
        direct_look(staged->base.cu);
        staged->doubt.looked = now;
    }
    pthread_mutex_lock(&staged->doubt.lock);
    if (!staged->doubt.asked && !staged->doubt.stop)
        doubt_sleep(staged, pause < LOOK_AFTER ? pause : LOOK_AFTER);
}

/* A thread that does nothing but ask: the driver may hold it up until the user's call ends. */
static void *staged_courier_ask(void *argument)
{
    struct staged *staged = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda_enter(staged->base.device);
    staged->base.cu->ThreadExchangeStreamCaptureMode(&mode); /* of this thread: somebody may be capturing a graph */
    pthread_mutex_lock(&staged->doubt.lock);
    while (!staged->doubt.stop) {
        if (!staged->doubt.asked && staged->direct) {
            look_after_memory(staged);
            continue;
        }
        if (!staged->doubt.asked) {
            pthread_cond_wait(&staged->doubt.news, &staged->doubt.lock);
            continue;
        }
        staged->doubt.asked = false;
        pthread_mutex_unlock(&staged->doubt.lock);
        CUresult got = staged->base.cu->EventQuery(staged->doubt.event);
        if (got != CUDA_SUCCESS && got != CUDA_ERROR_NOT_READY)
            atomic_store(&staged->doubt.lost, (int)got);
        pthread_mutex_lock(&staged->doubt.lock);
    }
    pthread_mutex_unlock(&staged->doubt.lock);
    cuda_leave();
    return NULL;
}

/* The answer comes at any time. It never comes while a call of the user's waits for this communicator. */
static void doubt(struct staged *staged)
{
    pthread_mutex_lock(&staged->doubt.lock);
    staged->doubt.asked = true;
    pthread_cond_signal(&staged->doubt.news);
    pthread_mutex_unlock(&staged->doubt.lock);
}

static tutti_result_t start_doubt(struct staged *staged)
{
    tutti_result_t result =
        cuda_check(staged->base.cu->EventCreate(&staged->doubt.event, CU_EVENT_DISABLE_TIMING), "making an event");
    return result == TUTTI_SUCCESS ? thread_start(&staged->doubt.thread, "tutti-doubt", staged_courier_ask, staged)
                                   : result;
}

static void end_doubt(struct staged *staged)
{
    pthread_mutex_lock(&staged->doubt.lock);
    staged->doubt.stop = true;
    pthread_cond_signal(&staged->doubt.news);
    pthread_mutex_unlock(&staged->doubt.lock);
    thread_end(&staged->doubt.thread);
    if (staged->doubt.event)
        staged->base.cu->EventDestroy(staged->doubt.event);
}

/* ---- Life ---- */

/* In a stream that has nothing else. */
static tutti_result_t clear_launches(const struct staged *staged)
{
    CUstream stream = staged->base.graphs.sounded;
    tutti_result_t result =
        cuda_check(staged->base.cu->MemsetD8Async(staged->launches, 0, COUNTS, stream), "clearing device memory");
    return result == TUTTI_SUCCESS ? cuda_check(staged->base.cu->StreamSynchronize(stream), "clearing device memory")
                                   : result;
}

tutti_result_t courier_open(struct staged *staged)
{
    void *memory = NULL;
    size_t copies = (size_t)staged->channels * sizeof *staged->copies + sizeof *staged->post;
    if (!staged->kernel)
        return TUTTI_SUCCESS;
    tutti_result_t result =
        cuda_check(staged->base.cu->MemHostAlloc(&memory, copies + (size_t)staged->channels * BOUNCE + FIRST,
                                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                   "allocating pinned memory");
    if (result != TUTTI_SUCCESS)
        return result;
    memset(memory, 0, copies);
    staged->copies = memory;
    staged->post = (struct kernel_post *)(staged->copies + staged->channels);
    result = cuda_check(staged->base.cu->MemHostGetDevicePointer(&staged->copies_device, memory, 0),
                        "finding the orders' device address");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->base.cu->MemAlloc(&staged->launches, COUNTS), "allocating device memory");
    if (result == TUTTI_SUCCESS)
        result = clear_launches(staged);
    return result == TUTTI_SUCCESS ? start_doubt(staged) : result;
}

void courier_close(struct staged *staged)
{
    end_doubt(staged);
}

unsigned courier_blocks(const struct staged *staged, uint64_t bytes)
{
    unsigned blocks = bytes < KERNEL_COURIER_LONG_FROM ? KERNEL_COURIER_BLOCKS : KERNEL_COURIER_LONG;
    return staged->blocks > 0 && (unsigned)staged->blocks < blocks ? (unsigned)staged->blocks : blocks;
}

/* A job that folds has a kernel of its type. Each block serves as many channels as any other, or one more. */
static tutti_result_t launch_for(struct staged *staged, const struct job *job, struct kernel_courier *what,
                                 CUstream stream)
{
    what->channels = 32 - (uint32_t)__builtin_clz(job->channels);
    what->op = job->call.op;
    what->divisor = job->call.divisor;
    unsigned most = courier_blocks(staged, job->call.bytes);
    struct kernel_launch how = {.kernel = job->fold == FOLD_NONE ? KERNEL_COURIER : KERNEL_REDUCE_FOLDED,
                                .blocks = what->channels < most ? what->channels : most,
                                .threads = KERNEL_COURIER_THREADS};
    return cuda_launch(staged->base.device, &how, job->call.type, what, stream);
}

tutti_result_t courier_launch(struct staged *staged, const struct job *job, CUstream stream)
{
    struct kernel_courier what = {.copies = (struct kernel_copy *)(uintptr_t)staged->copies_device,
                                  .over = (const uint32_t *)(uintptr_t)staged->done_device,
                                  .job = job->sequence};
    return launch_for(staged, job, &what, stream);
}

tutti_result_t courier_capture(struct staged *staged, const struct job *recipe, CUstream stream)
{
    uint64_t post = staged->copies_device + (uint64_t)((char *)staged->post - (char *)staged->copies);
    struct kernel_courier what = {.copies = (struct kernel_copy *)(uintptr_t)staged->copies_device,
                                  .post = (struct kernel_post *)(uintptr_t)post,
                                  .launches = (uint32_t *)(uintptr_t)staged->launches,
                                  .recipe = recipe->sequence};
    return launch_for(staged, recipe, &what, stream);
}

bool courier_is_asked(const struct staged *staged)
{
    return staged->post && __atomic_load_n(&staged->post->asked, __ATOMIC_ACQUIRE) != staged->posted;
}

/* ---- Orders ---- */

/* TUTTI_IN_PROGRESS: a graph's kernel is in front. An error: the GPU has failed; or the communicator has failed, and
 * the stream has not come to what may not begin any more. meets: the job; NULL: a copy is waited for. Nobody stops a
 * kernel that has begun. Until it answers it may store to the user's memory, so an abort waits for it, however long the
 * GPU is held up. */
static tutti_result_t is_hopeless(const struct staged *staged, const struct job *meets)
{
    int lost = atomic_load_explicit(&staged->doubt.lost, memory_order_relaxed);
    if (lost)
        return cuda_check((CUresult)lost, "staging by a kernel");
    if (!meets)
        return TUTTI_SUCCESS;
    if (courier_is_asked(staged))
        return TUTTI_IN_PROGRESS;
    return channels_begin(staged, meets) ? TUTTI_SUCCESS : team_failure(staged->base.team);
}

void courier_await_ticket(struct staged *staged, uint32_t ticket)
{
    for (unsigned look = 0; !ticket_is_over(&staged->base, ticket) && !atomic_load(&staged->doubt.lost); look++) {
        if (look % SLOW_LOOKS == 0)
            doubt(staged);
        usleep(PAUSE_US);
    }
}

unsigned courier_pause(uint64_t waited)
{
    uint64_t us = waited / LATER / NS_PER_US;
    return us < PAUSE_US ? PAUSE_US : us < LONG_US ? (unsigned)us : LONG_US;
}

uint64_t courier_rest(uint64_t pace, size_t bytes)
{
    uint64_t takes = pace * (bytes >> 10) >> 10;
    return takes < REST_FROM ? 0 : takes / 2;
}

/* A slow copy may have waited for something else. */
uint64_t courier_pace(uint64_t pace, size_t bytes, uint64_t took)
{
    uint64_t now = bytes < PACED ? pace : (took << 10) / (bytes >> 10), most = pace + pace / 8;
    return !pace || now < most ? now : most;
}

static tutti_result_t wait_for_order(struct staged *staged, const struct kernel_copy *slot, uint32_t number,
                                     const struct job *meets)
{
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t began = 0;
    for (unsigned look = 0; result == TUTTI_SUCCESS && __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) != number;
         look++) {
        if (look < LOOKS && !(meets && courier_is_asked(staged))) {
            sched_yield();
            continue;
        }
        if (look >= LOOKS && (look - LOOKS) % SLOW_LOOKS == 0)
            doubt(staged);
        began = began ? began : clock_ns();
        result = is_hopeless(staged, meets);
        if (result == TUTTI_SUCCESS)
            usleep(meets ? courier_pause(clock_ns() - began) : PAUSE_US);
    }
    return result;
}

static uint32_t order_number(struct channel *channel)
{
    channel->ordered += channel->ordered + 1 ? 1 : 2; /* never 0 */
    return channel->ordered;
}

static void order_part(struct kernel_copy *slot, enum kernel_order part, uint64_t word, uint32_t number)
{
    __atomic_store_n(&slot->part[part], KERNEL_ORDER_PART(word, number), __ATOMIC_RELEASE);
    __atomic_store_n(&slot->part[part + 1], KERNEL_ORDER_PART(word >> 32, number), __ATOMIC_RELEASE);
}

struct order {
    uint64_t to, from, bytes, own;
    uint32_t fold;
};

/* One order, and its end. */
static tutti_result_t order(struct channel *channel, const struct order *what, const struct job *meets)
{
    struct staged *staged = channel->staged;
    struct kernel_copy *slot = &staged->copies[channel->index];
    uint32_t number = order_number(channel);
    order_part(slot, KERNEL_ORDER_TO, what->to, number);
    order_part(slot, KERNEL_ORDER_FROM, what->from, number);
    order_part(slot, KERNEL_ORDER_BYTES, what->bytes, number);
    order_part(slot, KERNEL_ORDER_OWN, what->own, number);
    order_part(slot, KERNEL_ORDER_JOB, (uint64_t)what->fold << 32 | channel->job, number);
    if (meets)
        return wait_for_order(staged, slot, number, meets);
    uint64_t began = clock_ns(), rest = courier_rest(channel->pace, what->bytes);
    if (rest) /* this thread would only look on; who carries what is posted may need the processor */
        usleep((useconds_t)(rest / NS_PER_US));
    tutti_result_t result = wait_for_order(staged, slot, number, NULL);
    channel->pace = courier_pace(channel->pace, what->bytes, clock_ns() - began);
    return result;
}

static tutti_result_t order_copy(struct channel *channel, uint64_t to, uint64_t from, size_t bytes,
                                 const struct job *meets)
{
    return order(channel, &(struct order){.to = to, .from = from, .bytes = bytes}, meets);
}

tutti_result_t courier_fold(struct channel *channel, const struct courier_fold *fold)
{
    const struct order what = {.to = (uintptr_t)fold->to,
                               .from = (uintptr_t)fold->from,
                               .bytes = fold->bytes,
                               .own = (uintptr_t)fold->own,
                               .fold = kernel_fold(fold->nranks, fold->rank)};
    return order(channel, &what, NULL);
}

tutti_result_t courier_scale(struct channel *channel, const void *gpu, void *host, size_t bytes, uint64_t scalar)
{
    const struct order what = {.to = (uintptr_t)host,
                               .from = scalar,
                               .bytes = bytes,
                               .own = (uintptr_t)gpu,
                               .fold = kernel_fold(1, 0) | KERNEL_FOLD_SCALES};
    return order(channel, &what, NULL);
}

/* Memory that nothing else is copied to: where a graph's kernel comes between, a kernel of the job may take the order
 * at any time, and again. */
static char *first_memory(const struct staged *staged)
{
    return (char *)(staged->post + 1) + (size_t)staged->channels * BOUNCE;
}

tutti_result_t courier_meet(struct channel *channel, const struct job *job, const void *gpu, size_t bytes)
{
    const struct staged *staged = channel->staged;
    uint64_t to = staged->copies_device + (uint64_t)(first_memory(staged) - (char *)staged->copies);
    tutti_result_t result = order_copy(channel, to, (uintptr_t)gpu, courier_brings(bytes) ? bytes : 0, job);
    if (result != TUTTI_SUCCESS) /* a kernel that comes later finds nothing to bring: the memory may be gone by then */
        order_part(&staged->copies[channel->index], KERNEL_ORDER_BYTES, 0, channel->ordered);
    return result;
}

bool courier_brings(size_t bytes)
{
    return bytes <= FIRST;
}

void courier_fetch(const struct channel *channel, void *host, size_t bytes)
{
    memcpy(host, first_memory(channel->staged), bytes);
}

static bool is_pinned(const struct staged *staged, const char *host)
{
    const char *from = staged->pinned;
    return host >= from && host < from + (size_t)staged->channels * SLICES * staged->slice_bytes;
}

/* Copies by way of memory that the GPU reaches. */
static tutti_result_t bounce(struct channel *channel, char *gpu, char *host, size_t bytes, bool to_gpu)
{
    const struct staged *staged = channel->staged;
    char *between = (char *)(staged->post + 1) + (size_t)channel->index * BOUNCE;
    uint64_t address = staged->copies_device + (uint64_t)(between - (char *)staged->copies);
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t at = 0; at < bytes && result == TUTTI_SUCCESS; at += BOUNCE) {
        size_t some = bytes - at < BOUNCE ? bytes - at : BOUNCE;
        uint64_t there = (uintptr_t)gpu + at;
        if (to_gpu)
            memcpy(between, host + at, some);
        result = order_copy(channel, to_gpu ? there : address, to_gpu ? address : there, some, NULL);
        if (result == TUTTI_SUCCESS && !to_gpu)
            memcpy(host + at, between, some);
    }
    return result;
}

tutti_result_t courier_copy(struct channel *channel, void *gpu, void *host, size_t bytes, bool to_gpu)
{
    uint64_t there = (uintptr_t)gpu, here = (uintptr_t)host;
    if (!is_pinned(channel->staged, host))
        return bounce(channel, gpu, host, bytes, to_gpu);
    return order_copy(channel, to_gpu ? there : here, to_gpu ? here : there, bytes, NULL);
}

tutti_result_t courier_move(struct channel *channel, void *to, const void *from, size_t bytes)
{
    return order_copy(channel, (uintptr_t)to, (uintptr_t)from, bytes, NULL);
}
