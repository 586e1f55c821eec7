/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_speed TRANSPORT RANKS [WHAT [MIB]]: elastic groups of processes that have GPUs, real ones too, with
 * TUTTI_TEST_GPU=1, else on host memory. kill: one member is killed in the middle of steps; late: one is stopped before
 * a step; both compare what the others have with a plain allreduce of the same set, of MIB (64). grow: one joins while
 * the others take steps of MIB. speed: steps of up to MIB (256) beside plain allreduces, with any number of blocks and
 * with two.
 */
#include "../collective/gpu.h"
#include "base/clock.h"
#include "base/random.h"
#include "device/cuda/driver.h"
#include "tutti/tutti.h"

#include <pthread.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST  64
#define AFTER 10 /* steps of the survivors */

static struct job {
    tutti_unique_id_t id, join;
    _Atomic bool made, open;
    int ranks, blocks, timeout_ms;
    size_t bytes;
    _Atomic uint64_t bits[MOST]; /* of a member's last result */
} * job;
static int me;

static void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "member %d: %s: %s\n", me, what, tutti_get_last_error(NULL));
    exit(1);
}
#define OK(call) must((call) == TUTTI_SUCCESS, #call)

static double ms_since(uint64_t begin)
{
    return (double)(clock_ns() - begin) / NS_PER_MS;
}

/* ---- Memory, where the member works ---- */

static void *buffer(size_t bytes)
{
    void *made = NULL;
    OK(gpu_wanted() ? tutti_device_mem_alloc(&made, bytes) : tutti_mem_alloc(&made, bytes));
    return made;
}

static const struct cuda_driver *driver(void)
{
    const struct cuda_driver *cu;
    OK(cuda_driver(&cu));
    return cu;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (gpu_wanted())
        must(driver()->Memcpy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes) == CUDA_SUCCESS,
             "to copy to or from the GPU");
    else
        memcpy(to, from, bytes);
}

/* ---- A member ---- */

struct member {
    tutti_comm_t comm;
    tutti_elastic_t elastic;
    float *in, *out, *again; /* where the member works */
    float *drawn, *seen;     /* on the host */
};

static float drawn_of(int rank, size_t i)
{
    return (float)(int32_t)mix64((uint64_t)rank << 40 | i) * 1e-7f;
}

/* Numbers whose sum depends on the order of adding. */
static void draw(struct member *member)
{
    member->in = buffer(job->bytes);
    member->out = buffer(job->bytes);
    member->again = buffer(job->bytes);
    member->drawn = malloc(job->bytes);
    member->seen = malloc(2 * job->bytes);
    must(member->drawn && member->seen, "memory");
    for (size_t i = 0; i < job->bytes / 4; i++)
        member->drawn[i] = drawn_of(me, i);
    copy(member->in, member->drawn, job->bytes);
}

static tutti_elastic_config_t settings(void)
{
    tutti_elastic_config_t config = TUTTI_ELASTIC_CONFIG_INITIALIZER;
    if (gpu_wanted())
        gpu_select(me);
    config.timeout_ms = job->timeout_ms;
    config.device = gpu_config().device;
    return config;
}

/* The first generation has the ranks below `ranks`. */
static void begin_with(struct member *member, int ranks)
{
    tutti_elastic_config_t config = settings();
    tutti_config_t where = gpu_config();
    where.blocks = gpu_wanted() ? job->blocks : 0;
    while (!atomic_load(&job->made))
        usleep(100);
    OK(tutti_comm_init_rank(&member->comm, ranks, &job->id, me, &where));
    OK(tutti_elastic_init(&member->elastic, member->comm, &config));
    draw(member);
}

static void begin(struct member *member)
{
    begin_with(member, job->ranks);
}

