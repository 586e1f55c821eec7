/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulator's libibverbs.so.1 exports besides <verbs.h>, for programs that know of it and for its libmlx5. */
#ifndef SOFTVERBS_H
#define SOFTVERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that this process cannot load and store (a device's): registered regions that `owns` claims are copied by
 * these calls. They return 0 or an errno value. They may be called from any thread, with the emulator's lock held, so
 * they must not call verbs. */
struct softverbs_memory {
    bool (*owns)(const void *address, size_t size);
    int (*read)(void *to, const void *from, size_t size);
    int (*write)(void *to, const void *from, size_t size);
};

/* NULL takes the hook away. *memory must stay. Also found as the symbol `softverbs_memory` of the library that the
 * environment variable SOFTVERBS_MEMORY names. */
void softverbs_set_memory(const struct softverbs_memory *memory);

/* The UDP source port of a connected queue pair in RTS: 0 or an errno value. mlx5dv_modify_qp_udp_sport calls it. */
int softverbs_set_source_port(struct ibv_qp *qp, uint16_t port);
uint16_t softverbs_source_port(struct ibv_qp *qp);

/* The fault `posted` keeps writes to device memory back: those to memory whose descriptors have this name (as in
 * memfd_create; NULL: any) arrive now. The flush of a device's driver calls it. */
void softverbs_flush(const char *name);

/* One control command (see docs/use/emulation.md); the answer goes into `answer`, always ended by a zero byte. */
int softverbs_control(const char *command, char *answer, size_t size);

#endif
