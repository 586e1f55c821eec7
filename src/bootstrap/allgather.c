/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allgather by dissemination (Bruck et al., 1997): in step k every rank sends the 2^k blocks that it has to rank + 2^k,
 * so that ceil(log2 n) steps serve any n. Blocks travel in rank order and lie at their final place from the start: a
 * range of them is one or two pieces of memory, and nothing is copied.
 */
#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/state.h"
#include "bootstrap/verdict.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define ABORT_MS      20  /* between two looks at the abort flag; doubles while nothing happens, up to */
#define ABORT_MOST_MS 320 /* thousands of ranks that share few processors would use them up by looking */
#define FLUSH_MS                                                                                                       \
    500 /* time to finish a message that is half sent when the operation fails, so that the reason can follow */

/* One message that is under way: header, first words, and the blocks in one or two pieces. */
struct allgather_transfer {
    int fd;
    uint32_t rank; /* the peer */
    struct boot_header header, expected_header;
    struct boot_data data, expected_data;
    struct iovec pieces[4], *next;
    int left;
    bool checked; /* the header that came is the expected one */
};

enum progress { DONE, NOT_YET, BROKEN /* errno, 0: closed */, OTHER /* another frame than expected */ };

struct bootstrap *bootstrap_new(int rank, int nranks, uint64_t deadline_ns, const bootstrap_stop_t *abort)
{
    struct bootstrap *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->rank = rank;
    b->nranks = nranks;
    b->deadline = deadline_ns;
    b->abort = abort;
    while (1ll << b->steps < nranks)
        b->steps++;
    for (int i = 0; i < BOOT_STEPS_MAX; i++)
        b->out_fd[i] = b->in_fd[i] = -1;
    return b;
}

void bootstrap_close(struct bootstrap *b)
{
    if (!b)
        return;
    for (int i = 0; i < BOOT_STEPS_MAX; i++) {
        if (b->out_fd[i] >= 0)
            close(b->out_fd[i]);
        if (b->in_fd[i] >= 0)
            close(b->in_fd[i]);
    }
    free(b);
}

/* The pieces of `all` that hold blocks first .. first + count - 1, modulo n. */
static struct allgather_transfer aim(const struct bootstrap *b, int step, char *all, size_t size, int first, int count)
{
    int straight = count < b->nranks - first ? count : b->nranks - first;
    return (struct allgather_transfer){
        .expected_header = boot_header_of(BOOT_DATA, sizeof(struct boot_data) + (uint64_t)count * size),
        .expected_data = {b->sequence, (uint32_t)step},
        .pieces = {[2] = {all + (size_t)first * size, (size_t)straight * size},
                   [3] = {all, (size_t)(count - straight) * size}},
        .left = 4,
    };
}

static void arm(struct allgather_transfer *t)
{
    t->header = t->expected_header;
    t->data = t->expected_data;
    t->pieces[0] = (struct iovec){&t->header, sizeof t->header};
    t->pieces[1] = (struct iovec){&t->data, sizeof t->data};
    t->next = t->pieces;
}

/* Forgets `bytes` that were moved, and pieces that are empty. */
static void allgather_advance(struct allgather_transfer *t, size_t bytes)
{
    while (t->left && bytes >= t->next->iov_len) {
        bytes -= t->next->iov_len;
        t->next++;
        t->left--;
    }
    if (t->left) {
        t->next->iov_base = (char *)t->next->iov_base + bytes;
        t->next->iov_len -= bytes;
    }
}

