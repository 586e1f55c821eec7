/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that touch a word of the caller's memory and do nothing else; and one that copies. */
#include "base/reach.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SIGNAL_SET 8 /* bytes of the kernel's set of signals */
#define RARE       2047
#define NO_SUCH    -1 /* way to change the mask: the kernel reads the set before it sees that */

/* The word of `size` bytes that holds the address lies in the same page. */
static uintptr_t word_of(uintptr_t address, size_t size)
{
    return address / size * size;
}

static bool reach_readable(uintptr_t address)
{
    uintptr_t word = word_of(address, SIGNAL_SET);
    return word && (syscall(SYS_rt_sigprocmask, NO_SUCH, word, NULL, SIGNAL_SET) == 0 || errno != EFAULT);
}

/* Adds nothing to the word, in one step. Nobody sleeps on `mine`; whoever sleeps on the other word is woken only if
 * that is RARE, and must expect to wake for no reason. */
static bool writable(uintptr_t address)
{
    uint32_t mine = 0;
    uint32_t nothing = (uint32_t)FUTEX_OP_ADD << 28 | (uint32_t)FUTEX_OP_CMP_EQ << 24 | RARE;
    return syscall(SYS_futex, &mine, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, NULL, word_of(address, sizeof mine),
                   nothing) >= 0 ||
           errno != EFAULT;
}

static const void *first(const void *data, size_t length, bool (*may)(uintptr_t address))
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data, end = at + length;
    for (; at < end; at = (at / page + 1) * page)
        if (!may(at))
            return (const void *)at;
    return NULL;
}

const void *reach_unreadable(const void *data, size_t length)
{
    return first(data, length, reach_readable);
}

const void *reach_unwritable(const void *data, size_t length)
{
    return first(data, length, writable);
}

static bool ends(const void *data, size_t length, bool (*may)(uintptr_t address))
{
    uintptr_t at = (uintptr_t)data;
    return !length || (may(at) && may(at + length - 1));
}

bool reach_ends_readable(const void *data, size_t length)
{
    return ends(data, length, reach_readable);
}

bool reach_ends_writable(const void *data, size_t length)
{
    return ends(data, length, writable);
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static bool reach_prepare(const void *data, size_t length, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data & ~(page - 1);
    return madvise((void *)from, (uintptr_t)data + length - from, advice) == 0;
}

bool reach_prepare_read(const void *data, size_t length)
{
    return reach_prepare(data, length, MADV_POPULATE_READ);
}

bool reach_prepare_write(void *data, size_t length)
{
    return reach_prepare(data, length, MADV_POPULATE_WRITE);
}

/* The system may refuse that call, or the memory may be a device's, which it does not copy. */
bool reach_copy(void *to, const void *from, size_t length)
{
    struct iovec here = {to, length}, there = {(void *)(uintptr_t)from, length};
    if (!length || process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)length)
        return true;
    if (reach_unreadable(from, length) || reach_unwritable(to, length))
        return false;
    memcpy(to, from, length);
    return true;
}
