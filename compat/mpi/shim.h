/* SPDX-License-Identifier: Apache-2.0 */
/* MPI's calls over tutti's. Handles are numbers, as in MPICH; the faces (generate.py) make them what a caller's ABI
 * has. */
#ifndef TUTTI_MPI_SHIM_H
#define TUTTI_MPI_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;

enum abi { ABI_MPICH, ABI_TRAMPOLINE };

/* Numbers of MPICH's ABI: constants.txt has all of them. */
enum {
    COMM_NULL = 0x04000000,
    COMM_WORLD = 0x44000000,
    COMM_SELF = 0x44000001,
    GROUP_NULL = 0x08000000,
    GROUP_EMPTY = 0x48000000,
    TYPE_NULL = 0x0c000000,
    OP_NULL = 0x18000000,
    REQUEST_NULL = 0x2c000000,
    MESSAGE_NULL = 0x2c000000,
    MESSAGE_NO_PROC = 0x6c000000,
    ERRHANDLER_NULL = 0x14000000,
    ERRORS_ARE_FATAL = 0x54000000,
    ERRORS_RETURN = 0x54000001,
    KEYVAL_INVALID = 0x24000000,
    ANY_SOURCE = -2,
    ANY_TAG = -1,
    PROC_NULL = -1,
    UNDEFINED = -32766,
    TAG_MOST = 0x3fffffff,
    LONGEST_NAME = 128,
    LONGEST_ERROR = 512
};
enum {
    ERR_BUFFER = 1,
    ERR_COUNT = 2,
    ERR_TYPE = 3,
    ERR_TAG = 4,
    ERR_COMM = 5,
    ERR_RANK = 6,
    ERR_ROOT = 7,
    ERR_GROUP = 8,
    ERR_OP = 9,
    ERR_ARG = 12,
    ERR_TRUNCATE = 14,
    ERR_OTHER = 15,
    ERR_IN_STATUS = 17,
    ERR_PENDING = 18,
    ERR_REQUEST = 19,
    ERR_NO_MEM = 34,
    ERR_KEYVAL = 48,
    ERR_UNSUPPORTED = 44
};
#define IN_PLACE ((void *)-1)

struct status {
    int source, tag, error, cancelled;
    int64_t bytes;
};
#define EMPTY_STATUS                                                                                                   \
    {                                                                                                                  \
        ANY_SOURCE, ANY_TAG, 0, 0, 0                                                                                   \
    }

#endif
