/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks TRANSPORT [SEED]: ranks that disagree, die, stop, abort or leave. Every other rank must say so in time, name
 * who it was, touch no buffer afterwards, and be able to go on without the lost one.
 */
#include "family.h"
#include "gpu.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE 200001

static int failures, scenarios;
static const char *tutti_program;

static void judge(bool right, struct family *family, const char *what)
{
    scenarios++;
    if (right)
        return;
    failures++;
    fprintf(stderr, "FAILED: %s, %d ranks, variant %d, victim %d, seed %llu\n", what, family->count, family->variant,
            family->victim, (unsigned long long)family->seed);
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        fprintf(stderr, "  rank %d: %s \"%s\" rounds %llu%s%s%s%s\n", rank, tutti_get_error_string(report->result),
                report->sentence, (unsigned long long)report->rounds, report->wrong ? " WRONG" : "",
                report->touched ? " TOUCHED" : "", report->went_on ? " went on" : "",
                report->ended ? "" : " not ended");
    }
}

/* ---- Ranks that call different things ---- */

static const struct mismatch {
    const char *name;
    struct job here, there; /* what most ranks call, what the last one calls */
} mismatches[] = {
    {"another collective",
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_ALLGATHER, .type = TUTTI_INT32, .count = 100}},
    {"another count",
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 90}},
    {"a larger count",
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = LARGE}},
    {"a smaller count",
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = LARGE},
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100}},
    {"another large count",
     {.kind = JOB_ALLGATHER, .type = TUTTI_INT32, .count = LARGE},
     {.kind = JOB_ALLGATHER, .type = TUTTI_INT32, .count = LARGE - 1}},
    {"another type",
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_ALLREDUCE, .type = TUTTI_FLOAT32, .count = 100}},
    {"another operator",
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .op = TUTTI_MAX, .count = 100}},
    {"another root",
     {.kind = JOB_BROADCAST, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_BROADCAST, .type = TUTTI_INT32, .root = 1, .count = 100}},
    {"another root of a large one",
     {.kind = JOB_REDUCE, .type = TUTTI_INT32, .count = LARGE},
     {.kind = JOB_REDUCE, .type = TUTTI_INT32, .root = 1, .count = LARGE}},
    {"fewer sent than expected",
     {.kind = JOB_EXCHANGE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_EXCHANGE, .type = TUTTI_INT32, .count = 90}},
    {"large sent, small expected",
     {.kind = JOB_EXCHANGE, .type = TUTTI_INT32, .count = 100},
     {.kind = JOB_EXCHANGE, .type = TUTTI_INT32, .count = LARGE}},
    {"small sent, large expected",
     {.kind = JOB_EXCHANGE, .type = TUTTI_INT32, .count = LARGE},
     {.kind = JOB_EXCHANGE, .type = TUTTI_INT32, .count = 90}},
};

static void disagree(struct family *family, int rank, tutti_comm_t comm)
{
    const struct mismatch *mismatch = &mismatches[family->variant];
    struct job first = {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 10};
    struct job job = rank == family->count - 1 ? mismatch->there : mismatch->here;
    tutti_result_t result = family_job(family, rank, rank, family->count, comm, &first);
    bool good_start = result == TUTTI_SUCCESS;
    job.seed = 1;
    if (good_start)
        result = family_run(family, rank, rank, family->count, comm, &job);
    /* a rank that needs nothing of the others in that call hears of it in the next */
    for (int i = 0; good_start && i < 3 && result == TUTTI_SUCCESS; i++)
        result = family_job(family, rank, rank, family->count, comm, &first);
    job_free(&first); /* kept when it failed */
    family_end(family, rank, comm, result);
    tutti_comm_destroy(comm);
    if (good_start)
        job_free(&job);
}

