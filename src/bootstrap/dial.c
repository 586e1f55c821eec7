/* SPDX-License-Identifier: Apache-2.0 */
/* Connect, prove, hear the answer; back off and try again. */
#include "bootstrap/dial.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PAUSE_MIN 1u /* ms; doubles up to */
#define PAUSE_MAX 1000u
/* ms for TCP alone: not longer than until its own second try. The third and fourth would come 3 and 7 s after the
 * first, for which a place in a full listen queue does not stay free. */
#define CONNECT_MIN 500u
#define CONNECT_MAX 1000u
#define ATTEMPT_MIN 3000u /* ms for the challenge: the peer may be busy */
#define ATTEMPT_MAX 24000u

static unsigned grown(unsigned least, unsigned most, unsigned times)
{
    unsigned value = least << (times < 12 ? times : 12);
    return value < most ? value : most;
}

/* Between half and all of it, so that many ranks do not come again at the same time. */
static uint64_t jittered_ns(unsigned ms)
{
    uint64_t ns = ms * NS_PER_MS / 2;
    return ns + mix64(clock_ns() ^ (uint64_t)(uintptr_t)&ns) % (ns + 1);
}

static void hang_up(struct dial *dial)
{
    if (dial->state == DIAL_IDLE || dial->state == DIAL_OVER)
        return;
    poller_remove(dial->poller, &dial->source);
    stream_close(&dial->stream);
    dial->state = DIAL_IDLE;
    dial->answered = false;
}

void dial_stop(struct dial *dial)
{
    hang_up(dial);
    dial->state = DIAL_OVER;
}

int dial_take(struct dial *dial)
{
    poller_remove(dial->poller, &dial->source);
    dial->state = DIAL_OVER;
    return stream_release(&dial->stream);
}

void dial_again(struct dial *dial, unsigned pause_ms)
{
    hang_up(dial);
    dial->next = clock_ns() + jittered_ns(pause_ms);
}

static void stop_with(struct dial *dial, tutti_result_t result)
{
    dial_stop(dial);
    dial->result = result;
}

/* Will the same attempt fail again, whatever others do? */
static bool dial_hopeless(int error)
{
    return error == EMFILE || error == ENFILE || error == EACCES || error == EPERM || error == EINVAL ||
           error == EAFNOSUPPORT || error == EPROTONOSUPPORT || error == ENOMEM || error == ENOBUFS;
}

static void failed(struct dial *dial, int error)
{
    char text[NET_TEXT];
    dial->error = error;
    if (dial_hopeless(error)) {
        const char *remedy = error == EMFILE ? " in this process; raise ulimit -n" : "";
        stop_with(dial, error_set(TUTTI_SYSTEM_ERROR, "cannot connect to %s: %s%s", net_format(&dial->to, text),
                                  strerror(error), remedy));
        return;
    }
    if (error != ECONNREFUSED)
        dial->refused = 0;
    else if (!dial->refused)
        dial->refused = clock_ns();
    dial->counters->retries++;
    dial_again(dial, grown(PAUSE_MIN, PAUSE_MAX, dial->failures++));
}

static void send_hello(struct dial *dial)
{
    const struct boot_challenge *challenge = stream_body(&dial->stream);
    memcpy(dial->challenge, challenge->random, 16);
    tutti_result_t result = random_bytes(dial->hello.random, sizeof dial->hello.random);
    if (result == TUTTI_SUCCESS && dial->calls->hello)
        result = dial->calls->hello(dial, &dial->hello);
    if (result != TUTTI_SUCCESS) {
        stop_with(dial, result);
        return;
    }
    stream_next(&dial->stream);
    boot_seal(dial->nonce, BOOT_HELLO, dial->challenge, dial->hello.random, &dial->hello, sizeof dial->hello);
    dial->state = DIAL_ASKED;
    if (!stream_send(&dial->stream, BOOT_HELLO, &dial->hello, sizeof dial->hello))
        failed(dial, errno);
    else if (stream_pending(&dial->stream) &&
             poller_change(dial->poller, &dial->source, EPOLLIN | EPOLLOUT) != TUTTI_SUCCESS)
        stop_with(dial, TUTTI_SYSTEM_ERROR);
}

