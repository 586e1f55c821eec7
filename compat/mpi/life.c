/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and end, and what a process may ask of itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi/comms.h"
#include "mpi/errors.h"
#include "mpi/messages.h"
#include "mpi/calls.h"
#include "tutti/tutti.h"

struct world world;
static const char names[2][LONGEST_NAME] = {"MPI_COMM_WORLD", "MPI_COMM_SELF"};

static int start(int level, enum abi abi)
{
    if (world.begun)
        return shim_fail(NULL, ERR_OTHER, "MPI_Init: this process has called it before");
    tutti_comm_t all = NULL, self = NULL;
    tutti_result_t result = tutti_comm_init_from_env(&all, NULL);
    if (!result)
        result = tutti_comm_init_all(&self, 1);
    if (result)
        return shim_fail(NULL, ERR_OTHER, "MPI_Init: %s", tutti_get_last_error(NULL));
    world.abi = abi;
    world.comm = comm_adopt(all, NULL, COMM_WORLD);
    world.self = comm_adopt(self, NULL, COMM_SELF);
    if (!world.comm || !world.self)
        return shim_fail(NULL, ERR_NO_MEM, "MPI_Init: no memory for communicators");
    world.self->world[0] = world.comm->rank;
    memcpy(world.comm->name, names[0], LONGEST_NAME);
    memcpy(world.self->name, names[1], LONGEST_NAME);
    /* JAX looks at what calls return, and never sets a handler. */
    world.comm->errhandler = world.self->errhandler = abi == ABI_TRAMPOLINE ? ERRORS_RETURN : ERRORS_ARE_FATAL;
    world.main = pthread_self();
    world.level = level;
    world.begun = 1;
    return messages_start();
}

int shim_Init(int *argc, char ***argv, enum abi abi)
{
    return start(0, abi);
}

int shim_Init_thread(int *argc, char ***argv, int required, int *provided, enum abi abi)
{
    *provided = 3; /* MPI_THREAD_MULTIPLE, whatever was asked for */
    return start(3, abi);
}

int shim_Initialized(int *flag)
{
    *flag = world.begun;
    return 0;
}

int shim_Finalized(int *flag)
{
    *flag = world.ended;
    return 0;
}

int shim_Finalize(void)
{
    if (!world.begun || world.ended)
        return shim_fail(NULL, ERR_OTHER, "MPI_Finalize: %s", world.ended ? "called twice" : "MPI_Init was not called");
    attributes_drop(world.self);
    attributes_drop(world.comm);
    buffered_reap(true);
    messages_end();
    world.ended = 1;
    int result = shim_result(NULL, "MPI_Finalize", tutti_comm_destroy(world.comm->tutti));
    tutti_comm_destroy(world.self->tutti);
    world.comm->tutti = world.self->tutti = NULL;
    return result;
}

int shim_Abort(int comm, int code)
{
    fprintf(stderr, "tutti MPI: MPI_Abort(%d): the job ends\n", code);
    fflush(NULL);
    if (world.comm && world.comm->tutti)
        tutti_comm_abort(world.comm->tutti);
    _Exit(code & 0xff ? code & 0xff : 1);
}

int shim_Query_thread(int *provided)
{
    *provided = world.level;
    return 0;
}

int shim_Is_thread_main(int *flag)
{
    *flag = pthread_equal(world.main, pthread_self()) != 0;
    return 0;
}

int shim_Get_version(int *version, int *subversion)
{
    *version = 3;
    *subversion = 1;
    return 0;
}

int shim_Get_library_version(char *text, int *length)
{
    int v = tutti_get_version();
    *length = sprintf(text, "tutti %d.%d.%d, its calls of MPI", v / 10000, v / 100 % 100, v % 100);
    return 0;
}

int shim_Get_processor_name(char *text, int *length)
{
    char name[LONGEST_NAME] = "";
    if (gethostname(name, sizeof(name) - 1))
        strcpy(name, "localhost");
    *length = (int)strlen(name);
    memcpy(text, name, *length + 1);
    return 0;
}

int shim_Alloc_mem(MPI_Aint size, int info, void *pointer)
{
    void *made = size >= 0 ? malloc(size ? size : 1) : NULL;
    if (!made)
        return shim_fail(NULL, ERR_NO_MEM, "MPI_Alloc_mem: no %lld bytes", (long long)size);
    memcpy(pointer, &made, sizeof(made));
    return 0;
}

int shim_Free_mem(void *pointer)
{
    free(pointer);
    return 0;
}

int shim_Get_address(const void *place, MPI_Aint *address)
{
    *address = (MPI_Aint)place;
    return 0;
}

/* ---- Calls that return no code ---- */

#define FACE __attribute__((visibility("default")))
FACE double MPI_Wtime(void);
FACE double MPI_Wtick(void);
FACE double MPIABI_Wtime(void);
FACE double MPIABI_Wtick(void);
FACE MPI_Aint MPIABI_Aint_add(MPI_Aint base, MPI_Aint more);
FACE MPI_Aint MPIABI_Aint_diff(MPI_Aint one, MPI_Aint other);
FACE MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint more);
FACE MPI_Aint MPI_Aint_diff(MPI_Aint one, MPI_Aint other);
FACE int MPI_Pcontrol(int level, ...);
FACE void mpiwrapper_export_fortran_constants_(void);

static double clock_seconds(struct timespec t)
{
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double MPI_Wtime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return clock_seconds(now);
}

double MPI_Wtick(void)
{
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC, &tick);
    return clock_seconds(tick);
}

double MPIABI_Wtime(void)
{
    return MPI_Wtime();
}

double MPIABI_Wtick(void)
{
    return MPI_Wtick();
}

MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint more)
{
    return base + more;
}

MPI_Aint MPI_Aint_diff(MPI_Aint one, MPI_Aint other)
{
    return one - other;
}

MPI_Aint MPIABI_Aint_add(MPI_Aint base, MPI_Aint more)
{
    return base + more;
}

MPI_Aint MPIABI_Aint_diff(MPI_Aint one, MPI_Aint other)
{
    return one - other;
}

int MPI_Pcontrol(int level, ...)
{
    return 0;
}

/* Programs in Fortran are not served: there is nothing to tell them. */
void mpiwrapper_export_fortran_constants_(void)
{
}

/* The version of MPItrampoline's ABI that is built, and of the library that builds it. */
FACE extern const int mpiabi_version_major, mpiabi_version_minor, mpiabi_version_patch;
FACE extern const int mpiwrapper_version_major, mpiwrapper_version_minor, mpiwrapper_version_patch;
const int mpiabi_version_major = 2, mpiabi_version_minor = 10, mpiabi_version_patch = 0;
const int mpiwrapper_version_major = TUTTI_VERSION_MAJOR, mpiwrapper_version_minor = TUTTI_VERSION_MINOR,
          mpiwrapper_version_patch = TUTTI_VERSION_PATCH;

/* MPICH has these as variables. */
static int places[2];
FACE extern int *const MPI_UNWEIGHTED;
FACE extern int *const MPI_WEIGHTS_EMPTY;
int *const MPI_UNWEIGHTED = &places[0];
int *const MPI_WEIGHTS_EMPTY = &places[1];
FACE int MPIR_Dup_fn(int comm, int keyval, void *extra, void *in, void *out, int *flag);

int MPIR_Dup_fn(int comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    return mpi_copy_attribute(comm, keyval, extra, in, out, flag);
}
