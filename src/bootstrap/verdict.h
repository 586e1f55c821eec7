/* SPDX-License-Identifier: Apache-2.0 */
/* Why a join or an operation is over: the frame that says so, and its sentence. */
#ifndef TUTTI_BOOTSTRAP_VERDICT_H
#define TUTTI_BOOTSTRAP_VERDICT_H

#include "wire/bootstrap.h"

/* Sets the error sentence for `me` and returns the result that the reason stands for. `where` names the speaker's
 * address. */
tutti_result_t verdict_report(const struct boot_failed *failed, int me, const char *where);

#endif