/* The members of the set reduce once more, by a communicator that has nothing to do with the group. */
static bool is_plain(struct member *member, const tutti_elastic_step_t *step)
{
    int excluded[MOST], count = 0;
    tutti_comm_t rest = NULL;
    for (int rank = 0; rank < job->ranks; rank++) {
        bool is_in = false;
        for (int i = 0; i < step->members; i++)
            is_in |= step->set[i] == rank;
        if (!is_in)
            excluded[count++] = rank;
    }
    OK(tutti_comm_shrink(member->comm, excluded, count, &rest, NULL));
    OK(tutti_allreduce(member->in, member->again, job->bytes / 4, TUTTI_FLOAT32, TUTTI_SUM, rest, NULL));
    OK(tutti_comm_synchronize(rest));
    copy(member->seen, member->out, job->bytes);
    copy(member->seen + job->bytes / 4, member->again, job->bytes);
    bool same = memcmp(member->seen, member->seen + job->bytes / 4, job->bytes) == 0;
    copy(member->seen, member->in, job->bytes);
    same &= memcmp(member->seen, member->drawn, job->bytes) == 0;
    OK(tutti_comm_destroy(rest));
    return same;
}

static void *killer(void *unused)
{
    uint64_t drawn = 0;
    (void)unused;
    random_bytes(&drawn, sizeof drawn);
    usleep((useconds_t)(mix64(drawn) % 20000));
    raise(SIGKILL);
    return NULL;
}

/* In place each second time. */
static tutti_result_t take_step(struct member *member, int number, tutti_elastic_step_t *step)
{
    bool in_place = number % 2;
    if (in_place)
        copy(member->out, member->drawn, job->bytes);
    return tutti_elastic_allreduce_on(member->elastic, in_place ? member->out : member->in, member->out, job->bytes / 4,
                                      TUTTI_FLOAT32, TUTTI_SUM, NULL, step);
}

/* Until the last member is missing, and some steps more. */
static void survive(struct member *member, const char *what)
{
    tutti_elastic_step_t step = {.size = sizeof step};
    tutti_elastic_state_t state = {.size = sizeof state};
    double took = 0, missed = 0;
    int tries = 0, first = 0, last = 0;
    bool right = true;
    for (int number = 1; number <= 100000 && (!last || number < last); number++) {
        uint64_t begin = clock_ns();
        OK(take_step(member, number, &step));
        took = ms_since(begin);
        if (step.tries > 1) {
            missed = took;
            tries = step.tries;
        }
        if (!first && step.members < job->ranks) {
            right = is_plain(member, &step);
            first = number;
            last = number + AFTER;
        }
    }
    right &= last && is_plain(member, &step);
    OK(tutti_elastic_get_state(member->elastic, &state));
    if (me == 0)
        printf("%s: step %d took %.1f ms in %d tries; %d of %d members go on, a step of %zu MiB takes them %.2f ms; "
               "%.1f MiB of the GPU, %.1f MiB of the host; bits of a plain allreduce: %s\n",
               what, first, missed, tries, step.members, job->ranks, job->bytes >> 20, took,
               (double)state.device_bytes / (1 << 20), (double)state.host_bytes / (1 << 20), right ? "yes" : "no");
    fflush(stdout);
    must(right, "other bits than a plain allreduce gives");
}

static void finish(struct member *member)
{
    OK(tutti_elastic_end(member->elastic));
    if (!member->comm)
        return; /* a newcomer has none but the group's */
    OK(tutti_comm_abort(member->comm));
    OK(tutti_comm_destroy(member->comm));
}

static void kill_member(void)
{
    struct member member;
    pthread_t thread;
    tutti_elastic_step_t step = {.size = sizeof step};
    begin(&member);
    if (me < job->ranks - 1)
        survive(&member, "killed");
    for (int number = 1; me == job->ranks - 1; number++) {
        OK(take_step(&member, number, &step));
        if (number == 5)
            must(pthread_create(&thread, NULL, killer, NULL) == 0, "a thread");
    }
    finish(&member);
}