static void try_disagreements(uint64_t seed)
{
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++) {
        int count = 2 + (int)((i + seed) % 3);
        if (count == 2 && mismatches[i].there.root && mismatches[i].there.count <= 100)
            count = 3; /* two roots that send each other little do not wait, and so do not learn of it */
        bool right = true, told = false;
        struct family *family = family_start(count, -1, (int)i, seed, disagree);
        right &= family_wait(family, 80);
        for (int rank = 0; rank < count; rank++) {
            right &= family->report[rank].result != TUTTI_SUCCESS;
            told |=
                family->report[rank].result == TUTTI_INVALID_USAGE && strstr(family->report[rank].sentence, "rank ");
        }
        judge(right && told, family, mismatches[i].name);
        family_free(family);
    }
}

/* ---- Ranks that die ---- */

static const enum job_kind loops[] = {JOB_ALLREDUCE, JOB_ALLTOALL,  JOB_EXCHANGE,
                                      JOB_BROADCAST, JOB_ALLGATHER, JOB_REDUCE_SCATTER};
#define LOOPS (int)(sizeof loops / sizeof *loops)
static const char *const in_box[LOOPS] = {"allreduce", "alltoall", "group", "broadcast", "allgather", "reduce_scatter"};

static struct job loop_job(const struct family *family, uint64_t round)
{
    static const size_t counts[] = {1, 1000, LARGE};
    enum job_kind kind = loops[family->variant % LOOPS];
    size_t count = counts[data_hash(family->seed, round) % 3];
    return (struct job){.kind = kind,
                        .type = TUTTI_INT32,
                        .count = kind == JOB_ALLREDUCE || kind == JOB_BROADCAST ? count : count / 4 + 1,
                        .root = (int)(round % (uint64_t)family->count),
                        .seed = data_hash(family->seed, round)};
}

/* The rest join hands and must be right again, also where the failed communicator is gone at once: its news must have
 * been sent by then. */
static bool go_on(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t rest = NULL;
    if (tutti_comm_shrink(comm, &family->victim, 1, &rest, NULL) != TUTTI_SUCCESS) {
        fprintf(stderr, "  rank %d: shrink: %s\n", rank, tutti_get_last_error(NULL));
        tutti_comm_destroy(comm);
        return false;
    }
    int place = rank - (rank > family->victim);
    bool right = true;
    if (family->variant % 2)
        tutti_comm_destroy(comm);
    for (uint64_t i = 0; i < 6 && right; i++) {
        struct job job = loop_job(family, i);
        job.root %= family->count - 1;
        right = family_job(family, rank, place, family->count - 1, rest, &job) == TUTTI_SUCCESS;
    }
    tutti_comm_destroy(rest);
    if (family->variant % 2 == 0)
        tutti_comm_destroy(comm);
    return right && !family->report[rank].wrong;
}

static void work_until_death(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_result_t result = TUTTI_SUCCESS;
    struct job job;
    for (uint64_t round = 0; result == TUTTI_SUCCESS; round++) {
        job = loop_job(family, round);
        result = family_job(family, rank, rank, family->count, comm, &job);
    }
    family_end(family, rank, comm, result);
    uint64_t before = job_digest(&job);
    family_nap(300);
    family->report[rank].touched = job_digest(&job) != before;
    family->report[rank].went_on = go_on(family, rank, comm);
    job.made = false;
    job_free(&job);
}

/* A row of the table of operations that `tutti trace` prints. */
struct box_row {
    unsigned long long seq, count;
    char collective[32], type[32];
    bool done;
};

/* Over shared memory the first collective of a communicator is the ranks' agreement that all have made it. Groups have
 * numbers of their own. */
static unsigned long long agreements_before(const struct box_row *row)
{
    const char *over = getenv("TUTTI_TRANSPORT");
    return over && strcmp(over, "shm") == 0 && row->seq && strcmp(row->collective, "group") != 0;
}

/* The newest operation of ours in a process's black box; seq 0: it shows none. */
static struct box_row newest_row(pid_t pid)
{
    const char *emulator = getenv("MESON_EXE_WRAPPER"); /* of a build for another processor */
    char command[400], line[400];
    struct box_row newest = {0};
    snprintf(command, sizeof command, "%s %s trace --all-ops --pid %d 2>&1", emulator ? emulator : "", tutti_program,
             (int)pid);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        struct box_row row = {.done = strstr(line, " done ")};
        if (sscanf(line, " %llu %31s %llu %31s", &row.seq, row.collective, &row.count, row.type) == 4)
            newest = row;
    }
    if (pipe)
        pclose(pipe);
    newest.seq -= agreements_before(&newest);
    return newest;
}

