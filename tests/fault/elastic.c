/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic TRANSPORT [FIRST [COUNT]]: elastic groups of four processes of which one or two are killed or stopped,
 * each at a place that is counted in the library's own calls. All who say that a step counts must say the same of the
 * step. `elastic TRANSPORT soak FAULTS SEED`: the same at random moments.
 * With TUTTI_TEST_GPU=1 members have GPUs of the stand-in driver.
 */
#include "../collective/gpu.h"
#include "base/random.h"
#include "comm/elastic.h"
#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 4
#define STEPS   6
#define COUNT   5000 /* elements of a call, */
#define MOST    200000
#define MARKS   16 /* elements that tell who is in the sum */

enum point {
    NOWHERE,
    BEFORE_STEP,
    BEFORE_WORK, /* of a step */
    IN_WORK,     /* about to send one of its payloads: some peers have all, and others never get it */
    ISSUED,      /* a GPU's work is in its stream */
    AFTER_WORK,  /* the turn is not finished yet */
    BEFORE_VOTE, /* the turn is finished, and nobody knows */
    AFTER_VOTE,  /* the turn counts */
    AT_THE_END,  /* another member is missing */
    AT_ASK,      /* about to ask */
    AT_CONCLUDE, /* about to propose */
    HEARS_ASK,   /* and has not answered */
    HEARS_PROMISE,
    HEARS_PROPOSE,
    HEARS_ACCEPT,
    HEARS_DECIDED,
    BEFORE_NEXT, /* about to open the next generation */
    IN_MAKING,   /* of its communicators */
    LEAVES,      /* before a step, and its process lives on */
    POINTS
};

struct said {
    bool counts;
    uint64_t generation, hash;
    int members;
    unsigned set;
};

struct told {
    struct said said[STEPS + 1];
    _Atomic int steps; /* that the member has done */
    _Atomic bool ended;
    tutti_result_t result;
    char sentence[600];
    bool wrong, fresh;
};

struct job {
    tutti_unique_id_t id;
    _Atomic bool made, over;
    int timeout_ms, units, minimum, count;
    bool compares; /* with a plain allreduce of those who are left */
    bool all;      /* that nothing happens to go on: the machine may be too slow for that where the timeout is short */
    struct {
        int point, signal, step, sends;
    } fault[MEMBERS];
    struct told told[MEMBERS];
};
static struct job *job;
static int me, step_now, sends;
static bool works;

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* ---- Places in the library ---- */

static void reach(enum point point)
{
    if (!job || (int)point != job->fault[me].point || step_now < job->fault[me].step)
        return;
    job->fault[me].point = NOWHERE;
    if (point == IN_WORK)
        nap(50); /* those who need nothing more of this member have their results */
    raise(job->fault[me].signal);
}

tutti_result_t __real_generation_make(struct generation *generation, uint64_t deadline);
tutti_result_t __wrap_generation_make(struct generation *generation, uint64_t deadline);
tutti_result_t __wrap_generation_make(struct generation *generation, uint64_t deadline)
{
    if (!generation->made)
        reach(IN_MAKING);
    tutti_result_t result = __real_generation_make(generation, deadline);
    if (result == TUTTI_SUCCESS)
        reach(BEFORE_WORK);
    works = true;
    sends = 0;
    return result;
}
void __real_link_send(struct link *link, struct link_send *send);
void __wrap_link_send(struct link *link, struct link_send *send);
void __wrap_link_send(struct link *link, struct link_send *send)
{
    if (works && sends++ == job->fault[me].sends)
        reach(IN_WORK);
    __real_link_send(link, send);
}
tutti_result_t __real_comm_wait(struct tutti_comm *comm, bool end);
tutti_result_t __wrap_comm_wait(struct tutti_comm *comm, bool end);
tutti_result_t __wrap_comm_wait(struct tutti_comm *comm, bool end)
{
    if (works)
        reach(ISSUED);
    return __real_comm_wait(comm, end);
}
tutti_result_t __real_generation_finish(struct generation *generation, uint32_t turn);
tutti_result_t __wrap_generation_finish(struct generation *generation, uint32_t turn);
tutti_result_t __wrap_generation_finish(struct generation *generation, uint32_t turn)
{
    works = false;
    reach(AFTER_WORK);
    tutti_result_t result = __real_generation_finish(generation, turn);
    if (result == TUTTI_SUCCESS)
        reach(AFTER_VOTE);
    return result;
}
bool __real_consent_finish(struct consent *consent, uint32_t turn);
bool __wrap_consent_finish(struct consent *consent, uint32_t turn);
bool __wrap_consent_finish(struct consent *consent, uint32_t turn)
{
    bool result = __real_consent_finish(consent, turn);
    reach(BEFORE_VOTE);
    return result;
}
tutti_result_t __real_generation_end(struct generation *generation, uint64_t due);
tutti_result_t __wrap_generation_end(struct generation *generation, uint64_t due);
tutti_result_t __wrap_generation_end(struct generation *generation, uint64_t due)
{
    reach(AT_THE_END);
    return __real_generation_end(generation, due);
}
void __real_consent_ask(struct consent *consent);
void __wrap_consent_ask(struct consent *consent);
void __wrap_consent_ask(struct consent *consent)
{
    reach(AT_ASK);
    __real_consent_ask(consent);
}
bool __real_consent_conclude(struct consent *consent, uint64_t child);
bool __wrap_consent_conclude(struct consent *consent, uint64_t child);
bool __wrap_consent_conclude(struct consent *consent, uint64_t child)
{
    reach(AT_CONCLUDE);
    return __real_consent_conclude(consent, child);
}
void __real_consent_hear(struct consent *consent, int from, const struct consent_word *word);
void __wrap_consent_hear(struct consent *consent, int from, const struct consent_word *word);
void __wrap_consent_hear(struct consent *consent, int from, const struct consent_word *word)
{
    if (word->kind >= CONSENT_ASK && word->kind <= CONSENT_DECIDED)
        reach(HEARS_ASK + (int)word->kind - CONSENT_ASK);
    __real_consent_hear(consent, from, word);
}
tutti_result_t __real_generation_follow(const struct generation *old, uint64_t deadline, struct generation **out);
tutti_result_t __wrap_generation_follow(const struct generation *old, uint64_t deadline, struct generation **out);
tutti_result_t __wrap_generation_follow(const struct generation *old, uint64_t deadline, struct generation **out)
{
    reach(BEFORE_NEXT);
    return __real_generation_follow(old, deadline, out);
}

