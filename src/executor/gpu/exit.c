/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process that has not ended its communicators. */
#include "executor/gpu/exit.h"

#include "executor/gpu/depart.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/here.h"
#include "executor/gpu/leave.h"

#include <stdlib.h>
#include <unistd.h>

#define LOOK_US 500 /* between two looks at what this process's GPUs still do */

static pid_t owner;

static bool still_busy(struct gpu *gpu, const void *unused)
{
    (void)unused;
    return attend_is_on(&gpu->helper.attended) && !atomic_load(&gpu->base.team->failed) &&
           !depart_is_through(gpu, &gpu->departs.at_exit);
}

/* A program may end without ending its communicators, while its GPU still has to do what peers wait for. The driver is
 * not called. */
static void wait_at_exit(void)
{
    while (owner == getpid() && here_any(still_busy, NULL))
        usleep(LOOK_US);
    if (owner == getpid())
        leave_exit();
}

static void exit_note_process(void)
{
    owner = getpid();
    atexit(wait_at_exit);
}

void exit_register(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, exit_note_process);
}
