/* SPDX-License-Identifier: Apache-2.0 */
/* Making a fabric: which GPUs are there, can they reach one another, and where their windows are. */
#include "fabric/crew.h"
#include "fabric/internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "device/cuda/nvml.h"
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
    uint32_t whole;   /* of them, those that what it stores as a line reaches as a whole; not known of GPUs that it does not see */
    uint32_t wants_host;
    uint32_t descriptors; /* it can map them */
    uint32_t opened;      /* it has, or handles, of all others */
    char bus_id[16];      /* as in sysfs */
    uint32_t blocks, policy; /* as ordered */
    uint32_t processors, few_queues;
};

/* What takes the time of making one, for the log. */
enum part { PART_CONTEXT, PART_KERNELS, PART_BOARD, PART_MEETING, PART_ACCESS, PART_WINDOW, PART_WINDOWS, PART_HELPER, PARTS };

struct opening {
    struct card mine, all[KERNEL_RANKS];
    uint64_t since, spent[PARTS]; /* nanoseconds */
};

static void spend(struct opening *opening, enum part part)
{
    uint64_t now = clock_ns();
    opening->spent[part] += now - opening->since;
    opening->since = now;
}

static void tell_spent(const struct fabric *fabric, const struct opening *opening)
{
    double ms[PARTS], sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += ms[i] = (double)opening->spent[i] / NS_PER_MS;
    log_info("rank %d of %d on GPU %d made its fabric in %.1f ms: context %.1f, kernels %.1f, board %.1f, meeting the others %.1f, "
             "access %.1f, window %.1f, the others' windows %.1f, helper %.1f",
             fabric->rank, fabric->nranks, fabric->device->ordinal, sum, ms[PART_CONTEXT], ms[PART_KERNELS], ms[PART_BOARD],
             ms[PART_MEETING], ms[PART_ACCESS], ms[PART_WINDOW], ms[PART_WINDOWS], ms[PART_HELPER]);
}

/* Ranks that launch kernels of different grids would wait for one another for ever. */
static tutti_result_t check_alike(const struct card *all, int nranks)
{
    for (int rank = 1; rank < nranks; rank++)
        if (all[rank].blocks != all[0].blocks || all[rank].policy != all[0].policy)
            return error_set(TUTTI_INVALID_USAGE, "rank 0 has blocks %u and policy %u in its config, rank %d has %u and %u; make them the same",
                             all[0].blocks, all[0].policy, rank, all[rank].blocks, all[rank].policy);
    return TUTTI_SUCCESS;
}

/* Where a GPU has few processors all launch few blocks: kernels meet block by block. */
static struct kernel_room find_room(const struct card *all, int nranks)
{
    uint32_t processors = all[0].processors;
    for (int rank = 1; rank < nranks; rank++)
        processors = all[rank].processors < processors ? all[rank].processors : processors;
    return kernel_room(processors, (unsigned)param_int(PARAM_BLOCKS_LEAST), all[0].blocks);
}

static tutti_result_t check_distinct(const struct card *all, int nranks)
{
    for (int a = 0; a < nranks; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(all[a].gpu, all[b].gpu, sizeof all[a].gpu) == 0)
                return error_set(TUTTI_INVALID_USAGE, "rank %d and rank %d use the same GPU; give each rank its own", b, a);
    return TUTTI_SUCCESS;
}

enum { P2P_LOC, P2P_NVL, P2P_LEVELS = 6 };

/* By word or by number. Distances on PCI Express are not looked at: whoever can reach a GPU may. */
static int p2p_level(void)
{
    return (int)param_int(PARAM_P2P_LEVEL) % P2P_LEVELS;
}

/*
 * A rank of this process has a context on its GPU, and access is enabled. On any other rank's GPU none is made: opening an IPC
 * handle gives the access that it needs. A GPU that this process does not see (CUDA_VISIBLE_DEVICES) may be reached all the same.
 */
static bool reaches(struct fabric *fabric, int rank, struct card *mine, const struct card *theirs)
{
    int ordinal;
    if (rank == fabric->rank)
        return true;
    if (cuda_device_find(theirs->gpu, &ordinal) != TUTTI_SUCCESS)
        return false;
    if (ordinal < 0) {
        bool joined = nvml_joined(fabric->device->bus_id, theirs->bus_id);
        mine->whole |= joined ? 1u << rank : 0;
        return joined || p2p_level() != P2P_NVL;
    }
    tutti_result_t result = fabric->here[rank] ? cuda_device_peer(fabric->device, ordinal) : cuda_device_reaches(fabric->device, ordinal);
    bool whole = result == TUTTI_SUCCESS && cuda_device_whole(fabric->device, ordinal);
    mine->whole |= whole ? 1u << rank : 0;
    return whole || (result == TUTTI_SUCCESS && p2p_level() != P2P_NVL);
}

