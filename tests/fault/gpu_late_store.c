/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_late_store: rank 1 gives up while rank 0's GPU is held in front of what stores straight to rank 1's memory. An
 * abort that succeeds means that nothing is stored any more. It waits for a GPU that goes on soon. Where the GPU stands
 * still the abort fails, and names rank 0 and the memory; what can be taken back is, and then the abort succeeds. And
 * where both give up, rank 0's stream goes on only when its own copies are over: behind them the user may free their
 * memory. Destroying says of puts what an abort says. And an abort waits for the GPU of its own rank, however long what
 * that copies is held up. Needs the stand-in driver, which holds a device's copies and kernels while there is a file.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS     2000000
#define PATTERN   0x5c5c5c5cu
#define STANDS_MS 7000
#define PAGE      4096

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define HAS_FAULTS false /* handlers of signals are the sanitizer's */
#else
#define HAS_FAULTS true
#endif

enum way { BY_COPY, BY_KERNEL, WHERE_IT_LIES, TO_THE_GONE, INTO_A_WINDOW, STAGED, STAGED_IN_A_GRAPH, IN_A_GRAPH };

static const struct scene {
    const char *name;
    enum way way;
    bool soon;  /* the GPU goes on in a second */
    bool fails; /* the abort; of a window, destroying */
    bool stays; /* the memory as it is, although nobody can promise it */
} scenes[] = {
    {"a copy that goes on", BY_COPY, true, false, true},
    {"a copy that stands still", BY_COPY, false, true, false},
    {"a kernel that comes later, and finds no invitation", BY_KERNEL, false, false, true},
    {"a reduction where memory lies, whose kernel comes later", WHERE_IT_LIES, false, true, true},
    {"copies to a rank that has gone", TO_THE_GONE, false, false, false},
    {"a put into a window that is destroyed", INTO_A_WINDOW, false, true, false},
    {"a staged copy that is held up", STAGED, false, false, true},
    {"a staged copy of a graph that is held up", STAGED_IN_A_GRAPH, false, false, true},
    {"a graph's kernel that is held up", IN_A_GRAPH, false, false, true},
};
#define SCENES (int)(sizeof scenes / sizeof *scenes)

static const struct cuda_driver *cu;
static char hold[SCENES][60];

struct rank {
    struct family *family;
    const struct scene *scene;
    int rank;
    tutti_comm_t comm;
    tutti_window_t window;
    CUstream stream;
    uint32_t *in, *out;
};

/* A page that this rank's own GPU comes to. */
static struct {
    char *at;
    _Atomic bool reached, let_go;
} page;

static bool is_staged(const struct scene *scene)
{
    return scene->way == STAGED || scene->way == STAGED_IN_A_GRAPH;
}

static bool is_its_own(const struct scene *scene)
{
    return is_staged(scene) || scene->way == IN_A_GRAPH;
}

static void file_of(const struct rank *me, char *path, size_t size)
{
    snprintf(path, size, "%s.0", hold[me->family->variant]);
}

static void issue(const struct rank *me)
{
    if (me->scene->way == WHERE_IT_LIES)
        OK(tutti_allreduce(me->in, me->out, WORDS, TUTTI_UINT32, TUTTI_SUM, me->comm, (tutti_stream_t)me->stream));
    else if (me->scene->way == INTO_A_WINDOW && me->rank == 0)
        OK(tutti_put(me->in, WORDS, TUTTI_UINT32, 1, me->window, 0, me->comm, (tutti_stream_t)me->stream));
    else if (me->scene->way == INTO_A_WINDOW)
        return;
    else if (me->rank == 0)
        OK(tutti_send(me->in, WORDS, TUTTI_UINT32, 1, me->comm, (tutti_stream_t)me->stream));
    else
        OK(tutti_recv(me->out, WORDS, TUTTI_UINT32, 0, me->comm, (tutti_stream_t)me->stream));
}

static void meet(struct rank *me)
{
    uint64_t times = atomic_fetch_add(&me->family->report[me->rank].rounds, 1) + 1;
    while (atomic_load(&me->family->report[!me->rank].rounds) < times)
        family_nap(1);
}

