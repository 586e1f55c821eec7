/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members TRANSPORT [SEED]: the members of a child communicator agree before any of them has it. In each scenario one
 * rank cannot make it, differs, is late, dies or aborts: all others must fail for that reason, and say so, or succeed,
 * and the next attempt must be right.
 */
#include "family.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1 /* address space cannot be made scarce */
#else
#define SANITIZED 0
#endif

static const char *transport;
static int failures, scenarios;

/* ---- What ranks do ---- */

/* The communicator works, and has `nranks` ranks. Destroys it. */
static bool works(struct family *family, int rank, tutti_comm_t comm, int nranks)
{
    static const size_t counts[] = {1, 1000, 50001};
    int place = -1, count = 0;
    bool right = tutti_comm_rank(comm, &place) == TUTTI_SUCCESS && tutti_comm_count(comm, &count) == TUTTI_SUCCESS &&
                 count == nranks;
    for (int i = 0; i < 6 && right; i++) {
        struct job job = {.kind = i % 2 ? JOB_ALLTOALL : JOB_ALLREDUCE,
                          .type = TUTTI_INT32,
                          .count = counts[i / 2],
                          .seed = family->seed + (uint64_t)i};
        right = family_job(family, rank, place, nranks, comm, &job) == TUTTI_SUCCESS && !family->report[rank].wrong;
    }
    if (!right)
        fprintf(stderr, "  rank %d: the new communicator (rank %d of %d): %s\n", rank, place, count,
                tutti_get_last_error(comm));
    return tutti_comm_destroy(comm) == TUTTI_SUCCESS && right;
}

static void splits_again(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    tutti_result_t result = tutti_comm_split(comm, rank % 2, -rank, &child, NULL);
    if (result != TUTTI_SUCCESS)
        fprintf(stderr, "  rank %d of the next split: %s\n", rank, tutti_get_last_error(NULL));
    family->report[rank].went_on =
        result == TUTTI_SUCCESS && works(family, rank, child, (family->count + 1 - rank % 2) / 2);
    tutti_comm_destroy(comm);
}

static bool shrinks_right(struct family *family, int rank, tutti_comm_t comm, const int *excluded, int count)
{
    tutti_comm_t child = NULL;
    int nranks = 0;
    tutti_result_t result = tutti_comm_shrink(comm, excluded, count, &child, NULL);
    if (result != TUTTI_SUCCESS)
        fprintf(stderr, "  rank %d of the next shrink: %s\n", rank, tutti_get_last_error(NULL));
    return result == TUTTI_SUCCESS && tutti_comm_count(comm, &nranks) == TUTTI_SUCCESS &&
           works(family, rank, child, nranks - count);
}

/* A rank that came so late that the first attempt had failed without it has taken part in the next. */
static void shrinks_again(struct family *family, int rank, tutti_comm_t comm, tutti_comm_t child, const int *excluded,
                          int count)
{
    if (family->report[rank].result == TUTTI_SUCCESS && child)
        family->report[rank].went_on = works(family, rank, child, family->count - count);
    else
        family->report[rank].went_on = shrinks_right(family, rank, comm, excluded, count);
    tutti_comm_destroy(comm);
}