static void find_reachable(struct fabric *fabric, const struct card *all, struct card *mine)
{
    for (int rank = 0; rank < fabric->nranks; rank++)
        if (reaches(fabric, rank, mine, &all[rank]))
            mine->reaches |= 1u << rank;
}

/* All ranks come to the same answer. */
static bool all_apart(const struct card *all, int nranks)
{
    for (int a = 0; a < nranks; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(all[a].process, all[b].process, sizeof all[a].process) == 0)
                return false;
    return true;
}

static bool all_reach_all(const struct card *all, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].wants_host || all[rank].reaches != (1u << nranks) - 1)
            return false;
    return true;
}

static bool all_whole(const struct card *all, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if ((all[rank].whole | 1u << rank) != (1u << nranks) - 1)
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
    fabric->in_host = fabric->bulk_posted = true;
    fabric->bulk_taken = (1u << fabric->nranks) - 1;
    fabric->copies = false;
    return TUTTI_SUCCESS;
}

static tutti_result_t reach_windows(struct fabric *fabric, const struct card *all)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int rank = 0; rank < fabric->nranks && result == TUTTI_SUCCESS; rank++) {
        CUdeviceptr address = fabric->window;
        if (rank != fabric->rank)
            result = scratch_reach(fabric, rank, &all[rank].window, SCRATCH_WINDOW, &address, &fabric->window_imported[rank]);
        fabric->windows[rank] = all[rank].window;
        fabric->kernels.window[rank] = (unsigned char *)(uintptr_t)address;
    }
    return result;
}

/* Whether a peer's memory can be mapped shows when it is: handles of other PID namespaces are refused, and some GPUs are not seen. All ranks hear. */
static tutti_result_t agree_on_windows(struct fabric *fabric, struct opening *opening, tutti_result_t reached, bool *all)
{
    if (reached != TUTTI_SUCCESS)
        log_info("rank %d: %s", fabric->rank, error_last());
    opening->mine.opened = reached == TUTTI_SUCCESS;
    tutti_result_t result = team_tell_all(fabric->team, &opening->mine, sizeof opening->mine, opening->all);
    *all = result == TUTTI_SUCCESS;
    for (int rank = 0; rank < fabric->nranks; rank++)
        *all = *all && opening->all[rank].opened;
    return result;
}

static tutti_result_t try_device_windows(struct fabric *fabric, struct opening *opening, bool *all)
{
    struct card *mine = &opening->mine;
    tutti_result_t result = scratch_window(fabric);
    if (result == TUTTI_SUCCESS)
        result = scratch_describe(fabric, fabric->window, SCRATCH_WINDOW, &mine->window);
    spend(opening, PART_WINDOW);
    /* A rank that failed does not go on, so that the others hear of it by the failed team. */
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(fabric->team, mine, sizeof *mine, opening->all);
    spend(opening, PART_MEETING);
    if (result == TUTTI_SUCCESS)
        result = agree_on_windows(fabric, opening, reach_windows(fabric, opening->all), all);
    spend(opening, PART_WINDOWS);
    if (result == TUTTI_SUCCESS && !*all)
        scratch_give_back_windows(fabric);
    return result;
}

static bool all_map_descriptors(const struct card *all, int nranks)
{
    bool can = true;
    for (int rank = 0; rank < nranks; rank++)
        can = can && all[rank].descriptors;
    return can;
}

/* By IPC handles, which every driver has; by descriptors, which go over the links; in host memory. */
static tutti_result_t use_device_windows(struct fabric *fabric, struct opening *opening)
{
    bool all;
    tutti_result_t result = try_device_windows(fabric, opening, &all);
    if (result == TUTTI_SUCCESS && !all && all_map_descriptors(opening->all, fabric->nranks)) {
        log_info("rank %d: some rank cannot open a window by its handle: descriptors are tried", fabric->rank);
        fabric->by_descriptor = true;
        fabric->sealed = fabric->window;
        fabric->window = 0;
        result = try_device_windows(fabric, opening, &all);
    }
    return result == TUTTI_SUCCESS && !all ? use_host_windows(fabric) : result;
}

static void tell_reach(const struct fabric *fabric)
{
    if (fabric->in_host)
        log_info("rank %d: not all GPUs reach one another: windows lie in host memory", fabric->rank);
    else
        log_info("rank %d: windows lie on the GPUs; links keep 128 bytes whole, so messages may carry a flag in each: %s", fabric->rank,
                 fabric->lines ? "yes" : "no");
}

