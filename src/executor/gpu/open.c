/* SPDX-License-Identifier: Apache-2.0 */
/* Making a GPU executor: which GPUs are there, can they reach one another, and where their windows are. */
#include "executor/gpu/open.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "device/cuda/device.h"
#include "device/cuda/nvml.h"
#include "engine/collective.h"
#include "engine/workers.h"
#include "executor/gpu/copy.h"
#include "executor/gpu/exit.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/helper.h"
#include "executor/gpu/here.h"
#include "executor/gpu/import.h"
#include "executor/gpu/leave.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/operation.h"
#include "executor/gpu/record.h"
#include "executor/gpu/scratch.h"
#include "executor/gpu/side.h"
#include "executor/gpu/symmetric.h"
#include "executor/gpu/windows.h"
#include "executor/gpu/tell.h"
#include "executor/gpu/wait.h"
#include "executor/stream/idle.h"
#include "executor/stream/ledger.h"
#include "plan/facts.h"
#include "wire/boxread.h"

#include <stdlib.h>
#include <string.h>

#define PINNED (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

/* What every rank tells every other. */
struct peer_info {
    uint8_t gpu[16]; /* its uuid */
    struct mailbox_buffer window;
    uint32_t descriptors; /* it can map them */
    char bus_id[16];      /* as in sysfs */
    struct facts_peer facts;
};

/* What takes the time of making one, for the log. */
enum open_part {
    PART_CONTEXT,
    PART_KERNELS,
    PART_MAILBOX,
    PART_MEETING,
    PART_ACCESS,
    PART_WINDOW,
    PART_WINDOWS,
    PART_HELPER,
    PARTS
};

struct opening {
    struct facts_settings settings;
    struct peer_info mine, all[KERNEL_RANKS];
    uint64_t since, spent[PARTS]; /* nanoseconds */
};

static void spend(struct opening *opening, enum open_part part)
{
    uint64_t now = clock_ns();
    opening->spent[part] += now - opening->since;
    opening->since = now;
}

static void tell_spent(const struct gpu *gpu, const struct opening *opening)
{
    double ms[PARTS], sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += ms[i] = (double)opening->spent[i] / NS_PER_MS;
    log_info("rank %d of %d on GPU %d made its executor in %.1f ms: context %.1f, kernels %.1f, mailbox %.1f, meeting "
             "the others %.1f, "
             "access %.1f, window %.1f, the others' windows %.1f, helper %.1f",
             gpu->rank, gpu->nranks, gpu->base.device->ordinal, sum, ms[PART_CONTEXT], ms[PART_KERNELS],
             ms[PART_MAILBOX], ms[PART_MEETING], ms[PART_ACCESS], ms[PART_WINDOW], ms[PART_WINDOWS], ms[PART_HELPER]);
}