static tutti_result_t splits_in_group(tutti_comm_t comm, int count, tutti_comm_t *child)
{
    float in = 1, out;
    tutti_group_start();
    tutti_comm_split(comm, 0, 0, child, NULL);
    tutti_allreduce(&in, &out, 1, count < 0 ? (tutti_type_t)99 : TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
    return tutti_group_end();
}

/* Each by another call. */
static void one_cannot(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t child = NULL;
    tutti_result_t result;
    bool bad = rank == 1;
    config.policy = bad ? 77 : -1;
    if (family->variant == 0)
        result = tutti_comm_split(comm, rank % 2, 0, &child, &config);
    else if (family->variant == 1)
        result = tutti_comm_duplicate(comm, bad ? NULL : &child, NULL);
    else if (family->variant == 2)
        result = tutti_comm_shrink(comm, NULL, 0, &child, &config);
    else
        result = splits_in_group(comm, bad ? -9 : 1, &child);
    family_end(family, rank, NULL, result);
    splits_again(family, rank, comm);
}

static void limit_memory(bool on)
{
    static struct rlimit before;
    struct rlimit limit;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        abort();
    fclose(file);
    if (on)
        getrlimit(RLIMIT_AS, &before);
    limit = before;
    if (on)
        limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (3u << 20); /* not for an arena */
    setrlimit(RLIMIT_AS, &limit);
}

/* From here on there are links to all. */
static void meets_all(const struct family *family, int rank, tutti_comm_t comm)
{
    static int in[FAMILY_MOST], out[FAMILY_MOST];
    tutti_group_start();
    for (int peer = 0; peer < family->count; peer++) {
        tutti_send(&out[peer], 1, TUTTI_INT32, peer, comm, NULL);
        tutti_recv(&in[peer], 1, TUTTI_INT32, peer, comm, NULL);
    }
    if (tutti_group_end() != TUTTI_SUCCESS || tutti_comm_synchronize(comm) != TUTTI_SUCCESS)
        fprintf(stderr, "  rank %d does not meet all: %s\n", rank, tutti_get_last_error(comm));
}

/* What ranks share finds no address space in one of them. */
static void one_has_no_memory(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    meets_all(family, rank, comm);
    if (rank == 1)
        limit_memory(true);
    tutti_result_t result =
        family->variant ? tutti_comm_shrink(comm, NULL, 0, &child, NULL) : tutti_comm_split(comm, 0, 0, &child, NULL);
    family_end(family, rank, NULL, result);
    if (rank == 1)
        limit_memory(false);
    splits_again(family, rank, comm);
}

/* Opens no descriptor more than it has: what ranks share comes to it, and cannot be taken. */
static void limit_descriptors(bool on)
{
    static struct rlimit before;
    struct rlimit limit;
    if (on)
        getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    if (on)
        limit.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void one_has_no_descriptor(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    struct job first = {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 10};
    family_job(family, rank, rank, family->count, comm, &first); /* now there are links */
    if (rank == 1)
        limit_descriptors(true);
    tutti_result_t result =
        family->variant ? tutti_comm_shrink(comm, NULL, 0, &child, NULL) : tutti_comm_split(comm, 0, 0, &child, NULL);
    family_end(family, rank, NULL, result);
    if (rank == 1)
        limit_descriptors(false);
    splits_again(family, rank, comm);
}

/* All but the last split, which shrinks: each waits for the other. All hear of it, and the shrink is right in the end.
 */
static void one_shrinks_while_others_split(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    int first = 0;
    tutti_result_t result = rank < family->count - 1 ? tutti_comm_split(comm, 0, 0, &child, NULL)
                                                     : tutti_comm_shrink(comm, &first, 1, &child, NULL);
    family_end(family, rank, NULL, result);
    family->report[rank].went_on = rank == 0;
    if (rank == 0)
        tutti_comm_destroy(comm);
    else
        shrinks_again(family, rank, comm, child, &first, 1);
}

/* Late enough for the others to wait in the call. */
static void die_late(void)
{
    family_nap(150);
    kill(getpid(), SIGKILL);
}

static void one_dies_before_split(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    if (rank == family->victim)
        die_late();
    family_end(family, rank, NULL, tutti_comm_split(comm, 0, 0, &child, NULL));
    shrinks_again(family, rank, comm, child, &family->victim, 1);
}

/* Some know of the death and make no attempt, others hear of it in one. */
static void one_dies_and_not_all_split(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_result_t state = TUTTI_SUCCESS;
    tutti_comm_t child = NULL;
    struct job first = {.kind = JOB_ALLREDUCE, .type = TUTTI_INT32, .count = 10};
    family_job(family, rank, rank, family->count, comm, &first); /* now there are links */
    if (rank == family->victim)
        die_late();
    if (rank % 2)
        family_end(family, rank, NULL, tutti_comm_split(comm, 0, 0, &child, NULL));
    while (rank % 2 == 0 && state == TUTTI_SUCCESS && tutti_comm_get_async_error(comm, &state) == TUTTI_SUCCESS)
        family_nap(1);
    if (rank % 2 == 0)
        family_end(family, rank, comm, state);
    shrinks_again(family, rank, comm, child, &family->victim, 1);
}

/* One knows of the death, as from another communicator, and goes on without the dead rank; the others wait for the
 * living one. */
static void one_shrinks_before_others_know(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    float one = 1, sum;
    if (rank == family->victim)
        die_late();
    if (rank == 0) {
        family_await_end(family, family->victim);
        family_nap(250);
        family_end(family, rank, NULL, tutti_comm_shrink(comm, &family->victim, 1, &child, NULL));
    } else {
        tutti_result_t result = tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
        family_end(family, rank, comm, result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result);
    }
    shrinks_again(family, rank, comm, child, &family->victim, 1);
}

/* A rank was killed or (variant 1) has ended well. Others wait for a rank that has never had a link to it, and that
 * goes on without it: the others have to hear of that. */
static void one_shrinks_that_never_met_the_dead(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    float value = 0;
    if (rank == family->victim && family->variant) {
        family_nap(150);
        tutti_comm_destroy(comm);
        exit(0);
    }
    if (rank == family->victim)
        die_late();
    if (rank == 1) {
        family_await_end(family, family->victim);
        family_nap(250);
        family_end(family, rank, NULL, tutti_comm_shrink(comm, &family->victim, 1, &child, NULL));
    } else {
        tutti_result_t result = tutti_recv(&value, 1, TUTTI_FLOAT32, 1, comm, NULL);
        family_end(family, rank, comm, result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result);
    }
    shrinks_again(family, rank, comm, child, &family->victim, 1);
}

/* The others wait in the call then; most likely they have been heard. */
static void comes_last(struct family *family, int rank, bool last)
{
    atomic_fetch_add(&family->report[rank].issued, 1);
    for (int other = 0; last && other < family->count; other++)
        if (other != rank)
            family_await_call(family, other);
    family_nap(last ? 150 : 0);
}

static void lists_differ(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    int last = family->count - 1, excluded[2] = {last, last - 1};
    bool differs = rank == family->variant;
    if (rank == last) {
        family->report[rank].went_on = true;
        family_end(family, rank, NULL, TUTTI_INVALID_USAGE);
        snprintf(family->report[rank].sentence, sizeof family->report[rank].sentence, "excludes ranks");
        tutti_comm_destroy(comm);
        return;
    }
    comes_last(family, rank, differs);
    family_end(family, rank, NULL, tutti_comm_shrink(comm, excluded, differs ? 2 : 1, &child, NULL));
    shrinks_again(family, rank, comm, child, excluded, 1);
}

static void a_list_is_wrong(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    int excluded = family->count + 7;
    comes_last(family, rank, rank == 0);
    family_end(family, rank, NULL, tutti_comm_shrink(comm, &excluded, rank == 0, &child, NULL));
    shrinks_again(family, rank, comm, child, NULL, 0);
}

/* The victim is gone; the next rank dies while the others wait for it in the call. */
static void another_dies_in_shrink(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    int next = (family->victim + 1) % family->count, excluded[2] = {family->victim, next};
    if (rank == family->victim)
        kill(getpid(), SIGKILL);
    if (rank == next)
        die_late();
    family_end(family, rank, NULL, tutti_comm_shrink(comm, excluded, 1, &child, NULL));
    shrinks_again(family, rank, comm, child, excluded, 2);
}

static void one_is_late(struct family *family, int rank, tutti_comm_t comm)
{
    if (rank == family->victim)
        kill(getpid(), SIGKILL);
    if (rank == (family->victim + 1 + family->variant) % family->count)
        family_nap(400);
    shrinks_again(family, rank, comm, NULL, &family->victim, 1);
}

struct aborter {
    struct family *family;
    tutti_comm_t comm;
};

/* When all but the last one wait in the call, and most likely have been heard. */
static void *abort_soon(void *argument)
{
    const struct aborter *aborter = argument;
    for (int rank = 0; rank < aborter->family->count - 1; rank++)
        family_await_call(aborter->family, rank);
    family_nap(150);
    tutti_comm_abort(aborter->comm);
    atomic_store(&aborter->family->stop, true);
    return NULL;
}

/* The last rank comes too late, or not at all: it hears of it all the same. */
static void one_aborts(struct family *family, int rank, tutti_comm_t comm)
{
    struct aborter aborter = {family, comm};
    tutti_comm_t child = NULL;
    pthread_t thread;
    if (rank == 0 && pthread_create(&thread, NULL, abort_soon, &aborter) != 0)
        exit(5);
    if (rank == family->count - 1) {
        tutti_result_t state = TUTTI_SUCCESS;
        while (state == TUTTI_SUCCESS && tutti_comm_get_async_error(comm, &state) == TUTTI_SUCCESS && !family->variant)
            family_nap(1);
        while (!atomic_load(&family->stop))
            family_nap(1);
        family_nap(family->variant ? 450 : 0);
        family_end(family, rank, family->variant ? NULL : comm,
                   family->variant ? tutti_comm_shrink(comm, NULL, 0, &child, NULL) : state);
    } else {
        atomic_fetch_add(&family->report[rank].issued, 1);
        family_end(family, rank, NULL,
                   family->variant ? tutti_comm_shrink(comm, NULL, 0, &child, NULL)
                                   : tutti_comm_split(comm, 0, 0, &child, NULL));
    }
    if (rank == 0)
        pthread_join(thread, NULL);
    shrinks_again(family, rank, comm, child, NULL, 0);
}

/* A rank that was excluded once may be a member of the next, and comes to that early. And children can be shrunken. */
static void shrinks_often(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t child = NULL;
    bool right = true;
    int first = 0;
    for (int i = 0; i < 6 && right; i++) {
        int excluded = i % family->count;
        right = rank == excluded || shrinks_right(family, rank, comm, &excluded, 1);
        if (right && i % 3 == 2)
            right = shrinks_right(family, rank, comm, NULL, 0);
    }
    right = right && tutti_comm_shrink(comm, NULL, 0, &child, NULL) == TUTTI_SUCCESS &&
            (rank == 0 || shrinks_right(family, rank, child, &first, 1)) && works(family, rank, child, family->count);
    family->report[rank].went_on = right;
    tutti_comm_destroy(comm);
}

/* Without blocking: what is asked of a communicator meanwhile is that it is being made, and how it ended. */
static tutti_result_t wait_made(tutti_comm_t comm, tutti_comm_t child)
{
    tutti_result_t state = TUTTI_IN_PROGRESS, parent = TUTTI_IN_PROGRESS;
    while ((child && state == TUTTI_IN_PROGRESS) || parent == TUTTI_IN_PROGRESS) {
        if (child)
            tutti_comm_get_async_error(child, &state);
        tutti_comm_get_async_error(comm, &parent);
        family_nap(1);
    }
    return child ? state : parent;
}

static void without_blocking(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER, bad = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t child = NULL;
    bool last = rank == family->count - 1;
    float one = 1, sum;
    config.blocking = bad.blocking = 0;
    bad.policy = 77;
    while (last && !atomic_load(&family->report[0].issued))
        family_nap(1);
    tutti_result_t result = tutti_comm_split(comm, last ? TUTTI_SPLIT_NOCOLOR : 3, 0, &child, &config);
    bool right = result == TUTTI_IN_PROGRESS && !child == last;
    if (rank == 0) /* the last one has not come */
        right &= tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) == TUTTI_IN_PROGRESS;
    atomic_fetch_add(&family->report[rank].issued, 1);
    right = right && wait_made(comm, child) == TUTTI_SUCCESS && (last || works(family, rank, child, family->count - 1));
    child = NULL;
    result = tutti_comm_shrink(comm, NULL, 0, &child, &config);
    right = right && result == TUTTI_IN_PROGRESS && wait_made(comm, child) == TUTTI_SUCCESS &&
            works(family, rank, child, family->count);
    child = NULL;
    result = tutti_comm_split(comm, 0, 0, &child, last ? &bad : &config);
    if (!last && (result != TUTTI_IN_PROGRESS || wait_made(comm, child) != TUTTI_INVALID_ARGUMENT))
        right = false;
    family_end(family, rank, last ? NULL : child, last ? result : TUTTI_INVALID_ARGUMENT);
    right &= last || tutti_comm_destroy(child) == TUTTI_SUCCESS;
    if (!right)
        fprintf(stderr, "  rank %d: %s: %s\n", rank, tutti_get_error_string(result), tutti_get_last_error(NULL));
    splits_again(family, rank, comm);
    family->report[rank].went_on &= right;
}

/* A child that nobody can wait for any more ends with its parent. */
static void aborts_what_is_made(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_result_t state = TUTTI_SUCCESS;
    tutti_comm_t child = NULL;
    bool last = rank == family->count - 1;
    config.blocking = 0;
    tutti_result_t result = last ? TUTTI_IN_PROGRESS : tutti_comm_split(comm, 0, 0, &child, &config);
    if (rank == 0)
        tutti_comm_abort(child);
    if (!last)
        state = wait_made(comm, child);
    if (last) {
        family_nap(100);
        state = tutti_barrier(comm, NULL);
        state = state == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : state;
    }
    family_end(family, rank, last ? comm : child, state);
    atomic_fetch_add(&family->report[rank].issued, 1);
    while (!atomic_load(&family->report[family->count - 1].issued)) /* the last one would find them gone */
        family_nap(1);
    bool heard_first =
        rank != 0 && result == TUTTI_REMOTE_ERROR && !child; /* the abort was there before this rank's call */
    family->report[rank].went_on =
        heard_first || (result == TUTTI_IN_PROGRESS && tutti_comm_destroy(child) == TUTTI_SUCCESS);
    tutti_comm_destroy(comm);
}

/* Until the victim is killed, at any moment. Those who have lost it go on without it. */
static void makes_until_death(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_result_t result = TUTTI_SUCCESS;
    bool shrinks = family->variant % 2;
    while (result == TUTTI_SUCCESS) {
        tutti_comm_t child = NULL;
        result = shrinks ? tutti_comm_shrink(comm, NULL, 0, &child, NULL)
                         : tutti_comm_split(comm, rank % 2, 0, &child, NULL);
        family_end(family, rank, NULL, result);
        tutti_comm_destroy(child);
    }
    for (int i = 0; i < 3 && !family->report[rank].went_on;
         i++) /* some may have made the last one that others could not make: then lists differ */
        family->report[rank].went_on = shrinks_right(family, rank, comm, &family->victim, 1);
    tutti_comm_destroy(comm);
}

/* ---- Judging ---- */

struct scenario {
    const char *name;
    family_work work;
    int count, victim, variant;
    tutti_result_t expected; /* of the first attempt, of all but the victim */
    const char *words[2];    /* in every sentence, one of them; NULL: in any */
    int excused;             /* a rank whose own sentence is another; -1: none */
    bool killed;             /* by the test, at some moment */
};

static bool says(const struct scenario *scenario, const char *sentence)
{
    bool any = !scenario->words[0];
    for (int i = 0; i < 2; i++)
        any |= scenario->words[i] && strstr(sentence, scenario->words[i]);
    return any;
}

static bool is_dead(const struct family *family, int rank)
{
    return rank == family->victim || (family->report[rank].result == TUTTI_SUCCESS && !family->report[rank].ended);
}

static void try_scenario(const struct scenario *scenario, uint64_t seed)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    struct family *family = family_start(scenario->count, scenario->victim, scenario->variant, seed, scenario->work);
    bool right = family_wait_joined(family);
    if (scenario->killed) {
        family_nap((int)(data_hash(seed, 1) % 60));
        kill(family->pid[scenario->victim], SIGKILL);
    }
    int late = 0;
    bool ended = family_wait(family, 60);
    right &= ended || scenario->work == another_dies_in_shrink;
    for (int rank = 0; rank < scenario->count; rank++) {
        const struct family_report *report = &family->report[rank];
        if (is_dead(family, rank))
            continue;
        right &= report->went_on && !report->wrong;
        bool differ =
            scenario->killed && report->result == TUTTI_INVALID_USAGE && strstr(report->sentence, "excludes rank 2");
        late += report->result == TUTTI_SUCCESS && scenario->expected != TUTTI_SUCCESS;
        if (report->result != TUTTI_SUCCESS)
            right &= rank == scenario->excused || report->result == scenario->expected || differ;
        right &=
            rank == scenario->excused || report->result == TUTTI_SUCCESS || differ || says(scenario, report->sentence);
    }
    right &= late < scenario->count / 2;
    scenarios++;
    failures += !right;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%s: %s, %d ranks, variant %d, seed %llu, %.1f s\n", right ? "right" : "WRONG", scenario->name,
           scenario->count, scenario->variant, (unsigned long long)seed,
           (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    for (int rank = 0; rank < scenario->count && !right; rank++)
        printf("  rank %d: %s \"%s\"%s%s\n", rank, tutti_get_error_string(family->report[rank].result),
               family->report[rank].sentence, family->report[rank].went_on ? ", went on" : "",
               family->report[rank].ended ? "" : ", not ended");
    fflush(stdout);
    family_free(family);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"a bad config in a split",
         one_cannot,
         4,
         -1,
         0,
         TUTTI_INVALID_ARGUMENT,
         {"rank 1: config.policy is 77"},
         1,
         false},
        {"a bad argument of a duplicate",
         one_cannot,
         4,
         -1,
         1,
         TUTTI_INVALID_ARGUMENT,
         {"rank 1: child is (nil)"},
         1,
         false},
        {"a bad config in a shrink", one_cannot, 4, -1, 2, TUTTI_INVALID_ARGUMENT, {"config.policy is 77"}, 1, false},
        {"a bad call in a group with a split", one_cannot, 4, -1, 3, TUTTI_INVALID_ARGUMENT, {"rank 1: "}, 1, false},
        {"a death before a split", one_dies_before_split, 4, 2, 0, TUTTI_REMOTE_ERROR, {"lost rank 2"}, -1, false},
        {"a death that not all meet in a split",
         one_dies_and_not_all_split,
         4,
         2,
         0,
         TUTTI_REMOTE_ERROR,
         {"lost rank 2"},
         -1,
         false},
        {"a death that one knows of before the others",
         one_shrinks_before_others_know,
         4,
         3,
         0,
         TUTTI_REMOTE_ERROR,
         {"lost rank 3"},
         -1,
         false},
        {"a death known to one that never met the dead",
         one_shrinks_that_never_met_the_dead,
         4,
         3,
         0,
         TUTTI_REMOTE_ERROR,
         {"lost rank 3"},
         -1,
         false},
        {"an end known to one that never met who ended",
         one_shrinks_that_never_met_the_dead,
         4,
         3,
         1,
         TUTTI_REMOTE_ERROR,
         {"lost rank 3"},
         -1,
         false},
        {"the root's list differs", lists_differ, 4, -1, 0, TUTTI_INVALID_USAGE, {"excludes ranks"}, -1, false},
        {"a list differs", lists_differ, 4, -1, 1, TUTTI_INVALID_USAGE, {"excludes ranks"}, -1, false},
        {"a list is wrong", a_list_is_wrong, 3, -1, 0, TUTTI_INVALID_USAGE, {"excludes"}, 0, false},
        {"another death in a shrink", another_dies_in_shrink, 5, 1, 0, TUTTI_REMOTE_ERROR, {"lost rank 2"}, -1, false},
        {"a late member", one_is_late, 4, 1, 0, TUTTI_SUCCESS, {NULL}, -1, false},
        {"a late first member", one_is_late, 4, 1, 2, TUTTI_SUCCESS, {NULL}, -1, false},
        {"an abort during a split", one_aborts, 4, -1, 0, TUTTI_REMOTE_ERROR, {"aborted by rank 0"}, -1, false},
        {"an abort during a shrink",
         one_aborts,
         4,
         -1,
         1,
         TUTTI_REMOTE_ERROR,
         {"aborted the communicator", "aborted by rank 0"},
         -1,
         false},
        {"a shrink while others split",
         one_shrinks_while_others_split,
         4,
         -1,
         0,
         TUTTI_INVALID_USAGE,
         {"rank 3 shrinks the communicator without the call"},
         -1,
         false},
        {"many shrinks", shrinks_often, 4, -1, 0, TUTTI_SUCCESS, {NULL}, -1, false},
        {"without blocking", without_blocking, 4, -1, 0, TUTTI_INVALID_ARGUMENT, {"config.policy is 77"}, -1, false},
        {"an abort of what is being made",
         aborts_what_is_made,
         3,
         -1,
         0,
         TUTTI_REMOTE_ERROR,
         {"aborted by rank 0"},
         -1,
         false},
    };
    static const struct scenario scarce = {"no memory",        one_has_no_memory, 4, -1,   0,
                                           TUTTI_REMOTE_ERROR, {"rank 1"},        1, false};
    struct scenario crowded = {"no descriptor",
                               one_has_no_descriptor,
                               4,
                               -1,
                               0,
                               TUTTI_REMOTE_ERROR,
                               {"no descriptor is free for shared memory"},
                               1,
                               false};
    struct scenario killed = {"a kill at any moment",
                              makes_until_death,
                              4,
                              2,
                              0,
                              TUTTI_REMOTE_ERROR,
                              {"lost rank 2", "rank 2 of the parent"},
                              -1,
                              true};
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    bool quick = getenv("TUTTI_TEST_QUICK");
    if (argc < 2)
        return 2;
    transport = argv[1];
    setenv("TUTTI_TRANSPORT", transport, 1);
    setenv("TUTTI_TIMEOUT", "20s", 1);
    setenv("TUTTI_INIT_TIMEOUT", "30s", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1); /* boxes of the dead would stay */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        try_scenario(&all[i], seed);
    if (!SANITIZED && strcmp(transport, "shm") == 0)
        try_scenario(&scarce, seed);
    for (; strcmp(transport, "shm") == 0 && crowded.variant < 2; crowded.variant++)
        try_scenario(&crowded, seed);
    for (int i = 0; i < (quick ? 4 : 16); i++) {
        killed.variant = i;
        try_scenario(&killed, seed + (uint64_t)i);
    }
    printf("%d scenarios, %d failed\n", scenarios, failures);
    return failures != 0;
}
