/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: runs a function in a process of its own, where the driver is loaded afresh with settings of its own. */
#ifndef TUTTI_DEVICE_CUDA_SCENARIO_H
#define TUTTI_DEVICE_CUDA_SCENARIO_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Ends a scenario that the driver at hand cannot show. */
#define SKIP() exit(77)

/* The exit status of `body` run with name=value set (name may be NULL); 0 also when it skipped. */
static inline int scenario(void (*body)(void), const char *name, const char *value)
{
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (name)
            setenv(name, value, 1);
        body();
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status) == 77 ? 0 : WEXITSTATUS(status);
}

#endif
