/* SPDX-License-Identifier: Apache-2.0 */
/* Takes bytes from outside apart, within a budget of memory; texts lose their control characters. Private to
 * report/. */
#ifndef TUTTI_REPORT_MEMORY_H
#define TUTTI_REPORT_MEMORY_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* Takes memory from *budget, and gives nothing back to it. */
ProtobufCAllocator report_allocator(size_t *budget);
/* Copies what fits, and fills up with zeros. */
void report_copy_text(char *to, size_t size, const char *from);

#endif
