/* SPDX-License-Identifier: Apache-2.0 */
/* Copies too large for the cache. */
#ifndef TUTTI_BASE_COPY_H
#define TUTTI_BASE_COPY_H

#include <stddef.h>

/* As memcpy, with stores that leave the cache alone: for outputs that nobody reads soon. Complete for other threads
 * when it returns, in the sense that a later release store publishes it. */
void copy_stream(void *to, const void *from, size_t size);

#endif
