/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for users: shared regions, and ranges that they promise to use often. */
#ifndef TUTTI_COMM_MEMORY_H
#define TUTTI_COMM_MEMORY_H

#include "tutti/tutti.h"

tutti_result_t memory_alloc(void **out, size_t size);
tutti_result_t memory_free(void *pointer);

/* Brings the pages in, so that no collective takes a page fault on them. *handle is to be given to memory_deregister.
 */
tutti_result_t memory_register(tutti_comm_t comm, void *buffer, size_t size, void **handle);
/* With all ranks: the executor may make more of it. */
tutti_result_t memory_register_symmetric(tutti_comm_t comm, void *buffer, size_t size, void **handle);
/* NULL: the memory is no window. */
tutti_result_t memory_window(tutti_comm_t comm, void *handle, tutti_window_t *window);
tutti_result_t memory_deregister(tutti_comm_t comm, void *handle);

#endif