/* The dead process's black box tells what it was doing: the call that it was in, or the last one that had returned. */
static bool box_tells(const struct family *family, pid_t pid)
{
    const struct family_report *victim = &family->report[family->victim];
    uint64_t begun = atomic_load(&victim->begun), issued = atomic_load(&victim->issued),
             rounds = atomic_load(&victim->rounds);
    struct box_row row = newest_row(pid);
    bool right = row.seq >= issued && row.seq <= begun;
    if (right && row.seq) { /* it may have been killed before its first call */
        struct job job = loop_job(family, row.seq - 1);
        right = strcmp(row.collective, in_box[family->variant % LOOPS]) == 0 && row.count == job.count &&
                strcmp(row.type, "int32") == 0 && (row.done || row.seq > rounds);
    }
    if (!right)
        fprintf(stderr,
                "  the black box of process %d shows #%llu %s of %llu %s%s; begun %llu, issued %llu, checked %llu\n",
                (int)pid, row.seq, row.collective, row.count, row.type, row.done ? ", done" : "",
                (unsigned long long)begun, (unsigned long long)issued, (unsigned long long)rounds);
    return right;
}

static bool names_rank(const char *sentence, int rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d", rank);
    for (const char *at = sentence; (at = strstr(at, name)); at++)
        if (at[strlen(name)] < '0' || at[strlen(name)] > '9')
            return true;
    return false;
}

/* Of ranks that do not see a peer's socket close. Where all live, a loaded machine must not look like a dead one. */
static void set_patience(bool all_live)
{
    setenv("TUTTI_TIMEOUT", all_live ? "20s" : "3s", 1);
}

static void try_death(int count, int variant, uint64_t seed, const char *algorithm)
{
    int victim = (int)(data_hash(seed, 1) % (uint64_t)count);
    if (algorithm)
        setenv("TUTTI_ALGO", algorithm, 1);
    struct family *family = family_start(count, victim, variant, seed, work_until_death);
    unsetenv("TUTTI_ALGO");
    bool right = family_wait_joined(family);
    pid_t pid = family->pid[victim];
    family_nap((int)(data_hash(seed, 2) % 40));
    kill(pid, SIGKILL);
    right &= family_wait(family, 60);
    right &= gpu_wanted() || box_tells(family, pid);
    for (int rank = 0; rank < count; rank++) {
        const struct family_report *report = &family->report[rank];
        if (rank == victim)
            continue;
        right &= report->result == TUTTI_REMOTE_ERROR && names_rank(report->sentence, victim) && !report->wrong &&
                 !report->touched && report->went_on;
    }
    judge(right, family, job_name(loops[variant % LOOPS]));
    family_free(family);
}

/* ---- Ranks that stop for a while, leave early, or give up ---- */

