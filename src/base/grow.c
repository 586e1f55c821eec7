/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

int file_grow(int fd, size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)bytes);
}
