/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root: registers each rank's address, waits until all are there, tells each where its peers listen. While it holds
 * a rank's connection it also sees that rank die, and tells the others. More ranks than it may hold connections come
 * and go.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "bootstrap/listener.h"
#include "bootstrap/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TICK      (100 * NS_PER_MS)
#define TELL      (60 * NS_PER_S) /* between words on who is missing */
#define LATER_MIN 250u            /* first pause of a rank that cannot stay connected; doubles with its attempts */
#define LATER_MAX 5000u

struct root_member {
    struct bootstrap_root *root;
    struct poll_source source;
    struct boot_stream stream;
    uint8_t challenge[16], random[16];
    uint32_t rank;
    bool answered;   /* its peers were sent */
    bool last_words; /* close when the kept output is sent */
    _Alignas(8) unsigned char in[sizeof(struct boot_header) + sizeof(struct boot_failed)];
};

struct root_seat {
    struct boot_address address;
    uint64_t token;
    struct root_member *member; /* NULL: not connected */
    bool joined, told;          /* told: has its peers, or the verdict */
};

struct bootstrap_root {
    struct listener listener;
    struct poller *poller;
    struct poll_source timer;
    uint8_t nonce[BOOT_NONCE];
    struct bootstrap_counters counters;
    struct root_seat *seats;
    uint32_t nranks, joined, told, members;
    bool stay;                  /* there is room to hold all connections */
    uint64_t deadline, latest;  /* of the least and most patient rank; 0 before the first */
    uint64_t begun, tell;       /* when the first rank came; when to tell next who is missing */
    struct boot_failed verdict; /* reason 0: none yet */
    _Atomic bool answered, done;
};

static void set_timer(struct bootstrap_root *root, uint64_t every)
{
    struct timespec step = {(time_t)(every / NS_PER_S), (long)(every % NS_PER_S)};
    timerfd_settime(root->timer.fd, 0, &(struct itimerspec){step, step}, NULL);
}

static void member_free(struct root_member *member)
{
    struct bootstrap_root *root = member->root;
    if (root->seats[member->rank].member == member)
        root->seats[member->rank].member = NULL;
    poller_remove(root->poller, &member->source);
    stream_close(&member->stream);
    free(member);
    root->members--;
}

