/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank forks children while a thread of it opens an RDMA device anew. What they do with the parent's communicator is
 * refused. One of their own is refused with a sentence or works. The parent goes on and has its device again. On the
 * software RDMA device, which takes its time here.
 */
#include "family.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPENING  400 /* ms that opening takes: longer than a child */
#define STEP     10  /* ms between children */
#define PATIENCE 60  /* s */

enum verdict { WORKED, REFUSED, WRONG };

static bool copied; /* this process is the child of one that had threads */

/* The leak checker asks here at exit: the stacks of the parent's threads are gone in a child, and with them what only
 * they knew. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return copied;
}

static bool sums(tutti_comm_t comm, int ranks)
{
    float one = 1, sum = 0;
    return tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) == TUTTI_SUCCESS &&
           tutti_comm_synchronize(comm) == TUTTI_SUCCESS && sum == (float)ranks;
}

static void tell_device(const char *command, char *answer, size_t size)
{
    int (*control)(const char *command, char *answer, size_t size);
    void *symbol = dlsym(dlopen(getenv("TUTTI_IBVERBS_LIBRARY"), RTLD_NOW), "softverbs_control");
    memcpy(&control, &symbol, sizeof control);
    if (!symbol || control(command, answer, size) != 0)
        abort();
}

static int queue_pairs(void)
{
    static char answer[16384];
    int count = 0;
    tell_device("info", answer, sizeof answer);
    for (const char *at = answer; (at = strstr(at, "qp 0x")); at++)
        count++;
    return count;
}

static bool says(const char *words)
{
    return strstr(tutti_get_last_error(NULL), words);
}

/* A child: with what it has inherited, then alone in the world. */
static enum verdict be_a_child(tutti_comm_t comm)
{
    tutti_unique_id_t id;
    tutti_comm_t own;
    float one = 1, sum;
    if (tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) != TUTTI_INVALID_USAGE ||
        !says("forked") || tutti_comm_destroy(comm) != TUTTI_INVALID_USAGE)
        return WRONG;
    if (tutti_get_unique_id(&id) != TUTTI_SUCCESS || tutti_comm_init_rank(&own, 1, &id, 0, NULL) != TUTTI_SUCCESS)
        return says("forked while") ? REFUSED : WRONG;
    return sums(own, 1) && tutti_comm_destroy(own) == TUTTI_SUCCESS ? WORKED : WRONG;
}

static enum verdict fork_one(tutti_comm_t comm)
{
    char answer[64];
    int status;
    pid_t child = fork();
    if (child == 0) {
        copied = true;
        alarm(30); /* a child that hangs ends with a signal */
        tell_device("clear", answer, sizeof answer);
        exit(be_a_child(comm));
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? (enum verdict)WEXITSTATUS(status) : WRONG;
}

/* What all ranks give, summed; negative: it failed. */
static int sum_of(tutti_comm_t comm, int mine)
{
    int32_t in = mine, out = -1;
    bool done = tutti_allreduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, comm, NULL) == TUTTI_SUCCESS &&
                tutti_comm_synchronize(comm) == TUTTI_SUCCESS;
    return done ? out : -1;
}

/* True until the time is over; the other rank goes along. */
static bool goes_on(struct family *family, tutti_comm_t comm, int *left)
{
    struct family_report *report = &family->report[0];
    if (sum_of(comm, 1) == 1 && --*left > 0)
        return true;
    report->result = TUTTI_INTERNAL_ERROR;
    snprintf(report->sentence, sizeof report->sentence, "%s: %s", *left ? "an operation" : "it took too long",
             tutti_get_last_error(NULL));
    return false;
}

/* Takes the device out and puts it back, and forks until it is open again. False: the parent does not go on. */
static bool lose_device(struct family *family, tutti_comm_t comm, int counts[3])
{
    char text[64], answer[64];
    int left = PATIENCE * 1000 / STEP;
    bool well = true;
    while (well && !queue_pairs())
        well = goes_on(family, comm, &left);
    snprintf(text, sizeof text, "fault open-us=%d", OPENING * 1000);
    tell_device(text, answer, sizeof answer);
    tell_device("unplug soft_lo", answer, sizeof answer);
    tell_device("plug soft_lo", answer, sizeof answer);
    while (well && queue_pairs()) /* until the rank has heard */
        well = goes_on(family, comm, &left);
    while (well && !queue_pairs() && !counts[WRONG]) {
        counts[fork_one(comm)]++;
        family_nap(STEP);
        well = goes_on(family, comm, &left);
    }
    tell_device("clear", answer, sizeof answer);
    return well;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    int counts[3] = {0};
    if (rank == 0) {
        while (lose_device(family, comm, counts) && !counts[REFUSED] && !counts[WRONG])
            ;
        int before = counts[WORKED];
        counts[fork_one(comm)]++;
        printf("children beside a device that is opened anew: %d began anew, %d were refused, %d went wrong\n",
               counts[WORKED], counts[REFUSED], counts[WRONG]);
        family->report[0].wrong = counts[WRONG] || counts[WORKED] == before;
        sum_of(comm, 0);
    } else {
        while (sum_of(comm, 0) > 0)
            ;
    }
    tutti_comm_destroy(comm);
}

int main(void)
{
    setenv("TUTTI_TRANSPORT", "verbs", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    struct family *family = family_start(2, -1, 0, 1, work);
    bool right = family_wait(family, 2 * PATIENCE);
    if (family->report[0].result != TUTTI_SUCCESS)
        fprintf(stderr, "  %s\n", family->report[0].sentence);
    right &= family->report[0].result == TUTTI_SUCCESS && !family->report[0].wrong;
    family_free(family);
    return !right;
}
