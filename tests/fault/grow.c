/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow TRANSPORT [SEED]: communicators that grow. Members and newcomers, which are processes of their own, join while
 * members work; or one of them dies, differs, or does not come: then all fail and name it, and the old communicator
 * works on.
 */
#include "family.h"
#include "gpu.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 3
#define GROWN   5
#define ROOT    1 /* the member that makes the id */
#define SOCKETS 256

/* What members and newcomers share: they have no communicator yet. */
struct growth {
    tutti_unique_id_t id[2]; /* of the first attempt and of the second */
    _Atomic int made;
    _Atomic int failed; /* ranks whose first attempt is over */
    _Atomic int rounds; /* of all members, while newcomers are not there */
    _Atomic int said;   /* calls by which the last newcomer introduced itself, so far */
};
static struct growth *growth;
static bool is_last; /* this process is the last newcomer */
static int failures, scenarios;

static bool job_is_right(struct family *family, int rank, tutti_comm_t comm, int place, int nranks, size_t count)
{
    struct job job = {.kind = count % 2 ? JOB_ALLTOALL : JOB_ALLREDUCE,
                      .type = TUTTI_INT32,
                      .count = count,
                      .seed = family->seed + count};
    return family_job(family, rank, place, nranks, comm, &job) == TUTTI_SUCCESS && !family->report[rank].wrong;
}

static bool works(struct family *family, int rank, tutti_comm_t comm, int nranks)
{
    int place = -1, count = 0;
    bool right = tutti_comm_rank(comm, &place) == TUTTI_SUCCESS && tutti_comm_count(comm, &count) == TUTTI_SUCCESS &&
                 count == nranks && job_is_right(family, rank, comm, place, nranks, 1001) &&
                 job_is_right(family, rank, comm, place, nranks, 50000);
    if (!right)
        fprintf(stderr, "  rank %d: a communicator (rank %d of %d, not %d): %s\n", rank, place, count, nranks,
                tutti_get_last_error(comm));
    return right;
}

static void make_id(tutti_comm_t comm, int attempt)
{
    if (tutti_comm_get_unique_id(comm, &growth->id[attempt]) != TUTTI_SUCCESS)
        exit(3);
    atomic_store(&growth->made, attempt + 1);
}

static const tutti_unique_id_t *wait_for_id(int attempt)
{
    while (atomic_load(&growth->made) <= attempt)
        family_nap(1);
    return &growth->id[attempt];
}

static void wait_for_failures(int count)
{
    atomic_fetch_add(&growth->failed, 1);
    while (atomic_load(&growth->failed) < count)
        family_nap(1);
}

/* Of a member. */
static tutti_result_t grow(tutti_comm_t comm, int rank, int attempt, int nranks, tutti_comm_t *grown,
                           const tutti_config_t *config)
{
    if (rank == ROOT)
        make_id(comm, attempt);
    return tutti_comm_grow(comm, nranks, rank == ROOT ? &growth->id[attempt] : NULL, -1, grown, config);
}

static tutti_result_t come(int rank, int attempt, int nranks, tutti_comm_t *grown)
{
    tutti_config_t config = gpu_config();
    return tutti_comm_grow(NULL, nranks, wait_for_id(attempt), rank, grown, &config);
}

static bool is_newcomer(int rank)
{
    return rank >= MEMBERS;
}

/* The inodes of this process's sockets. */
static int list_sockets(char list[SOCKETS][40])
{
    int count = 0;
    for (int fd = 0; fd < 1024 && count < SOCKETS; fd++) {
        char name[40];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, list[count], sizeof list[count] - 1);
        if (length < 0)
            continue;
        list[count][length] = 0;
        count += strncmp(list[count], "socket:", 7) == 0;
    }
    return count;
}

/* Of those of `before`, which are no more. */
static int count_lost_sockets(char before[SOCKETS][40], int count)
{
    char now[SOCKETS][40];
    int lost = 0, have = list_sockets(now);
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (int j = 0; j < have; j++)
            found |= strcmp(before[i], now[j]) == 0;
        lost += !found;
    }
    return lost;
}

/* ---- What ranks do ---- */

