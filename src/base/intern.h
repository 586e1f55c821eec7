/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are kept once a process, however many hold them: what communicators know of their members is the same in
 * each. A holder has a pointer to them, which is valid until it is released, and at which nothing changes. Any thread.
 * A forked child has none of its parent's.
 */
#ifndef TUTTI_BASE_INTERN_H
#define TUTTI_BASE_INTERN_H

#include <stddef.h>

/* Equal bytes, one pointer, counted; aligned to 8. NULL: no memory. */
const void *intern(const void *bytes, size_t size);
/* Once more what is held already. */
const void *intern_again(const void *interned);
/* NULL: nothing happens. */
void intern_release(const void *interned);
/* Bytes of memory that one holder answers for: of all that is held, its part. */
size_t intern_share(const void *interned);
/* Bytes of memory that all take. */
size_t intern_memory(void);

#endif
