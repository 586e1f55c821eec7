/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `window_faults shm|tcp|verbs|gpu|hosts`: what becomes of puts, signals and waits when a rank is killed, leaves or
 * gives up. A rank that waits is told, and the sentence names the rank that is gone. When a rank has given up or
 * destroyed the communicator, what a peer puts behind a signal of that rank is not stored (late.c has all else). gpu:
 * on GPUs; hosts: each GPU on a host of its own.
 */
#include "gpu.h"
#include "tutti/tutti.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE    (4u << 20)
#define LATE_US 20000

/* Two ranks, and what they do with a window of SIZE bytes each. Returns how much was wrong. */
struct scene {
    const char *name;
    int (*work)(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory);
    bool dies;           /* rank 1 is killed by itself, or when rank 0 is done */
    const char *timeout; /* TUTTI_TIMEOUT; NULL: none */
};

static unsigned char *local;       /* SIZE bytes to put */
static unsigned char mirror[SIZE]; /* of memory that is a GPU's, perhaps */
static bool apart;                 /* GPUs of two hosts */
static int word[2];                /* a pipe from rank 1 to rank 0, beside the library */

static void *take(void)
{
    void *memory = NULL;
    if (gpu_wanted() && tutti_device_mem_alloc(&memory, SIZE) != TUTTI_SUCCESS)
        return NULL;
    return gpu_wanted() ? memory : calloc(1, SIZE);
}

static void paint(unsigned char *memory, int value, size_t length)
{
    memset(mirror, value, length);
    gpu_bytes_copy(memory, mirror, length);
}

static int complain(int rank, const char *what, tutti_comm_t comm)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, tutti_get_last_error(comm));
    return 1;
}

/* The communicator has failed, and its sentence has the words. */
static int expect(tutti_comm_t comm, tutti_result_t result, const char *words)
{
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    if (result == TUTTI_SUCCESS || !strstr(tutti_get_last_error(comm), words)) {
        fprintf(stderr, "result %d, where \"%s\" was to be said: %s\n", result, words, tutti_get_last_error(comm));
        return 1;
    }
    return 0;
}

static tutti_result_t wait_for_one(int peer, tutti_comm_t comm)
{
    const tutti_signal_wait_t wait = {peer, 0, 1};
    tutti_result_t result = tutti_wait_signal(&wait, 1, comm, NULL);
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
}

/* Puts of several lengths until one fails. */
static tutti_result_t put_until_told(int peer, tutti_comm_t comm, tutti_window_t window)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (unsigned round = 0; result == TUTTI_SUCCESS; round++) {
        size_t length = (size_t[]){8, 512, 20000, 1u << 20, SIZE}[round % 5];
        paint(local, (int)round, length);
        result = tutti_put_signal(local, length, TUTTI_UINT8, peer, window, SIZE - length, 0, comm, NULL);
        if (result == TUTTI_SUCCESS && round % 5 == 4)
            result = tutti_window_flush(peer, window, comm, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
    }
    return result;
}

/* ---- Scenes ---- */

static int killed_waited_for(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)window;
    (void)memory;
    if (rank == 0)
        return expect(comm, wait_for_one(1, comm), "rank 1");
    usleep(50000);
    return kill(getpid(), SIGKILL);
}

/* Also of its process nobody hears any more. */
static int stopped_waited_for(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)window;
    (void)memory;
    return rank == 0 ? expect(comm, wait_for_one(1, comm), "rank 1") : kill(getpid(), SIGSTOP);
}

static int killed_put_to(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)memory;
    if (rank == 0)
        return expect(comm, put_until_told(1, comm, window), "rank 1");
    usleep(50000);
    return kill(getpid(), SIGKILL);
}

/* The rank puts when it dies: what has come says nothing, and its signal never comes. */
static int killed_putting(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)memory;
    if (rank == 0) {
        tutti_result_t result = TUTTI_SUCCESS;
        while (result == TUTTI_SUCCESS)
            result = wait_for_one(1, comm);
        return expect(comm, result, "rank 1");
    }
    signal(SIGALRM, SIG_DFL);
    ualarm(50000, 0);
    put_until_told(0, comm, window);
    return 1;
}

/* Rank 1 destroys a communicator, and lives on. */
static int leaves(int rank, tutti_comm_t parent, unsigned char *memory, bool puts)
{
    tutti_comm_t comm;
    tutti_window_t window;
    int wrong = 0;
    if (tutti_comm_duplicate(parent, &comm, NULL) != TUTTI_SUCCESS ||
        tutti_window_register(comm, memory, SIZE, &window) != TUTTI_SUCCESS)
        return complain(rank, "the next communicator", NULL);
    if (rank == 0)
        wrong = expect(comm, puts ? put_until_told(1, comm, window) : wait_for_one(1, comm),
                       gpu_wanted() && !apart ? "rank 1 has left" : "rank 1 has destroyed");
    tutti_comm_destroy(comm);
    if (tutti_barrier(parent, NULL) != TUTTI_SUCCESS || tutti_comm_synchronize(parent) != TUTTI_SUCCESS)
        return complain(rank, "the parent", parent);
    return wrong;
}

