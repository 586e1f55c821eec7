/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers by their variables: complete, incomplete and contradictory; and the PMI-1 conversation with a launcher made
 * here. */
#include "base/error.h"
#include "base/param.h"
#include "bootstrap/env_kind.h"
#include "bootstrap/env_slurm.h"
#include "wire/bootstrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Nothing of the launcher that runs this test may be seen. */
static void clean(void)
{
    static const char *const prefixes[] = {"TUTTI_", "NCCL_",         "SLURM_",  "PMI_", "PMIX_",
                                           "OMPI_",  "TORCHELASTIC_", "MASTER_", "MPI_"};
    static const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
        for (char **v = environ; *v;) {
            char name[128];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*v, "="), *v);
            if (strncmp(name, prefixes[p], strlen(prefixes[p])) == 0)
                unsetenv(name), v = environ;
            else
                v++;
        }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("TUTTI_DEBUG", "none", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 1);
}

/* "A=1 B=2" */
static tutti_result_t find_with(const char *variables, struct env_identity *who)
{
    char text[1024], *rest = NULL;
    clean();
    snprintf(text, sizeof text, "%s", variables);
    for (char *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(one, '=');
        *equals = 0;
        setenv(one, equals + 1, 1);
    }
    param_reload();
    return env_identity_find(who);
}

static void assert_error(const char *variables, const char *word)
{
    struct env_identity who;
    if (find_with(variables, &who) == TUTTI_SUCCESS || !strstr(error_last(), word))
        fail_msg("\"%s\": \"%s\", want \"%s\"", variables, error_last(), word);
}

static struct net_address meeting_point(const struct env_identity *who, uint8_t nonce[BOOT_NONCE])
{
    struct net_address at;
    assert_int_equal(boot_id_get(&who->id, &at, nonce), TUTTI_SUCCESS);
    return at;
}

static void assert_finds(const char *variables, const char *source, int rank, int nranks, int local_rank,
                         int local_size)
{
    struct env_identity who;
    if (find_with(variables, &who) != TUTTI_SUCCESS)
        fail_msg("\"%s\": %s", variables, error_last());
    assert_string_equal(who.source, source);
    assert_int_equal(who.rank, rank);
    assert_int_equal(who.nranks, nranks);
    assert_int_equal(who.local_rank, local_rank);
    assert_int_equal(who.local_size, local_size);
    assert_int_equal(who.root_here, rank == 0);
    env_identity_release(&who);
}

