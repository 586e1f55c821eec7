/* SPDX-License-Identifier: Apache-2.0 */
/* What processes do not have in common: queue pair numbers, keys, and a parent's devices after fork. */
#include "verbs/object.h"
#include "verbs/verbs_testing.h"

#include "verbs/device.h"
#include "verbs/softverbs.h"
#include "verbs/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 6
/* The thread sanitizer knows no threads in a child of a process that had some. A lock of the address sanitizer, which a
 * thread holds at the fork, stays held in the child. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHILD_HAS_THREADS false
#else
#define CHILD_HAS_THREADS true
#endif

/* What a process of its own sees: the place of its first queue pair in its slot, and the key of its first region. */
struct seen {
    uint32_t place[CHILDREN], key[CHILDREN];
};

static void look(struct seen *seen, int child)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    seen->place[child] = pair.qp[0]->qp_num % (1u << SLOT_BITS);
    seen->key[child] = pair.mr->rkey;
    teardown(&pair);
    _exit(0);
}

static int ended(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void processes_differ(void **state)
{
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int places = 0, keys = 0;
    assert_true(seen != MAP_FAILED);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        if (pid == 0)
            look(seen, i);
        assert_int_equal(ended(pid), 0);
        places += i && seen->place[i] != seen->place[0];
        keys += i && seen->key[i] != seen->key[0];
    }
    assert_true(places >= CHILDREN - 2); /* by chance one may be alike */
    assert_true(keys >= CHILDREN - 2);
    munmap(seen, sizeof *seen);
}

static void must(bool good, int line)
{
    if (good)
        return;
    fprintf(stderr, "%s:%d: not so in the child\n", __FILE__, line);
    _exit(1);
}

/* A child that goes on with its parent's objects, and then opens its own. */
static void trespass(struct pair *pair)
{
    alarm(20);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init = {
        .send_cq = pair->cq[0], .recv_cq = pair->cq[0], .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    must(post(pair, 0, IBV_WR_RDMA_WRITE, 64, remote_of(pair, 1), pair->mr->rkey) == EPERM, __LINE__);
    must(post_receive(pair, 0, 64, pair->mr->lkey) == EPERM, __LINE__);
    must(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE) == EPERM, __LINE__);
    must(!ibv_create_qp(pair->pd, &init) && errno == EPERM, __LINE__);
    must(ibv_destroy_qp(pair->qp[1]) == EPERM, __LINE__);
    must(ibv_close_device(pair->context) == EPERM, __LINE__);
    if (!CHILD_HAS_THREADS)
        _exit(0);
    struct pair own;
    setup(&own, IBV_QPT_RC, 14, 7, 7);
    must(post(&own, 0, IBV_WR_RDMA_WRITE, 64, remote_of(&own, 1), own.mr->rkey) == 0, __LINE__);
    must(wait_for(own.cq[0]).status == IBV_WC_SUCCESS, __LINE__);
    teardown(&own);
    _exit(0); /* not a leak: what it has of the parent's */
}

static void write_and_wait(struct pair *pair, uint8_t value)
{
    memset(pair->memory, value, 64);
    assert_int_equal(post(pair, 0, IBV_WR_RDMA_WRITE, 64, remote_of(pair, 1), pair->mr->rkey), 0);
    assert_int_equal(wait_for(pair->cq[0]).status, IBV_WC_SUCCESS);
    assert_int_equal(*(uint8_t *)(uintptr_t)remote_of(pair, 1), value);
}

static void children_are_refused(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    write_and_wait(&pair, 1);
    pthread_mutex_t *building = &((struct qp *)pair.qp[0])->building; /* as if a thread was at a request */
    pthread_mutex_lock(building);
    pid_t pid = fork();
    if (pid == 0)
        trespass(&pair);
    pthread_mutex_unlock(building);
    write_and_wait(&pair, 2);
    assert_int_equal(ended(pid), 0);
    write_and_wait(&pair, 3);
    teardown(&pair);
}

