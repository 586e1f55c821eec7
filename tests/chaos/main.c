/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos [--seconds S] [--seed X] [--era N] [--on-hang COMMAND]: random collectives on overlapping communicators of 2 to
 * 6 processes. Processes are killed, stopped, and abort. The rest shrinks and goes on, and new ones take the places of
 * the dead. TUTTI_TRANSPORT says over what. Without --seconds 8 s, 3 s with TUTTI_TEST_QUICK=1, 20 minutes with
 * TUTTI_TEST_FULL=1. --era plays that one alone, again and again. Ends with status 1 at the first wrong byte, the first
 * report that names no culprit, and the first era that hangs; COMMAND then gets the processes' numbers.
 */
#include "chaos.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct world *world;
static double seconds;
static uint64_t only; /* the era that is played again and again; 0: each once */
static const char *on_hang;
static uint64_t faults[FAULTS], killed;
static uint64_t jobs, failures, shrunk; /* of processes that are gone */

/* ---- Processes ---- */

static void start(int slot)
{
    struct account *account = &world->account[slot];
    jobs += account->jobs;
    failures += account->failures;
    shrunk += account->shrunk;
    memset(account, 0, sizeof *account);
    atomic_store(&account->idle, world->era.number - 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(live(world, slot)); /* runs leak checks */
    }
    world->pid[slot] = pid;
}

static void kill_slot(int slot)
{
    kill(world->pid[slot], SIGKILL);
    waitpid(world->pid[slot], NULL, 0);
    world->pid[slot] = 0;
    killed++;
}

static void tell_hang(void)
{
    char command[400] = "";
    fprintf(stderr, "HANG: era %llu\n", (unsigned long long)world->era.drawn);
    size_t length = on_hang ? (size_t)snprintf(command, sizeof command, "%s", on_hang) : 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (!world->pid[slot])
            continue;
        fprintf(stderr, "  slot %d (pid %d): %s\n", slot, (int)world->pid[slot],
                stage_name(atomic_load(&world->account[slot].stage)));
        if (length && length < sizeof command)
            length += (size_t)snprintf(command + length, sizeof command - length, " %d", (int)world->pid[slot]);
    }
    if (on_hang && system(command) != 0)
        fprintf(stderr, "%s failed\n", command);
}

/* ---- An era ---- */

static bool any_bad(void)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (atomic_load(&world->account[slot].bad))
            return true;
    return false;
}

/* A process that ended unasked. */
static bool any_ended(void)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        int status;
        if (world->pid[slot] && waitpid(world->pid[slot], &status, WNOHANG) == world->pid[slot]) {
            fprintf(stderr, "WRONG: era %llu: slot %d ended with status %#x while %s\n",
                    (unsigned long long)world->era.drawn, slot, (unsigned)status,
                    stage_name(atomic_load(&world->account[slot].stage)));
            world->pid[slot] = 0;
            return true;
        }
    }
    return false;
}

static void draw_members(uint64_t number)
{
    struct era *era = &world->era;
    uint64_t drawn = only ? only : number;
    int first = (int)(data_hash(world->seed, drawn * 3) % SLOTS),
        count = 2 + (int)(data_hash(world->seed, drawn * 3 + 1) % (SLOTS - 1));
    era->number = number;
    era->drawn = drawn;
    era->members = count;
    for (int place = 0; place < count; place++)
        era->slot[place] = (first + place) % SLOTS;
}

/* One look at what is waited for in vain. False: there is no sense in another. */
static bool look_again(double until)
{
    if (any_bad() || any_ended())
        return false;
    if (now() > until) {
        tell_hang();
        return false;
    }
    nap(1);
    return true;
}

/* Whether every process, of the members or of all, is as `there` says. */
static bool await(bool (*there)(const struct account *), bool members, double until)
{
    for (int place = 0; place < (members ? world->era.members : SLOTS); place++) {
        int slot = members ? world->era.slot[place] : place;
        while (world->pid[slot] && !there(&world->account[slot]))
            if (!look_again(until))
                return false;
    }
    return true;
}

static bool is_idle(const struct account *account)
{
    return atomic_load(&account->idle) == world->era.number;
}

static bool is_working(const struct account *account)
{
    return atomic_load(&account->working) == world->era.number || is_idle(account);
}

static void stop_for(int slot, int ms)
{
    kill(world->pid[slot], SIGSTOP);
    nap(ms);
    kill(world->pid[slot], SIGCONT);
}

