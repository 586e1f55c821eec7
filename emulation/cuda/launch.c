/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: parameters are copied when launched, and each block of the grid runs on a thread of its own, as blocks wait
 * for one another. A device runs as many blocks at a time as it has processors. Blocks begin in the order in which
 * kernels do, as on GPUs, those of a cluster together.
 */
#include "cuda/call.h"
#include "cuda/module.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS_MOST  4096
#define THREADS_MOST 1024
#define CLUSTER_MOST 8
#define ALIGNMENT    16u
#define EXTRA_MOST   8
#define AGAIN_US     1000

struct cuda_launch {
    const struct work_kernel *kernel;
    CUcontext context;
    pthread_mutex_t lock;
    pthread_cond_t news; /* no block is left, or starved */
    size_t left;
    bool starved; /* a block of it waits for a thread */
    bool begun;   /* processors_lock held, as for failed */
    bool failed;
};

struct launch_block {
    struct pool_task task;
    struct cuda_launch *launch;
    unsigned at[3];
    int together; /* it and those behind it that begin with it */
    struct launch_block *next;
};

/* Of one device. */
static struct processors {
    struct launch_block *head, *tail; /* that wait for one */
    int busy;
} processors[CONFIG_DEVICES_MAX];
static pthread_mutex_t processors_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t count_params(const struct kernel_entry *entry)
{
    size_t count = 0;
    while (entry->params[count])
        count++;
    return count;
}

static size_t aligned(size_t size)
{
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* One block of memory: pointers to the parameters, then their copies. */
static void *copy_params(const struct kernel_entry *entry, void *const *from)
{
    size_t count = count_params(entry), at = aligned((count + 1) * sizeof(void *)), size = at;
    for (size_t i = 0; i < count; i++)
        size += aligned(entry->params[i]);
    char *block = aligned_alloc(ALIGNMENT, aligned(size));
    if (!block)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        ((void **)block)[i] = block + at;
        memcpy(block + at, from[i], entry->params[i]);
        at += aligned(entry->params[i]);
    }
    return block;
}

static bool launch_clone(struct work *copy, const struct work *of)
{
    struct work_kernel *to = &copy->kernel;
    const struct work_kernel *from = &of->kernel;
    to->params = copy_params(from->entry, from->params);
    return to->params;
}

/* The launch's memory is gone when the last block is over. */
static void block_over(struct cuda_launch *launch)
{
    pthread_mutex_lock(&launch->lock);
    if (!--launch->left)
        pthread_cond_signal(&launch->news);
    pthread_mutex_unlock(&launch->lock);
}

static void launch_starve(struct cuda_launch *launch)
{
    pthread_mutex_lock(&launch->lock);
    launch->starved = true;
    pthread_cond_signal(&launch->news);
    pthread_mutex_unlock(&launch->lock);
}

/* False: its launch, of which blocks have begun, must wait for a thread: a GPU begins a kernel as a whole or not at
 * all. Lock held. */
