/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unsealed: processes of one host of which one may not use memfd_create, or none may and /dev/shm has little room. They
 * have no memory to share, and meet over TCP: all results are right. Where all are refused and there is room, files in
 * /dev/shm serve.
 */
#include "tutti/tutti.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 3
#define COUNT 300000 /* numbers: large enough for every way */

static struct {
    tutti_unique_id_t id;
    _Atomic bool made;
} * meeting;

static bool refuse_memfd(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           memfd_create("refused", 0) < 0;
}

static int fail(int rank, const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, tutti_get_last_error(NULL));
    return 1;
}

static int work(int rank)
{
    static float in[COUNT], out[COUNT];
    tutti_comm_t comm;
    if (rank == 0) {
        if (tutti_get_unique_id(&meeting->id) != TUTTI_SUCCESS)
            return fail(rank, "id");
        atomic_store(&meeting->made, true);
    }
    while (!atomic_load(&meeting->made))
        usleep(1000);
    if (tutti_comm_init_rank(&comm, RANKS, &meeting->id, rank, NULL) != TUTTI_SUCCESS)
        return fail(rank, "init");
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(i % 100 + rank);
    int next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    tutti_allreduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
    if (tutti_comm_synchronize(comm) != TUTTI_SUCCESS || out[77] != 3 * 77 + 3)
        return fail(rank, "allreduce");
    tutti_group_start();
    tutti_send(in, COUNT, TUTTI_FLOAT32, next, comm, NULL);
    tutti_recv(out, COUNT, TUTTI_FLOAT32, before, comm, NULL);
    if (tutti_group_end() != TUTTI_SUCCESS || tutti_comm_synchronize(comm) != TUTTI_SUCCESS ||
        out[77] != (float)(77 + before))
        return fail(rank, "messages");
    return tutti_comm_destroy(comm) == TUTTI_SUCCESS ? 0 : fail(rank, "destroy");
}

/* `refused`: the ranks that may not use memfd_create, as bits. Returns whether all ended well. */
static bool run(const char *name, unsigned refused)
{
    bool right = true;
    atomic_store(&meeting->made, false);
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(60);
            if (refused >> rank & 1 && !refuse_memfd())
                _exit(2);
            exit(work(rank));
        }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;
        right &= wait(&status) > 0 && status == 0;
    }
    if (!right)
        fprintf(stderr, "FAILED: %s\n", name);
    return right;
}

/* A /dev/shm of our own. False: this system lets nobody have one. */
static bool small_room(const char *size)
{
    char options[64];
    snprintf(options, sizeof options, "size=%s", size);
    umount2("/dev/shm", MNT_DETACH);
    return mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

static bool own_mounts(void)
{
    return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

int main(void)
{
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (meeting == MAP_FAILED)
        return 2;
    bool right = run("the first is refused", 1) & run("the last is refused", 4) & run("all are refused", 7);
    if (!own_mounts()) {
        printf("SKIPPED: no mounts of our own here: small rooms were NOT tested: %s\n", strerror(errno));
        return right ? 0 : 1;
    }
    static const char *const sizes[] = {"8k", "100k", "3m", "12m"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        right &= small_room(sizes[i]) && run(sizes[i], 7);
    return !right;
}
