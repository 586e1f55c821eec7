/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: stats, info, fault LIST, clear, kill QPN, freeze DEVICE, thaw DEVICE, unplug DEVICE, plug DEVICE,
 * gid-shift N [DEVICE], flush [NAME], rates [LIST]. */
#include "verbs/control.h"
#include "verbs/counters.h"
#include "verbs/device.h"
#include "verbs/dmabuf.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/hand.h"
#include "verbs/mr.h"
#include "verbs/pace.h"
#include "verbs/posted.h"
#include "verbs/qp.h"
#include "verbs/softverbs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct control_text {
    char *out;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void print(struct control_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->out + text->used, text->size - text->used, format, args);
    va_end(args);
    if (n > 0)
        text->used = text->used + (size_t)n < text->size ? text->used + (size_t)n : text->size - 1;
}

int control_bind(int fd, uint32_t slot)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = 1;
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, CONTROL_PREFIX "%u", slot);
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
    return bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n))
               ? errno
               : 0;
}

static int stats(struct control_text *text, char *args)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        print(text, "%s %llu\n", counter_name((enum counter)i), (unsigned long long)counter_read((enum counter)i));
    return 0;
}

static struct rdma_device *find_device(const char *name)
{
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (!strcmp(device->ibv.name, name))
            return device;
    }
    return NULL;
}

/* For gather.c, which asks each slot: a process that has several answers for the first. */
static int device_counts(struct control_text *text, char *args)
{
    struct rdma_device *device = find_device(args);
    print(text, "slot %u\n", engine_slot());
    for (int i = 0; device && i < COUNTER_COUNT; i++) {
        uint64_t value = atomic_load_explicit(&device->counts[i], memory_order_relaxed);
        if (value)
            print(text, "%s %llu\n", counter_name((enum counter)i), (unsigned long long)value);
    }
    return device ? 0 : ENOENT;
}

static void describe(struct qp *qp, void *arg)
{
    static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    print(arg, "qp 0x%06x %s %s peer 0x%06x sport %u psn %u unacked %u window %u epsn %u\n", qp_number(qp),
          qp->context->device->ibv.name, states[qp->state], qp->attr.dest_qp_num, qp->path.source_port, qp->req.psn,
          qp->req.unacked, qp->req.window, qp->resp.psn);
}

static void count_pair(struct qp *qp, void *count)
{
    (void)qp;
    ++*(int *)count;
}

/* Sums first: of thousands of queue pairs not all find room. */
static int info(struct control_text *text, char *args)
{
    int pairs = 0;
    engine_each_qp(count_pair, &pairs);
    print(text, "pid %d slot %u (an emulator: timings say nothing about RDMA hardware)\n", getpid(), engine_slot());
    print(text, "queue pairs %d\nregions %d\nregistered bytes %zu\n", pairs, mr_count(), mr_bytes());
    engine_each_qp(describe, text);
    return 0;
}

static int set_fault(struct control_text *text, char *args)
{
    const char *why = "";
    if (fault_set(args, &why)) {
        if (!fault_posts())
            posted_flush(0);
        return 0;
    }
    print(text, "%s\n", why);
    return EINVAL;
}

static int clear(struct control_text *text, char *args)
{
    fault_clear();
    posted_flush(0);
    return 0;
}

static int flush(struct control_text *text, char *args)
{
    posted_flush(*args ? dmabuf_memory(args) : 0);
    return 0;
}

static void describe_pair(const char *memory, const char *device, uint64_t rate, const uint64_t moved[2], void *arg)
{
    print(arg, "%s@%s %llu bytes/s, read %llu bytes, written %llu bytes\n", memory, device, (unsigned long long)rate,
          (unsigned long long)moved[PACE_OUT_OF_MEMORY], (unsigned long long)moved[PACE_INTO_MEMORY]);
}

static int rates(struct control_text *text, char *args)
{
    if (*args && !pace_set(args)) {
        print(text, "a list like gpu1@mlx5_0=2gbit,host@*=10gbit is wanted\n");
        return EINVAL;
    }
    if (!*args)
        pace_each(describe_pair, text);
    return 0;
}

static int kill_qp(struct control_text *text, char *args)
{
    struct qp *qp = engine_find_qp((uint32_t)strtoul(args, NULL, 0));
    if (!qp)
        return ENOENT;
    qp_fail(qp, IBV_EVENT_QP_FATAL);
    return 0;
}