/* Then the one that has grown grows too, by nobody new in its place: one that was shrunken before. */
static void grows_well(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL, rest = NULL, again = NULL;
    char before[SOCKETS][40];
    int last = GROWN - 1;
    bool right = is_newcomer(rank) || works(family, rank, comm, MEMBERS);
    int sockets = list_sockets(before);
    tutti_result_t result = is_newcomer(rank) ? come(rank, 0, GROWN, &grown) : grow(comm, rank, 0, GROWN, &grown, NULL);
    family_end(family, rank, NULL, result);
    right = right && result == TUTTI_SUCCESS && works(family, rank, grown, GROWN);
    /* Rank 2 never had a meeting point. Lanes of RDMA may give up the second of two connections at any time. */
    if (rank == 2 && strcmp(getenv("TUTTI_TRANSPORT"), "verbs") != 0 && count_lost_sockets(before, sockets)) {
        fprintf(stderr, "  rank 2 lost %d of %d sockets\n", count_lost_sockets(before, sockets), sockets);
        right = false;
    }
    right = right && (is_newcomer(rank) || works(family, rank, comm, MEMBERS));
    if (right && rank != last)
        right = tutti_comm_shrink(grown, &last, 1, &rest, NULL) == TUTTI_SUCCESS &&
                grow(rest, rank, 1, GROWN, &again, NULL) == TUTTI_SUCCESS;
    else if (right)
        right = come(rank, 1, GROWN, &again) == TUTTI_SUCCESS;
    if (!right)
        fprintf(stderr, "  rank %d: %s\n", rank, tutti_get_last_error(NULL));
    right = right && works(family, rank, again, GROWN);
    family->report[rank].went_on = right;
    tutti_comm_destroy(again);
    tutti_comm_destroy(rest);
    tutti_comm_destroy(comm);
    tutti_comm_destroy(grown);
}

/* Calls of the old one go on until the new one is made, on all members equally often. */
static void grows_while_it_works(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_result_t state = TUTTI_IN_PROGRESS;
    tutti_comm_t grown = NULL;
    bool right = true;
    int rounds = 0, busy = 1;
    config.blocking = 0;
    if (is_newcomer(rank)) {
        while (atomic_load(&growth->rounds) < 3 * MEMBERS)
            family_nap(1);
        state = come(rank, 0, GROWN, &grown);
    } else {
        right = grow(comm, rank, 0, GROWN, &grown, &config) == TUTTI_IN_PROGRESS;
        right &= tutti_comm_grow(comm, GROWN, NULL, -1, &grown, &config) == TUTTI_INVALID_USAGE || rounds;
    }
    for (; !is_newcomer(rank) && busy && right; rounds++) {
        tutti_comm_get_async_error(grown, &state);
        busy = state == TUTTI_IN_PROGRESS;
        right = works(family, rank, comm, MEMBERS) &&
                tutti_allreduce(&busy, &busy, 1, TUTTI_INT32, TUTTI_MAX, comm, NULL) == TUTTI_SUCCESS &&
                tutti_comm_synchronize(comm) == TUTTI_SUCCESS;
        atomic_fetch_add(&growth->rounds, 1);
    }
    right &= is_newcomer(rank) || rounds > 2; /* they worked before newcomers were there */
    family_end(family, rank, grown, state);
    family->report[rank].went_on = right && state == TUTTI_SUCCESS && works(family, rank, grown, GROWN);
    tutti_comm_destroy(comm);
    tutti_comm_destroy(grown);
}

/* The old one works, and grows by those that are left. */
static void goes_on(struct family *family, int rank, tutti_comm_t comm, int left)
{
    tutti_comm_t grown = NULL;
    bool right = is_newcomer(rank) || works(family, rank, comm, MEMBERS);
    if (left > MEMBERS) {
        tutti_result_t result =
            is_newcomer(rank) ? come(MEMBERS, 1, left, &grown) : grow(comm, rank, 1, left, &grown, NULL);
        if (result != TUTTI_SUCCESS)
            fprintf(stderr, "  rank %d grows again: %s\n", rank, tutti_get_last_error(NULL));
        right = right && result == TUTTI_SUCCESS && works(family, rank, grown, left);
    }
    family->report[rank].went_on = right;
    tutti_comm_destroy(comm);
    tutti_comm_destroy(grown);
}

/* The library's calls come here: a rank introduces itself by them. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = NULL;
    void *found = dlsym(RTLD_NEXT, "send");
    memcpy(&real, &found, sizeof real);
    ssize_t sent = real(fd, bytes, size, flags);
    if (is_last)
        atomic_fetch_add(&growth->said, 1);
    return sent;
}

/* Ends the parent when that has introduced itself, and waits for the others. */
static void die_when_introduced(void)
{
    int before = 0;
    while (!before || before != atomic_load(&growth->said)) {
        before = atomic_load(&growth->said);
        family_nap(400);
    }
    kill(getppid(), SIGKILL);
    _exit(0);
}

