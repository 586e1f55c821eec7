/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of <rdma_user_cm.h>: what the kernel does when a program writes to /dev/infiniband/rdma_cm. */
#ifndef RDMACM_COMMAND_H
#define RDMACM_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

/* As open(): a descriptor or -1 with errno. */
int softverbs_cm_open(int flags);

#define NOT_OF_CM (-2)
/* As write(): `size`, -1 with errno, or NOT_OF_CM when the descriptor is another file's by now. */
ssize_t softverbs_cm_write(int fd, const void *data, size_t size);

/* A descriptor of ours has been closed: what it had is free when this returns, and not when that is found out. */
void softverbs_cm_closed(void);

#endif