static int set_frozen(char *args, bool frozen)
{
    struct rdma_device *device = find_device(args);
    if (!device)
        return ENOENT;
    device->frozen = frozen;
    return 0;
}

static int freeze(struct control_text *text, char *args)
{
    return set_frozen(args, true);
}

static int thaw(struct control_text *text, char *args)
{
    return set_frozen(args, false);
}

static int unplug(struct control_text *text, char *args)
{
    struct rdma_device *device = find_device(args);
    if (!device)
        return ENOENT;
    device_unplug(device);
    return 0;
}

static int plug(struct control_text *text, char *args)
{
    struct rdma_device *device = find_device(args);
    return device ? device_plug(device) : ENOENT;
}

static int gid_shift(struct control_text *text, char *args)
{
    char *name;
    int by = (int)strtol(args, &name, 0);
    while (*name == ' ')
        name++;
    struct rdma_device *one = *name ? find_device(name) : NULL;
    if (*name && !one)
        return ENOENT;
    list_each(node, &device_table) if (!one || one == list_entry(node, struct rdma_device, node))
        device_shift(list_entry(node, struct rdma_device, node), by);
    return 0;
}

static pid_t caller; /* whose command is being run: the kernel said so */

static int hand(struct control_text *text, char *args)
{
    return hand_answer(caller, args);
}

static const struct {
    const char *name;
    int (*run)(struct control_text *text, char *args);
} commands[] = {{"stats", stats},  {"info", info},           {"fault", set_fault}, {"clear", clear},
                {"kill", kill_qp}, {"freeze", freeze},       {"thaw", thaw},       {"unplug", unplug},
                {"plug", plug},    {"gid-shift", gid_shift}, {"hand", hand},       {"flush", flush},
                {"rates", rates},  {"counts", device_counts}};

int control_run(const char *command, char *answer, size_t size)
{
    char copy[600];
    struct control_text text = {answer, size, 0};
    if (strlen(command) >= sizeof(copy))
        return E2BIG;
    strcpy(copy, command); /* the answer may go where the command is */
    answer[0] = 0;
    char *args = copy + strcspn(copy, " \n");
    if (*args)
        *args++ = 0;
    args[strcspn(args, "\n")] = 0;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (!strcmp(commands[i].name, copy))
            return commands[i].run(&text, args);
    print(&text, "unknown command; there are: stats, info, fault, clear, kill, freeze, thaw, unplug, plug, gid-shift, "
                 "flush, rates\n");
    return EINVAL;
}

static bool is_trusted(struct msghdr *message, pid_t *pid)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        struct ucred who;
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&who, CMSG_DATA(at), sizeof(who));
        *pid = who.pid;
        return who.uid == 0 || who.uid == geteuid();
    }
    return false;
}

void control_serve(int fd)
{
    char command[512], answer[CONTROL_ANSWER], control[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(8)));
    struct sockaddr_un from;
    struct iovec part = {command, sizeof(command) - 1};
    struct msghdr message = {&from, sizeof(from), &part, 1, control, sizeof(control), 0};
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
    if (n < 0 || !is_trusted(&message, &caller))
        return;
    command[n] = 0;
    int err = control_run(command, answer + 16, sizeof(answer) - 16);
    char head[17];
    snprintf(head, sizeof(head), "%-15d\n", err);
    memcpy(answer, head, 16);
    sendto(fd, answer, 16 + strlen(answer + 16), MSG_DONTWAIT, (struct sockaddr *)&from, message.msg_namelen);
}

__attribute__((visibility("default"))) int softverbs_control(const char *command, char *answer, size_t size)
{
    if (!size)
        return EINVAL;
    engine_lock();
    caller = 0;
    int err = control_run(command, answer, size);
    engine_unlock();
    return err;
}

/* SOFTVERBS_STATS=1: what was counted, on stderr, at the end of the process. */
__attribute__((destructor)) static void report(void)
{
    const char *wish = getenv("SOFTVERBS_STATS");
    if (!wish || *wish != '1')
        return;
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (counter_read((enum counter)i))
            fprintf(stderr, "softverbs %d %s %llu\n", getpid(), counter_name((enum counter)i),
                    (unsigned long long)counter_read((enum counter)i));
}
