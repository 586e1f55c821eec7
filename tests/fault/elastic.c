/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic TRANSPORT [FIRST [COUNT]]: elastic groups of four processes of which one or two are killed or stopped,
 * each at a place that is counted in the library's own calls. All who say that a step counts must say the same of the
 * step. `elastic TRANSPORT soak FAULTS SEED [SECONDS]`: the same at random moments.
 * `elastic tcp cut`: the network between two members is cut; `elastic tcp cuts ...`, as soak: at random places, beside
 * kills and stops. Members have a network namespace of their own, which root may make.
 * With TUTTI_TEST_GPU=1 members have GPUs of the stand-in driver.
 */
#include "../collective/gpu.h"
#include "base/random.h"
#include "device/cuda/driver.h"
#include "elastic_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- A member ---- */

static size_t bytes_of_call(void)
{
    return (size_t)job->count * sizeof(float);
}

/* The processor reads and writes memory of the stand-in's GPUs, too. */
static float *buffer(void)
{
    static void *made[3];
    static int count;
    tutti_result_t result = gpu_wanted() ? tutti_device_mem_alloc(&made[count], bytes_of_call())
                                         : tutti_mem_alloc(&made[count], bytes_of_call());
    if (result != TUTTI_SUCCESS)
        exit(1);
    return made[count++];
}

/* A member may be killed here: what it says is whole when it counts. */
static void note_step(const tutti_elastic_step_t *step, const float *out, int number)
{
    struct told *told = &job->told[me];
    struct said said = {false, step->generation, hash_bytes(1, out, bytes_of_call()), step->members, 0};
    unsigned marks = 0;
    for (int i = 0; i < step->members; i++)
        said.set |= 1u << step->set[i];
    for (int i = 0; i < MARKS; i++)
        marks |= (unsigned)(out[i] == 1.0f) << i;
    unsigned own = said.set;
    if (job->units) /* members of the other shard are not in this sum */
        for (int i = 0; i < MEMBERS; i++)
            own &= i % 2 == me % 2 ? ~0u : ~(1u << i);
    int units = job->units ? step->members / 2 : step->members;
    told->wrong |= marks != own || step->step != (uint64_t)number || step->scale != 1.0 / units || !(own >> me & 1) ||
                   __builtin_popcount(said.set) != step->members;
    told->said[number] = said;
    atomic_thread_fence(memory_order_seq_cst);
    told->said[number].counts = true;
}

/* The members that are left reduce once more, by a communicator that has nothing to do with the group. */
static void compare(tutti_comm_t comm, const float *in, const float *out, unsigned set)
{
    tutti_comm_t rest = NULL;
    int excluded[MEMBERS], count = 0;
    float *again = buffer();
    for (int i = 0; i < MEMBERS; i++)
        if (!(set >> i & 1))
            excluded[count++] = i;
    struct told *told = &job->told[me];
    told->fresh =
        tutti_comm_shrink(comm, excluded, count, &rest, NULL) == TUTTI_SUCCESS &&
        tutti_allreduce(in, again, (size_t)job->count, TUTTI_FLOAT32, TUTTI_SUM, rest, NULL) == TUTTI_SUCCESS &&
        tutti_comm_synchronize(rest) == TUTTI_SUCCESS && memcmp(again, out, bytes_of_call()) == 0;
    if (!told->fresh)
        fprintf(stderr, "  member %d: not what a plain allreduce gives: %s\n", me, tutti_get_last_error(rest));
    tutti_comm_destroy(rest);
}

/* What is no step is refused, and the group goes on. The stream of the steps. */
static tutti_stream_t refused(tutti_elastic_t elastic, float *in)
{
    const struct cuda_driver *cu;
    CUstream stream = (CUstream)in; /* a group on host memory takes none */
    CUgraph graph;
    bool right = true;
    if (gpu_wanted())
        right = cuda_driver(&cu) == TUTTI_SUCCESS &&
                !cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) &&
                !cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    right &= tutti_elastic_allreduce_on(elastic, in, in, 1, TUTTI_FLOAT32, TUTTI_SUM, (tutti_stream_t)stream, NULL) ==
             (gpu_wanted() ? TUTTI_INVALID_USAGE : TUTTI_INVALID_ARGUMENT);
    right &= !gpu_wanted() || (!cu->StreamEndCapture(stream, &graph) && !cu->GraphDestroy(graph));
    job->told[me].wrong |= !right;
    return gpu_wanted() ? (tutti_stream_t)stream : NULL;
}

