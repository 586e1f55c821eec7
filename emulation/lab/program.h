/* SPDX-License-Identifier: Apache-2.0 */
/* Runs iproute2's programs: a batch on standard input, their complaints kept. */
#ifndef LAB_PROGRAM_H
#define LAB_PROGRAM_H

#include "wiring/text.h"

/* `ip` or `tc`, in the network namespace that the caller is in. An error quotes what the program said and the line of
 * the batch that it refused; `where` names the place in that error. An empty batch runs nothing. */
tutti_result_t program_batch(const char *program, const struct text *batch, const char *where);

#endif
