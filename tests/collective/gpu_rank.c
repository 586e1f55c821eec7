/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE     400
#define PATIENCE 60000 /* ms */

static char log_file[] = "/tmp/gpu_rank_XXXXXX";

void require(bool right, const char *what)
{
    const char *rank = getenv("TUTTI_RANK");
    if (right)
        return;
    fprintf(stderr, "rank %s, process %d: %s: %s\n", rank ? rank : "unknown", (int)getpid(), what,
            tutti_get_last_error(NULL));
    exit(1);
}

void gpu_join(tutti_comm_t *comm, int *rank, int *nranks)
{
    tutti_config_t config = gpu_config();
    OK(tutti_comm_init_from_env(comm, &config));
    OK(tutti_comm_rank(*comm, rank));
    OK(tutti_comm_count(*comm, nranks));
}

static void remove_log(void)
{
    unlink(log_file);
}

void log_open(const char *level)
{
    int file = mkstemp(log_file);
    require(file >= 0 && atexit(remove_log) == 0, "a file for the log");
    close(file);
    setenv("TUTTI_DEBUG", level, 1);
    setenv("TUTTI_DEBUG_FILE", log_file, 1);
}

int logged(const char *what, char *last, size_t size)
{
    char line[LINE];
    int count = 0;
    FILE *file = fopen(log_file, "re");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, what)) {
            count++;
            if (last)
                snprintf(last, size, "%s", line);
        }
    if (file)
        fclose(file);
    return count;
}

void await_mapped(int count)
{
    for (int ms = 0; logged(" mapped ", NULL, 0) < count; ms++) {
        require(ms < PATIENCE, "peers' buffers are mapped");
        usleep(1000);
    }
}
