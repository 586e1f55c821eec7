/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives share. */
#ifndef COMPAT_MPI_COLLECTIVES_H
#define COMPAT_MPI_COLLECTIVES_H

#include "mpi/comms.h"
#include "mpi/requests.h"
#include "mpi/shim.h"

int begin_collective(int comm, struct comm **c, struct request **r);
/* Behind the call that was issued under the communicator's lock: lets go of it. */
int issued(struct request *r, const char *call, tutti_result_t result);
int refused(struct request *r, int class); /* nothing was issued */
int now(int wrong, struct request *r);     /* waits */
bool make_room(struct request *r, size_t bytes);
bool bytes_of(struct comm *c, int count, int type_handle, size_t *bytes);
bool root_fits(struct comm *c, int root);

#endif
