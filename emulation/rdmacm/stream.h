/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP connection that carries messages. The kernel closes it when a process ends, however that ends: so the other
 * side hears of it. With the lock held. */
#ifndef RDMACM_STREAM_H
#define RDMACM_STREAM_H

#include "rdmacm/message.h"
#include "rdmacm/place.h"
#include "rdmacm/watch.h"

#define STREAM_PORT 4791 /* TCP; RoCEv2 has the same number of UDP */

struct cm_stream {
    int fd; /* -1: closed */
    int entry;
    size_t fill;
    uint8_t buffer[MESSAGE_MAX];
};

enum stream_read { STREAM_MESSAGE, STREAM_WAIT, STREAM_END };

void stream_init(struct cm_stream *stream);
/* Takes the descriptor in any case. 0 or errno. */
int stream_adopt(struct cm_stream *stream, int fd, uint32_t events, watch_fn ready, void *arg);
/* Begins to connect; EPOLLOUT tells of the end. 0 or errno. */
int stream_connect(struct cm_stream *stream, const union cm_address *from, const union cm_address *to, watch_fn ready,
                   void *arg);
/* After EPOLLOUT: 0 or errno. */
int stream_connected(struct cm_stream *stream);
/* What cannot be sent whole at once ends the stream, as the other side reads. */
void stream_send(struct cm_stream *stream, const struct cm_message *message);
enum stream_read stream_next(struct cm_stream *stream, struct cm_message *message);
/* Gives the descriptor away, or closes it. */
int stream_release(struct cm_stream *stream);
void stream_close(struct cm_stream *stream);

#endif
