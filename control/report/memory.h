/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes from outside are taken apart: within a budget of memory, and texts without control characters. Private to
 * report/. */
#ifndef TUTTI_REPORT_MEMORY_H
#define TUTTI_REPORT_MEMORY_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* Takes from *budget, and gives nothing back to it. */
ProtobufCAllocator report_allocator(size_t *budget);
/* As much as fits, and zeros behind it. */
void report_copy_text(char *to, size_t size, const char *from);

#endif
