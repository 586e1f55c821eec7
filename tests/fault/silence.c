/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `silence shm|tcp`: rank 1 is stopped, or late but alive. A rank that waits for a stopped one is told within the
 * communicator's time of patience. The config or TUTTI_TIMEOUT gives that time, and a child has its parent's. A rank
 * that waits for a late one waits on. Time in which both are stopped, as when their machine stands still, does not
 * count, and goes to the log.
 */
#include "tutti/tutti.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum child { NO_CHILD, BY_SPLIT, BY_DUPLICATE, BY_SHRINK };

struct scene {
    const char *name;
    int config_ms;       /* config.timeout_ms */
    const char *setting; /* TUTTI_TIMEOUT */
    bool message;        /* not a collective */
    bool stops;          /* else rank 1 is late */
    enum child child;    /* what they talk on */
    bool floods;         /* rank 0 makes calls without waiting for any */
    bool pauses;         /* rank 0 is stopped, too, when it has asked the stopped rank 1, and both go on together */
};

/* Longer than a process waits for a processor that many tests share: a process that is starved is silent, too. */
#define TIMEOUT_MS 2000
/* Of ranks that are late, the time of patience: one that stands still meanwhile has half of it to answer. */
#define PATIENCE_MS 4500
#define LATE_MS     6500

#define LOG_FILE "/tmp/silence_XXXXXX"
#define TOLD     "rank 0 stood still for "

static const struct scene scenes[] = {
    {"an allreduce with a stopped rank, by the config", TIMEOUT_MS, "1000s", false, true},
    {"an allreduce with a stopped rank, by the variable", 0, "2000ms", false, true},
    {"a message of a stopped rank, by the config", TIMEOUT_MS, "1000s", true, true},
    {"an allreduce of a half with a stopped rank, by the parent's config", TIMEOUT_MS, "1000s", false, true, BY_SPLIT},
    {"a message of a stopped rank of a twin, by the parent's config", TIMEOUT_MS, "1000s", true, true, BY_DUPLICATE},
    {"an allreduce of those that remain with a stopped rank, by the parent's config", TIMEOUT_MS, "1000s", false, true,
     BY_SHRINK},
    {"calls without end with a stopped rank", TIMEOUT_MS, "1000s", false, true, NO_CHILD, true},
    {"an allreduce of two ranks that were stopped", 2 * TIMEOUT_MS, "1000s", .pauses = true},
    {"a message of two ranks that were stopped", 2 * TIMEOUT_MS, "1000s", .message = true, .pauses = true},
    {"an allreduce with a late rank", PATIENCE_MS, "2000ms", false, false},
    {"a message of a late rank, more patient than the variable", 100000, "2000ms", true, false},
};

static int ends[2];
static char log_file[] = LOG_FILE;

/* Far less than two seconds of calls take if nothing holds them back. The thread sanitizer remembers several times what
 * the calls take. */
#ifdef __SANITIZE_THREAD__
#define FLOOD_BYTES (1l << 30)
#else
#define FLOOD_BYTES (128l << 20)
#endif

static long memory_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Calls until one fails, and looks at the memory that those take which have not ended. */
static tutti_result_t flood(tutti_comm_t comm)
{
    static float in, out;
    long before = memory_bytes();
    tutti_result_t result = TUTTI_SUCCESS;
    while (result == TUTTI_SUCCESS)
        result = tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
    long taken = memory_bytes() - before;
    if (before == 0 || taken > FLOOD_BYTES) {
        fprintf(stderr, "calls that wait take %ld MiB\n", taken >> 20);
        return TUTTI_INTERNAL_ERROR;
    }
    return result;
}

