/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each parameter that must be the same on all ranks, by the tables: where two ranks differ both are refused and told
 * its name; where they spell one value in two ways they join. The same of thresholds that a rank has from a file. In
 * processes of their own: settings are read once.
 */
#include "tutti/tutti.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { KIND_INT, KIND_SIZE, KIND_BOOL, KIND_MS, KIND_STRING, KIND_CHOICE };

struct row {
    const char *name;
    enum kind kind;
    const char *text;
    long long min, max;
    const char *choices;
    bool same;
};

#define PARAM(id, level, kind, text, min, max, choices, same, ...)                                                     \
    {"TUTTI_" #id, KIND_##kind, text, min, max, choices, same},
#define NUMBER(...)
#define OF_PARAMETER(...)
#define THRESHOLD(id, text, least, ...) {"TUTTI_" #id, KIND_SIZE, text, least, 1ll << 40, "", true},
static const struct row rows[] = {
#include "tables/params.tbl"
#include "tables/gpu.tbl"
};

static long long bytes_of(const char *text)
{
    char *unit;
    long long number = strtoll(text, &unit, 10);
    const char *units = "KMGT", *found = *unit ? strchr(units, *unit) : NULL;
    return found ? number << (10 * (found - units + 1)) : number;
}

/* A legal value that is not the default one. */
static void another(const struct row *row, char *out, size_t size)
{
    long long number = bytes_of(row->text);
    const char *first = row->choices, *end = strchr(first, '|');
    switch (row->kind) {
    case KIND_BOOL:
        snprintf(out, size, "%d", *row->text == '0');
        break;
    case KIND_CHOICE: /* the second */
        snprintf(out, size, "%.*s", end ? (int)strcspn(end + 1, "|") : 0, end ? end + 1 : "");
        break;
    case KIND_STRING: /* of TUTTI_ALGO or TUTTI_QUEUES */
        snprintf(out, size, "%s", strcmp(row->name, "TUTTI_ALGO") == 0 ? "allreduce:ring" : "rack=1");
        break;
    default:
        snprintf(out, size, "%lld", number < row->max ? number + 1 : row->min);
    }
}

/* The default one, spelled otherwise. False: there is no other way. */
static bool spell(const struct row *row, char *out, size_t size)
{
    if (row->kind != KIND_SIZE && row->kind != KIND_BOOL)
        return false;
    if (row->kind == KIND_BOOL)
        snprintf(out, size, "%s", *row->text == '0' ? "false" : "true");
    else
        snprintf(out, size, "%lld", bytes_of(row->text));
    return strcmp(out, row->text) != 0;
}

/* A child chooses as its parent does: it does not read the file again, which is none by now. */
static bool can_split(tutti_comm_t comm)
{
    const char *path = getenv("TUTTI_TUNE_FILE");
    tutti_comm_t child = NULL;
    if (path && truncate(path, 1) != 0)
        return false;
    bool right = tutti_comm_split(comm, 0, 0, &child, NULL) == TUTTI_SUCCESS;
    if (!right)
        fprintf(stderr, "a split with another file: \"%s\"\n", tutti_get_last_error(NULL));
    tutti_comm_destroy(child);
    return right;
}

/* One rank; the other one gets the id through the pipe. Returns its exit status. */
static int join(int rank, const int *ends, const char *refused)
{
    tutti_unique_id_t id;
    tutti_comm_t comm;
    if (rank == 0 &&
        (tutti_get_unique_id(&id) != TUTTI_SUCCESS || write(ends[1], &id, sizeof id) != (ssize_t)sizeof id))
        return 2;
    if (rank == 1 && read(ends[0], &id, sizeof id) != (ssize_t)sizeof id)
        return 3;
    tutti_result_t result = tutti_comm_init_rank(&comm, 2, &id, rank, NULL);
    const char *said = tutti_get_last_error(NULL);
    bool right = refused ? result == TUTTI_INVALID_USAGE && strstr(said, refused) : result == TUTTI_SUCCESS;
    if (!right)
        fprintf(stderr, "rank %d: result %d, \"%s\"\n", rank, result, result == TUTTI_SUCCESS ? "" : said);
    if (result == TUTTI_SUCCESS) {
        right = can_split(comm) && right;
        tutti_comm_destroy(comm);
    }
    return right ? 0 : 4;
}

/* Rank 1 has that variable. Are both refused and told what `refused` names, or do both join? */
static bool try_pair(const char *variable, const char *value, const char *refused)
{
    int ends[2], bad = pipe(ends);
    pid_t pid[2];
    for (int rank = 0; rank < 2 && !bad; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(60);
            if (rank == 1)
                setenv(variable, value, 1);
            _exit(join(rank, ends, refused));
        }
    }
    for (int rank = 0; rank < 2; rank++) {
        int status = 1;
        if (bad || waitpid(pid[rank], &status, 0) != pid[rank] || status)
            bad = 1;
    }
    close(ends[0]);
    close(ends[1]);
    if (bad)
        fprintf(stderr, "%s=%s on rank 1: want %s\n", variable, value, refused ? "a refusal" : "them to join");
    return !bad;
}

/* Rank 1 has a row of a file. */
static bool try_file(const char *row, const char *refused)
{
    char path[] = "/tmp/tutti-settings-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || dprintf(fd, "{\"version\": 1, \"rules\": [], \"gpu\": {%s}}", row) < 0 || close(fd) != 0)
        return false;
    bool right = try_pair("TUTTI_TUNE_FILE", path, refused);
    unlink(path);
    return right;
}

/* A row has the default's value in the one file, and another one in the other. */
static int wrong_files(void)
{
    int wrong = !try_file("\"COPY_FROM\": 4194304", NULL);
    wrong += !try_file("\"COPY_FROM\": 4194304, \"READ_FROM\": 4096", "TUTTI_READ_FROM differs: rank ");
    setenv("TUTTI_READ_FROM", "4K", 1); /* on both ranks, so the file does not count */
    wrong += !try_file("\"READ_FROM\": 1", NULL);
    unsetenv("TUTTI_READ_FROM");
    return wrong;
}

int main(void)
{
    int tried = 0, wrong;
    char value[80];
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_INIT_TIMEOUT", "30s", 0);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    wrong = wrong_files();
    for (const struct row *row = rows; row != rows + sizeof rows / sizeof *rows; row++) {
        if (!row->same)
            continue;
        another(row, value, sizeof value);
        wrong += !try_pair(row->name, value, row->name);
        tried++;
        if (spell(row, value, sizeof value))
            wrong += !try_pair(row->name, value, NULL);
    }
    printf("%d parameters, %d wrong\n", tried, wrong);
    return wrong || tried < 40;
}
