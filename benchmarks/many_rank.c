/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a job of thousands of ranks: many.py starts it, and says in one line at a time what all its ranks do
 * next. `many-rank FIRST HERE NRANKS TP PP COMMUNICATORS`: ranks FIRST to FIRST + HERE - 1, each of which is a thread.
 * After each step it prints what the process holds, and what its ranks did: one line of JSON. With TUTTI_TEST_GPU=1
 * each rank has a GPU of the stand-in driver, whose memory the processor reads and writes, too.
 */
#include "box.h"
#include "gpu.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST = 10, FLOATS = 256, STACK = 256 << 10, WORDS = 4096, SAME_LOOKS = 5, LOOK_US = 10000 };

struct member {
    pthread_t thread;
    int rank;
    bool failed;
    double at;
    tutti_comm_t comm[MOST];
    tutti_comm_t next; /* without the ranks that left */
    float *in, *out;
    char said[512];
};

static int first, here, nranks, tp, pp, comms;
static struct member *members;
static tutti_unique_id_t meeting;
static int excluded[WORDS], excluded_count;

/* The step that ranks take; NULL: none yet. */
static void (*step)(struct member *me);
static pthread_barrier_t begin, end;
static bool over;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool must(struct member *me, tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS || me->failed)
        return !me->failed;
    me->failed = true;
    snprintf(me->said, sizeof me->said, "rank %d: %s: %.400s", me->rank, what, tutti_get_last_error(NULL));
    return false;
}

/* ---- What ranks do ---- */

static void join(struct member *me)
{
    void *memory = NULL;
    if (gpu_wanted())
        gpu_select(me->rank - first);
    tutti_config_t where = gpu_config();
    if (gpu_wanted())
        must(me, tutti_device_mem_alloc(&memory, 2 * FLOATS * sizeof(float)), "memory");
    else
        memory = malloc(2 * FLOATS * sizeof(float));
    me->in = memory;
    me->out = me->in + FLOATS;
    must(me, memory ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR, "memory");
    must(me, tutti_comm_init_rank(&me->comm[0], nranks, &meeting, me->rank, &where), "join");
}

/* Ranks of one colour are a group. Tensor parallel ranks are neighbours, then come the stages of the pipeline. */
static int colour_of(int which, int rank)
{
    int t = rank % tp, p = rank / tp % pp, d = rank / (tp * pp), wide = d * tp + t;
    switch (which) {
    case 1: /* tensor parallel */
        return d * pp + p;
    case 2: /* pipeline */
        return d * tp + t;
    case 3: /* data parallel */
        return p * tp + t;
    case 4: /* a replica */
        return d;
    case 5: /* shards of one place in the replicas' layers */
        return t;
    case 6: /* a stage of all replicas */
        return p;
    case 7: /* context parallel: two replicas */
        return (d / 2 * pp + p) * tp + t;
    case 8: /* experts: eight of a stage */
        return p * nranks + wide / 8;
    default: /* replicas of an expert */
        return p * 8 + wide % 8;
    }
}

static void split(struct member *me)
{
    for (int i = 1; i < comms && !me->failed; i++)
        must(me, tutti_comm_split(me->comm[0], colour_of(i, me->rank), me->rank, &me->comm[i], NULL), "split");
}

static void sum(struct member *me, tutti_comm_t comm)
{
    float *in = me->in, *out = me->out;
    int size = 0;
    for (int i = 0; i < FLOATS && !me->failed; i++)
        in[i] = 1;
    if (!must(me, tutti_comm_count(comm, &size), "count") ||
        !must(me, tutti_allreduce(in, out, FLOATS, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), "allreduce") ||
        !must(me, tutti_comm_synchronize(comm), "allreduce"))
        return;
    for (int i = 0; i < FLOATS; i++)
        if (out[i] != (float)size) {
            me->failed = true;
            snprintf(me->said, sizeof me->said, "rank %d: the sum of %d ranks is %g", me->rank, size, (double)out[i]);
        }
}

static void reduce(struct member *me)
{
    for (int i = 0; i < comms && !me->failed; i++)
        sum(me, me->comm[i]);
}

static void leave(struct member *me)
{
    if (me->next)
        must(me, tutti_comm_destroy(me->next), "leave");
    for (int i = comms - 1; i >= 0; i--)
        if (me->comm[i])
            must(me, tutti_comm_destroy(me->comm[i]), "leave");
    if (gpu_wanted())
        must(me, tutti_device_mem_free(me->in), "memory");
    else
        free(me->in);
}