static void work_for_a_while(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_result_t result = TUTTI_SUCCESS;
    struct job job;
    for (uint64_t round = 0; result == TUTTI_SUCCESS; round++) {
        int32_t stop = atomic_load(&family->stop), any = 0;
        job = loop_job(family, round);
        result = family_job(family, rank, rank, family->count, comm, &job);
        if (result == TUTTI_SUCCESS)
            result = tutti_allreduce(&stop, &any, 1, TUTTI_INT32, TUTTI_MAX, comm, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
        if (any)
            break;
    }
    family_end(family, rank, comm, result);
    tutti_comm_destroy(comm);
}

static void try_pause(int count, int variant, uint64_t seed)
{
    set_patience(true);
    struct family *family = family_start(count, -1, variant, seed, work_for_a_while);
    set_patience(false);
    int which = (int)(data_hash(seed, 3) % (uint64_t)count);
    bool right = family_wait_joined(family);
    family_nap((int)(data_hash(seed, 4) % 40));
    kill(family->pid[which], SIGSTOP);
    family_nap(1000);
    kill(family->pid[which], SIGCONT);
    family_nap(100);
    atomic_store(&family->stop, true);
    right &= family_wait(family, 60);
    for (int rank = 0; rank < count; rank++)
        right &= family->report[rank].result == TUTTI_SUCCESS && !family->report[rank].wrong;
    judge(right, family, "a rank that was stopped for a second");
    family_free(family);
}

/* Each variant ends with an operation that some ranks finish long before others. */
static void leave_early(struct family *family, int rank, tutti_comm_t comm)
{
    static const enum job_kind last[] = {JOB_BROADCAST, JOB_REDUCE,    JOB_GATHER,
                                         JOB_SCATTER,   JOB_ALLREDUCE, JOB_EXCHANGE};
    static const size_t counts[] = {3, 1000, LARGE};
    struct job jobs[3];
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct job){.kind = last[family->variant % 6],
                               .type = TUTTI_INT32,
                               .count = counts[(family->variant / 6 + i) % 3],
                               .root = i % family->count,
                               .seed = family->seed + (uint64_t)i};
        job_prepare(&jobs[i], comm, rank, family->count);
    }
    if (rank == (int)(family->seed % (uint64_t)family->count))
        family_nap(150); /* the others are gone by then, if they may be */
    for (int i = 0; i < 3 && result == TUTTI_SUCCESS; i++)
        result = job_issue(&jobs[i], NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    for (int i = 0; i < 3; i++) {
        if (result == TUTTI_SUCCESS)
            family->report[rank].wrong |= !job_check(&jobs[i]);
        job_free(&jobs[i]);
    }
    family_end(family, rank, comm, result);
    tutti_comm_destroy(comm);
}

static void try_leaving(int count, int variant, uint64_t seed)
{
    set_patience(true);
    struct family *family = family_start(count, -1, variant, seed, leave_early);
    set_patience(false);
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < count; rank++)
        right &= family->report[rank].result == TUTTI_SUCCESS && !family->report[rank].wrong;
    judge(right, family, "ranks that leave when they are done");
    family_free(family);
}

struct quitter {
    struct family *family;
    tutti_comm_t comm;
};

/* Not before the others have joined: they would fail of that. */
static void *abort_soon(void *argument)
{
    const struct quitter *quitter = argument;
    family_wait_joined(quitter->family);
    family_nap(30);
    tutti_comm_abort(quitter->comm);
    return NULL;
}

static void give_up(struct family *family, int rank, tutti_comm_t comm)
{
    pthread_t thread;
    struct quitter quitter = {family, comm};
    bool gives_up = rank == (int)(family->seed % (uint64_t)family->count);
    tutti_result_t result = TUTTI_SUCCESS;
    struct job job;
    if (gives_up && pthread_create(&thread, NULL, abort_soon, &quitter) != 0)
        exit(5);
    for (uint64_t round = 0; result == TUTTI_SUCCESS; round++) {
        job = loop_job(family, round);
        result = family_job(family, rank, rank, family->count, comm, &job);
    }
    uint64_t before = job_digest(&job);
    family_end(family, rank, comm, result);
    family_nap(200);
    family->report[rank].touched = job_digest(&job) != before;
    if (gives_up)
        pthread_join(thread, NULL);
    tutti_comm_destroy(comm);
    job.made = false;
    job_free(&job);
}

static void try_abort(int count, int variant, uint64_t seed)
{
    struct family *family = family_start(count, -1, variant, seed, give_up);
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < count; rank++)
        right &= family->report[rank].result == TUTTI_REMOTE_ERROR && !family->report[rank].wrong &&
                 !family->report[rank].touched;
    judge(right, family, "abort in another thread");
    family_free(family);
}

