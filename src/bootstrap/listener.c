/* SPDX-License-Identifier: Apache-2.0 */
/* Accept, challenge, check the proof. */
#include "bootstrap/listener.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define NEWCOMERS  1024           /* connections without a proof at most; each holds a descriptor and 300 bytes */
#define PROOF_TIME (5 * NS_PER_S) /* for a real rank this is one round trip */
#define GRACE                                                                                                          \
    (1 * NS_PER_S)                 /* of that, before newer ones may take its place: of thousands of ranks on few      \
                                      processors the oldest is a real one that has not had its turn */
#define FULL_TIME   (2 * NS_PER_S) /* for a program that closes files again */
#define ACCEPT_MORE 64             /* accepted at once, so that those that wait for an answer are not starved */

struct newcomer {
    struct list node;
    struct poll_source source;
    struct boot_stream stream;
    struct listener *listener;
    uint64_t deadline;
    uint8_t challenge[16];
    _Alignas(8) unsigned char in[sizeof(struct boot_header) + sizeof(struct boot_hello)];
};

static struct newcomer *newcomer_of(struct poll_source *source)
{
    return container_of(source, struct newcomer, source);
}

/* Leaves callers in the listen queue until the next tick, or until a place is free. */
static void pause_listening(struct listener *listener)
{
    poller_remove(listener->poller, &listener->source);
    listener->paused = true;
}

static void go_on_listening(struct listener *listener)
{
    if (listener->paused && poller_add(listener->poller, &listener->source, EPOLLIN) == TUTTI_SUCCESS)
        listener->paused = false;
}

/* Takes the newcomer apart; its descriptor remains. */
static int listener_forget(struct newcomer *newcomer)
{
    poller_remove(newcomer->listener->poller, &newcomer->source);
    list_remove(&newcomer->node);
    newcomer->listener->waiting_count--;
    int fd = stream_release(&newcomer->stream);
    free(newcomer);
    return fd;
}

static void listener_drop(struct newcomer *newcomer, const char *why)
{
    struct listener *listener = newcomer->listener;
    log_info("bootstrap: dropped a connection: %s", why);
    listener->counters->strangers++;
    struct boot_stream last;
    stream_init(&last, listener_forget(newcomer), NULL, 0, listener->counters);
    stream_close(&last);
}

static void listener_refuse(struct newcomer *newcomer, enum boot_reason reason, const char *why)
{
    struct boot_failed failed = {.reason = reason, .rank = BOOT_NOBODY, .a = BOOT_VERSION};
    stream_send(&newcomer->stream, BOOT_FAILED, &failed, sizeof failed);
    listener_drop(newcomer, why);
}

static void check_hello(struct newcomer *newcomer)
{
    struct listener *listener = newcomer->listener;
    struct boot_hello hello;
    uint8_t challenge[16];
    if (stream_header(&newcomer->stream)->type != BOOT_HELLO) {
        listener_drop(newcomer, "its first frame was no hello");
        return;
    }
    memcpy(&hello, stream_body(&newcomer->stream), sizeof hello);
    memcpy(challenge, newcomer->challenge, sizeof challenge);
    if (!boot_proven(listener->nonce, BOOT_HELLO, challenge, hello.random, &hello, sizeof hello)) {
        listener_refuse(newcomer, BOOT_BAD_PROOF, "it does not know the nonce");
        return;
    }
    listener->counters->accepted++;
    int fd = listener_forget(newcomer);
    if (!listener->full_since)
        go_on_listening(listener);
    listener->hello(listener, fd, &hello, challenge);
}

static void newcomer_ready(struct poll_source *source, uint32_t events)
{
    struct newcomer *newcomer = newcomer_of(source);
    switch (stream_read(&newcomer->stream)) {
    case STREAM_MORE:
        break;
    case STREAM_FRAME:
        check_hello(newcomer);
        break;
    case STREAM_OTHER_ORDER:
        listener_drop(newcomer, "it runs on a machine with the other byte order");
        break;
    case STREAM_OTHER_VERSION:
        listener_refuse(newcomer, BOOT_BAD_VERSION, "it speaks another version of the protocol");
        break;
    case STREAM_ENDED:
        listener_drop(newcomer, "it hung up");
        break;
    default:
        listener_drop(newcomer, "it does not speak our protocol");
    }
}

static struct newcomer *oldest(struct listener *listener)
{
    return list_empty(&listener->waiting) ? NULL : list_entry(listener->waiting.next, struct newcomer, node);
}