static void *open_slowly(void *unused)
{
    struct ibv_context *context = open_loopback();
    assert_non_null(context);
    assert_int_equal(ibv_close_device(context), 0);
    return unused;
}

static bool someone_opens(void)
{
    if (pthread_mutex_trylock(&device_life) != 0)
        return true;
    pthread_mutex_unlock(&device_life);
    return false;
}

/* The thread, which the child has not, holds the lock of opening. */
static void a_child_opens_beside_a_thread_that_does(void **state)
{
    char answer[64];
    pthread_t thread;
    struct ibv_context *keeper = open_loopback();
    assert_non_null(keeper);
    assert_int_equal(softverbs_control("fault open-us=300000", answer, sizeof answer), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_slowly, NULL), 0);
    while (!someone_opens())
        usleep(100);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        must(softverbs_control("clear", answer, sizeof answer) == 0, __LINE__);
        must(!CHILD_HAS_THREADS || open_loopback(), __LINE__);
        _exit(0);
    }
    int status = ended(pid);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(softverbs_control("clear", answer, sizeof answer), 0);
    assert_int_equal(ibv_close_device(keeper), 0);
    assert_int_equal(status, 0);
}

int softverbs_sysfs(const char *path, char *out, size_t size);

static unsigned long long shown(const char *path)
{
    char text[64];
    assert_true(softverbs_sysfs(path, text, sizeof(text)) > 0);
    return strtoull(text, NULL, 10);
}

/* A process that writes, and one that does not and looks: what the other did is the device's, and no other device's. */
static void counters_are_those_of_all_processes(void **state)
{
    static const char sent[] = "soft_lo/ports/1/counters/port_xmit_packets";
    int ready[2], go[2];
    char byte;
    if (!CHILD_HAS_THREADS)
        skip();
    assert_true(!pipe(ready) && !pipe(go));
    assert_int_equal(system("ip link add d0 type veth peer name d1 && ip link set d0 up"), 0);
    ibv_free_device_list(ibv_get_device_list(NULL)); /* looks for interfaces */
    unsigned long long before = shown(sent), received = shown("soft_lo/ports/1/counters/port_rcv_data");
    pid_t pid = fork();
    if (pid == 0) {
        struct pair pair;
        alarm(60);
        close(go[1]);
        setup(&pair, IBV_QPT_RC, 14, 7, 7);
        write_and_wait(&pair, 1);
        write_and_wait(&pair, 2);
        must(write(ready[1], "", 1) == 1 && read(go[0], &byte, 1) == 0, __LINE__);
        _exit(0);
    }
    close(go[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_in_range(shown(sent), before + 4, before + 1000); /* two requests and their answers */
    assert_int_equal(shown("soft_lo/ports/1/hw_counters/sent_packets"), shown(sent));
    assert_true(shown("soft_lo/ports/1/counters/port_rcv_data") >= received + 32);
    shown("soft_lo/ports/1/hw_counters/packet_seq_err"); /* is there */
    assert_int_equal(shown("soft_d0/ports/1/counters/port_xmit_packets"), 0);
    close(go[1]);
    assert_int_equal(ended(pid), 0);
    assert_int_equal(shown(sent), before);
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    write_and_wait(&pair, 3);
    unsigned long long own = shown(sent);
    assert_true(own >= before + 2);
    assert_int_equal(own, counter_read(COUNT_sent_packets)); /* once: not also as another process */
    pid = fork();
    if (pid == 0) { /* has done nothing itself */
        must(shown(sent) == own, __LINE__);
        _exit(0);
    }
    assert_int_equal(ended(pid), 0);
    teardown(&pair);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes_differ), cmocka_unit_test(children_are_refused),
                                       cmocka_unit_test(a_child_opens_beside_a_thread_that_does),
                                       cmocka_unit_test(counters_are_those_of_all_processes)};
    pid_t pid = fork(); /* not here: children would inherit */
    if (pid == 0)
        _exit(open_loopback() ? 0 : errno == EPERM ? 77 : 1);
    int status = ended(pid);
    if (status) {
        fprintf(stderr, "process_test: SKIPPED: no device can be opened\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