static enum progress send_some(struct bootstrap *b, struct allgather_transfer *t)
{
    while (t->left) {
        struct msghdr message = {.msg_iov = t->next, .msg_iovlen = (size_t)t->left};
        ssize_t sent = sendmsg(t->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? NOT_YET : BROKEN;
        b->counters.bytes_sent += (uint64_t)sent;
        allgather_advance(t, (size_t)sent);
        b->counters.messages_sent += !t->left;
    }
    return DONE;
}

static ssize_t receive(struct allgather_transfer *t, int count)
{
    struct msghdr message = {.msg_iov = t->next, .msg_iovlen = (size_t)count};
    ssize_t got;
    do
        got = recvmsg(t->fd, &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    errno = got == 0 ? 0 : errno;
    return got;
}

/* Takes the header and the first words alone, so that nothing unexpected gets into the user's memory. */
static enum progress receive_some(struct bootstrap *b, struct allgather_transfer *t)
{
    while (t->left) {
        ssize_t got = receive(t, t->checked ? t->left : (int)(&t->pieces[2] - t->next));
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? NOT_YET : BROKEN;
        b->counters.bytes_received += (uint64_t)got;
        allgather_advance(t, (size_t)got);
        if (!t->checked && t->next >= &t->pieces[2]) {
            if (memcmp(&t->header, &t->expected_header, sizeof t->header) != 0 ||
                memcmp(&t->data, &t->expected_data, sizeof t->data) != 0)
                return OTHER;
            t->checked = true;
        }
        b->counters.messages_received += !t->left;
    }
    return DONE;
}

static struct boot_failed blame(enum boot_reason reason, uint32_t rank)
{
    return (struct boot_failed){.reason = reason, .rank = rank};
}

enum boot_reason bootstrap_reason(enum bootstrap_refusal how)
{
    static const enum boot_reason reasons[] = {BOOT_DIED, BOOT_SILENT, BOOT_BROKEN};
    return reasons[how];
}

struct boot_failed bootstrap_stopped(const bootstrap_stop_t *abort, int rank)
{
    uint64_t stop = abort ? atomic_load_explicit(abort, memory_order_relaxed) : 0;
    if (stop <= BOOTSTRAP_ABORT)
        return blame(stop ? BOOT_ABORTED : 0, (uint32_t)rank);
    return blame(bootstrap_reason((enum bootstrap_refusal)((stop >> 32) - 1)), (uint32_t)stop);
}

/* A frame that is not our data: the peer's reason to stop, or a peer that is somewhere else in its program. */
static struct boot_failed read_other(struct allgather_transfer *t)
{
    struct boot_failed failed;
    struct pollfd one = {t->fd, POLLIN, 0};
    size_t have = sizeof t->data;
    if (boot_check_header(&t->header) != BOOT_FINE || t->header.type != BOOT_FAILED)
        return blame(BOOT_MISFIT, t->rank);
    memcpy(&failed, &t->data, have);
    while (have < sizeof failed && poll(&one, 1, FLUSH_MS) > 0) {
        ssize_t got = recv(t->fd, (char *)&failed + have, sizeof failed - have, MSG_DONTWAIT);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have == sizeof failed && boot_check_body(&t->header, &failed) ? failed : blame(BOOT_DIED, t->rank);
}

/* Waits until one of the two can go on, for *look ms at most where an abort may come. False: stop, *why. */
static bool wait_for(const struct bootstrap *b, const struct allgather_transfer *out,
                     const struct allgather_transfer *in, int *look, struct boot_failed *why)
{
    struct pollfd fds[2] = {{out->left ? out->fd : -1, POLLOUT, 0},
                            {in->left || !in->checked ? in->fd : -1, POLLIN, 0}};
    int wait = clock_left_ms(b->deadline), most = b->abort ? *look : 1000;
    *look = *look < ABORT_MOST_MS ? 2 * *look : ABORT_MOST_MS;
    *why = bootstrap_stopped(b->abort, b->rank);
    if (why->reason)
        return false;
    if (!wait)
        *why = blame(BOOT_SILENT, in->left ? in->rank : out->rank);
    else if (poll(fds, 2, wait < most ? wait : most) >= 0 || errno == EINTR)
        return true;
    else
        *why = blame(BOOT_BROKEN, (uint32_t)b->rank);
    return false;
}

/* Both transfers of one step. False: stop, *why. */
static bool allgather_exchange(struct bootstrap *b, struct allgather_transfer *out, struct allgather_transfer *in,
                               struct boot_failed *why)
{
    for (int look = ABORT_MS;;) {
        enum progress sent = send_some(b, out), got = receive_some(b, in);
        if (got == OTHER)
            *why = read_other(in);
        else if (got == BROKEN)
            *why = blame(BOOT_DIED, in->rank);
        else if (sent == BROKEN)
            *why = blame(BOOT_DIED, out->rank);
        else if (sent == DONE && got == DONE)
            return true;
        if (why->reason || !wait_for(b, out, in, &look, why))
            return false;
    }
}

static bool half_sent(const struct allgather_transfer *t)
{
    return t->left && (t->next != t->pieces || t->next->iov_len < sizeof t->header);
}

/* Ends what is half sent, or the peer would take the reason for data. */
static bool allgather_flush(struct bootstrap *b, struct allgather_transfer *t)
{
    uint64_t deadline = clock_deadline_ms(FLUSH_MS);
    struct pollfd one = {t->fd, POLLOUT, 0};
    while (send_some(b, t) == NOT_YET)
        if (clock_passed(deadline) || poll(&one, 1, clock_left_ms(deadline)) < 0)
            return false;
    return !t->left;
}

void bootstrap_tell(struct bootstrap *b, const struct boot_failed *why)
{
    struct {
        struct boot_header header;
        struct boot_failed failed;
    } frame = {boot_header_of(BOOT_FAILED, sizeof *why), *why};
    for (int step = 0; step < b->steps; step++)
        if (b->out_fd[step] >= 0 &&
            send(b->out_fd[step], &frame, sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof frame)
            b->counters.messages_sent++;
}

static tutti_result_t report(const struct bootstrap *b)
{
    bool local = b->failure.reason == BOOT_ABORTED || b->failure.reason == BOOT_BROKEN;
    if (!local || b->failure.rank != (uint32_t)b->rank)
        return verdict_report(&b->failure, b->rank, b->root);
    if (b->failure.reason == BOOT_ABORTED)
        return error_set(TUTTI_REMOTE_ERROR, "the control exchange was aborted on this rank, %d", b->rank);
    return error_set(TUTTI_SYSTEM_ERROR, "the control exchange failed on this rank, %d: poll: %s", b->rank,
                     strerror(errno));
}

int bootstrap_lost(const struct bootstrap *b)
{
    return b && b->broken != TUTTI_SUCCESS && b->failure.reason == BOOT_DIED ? (int)b->failure.rank : -1;
}

static bool one_step(struct bootstrap *b, int step, size_t size, char *all, struct boot_failed *why)
{
    int have = 1 << step, n = b->nranks;
    int count = have < n - have ? have : n - have;
    int from = bootstrap_source(b, step);
    struct allgather_transfer out = aim(b, step, all, size, (b->rank - count + 1 + n) % n, count);
    struct allgather_transfer in = aim(b, step, all, size, (from - count + 1 + n) % n, count);
    out.fd = b->out_fd[step];
    out.rank = (uint32_t)bootstrap_target(b, step);
    in.fd = b->in_fd[step];
    in.rank = (uint32_t)from;
    arm(&out);
    arm(&in);
    if (allgather_exchange(b, &out, &in, why))
        return true;
    b->failure = *why;
    if (half_sent(&out) && !allgather_flush(b, &out))
        shutdown(out.fd, SHUT_WR);
    bootstrap_tell(b, why);
    return false;
}

tutti_result_t bootstrap_allgather(struct bootstrap *b, const void *mine, size_t size, void *all)
{
    struct boot_failed why = {0};
    char *own = (char *)all + (size_t)b->rank * size;
    if (b->broken != TUTTI_SUCCESS)
        return report(b);
    if (size > (size_t)1 << 30)
        return error_set(TUTTI_INVALID_ARGUMENT, "control allgather of %zu bytes a rank: at most 1 GiB", size);
    if (size && mine != own)
        memcpy(own, mine, size);
    for (int step = 0; step < b->steps; step++)
        if (!one_step(b, step, size, all, &why))
            return b->broken = report(b);
    b->sequence++;
    return TUTTI_SUCCESS;
}

tutti_result_t bootstrap_barrier(struct bootstrap *b)
{
    char nothing;
    return bootstrap_allgather(b, NULL, 0, &nothing);
}

void bootstrap_set_deadline(struct bootstrap *b, uint64_t deadline_ns)
{
    b->deadline = deadline_ns;
}

void bootstrap_counters(const struct bootstrap *b, struct bootstrap_counters *out)
{
    *out = b->counters;
}
