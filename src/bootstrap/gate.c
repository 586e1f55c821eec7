/* SPDX-License-Identifier: Apache-2.0 */
/* Accept, challenge, check the proof. */
#include "bootstrap/gate.h"
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

#define NEWCOMERS   1024           /* connections without a proof at most; each holds a descriptor and 300 bytes */
#define PROOF_TIME  (5 * NS_PER_S) /* for a real rank this is one round trip */
#define FULL_TIME   (2 * NS_PER_S) /* for a program that closes files again */
#define ACCEPT_MORE 64             /* accepted at once, so that those that wait for an answer are not starved */

struct newcomer {
    struct list node;
    struct poll_source source;
    struct stream stream;
    struct gate *gate;
    uint64_t deadline;
    uint8_t challenge[16];
    _Alignas(8) unsigned char in[sizeof(struct boot_header) + sizeof(struct boot_hello)];
};

static struct newcomer *newcomer_of(struct poll_source *source)
{
    return container_of(source, struct newcomer, source);
}

/* Takes the newcomer apart; its descriptor remains. */
static int forget(struct newcomer *newcomer)
{
    poller_remove(newcomer->gate->poller, &newcomer->source);
    list_remove(&newcomer->node);
    newcomer->gate->waiting_count--;
    int fd = stream_release(&newcomer->stream);
    free(newcomer);
    return fd;
}

static void drop(struct newcomer *newcomer, const char *why)
{
    struct gate *gate = newcomer->gate;
    log_info("bootstrap: dropped a connection: %s", why);
    gate->counters->strangers++;
    struct stream last;
    stream_init(&last, forget(newcomer), NULL, 0, gate->counters);
    stream_close(&last);
}

static void refuse(struct newcomer *newcomer, enum boot_reason reason, const char *why)
{
    struct boot_failed failed = {.reason = reason, .rank = BOOT_NOBODY, .a = BOOT_VERSION};
    stream_send(&newcomer->stream, BOOT_FAILED, &failed, sizeof failed);
    drop(newcomer, why);
}

static void check_hello(struct newcomer *newcomer)
{
    struct gate *gate = newcomer->gate;
    struct boot_hello hello;
    uint8_t challenge[16];
    if (stream_header(&newcomer->stream)->type != BOOT_HELLO) {
        drop(newcomer, "its first frame was no hello");
        return;
    }
    memcpy(&hello, stream_body(&newcomer->stream), sizeof hello);
    memcpy(challenge, newcomer->challenge, sizeof challenge);
    if (!boot_proven(gate->nonce, BOOT_HELLO, challenge, hello.random, &hello, sizeof hello)) {
        refuse(newcomer, BOOT_BAD_PROOF, "it does not know the nonce");
        return;
    }
    gate->counters->accepted++;
    gate->hello(gate, forget(newcomer), &hello, challenge);
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
        drop(newcomer, "it runs on a machine with the other byte order");
        break;
    case STREAM_OTHER_VERSION:
        refuse(newcomer, BOOT_BAD_VERSION, "it speaks another version of the protocol");
        break;
    case STREAM_ENDED:
        drop(newcomer, "it hung up");
        break;
    default:
        drop(newcomer, "it does not speak our protocol");
    }
}

static struct newcomer *oldest(struct gate *gate)
{
    return list_empty(&gate->waiting) ? NULL : list_entry(gate->waiting.next, struct newcomer, node);
}

/* False if there is no memory; the descriptor is closed then. */
static bool welcome(struct gate *gate, int fd)
{
    struct boot_challenge challenge;
    struct newcomer *newcomer = malloc(sizeof *newcomer);
    if (!newcomer || random_bytes(challenge.random, sizeof challenge.random) != TUTTI_SUCCESS) {
        free(newcomer);
        close(fd);
        return false;
    }
    *newcomer = (struct newcomer){.gate = gate, .deadline = clock_ns() + PROOF_TIME, .source = {fd, newcomer_ready}};
    memcpy(newcomer->challenge, challenge.random, sizeof challenge.random);
    stream_init(&newcomer->stream, fd, newcomer->in, sizeof newcomer->in, gate->counters);
    list_push(&gate->waiting, &newcomer->node);
    gate->waiting_count++;
    if (poller_add(gate->poller, &newcomer->source, EPOLLIN) != TUTTI_SUCCESS ||
        !stream_send(&newcomer->stream, BOOT_CHALLENGE, &challenge, sizeof challenge))
        drop(newcomer, "it broke");
    return true;
}

/* No descriptors or memory: make room if a newcomer holds some, else leave callers in the listen queue until the next tick. */
static void relieve(struct gate *gate, int error)
{
    struct newcomer *victim = oldest(gate);
    gate->full_error = error;
    if (!gate->full_since)
        gate->full_since = clock_ns();
    if (victim) {
        drop(victim, "too many open files or no memory");
        return;
    }
    poller_remove(gate->poller, &gate->source);
    gate->paused = true;
}

static bool exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void gate_ready(struct poll_source *source, uint32_t events)
{
    struct gate *gate = container_of(source, struct gate, source);
    for (int i = 0; i < ACCEPT_MORE; i++) {
        int fd = net_accept(source->fd);
        if (fd < 0 && exhausted(errno))
            relieve(gate, errno);
        else if (fd < 0)
            gate->full_since = 0; /* all callers are in */
        if (fd < 0)
            return;
        if (gate->waiting_count >= gate->room)
            drop(oldest(gate), "newer ones came before it proved anything");
        if (!welcome(gate, fd)) {
            relieve(gate, ENOMEM);
            return;
        }
    }
}

bool gate_full(const struct gate *gate, uint64_t now, struct boot_failed *failed)
{
    struct rlimit files = {0};
    if (!gate->open || !gate->full_since || now < gate->full_since + FULL_TIME)
        return false;
    getrlimit(RLIMIT_NOFILE, &files);
    *failed = (struct boot_failed){.reason = BOOT_FULL, .a = (uint32_t)gate->full_error,
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

tutti_result_t gate_open(struct gate *gate, struct poller *poller, struct net_address *at, const uint8_t *nonce,
                         gate_hello_fn hello, struct bootstrap_counters *counters)
{
    *gate = (struct gate){.source = {-1, gate_ready}, .poller = poller, .nonce = nonce, .hello = hello, .counters = counters,
                          .room = room_for_newcomers()};
    list_init(&gate->waiting);
    tutti_result_t result = net_listen(at, (int)param_int(PARAM_BOOTSTRAP_BACKLOG), &gate->source.fd);
    if (result != TUTTI_SUCCESS)
        return result;
    result = poller_add(poller, &gate->source, EPOLLIN);
    if (result != TUTTI_SUCCESS) {
        close(gate->source.fd);
        return result;
    }
    gate->open = true;
    return TUTTI_SUCCESS;
}

void gate_close(struct gate *gate)
{
    if (!gate->open)
        return;
    while (oldest(gate))
        close(forget(oldest(gate)));
    if (!gate->paused)
        poller_remove(gate->poller, &gate->source);
    close(gate->source.fd);
    gate->open = gate->paused = false;
}

void gate_tick(struct gate *gate, uint64_t now)
{
    while (oldest(gate) && now >= oldest(gate)->deadline)
        drop(oldest(gate), "it proved nothing in time");
    if (gate->paused && poller_add(gate->poller, &gate->source, EPOLLIN) == TUTTI_SUCCESS)
        gate->paused = false;
}