/* Buffers are mapped, and messages go straight to them. */
static void begin(struct rank *me)
{
    void *memory, *handle;
    DONE(cu->StreamCreateWithPriority(&me->stream, CU_STREAM_NON_BLOCKING, 0));
    OK(tutti_device_mem_alloc(&memory, 2 * WORDS * sizeof(uint32_t)));
    me->in = memory;
    me->out = me->in + WORDS;
    memset(memory, 1, 2 * WORDS * sizeof(uint32_t));
    if (me->scene->way == WHERE_IT_LIES)
        OK(tutti_comm_register_symmetric(me->comm, memory, 2 * WORDS * sizeof(uint32_t), &handle));
    if (me->scene->way == INTO_A_WINDOW)
        OK(tutti_window_register(me->comm, me->out, WORDS * sizeof(uint32_t), &me->window));
    bool maps = me->scene->way != TO_THE_GONE && !is_its_own(me->scene);
    for (int turn = 0; turn < 5 && maps; turn++) {
        issue(me);
        OK(tutti_comm_synchronize(me->comm));
        family_nap(50);
        meet(me);
    }
}

static bool is_untouched(const struct rank *me)
{
    bool right = true;
    for (size_t i = 0; i < WORDS && right; i++)
        right = me->out[i] == PATTERN;
    return right;
}

static void be_held(struct rank *me, const char *path)
{
    close(open(path, O_CREAT | O_WRONLY, 0600));
    meet(me);
    meet(me); /* a receiver's call comes first: its sender copies */
    issue(me);
    meet(me);
    family_nap(me->scene->soon ? 1000 : 0);
    if (me->scene->soon)
        unlink(path);
    meet(me);
    unlink(path);
    tutti_comm_synchronize(me->comm); /* all is stored that ever will be */
    meet(me);
}

static void give_up(struct rank *me)
{
    struct family_report *report = &me->family->report[1];
    meet(me);
    issue(me);
    meet(me);
    meet(me);
    bool destroys = me->scene->way == INTO_A_WINDOW;
    tutti_result_t result = destroys ? tutti_comm_destroy(me->comm) : tutti_comm_abort(me->comm);
    me->comm = destroys ? NULL : me->comm;
    report->result = result;
    snprintf(report->sentence, sizeof report->sentence, "%s",
             result == TUTTI_SUCCESS ? "" : tutti_get_last_error(NULL));
    for (size_t i = 0; i < WORDS; i++)
        me->out[i] = PATTERN;
    meet(me);
    meet(me);
    family_nap(100);
    report->touched = !is_untouched(me);
    char memory[40];
    snprintf(memory, sizeof memory, "from %#llx on", (unsigned long long)(uintptr_t)me->out);
    report->wrong = result != TUTTI_SUCCESS && !strstr(report->sentence, memory);
}

/* ---- A rank's own GPU ---- */

static void stand_still(int number)
{
    (void)number;
    atomic_store(&page.reached, true);
    while (!atomic_load(&page.let_go))
        family_nap(1);
    mprotect(page.at, PAGE, PROT_READ | PROT_WRITE);
}

static void *let_go_later(void *unused)
{
    family_nap(STANDS_MS);
    atomic_store(&page.let_go, true);
    return unused;
}

