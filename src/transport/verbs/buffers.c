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

void verbs_shared_post(struct verbs_shared *shared, uint32_t number)
{
    if (!shared->queue || number >= shared->slabs * VERBS_SHARED_EACH || !shared_post_one(shared, number))
        return;
    shared->unposted[number / VERBS_SHARED_EACH] |= 1ull << number % VERBS_SHARED_EACH;
    shared->missing = true;
}

int verbs_shared_mend(struct verbs_shared *shared)
{
    for (unsigned slab = 0; slab < shared->slabs; slab++)
        for (uint64_t *left = &shared->unposted[slab]; *left; *left &= *left - 1) {
            int error = shared_post_one(shared, slab * VERBS_SHARED_EACH + (unsigned)__builtin_ctzll(*left));
            if (error)
                return error > 0 ? error : -error;
        }
    shared->missing = false;
    return 0;
}

/* The adapter says once when fewer than this are left. */
static int shared_ask(const struct verbs_library *library, struct verbs_shared *shared)
{
    struct ibv_srq_attr to = {.srq_limit = VERBS_SHARED_EACH / FEW};
    return shared->slabs < VERBS_SHARED_MOST ? library->modify_srq(shared->queue, &to, IBV_SRQ_LIMIT) : 0;
}

static int shared_add(const struct verbs_library *library, struct ibv_pd *pd, struct verbs_shared *shared)
{
    struct verbs_buffers *slab = &shared->slab[shared->slabs];
    int error = verbs_buffers_open(library, pd, (size_t)VERBS_SHARED_EACH * VERBS_CHUNK, slab);
    if (error)
        return error;
    uint32_t first = shared->slabs++ * VERBS_SHARED_EACH;
    for (uint32_t i = 0; i < VERBS_SHARED_EACH; i++)
        verbs_shared_post(shared, first + i);
    return shared->missing ? verbs_shared_mend(shared) : 0;
}

int verbs_shared_grow(const struct verbs_library *library, struct ibv_pd *pd, struct verbs_shared *shared)
{
    int error = shared->slabs < VERBS_SHARED_MOST ? shared_add(library, pd, shared) : ENOSPC;
    if (!error) /* else not: some adapters would answer at once, again and again */
        error = shared_ask(library, shared);
    return error > 0 ? error : -error;
}

unsigned verbs_shared_wanted(int lanes)
{
    unsigned wanted = 1 + (unsigned)lanes / LANES_EACH;
    return wanted < VERBS_SHARED_MOST ? wanted : VERBS_SHARED_MOST;
}

int verbs_shared_close(const struct verbs_library *library, struct verbs_shared *shared)
{
    int error = shared->queue ? library->destroy_srq(shared->queue) : 0;
    for (unsigned i = 0; i < shared->slabs; i++) {
        int left = verbs_buffers_forget(library, &shared->slab[i], error != 0);
        verbs_buffers_free(&shared->slab[i]);
        error = error ? error : left;
    }
    *shared = (struct verbs_shared){0};
    return error;
}
