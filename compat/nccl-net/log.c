/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl-net/net.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static net_log_fn *_Atomic logger;

void log_open(net_log_fn *wanted)
{
    atomic_store(&logger, wanted);
}

void log_line(enum net_level level, const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    net_log_fn *log = atomic_load(&logger);
    if (!log)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log(level, NET_LOG_INIT | NET_LOG_NET, file, line, "NET/tutti: %s", text);
}

enum net_result log_result(tutti_result_t result, tutti_comm_t comm, const char *what)
{
    if (result == TUTTI_SUCCESS || result == TUTTI_IN_PROGRESS)
        return NET_SUCCESS;
    LOG_WARN("%s: %s: %s", what, tutti_get_error_string(result), tutti_get_last_error(comm));
    return (enum net_result)result; /* the names of both have the same numbers */
}

_Static_assert((int)NET_SYSTEM_ERROR == TUTTI_SYSTEM_ERROR && (int)NET_REMOTE_ERROR == TUTTI_REMOTE_ERROR &&
                   (int)NET_INVALID_USAGE == TUTTI_INVALID_USAGE && (int)NET_INTERNAL_ERROR == TUTTI_INTERNAL_ERROR,
               "results are told as they are");
