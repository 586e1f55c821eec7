/* SPDX-License-Identifier: Apache-2.0 */
/* memfd_create with seals, and its substitute. */
#include "base/memory.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Set once memfd_create was refused, before it ever worked; peers that are to share memory have no sealed one either.
 */
static _Atomic bool unsealed;
static _Atomic bool sealed; /* it has worked: from then on a refusal is an error, for peers want seals */

/* A file that lost its name before anyone could open it. All its pages are reserved: later there is no way to say
 * "full". */
static int make_file(size_t size)
{
    char path[] = "/dev/shm/tutti-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -1;
    unlink(path);
    int error = file_grow(fd, size) == 0 ? posix_fallocate(fd, 0, (off_t)size) : errno;
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int make_memfd(size_t size)
{
    int fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (file_grow(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Does the system have no memfd with seals, or not for this process? All else passes: room, descriptors. */
static bool never(int error)
{
    return error == ENOSYS || error == EPERM || error == EACCES || error == EINVAL;
}

tutti_result_t memory_make(size_t size, int *out)
{
    standard_hold();
    int fd = make_memfd(size);
    if (fd >= 0)
        atomic_store(&sealed, true);
    if (fd < 0 && never(errno) && !atomic_load(&sealed)) {
        if (!atomic_exchange(&unsealed, true))
            log_info("no memfd here (%s): shared memory comes from /dev/shm", strerror(errno));
        fd = make_file(size);
    }
    if (fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make %zu bytes of shared memory%s: %s%s", size,
                         atomic_load(&unsealed) ? " in /dev/shm" : "", strerror(errno),
                         errno == EFBIG ? "; raise ulimit -f" : "");
    *out = fd;
    return TUTTI_SUCCESS;
}

bool memory_is_sealed(void)
{
    return !atomic_load(&unsealed);
}

uint64_t memory_room(void)
{
    struct statvfs room;
    return statvfs("/dev/shm", &room) == 0 ? (uint64_t)room.f_bavail * room.f_frsize : 0;
}

tutti_result_t memory_map(int fd, size_t size, void **out)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot map %zu bytes of shared memory: %s", size, strerror(errno));
    *out = base;
    return TUTTI_SUCCESS;
}

/* Pages of a file in /dev/shm stay: they might not be had again. */
void memory_give_back(void *base, size_t size)
{
    if (size && !atomic_load(&unsealed))
        madvise(base, size, MADV_REMOVE);
}

void memory_unmap(void *base, size_t size)
{
    if (base)
        munmap(base, size);
}

bool memory_trust(int fd, size_t size)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0 || (uint64_t)status.st_size < size)
        return false;
    int seals = fcntl(fd, F_GET_SEALS);
    return (seals >= 0 && (seals & F_SEAL_SHRINK)) || atomic_load(&unsealed);
}

/* Less than this is not worth a mapping of its own. */
#define ZEROS_MAPPED (64 << 10)

void *memory_zeros(size_t size)
{
    if (size < ZEROS_MAPPED)
        return calloc(1, size ? size : 1);
    void *zeros = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return zeros == MAP_FAILED ? NULL : zeros;
}

void memory_free_zeros(void *zeros, size_t size)
{
    if (size < ZEROS_MAPPED)
        free(zeros);
    else if (zeros)
        munmap(zeros, size);
}
