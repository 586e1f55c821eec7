/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining: one thread works in one private poller until every connection stands. It runs the dial to the root, the
 * dials to the peers, and the listener for the peers that dial this rank.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "bootstrap/dial.h"
#include "bootstrap/listener.h"
#include "bootstrap/state.h"
#include "bootstrap/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL          (60 * NS_PER_S) /* between words on who is awaited */
#define GONE          (2 * NS_PER_S)  /* a root that listened once and then refuses for this time is gone */
#define ABORT_MS      50              /* between two looks at the abort flag; doubles while nothing happens, up to */
#define ABORT_MOST_MS 400             /* as in allgather.c */

struct join {
    struct bootstrap *bootstrap;
    struct poller *poller;
    struct listener listener;
    struct net_address root, here;
    uint8_t nonce[BOOT_NONCE];
    uint64_t token, deadline;
    uint64_t begun, tell; /* when to tell next who is awaited */
    const bootstrap_stop_t *abort;
    struct dial to_root, to_peer[BOOT_STEPS_MAX];
    uint64_t full_since; /* this process can open no file since then; 0: it can */
    bool have_peers, stay;
    bool opened;                /* the root listened before the id was made */
    bool told;                  /* the root knows of the failure, or told us */
    tutti_result_t result;      /* of a handler */
    struct boot_failed failure; /* what others are told of it; reason 0: this rank failed */
};

static void join_fail(struct join *join, tutti_result_t result)
{
    if (join->result == TUTTI_SUCCESS)
        join->result = result;
}

/* Where peers reach this rank: the wished interface, else the one that leads to the root. */
static tutti_result_t choose_address(const struct join *join, int fd, struct net_address *out)
{
    struct net_interface found[16];
    int count = 0;
    bool local = net_local(fd, out);
    /* A root that others know by another name than ours is reached over loopback by its own host only. */
    if (local && !*param_string(PARAM_SOCKET_IFNAME) && (!net_is_loopback(out) || net_is_loopback(&join->root))) {
        net_set_port(out, 0);
        return TUTTI_SUCCESS;
    }
    tutti_result_t result = net_interfaces(found, 16, &count);
    if (result != TUTTI_SUCCESS)
        return result;
    *out = found[0].address;
    for (int i = count; i-- > 0;)
        if (found[i].address.any.sa_family == join->root.any.sa_family)
            *out = found[i].address;
    return TUTTI_SUCCESS;
}

static void peer_hello(struct listener *listener, int fd, const struct boot_hello *hello, const uint8_t challenge[16])
{
    struct join *join = container_of(listener, struct join, listener);
    struct bootstrap *b = join->bootstrap;
    struct boot_stream stream;
    struct boot_welcome welcome = {.rank = (uint32_t)b->rank};
    bool fits = hello->to == (uint32_t)b->rank && hello->nranks == (uint32_t)b->nranks &&
                hello->step < (uint32_t)b->steps && hello->rank == (uint32_t)bootstrap_source(b, (int)hello->step);
    stream_init(&stream, fd, NULL, 0, &b->counters);
    boot_seal(join->nonce, BOOT_WELCOME, challenge, hello->random, &welcome, sizeof welcome);
    /* A fresh socket takes these few bytes at once. If not, the peer dials again. */
    if (!fits || !stream_send(&stream, BOOT_WELCOME, &welcome, sizeof welcome) || stream_pending(&stream)) {
        stream_close(&stream);
        return;
    }
    if (b->in_fd[hello->step] >= 0)
        close(b->in_fd[hello->step]);
    b->in_fd[hello->step] = stream_release(&stream);
}