/*
 * Where queues are few a stream that waits for a peer's copy, or a copy that waits for its turn, could hold up what the peer waits for; a
 * kernel that waits holds up nothing. All ranks come to the same answer.
 */
static bool copies_are_safe(const struct card *all, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].few_queues)
            return false;
    return true;
}

static tutti_result_t meet(struct fabric *fabric, struct opening *opening)
{
    struct team *team = fabric->team;
    struct card *mine = &opening->mine, *all = opening->all;
    memcpy(mine->gpu, fabric->device->uuid, sizeof mine->gpu);
    memcpy(mine->process, team->process[fabric->rank].uuid, sizeof mine->process);
    memcpy(mine->bus_id, fabric->device->bus_id, sizeof mine->bus_id);
    mine->descriptors = fabric->device->vmm;
    mine->blocks = fabric->room.most;
    mine->processors = (uint32_t)fabric->device->sms;
    mine->few_queues = cuda_queues_are_few();
    mine->policy = fabric->no_kernels ? TUTTI_POLICY_ZERO : TUTTI_POLICY_DEFAULT;
    mine->wants_host = param_int(PARAM_P2P_DISABLE) != 0 || p2p_level() == P2P_LOC;
    tutti_result_t result = team_tell_all(team, mine, sizeof *mine, all);
    if (result == TUTTI_SUCCESS)
        result = check_distinct(all, fabric->nranks);
    if (result == TUTTI_SUCCESS)
        result = check_alike(all, fabric->nranks);
    spend(opening, PART_MEETING);
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->room = find_room(all, fabric->nranks);
    for (int rank = 0; rank < fabric->nranks; rank++)
        fabric->here[rank] = memcmp(all[rank].process, mine->process, sizeof mine->process) == 0;
    fabric->apart = all_apart(all, fabric->nranks);
    if (fabric->copies && !copies_are_safe(all, fabric->nranks)) {
        log_info("rank %d: CUDA_DEVICE_MAX_CONNECTIONS makes streams share hardware queues: kernels carry all messages", fabric->rank);
        fabric->copies = false;
    }
    for (int rank = 0; rank < fabric->nranks; rank++) {
        bool through_scratch = fabric->here[rank] && rank != fabric->rank && param_int(PARAM_P2P_DIRECT_DISABLE);
        fabric->copies = fabric->copies && !through_scratch && (fabric->here[rank] || param_int(PARAM_COPY_PROCESSES) || fabric->no_kernels);
        fabric->stage = fabric->copies && !fabric->here[rank] ? (size_t)param_int(PARAM_COPY_STAGE) : fabric->stage;
    }
    find_reachable(fabric, all, mine);
    spend(opening, PART_ACCESS);
    result = team_tell_all(team, mine, sizeof *mine, all);
    spend(opening, PART_MEETING);
    if (result != TUTTI_SUCCESS)
        return result;
    result = all_reach_all(all, fabric->nranks) ? use_device_windows(fabric, opening) : use_host_windows(fabric);
    fabric->direct = fabric->nranks > 1 && !fabric->in_host;
    fabric->lines = !fabric->in_host && (fabric->protocols >> KERNEL_LINES & 1) && all_whole(all, fabric->nranks);
    tell_reach(fabric);
    for (int rank = 0; rank < fabric->nranks; rank++)
        fabric->direct = fabric->direct && fabric->here[rank] && !param_int(PARAM_P2P_DIRECT_DISABLE);
    return result;
}

static tutti_result_t register_board(struct fabric *fabric)
{
    tutti_result_t result = cuda_check(fabric->cu->MemHostRegister(fabric->board, BOARD_PINNED, PINNED), "pinning the board");
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->board_registered = true;
    return cuda_check(fabric->cu->MemHostGetDevicePointer(&fabric->board_device, fabric->board, 0), "finding the board's device address");
}

static tutti_result_t open_staged(struct fabric *fabric)
{
    tutti_result_t result = staged_open(fabric->team, fabric->device, &fabric->staged);
    if (result == TUTTI_SUCCESS)
        fabric->over = staged_word(fabric->staged, &fabric->over_device);
    return result;
}