static void late_member(void)
{
    struct member member;
    tutti_elastic_step_t step = {.size = sizeof step};
    begin(&member);
    if (me < job->ranks - 1)
        survive(&member, "late");
    for (int number = 1; me == job->ranks - 1; number++) {
        if (number == 5)
            raise(SIGSTOP);
        if (take_step(&member, number, &step) != TUTTI_SUCCESS) {
            must(number == 5, "a step");
            printf("late: member %d, which comes back, hears: %s\n", me, tutti_get_last_error(NULL));
            break;
        }
        must(number < 5, "no member takes a step without the others");
    }
    finish(&member);
}

/* ---- Growing ---- */

/* ms of the first step, and the least of all. */
static void take_steps(struct member *member, int members, double *first, double *least)
{
    tutti_elastic_step_t step = {.size = sizeof step};
    *least = INFINITY;
    for (int number = 0; number < AFTER; number++) {
        uint64_t begin = clock_ns();
        OK(take_step(member, 2 * number, &step)); /* out of place */
        double took = ms_since(begin);
        *first = number ? *first : took;
        *least = took < *least ? took : *least;
        must(step.members == members && step.tries == 1, "a step has all members at once");
    }
}

/* All members have the same bits, which are about the sum of what they drew. */
static void judge_grown(struct member *member)
{
    uint64_t bits = 0;
    double off = 0, first, least;
    copy(member->seen, member->out, job->bytes);
    for (size_t i = 0; i < job->bytes / 4; i++) {
        double sum = 0;
        for (int rank = 0; rank < job->ranks && i % 64 == 0; rank++)
            sum += (double)drawn_of(rank, i);
        double by = i % 64 ? 0 : fabs(sum - (double)member->seen[i]);
        off = by > off ? by : off;
        bits = mix64(bits ^ ((uint32_t *)member->seen)[i]);
    }
    atomic_store(&job->bits[me], bits);
    take_steps(member, job->ranks, &first, &least); /* all have told then */
    for (int rank = 0; rank < job->ranks; rank++)
        must(atomic_load(&job->bits[rank]) == bits, "members have different bits");
    must(off < 1e-3, "a result is not the sum");
}

static void grow_member(void)
{
    struct member member = {0};
    double alone = 0, least = 0, first, grew;
    if (me < job->ranks - 1) {
        begin_with(&member, job->ranks - 1);
        take_steps(&member, job->ranks - 1, &first, &alone);
        if (me == 0) {
            OK(tutti_elastic_get_unique_id(member.elastic, &job->join));
            atomic_store(&job->open, true);
        }
    } else {
        const tutti_elastic_config_t config = settings();
        draw(&member);
        while (!atomic_load(&job->open))
            usleep(100);
        OK(tutti_elastic_join(&member.elastic, job->ranks, &job->join, me, &config));
    }
    uint64_t begin = clock_ns();
    if (me < job->ranks - 1)
        OK(tutti_elastic_grow(member.elastic, 1, me == 0 ? &job->join : NULL));
    grew = ms_since(begin);
    take_steps(&member, job->ranks, &first, &least);
    if (me == 0)
        printf("grow: from %d to %d members in %.1f ms; the first step of %zu MiB takes %.2f ms, the others %.2f ms at "
               "least, and %.2f ms before\n",
               job->ranks - 1, job->ranks, grew, job->bytes >> 20, first, least, alone);
    judge_grown(&member);
    finish(&member);
}

