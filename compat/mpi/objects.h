/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for objects. */
#ifndef TUTTI_MPI_OBJECTS_H
#define TUTTI_MPI_OBJECTS_H

#include "mpi/shim.h"

enum kind { KIND_COMM, KIND_GROUP, KIND_TYPE, KIND_OP, KIND_REQUEST, KIND_MESSAGE, KIND_COUNT };
int object_new(enum kind kind, void *object); /* 0: no memory */
void *object_get(enum kind kind, int handle); /* NULL: there is none */
void object_free(enum kind kind, int handle);

#endif