/* Between two steps the members of a unit wait for one another. */
static tutti_result_t open_unit(tutti_comm_t comm, tutti_comm_t *unit)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeout_ms = job->timeout_ms;
    return tutti_comm_split(comm, me / 2, me, unit, &config);
}

static tutti_result_t meet_unit(tutti_comm_t unit)
{
    int32_t one = 1;
    tutti_result_t result = tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, unit, NULL);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(unit) : result;
}

/* The group goes on without this member, which is here all the time. */
static bool leave(tutti_elastic_t *elastic)
{
    struct told *told = &job->told[me];
    if (job->fault[me].point != LEAVES || step_now != job->fault[me].step)
        return false;
    job->fault[me].point = NOWHERE;
    tutti_elastic_end(*elastic);
    *elastic = NULL;
    snprintf(told->sentence, sizeof told->sentence, "it has left");
    return true;
}

static void member(void)
{
    static float was[MOST];
    struct told *told = &job->told[me];
    tutti_comm_t comm;
    if (gpu_wanted())
        gpu_select(me);
    tutti_config_t where = gpu_config();
    float *in = buffer(), *out = buffer();
    tutti_elastic_t elastic = NULL;
    tutti_comm_t unit = NULL;
    tutti_elastic_config_t config = TUTTI_ELASTIC_CONFIG_INITIALIZER;
    tutti_elastic_step_t step = {.size = sizeof step};
    config.timeout_ms = job->timeout_ms;
    config.minimum = job->minimum;
    config.chunk_bytes = job->chunk_bytes;
    config.chunks = job->chunks;
    if (job->cuts)
        network_take(me);
    if (job->units) {
        config.unit = me / 2;
        config.shard = me % 2;
    }
    while (!atomic_load(&job->made))
        nap(1);
    tutti_result_t result = tutti_comm_init_rank(&comm, MEMBERS, &job->id, me, &where);
    if (result == TUTTI_SUCCESS)
        result = tutti_elastic_init(&elastic, comm, &config);
    if (result == TUTTI_SUCCESS && job->meets)
        result = open_unit(comm, &unit);
    tutti_stream_t stream = result == TUTTI_SUCCESS ? refused(elastic, in) : NULL;
    for (step_now = 1; step_now <= STEPS && result == TUTTI_SUCCESS && !leave(&elastic); step_now++) {
        reach(BEFORE_STEP);
        bool in_place = step_now % 2;
        fill(in, me, step_now);
        memcpy(out, in, bytes_of_call());
        memcpy(was, in, bytes_of_call());
        bool differs = job->differs && me == 1 && step_now == 3;
        result = tutti_elastic_allreduce_on(elastic, in_place ? out : in, out, (size_t)(job->count - differs),
                                            TUTTI_FLOAT32, TUTTI_SUM, stream, &step);
        told->wrong |= memcmp(in, was, bytes_of_call()) != 0;
        if (result == TUTTI_SUCCESS) {
            note_step(&step, out, step_now);
            atomic_store(&told->steps, step_now);
        }
        if (result == TUTTI_SUCCESS && unit)
            result = meet_unit(unit);
    }
    told->result = result;
    if (result != TUTTI_SUCCESS) {
        snprintf(told->sentence, sizeof told->sentence, "%s", tutti_get_last_error(NULL));
        tutti_elastic_end(elastic); /* nothing is under way that needs the group's memory */
        elastic = NULL;
    }
    if (result == TUTTI_SUCCESS && job->compares && job->chunk_bytes && !in_one_memory())
        told->fresh = is_of_ring(out, told->said[STEPS].set, gpu_wanted());
    else if (result == TUTTI_SUCCESS && job->compares)
        compare(comm, in, out, told->said[STEPS].set);
    atomic_store(&told->ended, true);
    memcpy(was, out, bytes_of_call());
    while (!atomic_load(&job->over)) /* a member that was stopped goes on now */
        nap(2);
    told->wrong |= memcmp(out, was, bytes_of_call()) != 0;
    tutti_elastic_end(elastic);
    tutti_comm_abort(unit);
    tutti_comm_destroy(unit);
    tutti_comm_abort(comm);
    tutti_comm_destroy(comm);
}

