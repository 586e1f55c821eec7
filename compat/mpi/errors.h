/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, in words and as classes. */
#ifndef TUTTI_MPI_ERRORS_H
#define TUTTI_MPI_ERRORS_H

#include "mpi/shim.h"

struct comm;
/* Says the sentence on stderr, keeps it for Error_string, and returns `class`; ends the process where the
 * communicator's handler says so. c NULL: that of COMM_WORLD. */
int shim_fail(struct comm *c, int class, const char *format, ...) __attribute__((format(printf, 3, 4)));
int shim_result(struct comm *c, const char *call, tutti_result_t result);
/* Of a class. */
const char *shim_words(int class);
int shim_refuse(const char *name);

#endif
