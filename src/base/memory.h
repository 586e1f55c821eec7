/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous memory that is shared by handing over its descriptor; and tables that are mostly zero. */
#ifndef TUTTI_BASE_MEMORY_H
#define TUTTI_BASE_MEMORY_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A descriptor of `size` zeroed bytes that cannot shrink: a memfd, or where the system has none an unlinked file in
 * /dev/shm. */
tutti_result_t memory_make(size_t size, int *out);
/* Is the memory that this process makes a memfd with seals? Known when it has made some. */
bool memory_is_sealed(void);
/* Bytes that are free in /dev/shm, where memory without seals comes from. */
uint64_t memory_room(void);
/* Maps `size` bytes for reading and writing. */
tutti_result_t memory_map(int fd, size_t size, void **out);
/* Gives the pages of a part of a mapping back: they are zero when somebody writes there again. */
void memory_give_back(void *base, size_t size);
void memory_unmap(void *base, size_t size);
/* Zeros of this process alone, which take no room before somebody writes there: for tables of thousands of peers, of
 * whom few are met. NULL: no memory. */
void *memory_zeros(size_t size);
/* With the same size. NULL: nothing happens. */
void memory_free_zeros(void *zeros, size_t size);
/* May `size` bytes of a peer's descriptor be mapped without fear that they vanish? */
bool memory_trust(int fd, size_t size);

#endif