/* All but the last rank call: their GPUs wait until rank 0 gives up in another thread. */
static void wait_in_vain(struct family *family, int rank, tutti_comm_t comm)
{
    struct job job = {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = family->variant % 2 ? LARGE : 100};
    struct quitter quitter = {family, comm};
    tutti_result_t result;
    pthread_t thread;
    if (rank == family->count - 1) {
        while (!atomic_load(&family->stop))
            family_nap(1);
        family_end(family, rank, comm, TUTTI_REMOTE_ERROR);
        tutti_comm_destroy(comm);
        return;
    }
    if (rank == 0 && pthread_create(&thread, NULL, abort_soon, &quitter) != 0)
        exit(5);
    result = family_run(family, rank, rank, family->count, comm, &job);
    family_end(family, rank, comm, result);
    if (rank == 0)
        pthread_join(thread, NULL);
    tutti_comm_destroy(comm);
    job_free(&job);
    atomic_fetch_add(&family->report[rank].rounds, 1);
}

/* fault: of rank 1's driver, which refuses it memory of rank 0, as it does when rank 0 has aborted and freed that. */
static void try_vain(int count, int variant, const char *fault, uint64_t seed)
{
    struct family *family = family_start_with(count, fault ? 1 : -1, fault, variant, seed, wait_in_vain);
    bool right = family_wait_joined(family);
    for (int i = 0; i < 20000 && right && !atomic_load(&family->report[0].rounds); i++)
        family_nap(1);
    atomic_store(&family->stop, true);
    right &= family_wait(family, 60);
    for (int rank = 0; rank < count; rank++)
        right &= family->report[rank].result == TUTTI_REMOTE_ERROR;
    judge(right, family, "abort while GPUs wait");
    family_free(family);
}

/* ---- A rank that dies while another's calls of the driver wait for work that waits for it ---- */

#define OFFERED 20000 /* bytes of a message by copy engine */

static void *free_soon(void *memory)
{
    gpu_select(0);
    tutti_device_mem_free(memory);
    return NULL;
}

/* The last rank never calls. Rank 1 offers rank 0 a buffer, to map which it comes behind a call that waits for the
 * GPU's work. */
static void wait_in_driver(struct family *family, int rank, tutti_comm_t comm)
{
    struct job job = {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 100};
    struct family_report *report = &family->report[rank];
    void *memory = NULL;
    pthread_t thread;
    if (rank == family->victim)
        for (;;)
            family_nap(1000);
    tutti_result_t result = tutti_device_mem_alloc(&memory, OFFERED);
    job_prepare(&job, comm, rank, family->count);
    if (result == TUTTI_SUCCESS)
        result = job_issue(&job, NULL);
    if (rank == 0 && pthread_create(&thread, NULL, free_soon, memory) != 0)
        exit(5);
    atomic_fetch_add(&report->issued, 1);
    while (rank == 1 && !atomic_load(&family->report[0].issued))
        family_nap(1);
    family_nap(rank == 1 ? 200 : 0); /* most likely it waits by now */
    if (rank == 1 && result == TUTTI_SUCCESS)
        result = tutti_send(memory, OFFERED, TUTTI_UINT8, 0, comm, NULL);
    atomic_fetch_add(&report->rounds, 1);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    family_end(family, rank, comm, result);
    if (rank == 0)
        pthread_join(thread, NULL);
    tutti_comm_destroy(comm);
    if (rank == 1)
        tutti_device_mem_free(memory);
    job_free(&job);
}

static void try_driver(void)
{
    enum { COUNT = 3, VICTIM = 2 };
    struct family *family = family_start(COUNT, VICTIM, 0, 1, wait_in_driver);
    bool right = family_wait_joined(family);
    for (int i = 0; i < 20000 && right && !atomic_load(&family->report[1].rounds); i++)
        family_nap(1);
    family_nap(200);
    kill(family->pid[VICTIM], SIGKILL);
    right &= family_wait(family, 60);
    for (int rank = 0; rank < VICTIM; rank++)
        right &= family->report[rank].result == TUTTI_REMOTE_ERROR && names_rank(family->report[rank].sentence, VICTIM);
    judge(right, family, "a death while calls of the driver wait");
    family_free(family);
}

/* Black boxes of the dead stay: they go into a folder of this test. */
static bool make_box_folder(char *folder)
{
    if (!mkdtemp(folder) || setenv("TUTTI_TRACE_DIR", folder, 1) != 0) {
        fprintf(stderr, "cannot make the folder %s: %m\n", folder);
        return false;
    }
    return true;
}