/* Closes everything but the memory, which the owner may still look at. */
static void finish(struct bootstrap_root *root)
{
    if (atomic_load_explicit(&root->done, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < root->nranks; i++)
        if (root->seats[i].member)
            member_free(root->seats[i].member);
    listener_close(&root->listener);
    poller_remove(root->poller, &root->timer);
    close(root->timer.fd);
    atomic_store_explicit(&root->done, true, memory_order_release);
}

static void finish_if_over(struct bootstrap_root *root)
{
    if (root->nranks && root->told == root->nranks && !root->members)
        finish(root);
}

static void mark_told(struct bootstrap_root *root, uint32_t rank)
{
    root->told += !root->seats[rank].told;
    root->seats[rank].told = true;
    atomic_store_explicit(&root->answered, root->told == root->nranks, memory_order_release);
}

/* Sends a sealed frame on a connection whose random numbers are known. */
static bool reply(struct bootstrap_root *root, struct boot_stream *stream, enum boot_type type,
                  const uint8_t server[16], const uint8_t client[16], void *body, size_t size)
{
    boot_seal(root->nonce, type, server, client, body, size);
    return stream_send(stream, type, body, size);
}

static bool member_reply(struct root_member *member, enum boot_type type, void *body, size_t size)
{
    return reply(member->root, &member->stream, type, member->challenge, member->random, body, size);
}

static void close_after_output(struct root_member *member)
{
    if (stream_pending(&member->stream) &&
        poller_change(member->root->poller, &member->source, EPOLLIN | EPOLLOUT) == TUTTI_SUCCESS)
        member->last_words = true;
    else
        member_free(member);
}

static void tell_verdict(struct bootstrap_root *root, struct root_member *member)
{
    struct boot_failed failed = root->verdict;
    mark_told(root, member->rank);
    if (member->last_words || !member_reply(member, BOOT_FAILED, &failed, sizeof failed))
        member_free(member);
    else
        close_after_output(member);
}

/* The first verdict holds: later troubles are its consequences. */
static void fail_all(struct bootstrap_root *root, enum boot_reason reason, uint32_t rank, uint32_t a, uint32_t b)
{
    if (root->verdict.reason)
        return;
    root->verdict = (struct boot_failed){.reason = reason, .rank = rank, .a = a, .b = b};
    if (root->nranks)
        log_info("bootstrap root: joining failed: reason %u, rank %d (%u, %u)", reason, (int)rank, a, b);
    for (uint32_t i = 0; i < root->nranks; i++)
        if (root->seats[i].member)
            tell_verdict(root, root->seats[i].member);
}

static size_t fill_peers(const struct bootstrap_root *root, uint32_t rank, struct boot_peers *out)
{
    *out = (struct boot_peers){.stay = root->stay};
    for (uint64_t distance = 1; distance < root->nranks; distance *= 2)
        out->peer[out->count++] = root->seats[(rank + distance) % root->nranks].address;
    return offsetof(struct boot_peers, peer) + out->count * sizeof out->peer[0];
}

static bool member_send_peers(struct root_member *member)
{
    struct boot_peers peers;
    size_t size = fill_peers(member->root, member->rank, &peers);
    member->answered = true;
    return member_reply(member, BOOT_PEERS, &peers, size) &&
           (!stream_pending(&member->stream) ||
            poller_change(member->root->poller, &member->source, EPOLLIN | EPOLLOUT) == TUTTI_SUCCESS);
}

static void member_lost(struct root_member *member)
{
    struct bootstrap_root *root = member->root;
    uint32_t rank = member->rank;
    mark_told(root, rank);
    member_free(member);
    fail_all(root, BOOT_DIED, rank, 0, 0);
    finish_if_over(root);
}

/* Answers the ranks that had no answer: a rank that dials again, after its connection broke, is the only one. */
static void root_answer_all(struct bootstrap_root *root)
{
    for (uint32_t i = 0; i < root->nranks && !root->verdict.reason; i++) {
        struct root_member *member = root->seats[i].member;
        if (member && !member->answered && !member_send_peers(member))
            member_lost(member);
    }
}

static void member_spoke(struct root_member *member)
{
    struct bootstrap_root *root = member->root;
    uint32_t rank = member->rank;
    const struct boot_failed *failed = stream_body(&member->stream);
    bool ready = stream_header(&member->stream)->type == BOOT_READY;
    if (!ready && stream_header(&member->stream)->type != BOOT_FAILED) {
        member_lost(member);
        return;
    }
    struct boot_failed said = ready ? (struct boot_failed){0} : *failed;
    mark_told(root, rank);
    member_free(member);
    if (!ready)
        fail_all(root, said.reason, said.rank, said.a, said.b);
    finish_if_over(root);
}

static void member_ready(struct poll_source *source, uint32_t events)
{
    struct root_member *member = container_of(source, struct root_member, source);
    struct bootstrap_root *root = member->root;
    if (events & EPOLLOUT) {
        bool sent = stream_flush(&member->stream);
        bool more = sent && stream_pending(&member->stream);
        if (!more && member->last_words) {
            member_free(member);
            finish_if_over(root);
            return;
        }
        if (!sent || (!more && poller_change(root->poller, source, EPOLLIN) != TUTTI_SUCCESS)) {
            member_lost(member);
            return;
        }
    }
    enum stream_state state = stream_read(&member->stream);
    if (state == STREAM_MORE)
        return;
    if (state == STREAM_FRAME)
        member_spoke(member);
    else
        member_lost(member);
}

/* Is this hello from the process that has the seat, or may have it? */
static bool holds_seat(const struct bootstrap_root *root, const struct boot_hello *hello)
{
    return hello->nranks == root->nranks && hello->rank < root->nranks &&
           (!root->seats[hello->rank].joined || root->seats[hello->rank].token == hello->token);
}

/* Answers a connection that is not kept. */
static void answer_and_close(struct bootstrap_root *root, int fd, const struct boot_hello *hello,
                             const uint8_t challenge[16], enum boot_type type, void *body, size_t size)
{
    struct boot_stream stream;
    stream_init(&stream, fd, NULL, 0, &root->counters);
    bool sent = reply(root, &stream, type, challenge, hello->random, body, size) && !stream_pending(&stream);
    if (sent && type != BOOT_LATER && holds_seat(root, hello))
        mark_told(root, hello->rank);
    stream_close(&stream);
}

static void answer_verdict(struct bootstrap_root *root, int fd, const struct boot_hello *hello,
                           const uint8_t challenge[16], struct boot_failed failed)
{
    answer_and_close(root, fd, hello, challenge, BOOT_FAILED, &failed, sizeof failed);
    finish_if_over(root);
}

static void answer_visitor(struct bootstrap_root *root, int fd, const struct boot_hello *hello,
                           const uint8_t challenge[16])
{
    if (root->joined == root->nranks) {
        struct boot_peers peers;
        size_t size = fill_peers(root, hello->rank, &peers);
        answer_and_close(root, fd, hello, challenge, BOOT_PEERS, &peers, size);
        finish_if_over(root);
        return;
    }
    uint32_t wait = LATER_MIN << (hello->attempt < 5 ? hello->attempt : 5);
    struct boot_later later = {.wait_ms = wait < LATER_MAX ? wait : LATER_MAX};
    answer_and_close(root, fd, hello, challenge, BOOT_LATER, &later, sizeof later);
}

static void keep_member(struct bootstrap_root *root, int fd, const struct boot_hello *hello,
                        const uint8_t challenge[16])
{
    struct boot_joined joined;
    struct root_member *member = malloc(sizeof *member);
    if (!member) {
        close(fd);
        fail_all(root, BOOT_BROKEN, hello->rank, 0, 0);
        return;
    }
    *member = (struct root_member){.root = root, .rank = hello->rank, .source = {fd, member_ready}};
    memcpy(member->challenge, challenge, 16);
    memcpy(member->random, hello->random, 16);
    stream_init(&member->stream, fd, member->in, sizeof member->in, &root->counters);
    root->seats[hello->rank].member = member;
    root->members++;
    if (poller_add(root->poller, &member->source, EPOLLIN) != TUTTI_SUCCESS ||
        !member_reply(member, BOOT_JOINED, &joined, sizeof joined))
        member_lost(member);
    else if (root->joined == root->nranks)
        root_answer_all(root);
}

/* Half of the files this process may open, unless TUTTI_BOOTSTRAP_CONNECTIONS says otherwise. */
static uint64_t connections_allowed(void)
{
    struct rlimit files = {.rlim_cur = 1024};
    int64_t wanted = param_int(PARAM_BOOTSTRAP_CONNECTIONS);
    getrlimit(RLIMIT_NOFILE, &files);
    return wanted ? (uint64_t)wanted : files.rlim_cur / 2;
}

static bool root_begin(struct bootstrap_root *root, uint32_t nranks)
{
    root->seats = calloc(nranks, sizeof *root->seats);
    if (!root->seats)
        return false;
    root->nranks = nranks;
    root->begun = clock_ns();
    root->tell = root->begun + (uint64_t)param_int(PARAM_INIT_WARN) * NS_PER_MS;
    root->stay = nranks <= connections_allowed();
    return true;
}

/* Ranks tell how long they will wait. The root gives up a little earlier, so that it can still tell them who is
 * missing. */
static void note_patience(struct bootstrap_root *root, uint32_t timeout_ms)
{
    uint64_t until = clock_ns() + (uint64_t)timeout_ms * NS_PER_MS * 15 / 16;
    uint64_t latest = clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    if (!root->deadline || until < root->deadline)
        root->deadline = until;
    if (latest > root->latest)
        root->latest = latest;
}

/* Sets *failed if this hello cannot be. Some mistakes are everyone's end. */
static bool wrong_hello(struct bootstrap_root *root, const struct boot_hello *hello, struct boot_failed *failed)
{
    *failed = (struct boot_failed){.rank = hello->rank};
    if (hello->rank >= hello->nranks || hello->to != BOOT_TO_ROOT) {
        failed->reason = BOOT_BAD_RANK;
        failed->a = hello->nranks;
        return true;
    }
    if (!root->nranks && !root_begin(root, hello->nranks)) {
        failed->reason = BOOT_BROKEN;
        return true;
    }
    const struct root_seat *seat = hello->rank < root->nranks ? &root->seats[hello->rank] : NULL;
    if (hello->nranks != root->nranks)
        fail_all(root, BOOT_NRANKS, hello->rank, hello->nranks, root->nranks);
    else if (seat->joined && seat->token != hello->token)
        fail_all(root, BOOT_TWICE, hello->rank, 0, 0);
    *failed = root->verdict;
    return failed->reason != 0;
}

static void root_hello(struct listener *listener, int fd, const struct boot_hello *hello, const uint8_t challenge[16])
{
    struct bootstrap_root *root = container_of(listener, struct bootstrap_root, listener);
    struct boot_failed failed;
    if (wrong_hello(root, hello, &failed)) {
        answer_verdict(root, fd, hello, challenge, failed);
        return;
    }
    struct root_seat *seat = &root->seats[hello->rank];
    root->joined += !seat->joined;
    seat->joined = true;
    seat->token = hello->token;
    seat->address = hello->listener;
    note_patience(root, hello->timeout_ms);
    if (seat->member)
        member_free(seat->member);
    if (root->stay)
        keep_member(root, fd, hello, challenge);
    else
        answer_visitor(root, fd, hello, challenge);
}

/* nranks: none. */
static uint32_t first_missing(const struct bootstrap_root *root)
{
    uint32_t rank = 0;
    while (rank < root->nranks && root->seats[rank].joined)
        rank++;
    return rank;
}

static void root_give_up(struct bootstrap_root *root)
{
    uint32_t missing = first_missing(root);
    if (missing < root->nranks)
        fail_all(root, BOOT_MISSING, missing, root->nranks - root->joined, root->nranks);
}

/* "rank 1, 4-7, ..." */
static void missing_text(const struct bootstrap_root *root, char *out, size_t size)
{
    const char *before = "rank ";
    size_t used = 0;
    for (uint32_t rank = 0, end; rank < root->nranks; rank = end + 1) {
        for (end = rank; end < root->nranks && !root->seats[end].joined; end++)
            ;
        if (end == rank)
            continue;
        if (used + 32 > size) {
            snprintf(out + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, end == rank + 1 ? "%s%u" : "%s%u-%u", before, rank, end - 1);
        before = ", ";
    }
}

static void tell_missing(struct bootstrap_root *root, uint64_t now)
{
    char ranks[96];
    if (now < root->tell || root->joined == root->nranks || root->verdict.reason)
        return;
    missing_text(root, ranks, sizeof ranks);
    log_warn("%u of %u ranks have not joined a new communicator after %llu s: %s", root->nranks - root->joined,
             root->nranks, (unsigned long long)((now - root->begun) / NS_PER_S), ranks);
    root->tell = now + TELL;
}

/* Ranks that came are told; the others find that nobody listens any more. */
static void tell_full(struct bootstrap_root *root, uint64_t now)
{
    struct boot_failed failed;
    if (root->verdict.reason || (root->nranks && root->joined == root->nranks) ||
        !listener_full(&root->listener, now, &failed))
        return;
    log_warn("ranks of a new communicator cannot be accepted: %s; this process may open %u files, raise ulimit -n",
             strerror((int)failed.a), failed.b);
    fail_all(root, BOOT_FULL, BOOT_NOBODY, failed.a, failed.b);
    finish(root);
}

static void root_tick(struct poll_source *source, uint32_t events)
{
    struct bootstrap_root *root = container_of(source, struct bootstrap_root, timer);
    uint64_t now = clock_ns(), ticks;
    ssize_t ignored = read(source->fd, &ticks, sizeof ticks);
    (void)ignored;
    listener_tick(&root->listener, now);
    tell_full(root, now);
    if (!root->deadline || bootstrap_root_done(root))
        return;
    tell_missing(root, now);
    if (now >= root->deadline)
        root_give_up(root);
    if (now >= root->latest)
        finish(root);
    else
        finish_if_over(root);
}

static tutti_result_t open_at(struct poller *poller, struct net_address *at, const uint8_t nonce[BOOT_NONCE],
                              struct bootstrap_root **out)
{
    struct bootstrap_root *root = calloc(1, sizeof *root);
    if (!root)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for the bootstrap root");
    root->poller = poller;
    memcpy(root->nonce, nonce, BOOT_NONCE);
    root->timer = (struct poll_source){timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), root_tick};
    tutti_result_t result = root->timer.fd < 0
                                ? error_set(TUTTI_SYSTEM_ERROR, "cannot make a timer: %s", strerror(errno))
                                : poller_add(poller, &root->timer, EPOLLIN);
    if (result == TUTTI_SUCCESS) {
        result = listener_open(&root->listener, poller, at, root->nonce, root_hello, &root->counters);
        if (result != TUTTI_SUCCESS)
            poller_remove(poller, &root->timer);
    }
    if (result != TUTTI_SUCCESS) {
        if (root->timer.fd >= 0)
            close(root->timer.fd);
        free(root);
        return result;
    }
    set_timer(root, TICK);
    *out = root;
    return TUTTI_SUCCESS;
}

tutti_result_t bootstrap_root_open(struct poller *poller, const tutti_unique_id_t *id, tutti_unique_id_t *out_id,
                                   struct bootstrap_root **out)
{
    struct net_interface interface;
    uint8_t nonce[BOOT_NONCE];
    int count;
    tutti_result_t result = id ? boot_id_get(id, &interface.address, nonce) : net_interfaces(&interface, 1, &count);
    if (result == TUTTI_SUCCESS && !id)
        result = random_bytes(nonce, sizeof nonce);
    if (result == TUTTI_SUCCESS)
        result = open_at(poller, &interface.address, nonce, out);
    if (result == TUTTI_SUCCESS && out_id)
        boot_id_put(out_id, &interface.address, nonce);
    if (result == TUTTI_SUCCESS && out_id && !id)
        boot_id_set_listening(out_id);
    return result;
}

tutti_result_t bootstrap_root_open_anywhere(struct poller *poller, const tutti_unique_id_t *id,
                                            struct bootstrap_root **out)
{
    struct net_address at, all = {0};
    uint8_t nonce[BOOT_NONCE];
    tutti_result_t result = boot_id_get(id, &at, nonce);
    if (result != TUTTI_SUCCESS)
        return result;
    all.any.sa_family = at.any.sa_family;
    net_set_port(&all, net_port(&at));
    return open_at(poller, &all, nonce, out);
}

bool bootstrap_root_done(const struct bootstrap_root *root)
{
    return atomic_load_explicit(&root->done, memory_order_acquire);
}

bool bootstrap_root_answered(const struct bootstrap_root *root)
{
    return atomic_load_explicit(&root->answered, memory_order_acquire);
}

void bootstrap_root_refuse(struct bootstrap_root *root, enum bootstrap_refusal how, int rank, int nranks, int members)
{
    uint64_t latest = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_TIMEOUT));
    if (bootstrap_root_done(root) || root->verdict.reason)
        return;
    if (!root->nranks && !root_begin(root, (uint32_t)nranks)) {
        finish(root); /* a rank that comes finds nobody, and says where */
        return;
    }
    root->deadline = root->latest = latest;
    for (uint32_t i = 0; i < (uint32_t)members && i < root->nranks; i++)
        mark_told(root, i);
    fail_all(root, bootstrap_reason(how), (uint32_t)rank, 0, 0);
    finish_if_over(root);
}

void bootstrap_root_close(struct bootstrap_root *root)
{
    if (!root)
        return;
    if (!bootstrap_root_answered(root))
        fail_all(root, BOOT_CLOSED, BOOT_NOBODY, 0, 0);
    finish(root);
    free(root->seats);
    free(root);
}