static bool begin_block(struct processors *device)
{
    struct launch_block *block = device->head;
    struct cuda_launch *launch = block->launch;
    struct launch_block *next = block->next;
    if (!launch->failed && pool_start(&block->task, 1, sizeof block->task)) {
        launch->begun = true;
        device->busy++;
    } else if (launch->begun) {
        launch_starve(launch);
        return false;
    } else {
        if (!launch->failed)
            context_fail(launch->context, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        launch->failed = true;
        block_over(launch);
    }
    device->head = next;
    return true;
}

/* Lock held. */
static void begin_blocks(struct processors *device)
{
    while (device->head && device->busy + device->head->together <= config_get()->processors)
        for (int left = device->head->together; left; left--)
            if (!begin_block(device))
                return;
}

static void run_block(struct pool_task *task)
{
    struct launch_block *block = (struct launch_block *)task;
    struct cuda_launch *launch = block->launch;
    const struct work_kernel *kernel = launch->kernel;
    struct processors *device = &processors[launch->context->device];
    kernel->entry->run(kernel->entry, &kernel->grid, block->at, kernel->params);
    pthread_mutex_lock(&processors_lock);
    device->busy--;
    begin_blocks(device);
    pthread_mutex_unlock(&processors_lock);
    block_over(launch);
}

static void queue_blocks(struct processors *device, struct launch_block *blocks, size_t count)
{
    pthread_mutex_lock(&processors_lock);
    for (size_t i = 0; i < count; i++) {
        if (device->head)
            device->tail->next = &blocks[i];
        else
            device->head = &blocks[i];
        device->tail = &blocks[i];
    }
    begin_blocks(device);
    pthread_mutex_unlock(&processors_lock);
}

static size_t block_count(const struct kernel_grid *grid)
{
    return (size_t)grid->grid[0] * grid->grid[1] * grid->grid[2];
}

static void place(struct launch_block *block, size_t i, const struct kernel_grid *grid, struct cuda_launch *launch)
{
    const size_t cluster = grid->cluster ? grid->cluster : 1;
    *block = (struct launch_block){
        .task = {.run = run_block}, .launch = launch, .together = i % cluster == 0 ? (int)cluster : 1};
    block->at[0] = (unsigned)(i % grid->grid[0]);
    block->at[1] = (unsigned)(i / grid->grid[0] % grid->grid[1]);
    block->at[2] = (unsigned)(i / grid->grid[0] / grid->grid[1]);
}

static void begin_again(struct processors *device)
{
    usleep(AGAIN_US);
    pthread_mutex_lock(&processors_lock);
    begin_blocks(device);
    pthread_mutex_unlock(&processors_lock);
}

static void wait_for_blocks(struct cuda_launch *launch)
{
    pthread_mutex_lock(&launch->lock);
    while (launch->left) {
        if (!launch->starved) {
            pthread_cond_wait(&launch->news, &launch->lock);
            continue;
        }
        launch->starved = false;
        pthread_mutex_unlock(&launch->lock);
        begin_again(&processors[launch->context->device]);
        pthread_mutex_lock(&launch->lock);
    }
    pthread_mutex_unlock(&launch->lock);
}

static void launch_run(const struct work *work)
{
    const struct work_kernel *kernel = &work->kernel;
    CUcontext context = work->context;
    bool sticky;
    config_hold(context->device);
    CUresult due = fault_due("kernel", &sticky);
    if (due) {
        context_fail(context, due);
        return;
    }
    size_t count = block_count(&kernel->grid);
    struct cuda_launch launch = {.kernel = kernel, .context = context, .left = count};
    struct launch_block *blocks = malloc(count * sizeof(*blocks));
    pthread_mutex_init(&launch.lock, NULL);
    pthread_cond_init(&launch.news, NULL);
    for (size_t i = 0; blocks && i < count; i++)
        place(&blocks[i], i, &kernel->grid, &launch);
    if (blocks) {
        queue_blocks(&processors[context->device], blocks, count);
        wait_for_blocks(&launch);
    } else {
        context_fail(context, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    pthread_cond_destroy(&launch.news);
    pthread_mutex_destroy(&launch.lock);
    free(blocks);
}

/* The other way of passing parameters: one buffer, laid out like a struct. Only kernels with one parameter take it
 * here. */
static CUresult from_buffer(const struct kernel_entry *entry, void **extra, void **param)
{
    size_t size = 0;
    *param = NULL;
    for (int i = 0; i < EXTRA_MOST && extra[0] != CU_LAUNCH_PARAM_END; i++, extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *param = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
    }
    if (!*param || count_params(entry) != 1 || size < entry->params[0])
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult take_params(struct work_kernel *kernel, void **params, void **extra)
{
    void *one;
    CUresult result = params && extra ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (extra && !result) {
        result = from_buffer(kernel->entry, extra, &one);
        params = &one;
    }
    if (!params && kernel->entry->params[0])
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    kernel->params = copy_params(kernel->entry, params);
    return kernel->params ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool good_grid(const CUDA_KERNEL_NODE_PARAMS *p)
{
    size_t blocks = (size_t)p->gridDimX * p->gridDimY * p->gridDimZ;
    size_t threads = (size_t)p->blockDimX * p->blockDimY * p->blockDimZ;
    return blocks && threads && threads <= THREADS_MOST && p->gridDimY <= 65535 && p->gridDimZ <= 65535;
}

static void launch_clear(struct work *work)
{
    free(work->kernel.params);
}

static const struct work_ops launch_work = {.clone = launch_clone, .clear = launch_clear, .run = launch_run};

CUresult launch_make(const CUDA_KERNEL_NODE_PARAMS *p, struct work *work)
{
    CUfunction function = p->func;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!good_grid(p))
        return CUDA_ERROR_INVALID_VALUE;
    if ((size_t)p->gridDimX * p->gridDimY * p->gridDimZ > BLOCKS_MOST ||
        p->sharedMemBytes > (function->dynamic_shared ? (unsigned)function->dynamic_shared : 49152u))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    *work = (struct work){.kind = WORK_KERNEL,
                          .ops = &launch_work,
                          .context = function->module->context,
                          .kernel = {.function = function, .entry = &function->entry}};
    work->kernel.grid = (struct kernel_grid){
        {p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes};
    return take_params(&work->kernel, p->kernelParams, p->extra);
}

static CUresult launch(const CUDA_KERNEL_NODE_PARAMS *params, unsigned cluster, CUstream handle)
{
    CUstream stream;
    struct work work;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result && params->func && params->func->module->context != stream->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = launch_make(params, &work);
    if (!result) {
        work.kernel.grid.cluster = cluster;
        result = stream_submit(stream, &work, NULL);
    }
    state_unlock();
    return result;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    CALL(CALL_CONTEXT);
    CUDA_KERNEL_NODE_PARAMS all = {f, gx, gy, gz, bx, by, bz, shared, params, extra, NULL, NULL};
    return launch(&all, 0, stream);
}

/* Cooperative or not: all blocks run at once here. */
EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                          unsigned bz, unsigned shared, CUstream stream, void **params)
{
    CALL(CALL_CONTEXT);
    CUDA_KERNEL_NODE_PARAMS all = {f, gx, gy, gz, bx, by, bz, shared, params, NULL, NULL, NULL};
    return launch(&all, 0, stream);
}

/* Along x alone; 0: there are none. */
static CUresult cluster_of(const CUlaunchConfig *c, unsigned *cluster)
{
    *cluster = 0;
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &c->attrs[i].value;
        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        *cluster = value->clusterDim.x;
        if (!*cluster || *cluster > CLUSTER_MOST || c->gridDimX % *cluster || value->clusterDim.y != 1 ||
            value->clusterDim.z != 1 || (int)*cluster > config_get()->processors)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    unsigned cluster;
    CALL(CALL_CONTEXT);
    CUresult result = clusters && function ? cluster_of(config, &cluster) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *clusters = config_get()->processors / (int)(cluster ? cluster : 1);
    return result;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    unsigned cluster;
    CALL(CALL_CONTEXT);
    CUresult result = cluster_of(c, &cluster);
    if (result)
        return result;
    CUDA_KERNEL_NODE_PARAMS all = {
        f,      c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
        params, extra,       NULL,        NULL};
    return launch(&all, cluster, c->hStream);
}