/* Ranks that launch kernels of different grids would wait for one another for ever. */
static tutti_result_t check_alike(const struct gpu *gpu, const struct peer_info *all)
{
    const struct facts_peer *first = &all[0].facts;
    for (int rank = 1; rank < gpu->nranks; rank++) {
        const struct facts_peer *other = &all[rank].facts;
        if (other->blocks != first->blocks || other->policy != first->policy)
            return error_set(
                TUTTI_INVALID_USAGE,
                "rank %d has blocks %u and policy %u in its config, rank %d has %u and %u; make them the same",
                team_told_rank(gpu->base.team, 0), first->blocks, first->policy, team_told_rank(gpu->base.team, rank),
                other->blocks, other->policy);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t check_distinct(const struct gpu *gpu, const struct peer_info *all)
{
    for (int a = 0; a < gpu->nranks; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(all[a].gpu, all[b].gpu, sizeof all[a].gpu) == 0)
                return error_set(TUTTI_INVALID_USAGE, "rank %d and rank %d use the same GPU; give each rank its own",
                                 team_told_rank(gpu->base.team, b), team_told_rank(gpu->base.team, a));
    return TUTTI_SUCCESS;
}

enum { P2P_LOC, P2P_NVL, P2P_LEVELS = 6 };

/* The user's limit, by word or by number. Distances on PCI Express are not looked at: a GPU that can be reached may be
 * used. */
static int p2p_level(void)
{
    return (int)param_int(PARAM_P2P_LEVEL) % P2P_LEVELS;
}

/*
 * A rank of this process has a context on its GPU, and access is enabled. On any other rank's GPU none is made: opening
 * an IPC handle gives the access that it needs. A GPU that this process does not see (CUDA_VISIBLE_DEVICES) may be
 * reached all the same.
 */
static bool reaches(struct gpu *gpu, int rank, struct facts_peer *mine, const struct peer_info *theirs)
{
    int ordinal;
    if (rank == gpu->rank)
        return true;
    if (cuda_device_find(theirs->gpu, &ordinal) != TUTTI_SUCCESS)
        return false;
    if (ordinal < 0) {
        bool joined = nvml_joined(gpu->base.device->bus_id, theirs->bus_id);
        mine->whole |= joined ? 1u << rank : 0;
        return joined || p2p_level() != P2P_NVL;
    }
    tutti_result_t result =
        gpu->here[rank] ? cuda_device_peer(gpu->base.device, ordinal) : cuda_device_reaches(gpu->base.device, ordinal);
    bool whole = result == TUTTI_SUCCESS && cuda_device_whole(gpu->base.device, ordinal);
    mine->whole |= whole ? 1u << rank : 0;
    return whole || (result == TUTTI_SUCCESS && p2p_level() != P2P_NVL);
}

static void find_reachable(struct gpu *gpu, const struct peer_info *all, struct facts_peer *mine)
{
    for (int rank = 0; rank < gpu->nranks; rank++)
        if (reaches(gpu, rank, mine, &all[rank]))
            mine->reaches |= 1u << rank;
}

/* What follows from what all ranks have told so far. */
static void open_facts(struct gpu *gpu, const struct opening *opening)
{
    struct facts_peer peers[KERNEL_RANKS];
    for (int rank = 0; rank < gpu->nranks; rank++)
        peers[rank] = opening->all[rank].facts;
    gpu->plan.facts = facts_of(peers, gpu->nranks, &opening->settings);
}

static tutti_result_t use_host_windows(struct gpu *gpu)
{
    size_t head = mailbox_window(gpu->nranks, 0);
    CUdeviceptr windows = 0;
    tutti_result_t result =
        cuda_check(gpu->base.cu->MemHostRegister((char *)gpu->mailbox + head, mailbox_size(gpu->nranks) - head, PINNED),
                   "pinning windows in host memory");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(gpu->base.cu->MemHostGetDevicePointer(&windows, (char *)gpu->mailbox + head, 0),
                            "finding the windows' device address");
    if (result != TUTTI_SUCCESS)
        return result;
    gpu->scratch.in_host = true;
    for (int rank = 0; rank < gpu->nranks; rank++) {
        unsigned char *base = (unsigned char *)(uintptr_t)windows - head;
        gpu->kernels.window[rank] = base + mailbox_window(gpu->nranks, rank);
        gpu->kernels.bulk[rank] = base + mailbox_bulk(gpu->nranks, rank);
    }
    gpu->scratch.bulk_posted = true;
    gpu->scratch.bulk_taken = (1u << gpu->nranks) - 1;
    return TUTTI_SUCCESS;
}

static tutti_result_t reach_windows(struct gpu *gpu, const struct peer_info *all)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int rank = 0; rank < gpu->nranks && result == TUTTI_SUCCESS; rank++) {
        CUdeviceptr address = gpu->scratch.window;
        if (rank != gpu->rank)
            result = scratch_reach(gpu, rank, &all[rank].window, SCRATCH_WINDOW, &address,
                                   &gpu->scratch.window_imported[rank]);
        gpu->scratch.windows[rank] = all[rank].window;
        gpu->kernels.window[rank] = (unsigned char *)(uintptr_t)address;
    }
    return result;
}

/* Whether a peer's memory can be mapped shows when it is: handles of other PID namespaces are refused, and some GPUs
 * are not seen. All ranks hear. */
static tutti_result_t agree_on_windows(struct gpu *gpu, struct opening *opening, tutti_result_t reached)
{
    if (reached != TUTTI_SUCCESS)
        log_info("rank %d: %s", gpu->rank, error_last());
    opening->mine.facts.refused = reached != TUTTI_SUCCESS;
    tutti_result_t result = team_tell_all(gpu->base.team, &opening->mine, sizeof opening->mine, opening->all);
    if (result == TUTTI_SUCCESS)
        open_facts(gpu, opening);
    return result;
}

