/* SPDX-License-Identifier: Apache-2.0 */
/* What a program does while its GPU waits in a call. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_HIDDEN_H
#define TUTTI_DIAGNOSIS_HIDDEN_H

#include "diagnosis/ends.h"

/* Nanoseconds that this call, which is over, has held up the program that made it on its GPU. */
uint64_t device_held(const struct ends *ends, const struct blackbox_comm *comm, const struct blackbox_op *op);

#endif