static void strike(const struct plan *plan)
{
    int slot = world->era.slot[plan->victim];
    nap(plan->after_ms);
    switch (plan->fault) {
    case FAULT_KILL:
        kill_slot(slot);
        nap(plan->second_after_ms);
        if (plan->second >= 0)
            kill_slot(world->era.slot[plan->second]);
        break;
    case FAULT_PAUSE:
    case FAULT_STOP:
        stop_for(slot, plan->pause_ms);
        break;
    case FAULT_ABORT:
        atomic_store(&world->abort_now, world->era.number);
        nap(100);
        break;
    default:;
    }
    atomic_store(&world->struck, world->era.number);
}

/* A process that is killed before the others have a meeting point is waited for there until TUTTI_INIT_TIMEOUT: seldom
 * is enough. */
static bool await_meeting(double until)
{
    while (atomic_load(&world->era.id_made[0]) != world->era.number)
        if (!look_again(until))
            return false;
    return true;
}

/* Whether all went well. */
static bool play(uint64_t number)
{
    double until = now() + DEAD_SECONDS;
    draw_members(number);
    struct plan plan = plan_draw(world->seed, world->era.drawn, world->era.members);
    for (int slot = 0; slot < SLOTS; slot++)
        if (!world->pid[slot])
            start(slot);
    atomic_store(&world->begun, number);
    if ((plan.fault == FAULT_STOP || plan.fault == FAULT_ABORT) && !await(is_working, true, until))
        return false;
    if (plan.fault == FAULT_KILL && !await_meeting(until))
        return false;
    strike(&plan);
    faults[plan.fault]++;
    if (plan.fault != FAULT_KILL && plan.fault != FAULT_STOP && !await(is_working, true, until))
        return false;
    atomic_store(&world->end, number);
    return await(is_idle, false, until) && !any_bad();
}

/* ---- The whole ---- */

static void report(const char *what, double began)
{
    uint64_t sum[3] = {jobs, failures, shrunk};
    for (int slot = 0; slot < SLOTS; slot++) {
        sum[0] += world->account[slot].jobs;
        sum[1] += world->account[slot].failures;
        sum[2] += world->account[slot].shrunk;
    }
    printf("%s %.0f s: %llu eras", what, now() - began, (unsigned long long)world->era.number);
    for (int i = 0; i < FAULTS; i++)
        printf(", %s %llu", fault_name(i), (unsigned long long)faults[i]);
    printf("; %llu killed, %llu collectives, %llu failures told, %llu ranks went on after a loss\n",
           (unsigned long long)killed, (unsigned long long)sum[0], (unsigned long long)sum[1],
           (unsigned long long)sum[2]);
    fflush(stdout);
}

static bool end_all(void)
{
    bool right = true;
    atomic_store(&world->over, true);
    for (int slot = 0; slot < SLOTS; slot++) {
        int status = 0;
        double until = now() + DEAD_SECONDS;
        while (world->pid[slot] && waitpid(world->pid[slot], &status, WNOHANG) == 0 && now() < until)
            nap(5);
        if (world->pid[slot] && now() >= until)
            kill(world->pid[slot], SIGKILL);
        if (status != 0) {
            fprintf(stderr, "slot %d ended with status %#x\n", slot, (unsigned)status);
            right = false;
        }
    }
    return right;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "1") == 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: chaos [--seconds S] [--seed X] [--era N] [--on-hang COMMAND]\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    seconds = is_set("TUTTI_TEST_FULL") ? 1200 : is_set("TUTTI_TEST_QUICK") ? 3 : 8;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage();
        if (!strcmp(argv[i], "--seconds"))
            seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--era"))
            only = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--on-hang"))
            on_hang = argv[i + 1];
        else
            return usage();
    }
    char timeout[32];
    snprintf(timeout, sizeof timeout, "%dms", TIMEOUT_MS);
    setenv("TUTTI_TIMEOUT", timeout, 1);
    setenv("TUTTI_INIT_TIMEOUT", "20s", 0);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0); /* every killed rank would leave its black box */
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED)
        return 2;
    world->seed = seed;
    double began = now(), spoke = began;
    bool right = true;
    for (uint64_t number = 1; right && now() - began < seconds; number++) {
        right = play(number);
        if (now() - spoke >= 10) {
            spoke = now();
            report("after", began);
        }
    }
    report("total", began);
    if (!right) {
        fprintf(stderr, "seed %llu, era %llu\n", (unsigned long long)seed, (unsigned long long)world->era.drawn);
        for (int slot = 0; slot < SLOTS; slot++)
            if (world->pid[slot])
                kill(world->pid[slot], SIGKILL);
        return 1;
    }
    return end_all() ? 0 : 1;
}
