/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small calls that are made again and again: an operation is over in its call, without a place in the queue, when all
 * others are there. Their results, and what becomes of them when ranks call something else, die, give up, stop, or are
 * threads of one process. Each scene ends with a look into the black box for the number of operations that went that
 * way.
 */
#include "box.h"
#include "job.h"

#include "wire/boxfile.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN    5 /* the third equal call is the first that can go that way */
#define MOST     8
#define WHILE    400
#define ATTEMPTS 5

struct scene {
    const char *name;
    int nranks;
    int (*run)(int rank, int nranks, tutti_comm_t comm);
    int timeout_ms; /* longer than a living rank waits for a processor */
    bool dies;      /* the last rank */
};

static struct shared {
    tutti_unique_id_t id;
    _Atomic bool made;
    _Atomic uint64_t at_once, wanted;
    _Atomic int called; /* ranks whose call has returned */
    _Atomic bool missed;
} * shared;

static char folder[] = "/tmp/tutti-at-once-XXXXXX";

static int complain(const char *what, int rank, tutti_comm_t comm)
{
    fprintf(stderr, "  rank %d: %s: %s\n", rank, what, tutti_get_last_error(comm));
    return 1;
}

static uint64_t count_at_once(void)
{
    return box_counter(WIRE_COUNTER_OPERATIONS_AT_ONCE);
}

/* The latest call was over at once; but for a chance, as another thread of the library may look after links then. */
static void want_at_once(uint64_t before)
{
    if (count_at_once() != before + 1)
        atomic_store(&shared->missed, true);
}