/* ---- A member ---- */

/* First the marks: element i is 1 of member i. Then numbers whose sum depends on the order of adding. */
static void fill(float *in, int member, int step)
{
    for (int i = 0; i < job->count; i++)
        in[i] = i < MARKS ? (float)(i == member)
                          : (float)(int32_t)mix64((uint64_t)step << 40 | (uint64_t)member << 32 | (uint64_t)i) * 1e-7f;
}

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

static void note_step(const tutti_elastic_step_t *step, const float *out, int number)
{
    struct told *told = &job->told[me];
    struct said *said = &told->said[number];
    unsigned marks = 0;
    *said = (struct said){true, step->generation, hash_bytes(1, out, bytes_of_call()), step->members, 0};
    for (int i = 0; i < step->members; i++)
        said->set |= 1u << step->set[i];
    for (int i = 0; i < MARKS; i++)
        marks |= (unsigned)(out[i] == 1.0f) << i;
    unsigned own = said->set;
    if (job->units) /* members of the other shard are not in this sum */
        for (int i = 0; i < MEMBERS; i++)
            own &= i % 2 == me % 2 ? ~0u : ~(1u << i);
    int units = job->units ? step->members / 2 : step->members;
    told->wrong |= marks != own || step->step != (uint64_t)number || step->scale != 1.0 / units || !(own >> me & 1) ||
                   __builtin_popcount(said->set) != step->members;
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
    tutti_elastic_config_t config = TUTTI_ELASTIC_CONFIG_INITIALIZER;
    tutti_elastic_step_t step = {.size = sizeof step};
    config.timeout_ms = job->timeout_ms;
    config.minimum = job->minimum;
    if (job->units) {
        config.unit = me / 2;
        config.shard = me % 2;
    }
    while (!atomic_load(&job->made))
        nap(1);
    tutti_result_t result = tutti_comm_init_rank(&comm, MEMBERS, &job->id, me, &where);
    if (result == TUTTI_SUCCESS)
        result = tutti_elastic_init(&elastic, comm, &config);
    tutti_stream_t stream = result == TUTTI_SUCCESS ? refused(elastic, in) : NULL;
    for (step_now = 1; step_now <= STEPS && result == TUTTI_SUCCESS && !leave(&elastic); step_now++) {
        reach(BEFORE_STEP);
        bool in_place = step_now % 2;
        fill(in, me, step_now);
        memcpy(out, in, bytes_of_call());
        memcpy(was, in, bytes_of_call());
        result = tutti_elastic_allreduce_on(elastic, in_place ? out : in, out, (size_t)job->count, TUTTI_FLOAT32,
                                            TUTTI_SUM, stream, &step);
        told->wrong |= memcmp(in, was, bytes_of_call()) != 0;
        if (result == TUTTI_SUCCESS) {
            note_step(&step, out, step_now);
            atomic_store(&told->steps, step_now);
        }
    }
    told->result = result;
    if (result != TUTTI_SUCCESS) {
        snprintf(told->sentence, sizeof told->sentence, "%s", tutti_get_last_error(NULL));
        tutti_elastic_end(elastic); /* nothing is under way that needs the group's memory */
        elastic = NULL;
    }
    if (result == TUTTI_SUCCESS && job->compares)
        compare(comm, in, out, told->said[STEPS].set);
    atomic_store(&told->ended, true);
    memcpy(was, out, bytes_of_call());
    while (!atomic_load(&job->over)) /* a member that was stopped goes on now */
        nap(2);
    told->wrong |= memcmp(out, was, bytes_of_call()) != 0;
    tutti_elastic_end(elastic);
    tutti_comm_abort(comm);
    tutti_comm_destroy(comm);
}

