/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May this process read or write memory? The kernel is asked, so nobody gets a signal: not at a page that is protected
 * or not mapped, nor behind the end of a mapped file. One system call for each page, and one for a copy.
 */
#ifndef TUTTI_BASE_REACH_H
#define TUTTI_BASE_REACH_H

#include <stdbool.h>
#include <stddef.h>

/* The first byte of the first page that cannot be read; NULL: all can. */
const void *reach_unreadable(const void *data, size_t length);
/* The same for writing. Nothing is changed, whoever else works on the memory. */
const void *reach_unwritable(const void *data, size_t length);

/* The same of the first and the last byte alone, in front of work on many: two system calls. */
bool reach_ends_readable(const void *data, size_t length);
bool reach_ends_writable(const void *data, size_t length);

/* Brings all of it into memory, so that reading it, or writing it, brings no signal now. One system call. False also
 * where the system cannot tell. */
bool reach_prepare_read(const void *data, size_t length);
bool reach_prepare_write(void *data, size_t length);

/* Copies within this process. False: not all can be read, or be written; some of it may have been copied. */
bool reach_copy(void *to, const void *from, size_t length);

#endif
