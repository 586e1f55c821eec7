/* SPDX-License-Identifier: Apache-2.0 */
/* Making a fabric: which GPUs are there, can they reach one another, and where their windows are. */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/param.h"
#include "wire/boxread.h"

#include <stdlib.h>
#include <string.h>

#define PINNED (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

/* What every rank tells every other. */
struct card {
    uint8_t gpu[16]; /* its uuid */
    uint8_t process[WIRE_UUID_BYTES];
    struct board_buffer window;
    uint32_t reaches; /* bits of ranks whose GPUs this one can write to */
    uint32_t wants_host;
};

static tutti_result_t tell_all(struct team *team, const struct card *mine, struct card *all)
{
    struct call call = {.coll = COLL_ALLGATHER, .type = TUTTI_UINT8, .count = sizeof *mine, .op = -1, .in = mine, .out = all};
    tutti_result_t result = team_collective(team, &call, NULL, NULL);
    return result == TUTTI_SUCCESS ? team_wait(team, atomic_load(&team->issued)) : result;
}

static tutti_result_t check_distinct(const struct card *all, int nranks)
{
    for (int a = 0; a < nranks; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(all[a].gpu, all[b].gpu, sizeof all[a].gpu) == 0)
                return error_set(TUTTI_INVALID_USAGE, "rank %d and rank %d use the same GPU; give each rank its own", b, a);
    return TUTTI_SUCCESS;
}

/* The device of this process that is that GPU; -1: it does not see it. */
static int find_gpu(const uint8_t gpu[16])
{
    struct cuda_device *device;
    for (int ordinal = 0; cuda_device_acquire(ordinal, &device) == TUTTI_SUCCESS; ordinal++) {
        bool same = memcmp(device->uuid, gpu, 16) == 0;
        cuda_device_release(device);
        if (same)
            return ordinal;
    }
    return -1;
}

static uint32_t find_reachable(struct fabric *fabric, const struct card *all)
{
    uint32_t reaches = 0;
    for (int rank = 0; rank < fabric->nranks; rank++) {
        int ordinal = find_gpu(all[rank].gpu);
        if (rank == fabric->rank || (ordinal >= 0 && cuda_device_peer(fabric->device, ordinal) == TUTTI_SUCCESS))
            reaches |= 1u << rank;
    }
    return reaches;
}

/* All ranks come to the same answer. */
static bool all_reach_all(const struct card *all, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].wants_host || all[rank].reaches != (1u << nranks) - 1)
            return false;
    return true;
}

static tutti_result_t use_host_windows(struct fabric *fabric)
{
    size_t head = board_window(fabric->nranks, 0);
    CUdeviceptr windows = 0;
    tutti_result_t result = cuda_check(fabric->cu->MemHostRegister((char *)fabric->board + head, board_size(fabric->nranks) - head, PINNED),
                                       "pinning windows in host memory");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(fabric->cu->MemHostGetDevicePointer(&windows, (char *)fabric->board + head, 0), "finding the windows' device address");
    if (result != TUTTI_SUCCESS)
        return result;
    for (int rank = 0; rank < fabric->nranks; rank++) {
        unsigned char *base = (unsigned char *)(uintptr_t)windows - head;
        fabric->kernels.window[rank] = base + board_window(fabric->nranks, rank);
        fabric->kernels.bulk[rank] = base + board_bulk(fabric->nranks, rank);
    }
    fabric->in_host = fabric->bulk_posted = fabric->bulk_ready = true;
    fabric->copies = false;
    return TUTTI_SUCCESS;
}

static tutti_result_t use_device_windows(struct fabric *fabric, struct card *mine, struct card *all)
{
    tutti_result_t result = scratch_window(fabric);
    if (result == TUTTI_SUCCESS)
        result = scratch_describe(fabric, fabric->window, &mine->window);
    /* A rank that failed still takes part, so that the others hear of it by the failed team and not by silence. */
    tutti_result_t told = result == TUTTI_SUCCESS ? tell_all(fabric->team, mine, all) : result;
    for (int rank = 0; rank < fabric->nranks && told == TUTTI_SUCCESS; rank++) {
        CUdeviceptr address = fabric->window;
        if (rank != fabric->rank)
            told = scratch_reach(fabric, rank, &all[rank].window, &address, &fabric->window_imported[rank]);
        fabric->windows[rank] = all[rank].window;
        fabric->kernels.window[rank] = (unsigned char *)(uintptr_t)address;
    }
    return told;
}

/* The user wants none where nothing is reduced. */
static bool no_kernels(void)
{
    return param_int(PARAM_CTA_POLICY) % 3 == 2; /* by word or by number */
}

