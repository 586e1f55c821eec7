/* SPDX-License-Identifier: Apache-2.0 */
/*
 * player FOLDER: one rank, which does what FOLDER/rank-N says, step after step. benchmarks/drawn_jobs.py draws these.
 *
 * A line `comm NAME PARENT COLOR KEY` splits a communicator; `world` is there. Every other line is `WHEN VERB WORDS`,
 * and is a part of each step for which all of WHEN holds: `*` any step, `+N` from step N on, `-N` before it, `=N` and
 * `!N` that step and all others, `%M.R` each M-th. The number of steps so far stands at the rank's place in
 * FOLDER/steps. A rank that hears of a failure says so and stays, as a program that is caught in its error handling.
 */
#include "../collective/gpu.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COMMS 8
#define LINES 128
#define WORDS 8
#define WORD  96
#define MOST  (1 << 20) /* elements of a buffer */

struct line {
    char words[WORDS][WORD];
    int count;
};

static struct {
    struct {
        char name[WORD];
        tutti_comm_t comm;
    } comms[COMMS];
    struct line lines[LINES];
    int comm_count, line_count, rank;
    volatile uint64_t *step;
    float *in, *out;
} job;

static long number(const struct line *line, int word)
{
    return word < line->count ? strtol(line->words[word], NULL, 10) : 0;
}

static tutti_comm_t comm_of(const struct line *line, int word)
{
    for (int i = 0; i < job.comm_count; i++)
        if (strcmp(job.comms[i].name, line->words[word]) == 0)
            return job.comms[i].comm;
    fprintf(stderr, "player: no communicator %s\n", line->words[word]);
    exit(2);
}

/* ---- What is no call ---- */

/* On a processor; 0: for ever. */
static void burn(uint64_t us)
{
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (!us || (uint64_t)(now.tv_sec - begin.tv_sec) * 1000000 + (uint64_t)now.tv_nsec / 1000 <
                      us + (uint64_t)begin.tv_nsec / 1000);
}

static void rest(uint64_t us)
{
    struct timespec left = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left))
        ;
}

/* A file of these MiB, with a rest after each. */
static void save(const char *path, long mib, uint64_t us)
{
    static char block[1 << 20];
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (long i = 0; i < mib && write(file, block, sizeof block) == sizeof block; i++)
        rest(us);
    close(file);
    unlink(path);
}

/* Takes one byte from a pipe with a name, however long that lasts. */
static void take(const char *path)
{
    static int file = -1;
    char byte;
    if (file < 0)
        file = open(path, O_RDONLY);
    if (read(file, &byte, 1) != 1)
        pause();
}

/* The kernel lets it wait for a child that does not begin another program: state D. 0: for ever. */
static void wait_in_kernel(uint64_t us)
{
    if (vfork() == 0) {
        while (!us)
            pause();
        rest(us);
        _exit(0);
    }
}

static void print(long bytes)
{
    for (long i = 0; i < bytes; i += 32)
        puts("a line of thirty-one characters");
    fflush(stdout);
}

/* As a program that has come to its end. */
static void leave(void)
{
    for (int i = job.comm_count - 1; i >= 0; i--)
        tutti_comm_destroy(job.comms[i].comm);
    exit(0);
}

static bool act(const struct line *line)
{
    const char *verb = line->words[1];
    if (strcmp(verb, "rest") == 0)
        rest((uint64_t)number(line, 2));
    else if (strcmp(verb, "burn") == 0)
        burn((uint64_t)number(line, 2));
    else if (strcmp(verb, "grow") == 0) /* longer with each step */
        rest((uint64_t)number(line, 2) * *job.step / 100);
    else if (strcmp(verb, "uneven") == 0) /* each step another time */
        rest((uint64_t)rand() % (uint64_t)(number(line, 2) + 1));
    else if (strcmp(verb, "save") == 0)
        save(line->words[2], number(line, 3), (uint64_t)number(line, 4));
    else if (strcmp(verb, "take") == 0)
        take(line->words[2]);
    else if (strcmp(verb, "print") == 0)
        print(number(line, 2));
    else if (strcmp(verb, "blocked") == 0)
        wait_in_kernel((uint64_t)number(line, 2));
    else if (strcmp(verb, "exec") == 0)
        execlp("sleep", "sleep", "1000", NULL);
    else if (strcmp(verb, "abort") == 0)
        abort();
    else if (strcmp(verb, "leave") == 0)
        leave();
    else if (strcmp(verb, "exit") == 0)
        _exit(0);
    else
        return false;
    return true;
}

/* ---- Calls ---- */