/* ---- The parent ---- */

static bool judge_step(int number)
{
    const struct said *first = NULL;
    bool right = true;
    for (int i = 0; i < MEMBERS; i++) {
        const struct said *said = &job->told[i].said[number];
        if (!said->counts)
            continue;
        const struct said *other = first ? first : said;
        bool same_sum = !job->units || !first || (first - job->told[0].said) % 2 == 0;
        for (int j = 0; j < i; j++)
            if (job->told[j].said[number].counts && (!job->units || j % 2 == i % 2))
                same_sum = job->told[j].said[number].hash == said->hash;
            else
                same_sum = true;
        if (other->generation != said->generation || other->set != said->set || !same_sum) {
            fprintf(stderr, "  step %d: member %d says generation %llu, set %#x; another %llu, %#x; sums %s\n", number,
                    i, (unsigned long long)said->generation, said->set, (unsigned long long)other->generation,
                    other->set, same_sum ? "agree" : "differ");
            right = false;
        }
        first = other;
    }
    return right;
}

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
        if (all_have(stopped_too, pid, stops))
            return true;
        nap(5);
    }
    return false;
}

/* `faulty`: members that were killed or stopped; `stops`: that come back. */
static bool judge(const bool *stops, const bool *killed, const bool *died, const char *what)
{
    bool right = true;
    int whole = 0;
    for (int step = 1; step <= STEPS; step++)
        right &= judge_step(step);
    for (int i = 0; i < MEMBERS; i++) {
        const struct told *told = &job->told[i];
        bool broken = job->units && (killed[i ^ 1] || stops[i ^ 1]), out = killed[i] || stops[i] || broken;
        whole += told->result == TUTTI_SUCCESS && told->steps == STEPS && !died[i];
        if (told->wrong || (died[i] && !killed[i])) {
            fprintf(stderr, "  member %d: %s\n", i,
                    told->wrong ? "a result, an input or a late write is wrong" : "died");
            right = false;
        }
        if (job->all && !out && (told->result != TUTTI_SUCCESS || told->fresh != job->compares)) {
            fprintf(stderr, "  member %d should have gone on: %s\n", i, told->sentence);
            right = false;
        }
        if (!killed[i] && told->steps < STEPS && !told->sentence[0]) {
            fprintf(stderr, "  member %d did not say why it ended\n", i);
            right = false;
        }
    }
    if (!whole && !job->units)
        right = false;
    if (!right)
        fprintf(stderr, "wrong: %s; %d members are whole\n", what, whole);
    for (int i = 0; i < MEMBERS && (!right || getenv("TUTTI_TEST_SAY")); i++)
        fprintf(stderr, "  member %d: %d steps, generation %llu, set %#x, result %d: %s\n", i, job->told[i].steps,
                (unsigned long long)job->told[i].said[job->told[i].steps].generation,
                job->told[i].said[job->told[i].steps].set, (int)job->told[i].result, job->told[i].sentence);
    return right;
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
    for (int i = 0; i < MEMBERS; i++)
        if (pid[i] && stops[i])
            kill(pid[i], SIGCONT);
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
    return judge(stops, killed, died, what) && right;
}

static void new_job(int timeout_ms)
{
    memset(job, 0, sizeof *job);
    job->timeout_ms = timeout_ms;
    job->minimum = 1;
    job->count = COUNT;
}