static tutti_result_t open_here(struct fabric *fabric, int board, struct opening *opening)
{
    tutti_result_t result = cuda_check(fabric->cu->EventCreate(&fabric->sound, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(fabric->cu->EventCreate(&fabric->mark, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = side_make(fabric, &fabric->sounded);
    if (result == TUTTI_SUCCESS && !fabric->device->memops)
        result = error_set(TUTTI_DEVICE_ERROR, "device %d has no stream memory operations", fabric->device->ordinal);
    if (result == TUTTI_SUCCESS && board < 0)
        return open_staged(fabric);
    if (result == TUTTI_SUCCESS)
        result = board_map(board, fabric->nranks, &fabric->board);
    if (result == TUTTI_SUCCESS)
        result = register_board(fabric);
    spend(opening, PART_BOARD);
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->over = &fabric->board->rank[fabric->rank].over;
    fabric->over_device = board_address(fabric, fabric->over);
    fabric->kernels.abort = (const uint32_t *)(uintptr_t)board_address(fabric, &fabric->board->rank[fabric->rank].abort);
    fabric->pushes = param_int(PARAM_COPY_PUSH);
    fabric->copies = param_int(PARAM_COPY_FROM) > 0 || fabric->no_kernels;
    fabric->protocols = exchange_protocols();
    fabric->copy_from = fabric->no_kernels ? 1 : (size_t)param_int(PARAM_COPY_FROM);
    result = meet(fabric, opening);
    spend(opening, PART_WINDOWS);
    if (result == TUTTI_SUCCESS)
        result = helper_start(fabric);
    if (result == TUTTI_SUCCESS)
        result = import_start(fabric);
    spend(opening, PART_HELPER);
    return result;
}

struct fabric_order fabric_order(void)
{
    int policy = (int)param_int(PARAM_CTA_POLICY) % 3; /* by word or by number */
    return (struct fabric_order){.device = TUTTI_HOST, .blocks = (int)param_int(PARAM_BLOCKS), .policy = policy};
}

tutti_result_t fabric_open(struct team *team, const struct fabric_order *order, int board, struct fabric **out)
{
    _Static_assert(FABRIC_RANKS == KERNEL_RANKS, "as many as kernels know");
    if (board >= 0 && team->nranks > KERNEL_RANKS)
        return error_set(TUTTI_INVALID_USAGE, "%d ranks on the GPUs of one host; at most %d are supported", team->nranks, KERNEL_RANKS);
    struct opening opening = {.since = clock_ns()};
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a fabric");
    crew_join();
    fabric->team = team;
    fabric->rank = fabric->kernels.rank = team->rank;
    fabric->nranks = fabric->kernels.nranks = team->nranks;
    fabric->room.most = (unsigned)order->blocks;
    fabric->no_kernels = order->policy == TUTTI_POLICY_ZERO;
    list_init(&fabric->parcels);
    list_init(&fabric->old);
    list_init(&fabric->quiet);
    pthread_mutex_init(&fabric->lock, NULL);
    pthread_mutex_init(&fabric->offering, NULL);
    tutti_result_t result = cuda_driver(&fabric->cu);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_acquire(order->device, &fabric->device);
    spend(&opening, PART_CONTEXT);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_load(fabric->device); /* not later: loading may wait for kernels that wait for this rank */
    spend(&opening, PART_KERNELS);
    if (result == TUTTI_SUCCESS) {
        cuda_enter(fabric->device);
        result = open_here(fabric, board, &opening);
        cuda_leave();
    }
    if (result != TUTTI_SUCCESS) {
        fabric_close(fabric);
        return result;
    }
    record_open(fabric);
    tell_spent(fabric, &opening);
    quiet_join(fabric);
    *out = fabric;
    return TUTTI_SUCCESS;
}

void fabric_close(struct fabric *fabric)
{
    if (!fabric)
        return;
    if (fabric->device) {
        cuda_enter(fabric->device);
        if (fabric->over)
            fabric_synchronize(fabric); /* after a failure kernels and streams have been told to give up */
        fabric_tell_failure(fabric);
        quiet_leave(fabric);
        staged_close(fabric->staged);
        copy_close(fabric); /* while the helper still lets go what waits for peers that have failed */
        import_stop(fabric); /* likewise: it may be held up in the driver until that work ends */
        helper_stop(fabric);
        offer_close(fabric);
        import_close(fabric);
        record_close(fabric);
        side_end(fabric, fabric->sounded);
        graphs_close(fabric);
        if (fabric->sound)
            fabric->cu->EventDestroy(fabric->sound);
        scratch_close(fabric);
        cuda_leave();
        cuda_device_release(fabric->device);
    }
    crew_leave();
    pthread_mutex_destroy(&fabric->lock);
    pthread_mutex_destroy(&fabric->offering);
    free(fabric);
}

bool fabric_uses_team(const struct fabric *fabric)
{
    return fabric->staged != NULL;
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