static tutti_result_t bootstrap_join_root_hello(struct dial *dial, struct boot_hello *hello)
{
    struct join *join = dial->owner;
    uint64_t left = (uint64_t)clock_left_ms(join->deadline);
    hello->timeout_ms = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
    if (!join->listener.open) {
        tutti_result_t result = choose_address(join, dial->source.fd, &join->here);
        if (result == TUTTI_SUCCESS)
            result = listener_open(&join->listener, join->poller, &join->here, join->nonce, peer_hello,
                                   &join->bootstrap->counters);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    boot_address_put(&hello->listener, &join->here);
    return TUTTI_SUCCESS;
}

static void bootstrap_join_peer_lost(struct dial *dial)
{
    dial->counters->retries++;
    dial_again(dial, 1000);
}

static void peer_reply(struct dial *dial, enum boot_type type, const void *body, bool proven)
{
    struct join *join = dial->owner;
    struct bootstrap *b = join->bootstrap;
    const struct boot_welcome *welcome = body;
    /* Something else has that port now, or the peer knows better: the root will say what became of the peer. */
    if (type != BOOT_WELCOME || !proven || welcome->rank != dial->hello.to) {
        dial->failures++;
        bootstrap_join_peer_lost(dial);
        return;
    }
    b->out_fd[dial->hello.step] = dial_take(dial);
}

static const struct dial_calls peer_calls = {NULL, peer_reply, bootstrap_join_peer_lost};

static struct dial new_dial(struct join *join, const struct dial_calls *calls)
{
    struct bootstrap *b = join->bootstrap;
    return (struct dial){.poller = join->poller,
                         .calls = calls,
                         .owner = join,
                         .nonce = join->nonce,
                         .counters = &b->counters,
                         .hello = {.token = join->token, .rank = (uint32_t)b->rank, .nranks = (uint32_t)b->nranks}};
}

static void meet_peers(struct join *join, const struct boot_peers *peers)
{
    struct bootstrap *b = join->bootstrap;
    if (join->have_peers || peers->count != (uint32_t)b->steps) {
        join_fail(join, error_set(TUTTI_INTERNAL_ERROR, "the root named %u peers, not %d", peers->count, b->steps));
        return;
    }
    for (int step = 0; step < b->steps; step++) {
        struct dial *dial = &join->to_peer[step];
        *dial = new_dial(join, &peer_calls);
        boot_address_get(&peers->peer[step], &dial->to);
        dial->hello.to = (uint32_t)bootstrap_target(b, step);
        dial->hello.step = (uint32_t)step;
        boot_address_put(&dial->hello.listener, &join->here);
    }
    join->have_peers = true;
    join->stay = peers->stay;
    if (!peers->stay)
        dial_stop(&join->to_root);
}

static void root_failed(struct join *join, const struct boot_failed *failed, bool proven)
{
    struct boot_failed unproven = {.reason = failed->reason == BOOT_BAD_VERSION ? BOOT_BAD_VERSION : BOOT_BAD_PROOF,
                                   .a = failed->a};
    join->told = true;
    if (proven)
        join->failure = *failed;
    join_fail(join, verdict_report(proven ? failed : &unproven, join->bootstrap->rank, join->bootstrap->root));
}

static void root_reply(struct dial *dial, enum boot_type type, const void *body, bool proven)
{
    struct join *join = dial->owner;
    const struct boot_later *later = body;
    char text[NET_TEXT];
    if (type == BOOT_FAILED) {
        root_failed(join, body, proven);
    } else if (!proven) {
        join_fail(join, error_set(TUTTI_INVALID_USAGE,
                                  "what answers at %s is not our root, for it does not know the nonce: another "
                                  "program or job has that port",
                                  net_format(&dial->to, text)));
    } else if (type == BOOT_PEERS) {
        meet_peers(join, body);
    } else if (type == BOOT_LATER) {
        dial->failures++;
        dial_again(dial, later->wait_ms < 60000 ? later->wait_ms : 60000);
    }
}

static void root_lost(struct dial *dial)
{
    struct join *join = dial->owner;
    dial_stop(dial);
    join->told = true;
    join->failure = (struct boot_failed){.reason = BOOT_CLOSED, .rank = BOOT_NOBODY};
    join_fail(join, verdict_report(&join->failure, join->bootstrap->rank, join->bootstrap->root));
}

static const struct dial_calls root_calls = {bootstrap_join_root_hello, root_reply, root_lost};

static bool bootstrap_join_complete(const struct join *join)
{
    if (!join->have_peers)
        return false;
    for (int step = 0; step < join->bootstrap->steps; step++)
        if (join->bootstrap->out_fd[step] < 0 || join->bootstrap->in_fd[step] < 0)
            return false;
    return true;
}

/* Runs what is due and returns when something is due next. */
static uint64_t bootstrap_join_tick(struct join *join)
{
    uint64_t now = clock_ns(), due = join->deadline;
    int dials = join->have_peers ? join->bootstrap->steps : 0;
    if (join->listener.open)
        listener_tick(&join->listener, now);
    for (int i = -1; i < dials; i++) {
        struct dial *dial = i < 0 ? &join->to_root : &join->to_peer[i];
        dial_tick(dial, now);
        join_fail(join, dial->result);
        due = dial_due(dial) < due ? dial_due(dial) : due;
    }
    return due;
}

static const char *why(const struct dial *dial)
{
    return dial->state == DIAL_ASKED ? "no answer"
           : dial->error             ? strerror(dial->error)
           : dial->failures          ? "it hung up"
                                     : "no answer";
}

#define WORDS 600

/* Of an address that nobody wrote down. */
static const char *origin(const struct join *join)
{
    uint16_t port = net_port(&join->root);
    bool derived =
        !join->opened && !*param_string(PARAM_ID) && port >= NET_PORT_FIRST && port < NET_PORT_FIRST + NET_PORT_COUNT;
    return derived
               ? "; the port is made of what the launcher told all ranks, MASTER_ADDR and MASTER_PORT for one: both "
                 "must be the same on all, and TUTTI_ID=host:port names another place"
               : "";
}

/* What has not happened yet? */
static void bootstrap_join_awaited(const struct join *join, char out[WORDS])
{
    const struct bootstrap *b = join->bootstrap;
    char text[NET_TEXT];
    net_format(&join->root, text);
    if (!join->have_peers && join->to_root.answered) {
        snprintf(out, WORDS, "rank %d joined at %s, but not all of the %d ranks came; see whether the others run",
                 b->rank, text, b->nranks);
        return;
    }
    if (!join->have_peers) {
        snprintf(out, WORDS,
                 "rank %d of %d cannot reach the root at %s (%s, %u attempts); see whether the process that made the "
                 "unique id "
                 "(often rank 0) runs, no firewall is between, and the id is new%s",
                 b->rank, b->nranks, text, why(&join->to_root), join->to_root.failures + 1, origin(join));
        return;
    }
    for (int step = 0; step < b->steps; step++)
        if (b->out_fd[step] < 0) {
            snprintf(out, WORDS,
                     "rank %d cannot reach rank %d at %s (%s); see whether that rank runs, and no firewall is between",
                     b->rank, bootstrap_target(b, step), net_format(&join->to_peer[step].to, text),
                     why(&join->to_peer[step]));
            return;
        }
    for (int step = 0; step < b->steps; step++)
        if (b->in_fd[step] < 0) {
            snprintf(out, WORDS, "rank %d did not connect to rank %d; see whether it runs, and no firewall is between",
                     bootstrap_source(b, step), b->rank);
            return;
        }
    snprintf(out, WORDS, "rank %d did not join", b->rank);
}

static tutti_result_t late(const struct join *join)
{
    char words[WORDS];
    bootstrap_join_awaited(join, words);
    return error_set(TUTTI_REMOTE_ERROR, "%s; the deadline has passed (TUTTI_INIT_TIMEOUT)", words);
}

/* The root says which ranks have not come to it, once for all ranks. */
static void tell_awaited(struct join *join, uint64_t now)
{
    char words[WORDS];
    if (now < join->tell)
        return;
    join->tell = now + TELL;
    bootstrap_join_awaited(join, words);
    bool at_root = !join->have_peers && join->to_root.answered;
    log_at(at_root ? LOG_INFO : LOG_WARN,
           "a new communicator is not complete after %llu s; this rank waits %llu s more (TUTTI_INIT_TIMEOUT): %s",
           (unsigned long long)((now - join->begun) / NS_PER_S),
           (unsigned long long)((uint64_t)clock_left_ms(join->deadline) / 1000), words);
}

/* The root may be in this process, whose files are the root's, too: then nobody else can tell. */
static bool out_of_files(struct join *join, uint64_t now)
{
    int fd = fcntl(join->to_root.source.fd, F_DUPFD_CLOEXEC, 0);
    bool full = fd < 0 && errno == EMFILE;
    if (fd >= 0)
        close(fd);
    if (!full)
        join->full_since = 0;
    else if (!join->full_since)
        join->full_since = now;
    return full && now >= join->full_since + GONE;
}

/* What waiting does not mend. */
static tutti_result_t bootstrap_join_hopeless(struct join *join, uint64_t now)
{
    char text[NET_TEXT];
    struct boot_failed failed;
    if (listener_full(&join->listener, now, &failed)) {
        failed.rank = (uint32_t)join->bootstrap->rank;
        return verdict_report(&failed, join->bootstrap->rank, net_format(&join->here, text));
    }
    if (!join->have_peers && !join->to_root.answered && out_of_files(join, now))
        return error_set(TUTTI_SYSTEM_ERROR,
                         "rank %d cannot meet others at %s: all files that the process may open are open (%ld); raise "
                         "ulimit -n",
                         join->bootstrap->rank, net_format(&join->root, text), sysconf(_SC_OPEN_MAX));
    if (!join->have_peers && join->opened && join->to_root.refused && now >= join->to_root.refused + GONE)
        return error_set(
            TUTTI_REMOTE_ERROR,
            "rank %d found nobody at %s, where the unique id's root listened: the id has been used already "
            "(each communicator needs a new one); or the process that made the id (often rank 0) ended, aborted the "
            "communicator or ran out of files",
            join->bootstrap->rank, join->bootstrap->root);
    return TUTTI_SUCCESS;
}

static tutti_result_t bootstrap_join_run(struct join *join)
{
    int look = ABORT_MS;
    while (!bootstrap_join_complete(join)) {
        uint64_t due = bootstrap_join_tick(join);
        if (join->result != TUTTI_SUCCESS)
            return join->result;
        if (bootstrap_stopped(join->abort, join->bootstrap->rank).reason)
            return error_set(TUTTI_REMOTE_ERROR, "joining was aborted on rank %d", join->bootstrap->rank);
        if (clock_passed(join->deadline))
            return late(join);
        uint64_t now = clock_ns();
        tutti_result_t result = bootstrap_join_hopeless(join, now);
        if (result != TUTTI_SUCCESS)
            return result;
        tell_awaited(join, now);
        due = join->tell < due ? join->tell : due;
        int wait = clock_left_ms(due), most = listener_busy(&join->listener) ? ABORT_MS : join->abort ? look : 1000;
        look = poller_wait(join->poller, wait < most ? wait : most) ? ABORT_MS : 2 * look;
        look = look < ABORT_MOST_MS ? look : ABORT_MOST_MS;
    }
    return join->result;
}

static struct boot_failed failure_of(const struct join *join)
{
    struct boot_failed stopped = bootstrap_stopped(join->abort, join->bootstrap->rank);
    if (join->failure.reason || stopped.reason)
        return join->failure.reason ? join->failure : stopped;
    return (struct boot_failed){.reason = BOOT_BROKEN, .rank = (uint32_t)join->bootstrap->rank};
}

/* Peers may have joined and wait for this rank, also those whose welcome is still on its way. */
static void tell_peers(struct join *join, struct boot_failed *failed)
{
    bootstrap_tell(join->bootstrap, failed);
    for (int step = 0; join->have_peers && step < join->bootstrap->steps; step++)
        if (join->to_peer[step].state == DIAL_ASKED)
            stream_send(&join->to_peer[step].stream, BOOT_FAILED, failed, sizeof *failed);
}

/* The last frame to a root that keeps our connection: all is well, or it is not. */
static void take_leave(struct join *join, tutti_result_t result)
{
    struct boot_failed failed = failure_of(join);
    if (result != TUTTI_SUCCESS)
        tell_peers(join, &failed);
    if (join->to_root.state != DIAL_ASKED || join->told)
        return;
    if (result == TUTTI_SUCCESS)
        stream_send(&join->to_root.stream, BOOT_READY, NULL, 0);
    else
        stream_send(&join->to_root.stream, BOOT_FAILED, &failed, sizeof failed);
}

static void join_close(struct join *join)
{
    dial_stop(&join->to_root);
    for (int step = 0; step < join->bootstrap->steps && join->have_peers; step++)
        dial_stop(&join->to_peer[step]);
    listener_close(&join->listener);
    poller_close(join->poller);
}

static void join_write_root(struct join *join, int opener)
{
    char address[NET_TEXT], who[32] = "";
    if (opener >= 0)
        snprintf(who, sizeof who, " (opened by rank %d)", opener);
    snprintf(join->bootstrap->root, sizeof join->bootstrap->root, "%s%s", net_format(&join->root, address), who);
}

static tutti_result_t join_open(struct join *join, const tutti_unique_id_t *id)
{
    tutti_result_t result = boot_id_get(id, &join->root, join->nonce);
    if (result == TUTTI_SUCCESS)
        result = random_bytes(&join->token, sizeof join->token);
    if (result == TUTTI_SUCCESS)
        result = poller_open(&join->poller);
    join_write_root(join, boot_id_opener(id));
    join->to_root = new_dial(join, &root_calls);
    join->to_root.to = join->root;
    join->to_root.hello.to = BOOT_TO_ROOT;
    return result;
}

tutti_result_t bootstrap_join(const tutti_unique_id_t *id, int rank, int nranks, uint64_t deadline_ns,
                              const bootstrap_stop_t *abort, struct bootstrap **out)
{
    if (nranks < 1 || nranks > BOOT_RANKS_MAX || rank < 0 || rank >= nranks)
        return error_set(TUTTI_INVALID_ARGUMENT, "rank %d of %d ranks: want 0 <= rank < ranks <= %d", rank, nranks,
                         BOOT_RANKS_MAX);
    struct join *join = calloc(1, sizeof *join);
    struct bootstrap *b = join ? bootstrap_new(rank, nranks, deadline_ns, abort) : NULL;
    if (!b) {
        free(join);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory to join");
    }
    join->bootstrap = b;
    join->deadline = deadline_ns;
    join->begun = clock_ns();
    join->tell = join->begun + (uint64_t)param_int(PARAM_INIT_WARN) * NS_PER_MS;
    join->opened = boot_id_listening(id);
    join->abort = abort;
    tutti_result_t result = join_open(join, id);
    if (result == TUTTI_SUCCESS)
        result = bootstrap_join_run(join);
    take_leave(join, result);
    join_close(join);
    free(join);
    if (result == TUTTI_SUCCESS)
        *out = b;
    else
        bootstrap_close(b);
    return result;
}