/* The last newcomer dies where the first has not come yet, and so joining is not over. */
static void a_newcomer_dies(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL;
    tutti_result_t result;
    if (rank == GROWN - 1) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        atomic_store(&growth->said, 0);
        is_last = true;
        if (fork() == 0)
            die_when_introduced();
    }
    if (rank == MEMBERS)
        while (kill(family->pid[GROWN - 1], 0) == 0 && atomic_load(&growth->failed) < MEMBERS)
            family_nap(1);
    result = is_newcomer(rank) ? come(rank, 0, GROWN, &grown) : grow(comm, rank, 0, GROWN, &grown, NULL);
    family_end(family, rank, NULL, result);
    wait_for_failures(GROWN - 1);
    goes_on(family, rank, comm, GROWN - 1);
}

static _Atomic int dies_sharing; /* before that call from now on; 0: never */

/* The library's calls come here: the first of a joining rank tells what ranks share, when all know one another. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*real)(int, const struct msghdr *, int) = NULL;
    void *found = dlsym(RTLD_NEXT, "sendmsg");
    memcpy(&real, &found, sizeof real);
    if (atomic_load(&dies_sharing) && atomic_fetch_sub(&dies_sharing, 1) == 1)
        kill(getpid(), SIGKILL);
    return real(fd, message, flags);
}

/* The last newcomer dies where all know one another: at its call number `variant` that tells the others something. What
 * others have made by then fails at its first use. */
static void an_introduced_newcomer_dies(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL;
    int32_t one = 1;
    atomic_store(&dies_sharing, rank == GROWN - 1 ? family->variant : 0);
    tutti_result_t result = is_newcomer(rank) ? come(rank, 0, GROWN, &grown) : grow(comm, rank, 0, GROWN, &grown, NULL);
    if (rank == GROWN - 1)
        kill(getpid(), SIGKILL);
    if (result == TUTTI_SUCCESS && (result = tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, grown, NULL)) ==
                                       TUTTI_SUCCESS) /* it hears now */
        result = tutti_comm_synchronize(grown);
    family_end(family, rank, grown, result);
    tutti_comm_destroy(grown);
    wait_for_failures(GROWN - 1);
    goes_on(family, rank, comm, GROWN - 1);
}

