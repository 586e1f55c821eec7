/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows by doubling. */
#include "wiring/text.h"
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool reserve(struct text *text, size_t more)
{
    size_t need = text->length + more + 1, capacity = text->capacity ? text->capacity : 256;
    if (text->failed || need <= text->capacity)
        return !text->failed;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_append(struct text *text, const char *data, size_t length)
{
    if (!reserve(text, length))
        return;
    memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

void text_add(struct text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

tutti_result_t text_ok(const struct text *text)
{
    return text->failed ? error_note(TUTTI_SYSTEM_ERROR, "out of memory for %zu bytes of text", text->length)
                        : TUTTI_SUCCESS;
}

void text_clear(struct text *text)
{
    text->length = 0;
    if (text->data)
        text->data[0] = 0;
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

tutti_result_t text_write(const struct text *text, int fd, const char *name)
{
    tutti_result_t result = text_ok(text);
    for (size_t done = 0; result == TUTTI_SUCCESS && done < text->length;) {
        ssize_t count = write(fd, text->data + done, text->length - done);
        if (count >= 0)
            done += (size_t)count;
        else if (errno != EINTR)
            result = error_note(TUTTI_SYSTEM_ERROR, "writing %s: %s", name, strerror(errno));
    }
    return result;
}