static int left_waited_for(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)window;
    return leaves(rank, comm, memory, false);
}

static int left_put_to(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)window;
    return leaves(rank, comm, memory, true);
}

/* Rank 0 waits for a signal, rank 1 for a message of rank 0 behind that. */
static int crossed(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)window;
    tutti_result_t result = rank == 0 ? wait_for_one(1, comm) : tutti_recv(memory, 1, TUTTI_INT32, 0, comm, NULL);
    return expect(comm, result, "can go on"); /* neither, or none of them */
}

/* Rank 1 signals behind a collective, for which rank 0 comes too late. Before that, the calls fit. */
static int crossed_collective(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    (void)window;
    (void)memory;
    for (int round = 0; round < 3; round++)
        if (tutti_signal(1 - rank, 0, comm, NULL) != TUTTI_SUCCESS || wait_for_one(1 - rank, comm) != TUTTI_SUCCESS ||
            tutti_allreduce(local, local, 100, TUTTI_UINT8, TUTTI_MAX, comm, NULL) != TUTTI_SUCCESS)
            return complain(rank, "calls that fit", comm);
    tutti_result_t result = rank == 0 ? wait_for_one(1, comm) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = tutti_allreduce(local, local, 100, TUTTI_UINT8, TUTTI_MAX, comm, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    return expect(comm, result, "can go on");
}

/* Each waits for what the other one calls behind its own wait. Before that, each has signalled before it waited. */
static int crossed_signals(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    const tutti_signal_wait_t wait = {1 - rank, 0, 1};
    (void)window;
    (void)memory;
    for (int round = 0; round < 20; round++)
        if (tutti_signal(1 - rank, 0, comm, NULL) != TUTTI_SUCCESS || wait_for_one(1 - rank, comm) != TUTTI_SUCCESS)
            return complain(rank, "a wait for what was signalled", comm);
    tutti_result_t result = tutti_wait_signal(&wait, 1, comm, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_signal(1 - rank, 0, comm, NULL);
    return expect(comm, result, "can go on"); /* neither, or none of them */
}

/* A signal that was sent before its sender left still counts. */
static int left_behind_a_signal(int rank, tutti_comm_t comm, tutti_window_t window, unsigned char *memory)
{
    paint(local, 1, 1);
    if (rank == 1)
        return tutti_put_signal(local, 1, TUTTI_UINT8, 0, window, 7, 0, comm, NULL) != TUTTI_SUCCESS;
    usleep(300000);
    tutti_result_t result = wait_for_one(1, comm);
    gpu_bytes_copy(mirror, memory + 7, 1);
    return result == TUTTI_SUCCESS && *mirror == 1 ? 0 : complain(rank, "a signal was lost", comm);
}

static int changes(int rank, unsigned char *memory)
{
    paint(memory, 0xee, SIZE);
    usleep(LATE_US);
    gpu_bytes_copy(mirror, memory, SIZE);
    for (size_t at = 0; at < SIZE; at++)
        if (mirror[at] != 0xee) {
            fprintf(stderr, "rank %d: byte %zu was written late\n", rank, at);
            return 1;
        }
    return 0;
}

/* Windows between hosts belong to no call: one that some rank still makes ends with an abort. */
static bool all_have_it(tutti_comm_t parent)
{
    return !apart || (tutti_barrier(parent, NULL) == TUTTI_SUCCESS && tutti_comm_synchronize(parent) == TUTTI_SUCCESS);
}

/* What rank 1 puts is behind a signal that rank 0 does not send. */
static int gives_up_awaited(int rank, tutti_comm_t parent, tutti_window_t unused, unsigned char *memory)
{
    const tutti_signal_wait_t wait = {0, 0, 1};
    tutti_comm_t comm;
    tutti_window_t window;
    (void)unused;
    for (int aborts = 0; aborts < 2; aborts++) {
        if (tutti_comm_duplicate(parent, &comm, NULL) != TUTTI_SUCCESS ||
            tutti_window_register(comm, memory, SIZE, &window) != TUTTI_SUCCESS || !all_have_it(parent))
            return complain(rank, "the next communicator", NULL);
        if (rank == 1 && (tutti_wait_signal(&wait, 1, comm, NULL) != TUTTI_SUCCESS ||
                          tutti_put(local, SIZE, TUTTI_UINT8, 0, window, 0, comm, NULL) != TUTTI_SUCCESS))
            return complain(rank, "a put behind a wait", comm);
        if (rank == 1 ? write(word[1], "x", 1) != 1 : read(word[0], mirror, 1) != 1)
            return complain(rank, "a word", comm);
        if (rank == 0)
            usleep(50000); /* the put lies there */
        if (rank == 0 && aborts)
            tutti_comm_abort(comm);
        if (rank == 0)
            tutti_comm_destroy(comm);
        if (rank == 0 && changes(rank, memory))
            return 1;
        if (rank == 1 && expect(comm, TUTTI_SUCCESS, "rank 0"))
            return 1;
        if (rank == 1)
            tutti_comm_destroy(comm);
    }
    return 0;
}

/* Rank 0 has nothing more to do, and rank 1 puts. */
static int gives_up_finalized(int rank, tutti_comm_t parent, tutti_window_t unused, unsigned char *memory)
{
    tutti_comm_t comm;
    tutti_window_t window;
    int wrong = 0;
    (void)unused;
    if (tutti_comm_duplicate(parent, &comm, NULL) != TUTTI_SUCCESS ||
        tutti_window_register(comm, memory, SIZE, &window) != TUTTI_SUCCESS || !all_have_it(parent))
        return complain(rank, "the next communicator", NULL);
    if (rank == 1)
        wrong = expect(comm, put_until_told(0, comm, window), "rank 0");
    else if (tutti_comm_finalize(comm) != TUTTI_SUCCESS)
        wrong = complain(rank, "finalizing", comm);
    if (rank == 0) {
        usleep(30000); /* puts are under way */
        wrong |= tutti_comm_abort(comm) != TUTTI_SUCCESS || changes(rank, memory);
    }
    tutti_comm_destroy(comm);
    return wrong;
}

static const struct scene scenes[] = {
    {"a rank is killed that is waited for", killed_waited_for, true},
    {"a rank is stopped that is waited for", stopped_waited_for, true, .timeout = "1500ms"},
    {"a rank is killed that is put to", killed_put_to, true},
    {"a rank is killed that puts", killed_putting, true},
    {"a rank leaves that is waited for", left_waited_for},
    {"a rank leaves that is put to", left_put_to},
    {"each waits for the other", crossed},
    {"one waits for a signal, the other in a collective", crossed_collective},
    {"each waits for the other's signal", crossed_signals},
    {"a rank leaves behind a signal", left_behind_a_signal},
    {"a rank gives up that a put waits for", gives_up_awaited},
    {"a rank gives up that was finalized", gives_up_finalized},
};

/* ---- Two processes ---- */

static int run(int rank, const struct scene *scene, int from, int to)
{
    tutti_unique_id_t id;
    tutti_comm_t comm;
    tutti_window_t window;
    alarm(100); /* far more than it may take */
    if (scene->timeout)
        setenv("TUTTI_TIMEOUT", scene->timeout, 1);
    if (apart)
        setenv("TUTTI_HOSTID", rank ? "1" : "0", 1);
    if (gpu_wanted())
        gpu_select(rank);
    const tutti_config_t config = gpu_config();
    unsigned char *memory = take();
    local = take();
    if (rank == 0 && (tutti_get_unique_id(&id) != TUTTI_SUCCESS || write(to, &id, sizeof id) != (ssize_t)sizeof id))
        return complain(rank, "id", NULL);
    if (rank == 1 && read(from, &id, sizeof id) != (ssize_t)sizeof id)
        return complain(rank, "id", NULL);
    if (!memory || !local || tutti_comm_init_rank(&comm, 2, &id, rank, &config) != TUTTI_SUCCESS ||
        tutti_window_register(comm, memory, SIZE, &window) != TUTTI_SUCCESS)
        return complain(rank, "init", NULL);
    int wrong = scene->work(rank, comm, window, memory);
    tutti_comm_destroy(comm);
    return wrong;
}

static int play(const struct scene *scene)
{
    int ends[2], status[2];
    pid_t pid[2];
    if (pipe(ends) != 0 || pipe(word) != 0)
        return 1;
    for (int rank = 0; rank < 2; rank++)
        if ((pid[rank] = fork()) == 0)
            exit(run(rank, scene, ends[0], ends[1]));
    for (int rank = 0; rank < 2; rank++) {
        if (waitpid(pid[rank], &status[rank], 0) != pid[rank])
            return 1;
        if (rank == 0 && scene->timeout)
            kill(pid[1], SIGKILL);
    }
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(word[i]);
    }
    bool right = status[0] == 0 && (scene->dies ? WIFSIGNALED(status[1]) : status[1] == 0);
    printf("%s: %s\n", scene->name, right ? "right" : "WRONG");
    fflush(stdout);
    return !right;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    apart = argc == 2 && strcmp(argv[1], "hosts") == 0;
    if (apart || (argc == 2 && strcmp(argv[1], "gpu") == 0))
        setenv("TUTTI_TEST_GPU", "1", 1);
    else if (argc == 2)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        wrong += play(&scenes[i]);
    return wrong != 0;
}