static void complete(void **state)
{
    assert_finds("TUTTI_RANK=1 TUTTI_SIZE=3 TUTTI_ID=127.0.0.1:7000 TUTTI_NONCE=00112233445566778899aabbccddeeff",
                 "tutti run", 1, 3, -1, -1);
    assert_finds("TUTTI_RANK=0 TUTTI_SIZE=3 NCCL_COMM_ID=127.0.0.1:7000", "tutti run", 0, 3, -1, -1);
    assert_finds("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500",
                 "torchrun", 5, 8, 1, 4);
    assert_finds("RANK=5 WORLD_SIZE=8 MASTER_ADDR=::1 MASTER_PORT=29500", "torchrun", 5, 8, -1, -1);
    assert_finds(
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "Open MPI", 0, 2, 0, 2);
    assert_finds("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", "Open MPI", 1, 2, -1, -1);
    assert_finds("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "PMI", 1, 2, 1, 2);
    assert_finds(
        "SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_JOB_ID=7 "
        "SLURM_STEP_NODELIST=localhost,other",
        "Slurm", 3, 4, 1, 2);
    assert_finds("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_JOB_ID=7 TUTTI_ID=127.0.0.1:99", "Slurm", 3, 4, -1, -1);
    assert_finds("PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_JOB_ID=7 "
                 "SLURM_JOB_NODELIST=localhost",
                 "PMI", 1, 2, 1, -1);
}

/* A program that is started by itself, as MPI programs may be; also in a shell that Slurm has given nodes to. */
static void alone(void **state)
{
    assert_finds("", "no launcher", 0, 1, 0, 1);
    assert_finds("", "no launcher", 0, 1, 0, 1);
    assert_finds("SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_JOB_NODELIST=localhost", "no launcher", 0, 1, 0, 1);
}

static void incomplete_or_contradictory(void **state)
{
    assert_error("RANK=1", "RANK is set, but nothing tells this process its rank");
    assert_error("RANK=1", "WORLD_SIZE");
    assert_error("MASTER_ADDR=127.0.0.1", "MASTER_ADDR is set, but nothing tells");
    assert_error("MASTER_ADDR=127.0.0.1", "tutti run, torchrun, mpirun or srun");
    assert_error("MASTER_PORT=29500", "MASTER_PORT is set, but nothing tells");
    assert_error("LOCAL_RANK=0", "LOCAL_RANK is set, but nothing tells");
    assert_error("TUTTI_ID=127.0.0.1:7000", "TUTTI_ID is set, but nothing tells");
    assert_error("NCCL_COMM_ID=127.0.0.1:7000", "NCCL_COMM_ID is set, but nothing tells");
    assert_error("PMIX_RANK=1", "PMIX_RANK is set, but nothing tells");
    assert_error("TUTTI_RANK=1", "TUTTI_SIZE is not set");
    assert_error("TUTTI_SIZE=2", "TUTTI_RANK is not set");
    assert_error("TUTTI_RANK=1 TUTTI_SIZE=2", "TUTTI_ID");
    assert_error("TUTTI_RANK=2 TUTTI_SIZE=2 TUTTI_ID=127.0.0.1:7000", "TUTTI_RANK=2 is not below TUTTI_SIZE=2");
    assert_error("TUTTI_RANK=x TUTTI_SIZE=2 TUTTI_ID=127.0.0.1:7000", "TUTTI_RANK=x");
    assert_error("TUTTI_RANK=0 TUTTI_SIZE=0 TUTTI_ID=127.0.0.1:7000", "TUTTI_SIZE=0");
    assert_error("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=127.0.0.1", "TUTTI_ID=127.0.0.1");
    assert_error("TUTTI_RANK=0 TUTTI_SIZE=2 NCCL_COMM_ID=127.0.0.1", "NCCL_COMM_ID=127.0.0.1");
    assert_error("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=127.0.0.1:0", "TUTTI_ID=127.0.0.1:0");
    assert_error("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=127.0.0.1:1 TUTTI_NONCE=12", "TUTTI_NONCE");
    assert_error("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=127.0.0.1:1 TUTTI_NONCE=0011223344556677x899aabbccddeeff",
                 "TUTTI_NONCE");
    assert_error("RANK=1 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "LOCAL_RANK=3");
    assert_error("RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1", "MASTER_PORT is not set");
    assert_error("RANK=1 WORLD_SIZE=4 MASTER_PORT=29500", "MASTER_ADDR is not set");
    assert_error("RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=65536", "MASTER_PORT=65536");
    assert_error("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE");
    assert_error("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", "TUTTI_ID");
    assert_error("PMI_RANK=0", "PMI_SIZE");
    assert_error("PMI_RANK=0 PMI_SIZE=2 PMI_FD=x MPI_LOCALNRANKS=2", "PMI_FD=x");
    assert_error("SLURM_PROCID=0", "SLURM_NTASKS");
    assert_error("SLURM_PROCID=4 SLURM_NTASKS=4", "srun");
    assert_error("SLURM_PROCID=0 SLURM_NTASKS=4", "SLURM_JOB_ID");
    assert_error("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7", "SLURM_STEP_NODELIST");
    assert_error("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7 SLURM_STEP_NODELIST=a[1", "SLURM_STEP_NODELIST=a[1");
    assert_error("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=3 SLURM_STEP_TASKS_PER_NODE=2(x2)", "SLURM_NODEID=3");
}

/* The same variables give the same meeting point on all ranks; the next communicator another; another job another
 * nonce. */
static void meeting_points(void **state)
{
    static const char *const job = "SLURM_NTASKS=2 SLURM_JOB_NODELIST=localhost SLURM_JOB_ID=";
    char text[3][200];
    struct env_identity who[3];
    uint8_t nonce[3][BOOT_NONCE];
    struct net_address at[3];
    snprintf(text[0], sizeof text[0], "%s7 SLURM_PROCID=0", job);
    snprintf(text[1], sizeof text[1], "%s7 SLURM_PROCID=0", job);
    snprintf(text[2], sizeof text[2], "%s8 SLURM_PROCID=1", job);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(find_with(text[i], &who[i]), TUTTI_SUCCESS);
        at[i] = meeting_point(&who[i], nonce[i]);
    }
    assert_int_equal(net_port(&at[1]), net_port(&at[0]) + 1);
    assert_memory_not_equal(nonce[0], nonce[1], BOOT_NONCE);
    assert_memory_not_equal(nonce[1], nonce[2], BOOT_NONCE);
}

/* Jobs of torchrun on one host have ports of their own, far from the next job's; the ranks of one job agree. */
static void torchrun_jobs_keep_apart(void **state)
{
    static const char *const jobs[] = {"TORCHELASTIC_RUN_ID=a MASTER_PORT=29500",
                                       "TORCHELASTIC_RUN_ID=a MASTER_PORT=29501",
                                       "TORCHELASTIC_RUN_ID=b MASTER_PORT=29500",
                                       "TORCHELASTIC_RUN_ID=a MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=1"};
    enum { JOBS = sizeof jobs / sizeof *jobs, FAR = 100 };
    int port[JOBS][2];
    (void)state;
    for (int call = 0; call < 2 * JOBS; call++) {
        int job = call / 2, rank = call % 2;
        uint8_t nonce[BOOT_NONCE];
        char text[300];
        struct env_identity who;
        snprintf(text, sizeof text, "%s RANK=%d WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", jobs[job], rank);
        assert_int_equal(find_with(text, &who), TUTTI_SUCCESS);
        struct net_address at = meeting_point(&who, nonce);
        port[job][rank] = net_port(&at) - call; /* each call of a process takes the next port */
    }
    for (int job = 0; job < JOBS; job++) {
        assert_int_equal(port[job][0], port[job][1]);
        assert_true(abs(port[job][0] - 29500) > FAR);
        for (int other = 0; other < job; other++)
            assert_true(abs(port[job][0] - port[other][0]) > FAR);
    }
}

static void root_opens_where_it_belongs(void **state)
{
    struct env_identity who;
    struct poller *poller;
    struct bootstrap_root *root;
    assert_int_equal(poller_open(&poller), TUTTI_SUCCESS);
    assert_int_equal(find_with("TUTTI_RANK=1 TUTTI_SIZE=2 TUTTI_ID=127.0.0.1:7000", &who), TUTTI_SUCCESS);
    assert_int_equal(env_root_open(&who, poller, &root), TUTTI_SUCCESS);
    assert_null(root);
    poller_close(poller);
}

static void slurm_lists(void **state)
{
    static const struct {
        const char *list, *first;
    } hosts[] = {
        {"node1", "node1"},
        {"node1,node2", "node1"},
        {"node[03-05,9],x", "node03"},
        {"a[7]", "a7"},
        {"rack[1-2]n[3-4]", "rack1n3"},
        {"n[1-2]-ib,m", "n1-ib"},
        {"", NULL},
        {"a[", NULL},
        {"a[1-2", NULL},
        {"a[]", NULL},
        {",a", NULL},
    };
    char out[32];
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        assert_int_equal(slurm_first_host(hosts[i].list, out, sizeof out), hosts[i].first != NULL);
        if (hosts[i].first)
            assert_string_equal(out, hosts[i].first);
    }
    assert_false(slurm_first_host("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", out, sizeof out));
    int tasks = 0;
    assert_true(slurm_tasks_of_node("2(x3),1", 2, &tasks));
    assert_int_equal(tasks, 2);
    assert_true(slurm_tasks_of_node("2(x3),1", 3, &tasks));
    assert_int_equal(tasks, 1);
    assert_false(slurm_tasks_of_node("2(x3),1", 4, &tasks));
    assert_false(slurm_tasks_of_node("2(x", 0, &tasks));
    assert_false(slurm_tasks_of_node("2;3", 1, &tasks));
    assert_false(slurm_tasks_of_node("", 0, &tasks));
}