static tutti_result_t call(const struct line *line, bool *known)
{
    static const struct {
        const char *name;
        tutti_type_t type;
    } types[] = {{"float32", TUTTI_FLOAT32}, {"int32", TUTTI_INT32}};
    const char *verb = line->words[1];
    tutti_comm_t comm = comm_of(line, 2);
    size_t count = (size_t)number(line, 3);
    int root = (int)number(line, 4);
    tutti_type_t type = TUTTI_FLOAT32;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (line->count > 5 && strcmp(line->words[5], types[i].name) == 0)
            type = types[i].type;
    *known = true;
    if (strcmp(verb, "allreduce") == 0)
        return tutti_allreduce(job.in, job.out, count, type, TUTTI_SUM, comm, NULL);
    if (strcmp(verb, "reduce") == 0)
        return tutti_reduce(job.in, job.out, count, type, TUTTI_SUM, root, comm, NULL);
    if (strcmp(verb, "broadcast") == 0)
        return tutti_broadcast(job.in, job.out, count, type, root, comm, NULL);
    if (strcmp(verb, "gather") == 0)
        return tutti_gather(job.in, job.out, count, type, root, comm, NULL);
    if (strcmp(verb, "scatter") == 0)
        return tutti_scatter(job.in, job.out, count, type, root, comm, NULL);
    if (strcmp(verb, "allgather") == 0)
        return tutti_allgather(job.in, job.out, count, type, comm, NULL);
    if (strcmp(verb, "reduce_scatter") == 0)
        return tutti_reduce_scatter(job.in, job.out, count, type, TUTTI_SUM, comm, NULL);
    if (strcmp(verb, "alltoall") == 0)
        return tutti_alltoall(job.in, job.out, count, type, comm, NULL);
    if (strcmp(verb, "barrier") == 0)
        return tutti_barrier(comm, NULL);
    if (strcmp(verb, "send") == 0)
        return tutti_send(job.in, count, type, root, comm, NULL);
    if (strcmp(verb, "recv") == 0)
        return tutti_recv(job.out, count, type, root, comm, NULL);
    if (strcmp(verb, "sync") == 0)
        return tutti_comm_synchronize(comm);
    if (strcmp(verb, "expect") == 0)
        return tutti_expect_pause(comm, "drawn", (int)count);
    *known = false;
    return TUTTI_SUCCESS;
}

/* `group` and `end` are of no communicator. */
static tutti_result_t play(const struct line *line)
{
    bool known;
    if (act(line))
        return TUTTI_SUCCESS;
    if (strcmp(line->words[1], "group") == 0)
        return tutti_group_start();
    if (strcmp(line->words[1], "end") == 0)
        return tutti_group_end();
    tutti_result_t result = call(line, &known);
    if (!known) {
        fprintf(stderr, "player: unknown: %s\n", line->words[1]);
        exit(2);
    }
    return result;
}

/* ---- When ---- */

static bool holds(const char *when, uint64_t step)
{
    for (const char *at = when; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *rest_of;
        uint64_t n = strtoull(at + 1, &rest_of, 10), r = *rest_of == '.' ? strtoull(rest_of + 1, NULL, 10) : 0;
        if ((*at == '+' && step < n) || (*at == '-' && step >= n) || (*at == '=' && step != n) ||
            (*at == '!' && step == n) || (*at == '%' && n && step % n != r))
            return false;
    }
    return true;
}

/* ---- Beginning ---- */

static bool read_script(const char *folder)
{
    char text[1024];
    snprintf(text, sizeof text, "%s/rank-%d", folder, job.rank);
    FILE *file = fopen(text, "r");
    while (file && job.line_count < LINES && fgets(text, sizeof text, file)) {
        struct line *line = &job.lines[job.line_count];
        line->count = 0;
        for (char *word = strtok(text, " \n"); word && line->count < WORDS; word = strtok(NULL, " \n"))
            snprintf(line->words[line->count++], WORD, "%s", word);
        job.line_count += line->count > 1;
    }
    if (file)
        fclose(file);
    return file != NULL;
}

static tutti_result_t open_comms(void)
{
    tutti_config_t config = gpu_config();
    tutti_result_t result = tutti_comm_init_from_env(&job.comms[0].comm, &config);
    snprintf(job.comms[0].name, WORD, "world");
    job.comm_count = 1;
    for (int i = 0; i < job.line_count && !result; i++) {
        const struct line *line = &job.lines[i];
        if (strcmp(line->words[0], "comm") || job.comm_count == COMMS)
            continue;
        snprintf(job.comms[job.comm_count].name, WORD, "%s", line->words[1]);
        result = tutti_comm_split(comm_of(line, 2), (int)number(line, 3), (int)number(line, 4),
                                  &job.comms[job.comm_count].comm, &config);
        job.comm_count++;
    }
    return result;
}

static bool open_steps(const char *folder)
{
    char path[1024];
    struct stat status;
    snprintf(path, sizeof path, "%s/steps", folder);
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &status) || status.st_size < (off_t)((size_t)(job.rank + 1) * sizeof *job.step))
        return false;
    void *at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    job.step = at == MAP_FAILED ? NULL : (uint64_t *)at + job.rank;
    return job.step != NULL;
}

static tutti_result_t open_buffers(void)
{
    if (!gpu_wanted()) {
        job.in = calloc(MOST, sizeof *job.in);
        job.out = calloc(MOST, sizeof *job.out);
        return job.in && job.out ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
    }
    tutti_result_t result = tutti_device_mem_alloc((void **)&job.in, MOST * sizeof *job.in);
    return result ? result : tutti_device_mem_alloc((void **)&job.out, MOST * sizeof *job.out);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("TUTTI_RANK");
    job.rank = rank ? atoi(rank) : 0;
    if (argc != 2 || job.rank < 0 || !read_script(argv[1]) || !open_steps(argv[1]))
        return 2;
    srand((unsigned)job.rank + 1);
    if (gpu_wanted())
        gpu_select(job.rank);
    tutti_result_t result = open_comms();
    if (!result)
        result = open_buffers();
    for (; !result; ++*job.step)
        for (int i = 0; i < job.line_count && !result; i++)
            if (strcmp(job.lines[i].words[0], "comm") && holds(job.lines[i].words[0], *job.step))
                result = play(&job.lines[i]);
    printf("rank %d: %s\n", job.rank, tutti_get_last_error(NULL));
    fflush(stdout);
    for (;;)
        pause();
}
