/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over a non-blocking socket: never blocks, never trusts a length, keeps what does not fit into the socket yet.
 */
#ifndef TUTTI_BOOTSTRAP_STREAM_H
#define TUTTI_BOOTSTRAP_STREAM_H

#include "bootstrap/bootstrap.h"
#include "wire/bootstrap.h"

struct boot_stream {
    int fd;
    unsigned char *in; /* header and body of the frame that is coming; the owner's, aligned to 8 */
    uint32_t in_room, in_used;
    unsigned char *out; /* what did not fit, NULL if all is sent */
    uint32_t out_size, out_done;
    struct bootstrap_counters *counters;
};

enum stream_state {
    STREAM_MORE,        /* nothing whole yet */
    STREAM_FRAME,       /* one frame; read the next with stream_next */
    STREAM_ENDED,       /* the peer closed, or the connection broke; errno says how (0: closed) */
    STREAM_STRANGE,     /* not our protocol */
    STREAM_OTHER_ORDER, /* our protocol, other byte order */
    STREAM_OTHER_VERSION
};

void stream_init(struct boot_stream *stream, int fd, void *in, uint32_t in_room, struct bootstrap_counters *counters);
/* Closes the descriptor (after throwing away what has arrived, or the close would reset the connection) and frees the
 * rest. */
void stream_close(struct boot_stream *stream);
/* Gives the descriptor to the caller and frees the rest. */
int stream_release(struct boot_stream *stream);

/* Reads what is there, at most one frame, and never beyond it. */
enum stream_state stream_read(struct boot_stream *stream);
const struct boot_header *stream_header(const struct boot_stream *stream);
const void *stream_body(const struct boot_stream *stream);
void stream_next(struct boot_stream *stream);

/* Sends a frame or keeps it for stream_flush. False if the connection broke, or if something is still kept: errno. */
bool stream_send(struct boot_stream *stream, enum boot_type type, const void *body, size_t size);
/* False if the connection broke. */
bool stream_flush(struct boot_stream *stream);
static inline bool stream_pending(const struct boot_stream *stream)
{
    return stream->out != NULL;
}

#endif
