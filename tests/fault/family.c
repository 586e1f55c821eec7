/* SPDX-License-Identifier: Apache-2.0 */
/* Forked ranks and what they report. */
#include "family.h"
#include "gpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void family_nap(int ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

void family_gate(void *argument)
{
    struct family *family = argument;
    while (!atomic_load(&family->stop))
        family_nap(1);
}

void family_end(struct family *family, int rank, tutti_comm_t comm, tutti_result_t result)
{
    struct family_report *report = &family->report[rank];
    report->result = result;
    snprintf(report->sentence, sizeof report->sentence, "%s",
             result == TUTTI_SUCCESS ? "" : tutti_get_last_error(comm));
}

tutti_result_t family_run(struct family *family, int rank, int place, int nranks, tutti_comm_t comm, struct job *job)
{
    job_prepare(job, comm, place, nranks);
    atomic_fetch_add(&family->report[rank].begun, 1);
    tutti_result_t result = job_issue(job, NULL);
    atomic_fetch_add(&family->report[rank].issued, 1);
    if (result != TUTTI_SUCCESS && !gpu_wanted())
        return result;
    tutti_result_t end =
        tutti_comm_synchronize(comm); /* what a GPU was given before a call failed may still be running */
    return result == TUTTI_SUCCESS ? end : result;
}

tutti_result_t family_job(struct family *family, int rank, int place, int nranks, tutti_comm_t comm, struct job *job)
{
    tutti_result_t result = family_run(family, rank, place, nranks, comm, job);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!job_check(job))
        family->report[rank].wrong = true;
    job_free(job);
    family->report[rank].rounds++;
    return TUTTI_SUCCESS;
}

/* TUTTI_TEST_HOSTS: number of hosts over which ranks are spread. */
static void be_on_host(int rank, int count)
{
    const char *hosts = getenv("TUTTI_TEST_HOSTS");
    char host[12];
    if (!hosts)
        return;
    snprintf(host, sizeof host, "%d", rank * atoi(hosts) / count);
    setenv("TUTTI_HOSTID", host, 1);
}

static void child(struct family *family, int rank, family_work work)
{
    tutti_comm_t comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    family->pid[rank] = getpid(); /* the parent may come to that later than others need it */
    be_on_host(rank, family->count);
    if (rank == 0) {
        if (tutti_get_unique_id(&family->id) != TUTTI_SUCCESS)
            _exit(3);
        atomic_store(&family->id_made, true);
    }
    while (!atomic_load(&family->id_made))
        family_nap(1);
    if (rank == family->victim && family->fault[0])
        setenv("TUTTI_EMULATED_FAULT", family->fault, 1);
    if (gpu_wanted())
        gpu_select(rank);
    tutti_config_t config = gpu_config();
    tutti_result_t result = tutti_comm_init_rank(&comm, family->count, &family->id, rank, &config);
    if (result != TUTTI_SUCCESS) {
        family_end(family, rank, NULL, result);
        exit(family->fault[0] ? 0 : 4);
    }
    atomic_fetch_add(&family->joined, 1);
    work(family, rank, comm);
    atomic_store(&family->report[rank].ended, true);
    exit(0); /* runs leak checks */
}

struct family *family_start(int count, int victim, int variant, uint64_t seed, family_work work)
{
    return family_start_with(count, victim, "", variant, seed, work);
}

struct family *family_start_with(int count, int victim, const char *fault, int variant, uint64_t seed, family_work work)
{
    struct family *family = mmap(NULL, sizeof *family, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (family == MAP_FAILED)
        abort();
    family->count = count;
    family->victim = victim;
    family->variant = variant;
    family->seed = seed;
    snprintf(family->fault, sizeof family->fault, "%s", fault ? fault : "");
    fflush(NULL);
    for (int rank = 0; rank < count; rank++) {
        pid_t pid = fork();
        if (pid < 0)
            abort();
        if (pid == 0)
            child(family, rank, work);
        family->pid[rank] = pid;
    }
    return family;
}

bool family_wait_joined(struct family *family)
{
    for (int i = 0; i < 60000 && atomic_load(&family->joined) < family->count; i++)
        family_nap(1);
    if (atomic_load(&family->joined) == family->count)
        return true;
    fprintf(stderr, "  %d of %d ranks have joined\n", atomic_load(&family->joined), family->count);
    return false;
}

char family_state(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)pid); /* emulators make the other one up */
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d %*s %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

void family_await_end(const struct family *family, int rank)
{
    for (char state = 'R'; state != 'Z' && state != 'X' && state != '?'; family_nap(1))
        state = family_state(family->pid[rank]);
}

void family_await_call(const struct family *family, int rank)
{
    const struct family_report *report = &family->report[rank];
    while (!atomic_load(&report->ended) && (!atomic_load(&report->issued) || family_state(family->pid[rank]) == 'R'))
        family_nap(1);
}

static bool reap(struct family *family, int rank, bool *right)
{
    int status;
    if (!family->pid[rank])
        return true;
    if (waitpid(family->pid[rank], &status, WNOHANG) != family->pid[rank])
        return false;
    family->pid[rank] = 0;
    if ((rank != family->victim || family->fault[0]) && status != 0) {
        fprintf(stderr, "  rank %d ended with status %#x: %s\n", rank, (unsigned)status, family->report[rank].sentence);
        *right = false;
    }
    return true;
}

bool family_wait(struct family *family, int seconds)
{
    bool right = true;
#ifdef __SANITIZE_THREAD__
    seconds *= 4; /* beside other tests, a death that GPUs wait for was seen to take 90 s to be known to all */
#endif
    for (int ms = 0;; ms += 5) {
        int left = 0;
        for (int rank = 0; rank < family->count; rank++)
            left += !reap(family, rank, &right);
        if (!left)
            return right;
        if (ms == seconds * 1000) {
            for (int rank = 0; rank < family->count; rank++)
                if (family->pid[rank]) {
                    fprintf(stderr, "  rank %d hangs\n", rank);
                    kill(family->pid[rank], SIGKILL);
                }
            right = false;
        }
        family_nap(5);
    }
}

void family_free(struct family *family)
{
    munmap(family, sizeof *family);
}

int family_many(int argc, char **argv, int together, int (*run)(int first, uint64_t seed), const char *what)
{
    int runs = getenv("TUTTI_TEST_QUICK") ? 8 : 40, wrong = 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc < 2)
        return 2;
    setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1); /* boxes of failed communicators would stay */
    for (int i = 0; i < runs; i += together)
        wrong += run(i, seed * 1000);
    printf("%d runs, in %d %s\n", runs, wrong, what);
    return wrong != 0;
}
