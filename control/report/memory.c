/* SPDX-License-Identifier: Apache-2.0 */
#include "report/memory.h"

#include <stdlib.h>
#include <string.h>

static void *take(void *budget, size_t size)
{
    size_t *left = budget;
    if (size > *left)
        return NULL;
    *left -= size;
    return malloc(size);
}

static void give(void *budget, void *memory)
{
    free(memory);
}

ProtobufCAllocator report_allocator(size_t *budget)
{
    return (ProtobufCAllocator){take, give, budget};
}

void report_copy_text(char *to, size_t size, const char *from)
{
    size_t length = from ? strnlen(from, size - 1) : 0;
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)from[i] < 32 || from[i] == 127 ? '?' : from[i];
    memset(to + length, 0, size - length);
}