/* False if there is no memory; the descriptor is closed then. */
static bool listener_welcome(struct listener *listener, int fd)
{
    struct boot_challenge challenge;
    struct newcomer *newcomer = malloc(sizeof *newcomer);
    if (!newcomer || random_bytes(challenge.random, sizeof challenge.random) != TUTTI_SUCCESS) {
        free(newcomer);
        close(fd);
        return false;
    }
    *newcomer =
        (struct newcomer){.listener = listener, .deadline = clock_ns() + PROOF_TIME, .source = {fd, newcomer_ready}};
    memcpy(newcomer->challenge, challenge.random, sizeof challenge.random);
    stream_init(&newcomer->stream, fd, newcomer->in, sizeof newcomer->in, listener->counters);
    list_push(&listener->waiting, &newcomer->node);
    listener->waiting_count++;
    if (poller_add(listener->poller, &newcomer->source, EPOLLIN) != TUTTI_SUCCESS ||
        !stream_send(&newcomer->stream, BOOT_CHALLENGE, &challenge, sizeof challenge))
        listener_drop(newcomer, "it broke");
    return true;
}

/* No descriptors or memory: make room if a newcomer holds some, else leave callers in the listen queue until the next
 * tick. */
static void relieve(struct listener *listener, int error)
{
    struct newcomer *victim = oldest(listener);
    listener->full_error = error;
    if (!listener->full_since)
        listener->full_since = clock_ns();
    if (victim) {
        listener_drop(victim, "too many open files or no memory");
        return;
    }
    pause_listening(listener);
}

static bool exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static bool listener_crowded(const struct listener *listener)
{
    return listener->waiting_count >= listener->room;
}

static void listener_ready(struct poll_source *source, uint32_t events)
{
    struct listener *listener = container_of(source, struct listener, source);
    for (int i = 0; i < ACCEPT_MORE; i++) {
        if (listener_crowded(listener) && clock_ns() < oldest(listener)->deadline - PROOF_TIME + GRACE) {
            pause_listening(listener);
            return;
        }
        int fd = net_accept(source->fd);
        if (fd < 0 && exhausted(errno))
            relieve(listener, errno);
        else if (fd < 0)
            listener->full_since = 0; /* all callers are in */
        if (fd < 0)
            return;
        if (listener_crowded(listener))
            listener_drop(oldest(listener), "newer ones came before it proved anything");
        if (!listener_welcome(listener, fd)) {
            relieve(listener, ENOMEM);
            return;
        }
    }
}

bool listener_full(const struct listener *listener, uint64_t now, struct boot_failed *failed)
{
    struct rlimit files = {0};
    if (!listener->open || !listener->full_since || now < listener->full_since + FULL_TIME)
        return false;
    getrlimit(RLIMIT_NOFILE, &files);
    *failed = (struct boot_failed){.reason = BOOT_FULL,
                                   .a = (uint32_t)listener->full_error,
                                   .b = files.rlim_cur < UINT32_MAX ? (uint32_t)files.rlim_cur : UINT32_MAX};
    return true;
}

/* Strangers may hold an eighth of the files that this process may open. */
static int room_for_newcomers(void)
{
    struct rlimit files = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &files);
    uint64_t share = files.rlim_cur / 8;
    return share > NEWCOMERS ? NEWCOMERS : share < 8 ? 8 : (int)share;
}

tutti_result_t listener_open(struct listener *listener, struct poller *poller, struct net_address *at,
                             const uint8_t *nonce, listener_hello_fn hello, struct bootstrap_counters *counters)
{
    *listener = (struct listener){.source = {-1, listener_ready},
                                  .poller = poller,
                                  .nonce = nonce,
                                  .hello = hello,
                                  .counters = counters,
                                  .room = room_for_newcomers()};
    list_init(&listener->waiting);
    tutti_result_t result = net_listen(at, (int)param_int(PARAM_BOOTSTRAP_BACKLOG), &listener->source.fd);
    if (result != TUTTI_SUCCESS)
        return result;
    result = poller_add(poller, &listener->source, EPOLLIN);
    if (result != TUTTI_SUCCESS) {
        close(listener->source.fd);
        return result;
    }
    listener->open = true;
    return TUTTI_SUCCESS;
}

void listener_close(struct listener *listener)
{
    if (!listener->open)
        return;
    while (oldest(listener))
        close(listener_forget(oldest(listener)));
    if (!listener->paused)
        poller_remove(listener->poller, &listener->source);
    close(listener->source.fd);
    listener->open = listener->paused = false;
}

void listener_tick(struct listener *listener, uint64_t now)
{
    while (oldest(listener) && now >= oldest(listener)->deadline)
        listener_drop(oldest(listener), "it proved nothing in time");
    go_on_listening(listener);
}
