/* SPDX-License-Identifier: Apache-2.0 */
/* Files, and shared memory that is one, made longer for what is to be kept in them. */
#ifndef TUTTI_BASE_GROW_H
#define TUTTI_BASE_GROW_H

#include <stddef.h>

/* As ftruncate. A length beyond the process's limit is EFBIG alone: the kernel would send SIGXFSZ, too, which ends a
 * program that has no handler. */
int file_grow(int fd, size_t bytes);

#endif