/* The member that serves the meeting dies there. */
static void the_opener_dies(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL, rest = NULL;
    int opener = ROOT;
    tutti_result_t result;
    if (rank == ROOT && fork() == 0) {
        wait_for_id(0);
        family_nap(400);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    if (rank == GROWN - 1) /* nobody can have met before */
        family_await_end(family, ROOT);
    result = is_newcomer(rank) ? come(rank, 0, GROWN, &grown) : grow(comm, rank, 0, GROWN, &grown, NULL);
    family_end(family, rank, NULL, result);
    family->report[rank].went_on =
        is_newcomer(rank) ||
        (tutti_comm_shrink(comm, &opener, 1, &rest, NULL) == TUTTI_SUCCESS && works(family, rank, rest, MEMBERS - 1));
    tutti_comm_destroy(rest);
    tutti_comm_destroy(comm);
}

static void a_member_dies(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL, rest = NULL;
    int dead = 2;
    if (is_newcomer(rank))
        wait_for_id(0);
    atomic_fetch_add(&family->report[rank].issued, 1);
    if (rank == dead) { /* a newcomer that came later would find nobody */
        for (int other = MEMBERS; other < GROWN; other++)
            family_await_call(family, other);
        family_nap(300);
        kill(getpid(), SIGKILL);
    }
    family_end(family, rank, NULL,
               is_newcomer(rank) ? come(rank, 0, GROWN, &grown) : grow(comm, rank, 0, GROWN, &grown, NULL));
    family->report[rank].went_on =
        is_newcomer(rank) ||
        (tutti_comm_shrink(comm, &dead, 1, &rest, NULL) == TUTTI_SUCCESS && works(family, rank, rest, MEMBERS - 1));
    tutti_comm_destroy(rest);
    tutti_comm_destroy(comm);
}

/* Rank `variant` does not come. */
static void one_does_not_come(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL;
    if (rank != family->variant) {
        family_end(family, rank, NULL,
                   is_newcomer(rank) ? come(rank, 0, GROWN, &grown) : grow(comm, rank, 0, GROWN, &grown, NULL));
    } else {
        family->report[rank].result = TUTTI_REMOTE_ERROR;
        snprintf(family->report[rank].sentence, sizeof family->report[rank].sentence, "rank %d", rank);
    }
    wait_for_failures(GROWN);
    goes_on(family, rank, comm, 0);
}

/* Members differ: variant 0 in the number of ranks, 1: none passes the id, 2: two do. */
static void members_differ(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL;
    tutti_unique_id_t own;
    bool other = rank == 0 && family->variant == 2, last = !is_newcomer(rank) && rank == MEMBERS - 1 - family->variant;
    if (rank == ROOT)
        make_id(comm, 0);
    atomic_fetch_add(&family->report[rank].issued, 1);
    for (int member = 0; last && member < MEMBERS; member++) /* a member that came later would begin another attempt */
        if (member != rank)
            family_await_call(family, member);
    family_nap(last ? 150 : 0);
    if (other && tutti_comm_get_unique_id(comm, &own) != TUTTI_SUCCESS)
        exit(3);
    if (is_newcomer(rank))
        family_end(family, rank, NULL, come(rank, 0, GROWN, &grown));
    else
        family_end(family, rank, NULL,
                   tutti_comm_grow(comm, rank == 2 && family->variant == 0 ? GROWN + 1 : GROWN,
                                   other                                  ? &own
                                   : rank == ROOT && family->variant != 1 ? &growth->id[0]
                                                                          : NULL,
                                   -1, &grown, NULL));
    wait_for_failures(family->variant == 1 ? MEMBERS : GROWN);
    goes_on(family, rank, comm, 0);
}

/* One aborts what is made, or (variant 1) shrinks the old one instead: the old one works on. */
static void one_gives_up(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t grown = NULL, rest = NULL;
    tutti_result_t result = TUTTI_IN_PROGRESS;
    bool right = true;
    config.blocking = 0;
    if (is_newcomer(rank)) {
        result = come(rank, 0, GROWN, &grown);
    } else {
        right = grow(comm, rank, 0, GROWN, &grown, &config) == TUTTI_IN_PROGRESS;
        family_nap(200);
        if (rank == 0 && family->variant == 0)
            tutti_comm_abort(grown);
        if (family->variant == 1)
            right &=
                tutti_comm_shrink(comm, NULL, 0, &rest, NULL) == TUTTI_SUCCESS && works(family, rank, rest, MEMBERS);
        while (result == TUTTI_IN_PROGRESS && tutti_comm_get_async_error(grown, &result) == TUTTI_SUCCESS)
            family_nap(1);
    }
    family_end(family, rank, grown, result);
    tutti_comm_destroy(rest);
    tutti_comm_destroy(grown);
    wait_for_failures(GROWN - 1);
    goes_on(family, rank, comm, 0);
    family->report[rank].went_on &= right;
}

static void arguments_are_wrong(struct family *family, int rank, tutti_comm_t comm)
{
    tutti_comm_t grown = NULL;
    tutti_unique_id_t id;
    bool right = tutti_comm_grow(comm, MEMBERS, NULL, -1, &grown, NULL) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_grow(comm, GROWN, NULL, rank, &grown, NULL) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_grow(comm, GROWN, NULL, -1, NULL, NULL) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_grow(NULL, GROWN, NULL, 3, &grown, NULL) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_get_unique_id(comm, &id) == TUTTI_SUCCESS &&
                 tutti_comm_get_unique_id(comm, NULL) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_get_unique_id(NULL, &id) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_grow(NULL, GROWN, &id, 0, &grown, NULL) == TUTTI_INVALID_ARGUMENT &&
                 tutti_comm_grow(NULL, GROWN, &id, GROWN, &grown, NULL) == TUTTI_INVALID_ARGUMENT;
    family_end(family, rank, NULL, TUTTI_INVALID_ARGUMENT);
    goes_on(family, rank, comm, 0);
    family->report[rank].went_on &= right;
}

/* ---- Judging ---- */

struct scenario {
    const char *name;
    family_work work;
    int newcomers, victim, variant;
    tutti_result_t expected; /* of the first attempt, of all but the victim */
    const char *words[3];    /* in every sentence, one of them; NULL: in any */
    bool impatient;          /* the time to meet is short */
};

static void begin_newcomer(struct family *family, int rank, family_work work)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid) {
        family->pid[rank] = pid;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (gpu_wanted())
        gpu_select(rank);
    work(family, rank, NULL);
    atomic_store(&family->report[rank].ended, true);
    exit(0);
}

/* Of a newcomer whose own time is over before it has heard who is missing, as the opener got no processor. */
#define OUT_OF_TIME "but not all of the 5 ranks came"

static bool says(const struct scenario *scenario, const char *sentence)
{
    bool any = !scenario->words[0];
    for (int i = 0; i < 3; i++)
        any |= scenario->words[i] && strstr(sentence, scenario->words[i]);
    return any;
}

