/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that must not fail in a measurement, and the meeting of all threads. */
#include "cli/perf.h"
#include "cli/cli.h"

#include <stdio.h>
#include <unistd.h>

void perf_die(const char *what)
{
    text_flush();
    fprintf(stderr, "tutti perf: %s\n", what);
    fflush(stderr);
    _exit(EXIT_FAILED);
}

void perf_must(tutti_result_t result, const char *what, tutti_comm_t comm)
{
    char text[1400];
    if (__builtin_expect(result == TUTTI_SUCCESS, 1))
        return;
    snprintf(text, sizeof text, "%s: %s: %s", what, tutti_get_error_string(result), tutti_get_last_error(comm));
    perf_die(text);
}

void perf_barrier(struct worker *worker)
{
    struct perf *perf = worker->perf;
    if (perf->options.threads > 1)
        pthread_barrier_wait(&perf->barrier);
    if (perf->world && worker->index == 0) {
        perf_must(tutti_barrier(perf->world, NULL), "barrier", perf->world);
        perf_must(tutti_comm_synchronize(perf->world), "barrier", perf->world);
    }
    if (perf->options.threads > 1)
        pthread_barrier_wait(&perf->barrier);
}