/* A launcher that gives the answers of `script`, one for each line it hears. */
struct launcher {
    int fd;
    const char *const *script;
    pthread_t thread;
};

static void *launch(void *arg)
{
    struct launcher *l = arg;
    char line[1024];
    for (int i = 0; l->script[i]; i++) {
        size_t used = 0;
        while (used < sizeof line && read(l->fd, line + used, 1) == 1 && line[used++] != '\n')
            ;
        if (send(l->fd, l->script[i], strlen(l->script[i]), MSG_NOSIGNAL) < 0)
            break;
    }
    close(l->fd);
    return NULL;
}

static tutti_result_t converse(const char *const *script, int rank, struct env_identity *who, bool *met)
{
    int pair[2];
    struct launcher launcher;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    launcher = (struct launcher){.fd = pair[1], .script = script};
    assert_int_equal(pthread_create(&launcher.thread, NULL, launch, &launcher), 0);
    *who = (struct env_identity){.rank = rank, .nranks = 2, .reserved_fd = -1};
    /* Another descriptor number each time, or it would be taken for the session before. */
    static int number = 200;
    int fd = dup2(pair[0], number++);
    close(pair[0]);
    tutti_result_t result = env_pmi1_exchange(fd, who, 4, met);
    close(fd);
    pthread_join(launcher.thread, NULL);
    env_identity_release(who);
    return result;
}

