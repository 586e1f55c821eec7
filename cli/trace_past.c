/* SPDX-License-Identifier: Apache-2.0 */
/* What looks before have found to be of no interest: who looks every second does not read thousands of old boxes again. */
#include "trace.h"

#include "wire/boxfile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct view_gone {
    char *path;
    ino_t inode; /* another box may have the same name later */
};

static int by_path(const void *left, const void *right)
{
    const struct view_gone *a = left, *b = right;
    return strcmp(a->path, b->path);
}

bool view_is_past(const struct view_past *past, const char *path)
{
    const struct view_gone key = {.path = (char *)path}, *found = NULL;
    struct stat info;
    if (past && past->sorted)
        found = bsearch(&key, past->gone, past->sorted, sizeof key, by_path);
    return found && lstat(path, &info) == 0 && info.st_ino == found->inode;
}

void view_put_past(struct view_past *past, const char *path)
{
    struct stat info;
    if (!past || !boxfile_deserted(path) || lstat(path, &info) != 0)
        return;
    struct view_gone *more = realloc(past->gone, (past->count + 1) * sizeof *more);
    char *copy = more ? strdup(path) : NULL;
    past->gone = more ? more : past->gone;
    if (copy)
        more[past->count++] = (struct view_gone){copy, info.st_ino};
}

void view_sort_past(struct view_past *past)
{
    if (past && past->count > past->sorted)
        qsort(past->gone, past->count, sizeof *past->gone, by_path);
    if (past)
        past->sorted = past->count;
}

void view_free_past(struct view_past *past)
{
    for (size_t i = 0; i < past->count; i++)
        free(past->gone[i].path);
    free(past->gone);
    *past = (struct view_past){0};
}
