/* SPDX-License-Identifier: Apache-2.0 */
/* What members write to their logs: a file for each of them, for one run. */
#include "elastic_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char logs[] = "/tmp/tutti-elastic-XXXXXX";
static pid_t parent;

static void remove_logs(void)
{
    if (getpid() == parent)
        rmdir(logs);
}

static void log_of(int member, char out[64])
{
    snprintf(out, 64, "%s/%d", logs, member);
}

/* Members that those who went on were told to be without. */
static unsigned words_without(int member)
{
    static const char phrase[] = "it goes on without members";
    char path[64], line[2000];
    unsigned set = 0;
    log_of(member, path);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *at = strstr(line, phrase), *next;
        for (at = at ? at + sizeof phrase - 1 : at; at && *at == ' '; at = next)
            set |= 1u << strtoul(at, &next, 10);
    }
    if (file)
        fclose(file);
    return set;
}

bool words_judge(const bool *left)
{
    unsigned set = 0;
    bool right = true;
    for (int i = 0; i < MEMBERS; i++) {
        set |= (unsigned)left[i] << i;
        if (job->fault[i].point != NOWHERE)
            return true;
    }
    for (int i = 0; i < MEMBERS; i++)
        if (!left[i] && job->told[i].steps == STEPS && words_without(i) != set) {
            fprintf(stderr, "  member %d was told that %#x left, and %#x did\n", i, words_without(i), set);
            right = false;
        }
    return right;
}

bool words_end(const char *sentence)
{
    static const char *const ends[] = {"there go on members", "the others have gone on", "it has left",
                                       "the elastic group ends", "leaves the elastic group"};
    bool said = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        said |= strstr(sentence, ends[i]) != NULL;
    return said;
}

bool words_begin(void)
{
    parent = getpid();
    setenv("TUTTI_DEBUG", "warn", 0);
    return mkdtemp(logs) && atexit(remove_logs) == 0;
}

void words_keep(int member)
{
    char path[64];
    log_of(member, path);
    setenv("TUTTI_DEBUG_FILE", path, 1);
}

void words_forget(void)
{
    char path[64];
    for (int i = 0; i < MEMBERS; i++) {
        log_of(i, path);
        unlink(path);
    }
}
