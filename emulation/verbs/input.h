/* SPDX-License-Identifier: Apache-2.0 */
/* From a packet that came to the queue pair that it is for. */
#ifndef VERBS_INPUT_H
#define VERBS_INPUT_H

#include "verbs/wire.h"

/* Applies faults, checks ICRC and headers, and hands the packet to its queue pair's requester or responder. */
void input_arrival(const struct arrival *arrival);

/* As input_arrival, past the faults. */
void input_checked(const struct arrival *arrival);

#endif