#define HELLO "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", "cmd=my_kvsname kvsname=kvs_1\n"

static void pmi1_well(void **state)
{
    static const char *const zero[] = {HELLO, "cmd=put_result rc=0 msg=success\n", "cmd=put_result rc=0 msg=success\n",
                                       "cmd=barrier_out\n", NULL};
    struct env_identity who;
    uint8_t nonce[BOOT_NONCE];
    char text[ENV_ID_TEXT], halves[2][200];
    bool met;
    clean();
    param_reload();
    assert_int_equal(converse(zero, 0, &who, &met), TUTTI_SUCCESS);
    assert_true(met);
    meeting_point(&who, nonce);
    env_id_to_text(&who.id, text);
    for (int i = 0; i < 2; i++)
        snprintf(halves[i], sizeof halves[i], "cmd=get_result rc=0 msg=success value=%.128s\n", text + 128 * i);
    const char *const one[] = {HELLO, "cmd=barrier_out\n", halves[0], halves[1], NULL};
    struct env_identity other;
    assert_int_equal(converse(one, 1, &other, &met), TUTTI_SUCCESS);
    assert_memory_equal(&other.id, &who.id, sizeof who.id);
}

static void pmi1_badly(void **state)
{
    static const char *const silent[] = {NULL}, *const other[] = {"cmd=response_to_init rc=-1\n", NULL},
                             *const strange[] = {"HTTP/1.1 400\n", NULL},
                             *const nameless[] = {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                                                  "cmd=my_kvsname\n", NULL};
    static const char *const gone[] = {HELLO, NULL}, *const full[] = {HELLO, "cmd=put_result rc=-1 msg=full\n", NULL},
                             *const empty[] = {HELLO, "cmd=barrier_out\n", "cmd=get_result rc=-1 msg=key_not_found\n",
                                               NULL},
                             *const wrong[] = {HELLO, "cmd=barrier_out\n", "cmd=get_result rc=0 value=12\n",
                                               "cmd=get_result rc=0 value=34\n", NULL};
    const char *const *const unmet[] = {silent, other, strange, nameless};
    struct env_identity who;
    bool met;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(converse(unmet[i], 1, &who, &met), TUTTI_SUCCESS);
        assert_false(met);
    }
    assert_int_equal(converse(gone, 1, &who, &met), TUTTI_REMOTE_ERROR);
    assert_int_equal(converse(full, 0, &who, &met), TUTTI_SYSTEM_ERROR);
    assert_int_equal(converse(empty, 1, &who, &met), TUTTI_REMOTE_ERROR);
    assert_int_equal(converse(wrong, 1, &who, &met), TUTTI_REMOTE_ERROR);
}

