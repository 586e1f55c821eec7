/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of memory that a descriptor stands for. */
#ifndef VERBS_DMABUF_H
#define VERBS_DMABUF_H

#include "verbs/object.h"

/* Maps [offset, offset + size) of it for a region and fills in the mapping, where it begins for the region, and whose
 * memory it is. 0 or errno, as the kernel answers. */
int dmabuf_map(struct mr *mr, int fd, uint64_t offset, size_t size, bool writable);
/* The number of the memory that descriptors of this name stand for. */
uint64_t dmabuf_memory(const char *name);
void dmabuf_unmap(struct mr *mr);

#endif
