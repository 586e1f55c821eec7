/* SPDX-License-Identifier: Apache-2.0 */
/* What this process's memory allows, as an adapter's driver finds out by pinning it; and copies that survive memory
 * that is not there. */
#ifndef VERBS_MAPPED_H
#define VERBS_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether every page is mapped and allows `access` (IBV_ACCESS_*). */
bool mapped_allows(void *address, size_t size, int access);

/* Makes the pages, for reading or for writing. 0 or EFAULT. */
int mapped_populate(void *address, size_t size, bool write);

/* Copies within this process, of which the program's side may have no pages: 0 or EFAULT. */
int mapped_read(void *to, const void *from, size_t size);
int mapped_write(void *to, const void *from, size_t size);

#endif
