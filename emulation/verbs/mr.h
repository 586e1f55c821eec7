/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: keys, bounds, access rights; copying between regions and packets. */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include "verbs/object.h"
#include "verbs/pace.h"

#include <sys/uio.h>

/* IBV_ACCESS_FLUSH_GLOBAL of later <verbs.h>. The one for persistent memory is refused: we have none. */
#define ACCESS_FLUSH (1 << 8)

/* NULL with errno set. */
struct mr *mr_register(struct pd *pd, void *address, size_t size, uint64_t iova, int access);
struct mr *mr_register_dmabuf(struct pd *pd, uint64_t offset, size_t size, uint64_t iova, int fd, int access);
/* 0 or errno: EBUSY while a window is bound, EINVAL for one that was imported. */
int mr_deregister(struct mr *mr);
/* As ibv_rereg_mr: `what` is of IBV_REREG_MR_CHANGE_*. The keys stay. 0 or errno: then nothing has changed. */
int mr_change(struct mr *mr, int what, struct pd *pd, void *address, size_t size, int access);

/* An entry in the table, a copy of `from` with keys of its own. NULL: no memory. It leaves the table, and stays as
 * memory. */
struct mr *mr_enter(struct pd *pd, const struct mr *from);
void mr_leave(struct mr *mr);
/* The entry where the key would be, whatever its key is now, or that of this handle; NULL: none. */
struct mr *mr_at(uint32_t key);
struct mr *mr_of_handle(uint32_t handle);

/* How many regions are registered. */
int mr_count(void);
/* Bytes of whole pages of them. */
size_t mr_bytes(void);

/* The region of this key if it lies in `pd`, covers [va, va + size) and allows all of `access`; else NULL. */
struct mr *mr_find(const struct pd *pd, uint32_t key, uint64_t va, uint64_t size, int access);

/* The same for the key that a peer of this queue pair names: of a region, or of a window. */
struct mr *mr_find_for_peer(const struct qp *qp, uint32_t key, uint64_t va, uint64_t size, int access);

/* Adds what is copied to *crc. 0 or errno. */
int mr_read(const struct mr *mr, uint64_t va, void *to, size_t size, uint32_t *crc);
int mr_write(const struct mr *mr, uint64_t va, const void *from, size_t size);
/* 8 bytes, at once with respect to other atomics of this process. Returns what was there. */
int mr_atomic(const struct mr *mr, uint64_t va, bool swap, uint64_t compare, uint64_t value, uint64_t *original);

/* `size` bytes from the bytes that the list describes, beginning `offset` bytes into them. 0, or errno when a key is
 * not good. */
int sgl_read(const struct pd *pd, const struct ibv_sge *list, int n, uint64_t offset, void *to, size_t size,
             uint32_t *crc);
int sgl_write(const struct pd *pd, const struct ibv_sge *list, int n, uint64_t offset, const void *from, size_t size);
/* Where these bytes are, in at most `most` pieces: their number, 0 when another process cannot read them there. */
int sgl_pieces(const struct pd *pd, const struct ibv_sge *list, int n, uint64_t offset, size_t size, struct iovec *out,
               int most);
int mr_piece(const struct mr *mr, uint64_t va, size_t size, struct iovec *out);
/* The pair of memory and device that is through with what it has last; NULL: none has a rate. */
struct pace *sgl_pace(const struct pd *pd, const struct ibv_sge *list, int n, enum pace_way way);
uint64_t sgl_size(const struct ibv_sge *list, int n);
bool sgl_valid(const struct pd *pd, const struct ibv_sge *list, int n, int access);

#endif