/* Member 3 is killed in step 2, where the point is one of the end of a generation. */
static bool run_point(int point, int victim, int signal, bool units, int sends_before, int count)
{
    pid_t pid[MEMBERS];
    bool stops[MEMBERS] = {false}, killed[MEMBERS] = {false};
    char what[100];
    snprintf(what, sizeof what, "point %d after %d, member %d, signal %d, units %d", point, sends_before, victim,
             signal, units);
    new_job(signal == SIGSTOP ? 4000 : 60000);
    job->units = units;
    job->count = count;
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

static bool run_random(uint64_t seed, int *faults)
{
    pid_t pid[MEMBERS];
    bool stops[MEMBERS] = {false}, killed[MEMBERS] = {false};
    char what[60];
    int count = 1 + (int)(mix64(seed) % 3);
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
    new_job(1500);
    job->count = gpu_wanted() && mix64(seed + 1) % 2 ? MOST : COUNT;
    start(pid, member);
    for (int ms = 0; ms < 20000 && job->told[0].steps < 1; ms++)
        nap(1);
    for (int i = 0; i < count; i++) {
        int victim = (int)(mix64(seed + 7 + (uint64_t)i) % MEMBERS),
            signal = mix64(seed + 70 + (uint64_t)i) % 2 ? SIGKILL : SIGSTOP;
        usleep((useconds_t)(mix64(seed + 700 + (uint64_t)i) % 3000));
        if (killed[victim] || stops[victim] || atomic_load(&job->told[victim].ended))
            continue;
        (signal == SIGKILL ? killed : stops)[victim] = true;
        kill(pid[victim], signal);
        ++*faults;
    }
    return finish_run(pid, stops, killed, what);
}

/* ---- The runs ---- */

struct run {
    int point, victim, signal;
    bool units;
    int sends, count;
};
static const struct run runs[] = {
    {IN_WORK, 1, SIGKILL, false, 3},    {LEAVES, 0, SIGSTOP, false},      {LEAVES, 3, SIGSTOP, true},
    {BEFORE_WORK, 0, SIGKILL, false},   {BEFORE_VOTE, 1, SIGKILL, false}, {AFTER_VOTE, 3, SIGKILL, false},
    {BEFORE_VOTE, 2, SIGSTOP, false},   {AT_CONCLUDE, 0, SIGKILL, false}, {HEARS_PROPOSE, 1, SIGKILL, false},
    {HEARS_ACCEPT, 0, SIGSTOP, false},  {AFTER_WORK, 3, SIGKILL, true},   {HEARS_DECIDED, 2, SIGKILL, false},
    {IN_WORK, 0, SIGKILL, false, 1},    {IN_WORK, 3, SIGKILL, false, 2},  {IN_WORK, 1, SIGKILL, false, 1},
    {IN_WORK, 2, SIGSTOP, false, 1},    {AFTER_WORK, 0, SIGKILL, false},  {AT_THE_END, 1, SIGKILL, false},
    {AT_ASK, 0, SIGKILL, false},        {HEARS_ASK, 1, SIGKILL, false},   {HEARS_PROMISE, 0, SIGKILL, false},
    {HEARS_ACCEPT, 0, SIGKILL, false},  {BEFORE_NEXT, 1, SIGKILL, false}, {IN_MAKING, 0, SIGKILL, false},
    {IN_MAKING, 1, SIGKILL, false},     {BEFORE_WORK, 3, SIGSTOP, false}, {AFTER_WORK, 0, SIGSTOP, false},
    {AFTER_VOTE, 1, SIGSTOP, false},    {AT_CONCLUDE, 0, SIGSTOP, false}, {HEARS_PROPOSE, 1, SIGSTOP, false},
    {HEARS_DECIDED, 1, SIGSTOP, false}, {HEARS_ASK, 1, SIGSTOP, false},   {BEFORE_NEXT, 2, SIGSTOP, false},
    {IN_MAKING, 1, SIGSTOP, false},     {AT_ASK, 0, SIGSTOP, false},      {BEFORE_VOTE, 2, SIGKILL, true},
    {BEFORE_WORK, 1, SIGSTOP, true},
};
/* Of GPUs, which send nothing but what is staged. */
static const struct run gpu_runs[] = {
    {ISSUED, 1, SIGKILL, false, 0, MOST},
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
    int wrong = 0, faults = 0, count = 0;
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1);
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 3 && strcmp(argv[2], "soak") == 0) {
        for (uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1; faults < atoi(argv[3]); seed++, count++)
            wrong += !run_random(seed * 1000, &faults);
        printf("%d runs, %d kills and stops, %d wrong\n", count, faults, wrong);
        return wrong != 0;
    }
    const struct run *run = gpu_wanted() ? gpu_runs : runs;
    int all = gpu_wanted() ? RUNS(gpu_runs) : RUNS(runs), first = argc > 2 ? atoi(argv[2]) : 0;
    int quick = gpu_wanted() ? 2 : 11, end = argc > 3 ? first + atoi(argv[3]) : getenv("TUTTI_TEST_FULL") ? all : quick;
    for (int i = first; i < end && i < all; i++, count++)
        wrong += !run_point(run[i].point, run[i].victim, run[i].signal, run[i].units, run[i].sends,
                            run[i].count ? run[i].count : COUNT);
    printf("%d runs, %d wrong\n", count, wrong);
    return wrong != 0;
}
