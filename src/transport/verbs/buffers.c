/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a device reads and writes for lanes, and the receives that the lanes of a device share. */
#include "transport/verbs/buffers.h"

#include "base/param.h"
#include "transport/verbs/protocol.h"

#include <errno.h>
#include <sys/mman.h>

#define LANES_EACH 32 /* for this number of lanes there is a slab to begin with: two receives for each */
#define FEW        2  /* a slab divided by this: fewer receives are few */

int verbs_buffers_open(const struct verbs_library *library, struct ibv_pd *pd, size_t size, struct verbs_buffers *out)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    errno = 0;
    struct ibv_mr *registered = library->reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
    int error = registered ? 0 : errno ? errno : ENOMEM;
    if (error)
        munmap(memory, size);
    errno = error;
    if (!error)
        *out = (struct verbs_buffers){memory, size, registered};
    return error;
}

int verbs_buffers_forget(const struct verbs_library *library, struct verbs_buffers *buffers, bool still_written)
{
    int error = buffers->registered && !still_written ? library->dereg_mr(buffers->registered) : 0;
    if (error || still_written)
        buffers->memory = NULL; /* still known to the adapter */
    buffers->registered = NULL;
    return error;
}

void verbs_buffers_free(struct verbs_buffers *buffers)
{
    if (buffers->memory)
        munmap(buffers->memory, buffers->size);
    *buffers = (struct verbs_buffers){0};
}

/* ---- Shared receives ---- */

/* The queue has its full length from the start: to lengthen one later is more than many adapters can. */
bool verbs_shared_open(const struct verbs_library *library, struct ibv_context *context, struct ibv_pd *pd,
                       struct verbs_shared *shared)
{
    struct ibv_device_attr about = {.max_srq = 0};
    struct ibv_srq_init_attr how = {.attr = {.max_wr = VERBS_SHARED_MOST * VERBS_SHARED_EACH, .max_sge = 1}};
    if (!param_int(PARAM_IB_SHARED) || library->query_device(context, &about) != 0 || about.max_srq <= 0 ||
        about.max_srq_wr < (int)how.attr.max_wr)
        return false;
    shared->library = library;
    shared->queue = library->create_srq(pd, &how);
    return shared->queue != NULL;
}

static int shared_post_one(struct verbs_shared *shared, uint32_t number)
{
    const struct verbs_buffers *slab = &shared->slab[number / VERBS_SHARED_EACH];
    uintptr_t at = (uintptr_t)verbs_shared_chunk(shared, number, VERBS_CHUNK);
    struct ibv_sge sge = {at, VERBS_CHUNK, slab->registered->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
    return shared->queue->context->ops.post_srq_recv(shared->queue, &wr, &bad);
}

/* The last slabs, of which no receive is posted. */
static void shared_give_back(struct verbs_shared *shared)
{
    while (shared->slabs > shared->kept && shared->unposted[shared->slabs - 1] == UINT64_MAX) {
        struct verbs_buffers *last = &shared->slab[--shared->slabs];
        shared->unposted[shared->slabs] = 0;
        verbs_buffers_forget(shared->library, last, false);
        verbs_buffers_free(last);
    }
}

void verbs_shared_post(struct verbs_shared *shared, uint32_t number)
{
    unsigned slab = number / VERBS_SHARED_EACH;
    if (!shared->queue || slab >= shared->slabs || (slab < shared->kept && !shared_post_one(shared, number)))
        return;
    shared->unposted[slab] |= 1ull << number % VERBS_SHARED_EACH;
    shared->missing |= slab < shared->kept;
    if (slab >= shared->kept)
        shared_give_back(shared);
}

int verbs_shared_mend(struct verbs_shared *shared)
{
    for (unsigned slab = 0; slab < shared->kept; slab++)
        for (uint64_t *left = &shared->unposted[slab]; *left; *left &= *left - 1) {
            int error = shared_post_one(shared, slab * VERBS_SHARED_EACH + (unsigned)__builtin_ctzll(*left));
            if (error)
                return error > 0 ? error : -error;
        }
    shared->missing = false;
    return 0;
}

/* The adapter says once when fewer than this are left. */
static int shared_ask(struct verbs_shared *shared)
{
    struct ibv_srq_attr to = {.srq_limit = VERBS_SHARED_EACH / FEW};
    return shared->kept < VERBS_SHARED_MOST ? shared->library->modify_srq(shared->queue, &to, IBV_SRQ_LIMIT) : 0;
}

/* One that was too many stays. */
static int shared_add(struct ibv_pd *pd, struct verbs_shared *shared)
{
    struct verbs_buffers *slab = &shared->slab[shared->slabs];
    bool there = shared->kept < shared->slabs;
    int error = there ? 0 : verbs_buffers_open(shared->library, pd, (size_t)VERBS_SHARED_EACH * VERBS_CHUNK, slab);
    if (error)
        return error;
    if (!there)
        shared->unposted[shared->slabs++] = UINT64_MAX;
    shared->kept++;
    shared->missing = true;
    return verbs_shared_mend(shared);
}

int verbs_shared_grow(struct ibv_pd *pd, struct verbs_shared *shared)
{
    int error = shared->kept < VERBS_SHARED_MOST ? shared_add(pd, shared) : ENOSPC;
    if (!error) /* else not: some adapters would answer at once, again and again */
        error = shared_ask(shared);
    return error > 0 ? error : -error;
}

/* A lane's peer may use a slab at once, and no more. */
void verbs_shared_left(struct verbs_shared *shared, int lanes)
{
    unsigned most = lanes > 1 ? (unsigned)lanes : 1;
    shared->kept = most < shared->kept ? most : shared->kept;
    shared_give_back(shared);
}

unsigned verbs_shared_wanted(int lanes)
{
    unsigned wanted = 1 + (unsigned)lanes / LANES_EACH;
    return wanted < VERBS_SHARED_MOST ? wanted : VERBS_SHARED_MOST;
}

int verbs_shared_close(struct verbs_shared *shared)
{
    int error = shared->queue ? shared->library->destroy_srq(shared->queue) : 0;
    bool still_written = error != 0;
    for (unsigned i = 0; i < shared->slabs; i++) {
        int left = verbs_buffers_forget(shared->library, &shared->slab[i], still_written);
        verbs_buffers_free(&shared->slab[i]);
        error = error ? error : left;
    }
    *shared = (struct verbs_shared){0};
    return error;
}
