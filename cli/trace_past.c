/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers boxes that can never matter again, so that frequent looks do not read thousands of old boxes. */
#include "cli/trace_set.h"

#include "wire/boxfile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A box as it was: another one may have the same name later, also with the same inode. */
struct view_gone {
    char *path;
    dev_t device;
    ino_t inode;
    struct timespec written;
    bool unreadable;
    bool there; /* at this look */
};

static int by_path(const void *left, const void *right)
{
    const struct view_gone *a = left, *b = right;
    return strcmp(a->path, b->path);
}

static bool same_file(const struct view_gone *gone, const struct stat *info)
{
    return info->st_dev == gone->device && info->st_ino == gone->inode &&
           info->st_mtim.tv_sec == gone->written.tv_sec && info->st_mtim.tv_nsec == gone->written.tv_nsec;
}

bool view_is_past(struct view_past *past, const char *path, bool *unreadable)
{
    const struct view_gone key = {.path = (char *)path};
    struct view_gone *found = NULL;
    struct stat info;
    if (past && past->sorted)
        found = bsearch(&key, past->gone, past->sorted, sizeof key, by_path);
    if (!found || lstat(path, &info) != 0 || !same_file(found, &info))
        return false;
    found->there = true;
    *unreadable = found->unreadable;
    return true;
}

void view_put_past(struct view_past *past, const char *path, bool unreadable)
{
    struct stat info;
    if (!past || !boxfile_deserted(path) || lstat(path, &info) != 0)
        return;
    struct view_gone *more = realloc(past->gone, (past->count + 1) * sizeof *more);
    char *copy = more ? strdup(path) : NULL;
    past->gone = more ? more : past->gone;
    if (copy)
        more[past->count++] = (struct view_gone){copy, info.st_dev, info.st_ino, info.st_mtim, unreadable, true};
}

/* Forgets files that are no longer there, so that the memory of looks for months does not grow. */
void view_end_look(struct view_past *past)
{
    size_t kept = 0;
    for (size_t i = 0; past && i < past->count; i++) {
        if (past->gone[i].there)
            past->gone[kept++] = past->gone[i];
        else
            free(past->gone[i].path);
    }
    for (size_t i = 0; i < kept; i++)
        past->gone[i].there = false;
    if (kept)
        qsort(past->gone, kept, sizeof *past->gone, by_path);
    if (past)
        past->count = past->sorted = kept;
}

void view_free_past(struct view_past *past)
{
    for (size_t i = 0; i < past->count; i++)
        free(past->gone[i].path);
    free(past->gone);
    *past = (struct view_past){0};
}
