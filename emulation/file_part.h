/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in for a dma-buf: a descriptor of a memory file whose position says which pages of the file it means. The
 * position belongs to the open file, so it goes wherever the descriptor goes: to a copy, to another process. Position
 * 0, as of any fresh descriptor, means the whole file. */
#ifndef EMULATION_FILE_PART_H
#define EMULATION_FILE_PART_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_PAGE ((uint64_t)4096)
#define PART_BITS 31 /* of the first page's number; those above are the number of pages */

/* Both in bytes, multiples of PART_PAGE. The description must be one of its own. 0 or -1 with errno. */
static inline int part_set(int fd, uint64_t start, uint64_t size)
{
    return lseek(fd, (off_t)(size / PART_PAGE << PART_BITS | start / PART_PAGE), SEEK_SET) < 0 ? -1 : 0;
}

/* False: not a descriptor, errno says why. */
static inline bool part_get(int fd, uint64_t *start, uint64_t *size)
{
    struct stat file;
    off_t position = lseek(fd, 0, SEEK_CUR);
    if (fstat(fd, &file))
        return false;
    *start = 0;
    *size = (uint64_t)file.st_size;
    if (position <= 0)
        return true;
    *start = ((uint64_t)position & (((uint64_t)1 << PART_BITS) - 1)) * PART_PAGE;
    uint64_t part = ((uint64_t)position >> PART_BITS) * PART_PAGE, rest = *size > *start ? *size - *start : 0;
    *size = part < rest ? part : rest;
    return true;
}

#endif
