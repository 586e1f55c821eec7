/* SPDX-License-Identifier: Apache-2.0 */
/* Making and mapping the mailbox. Pages that nobody touches cost nothing. */
#include "executor/gpu/mailbox.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "executor/gpu/gpu.h"

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

size_t mailbox_window(int nranks, int rank)
{
    return pages(sizeof(struct mailbox)) + (size_t)rank * pages(kernel_window_bytes(nranks) + MAILBOX_SPARE);
}

size_t mailbox_bulk(int nranks, int rank)
{
    return mailbox_window(nranks, nranks) + (size_t)rank * pages(kernel_bulk_bytes(nranks));
}

size_t mailbox_size(int nranks)
{
    return mailbox_bulk(nranks, nranks);
}

tutti_result_t mailbox_create(int nranks, int *fd)
{
    return memory_make(mailbox_size(nranks), fd);
}

tutti_result_t mailbox_map(int fd, int nranks, struct mailbox **out)
{
    struct stat about;
    size_t size = mailbox_size(nranks);
    if (fstat(fd, &about) < 0 || (size_t)about.st_size < size)
        return error_set(TUTTI_SYSTEM_ERROR, "the shared mailbox has %lld bytes; %zu were expected",
                         (long long)about.st_size, size);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot map %zu bytes of shared memory: %s", size, strerror(errno));
    *out = memory;
    return TUTTI_SUCCESS;
}

void mailbox_unmap(struct mailbox *mailbox, int nranks)
{
    if (mailbox)
        munmap(mailbox, mailbox_size(nranks));
}

void mailbox_ring(struct mailbox_rank *rank)
{
    atomic_fetch_add(&rank->bell, 1);
    futex_wake_all(&rank->bell);
}

void mailbox_ring_others(struct mailbox_rank *ranks, int nranks, int rank)
{
    for (int other = 0; other < nranks; other++)
        if (other != rank)
            mailbox_ring(&ranks[other]);
}

void mailbox_ask(struct mailbox_rank *mine)
{
    for (int rank = 0; rank < KERNEL_RANKS; rank++)
        atomic_store_explicit(&mine->waits[rank], 0, memory_order_relaxed);
    atomic_fetch_or(&mine->abort, KERNEL_ASKED);
}

uint32_t mailbox_answer(const struct mailbox_rank *mine)
{
    uint32_t ranks = 0;
    for (int rank = 0; rank < KERNEL_RANKS; rank++)
        ranks |= atomic_load_explicit(&mine->waits[rank], memory_order_relaxed) ? 1u << rank : 0;
    return ranks;
}

void mailbox_ask_no_more(struct mailbox_rank *mine)
{
    atomic_fetch_and(&mine->abort, ~(uint32_t)KERNEL_ASKED);
}

bool mailbox_has_begun(const struct mailbox_rank *rank, uint32_t ticket)
{
    return atomic_load_explicit(&rank->times[ticket % KERNEL_TIMES].begin, memory_order_relaxed) != 0;
}

uint32_t mailbox_over(const struct mailbox_rank *rank)
{
    return atomic_load_explicit(&rank->over, memory_order_acquire);
}