static tutti_result_t try_device_windows(struct gpu *gpu, struct opening *opening)
{
    struct peer_info *mine = &opening->mine;
    tutti_result_t result = scratch_window(gpu);
    if (result == TUTTI_SUCCESS)
        result = scratch_describe(gpu, gpu->scratch.window, SCRATCH_WINDOW, &mine->window);
    spend(opening, PART_WINDOW);
    /* A rank that failed does not go on, so that the others hear of it by the failed team. */
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(gpu->base.team, mine, sizeof *mine, opening->all);
    spend(opening, PART_MEETING);
    if (result == TUTTI_SUCCESS)
        result = agree_on_windows(gpu, opening, reach_windows(gpu, opening->all));
    spend(opening, PART_WINDOWS);
    if (result == TUTTI_SUCCESS && gpu->plan.facts.in_host)
        leave_give_back_windows(gpu);
    return result;
}

static bool all_map_descriptors(const struct peer_info *all, int nranks)
{
    bool can = true;
    for (int rank = 0; rank < nranks; rank++)
        can = can && all[rank].descriptors;
    return can;
}

/* Tries windows in turn: by IPC handles, which every driver has; by descriptors, which go over the links; in host
 * memory. */
static tutti_result_t use_windows(struct gpu *gpu, struct opening *opening)
{
    if (gpu->plan.facts.in_host)
        return use_host_windows(gpu);
    tutti_result_t result = try_device_windows(gpu, opening);
    if (result == TUTTI_SUCCESS && gpu->plan.facts.in_host && all_map_descriptors(opening->all, gpu->nranks)) {
        log_info("rank %d: some rank cannot open a window by its handle: descriptors are tried", gpu->rank);
        gpu->scratch.by_descriptor = true;
        gpu->scratch.sealed = gpu->scratch.window;
        gpu->scratch.window = 0;
        result = try_device_windows(gpu, opening);
    }
    return result == TUTTI_SUCCESS && gpu->plan.facts.in_host ? use_host_windows(gpu) : result;
}

static void tell_reach(const struct gpu *gpu)
{
    if (gpu->plan.facts.in_host)
        log_info("rank %d: not all GPUs reach one another: windows lie in host memory", gpu->rank);
    else
        log_info(
            "rank %d: windows lie on the GPUs; links keep 128 bytes whole, so messages may carry a flag in each: %s",
            gpu->rank, gpu->plan.facts.lines ? "yes" : "no");
}

static bool open_few_queues(const struct opening *opening, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (opening->all[rank].facts.few_queues)
            return true;
    return false;
}

static void introduce(const struct gpu *gpu, const struct executor_config *config, struct peer_info *mine)
{
    const struct cuda_device *device = gpu->base.device;
    memcpy(mine->gpu, device->uuid, sizeof mine->gpu);
    memcpy(mine->bus_id, device->bus_id, sizeof mine->bus_id);
    mine->descriptors = device->vmm;
    mine->facts =
        (struct facts_peer){.processors = device->clusters.processors,
                            .few_queues = cuda_queues_are_few(),
                            .wants_host = param_int(PARAM_P2P_DISABLE) != 0 || p2p_level() == P2P_LOC,
                            .blocks = (uint32_t)config->blocks,
                            .policy = config->policy == TUTTI_POLICY_ZERO ? TUTTI_POLICY_ZERO : TUTTI_POLICY_DEFAULT};
    memcpy(mine->facts.process, team_row(gpu->base.team, gpu->rank)->uuid, sizeof mine->facts.process);
}

/* Asks which ranks there are, and then which GPUs each of them reaches. */
static tutti_result_t meet(struct gpu *gpu, struct opening *opening)
{
    struct team *team = gpu->base.team;
    struct peer_info *mine = &opening->mine, *all = opening->all;
    tutti_result_t result = team_tell_all(team, mine, sizeof *mine, all);
    if (result == TUTTI_SUCCESS)
        result = check_distinct(gpu, all);
    if (result == TUTTI_SUCCESS)
        result = check_alike(gpu, all);
    spend(opening, PART_MEETING);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int rank = 0; rank < gpu->nranks; rank++)
        gpu->here[rank] = wire_same_process(all[rank].facts.process, mine->facts.process);
    find_reachable(gpu, all, &mine->facts);
    spend(opening, PART_ACCESS);
    result = team_tell_all(team, mine, sizeof *mine, all);
    spend(opening, PART_MEETING);
    if (result == TUTTI_SUCCESS)
        open_facts(gpu, opening);
    return result;
}

