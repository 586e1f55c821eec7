/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs, loaded at run time: the same binary runs where it is not installed. */
#ifndef TUTTI_TRANSPORT_VERBS_LIBRARY_H
#define TUTTI_TRANSPORT_VERBS_LIBRARY_H

#include "tutti/tutti.h"

#include <infiniband/verbs.h>
/* Macros of that header that would name the library's symbols instead of members of our table. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_get_device_list

#include <stdbool.h>
#include <stdint.h>

struct verbs_library {
#define CALL(result, name, arguments) result(*name) arguments;
#include "transport/verbs/library.tbl"
#undef CALL
    /* An entry of a port's table of addresses. 0, or an errno: ENODATA if it is empty. */
    int (*query_gid)(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *out,
                     uint32_t flags, size_t size);
    /* Memory that a descriptor stands for. NULL: rdma-core is older than 34. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t address, int fd,
                                    int access);
};

/* The UDP source port of a queue pair that can send, set by the library of the adapter itself, where that is loaded and
 * can: kernels before 5.9 do not look at the flow label. False: it was not; 0 leaves the port alone. */
bool verbs_set_source(struct ibv_qp *qp, uint16_t port);
/* Loaded once for the process. Else the sentence says why, and TUTTI_SYSTEM_ERROR that the kernel has devices. */
tutti_result_t verbs_library(const struct verbs_library **out);
/* Does TUTTI_TRANSPORT name RDMA? */
bool verbs_is_asked(void);
/* Whatever libraries show. */
bool verbs_kernel_has_devices(void);
/* Around calls that list, open and close devices. A child that is forked meanwhile has none of the library: it would
 * wait for locks that nobody opens. */
void verbs_library_enter(void);
void verbs_library_leave(void);

#endif