/* ---- The parent ---- */

static bool all_have(bool stopped_too, const pid_t *pid, const bool *stops)
{
    for (int i = 0; i < MEMBERS; i++)
        if (pid[i] && (stopped_too || !stops[i]) && !atomic_load(&job->told[i].ended))
            return false;
    return true;
}

static void reap(pid_t *pid, bool *died)
{
    for (int i = 0; i < MEMBERS; i++) {
        int status;
        if (!pid[i] || waitpid(pid[i], &status, WNOHANG) != pid[i])
            continue;
        pid[i] = 0;
        died[i] = status != 0;
    }
}

static bool wait_for(bool stopped_too, pid_t *pid, const bool *stops, bool *died, int seconds)
{
    for (int ms = 0; ms < seconds * 1000; ms += 5) {
        reap(pid, died);
        for (int i = 0; i < MEMBERS && stopped_too; i++) /* one may come to its stop only now */
            if (pid[i] && stops[i])
                kill(pid[i], SIGCONT);
        if (all_have(stopped_too, pid, stops))
            return true;
        nap(5);
    }
    return false;
}

/* TUTTI_TEST_HOSTS: number of hosts over which members are spread. */
static void be_on_host(int member)
{
    const char *hosts = getenv("TUTTI_TEST_HOSTS");
    char host[12];
    snprintf(host, sizeof host, "%d", hosts ? member * atoi(hosts) / MEMBERS : 0);
    if (hosts)
        setenv("TUTTI_HOSTID", host, 1);
}

static void start(pid_t *pid, void (*work)(void))
{
    fflush(NULL);
    for (int i = 0; i < MEMBERS; i++) {
        pid[i] = fork();
        if (pid[i])
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        me = i;
        be_on_host(i);
        words_keep(i);
        if (i == 0 && tutti_get_unique_id(&job->id) == TUTTI_SUCCESS)
            atomic_store(&job->made, true);
        work();
        exit(0);
    }
}

static bool finish_run(pid_t *pid, bool *stops, bool *killed, const char *what)
{
    bool died[MEMBERS] = {false};
    bool right = wait_for(false, pid, stops, died, 100);
    right &= wait_for(true, pid, stops, died, 100);
    atomic_store(&job->over, true);
    if (!right)
        fprintf(stderr, "  members hang\n");
    for (int i = 0; i < MEMBERS; i++) {
        int status;
        if (!pid[i])
            continue;
        if (!right)
            kill(pid[i], SIGKILL);
        waitpid(pid[i], &status, 0);
        died[i] = status != 0;
    }
    right &= judge(stops, killed, died, what);
    words_forget();
    return right;
}

static void new_job(int timeout_ms)
{
    memset(job, 0, sizeof *job);
    job->timeout_ms = timeout_ms;
    job->minimum = 1;
    job->count = COUNT;
    job->whole = 1;
}

/* Member 3 is killed in step 2, where the point is one of the end of a generation. */
static bool run_point(int point, int victim, int signal, bool units, int sends_before, int count, int chunk)
{
    pid_t pid[MEMBERS];
    bool stops[MEMBERS] = {false}, killed[MEMBERS] = {false};
    char what[100];
    snprintf(what, sizeof what, "point %d after %d, member %d, signal %d, units %d", point, sends_before, victim,
             signal, units);
    new_job(signal == SIGSTOP ? 4000 : point == IN_VOTE ? 8000 : 60000);
    job->units = units;
    job->meets = point == IN_VOTE;
    job->whole = !units;
    job->count = count;
    job->chunk_bytes = (size_t)chunk;
    job->chunks = chunk ? 2 : 0;
    job->compares = signal == SIGKILL && !units;
    job->all = true;
    job->fault[victim].point = point;
    job->fault[victim].signal = signal;
    job->fault[victim].step = point == BEFORE_STEP ? 3 : 2; /* in place, or not */
    job->fault[victim].sends = sends_before;
    (signal == SIGKILL ? killed : stops)[victim] = true;
    if (point >= AT_THE_END && point != LEAVES) {
        job->fault[3].point = BEFORE_WORK;
        job->fault[3].signal = SIGKILL;
        job->fault[3].step = 2;
        killed[3] = true;
    }
    start(pid, member);
    bool right = finish_run(pid, stops, killed, what);
    if (right && job->fault[victim].point != NOWHERE && point != HEARS_PROMISE && point != HEARS_ACCEPT)
        printf("%s was not reached\n", what);
    return right;
}

