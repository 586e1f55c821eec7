/* SPDX-License-Identifier: Apache-2.0 */
/* standard WHAT: a program without standard descriptors, whose first call makes a communicator or memory. */
#include "tutti/tutti.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RANKS 2

static int leads_nowhere(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

int main(int argc, char **argv)
{
    tutti_comm_t comms[RANKS];
    void *memory;
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    tutti_result_t result = argc == 2 && strcmp(argv[1], "memory") == 0 ? tutti_mem_alloc(&memory, 100000)
                                                                        : tutti_comm_init_all(comms, RANKS);
    return result != TUTTI_SUCCESS || !leads_nowhere(0) || !leads_nowhere(1) || !leads_nowhere(2);
}
