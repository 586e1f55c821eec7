/* SPDX-License-Identifier: Apache-2.0 */
/* Black boxes in words. */
#ifndef TUTTI_CLI_TRACE_TEXT_H
#define TUTTI_CLI_TRACE_TEXT_H

#include "diagnosis/phrase.h"
#include "wire/boxread.h"

#include <stddef.h>
#include <stdint.h>

struct phrase view_size(uint64_t bytes);
/* "12:03:04.123456", local time of day */
struct phrase view_day(const struct blackbox *box, uint64_t time);
/* Bus bandwidth in GB/s as the nccl-tests define it; 0: unknown. */
/* A GPU's operations have none: when they began and ended is not known. */
double view_busbw(const struct blackbox_op *op, int nranks);
uint64_t view_duration(const struct blackbox_op *op,
                       uint64_t now); /* Duration in ns; 0: over at once; of a GPU: from its call */
const char *view_comm_state(const struct blackbox *box, const struct blackbox_comm *comm);
const char *view_box_state(const struct blackbox *box);
/* The largest of the communicators of a process, whose ranks name processes; NULL: it has had none. */
const struct blackbox_comm *view_world(const struct blackbox *box);
/* The name of its program, without folders and arguments. */
void view_program(const struct blackbox *box, char *out, size_t size);

#endif