/* ---- Speed ---- */

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Turn by turn, so that both meet the same noise. How: plain, elastic, elastic in place. */
static void measure(const struct member *member, size_t bytes, int times)
{
    double *took[3];
    for (int how = 0; how < 3; how++)
        took[how] = malloc((size_t)times * sizeof(double));
    for (int i = -5; i < times; i++)
        for (int how = 0; how < 3; how++) {
            OK(tutti_barrier(member->comm, NULL));
            OK(tutti_comm_synchronize(member->comm));
            uint64_t begin = clock_ns();
            if (how)
                OK(tutti_elastic_allreduce_on(member->elastic, how == 1 ? member->in : member->out, member->out,
                                              bytes / 4, TUTTI_FLOAT32, TUTTI_SUM, NULL, NULL));
            else
                OK(tutti_allreduce(member->in, member->out, bytes / 4, TUTTI_FLOAT32, TUTTI_SUM, member->comm, NULL));
            OK(tutti_comm_synchronize(member->comm));
            if (i >= 0)
                took[how][i] = ms_since(begin) * 1000;
        }
    for (int how = 0; how < 3; how++)
        qsort(took[how], (size_t)times, sizeof(double), by_value);
    double plain = took[0][times / 2], elastic = took[1][times / 2], in_place = took[2][times / 2],
           bus = 2.0 * (job->ranks - 1) / job->ranks * (double)bytes / 1e3;
    if (me == 0)
        printf("%9zu bytes, %s: plain %.1f us (%.1f GB/s), elastic %.1f us (%.1f GB/s), ratio %.2f, in place %.1f us "
               "(medians of %d; bus bandwidth)\n",
               bytes, job->blocks ? "2 blocks" : "any blocks", plain, bus / plain, elastic, bus / elastic,
               elastic / plain, in_place, times);
    fflush(stdout);
    for (int how = 0; how < 3; how++)
        free(took[how]);
}

static void speed_member(void)
{
    struct member member;
    begin(&member);
    for (size_t bytes = 1 << 10; bytes <= 1 << 16; bytes <<= 6)
        measure(&member, bytes, gpu_wanted() ? 200 : 1000);
    if (!gpu_wanted())
        measure(&member, 16 << 20, 15);
    for (size_t bytes = 1 << 20; gpu_wanted() && bytes <= job->bytes; bytes <<= 2)
        measure(&member, bytes, 30);
    finish(&member);
}

/* ---- The parent ---- */

/* `victim`: the last member, which is killed, or stops and comes back when all others are done; -1: none. */
static bool run(void (*work)(void), int victim, bool stops, int blocks, size_t bytes)
{
    pid_t pid[MOST];
    bool right = true;
    int status, ranks = job->ranks;
    *job = (struct job){.ranks = ranks, .blocks = blocks, .bytes = bytes, .timeout_ms = stops ? 3000 : 60000};
    fflush(NULL);
    for (int i = 0; i < ranks; i++) {
        if ((pid[i] = fork()))
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        me = i;
        alarm(300);
        if (i == 0) {
            OK(tutti_get_unique_id(&job->id));
            atomic_store(&job->made, true);
        }
        work();
        exit(0);
    }
    for (int i = 0; i < ranks; i++) {
        while (waitpid(pid[i], &status, i == victim ? WUNTRACED : 0) == pid[i] && WIFSTOPPED(status))
            kill(pid[i], SIGCONT);
        bool killed = i == victim && !stops;
        bool ended = killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
        if (!ended)
            fprintf(stderr, "member %d ended with status %#x\n", i, (unsigned)status);
        right &= ended;
    }
    return right;
}

static bool wanted(const char *what, const char *name)
{
    return strcmp(what, name) == 0 || strcmp(what, "all") == 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 3 ? argv[3] : "all";
    int ranks = argc > 2 ? atoi(argv[2]) : 0, last = ranks - 1;
    size_t given = (size_t)(argc > 4 ? atoi(argv[4]) : 0) << 20, bytes = given ? given : 64 << 20,
           longest = given ? given : 256 << 20;
    bool right = true;
    if (ranks < 2 || ranks > MOST)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job->ranks = ranks;
    if (wanted(what, "kill"))
        right &= run(kill_member, last, false, 0, bytes);
    if (wanted(what, "late"))
        right &= run(late_member, last, true, 0, bytes);
    if (wanted(what, "grow"))
        right &= run(grow_member, -1, false, 0, bytes);
    if (wanted(what, "speed"))
        right &= run(speed_member, -1, false, 0, longest);
    if (wanted(what, "speed") && gpu_wanted())
        right &= run(speed_member, -1, false, 2, longest);
    return !right;
}