static int polls = -1; /* of a launcher that says nothing; -1: do as asked */

/* In place of the C library's: the first wait is interrupted, the second takes all of its time. */
int poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000L};
    if (polls < 0)
        return ppoll(fds, count, ms < 0 ? NULL : &wait, NULL);
    if (polls++ == 1)
        return 0; /* and errno is as it was */
    errno = polls == 1 ? EINTR : EIO;
    return -1;
}

static void pmi1_silent_launcher(void **state)
{
    struct env_identity who = {.rank = 1, .nranks = 2, .reserved_fd = -1};
    bool met;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    polls = 0;
    assert_int_equal(env_pmi1_exchange(pair[0], &who, 4, &met), TUTTI_SUCCESS);
    int waits = polls;
    polls = -1;
    assert_false(met);
    assert_int_equal(waits, 2);
    close(pair[0]);
    close(pair[1]);
}

/* Meets by `fd`, lets a child of its own exit, then ends without a word. */
static void meet_and_fork(int fd)
{
    struct env_identity who = {.rank = 1, .nranks = 2, .reserved_fd = -1};
    char text[16];
    bool met = false;
    int status = 1;
    snprintf(text, sizeof text, "%d", fd);
    setenv("PMI_FD", text, 1);
    env_meet_pmi1(&who, 0, &met);
    pid_t child = fork();
    if (child == 0)
        exit(0);
    waitpid(child, &status, 0);
    _exit(!met || status != 0);
}

/* All answers lie in the socket already. */
static void pmi1_child_exits(void **state)
{
    static const char *const answers[] = {HELLO, "cmd=barrier_out rc=-1\n", "cmd=finalize_ack\n"};
    char said[1024] = "";
    size_t used = 0;
    ssize_t got;
    int pair[2], status = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        assert_int_equal(send(pair[1], answers[i], strlen(answers[i]), 0), strlen(answers[i]));
    pid_t child = fork();
    if (child == 0)
        meet_and_fork(pair[0]);
    close(pair[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    while ((got = recv(pair[1], said + used, sizeof said - 1 - used, 0)) > 0)
        used += (size_t)got;
    close(pair[1]);
    assert_non_null(strstr(said, "cmd=barrier_in"));
    assert_null(strstr(said, "cmd=finalize"));
}

static void local_job_is_stable(void **state)
{
    char one[64], two[64];
    env_local_job(one, sizeof one);
    env_local_job(two, sizeof two);
    assert_string_equal(one, two);
    assert_true(strlen(one) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete),
        cmocka_unit_test(alone),
        cmocka_unit_test(incomplete_or_contradictory),
        cmocka_unit_test(meeting_points),
        cmocka_unit_test(slurm_lists),
        cmocka_unit_test(root_opens_where_it_belongs),
        cmocka_unit_test(pmi1_well),
        cmocka_unit_test(pmi1_badly),
        cmocka_unit_test(pmi1_silent_launcher),
        cmocka_unit_test(pmi1_child_exits),
        cmocka_unit_test(local_job_is_stable),
        cmocka_unit_test(torchrun_jobs_keep_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
