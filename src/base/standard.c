/* SPDX-License-Identifier: Apache-2.0 */
#include "base/standard.h"

#include <fcntl.h>
#include <unistd.h>

void standard_hold(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int useless = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        int null = fcntl(fd, F_GETFD) < 0 ? open("/dev/null", useless | O_CLOEXEC) : fd;
        if (null > STDERR_FILENO)
            close(null); /* another thread was quicker */
    }
}
