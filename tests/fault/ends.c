/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ends TRANSPORT|gpu [SEED]: the end of a communicator waits for no peer. All other ranks are stopped until rank 0 has
 * ended its own: one with nothing under way, one with a call that the others have not made, and the parent of a
 * shrunken one, which works afterwards. With `gpu` on GPUs that reach each other, on staged ones, and on those of two
 * and of four hosts (TUTTI_TEST_GPU=1).
 */
#include "family.h"
#include "gpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define RANKS      4
#define LAST       (RANKS - 1)
#define LONGEST_MS 10000 /* peers may hear of it for 5 s; for a silent one a rank waits 30 s */

enum { BUSY = 1, SHRUNK = 2, DEAD = 4, ABORTED = 8 }; /* bits of a variant */

static const struct scene {
    const char *name;
    int variant;
} scenes[] = {
    {"destroyed with nothing under way", 0},
    {"aborted amid a call", BUSY | ABORTED},
    {"the parent of others destroyed", SHRUNK},
    {"the parent of others aborted", SHRUNK | ABORTED},
    {"the parent of others destroyed, who lost one", SHRUNK | DEAD},
};
#define SCENES ((int)(sizeof scenes / sizeof *scenes))

static const struct layout {
    const char *name, *hosts, *transport;
} layouts[] = {
    {"GPUs that reach each other", "1", "auto"},
    {"staged GPUs", "1", "tcp"},
    {"two hosts of two GPUs", "2", "auto"},
    {"four hosts of a GPU", "4", "auto"},
};

static bool works(struct family *family, int rank, tutti_comm_t comm, int nranks)
{
    struct job job = {.kind = JOB_ALLTOALL, .type = TUTTI_INT32, .count = 1000, .seed = family->seed};
    bool right = family_job(family, rank, rank, nranks, comm, &job) == TUTTI_SUCCESS;
    if (!right)
        fprintf(stderr, "  rank %d of %d: %s\n", rank, nranks, tutti_get_last_error(comm));
    return right;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void stop_others(const struct family *family, int signal, int living)
{
    for (int other = 1; other < living; other++) {
        kill(family->pid[other], signal);
        while (signal == SIGSTOP && family_state(family->pid[other]) != 'T')
            family_nap(1);
    }
}

/* Rank 0's end, of whom no other one hears. */
static bool ends_alone(struct family *family, tutti_comm_t comm)
{
    struct job job = {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 1000, .seed = family->seed};
    bool right = true;
    if (family->variant & BUSY) {
        job_prepare(&job, comm, 0, family->count);
        right = job_issue(&job, NULL) == TUTTI_SUCCESS;
        family_nap(20);
    }
    long begin = now_ms();
    if (family->variant & ABORTED)
        right &= tutti_comm_abort(comm) == TUTTI_SUCCESS;
    right &= tutti_comm_destroy(comm) == TUTTI_SUCCESS;
    long took = now_ms() - begin;
    if (family->variant & BUSY)
        job_free(&job);
    if (!right || took > LONGEST_MS)
        fprintf(stderr, "  it %s after %ld ms\n", right ? "ended" : "failed", took);
    return right && took <= LONGEST_MS;
}

static void await_rounds(const struct family *family, uint64_t rounds, int ranks)
{
    for (int rank = 0; rank < ranks; rank++)
        while (atomic_load(&family->report[rank].rounds) < rounds)
            family_nap(1);
}

static void end_one(struct family *family, int rank, tutti_comm_t comm)
{
    bool shrinks = family->variant & SHRUNK && rank != LAST;
    int last = LAST, living = family->variant & DEAD ? LAST : RANKS;
    tutti_comm_t child = NULL;
    bool right = works(family, rank, comm, RANKS);
    if (rank == LAST && family->variant & DEAD) {
        await_rounds(family, 1, LAST);
        kill(getpid(), SIGKILL);
    }
    if (shrinks)
        right &= tutti_comm_shrink(comm, &last, 1, &child, NULL) == TUTTI_SUCCESS;
    atomic_fetch_add(&family->report[rank].rounds, right);
    if (rank == 0) {
        await_rounds(family, 2, living);
        stop_others(family, SIGSTOP, living);
        right &= ends_alone(family, comm);
        stop_others(family, SIGCONT, living);
        atomic_store(&family->stop, true);
    } else {
        while (!atomic_load(&family->stop))
            family_nap(1);
        tutti_comm_destroy(comm);
    }
    if (shrinks)
        right &= works(family, rank, child, LAST) && tutti_comm_destroy(child) == TUTTI_SUCCESS;
    family->report[rank].went_on = right;
}

static struct family *begin(const struct scene *scene, uint64_t seed)
{
    return family_start(RANKS, scene->variant & DEAD ? LAST : -1, scene->variant, seed, end_one);
}

static bool judge(const struct scene *scene, struct family *family, const char *where)
{
    bool right = family_wait(family, 60);
    for (int rank = 0; rank < RANKS; rank++)
        right &= rank == family->victim || (family->report[rank].went_on && !family->report[rank].wrong);
    printf("%s: %s, %s\n", right ? "right" : "WRONG", scene->name, where);
    fflush(stdout);
    family_free(family);
    return right;
}

/* All at once: each waits more than it works. */
static int play(const char *where, const char *transport, uint64_t seed)
{
    struct family *family[SCENES];
    int wrong = 0;
    setenv("TUTTI_TRANSPORT", transport, 1);
    for (int i = 0; i < SCENES; i++)
        family[i] = begin(&scenes[i], seed);
    for (int i = 0; i < SCENES; i++)
        wrong += !judge(&scenes[i], family[i], where);
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int wrong = 0;
    if (argc < 2)
        return 2;
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1); /* boxes of the dead would stay */
    if (!gpu_wanted())
        return play(argv[1], argv[1], seed) != 0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        setenv("TUTTI_TEST_HOSTS", layouts[i].hosts, 1);
        wrong += play(layouts[i].name, layouts[i].transport, seed);
    }
    return wrong != 0;
}
