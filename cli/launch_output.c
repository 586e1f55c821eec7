/* SPDX-License-Identifier: Apache-2.0 */
/* Output of ranks: cut into whole lines, so that lines of different ranks never mix. */
#include "cli/launch.h"
#include "cli/launch_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READ_AT_ONCE = 65536, LONGEST_LINE = 1 << 20 };

static bool write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(fd, text, length);
        if (wrote < 0 && errno != EINTR)
            return false;
        text += wrote > 0 ? wrote : 0;
        length -= wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

/* Writes almost every line by one system call; the rest of a long one follows. */
bool output_line(const char *tag, bool is_error, const char *text, size_t length)
{
    int fd = is_error ? STDERR_FILENO : STDOUT_FILENO;
    size_t tagged = strlen(tag);
    struct iovec parts[] = {{(char *)tag, tagged}, {(char *)text, length}, {"\n", 1}};
    ssize_t wrote = writev(fd, parts, 3);
    if (wrote == (ssize_t)(tagged + length + 1))
        return true;
    if (wrote < (ssize_t)tagged)
        return wrote >= 0 && write_all(fd, tag + wrote, tagged - (size_t)wrote) && write_all(fd, text, length) &&
               write_all(fd, "\n", 1);
    size_t done = (size_t)wrote - tagged;
    return write_all(fd, text + done, length - done) && write_all(fd, "\n", 1);
}

static bool hand_on(const struct launch *job, int rank, bool is_error, const char *text, size_t length)
{
    char tag[16];
    if (job->line)
        return job->line(job->context, rank, is_error, text, length);
    snprintf(tag, sizeof tag, "[%d] ", rank);
    return output_line(tag, is_error, text, length);
}

/* The lines of a host's launcher are longer than the lines of ranks that they carry. */
static size_t longest(const struct launch *job)
{
    return (size_t)LONGEST_LINE * (job->cluster ? 2 : 1);
}

static bool take_lines(struct launch_stream *stream, const struct launch *job, int rank, bool is_error, bool all)
{
    size_t start = 0;
    char *end;
    bool good = true;
    while ((end = memchr(stream->text + start, '\n', stream->used - start))) {
        size_t length = (size_t)(end - stream->text) - start;
        good &= hand_on(job, rank, is_error, stream->text + start, length);
        start += length + 1;
    }
    if (stream->used > start && (all || stream->used - start >= longest(job))) {
        good &= hand_on(job, rank, is_error, stream->text + start, stream->used - start);
        start = stream->used;
    }
    memmove(stream->text, stream->text + start, stream->used - start);
    stream->used -= start;
    return good;
}

static bool make_room(struct launch_stream *stream)
{
    if (stream->room - stream->used >= READ_AT_ONCE)
        return true;
    char *text = realloc(stream->text, stream->used + 2 * READ_AT_ONCE);
    if (!text)
        return false;
    stream->text = text;
    stream->room = stream->used + 2 * READ_AT_ONCE;
    return true;
}

bool stream_read(struct launch_stream *stream, const struct launch *job, int rank, bool is_error)
{
    if (!make_room(stream))
        return false;
    ssize_t got = read(stream->fd, stream->text + stream->used, READ_AT_ONCE);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    stream->used += got > 0 ? (size_t)got : 0;
    bool good = take_lines(stream, job, rank, is_error, got <= 0);
    if (got <= 0)
        stream_close(stream);
    return good;
}

void stream_close(struct launch_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream->text);
    *stream = (struct launch_stream){.fd = -1};
}