/* All are needed, and a member is killed, which all others name; or one makes another call. Those who find that leave,
 * maybe before others have. */
static bool run_end(bool differs, const char *names)
{
    pid_t pid[MEMBERS];
    bool none[MEMBERS] = {false}, killed[MEMBERS] = {false};
    new_job(60000);
    job->whole = 0;
    job->differs = differs;
    job->minimum = MEMBERS;
    killed[2] = !differs;
    job->fault[2].point = differs ? NOWHERE : BEFORE_WORK;
    job->fault[2].signal = SIGKILL;
    job->fault[2].step = 2;
    start(pid, member);
    int named = 0;
    bool right = finish_run(pid, none, killed, names);
    for (int i = 0; i < MEMBERS; i++) {
        const char *at = strstr(job->told[i].sentence, names);
        named += at && (differs || memchr(at, '2', strcspn(at, ";")));
    }
    if (right && named >= (differs ? 1 : MEMBERS - 1))
        return true;
    for (int i = 0; i < MEMBERS; i++)
        fprintf(stderr, "  member %d was to say \"%s\": %s\n", i, names, job->told[i].sentence);
    return false;
}

/* Draws. */
static uint64_t drawn(uint64_t seed, int what, uint64_t below)
{
    return mix64(seed + (uint64_t)what) % below;
}

/* Until a member has come to the place where the network is to be cut. */
static void cut_there(int from, int to, bool both)
{
    for (int ms = 0; ms < 20000 && !atomic_load(&job->to_cut); ms++)
        nap(1);
    network_cut(from, to, both);
    atomic_store(&job->cut, true);
}

/* Of two that do not reach one another, and exchange parts of the sum, one is left out. If they do again soon, none is.
 */
static bool run_cut(int point, int victim, int other, bool both, int healed_after_ms)
{
    pid_t pid[MEMBERS];
    bool none[MEMBERS] = {false};
    char what[100];
    snprintf(what, sizeof what, "point %d of member %d, cut off from %d%s, %d ms", point, victim, other,
             both ? "" : " in one direction", healed_after_ms);
    new_job(4000);
    job->cuts = true;
    job->whole = healed_after_ms ? MEMBERS : MEMBERS - 1;
    job->exactly = true;
    job->minimum = 3;
    job->fault[victim].point = point;
    job->fault[victim].step = 2;
    start(pid, member);
    cut_there(victim, other, both);
    if (healed_after_ms) {
        nap(healed_after_ms);
        network_heal();
    }
    bool right = finish_run(pid, none, none, what);
    network_heal();
    return right;
}

/* At random places, for a random time, between kills and stops. */
static void cut_randomly(uint64_t seed, int *faults)
{
    int victim = (int)drawn(seed, 20, MEMBERS), other = (victim + 1 + (int)drawn(seed, 21, MEMBERS - 1)) % MEMBERS;
    cut_there(victim, other, drawn(seed, 22, 4));
    ++*faults;
    nap((int)drawn(seed, 23, 2) * (int)drawn(seed, 24, 1500));
    if (drawn(seed, 25, 2))
        network_heal();
}

static void prepare_cut(uint64_t seed)
{
    static const int places[] = {BEFORE_STEP, BEFORE_WORK, IN_WORK, AFTER_WORK, BEFORE_VOTE, AFTER_VOTE};
    int victim = (int)drawn(seed, 20, MEMBERS);
    job->cuts = true;
    job->minimum = 3; /* two that do not reach one another, and nobody else, may not both go on */
    job->whole = 0;
    job->fault[victim].point = places[drawn(seed, 26, sizeof places / sizeof *places)];
    job->fault[victim].step = 2 + (int)drawn(seed, 27, STEPS - 2);
    job->fault[victim].sends = (int)drawn(seed, 28, 4);
}

