/* SPDX-License-Identifier: Apache-2.0 */
/* One measurement, one table, one write. */
#include "lab/watch.h"
#include "base/error.h"
#include "lab/report.h"
#include "lab/state.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static tutti_result_t show(struct lab_fabric *fabric, double seconds, bool terminal)
{
    struct counters counters;
    struct text out = {0};
    tutti_result_t result = counters_measure(fabric, seconds, &counters);
    if (result != TUTTI_SUCCESS)
        return result;
    text_add(&out, "%sLab %s, the last %g s%s\n\n", terminal ? "\033[H\033[J" : "", fabric->topology.spec.name, seconds,
             terminal ? "; Ctrl-C ends" : "");
    report_table(&counters, &out);
    if (!terminal)
        text_add(&out, "\n");
    result = text_write(&out, STDOUT_FILENO, "the table");
    text_free(&out);
    counters_free(&counters);
    return result;
}

static bool is_same(const char *path, const struct stat *began)
{
    struct stat now;
    return stat(path, &now) == 0 && now.st_ino == began->st_ino && now.st_ctim.tv_sec == began->st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == began->st_ctim.tv_nsec;
}

/* Our sockets keep a lab's networks alive that is gone: without this we would watch nothing for ever. An `up` removes
 * the lab before it makes it anew: whether the lab is up is known when no command is at work. */
static tutti_result_t still_there(const struct lab_fabric *fabric, const char *path, const struct stat *began)
{
    int lock;
    if (is_same(path, began))
        return TUTTI_SUCCESS;
    tutti_result_t result = state_lock(&lock);
    if (result != TUTTI_SUCCESS)
        return result;
    result = error_note(TUTTI_INVALID_USAGE, "lab %s was taken down%s", fabric->topology.spec.name,
                        access(path, F_OK) == 0 ? ", and is up anew" : "");
    state_unlock(lock);
    return result;
}

tutti_result_t watch_run(struct lab_fabric *fabric, double seconds, int times)
{
    bool terminal = isatty(STDOUT_FILENO);
    tutti_result_t result = TUTTI_SUCCESS;
    struct stat began = {0};
    char path[128];
    state_path(fabric->topology.spec.name, "topology.yaml", path, sizeof path);
    stat(path, &began);
    for (int i = 0; (times == 0 || i < times) && result == TUTTI_SUCCESS; i++)
        if ((result = show(fabric, seconds, terminal)) == TUTTI_SUCCESS)
            result = still_there(fabric, path, &began);
    return result;
}
