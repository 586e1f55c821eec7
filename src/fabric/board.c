/* SPDX-License-Identifier: Apache-2.0 */
/* Making and mapping the board. Pages that nobody touches cost nothing. */
#include "fabric/board.h"

#include "base/error.h"
#include "base/futex.h"
#include "fabric/fabric.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 65536u /* a multiple of every page size that is in use */

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

size_t board_window(int nranks, int rank)
{
    return pages(sizeof(struct board)) + (size_t)rank * pages(kernel_window_bytes(nranks) + BOARD_SPARE);
}

size_t board_bulk(int nranks, int rank)
{
    return board_window(nranks, nranks) + (size_t)rank * pages(kernel_bulk_bytes(nranks));
}

size_t board_size(int nranks)
{
    return board_bulk(nranks, nranks);
}

tutti_result_t fabric_create_board(int nranks, int *fd)
{
    int memory = memfd_create("tutti-board", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, (off_t)board_size(nranks)) < 0) {
        tutti_result_t result = error_set(TUTTI_SYSTEM_ERROR, "no shared memory of %zu bytes: %s", board_size(nranks), strerror(errno));
        if (memory >= 0)
            close(memory);
        return result;
    }
    *fd = memory;
    return TUTTI_SUCCESS;
}

tutti_result_t board_map(int fd, int nranks, struct board **out)
{
    struct stat about;
    size_t size = board_size(nranks);
    if (fstat(fd, &about) < 0 || (size_t)about.st_size < size)
        return error_set(TUTTI_SYSTEM_ERROR, "the shared board has %lld bytes; %zu were expected", (long long)about.st_size, size);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot map %zu bytes of shared memory: %s", size, strerror(errno));
    *out = memory;
    return TUTTI_SUCCESS;
}

void board_unmap(struct board *board, int nranks)
{
    if (board)
        munmap(board, board_size(nranks));
}

void board_ring(struct board *board, int rank)
{
    atomic_fetch_add(&board->rank[rank].bell, 1);
    futex_wake_all(&board->rank[rank].bell);
}