/* Gives each part of the executor what it must know of the facts. */
static void open_shapes(struct gpu *gpu)
{
    const struct plan_facts *facts = &gpu->plan.facts;
    plan_rules(facts->zero, &gpu->plan.rules);
    gpu->shapes = (struct gpu_shapes){plan_forms(&gpu->plan.rules, facts), facts->room, facts->in_host};
    if (param_int(PARAM_GROUP_SPREAD)) {
        gpu->turns.words.width = kernel_list_width(KERNEL_REDUCE_ONE, facts->room);
        gpu->turns.lines.width = kernel_list_width(KERNEL_REDUCE_LISTED, facts->room);
    }
    gpu->messages.by_kernel = !facts->zero;
    gpu->symmetric.wanted = gpu->nranks > 1 && facts->apart && !facts->in_host;
}

/* Windows, and how to use them. */
static tutti_result_t reach(struct gpu *gpu, struct opening *opening)
{
    bool few_queues = open_few_queues(opening, gpu->nranks);
    if (few_queues)
        log_info("rank %d: CUDA_DEVICE_MAX_CONNECTIONS makes streams share hardware queues: kernels carry all messages",
                 gpu->rank);
    if (gpu->plan.facts.copies && !here_are_all(gpu)) /* some messages between processes go through a stage */
        gpu->messages.stage = (size_t)param_int(PARAM_COPY_STAGE);
    tutti_result_t result = use_windows(gpu, opening);
    if (result != TUTTI_SUCCESS)
        return result;
    tell_reach(gpu);
    open_shapes(gpu);
    /* Clearing it later would come behind what this rank has called, which may wait for a peer that waits for it. */
    return few_queues ? scratch_post_bulk(gpu) : TUTTI_SUCCESS;
}

static tutti_result_t register_mailbox(struct gpu *gpu)
{
    tutti_result_t result =
        cuda_check(gpu->base.cu->MemHostRegister(gpu->mailbox, MAILBOX_PINNED, PINNED), "pinning the mailbox");
    if (result != TUTTI_SUCCESS)
        return result;
    gpu->mailbox_registered = true;
    return cuda_check(gpu->base.cu->MemHostGetDevicePointer(&gpu->mailbox_device, gpu->mailbox, 0),
                      "finding the mailbox's device address");
}

/* Which part of the mailbox is whose. */
static void share_out_mailbox(struct gpu *gpu)
{
    struct mailbox *mailbox = gpu->mailbox;
    gpu->ranks = mailbox->rank;
    gpu->failure = &mailbox->failure;
    gpu->captured = &mailbox->captured;
    gpu->messages.pair = mailbox->pair;
    gpu->offers.place = mailbox->offer;
    gpu->offers.places = mailbox->offers;
}

static tutti_result_t open_here(struct gpu *gpu, int mailbox, struct opening *opening)
{
    tutti_result_t result = mailbox_map(mailbox, gpu->nranks, &gpu->mailbox);
    if (result != TUTTI_SUCCESS)
        return result;
    share_out_mailbox(gpu);
    result = register_mailbox(gpu);
    spend(opening, PART_MAILBOX);
    if (result != TUTTI_SUCCESS)
        return result;
    gpu->base.tickets.over = &gpu->ranks[gpu->rank].over;
    gpu->base.tickets.over_device = side_address(gpu, gpu->base.tickets.over);
    gpu->base.tickets.times = gpu->ranks[gpu->rank].times;
    gpu->kernels.abort = (const uint32_t *)(uintptr_t)side_address(gpu, &gpu->ranks[gpu->rank].abort);
    gpu->kernels.times = (uint64_t *)(uintptr_t)side_address(gpu, gpu->ranks[gpu->rank].times);
    gpu->messages.pushes = param_int(PARAM_COPY_PUSH);
    gpu->messages.wait = (uint64_t)param_int(PARAM_COPY_WAIT);
    result = meet(gpu, opening);
    if (result == TUTTI_SUCCESS)
        result = reach(gpu, opening);
    spend(opening, PART_WINDOWS);
    if (result == TUTTI_SUCCESS)
        result = helper_start(gpu);
    if (result == TUTTI_SUCCESS) {
        exit_register();
        if (!gpu->plan.facts.in_host && !here_are_all(gpu))
            result = import_start(gpu);
    }
    spend(opening, PART_HELPER);
    return result;
}