static void dial_hear(struct dial *dial)
{
    _Alignas(8) unsigned char body[BOOT_BODY_MAX];
    struct boot_header header = *stream_header(&dial->stream);
    memcpy(body, stream_body(&dial->stream), header.size);
    stream_next(&dial->stream);
    bool proven =
        boot_proven(dial->nonce, (enum boot_type)header.type, dial->challenge, dial->hello.random, body, header.size);
    dial->answered |= proven;
    dial->calls->reply(dial, (enum boot_type)header.type, body, proven);
}

static void frame_came(struct dial *dial)
{
    enum boot_type type = (enum boot_type)stream_header(&dial->stream)->type;
    if (dial->state == DIAL_CHALLENGED && type == BOOT_CHALLENGE)
        send_hello(dial);
    else if (dial->state == DIAL_ASKED || type == BOOT_FAILED)
        dial_hear(dial);
    else
        failed(dial, EPROTO);
}

static void dial_readable(struct dial *dial)
{
    char text[NET_TEXT];
    switch (stream_read(&dial->stream)) {
    case STREAM_MORE:
        break;
    case STREAM_FRAME:
        frame_came(dial);
        break;
    case STREAM_ENDED:
        if (dial->answered) {
            dial->error = errno;
            dial->calls->lost(dial);
        } else {
            failed(dial, errno);
        }
        break;
    case STREAM_OTHER_ORDER:
        stop_with(dial, error_set(TUTTI_INVALID_USAGE,
                                  "%s runs on a machine with the other byte order; ranks must have the same",
                                  net_format(&dial->to, text)));
        break;
    case STREAM_OTHER_VERSION:
        stop_with(dial, error_set(TUTTI_INVALID_USAGE,
                                  "%s speaks version %u of the bootstrap protocol, this library %u; use one "
                                  "tutti version for all ranks",
                                  net_format(&dial->to, text), stream_header(&dial->stream)->version, BOOT_VERSION));
        break;
    default:
        failed(dial, EPROTO);
    }
}

static void dial_ready(struct poll_source *source, uint32_t events)
{
    struct dial *dial = container_of(source, struct dial, source);
    if (dial->state == DIAL_CONNECTING) {
        int error = net_connect_error(source->fd);
        if (error || poller_change(dial->poller, source, EPOLLIN) != TUTTI_SUCCESS) {
            failed(dial, error ? error : ENOMEM);
            return;
        }
        dial->counters->connected++;
        dial->refused = 0;
        dial->state = DIAL_CHALLENGED;
        dial->next = clock_ns() + grown(ATTEMPT_MIN, ATTEMPT_MAX, dial->silences) * NS_PER_MS;
        return;
    }
    if ((events & EPOLLOUT) && stream_pending(&dial->stream)) {
        if (!stream_flush(&dial->stream)) {
            failed(dial, errno);
            return;
        }
        if (!stream_pending(&dial->stream) && poller_change(dial->poller, source, EPOLLIN) != TUTTI_SUCCESS) {
            failed(dial, ENOMEM);
            return;
        }
    }
    dial_readable(dial);
}

static void dial_start(struct dial *dial, uint64_t now)
{
    int fd = net_connect(&dial->to);
    if (fd < 0) {
        failed(dial, errno);
        return;
    }
    dial->source = (struct poll_source){fd, dial_ready};
    if (poller_add(dial->poller, &dial->source, EPOLLOUT) != TUTTI_SUCCESS) {
        close(fd);
        dial->state = DIAL_OVER;
        dial->result = TUTTI_SYSTEM_ERROR;
        return;
    }
    stream_init(&dial->stream, fd, dial->in, sizeof dial->in, dial->counters);
    dial->state = DIAL_CONNECTING;
    dial->hello.attempt = dial->failures;
    dial->next = now + grown(CONNECT_MIN, CONNECT_MAX, dial->failures) * NS_PER_MS;
}

uint64_t dial_due(const struct dial *dial)
{
    return dial->state == DIAL_ASKED || dial->state == DIAL_OVER ? UINT64_MAX : dial->next;
}

void dial_tick(struct dial *dial, uint64_t now)
{
    if (now < dial_due(dial))
        return;
    if (dial->state == DIAL_IDLE)
        dial_start(dial, now);
    else if (dial->state != DIAL_OVER && dial->state != DIAL_ASKED) {
        dial->silences += dial->state == DIAL_CHALLENGED;
        failed(dial, ETIMEDOUT);
    }
}