static tutti_result_t sum(uint64_t *value, tutti_comm_t comm)
{
    tutti_result_t result = tutti_allreduce(value, value, 1, TUTTI_UINT64, TUTTI_SUM, comm, NULL);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* ---- Results ---- */

static int repeat(struct job pattern, int rank, int nranks, tutti_comm_t comm)
{
    for (int i = 0; i < AGAIN; i++) {
        struct job job = pattern;
        job.seed = (uint64_t)i + 1;
        job_prepare(&job, comm, rank, nranks);
        if ((rank + i) % 3 == 0)
            usleep(200); /* each is the last now and then */
        if (job_issue(&job, NULL) != TUTTI_SUCCESS || tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
            return complain(job_name(job.kind), rank, comm);
        if (!job_check(&job))
            return complain("a wrong result", rank, NULL);
        job_free(&job);
    }
    return 0;
}

/* Each call in some sizes, types and ways. */
static int run_results(int rank, int nranks, tutti_comm_t comm)
{
    static const size_t counts[] = {1, 3, 61, 700};
    static const tutti_type_t types[] = {TUTTI_FLOAT64, TUTTI_BFLOAT16, TUTTI_INT32, TUTTI_UINT8};
    uint64_t patterns = 0;
    int wrong = 0;
    for (int kind = 0; kind < JOB_KINDS && !wrong; kind++) {
        if (kind == JOB_ALLTOALLV || kind == JOB_EXCHANGE)
            continue;
        for (int i = 0; i < 8 && !wrong; i++) {
            struct job job = {.kind = (enum job_kind)kind, .type = types[i % 4], .count = counts[(i + i / 4) % 4]};
            job.send_skew = i;
            job.recv_skew = 3 * i;
            job.op = job_reduces(job.kind) ? i % TUTTI_OP_COUNT : 0;
            job.root = job_rooted(job.kind) ? i % nranks : 0;
            job.in_place = job_may_be_in_place(job.kind) && i / 2 % 2;
            wrong = repeat(job, rank, nranks, comm);
            patterns++;
        }
    }
    atomic_store(&shared->wanted, patterns);
    return wrong;
}

/* Many at once, one behind the other: those that find the queue empty and those that do not. */
static int run_behind(int rank, int nranks, tutti_comm_t comm)
{
    for (int round = 0; round < 15; round++) {
        uint64_t value = 1, right = 1;
        for (int i = 0; i < 20; i++) {
            if ((i + round + rank) % 7 == 0)
                usleep(100);
            right = right * (uint64_t)nranks + (uint64_t)(i % 2);
            if (tutti_allreduce(&value, &value, 1, TUTTI_UINT64, TUTTI_SUM, comm, NULL) != TUTTI_SUCCESS)
                return complain("allreduce", rank, comm);
            if (i % 2 && tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
                return complain("synchronize", rank, comm);
            if (i % 2)
                value++;
            if (tutti_broadcast(&value, &value, 1, TUTTI_UINT64, i % nranks, comm, NULL) != TUTTI_SUCCESS)
                return complain("broadcast", rank, comm);
        }
        if (tutti_comm_synchronize(comm) != TUTTI_SUCCESS || value != right)
            return complain("a wrong result", rank, comm);
    }
    atomic_store(&shared->wanted, 20);
    return 0;
}

/* What making communicators costs in operations of the library's own: docs/understand/comm.md. */
static int run_making(int rank, int nranks, tutti_comm_t comm)
{
    const struct {
        const char *what;
        uint64_t operations;
    } expected[] = {
        {"making it", 1}, {"a split that has this rank", 4}, {"a split that has it not", 3}, {"a shrink", 2}};
    uint64_t before = 0;
    for (int i = 0; i < 4; i++) {
        tutti_comm_t child = NULL;
        int color = i == 1 || rank ? 0 : TUTTI_SPLIT_NOCOLOR;
        tutti_result_t result = i == 0   ? TUTTI_SUCCESS
                                : i == 3 ? tutti_comm_shrink(comm, NULL, 0, &child, NULL)
                                         : tutti_comm_split(comm, color, rank, &child, NULL);
        uint64_t now = box_counter(WIRE_COUNTER_OPERATIONS);
        if (result != TUTTI_SUCCESS || tutti_comm_destroy(child) != TUTTI_SUCCESS)
            return complain(expected[i].what, rank, comm);
        if (now - before != expected[i].operations && (i != 2 || !rank)) {
            fprintf(stderr, "  rank %d: %s took %llu operations\n", rank, expected[i].what,
                    (unsigned long long)(now - before));
            return 1;
        }
        before = now;
    }
    return nranks < 2;
}

/* Sums that depend on the order: from rank 0 on, on all ranks. */
static int run_order(int rank, int nranks, tutti_comm_t comm)
{
    for (int i = 0; i < 60; i++) {
        float value = 0.1f * (float)(i + 1) / (float)(rank + 3), all = 0, right = 0.1f * (float)(i + 1) / 3;
        for (int other = 1; other < nranks; other++)
            right += 0.1f * (float)(i + 1) / (float)(other + 3);
        if ((i + rank) % 5 == 0)
            usleep(100);
        if (tutti_allreduce(&value, &all, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) != TUTTI_SUCCESS ||
            tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
            return complain("allreduce", rank, comm);
        if (memcmp(&all, &right, sizeof all) != 0)
            return complain("a sum in another order", rank, comm);
    }
    atomic_store(&shared->wanted, 30);
    return 0;
}

/* ---- Messages ---- */

/* Bytes that came, and those behind that none came for. */
static bool is_received(const unsigned char *in, size_t size, size_t count, unsigned char value)
{
    return (count == 0 || (in[0] == value && memcmp(in, in + 1, count - 1) == 0)) &&
           (count == size || (in[count] == 255 && memcmp(in + count, in + count + 1, size - count - 1) == 0));
}

/* To and fro, so that now the receiver and now the sender comes first; of all lengths up to beyond what rides in a
 * ring. */
static int run_messages(int rank, int nranks, tutti_comm_t comm)
{
    static unsigned char out[300000], in[300000];
    for (int i = 0; i < 150; i++) {
        size_t count = i % 50 == 49 ? sizeof out : (size_t)(i * i) % 3000;
        memset(out, i + rank, count);
        memset(in, 255, sizeof in);
        if ((i / 2 + rank) % 3 == 0)
            usleep(100);
        bool sends = (i + rank) % 2 == 0;
        tutti_result_t result = sends ? tutti_send(out, count, TUTTI_UINT8, 1 - rank, comm, NULL)
                                      : tutti_recv(in, count, TUTTI_UINT8, 1 - rank, comm, NULL);
        if (result != TUTTI_SUCCESS || (i % 4 == 0 && tutti_comm_synchronize(comm) != TUTTI_SUCCESS))
            return complain("a message", rank, comm);
        if (tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
            return complain("synchronize", rank, comm);
        if (!sends && !is_received(in, sizeof in, count, (unsigned char)(i + 1 - rank)))
            return complain("wrong data", rank, NULL);
    }
    atomic_store(&shared->wanted, 100);
    return 0;
}

/* A send and a receive in one group, in either order, one after another and many ahead of who waits: two calls of their
 * own, if there is room. */
static int run_exchanges(int rank, int nranks, tutti_comm_t comm)
{
    static unsigned char out[8][200000], in[8][200000];
    for (int i = 0; i < 100; i++) {
        int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks, ahead = i % 10 == 9 ? 8 : 1;
        size_t count = i % 40 == 19 ? sizeof out[0] : (size_t)(i * i) % 3000;
        if ((i / 2 + rank) % 3 == 0)
            usleep(100);
        for (int k = 0; k < ahead; k++) {
            memset(out[k], i + k + rank, count);
            memset(in[k], 255, sizeof in[k]);
            tutti_group_start();
            for (int half = 0; half < 2; half++)
                if ((half + i) % 2)
                    tutti_send(out[k], count, TUTTI_UINT8, right, comm, NULL);
                else
                    tutti_recv(in[k], count, TUTTI_UINT8, left, comm, NULL);
            if (tutti_group_end() != TUTTI_SUCCESS)
                return complain("an exchange", rank, comm);
        }
        if (tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
            return complain("synchronize", rank, comm);
        for (int k = 0; k < ahead; k++)
            if (!is_received(in[k], sizeof in[k], count, (unsigned char)(i + k + left)))
                return complain("wrong data", rank, NULL);
    }
    atomic_store(&shared->wanted, (uint64_t)(75 * nranks)); /* the sends alone */
    return 0;
}

/* One that has come and is of another type than the one that is received. */
static int run_other_messages(int rank, int nranks, tutti_comm_t comm)
{
    static float data[4]; /* rank 0 returns with its message under way */
    uint64_t value = 1, before;
    if (tutti_send(data, 4, TUTTI_FLOAT32, 1 - rank, comm, NULL) != TUTTI_SUCCESS ||
        tutti_recv(data, 4, TUTTI_FLOAT32, 1 - rank, comm, NULL) != TUTTI_SUCCESS || sum(&value, comm) != TUTTI_SUCCESS)
        return complain("messages that fit", rank, comm);
    if (rank == 0) {
        tutti_result_t result = tutti_send(data, 4, TUTTI_FLOAT32, 1, comm, NULL);
        atomic_fetch_add(&shared->called, 1);
        return result == TUTTI_SUCCESS ? 0 : complain("send", rank, comm);
    }
    while (atomic_load(&shared->called) == 0)
        usleep(1000);
    before = count_at_once();
    if (tutti_recv(data, 4, TUTTI_INT32, 0, comm, NULL) != TUTTI_SUCCESS)
        return complain("a receive of another type", rank, comm);
    want_at_once(before);
    tutti_result_t result = tutti_comm_synchronize(comm);
    const char *said = tutti_get_last_error(comm);
    if (result == TUTTI_INVALID_USAGE && strstr(said, "of 4 float") && strstr(said, "of 4 int32") &&
        strstr(said, "rank 0"))
        return 0;
    return complain("the receive of another type", rank, comm);
}

/* ---- Other calls ---- */

static const char *const ways[] = {"allreduce of 4 float, sum",
                                   "allreduce of 4 float, max",
                                   "reduce of 4 float, sum, root 1",
                                   "broadcast of 4 float, root 0",
                                   "broadcast of 4 float, root 1",
                                   "allgather of 4 float",
                                   "alltoall of 4 float",
                                   "barrier"};
#define WAYS ((int)(sizeof ways / sizeof *ways))

static tutti_result_t call(int way, tutti_comm_t comm)
{
    static float in[4 * MOST], out[4 * MOST];
    switch (way) {
    case 0:
    case 1:
        return tutti_allreduce(in, out, 4, TUTTI_FLOAT32, way ? TUTTI_MAX : TUTTI_SUM, comm, NULL);
    case 2:
        return tutti_reduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, 1, comm, NULL);
    case 3:
    case 4:
        return tutti_broadcast(in, out, 4, TUTTI_FLOAT32, way - 3, comm, NULL);
    case 5:
        return tutti_allgather(in, out, 4, TUTTI_FLOAT32, comm, NULL);
    case 6:
        return tutti_alltoall(in, out, 4, TUTTI_FLOAT32, comm, NULL);
    default:
        return tutti_barrier(comm, NULL);
    }
}

static tutti_result_t finish(int way, tutti_comm_t comm)
{
    tutti_result_t result = call(way, comm);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* A rank that reads all others finds out by itself, whichever comes last. */
static bool reads_all(int way)
{
    return way < 2 || way > 4;
}

/* Both know both calls by heart; then one makes the first, the other the second. */
static int differ(int first, int second, int rank, tutti_comm_t comm)
{
    int mine = rank ? second : first;
    tutti_result_t result = TUTTI_SUCCESS;
    char said[1200] = "";
    for (int i = 0; i < 2 * AGAIN && result == TUTTI_SUCCESS; i++)
        result = finish(i % 2 ? first : second, comm);
    if (result != TUTTI_SUCCESS)
        return complain("a call that both make", rank, comm);
    if (rank == first % 2)
        usleep(2000);
    result = finish(mine, comm);
    bool unnoticed = result == TUTTI_SUCCESS && reads_all(first) && reads_all(second);
    if (result == TUTTI_SUCCESS)
        result = finish(WAYS - 1, comm);
    if (result != TUTTI_SUCCESS)
        snprintf(said, sizeof said, "%s", tutti_get_last_error(comm));
    tutti_result_t end = tutti_comm_destroy(comm);
    if (result == TUTTI_SUCCESS && end != TUTTI_SUCCESS)
        snprintf(said, sizeof said, "%s", tutti_get_last_error(NULL));
    result = result == TUTTI_SUCCESS ? end : result;
    bool named =
        strstr(said, "rank 0") && strstr(said, "rank 1") && strstr(said, ways[first]) && strstr(said, ways[second]);
    if (named && !unnoticed && (result == TUTTI_INVALID_USAGE || result == TUTTI_REMOTE_ERROR))
        return 0;
    fprintf(stderr, "  rank 0: %s, rank 1: %s: rank %d got %d%s, \"%s\"\n", ways[first], ways[second], rank, result,
            unnoticed ? ", behind a call that ended well" : "", said);
    return 1;
}

static int run_mismatch(int rank, int nranks, tutti_comm_t world)
{
    int step = getenv("TUTTI_TEST_QUICK") ? 5 : 1;
    uint64_t pairs = 0;
    for (int pair = 0; pair < WAYS * WAYS; pair += step) {
        tutti_comm_t comm;
        if (pair / WAYS == pair % WAYS)
            continue;
        if (tutti_comm_duplicate(world, &comm, NULL) != TUTTI_SUCCESS)
            return complain("duplicate", rank, world);
        if (differ(pair / WAYS, pair % WAYS, rank, comm) || finish(WAYS - 1, world) != TUTTI_SUCCESS)
            return complain("a pair of calls", rank, world);
        pairs++;
    }
    atomic_store(&shared->wanted, 2 * pairs);
    return 0;
}

/* ---- Failures ---- */

static int expect(tutti_result_t result, const char *text, int rank, tutti_comm_t comm)
{
    const char *said = result == TUTTI_SUCCESS ? "" : tutti_get_last_error(comm);
    if (result == TUTTI_REMOTE_ERROR && strstr(said, text))
        return 0;
    fprintf(stderr, "  rank %d: result %d, \"%s\" in the place of \"%s\"\n", rank, result, said, text);
    return 1;
}

/* How long the last rank takes part. */
static tutti_result_t work(int rank, int nranks, tutti_comm_t comm, void (*leave)(tutti_comm_t comm))
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; result == TUTTI_SUCCESS; i++) {
        uint64_t value = 1;
        if (i == WHILE)
            atomic_fetch_add(&shared->at_once, count_at_once());
        if (i == WHILE && rank == nranks - 1)
            leave(comm);
        result = sum(&value, comm);
        if (result == TUTTI_SUCCESS && value != (uint64_t)nranks)
            return TUTTI_INTERNAL_ERROR;
    }
    return result;
}

static void die(tutti_comm_t comm)
{
    raise(SIGKILL);
}

static void stop(tutti_comm_t comm)
{
    raise(SIGSTOP);
}

static void give_up(tutti_comm_t comm)
{
    tutti_comm_abort(comm);
}

static int lose(int rank, int nranks, tutti_comm_t comm, void (*leave)(tutti_comm_t comm), const char *text)
{
    char who[40];
    snprintf(who, sizeof who, text, nranks - 1);
    atomic_store(&shared->wanted, 20);
    return expect(work(rank, nranks, comm, leave), who, rank, comm);
}

static int run_killed(int rank, int nranks, tutti_comm_t comm)
{
    return lose(rank, nranks, comm, die, "rank %d");
}

static int run_abort(int rank, int nranks, tutti_comm_t comm)
{
    return lose(rank, nranks, comm, give_up, "aborted by rank %d");
}

static int run_stopped(int rank, int nranks, tutti_comm_t comm)
{
    int wrong = lose(rank, nranks, comm, stop, "no sign of life");
    if (rank == 0 && nranks == 2)
        _exit(wrong); /* without a goodbye, for which a stopped peer makes it wait */
    return wrong;
}

/* The failure comes when the last operation is over: that one ended well, and only what comes behind hears of it. */
static int run_over(int rank, int nranks, tutti_comm_t comm)
{
    tutti_result_t result = TUTTI_SUCCESS, state = TUTTI_SUCCESS;
    uint64_t value = 0, before;
    for (int i = 0; i < AGAIN && result == TUTTI_SUCCESS; i++)
        result = sum(&value, comm);
    while (rank == nranks - 1 && atomic_load(&shared->called) < nranks - 1) /* comes last */
        usleep(1000);
    before = count_at_once();
    if (result != TUTTI_SUCCESS ||
        tutti_allreduce(&value, &value, 1, TUTTI_UINT64, TUTTI_SUM, comm, NULL) != TUTTI_SUCCESS)
        return complain("allreduce", rank, comm);
    atomic_fetch_add(&shared->called, 1);
    if (rank == nranks - 1)
        want_at_once(before);
    if (rank == 0 && tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
        return complain("synchronize", rank, comm);
    if (rank == 0)
        tutti_comm_abort(comm);
    while (state == TUTTI_SUCCESS && tutti_comm_get_async_error(comm, &state) == TUTTI_SUCCESS)
        usleep(1000);
    if (rank && tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
        return complain("synchronize behind an operation that is over", rank, comm);
    return expect(sum(&value, comm), "aborted by rank 0", rank, comm);
}

/* ---- Threads ---- */

static struct {
    tutti_comm_t comm[4];
    tutti_result_t result[4];
    _Atomic bool over;
} t;

static void *work_here(void *argument)
{
    int rank = (int)(intptr_t)argument;
    uint64_t value;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; result == TUTTI_SUCCESS; i++) {
        value = 1;
        result = sum(&value, t.comm[rank]);
        if (result == TUTTI_SUCCESS && value != 4)
            result = TUTTI_INTERNAL_ERROR;
        if (rank == 1 && i == WHILE)
            tutti_comm_abort(t.comm[rank]);
    }
    t.result[rank] = result;
    return NULL;
}

/* Waits for what others issue, and asks how they are. */
static void *watch(void *unused)
{
    for (int rank = 0; !atomic_load(&t.over); rank = (rank + 1) % 4) {
        tutti_result_t state;
        tutti_comm_get_async_error(t.comm[rank], &state);
        tutti_comm_synchronize(t.comm[rank]);
        usleep(rank ? 0 : 100);
    }
    return NULL;
}

static int run_threads(int rank, int nranks, tutti_comm_t world)
{
    pthread_t thread[4], watcher;
    int wrong = 0;
    if (tutti_comm_init_all(t.comm, 4) != TUTTI_SUCCESS)
        return complain("init", 0, NULL);
    pthread_create(&watcher, NULL, watch, NULL);
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, work_here, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&t.over, true);
    pthread_join(watcher, NULL);
    for (int i = 0; i < 4; i++) {
        wrong += expect(t.result[i], "aborted by rank 1", i, t.comm[i]);
        tutti_comm_destroy(t.comm[i]);
    }
    atomic_store(&shared->wanted, 50);
    return wrong;
}

/* ---- The stage ---- */

static int take_part(const struct scene *scene, int rank)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t comm;
    config.timeout_ms = scene->timeout_ms;
    if (rank == 0 && tutti_get_unique_id(&shared->id) != TUTTI_SUCCESS)
        return complain("id", rank, NULL);
    if (rank == 0)
        atomic_store(&shared->made, true);
    while (!atomic_load(&shared->made))
        usleep(1000);
    if (tutti_comm_init_rank(&comm, scene->nranks, &shared->id, rank, &config) != TUTTI_SUCCESS)
        return complain("init", rank, NULL);
    int wrong = scene->run(rank, scene->nranks, comm);
    atomic_fetch_add(&shared->at_once, count_at_once());
    tutti_comm_destroy(comm);
    return wrong;
}

enum judgement { RIGHT, TOO_FEW, WRONG };

static enum judgement play(const struct scene *scene)
{
    pid_t pid[MOST];
    int wrong = 0, status;
    memset((void *)shared, 0, sizeof *shared);
    for (int rank = 0; rank < scene->nranks; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(100); /* no scene may last for ever */
            _exit(take_part(scene, rank));
        }
    }
    for (int rank = 0; rank < scene->nranks; rank++) {
        bool victim = scene->dies && rank == scene->nranks - 1;
        if (victim)
            kill(pid[rank], SIGKILL); /* if it was only stopped */
        waitpid(pid[rank], &status, 0);
        wrong += !victim && status;
    }
    bool few = atomic_load(&shared->missed) || atomic_load(&shared->at_once) < atomic_load(&shared->wanted);
    printf("%s: %s, %llu operations at once\n", scene->name,
           wrong ? "wrong"
           : few ? "too few went this way"
                 : "right",
           (unsigned long long)atomic_load(&shared->at_once));
    return wrong ? WRONG : few ? TOO_FEW : RIGHT;
}

static void clean_up(void)
{
    char **paths;
    size_t count;
    if (boxfile_list(folder, &paths, &count) == TUTTI_SUCCESS) {
        for (size_t i = 0; i < count; i++)
            unlink(paths[i]);
        boxfile_free(paths, count);
    }
    rmdir(folder);
}

int main(void)
{
    static const struct scene scenes[] = {
        {"results of 2 ranks", 2, run_results},
        {"results of 3 ranks", 3, run_results},
        {"results of 8 ranks", 8, run_results},
        {"one behind the other", 2, run_behind},
        {"making", 3, run_making},
        {"the order of sums", 5, run_order},
        {"messages", 2, run_messages},
        {"exchanges", 4, run_exchanges},
        {"messages of another type", 2, run_other_messages},
        {"other calls", 2, run_mismatch},
        {"a killed rank", 2, run_killed, 0, true},
        {"a killed rank of three", 3, run_killed, 0, true},
        {"a rank that gives up", 3, run_abort},
        {"a stopped rank", 2, run_stopped, 3000, true},
        {"a failure behind the last one", 3, run_over},
        {"threads", 1, run_threads},
    };
    int wrong = 0;
    setenv("TUTTI_TRANSPORT", "shm", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(folder))
        return 2;
    setenv("TUTTI_TRACE_DIR", folder, 1);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        enum judgement judgement = TOO_FEW;
        for (int attempt = 0; judgement == TOO_FEW && attempt < ATTEMPTS; attempt++) {
            fflush(NULL);
            judgement = play(&scenes[i]);
        }
        wrong += judgement != RIGHT;
    }
    clean_up();
    return wrong != 0;
}
