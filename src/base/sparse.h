/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes without their runs of zeros: records of thousands, most of whose fields are not used. */
#ifndef TUTTI_BASE_SPARSE_H
#define TUTTI_BASE_SPARSE_H

#include <stddef.h>

/* Room for the packed form of `size` bytes, whatever they are. */
#define SPARSE_MOST(size) ((size) + 2 * ((size) / 255 + 1))

/* The length of the packed form, in `out` of SPARSE_MOST(size) bytes. */
size_t sparse_pack(const void *bytes, size_t size, void *out);
/* The length of the packed form at `packed`, of which `length` bytes are there; all `size` bytes are in `out` then. 0:
 * these bytes are no packed form of `size` bytes. */
size_t sparse_unpack(const void *packed, size_t length, void *out, size_t size);

#endif