/* A collective that a lost rank never enters: every rank is to hear of the loss. */
static void learn(struct member *me)
{
    tutti_result_t result = tutti_allreduce(me->in, me->out, 1, TUTTI_FLOAT32, TUTTI_SUM, me->comm[0], NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(me->comm[0]);
    me->at = now();
    if (result == TUTTI_REMOTE_ERROR)
        return;
    me->failed = true;
    snprintf(me->said, sizeof me->said, "rank %d: an allreduce without a rank that was killed ended with \"%s\"",
             me->rank, tutti_get_error_string(result));
}

static void shrink(struct member *me)
{
    if (must(me, tutti_comm_shrink(me->comm[0], excluded, excluded_count, &me->next, NULL), "shrink"))
        sum(me, me->next);
    me->at = now();
}

/* ---- What the process tells ---- */

static int entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

/* Memory that is the process's own, and its part of what it shares, without files. */
static long kilobytes(void)
{
    char line[200];
    long sum = 0, one;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss_Anon: %ld", &one) == 1 || sscanf(line, "Pss_Shmem: %ld", &one) == 1)
            sum += one;
    if (file)
        fclose(file);
    return sum;
}

static long seconds_us(struct timeval time)
{
    return time.tv_sec * 1000000L + time.tv_usec;
}

/* Threads that serve others may still close sockets of the step that is over. */
static int descriptors_that_stay(void)
{
    int least = entries("/proc/self/fd");
    for (int looks = 0; looks < SAME_LOOKS; looks++) {
        usleep(LOOK_US);
        int count = entries("/proc/self/fd");
        if (count < least)
            least = count, looks = 0;
    }
    return least;
}

static void tell(double begun)
{
    struct rusage used;
    double last = 0, took = now() - begun;
    int descriptors = descriptors_that_stay();
    const char *said = "";
    getrusage(RUSAGE_SELF, &used);
    malloc_trim(0); /* what was freed can be used again */
    for (int i = 0; i < here; i++) {
        last = members[i].at > last ? members[i].at : last;
        said = *said ? said : members[i].said;
    }
    printf(
        "{\"kib\": %ld, \"threads\": %d, \"descriptors\": %d, \"cpu_us\": %ld, \"seconds\": %.4f, "
        "\"at\": %.4f, \"bootstrap_messages\": %llu, \"bootstrap_bytes\": %llu, \"messages\": %llu, \"lanes\": %llu, "
        "\"said\": \"",
        kilobytes(), entries("/proc/self/task") - here, descriptors,
        seconds_us(used.ru_utime) + seconds_us(used.ru_stime), took, last,
        (unsigned long long)box_counter(WIRE_COUNTER_BOOTSTRAP_SENT),
        (unsigned long long)box_counter(WIRE_COUNTER_BOOTSTRAP_SENT_BYTES),
        (unsigned long long)box_counter(WIRE_COUNTER_MESSAGES_SENT),
        (unsigned long long)box_counter(WIRE_COUNTER_LANES_UP));
    for (; *said; said++)
        putchar(*said == '"' || *said == '\\' || *said < ' ' ? '\'' : *said);
    puts("\"}");
    fflush(stdout);
}

static void *member_main(void *argument)
{
    struct member *me = argument;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (over)
            return NULL;
        step(me);
        pthread_barrier_wait(&end);
    }
}

static void all_do(void (*what)(struct member *me))
{
    double begun = now();
    step = what;
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    tell(begun);
}

/* ---- What many.py says ---- */

static bool read_id(const char *hex)
{
    for (size_t i = 0; i < sizeof meeting; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return false;
        meeting.bytes[i] = (char)byte;
    }
    return true;
}

static bool print_id(void)
{
    if (tutti_get_unique_id(&meeting) != TUTTI_SUCCESS)
        return false;
    for (size_t i = 0; i < sizeof meeting; i++)
        printf("%02x", (unsigned char)meeting.bytes[i]);
    putchar('\n');
    fflush(stdout);
    return true;
}

static void read_excluded(char *words)
{
    excluded_count = 0;
    for (char *word = strtok(words, " \n"); word && excluded_count < WORDS; word = strtok(NULL, " \n"))
        excluded[excluded_count++] = atoi(word);
}

static bool obey(char *line)
{
    static const struct {
        const char *word;
        void (*what)(struct member *me);
    } steps[] = {{"split", split}, {"reduce", reduce}, {"leave", leave}, {"learn", learn}};
    if (strncmp(line, "id", 2) == 0)
        return print_id();
    if (strncmp(line, "join ", 5) == 0)
        return read_id(line + 5) ? (all_do(join), true) : false;
    if (strncmp(line, "shrink ", 7) == 0)
        return read_excluded(line + 7), all_do(shrink), true;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (strncmp(line, steps[i].word, strlen(steps[i].word)) == 0)
            return all_do(steps[i].what), true;
    return false;
}

static bool start(void)
{
    pthread_attr_t attributes;
    members = calloc((size_t)here, sizeof *members);
    if (!members || pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, STACK) ||
        pthread_barrier_init(&begin, NULL, (unsigned)here + 1) || pthread_barrier_init(&end, NULL, (unsigned)here + 1))
        return false;
    for (int i = 0; i < here; i++) {
        members[i].rank = first + i;
        if (pthread_create(&members[i].thread, &attributes, member_main, &members[i]))
            return false;
    }
    pthread_attr_destroy(&attributes);
    return true;
}

int main(int argc, char **argv)
{
    static char line[8 * WORDS];
    int *const number[] = {&first, &here, &nranks, &tp, &pp, &comms};
    bool good = argc == 7;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left to say what comes next */
    for (int i = 0; i < 6 && good; i++)
        *number[i] = atoi(argv[1 + i]);
    if (!good || here < 1 || tp < 1 || pp < 1 || comms < 1 || comms > MOST || !start()) {
        fprintf(stderr, "many-rank: FIRST HERE NRANKS TP PP COMMUNICATORS; many.py starts it\n");
        return 2;
    }
    tell(now());
    while (good && fgets(line, sizeof line, stdin))
        good = obey(line);
    over = true;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < here; i++) {
        pthread_join(members[i].thread, NULL);
        good = good && !members[i].failed;
    }
    free(members);
    return !good;
}