static void write_ledger(struct gpu *gpu)
{
    size_t windows = mailbox_size(gpu->nranks) - sizeof(struct mailbox);
    ledger_add(&gpu->base, WIRE_MEMORY_TABLES, sizeof *gpu + record_bytes(gpu));
    ledger_add(&gpu->base, WIRE_MEMORY_MAILBOX, sizeof(struct mailbox));
    if (gpu->plan.facts.in_host)
        ledger_add(&gpu->base, WIRE_MEMORY_HOST_WINDOWS, windows);
}

tutti_result_t gpu_open(struct team *team, const struct executor_config *config, int mailbox, struct gpu **out)
{
    struct opening opening = {.since = clock_ns(), .settings = facts_settings()};
    struct gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a GPU executor");
    gpu->rank = gpu->kernels.rank = team->rank;
    gpu->nranks = gpu->kernels.nranks = team->nranks;
    gpu->held.kernel = KERNEL_NONE;
    list_init(&gpu->offers.passed_fds);
    list_init(&gpu->offers.old);
    list_init(&gpu->symmetric.memories);
    list_init(&gpu->windows.all);
    list_init(&gpu->near);
    pthread_mutex_init(&gpu->scratch.posting, NULL);
    pthread_mutex_init(&gpu->offers.lock, NULL);
    pthread_mutex_init(&gpu->offers.offering, NULL);
    pthread_mutex_init(&gpu->symmetric.lock, NULL);
    pthread_mutex_init(&gpu->windows.lock, NULL);
    pthread_mutex_init(&gpu->offers.telling, NULL);
    tutti_result_t result = base_open(&gpu->base, team, config->device, &gpu_stream_ops);
    spend(&opening, PART_CONTEXT);
    if (result == TUTTI_SUCCESS)
        result = base_load(&gpu->base);
    spend(&opening, PART_KERNELS);
    if (result == TUTTI_SUCCESS) {
        cuda_enter(gpu->base.device);
        introduce(gpu, config, &opening.mine);
        result = open_here(gpu, mailbox, &opening);
        cuda_leave();
    }
    if (result != TUTTI_SUCCESS) {
        gpu_close(gpu);
        return result;
    }
    record_open(gpu);
    tell_spent(gpu, &opening);
    write_ledger(gpu);
    idle_join(&gpu->base);
    here_join(gpu);
    *out = gpu;
    return TUTTI_SUCCESS;
}

void gpu_close(struct gpu *gpu)
{
    if (!gpu)
        return;
    if (gpu->base.device) {
        cuda_enter(gpu->base.device);
        if (gpu->base.tickets.over) {
            gpu_synchronize(gpu); /* after a failure kernels and streams have been told to give up */
            gpu_tell_failure(gpu);
        }
        here_leave(gpu);
        idle_leave(&gpu->base);
        copy_close(gpu);  /* while the helper still lets go what waits for peers that have failed */
        import_stop(gpu); /* also before the helper ends: it may be held up in the driver until that work ends */
        helper_stop(gpu);
        offer_close(gpu);
        tell_close(gpu);
        record_close(gpu);
        leave_close(gpu);
        cuda_leave();
    }
    base_close(&gpu->base);
    pthread_mutex_destroy(&gpu->scratch.posting);
    pthread_mutex_destroy(&gpu->offers.lock);
    pthread_mutex_destroy(&gpu->offers.offering);
    windows_close_all(gpu);
    symmetric_close_all(gpu);
    pthread_mutex_destroy(&gpu->symmetric.lock);
    pthread_mutex_destroy(&gpu->offers.telling);
    free(gpu);
}
