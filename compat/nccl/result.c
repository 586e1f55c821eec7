/* SPDX-License-Identifier: Apache-2.0 */
/* Results map one to one; the sentence of the last failure is kept for each thread and, for watchdogs, for the process.
 */
#include "nccl/result.h"
#include "nccl/group.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BEING_MADE "the communicator is still being made; poll ncclCommGetAsyncError()"

static _Thread_local char mine[RESULT_SENTENCE], shown[RESULT_SENTENCE];
static char latest[RESULT_SENTENCE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(void)
{
    pthread_mutex_lock(&lock);
    memcpy(latest, mine, sizeof latest);
    pthread_mutex_unlock(&lock);
}

ncclResult_t result_fail(ncclResult_t result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mine, sizeof mine, format, arguments);
    va_end(arguments);
    keep();
    return result;
}

/* In a group tutti has another word for that than outside; NCCL has one. */
static bool is_being_made(tutti_comm_t comm)
{
    tutti_result_t state = TUTTI_SUCCESS;
    return comm && tutti_comm_get_async_error(comm, &state) == TUTTI_SUCCESS && state == TUTTI_IN_PROGRESS;
}

ncclResult_t result_of(tutti_result_t result, tutti_comm_t comm)
{
    if (result == TUTTI_SUCCESS || result == TUTTI_IN_PROGRESS)
        return (ncclResult_t)result;
    if (result == TUTTI_INVALID_USAGE && is_being_made(comm))
        return result_fail(ncclInvalidArgument, BEING_MADE);
    snprintf(mine, sizeof mine, "%s", tutti_get_last_error(comm));
    keep();
    return (ncclResult_t)result;
}

const char *result_sentence(void)
{
    if (*mine)
        return mine;
    pthread_mutex_lock(&lock);
    memcpy(shown, latest, sizeof shown);
    pthread_mutex_unlock(&lock);
    return shown;
}

const char *result_show(const char *sentence)
{
    snprintf(shown, sizeof shown, "%s", sentence);
    return shown;
}

void result_keep(char kept[RESULT_SENTENCE])
{
    memcpy(kept, mine, RESULT_SENTENCE);
}

void result_restore(const char kept[RESULT_SENTENCE])
{
    memcpy(mine, kept, RESULT_SENTENCE);
}
