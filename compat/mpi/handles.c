/* SPDX-License-Identifier: Apache-2.0 */
/* From the number of a communicator to the communicator. */
#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/objects.h"
#include "mpi/calls.h"

struct comm *comm_of(int handle)
{
    struct comm *c = handle == COMM_WORLD  ? world.comm
                     : handle == COMM_SELF ? world.self
                                           : object_get(KIND_COMM, handle);
    if (c && c->tutti)
        return c;
    shim_fail(NULL, ERR_COMM, "%s: handle 0x%x",
              world.ended           ? "MPI_Finalize has been called"
              : !world.begun        ? "MPI_Init has not been called"
              : handle == COMM_NULL ? "the communicator is MPI_COMM_NULL"
                                    : "there is no communicator of this handle",
              (unsigned)handle);
    return NULL;
}