static tutti_result_t meet(struct fabric *fabric, struct card *mine, struct card *all)
{
    struct team *team = fabric->team;
    memcpy(mine->gpu, fabric->device->uuid, sizeof mine->gpu);
    memcpy(mine->process, team->process[fabric->rank].uuid, sizeof mine->process);
    mine->wants_host = param_int(PARAM_P2P_DISABLE) != 0;
    tutti_result_t result = tell_all(team, mine, all);
    if (result == TUTTI_SUCCESS)
        result = check_distinct(all, fabric->nranks);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int rank = 0; rank < fabric->nranks; rank++)
        fabric->here[rank] = memcmp(all[rank].process, mine->process, sizeof mine->process) == 0;
    for (int rank = 0; rank < fabric->nranks; rank++) {
        fabric->copies = fabric->copies && (fabric->here[rank] || param_int(PARAM_COPY_PROCESSES) || no_kernels());
        fabric->stage = fabric->copies && !fabric->here[rank] ? (size_t)param_int(PARAM_COPY_STAGE) : fabric->stage;
    }
    mine->reaches = find_reachable(fabric, all);
    result = tell_all(team, mine, all);
    if (result != TUTTI_SUCCESS)
        return result;
    return all_reach_all(all, fabric->nranks) ? use_device_windows(fabric, mine, all) : use_host_windows(fabric);
}

static tutti_result_t register_board(struct fabric *fabric)
{
    tutti_result_t result = cuda_check(fabric->cu->MemHostRegister(fabric->board, board_window(fabric->nranks, 0), PINNED), "pinning the board");
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->board_registered = true;
    return cuda_check(fabric->cu->MemHostGetDevicePointer(&fabric->board_device, fabric->board, 0), "finding the board's device address");
}

static tutti_result_t open_here(struct fabric *fabric, int board)
{
    struct card mine = {0}, all[KERNEL_RANKS];
    tutti_result_t result = cuda_check(fabric->cu->EventCreate(&fabric->order, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS && board < 0)
        return staged_open(fabric->team, fabric->device, &fabric->staged);
    if (result == TUTTI_SUCCESS)
        result = board_map(board, fabric->nranks, &fabric->board);
    if (result == TUTTI_SUCCESS)
        result = register_board(fabric);
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->kernels.abort = (const uint32_t *)(uintptr_t)board_address(fabric, &fabric->board->rank[fabric->rank].abort);
    result = cuda_check(fabric->cu->EventCreate(&fabric->mark, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->copies = fabric->device->memops && (param_int(PARAM_COPY_FROM) > 0 || no_kernels());
    fabric->copy_from = no_kernels() ? 1 : (size_t)param_int(PARAM_COPY_FROM);
    result = meet(fabric, &mine, all);
    return result == TUTTI_SUCCESS ? helper_start(fabric) : result;
}

tutti_result_t fabric_open(struct team *team, int ordinal, int board, struct fabric **out)
{
    if (board >= 0 && team->nranks > KERNEL_RANKS)
        return error_set(TUTTI_INVALID_USAGE, "%d ranks on the GPUs of one host; at most %d are supported", team->nranks, KERNEL_RANKS);
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a fabric");
    fabric->team = team;
    fabric->rank = fabric->kernels.rank = team->rank;
    fabric->nranks = fabric->kernels.nranks = team->nranks;
    list_init(&fabric->parcels);
    list_init(&fabric->quiet);
    pthread_mutex_init(&fabric->lock, NULL);
    tutti_result_t result = cuda_driver(&fabric->cu);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_acquire(ordinal, &fabric->device);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_load(fabric->device); /* not later: loading may wait for kernels that wait for this rank */
    if (result == TUTTI_SUCCESS) {
        cuda_enter(fabric->device);
        result = open_here(fabric, board);
        cuda_leave();
    }
    if (result != TUTTI_SUCCESS) {
        fabric_close(fabric);
        return result;
    }
    record_open(fabric);
    quiet_join(fabric);
    *out = fabric;
    return TUTTI_SUCCESS;
}

static void wait_for_own_work(struct fabric *fabric)
{
    fabric_synchronize(fabric); /* after a failure kernels and streams have been told to give up */
}

void fabric_close(struct fabric *fabric)
{
    if (!fabric)
        return;
    if (fabric->device) {
        cuda_enter(fabric->device);
        if (fabric->order)
            wait_for_own_work(fabric);
        fabric_tell_failure(fabric);
        staged_close(fabric->staged);
        quiet_leave(fabric);
        copy_close(fabric); /* while the helper still lets go what waits for peers that have failed */
        helper_stop(fabric);
        import_close(fabric);
        record_close(fabric);
        if (fabric->order)
            fabric->cu->EventDestroy(fabric->order);
        scratch_close(fabric);
        cuda_leave();
        cuda_device_release(fabric->device);
    }
    pthread_mutex_destroy(&fabric->lock);
    free(fabric);
}

int fabric_device(const struct fabric *fabric)
{
    return fabric->device->ordinal;
}

void fabric_memory(struct fabric *fabric, size_t *device_bytes, size_t *host_bytes)
{
    *device_bytes = *host_bytes = 0;
    for (int row = 0; row < WIRE_MEMORY_COUNT; row++)
        *(strcmp(blackbox_memory_row((size_t)row)->where, "device") == 0 ? device_bytes : host_bytes) += fabric->memory[row];
}