static tutti_result_t talk(const struct scene *scene, int rank, tutti_comm_t comm)
{
    if (scene->floods)
        return flood(comm);
    float one = 1, sum;
    tutti_result_t result;
    if (!scene->message)
        result = tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
    else
        result = rank ? tutti_send(&one, 1, TUTTI_FLOAT32, 0, comm, NULL)
                      : tutti_recv(&sum, 1, TUTTI_FLOAT32, 1, comm, NULL);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* For both to read. */
static bool make_log(void)
{
    int file = mkstemp(strcpy(log_file, LOG_FILE));
    return file >= 0 && close(file) == 0;
}

/* By rank 0, before anything else. */
static bool open_log(void)
{
    return setenv("TUTTI_DEBUG", "info", 1) == 0 && setenv("TUTTI_DEBUG_FILE", log_file, 1) == 0;
}

static bool is_logged(const char *what)
{
    char line[400];
    bool found = false;
    FILE *file = fopen(log_file, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, what) != NULL;
    if (file)
        fclose(file);
    return found;
}

/* What rank 0 must hear. */
static int judge(const struct scene *scene, tutti_result_t result, tutti_comm_t comm)
{
    const char *said = result == TUTTI_SUCCESS ? "" : tutti_get_last_error(comm);
    if (scene->pauses && !is_logged(TOLD)) {
        fprintf(stderr, "the log says nothing of the time for which rank 0 was stopped\n");
        return 9;
    }
    if (scene->stops ? result == TUTTI_REMOTE_ERROR && strstr(said, "rank 1") && strstr(said, "no sign of life")
                     : result == TUTTI_SUCCESS)
        return 0;
    fprintf(stderr, "result %d, \"%s\"\n", result, said);
    return 5;
}

/* The child takes its parent's place in *comm. */
static tutti_result_t make_child(enum child by, int rank, tutti_comm_t *comm)
{
    tutti_comm_t parent = *comm;
    tutti_result_t result = by == BY_SPLIT       ? tutti_comm_split(parent, 0, rank, comm, NULL)
                            : by == BY_DUPLICATE ? tutti_comm_duplicate(parent, comm, NULL)
                                                 : tutti_comm_shrink(parent, NULL, 0, comm, NULL);
    return result == TUTTI_SUCCESS ? tutti_comm_destroy(parent) : result;
}

static int run_rank(const struct scene *scene, int rank)
{
    tutti_unique_id_t id;
    tutti_comm_t comm;
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeout_ms = scene->config_ms;
    setenv("TUTTI_TIMEOUT", scene->setting, 1);
    if (rank == 0 && scene->pauses && !open_log())
        return 10;
    if (rank == 0 &&
        (tutti_get_unique_id(&id) != TUTTI_SUCCESS || write(ends[1], &id, sizeof id) != (ssize_t)sizeof id))
        return 2;
    if (rank == 1 && read(ends[0], &id, sizeof id) != (ssize_t)sizeof id)
        return 3;
    if (tutti_comm_init_rank(&comm, 2, &id, rank, &config) != TUTTI_SUCCESS)
        return 4;
    if (scene->child && make_child(scene->child, rank, &comm) != TUTTI_SUCCESS)
        return 8;
    struct scene before = {.message = false};
    if (talk(&before, rank, comm) != TUTTI_SUCCESS)
        return 6;
    if (rank == 1 && (scene->stops || scene->pauses))
        raise(SIGSTOP);
    else if (rank == 1)
        usleep(1000 * LATE_MS);
    tutti_result_t result = talk(scene, rank, comm);
    if (rank == 0)
        _exit(judge(scene, result, comm)); /* without a goodbye, for which a stopped peer makes it wait */
    close(ends[1]);
    if (!scene->stops) /* until rank 0 has ended: its goodbye waits for two seconds, and a starved rank for longer */
        read(ends[0], &id, 1);
    return scene->stops || tutti_comm_destroy(comm) == TUTTI_SUCCESS ? 0 : 7;
}

/* Of a process that has ended. One that stops goes on: it may come to its stop only now. */
static int status_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status))
        kill(pid, SIGCONT);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* Rank 0 asks when half of its patience is over, and would give rank 1 up after the other half. It goes on first, until
 * it has looked: what it waits for would come before that now and then. */
static void pause_both(const pid_t *pid)
{
    int status;
    waitpid(pid[1], &status, WUNTRACED);
    usleep(1150 * TIMEOUT_MS);
    kill(pid[0], SIGSTOP);
    usleep(2000 * TIMEOUT_MS);
    kill(pid[0], SIGCONT);
    for (int i = 0; i < 2000 && !is_logged(TOLD); i++)
        usleep(10000);
    kill(pid[1], SIGCONT);
}

static int play(const struct scene *scene)
{
    pid_t pid[2];
    if (pipe(ends) != 0 || (scene->pauses && !make_log()))
        return 1;
    for (int rank = 0; rank < 2; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(60); /* far more than it may take */
            _exit(run_rank(scene, rank));
        }
    }
    if (scene->pauses)
        pause_both(pid);
    int first = status_of(pid[0]);
    close(ends[1]);
    kill(pid[1], SIGCONT);
    int second = status_of(pid[1]);
    close(ends[0]);
    if (scene->pauses)
        unlink(log_file);
    printf("%s: rank 0 ended with %d, rank 1 with %d\n", scene->name, first, second);
    return first || second;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    if (argc == 2)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        wrong += play(&scenes[i]);
    return wrong != 0;
}
