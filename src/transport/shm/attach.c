/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shm/attach.h"
#include "base/random.h"

#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t word;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void attach_draw(void)
{
    if (random_bytes(&word, sizeof word) != TUTTI_SUCCESS)
        word = 0;
}

/* A forked child is another process: it must not be taken for its parent, or for a sister that has died. */
static void attach_begin(void)
{
    attach_draw();
    pthread_atfork(NULL, NULL, attach_draw);
}

struct attach_word attach_mine(void)
{
    pthread_once(&once, attach_begin);
    return word ? (struct attach_word){(uintptr_t)&word, word} : (struct attach_word){0, 0};
}

/* The word and then the bytes, in one call: they are of the same process. */
static bool read_once(const struct attach *attach, uint64_t from, void *to, size_t length, size_t *got)
{
    uint64_t seen = 0;
    struct iovec here[2] = {{&seen, sizeof seen}, {to, length}};
    struct iovec there[2] = {{(void *)(uintptr_t)attach->word.address, sizeof seen}, {(void *)(uintptr_t)from, length}};
    unsigned parts = length ? 2 : 1;
    if (attach->pid <= 0 || !attach->word.value) {
        errno = ESRCH;
        return false;
    }
    ssize_t copied = process_vm_readv(attach->pid, here, parts, there, parts, 0);
    if (copied < (ssize_t)sizeof seen)
        return false;
    if (seen != attach->word.value) {
        errno = ESRCH;
        return false;
    }
    *got = (size_t)copied - sizeof seen;
    return true;
}

bool attach_shows(const void *data, size_t length)
{
    unsigned char seen[2];
    struct iovec here = {seen, sizeof seen};
    struct iovec ends[2] = {{(void *)(uintptr_t)data, 1}, {(char *)(uintptr_t)data + (length ? length - 1 : 0), 1}};
    return process_vm_readv(getpid(), &here, 1, ends, 2, 0) == sizeof seen;
}

bool attach_works(const struct attach *attach)
{
    size_t got;
    return read_once(attach, 0, NULL, 0, &got);
}

bool attach_read(const struct attach *attach, uint64_t from, void *to, size_t length)
{
    while (length) {
        size_t got;
        if (!read_once(attach, from, to, length, &got))
            return false;
        if (!got) {
            errno = EFAULT;
            return false;
        }
        to = (char *)to + got;
        from += got;
        length -= got;
    }
    return true;
}
