/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host knows of the process that a finding names, and no black box has: the file or socket that it waits for,
 * counters of its interfaces, the port of the switch there, and its stacks. Lines are added under the finding. Nothing
 * here waits for a process in state D, and other programs run for a bounded time.
 */
#ifndef TUTTI_EVIDENCE_EVIDENCE_H
#define TUTTI_EVIDENCE_EVIDENCE_H

#include "diagnosis/diagnosis.h"

struct evidence;

/* Counts, for a later comparison, what the interfaces of these processes have counted. NULL: no memory. */
struct evidence *evidence_open(const struct look *look);
void evidence_close(struct evidence *evidence);
/* Adds lines under the findings. `stacks`: also asks py-spy or gdb, which stops the process for a moment. NULL: adds
 * nothing. */
void evidence_add(struct evidence *evidence, const struct look *look, struct findings *findings, bool stacks);
/* Lines of the stacks under this finding, each with a newline; NULL: none. */
const char *evidence_stack(const struct evidence *evidence, size_t finding);

#endif
