/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor holds: for who asks, and for the black box. */
#ifndef TUTTI_EXECUTOR_STREAM_LEDGER_H
#define TUTTI_EXECUTOR_STREAM_LEDGER_H

#include "wire/blackbox.h"

#include <stddef.h>

struct stream_base;

/* The executor holds `bytes` bytes more; or fewer, where that is a negative number. Of TABLES once: the team's come on
 * top. Any thread. */
void ledger_add(struct stream_base *base, enum wire_memory row, size_t bytes);
/* The executor ends, and holds nothing any more. */
void ledger_end(struct stream_base *base);
/* Of all rows. */
void ledger_sums(struct stream_base *base, size_t *device_bytes, size_t *host_bytes);

#endif
