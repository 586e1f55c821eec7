/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board-bench PROCESSES NICS TRIALS: what a look at the board of a host's interfaces costs, with these processes on it,
 * and how soon it is right after one of them is killed. Prints ns of a look at one interface: the mean, and the median
 * of the looks that also ask who lives. Then ms to the first right look from the kill, and from the end of the process:
 * the median, the 99th of 100, and the greatest of each.
 */
#include "base/board.h"
#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST  BOARD_SLOTS
#define LOOKS 2000000
#define ASKS  200
#define APART (6 * NS_PER_MS) /* longer than what one answer is for */

static uint64_t host;
static uint64_t names[BOARD_NICS];
static int nics;

static void fail(const char *what)
{
    fprintf(stderr, "board-bench: %s\n", what);
    exit(1);
}

/* A process that owns an interface and has something under way on all. */
static pid_t begin(void)
{
    int ready[2];
    char word = 'n';
    if (pipe(ready) != 0)
        fail("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct board *board = board_open(host);
        for (int i = 0; board && i < nics; i++)
            atomic_store(&board_use(board, names[i])->outstanding, 1);
        if (board)
            board_own(board, names, nics);
        if (write(ready[1], board ? "y" : "n", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (pid < 0 || read(ready[0], &word, 1) != 1 || word != 'y')
        fail("no process on the board");
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure_looks(struct board *board)
{
    static double asks[ASKS];
    uint64_t now = clock_ns(), sum = 0, began = now;
    for (int i = 0; i < LOOKS; i++) {
        now = i % 64 ? now : clock_ns();
        sum += board_look(board, names[i % nics], now).outstanding;
    }
    double mean = (double)(clock_ns() - began) / LOOKS;
    for (int i = 0; i < ASKS; i++) {
        uint64_t before = clock_ns();
        sum += board_look(board, names[0], now += APART).outstanding;
        asks[i] = (double)(clock_ns() - before);
    }
    qsort(asks, ASKS, sizeof *asks, by_size);
    if (!sum)
        fail("nobody is seen");
    printf("%.1f %.0f\n", mean, asks[ASKS / 2]);
}

static void print_times(double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, by_size);
    printf("%.2f %.2f %.2f\n", times[count / 2], times[count * 99 / 100], times[count - 1]);
}

static void measure_kills(struct board *board, int trials)
{
    double *from_kill = calloc((size_t)trials + 1, sizeof *from_kill);
    double *from_end = calloc((size_t)trials + 1, sizeof *from_end);
    int before = board_look(board, names[0], clock_ns() + APART).processes;
    if (!from_kill || !from_end)
        fail("no memory");
    for (int i = 0; i < trials; i++) {
        pid_t pid = begin();
        siginfo_t how;
        while (board_look(board, names[0], clock_ns()).processes != before + 1)
            ;
        uint64_t killed = clock_ns();
        kill(pid, SIGKILL);
        waitid(P_PID, (id_t)pid, &how, WEXITED);
        uint64_t ended = clock_ns();
        while (board_look(board, names[0], clock_ns()).processes != before)
            ;
        from_kill[i] = (double)(clock_ns() - killed) / NS_PER_MS;
        from_end[i] = (double)(clock_ns() - ended) / NS_PER_MS;
    }
    if (trials) {
        print_times(from_kill, trials);
        print_times(from_end, trials);
    }
    free(from_kill);
    free(from_end);
}

int main(int argc, char **argv)
{
    char path[BOARD_PATH];
    pid_t pids[MOST];
    int processes = argc == 4 ? atoi(argv[1]) : 0;
    nics = argc == 4 ? atoi(argv[2]) : 0;
    if (processes < 1 || processes >= MOST - 1 || nics < 1 || nics > BOARD_NICS) {
        fprintf(stderr, "Usage: board-bench PROCESSES NICS TRIALS\n");
        return 2;
    }
    host = (uint64_t)getpid() << 32 | (uint32_t)clock_ns();
    for (int i = 0; i < nics; i++)
        names[i] = (uint64_t)i + 1;
    board_path(host, path);
    struct board *board = board_open(host);
    if (!board)
        fail("no board");
    for (int i = 0; i < processes; i++)
        pids[i] = begin();
    measure_looks(board);
    measure_kills(board, atoi(argv[3]));
    for (int i = 0; i < processes; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    board_close(board);
    unlink(path);
    return 0;
}