static bool run_random(uint64_t seed, bool cuts, int *faults)
{
    pid_t pid[MEMBERS];
    bool stops[MEMBERS] = {false}, killed[MEMBERS] = {false};
    char what[60];
    int count = cuts ? (int)drawn(seed, 0, 2) : 1 + (int)drawn(seed, 0, 3);
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
    new_job(1500);
    job->count = drawn(seed, 1, 2) ? MOST : COUNT;
    job->chunk_bytes = job->count == MOST && drawn(seed, 2, 2) ? 16 << 10 : 0;
    job->chunks = job->chunk_bytes ? 2 : 0;
    if (cuts)
        prepare_cut(seed);
    start(pid, member);
    for (int ms = 0; ms < 20000 && job->told[0].steps < 1; ms++)
        nap(1);
    if (cuts)
        cut_randomly(seed, faults);
    for (int i = 0; i < count; i++) {
        int victim = (int)drawn(seed, 7 + i, MEMBERS), signal = drawn(seed, 70 + i, 2) ? SIGKILL : SIGSTOP;
        usleep((useconds_t)drawn(seed, 700 + i, 3000));
        if (killed[victim] || stops[victim] || atomic_load(&job->told[victim].ended))
            continue;
        (signal == SIGKILL ? killed : stops)[victim] = true;
        kill(pid[victim], signal);
        ++*faults;
    }
    bool right = finish_run(pid, stops, killed, what);
    if (cuts)
        network_heal();
    return right;
}

/* After `seconds` no run begins; 0: runs begin at any time. */
static int soak(int most, uint64_t seed, int seconds, bool cuts)
{
    int faults = 0, count = 0, wrong = 0;
    time_t end = time(NULL) + seconds;
    for (; faults < most && (!seconds || time(NULL) < end); seed++, count++)
        wrong += !run_random(seed * 1000, cuts, &faults);
    printf("%d runs, %d kills, stops and cuts, %d wrong\n", count, faults, wrong);
    return wrong != 0;
}

/* ---- The runs ---- */