static void try_scenario(const struct scenario *scenario, uint64_t seed)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    memset(growth, 0, sizeof *growth);
    setenv("TUTTI_INIT_TIMEOUT", scenario->impatient ? "3s" : "30s", 1);
    struct family *family = family_start(MEMBERS, scenario->victim, scenario->variant, seed, scenario->work);
    for (int i = MEMBERS + scenario->newcomers - 1; i >= MEMBERS; i--)
        begin_newcomer(family, i, scenario->work);
    bool right = family_wait_joined(family);
    family->count = MEMBERS + scenario->newcomers;
    right &= family_wait(family, 60);
    right &= !scenario->impatient || strstr(family->report[ROOT].sentence, scenario->words[0]);
    for (int rank = 0; rank < family->count; rank++) {
        const struct family_report *report = &family->report[rank];
        if (rank == scenario->victim)
            continue;
        tutti_result_t expected = scenario->expected;
        if (is_newcomer(rank) && expected == TUTTI_INVALID_USAGE)
            expected = TUTTI_REMOTE_ERROR; /* newcomers hear which member failed, whose log says why */
        right &= report->ended && report->went_on && !report->wrong && report->result == expected;
        right &= report->result == TUTTI_SUCCESS || says(scenario, report->sentence);
    }
    scenarios++;
    failures += !right;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%s: %s, variant %d, seed %llu, %.1f s\n", right ? "right" : "WRONG", scenario->name, scenario->variant,
           (unsigned long long)seed,
           (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    for (int rank = 0; rank < family->count && !right; rank++)
        printf("  rank %d: %s \"%s\"%s%s\n", rank, tutti_get_error_string(family->report[rank].result),
               family->report[rank].sentence, family->report[rank].went_on ? ", went on" : "",
               family->report[rank].ended ? "" : ", not ended");
    fflush(stdout);
    family_free(family);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"growing", grows_well, 2, -1, 0, TUTTI_SUCCESS, {NULL}, false},
        {"growing while it works", grows_while_it_works, 2, -1, 0, TUTTI_SUCCESS, {NULL}, false},
        {"a newcomer dies", a_newcomer_dies, 2, GROWN - 1, 0, TUTTI_REMOTE_ERROR, {"rank 4 died"}, false},
        {"an introduced newcomer dies",
         an_introduced_newcomer_dies,
         2,
         GROWN - 1,
         1,
         TUTTI_REMOTE_ERROR,
         {"rank 4"},
         false},
        {"a newcomer dies where members still tell one another",
         an_introduced_newcomer_dies,
         2,
         GROWN - 1,
         7,
         TUTTI_REMOTE_ERROR,
         {"rank 4"},
         false},
        {"the opener dies",
         the_opener_dies,
         2,
         ROOT,
         0,
         TUTTI_REMOTE_ERROR,
         {"opened by rank 1", "rank 1 died", "lost rank 1"},
         false},
        {"a member dies", a_member_dies, 2, 2, 0, TUTTI_REMOTE_ERROR, {"lost rank 2", "rank 2 died"}, false},
        {"a member does not come", one_does_not_come, 2, -1, 2, TUTTI_REMOTE_ERROR, {"rank 2", OUT_OF_TIME}, true},
        {"a newcomer does not come", one_does_not_come, 2, -1, 4, TUTTI_REMOTE_ERROR, {"rank 4", OUT_OF_TIME}, true},
        {"numbers differ",
         members_differ,
         2,
         -1,
         0,
         TUTTI_INVALID_USAGE,
         {"pass the same number", "failed; its own log"},
         false},
        {"no id", members_differ, 0, -1, 1, TUTTI_INVALID_USAGE, {"no member passes an id"}, false},
        {"two ids", members_differ, 2, -1, 2, TUTTI_INVALID_USAGE, {"two members pass an id", "failed"}, false},
        {"an abort", one_gives_up, 1, -1, 0, TUTTI_REMOTE_ERROR, {"aborted", "rank 0 failed"}, false},
        {"a shrink instead", one_gives_up, 1, -1, 1, TUTTI_REMOTE_ERROR, {"aborted", "failed"}, false},
        {"wrong arguments", arguments_are_wrong, 0, -1, 0, TUTTI_INVALID_ARGUMENT, {NULL}, false},
    };
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc < 2)
        return 2;
    growth = mmap(NULL, sizeof *growth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (growth == MAP_FAILED)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_TIMEOUT", "20s", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1); /* boxes of the dead would stay */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        try_scenario(&all[i], seed);
    printf("%d scenarios, %d failed\n", scenarios, failures);
    return failures != 0;
}
