/* SPDX-License-Identifier: Apache-2.0 */
/* What calls that do not fit come to at the latest: the barrier behind them, and the end of the communicator. */
#ifndef TUTTI_TESTS_LAST_H
#define TUTTI_TESTS_LAST_H

#include "tutti/tutti.h"

#include <stdio.h>

/* Behind a call that returned `result`, until the first error, whose sentence goes into `said`. */
static inline tutti_result_t last_of(tutti_result_t result, tutti_comm_t comm, char *said, size_t size)
{
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    if (result == TUTTI_SUCCESS)
        result = tutti_barrier(comm, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    if (result != TUTTI_SUCCESS)
        snprintf(said, size, "%s", tutti_get_last_error(comm));
    tutti_result_t ended = tutti_comm_destroy(comm);
    if (result == TUTTI_SUCCESS && ended != TUTTI_SUCCESS)
        snprintf(said, size, "%s", tutti_get_last_error(NULL));
    return result == TUTTI_SUCCESS ? ended : result;
}

#endif