/* Ends with the process. */
static void issue_in_a_graph(const struct rank *me)
{
    CUgraph graph;
    CUgraphExec exec;
    DONE(cu->StreamBeginCapture(me->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    issue(me);
    DONE(cu->StreamEndCapture(me->stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    DONE(cu->GraphLaunch(exec, me->stream));
}

static void give_up_held_up(struct rank *me)
{
    struct family_report *report = &me->family->report[1];
    const struct sigaction act = {.sa_handler = stand_still};
    pthread_t thread;
    page.at = (char *)(((uintptr_t)me->out + WORDS * sizeof(uint32_t) / 2) & ~(uintptr_t)(PAGE - 1));
    sigaction(SIGSEGV, &act, NULL);
    require(mprotect(page.at, PAGE, PROT_NONE) == 0, "a page that nobody reaches");
    me->scene->way == STAGED ? issue(me) : issue_in_a_graph(me);
    while (!atomic_load(&page.reached))
        family_nap(1);
    pthread_create(&thread, NULL, let_go_later, NULL);
    report->result = tutti_comm_abort(me->comm);
    report->touched = !atomic_load(&page.let_go); /* it will be */
    pthread_join(thread, NULL);
}

/* The peer may have all of it, or hear of the abort. */
static void send_staged(struct rank *me)
{
    issue(me);
    tutti_comm_synchronize(me->comm);
}

/* ---- The scenes ---- */

static void *abort_beside(void *comm)
{
    OK(tutti_comm_abort(comm));
    return NULL;
}

/* Nothing is mapped yet, and no kernel helps: the message goes in pieces. The first wait for nothing but the GPU. */
static void send_to_the_gone(struct rank *me, const char *path)
{
    CUevent behind;
    pthread_t thread;
    DONE(cu->EventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    close(open(path, O_CREAT | O_WRONLY, 0600));
    meet(me);
    issue(me);
    DONE(cu->EventRecord(behind, me->stream));
    meet(me);
    meet(me); /* the peer is gone */
    pthread_create(&thread, NULL, abort_beside, me->comm);
    family_nap(300); /* for whatever an abort lets go */
    me->family->report[0].touched = cu->EventQuery(behind) != CUDA_ERROR_NOT_READY;
    unlink(path);
    pthread_join(thread, NULL);
    DONE(cu->EventSynchronize(behind));
    DONE(cu->EventDestroy(behind));
}

/* The rank never called the receive. */
static void go(struct rank *me)
{
    meet(me);
    meet(me);
    OK(tutti_comm_abort(me->comm));
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    struct rank me = {.family = family, .scene = &scenes[family->variant], .rank = rank, .comm = comm};
    char path[80];
    OK(cuda_driver(&cu));
    file_of(&me, path, sizeof path);
    begin(&me);
    if (me.scene->way == TO_THE_GONE)
        rank == 0 ? send_to_the_gone(&me, path) : go(&me);
    else if (is_its_own(me.scene))
        rank == 0 ? send_staged(&me) : give_up_held_up(&me);
    else if (rank == 0)
        be_held(&me, path);
    else
        give_up(&me);
    OK(tutti_comm_destroy(me.comm));
    if (me.scene->way == TO_THE_GONE && rank == 1)
        meet(&me);
}

static struct family *start(int variant)
{
    snprintf(hold[variant], sizeof hold[variant], "/tmp/gpu_late_store.%d.%d", (int)getpid(), variant);
    setenv("TUTTI_EMULATED_HOLD", hold[variant], 1);
    setenv("TUTTI_TEST_HOSTS", is_staged(&scenes[variant]) ? "2" : "1", 1);
    setenv("TUTTI_CTA_POLICY", scenes[variant].way == TO_THE_GONE ? "zero" : "default", 1);
    setenv("TUTTI_COPY_FROM", scenes[variant].way == BY_COPY || scenes[variant].way == TO_THE_GONE ? "1M" : "0", 1);
    return family_start(2, -1, variant, 1, work);
}

static bool judge(struct family *family)
{
    const struct scene *scene = &scenes[family->variant];
    const struct family_report *report = &family->report[1];
    bool right =
        family_wait(family, 60) && !report->wrong && !(scene->stays && report->touched) && !family->report[0].touched;
    right = right && report->result == (scene->fails ? TUTTI_REMOTE_ERROR : TUTTI_SUCCESS) &&
            (!scene->fails || strstr(report->sentence, "the GPU of rank 0 "));
    if (!right)
        printf("FAILED: %s: %s \"%s\"%s%s\n", scene->name, tutti_get_error_string(report->result), report->sentence,
               report->wrong ? " WRONG MEMORY" : "", report->touched ? " TOUCHED" : "");
    family_free(family);
    return right;
}

int main(void)
{
    struct family *families[SCENES];
    int failures = 0;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
    for (int i = 0; i < SCENES; i++)
        families[i] = HAS_FAULTS || !is_its_own(&scenes[i]) ? start(i) : NULL;
    for (int i = 0; i < SCENES; i++)
        failures += families[i] && !judge(families[i]);
    printf("%d scenes, %d failed\n", SCENES, failures);
    return failures != 0;
}