struct run {
    int point, victim, signal;
    bool units;
    int sends, count, chunk;
};
static const struct run runs[] = {
    {BEFORE_WORK, 2, SIGKILL, false, 0, MOST, 16 << 10},
    {IN_WORK, 1, SIGKILL, false, 3},
    {LEAVES, 0, SIGSTOP, false},
    {LEAVES, 3, SIGSTOP, true},
    {BEFORE_VOTE, 1, SIGKILL, false},
    {AFTER_VOTE, 3, SIGKILL, false},
    {BEFORE_VOTE, 2, SIGSTOP, false},
    {AT_CONCLUDE, 0, SIGKILL, false},
    {HEARS_PROPOSE, 1, SIGKILL, false},
    {HEARS_ACCEPT, 0, SIGSTOP, false},
    {AFTER_WORK, 3, SIGKILL, true},
    {IN_VOTE, 3, SIGKILL, true, 1},
    {BEFORE_WORK, 0, SIGKILL, false},
    {HEARS_DECIDED, 2, SIGKILL, false},
    {IN_WORK, 0, SIGKILL, false, 1},
    {IN_WORK, 3, SIGKILL, false, 2},
    {IN_WORK, 1, SIGKILL, false, 1},
    {IN_WORK, 2, SIGSTOP, false, 1},
    {AFTER_WORK, 0, SIGKILL, false},
    {AT_THE_END, 1, SIGKILL, false},
    {AT_ASK, 0, SIGKILL, false},
    {HEARS_ASK, 1, SIGKILL, false},
    {HEARS_PROMISE, 0, SIGKILL, false},
    {HEARS_ACCEPT, 0, SIGKILL, false},
    {BEFORE_NEXT, 1, SIGKILL, false},
    {IN_MAKING, 0, SIGKILL, false},
    {IN_MAKING, 1, SIGKILL, false},
    {BEFORE_WORK, 3, SIGSTOP, false},
    {AFTER_WORK, 0, SIGSTOP, false},
    {AFTER_VOTE, 1, SIGSTOP, false},
    {AT_CONCLUDE, 0, SIGSTOP, false},
    {HEARS_PROPOSE, 1, SIGSTOP, false},
    {HEARS_DECIDED, 1, SIGSTOP, false},
    {HEARS_ASK, 1, SIGSTOP, false},
    {BEFORE_NEXT, 2, SIGSTOP, false},
    {IN_MAKING, 1, SIGSTOP, false},
    {AT_ASK, 0, SIGSTOP, false},
    {BEFORE_VOTE, 2, SIGKILL, true},
    {BEFORE_WORK, 1, SIGSTOP, true},
};
/* Of GPUs, which send nothing but what is staged. */
static const struct run gpu_runs[] = {
    {ISSUED, 1, SIGKILL, false, 0, MOST, 16 << 10},
    {ISSUED, 2, SIGKILL, true},
    {BEFORE_STEP, 3, SIGSTOP, false, 0, MOST},
    {BEFORE_WORK, 0, SIGKILL, false},
    {ISSUED, 3, SIGKILL, false},
    {IN_MAKING, 1, SIGKILL, false},
    {BEFORE_VOTE, 1, SIGKILL, false},
    {AFTER_VOTE, 3, SIGKILL, false},
    {BEFORE_VOTE, 2, SIGSTOP, false},
    {AT_CONCLUDE, 0, SIGKILL, false},
    {IN_MAKING, 0, SIGSTOP, false},
    {AFTER_WORK, 3, SIGKILL, true},
    {BEFORE_WORK, 2, SIGKILL, true, 0, MOST},
    {LEAVES, 0, SIGSTOP, false, 0, MOST},
    {BEFORE_WORK, 3, SIGSTOP, false},
    {IN_WORK, 1, SIGKILL, false, 1},
};
#define RUNS(of) ((int)(sizeof(of) / sizeof *(of)))

int main(int argc, char **argv)
{
    int wrong = 0, count = 0;
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    if (!words_begin())
        return 2;
    setenv("TUTTI_TRACE", "0", 1);
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool cuts = argc > 2 && strncmp(argv[2], "cut", 3) == 0;
    if (cuts && !network_make()) {
        puts("SKIPPED: may not make a network namespace");
        return 77;
    }
    if (argc > 3 && (strcmp(argv[2], "cuts") == 0 || strcmp(argv[2], "soak") == 0))
        return soak(atoi(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 10) : 1, argc > 5 ? atoi(argv[5]) : 0, cuts);
    if (cuts) {
        wrong = !run_cut(BEFORE_WORK, 1, 3, true, 0) + !run_cut(IN_WORK, 2, 3, true, 300);
        for (int point = BEFORE_STEP; getenv("TUTTI_TEST_FULL") && point < ISSUED; point++)
            for (int victim = 0; victim < MEMBERS; victim++, count++)
                wrong += !run_cut(point, victim, victim ^ (1 + point % 2), victim % 2, 0);
        printf("%d cuts, %d wrong\n", count + 2, wrong);
        return wrong != 0;
    }
    const struct run *run = gpu_wanted() ? gpu_runs : runs;
    int all = gpu_wanted() ? RUNS(gpu_runs) : RUNS(runs), first = argc > 2 ? atoi(argv[2]) : 0;
    int quick = gpu_wanted() ? 2 : 12, end = argc > 3 ? first + atoi(argv[3]) : getenv("TUTTI_TEST_FULL") ? all : quick;
    for (int i = first; i < end && i < all; i++, count++)
        wrong += !run_point(run[i].point, run[i].victim, run[i].signal, run[i].units, run[i].sends,
                            run[i].count ? run[i].count : COUNT, run[i].chunk);
    if (!first && !gpu_wanted()) {
        wrong += !run_end(false, "no answer came from members") + !run_end(true, "all ranks must make the same calls");
        count += 2;
    }
    printf("%d runs, %d wrong\n", count, wrong);
    return wrong != 0;
}