static void remove_box_folder(const char *folder)
{
    DIR *boxes = opendir(folder);
    for (struct dirent *entry; boxes && (entry = readdir(boxes));)
        unlinkat(dirfd(boxes), entry->d_name, 0); /* but not . and .. */
    if (boxes)
        closedir(boxes);
    rmdir(folder);
}

/* Each way of the GPU code, with a rank that dies, one that aborts while the others' GPUs wait, and ranks that leave
 * early. */
static void try_gpus(uint64_t seed, bool quick)
{
    static const char *const ways[][3] = {
        {"TUTTI_COPY_FROM", "0", "0"},   {"TUTTI_COPY_FROM", "1K", "0"},  {"TUTTI_COPY_FROM", "1K", "1"},
        {"TUTTI_CHAIN_FROM", "1", "0"}, /* the one that broadcasts */
        {"TUTTI_SHM_DISABLE", "1", "0"}, {"TUTTI_P2P_DISABLE", "1", "0"}, {"TUTTI_CTA_POLICY", "zero", "1"}};
    setenv("TUTTI_COPY_PROCESSES", "1", 1);
    setenv("TUTTI_COPY_STAGE", "16K", 1);
    setenv("TUTTI_STAGE_THREADS", "3", 1);
    setenv("TUTTI_STAGE_SLICE", "64K", 1);
    setenv("TUTTI_COPY_FROM", "1K", 1);
    setenv("TUTTI_EMULATED_BLOCK", "1", 1);
    try_driver();
    try_vain(3, 1, "cuIpcOpenMemHandle:3:1", seed); /* after the windows of two peers */
    unsetenv("TUTTI_COPY_FROM");
    for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++) {
        setenv(ways[i][0], ways[i][1], 1);
        setenv("TUTTI_EMULATED_BLOCK", ways[i][2], 1);
        try_death(quick ? 2 : 2 + i % 3, i, seed + (uint64_t)i, NULL);
        if (!quick || i < 3)
            try_abort(quick ? 2 : 2 + i % 3, i, seed + (uint64_t)i);
        if (!quick || i == 2 || i == 4)
            try_vain(quick ? 2 : 2 + i % 3, i, NULL, seed);
        if (!quick || i > 1)
            try_leaving(quick ? 2 : 2 + i % 3, i, seed + (uint64_t)i);
        unsetenv(ways[i][0]);
    }
}

int main(int argc, char **argv)
{
    char boxes[] = "/dev/shm/tutti-test-XXXXXX";
    static const char *const algorithms[] = {NULL, "ring", "allreduce:ring;alltoall:pairwise;broadcast:tree",
                                             "allreduce:tree;alltoall:bruck"};
    if (argc < 3)
        return 2;
    bool quick = getenv("TUTTI_TEST_QUICK") != NULL;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    tutti_program = argv[1];
    if (!gpu_wanted())
        setenv("TUTTI_TRANSPORT", argv[2], 1);
    set_patience(false);
    setenv("TUTTI_DEBUG", "none", 0);
    if (!make_box_folder(boxes))
        return 2;
    if (gpu_wanted()) {
        try_gpus(seed, quick);
        remove_box_folder(boxes);
        printf("%d scenarios, %d failed\n", scenarios, failures);
        return failures != 0;
    }
    try_disagreements(seed);
    for (int i = 0; i < (quick ? 6 : 24); i++)
        try_death(2 + i % 5, i, seed + (uint64_t)i, algorithms[i / LOOPS % 4]);
    for (int i = 0; i < (quick ? 2 : 6); i++)
        try_pause(2 + i % 3, i, seed + (uint64_t)i);
    for (int i = 0; i < 18; i++)
        try_leaving(2 + i % 3, i, seed + (uint64_t)i);
    for (int i = 0; i < 6; i++)
        try_abort(2 + i % 3, i, seed + (uint64_t)i);
    remove_box_folder(boxes);
    printf("%d scenarios, %d failed\n", scenarios, failures);
    return failures != 0;
}
