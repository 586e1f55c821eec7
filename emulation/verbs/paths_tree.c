/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of /sys/class/infiniband for programs that list them: a shell, ls, ibstat, ibstatus, show_gids. What readdir
 * gives is made when the folder is opened. */
#include "verbs/paths.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LIST_MAX 16384
#define FOLDERS  32

/* An open folder. Programs hold it as a DIR. Without a lock, which a child of fork could find taken. */
static struct paths_folder {
    atomic_flag used;
    char *at, *list;
    struct dirent entry;
    struct dirent64 entry64;
} folders[FOLDERS];

static struct paths_folder *find(DIR *dir)
{
    for (int i = 0; i < FOLDERS; i++)
        if ((const void *)&folders[i] == (const void *)dir)
            return &folders[i];
    return NULL;
}

static uint64_t number_of(const char *below)
{
    uint64_t hash = 14695981039346656037ull;
    for (; *below; below++)
        hash = (hash ^ (uint8_t)*below) * 1099511628211ull;
    return hash >> 16 | 1;
}

PATHS_EXPORT DIR *opendir(const char *path)
{
    char below[PATH_MAX], list[LIST_MAX];
    if (!paths_inside(path, below, sizeof(below)))
        return PATHS_NEXT(opendir)(path);
    if (paths_list(below, list, sizeof(list)) < 0) {
        errno = ENOENT;
        return NULL;
    }
    struct paths_folder *folder = NULL;
    for (int i = 0; i < FOLDERS && !folder; i++)
        if (!atomic_flag_test_and_set(&folders[i].used))
            folder = &folders[i];
    if (!folder || !(folder->list = strdup(list))) {
        errno = folder ? ENOMEM : EMFILE;
        if (folder)
            atomic_flag_clear(&folder->used);
        return NULL;
    }
    folder->at = folder->list;
    return (DIR *)folder;
}

PATHS_EXPORT int closedir(DIR *dir)
{
    struct paths_folder *folder = find(dir);
    if (!folder)
        return PATHS_NEXT(closedir)(dir);
    free(folder->list);
    folder->list = NULL;
    atomic_flag_clear(&folder->used);
    return 0;
}

/* Programs ask for the descriptor of a folder to look at its entries by it: they take the path instead. */
PATHS_EXPORT int dirfd(DIR *dir)
{
    if (!find(dir))
        return PATHS_NEXT(dirfd)(dir);
    errno = ENOTSUP;
    return -1;
}

PATHS_EXPORT void rewinddir(DIR *dir)
{
    struct paths_folder *folder = find(dir);
    if (folder)
        folder->at = folder->list;
    else
        PATHS_NEXT(rewinddir)(dir);
}

/* The next line of the list: its kind and its name. False at the end. */
static bool next(struct paths_folder *folder, unsigned char *type, char *name, size_t size)
{
    char *end = strchr(folder->at, '\n');
    if (!end)
        return false;
    *type = *folder->at == 'd' ? DT_DIR : *folder->at == 'l' ? DT_LNK : DT_REG;
    snprintf(name, size, "%.*s", (int)(end - folder->at - 1), folder->at + 1);
    folder->at = end + 1;
    return true;
}

#define READ(call, type, member)                                                                                       \
    PATHS_EXPORT struct type *call(DIR *dir)                                                                           \
    {                                                                                                                  \
        struct paths_folder *folder = find(dir);                                                                       \
        if (!folder)                                                                                                   \
            return PATHS_NEXT(call)(dir);                                                                              \
        struct type *entry = &folder->member;                                                                          \
        if (!next(folder, &entry->d_type, entry->d_name, sizeof(entry->d_name)))                                       \
            return NULL;                                                                                               \
        entry->d_ino = number_of(entry->d_name);                                                                       \
        entry->d_reclen = sizeof(*entry);                                                                              \
        return entry;                                                                                                  \
    }
READ(readdir, dirent, entry)
READ(readdir64, dirent64, entry64)

/* The C library's own opens folders without asking here. */
#define SCAN(call, type, read)                                                                                         \
    PATHS_EXPORT int call(const char *path, struct type ***out, int (*takes)(const struct type *),                     \
                          int (*compare)(const struct type **, const struct type **))                                  \
    {                                                                                                                  \
        char below[PATH_MAX];                                                                                          \
        if (!paths_inside(path, below, sizeof(below)))                                                                 \
            return PATHS_NEXT(call)(path, out, takes, compare);                                                        \
        DIR *dir = opendir(path);                                                                                      \
        struct type **list = dir ? calloc(LIST_MAX / 2, sizeof(*list)) : NULL, *entry;                                 \
        int n = 0;                                                                                                     \
        while (list && (entry = read(dir)))                                                                            \
            if ((!takes || takes(entry)) && (list[n] = malloc(sizeof(*entry))))                                        \
                memcpy(list[n++], entry, sizeof(*entry));                                                              \
        if (dir)                                                                                                       \
            closedir(dir);                                                                                             \
        if (list && compare)                                                                                           \
            qsort(list, (size_t)n, sizeof(*list), (int (*)(const void *, const void *))compare);                       \
        *out = list;                                                                                                   \
        return list ? n : -1;                                                                                          \
    }
SCAN(scandir, dirent, readdir)
SCAN(scandir64, dirent64, readdir64)

/* The mode of what is there, 0: nothing. `follow`: of what a link leads to, which is a folder. */
static mode_t mode_of(const char *below, bool follow)
{
    char text[4096], list[LIST_MAX];
    const char *slash = strrchr(below, '/'), *name = slash ? slash + 1 : below;
    char parent[PATH_MAX];
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - below) : 0, below);
    size_t length = strlen(name);
    if (*below && paths_list(parent, list, sizeof(list)) >= 0)
        for (char *at = list; *at; at = strchr(at, '\n') + 1)
            if (*at == 'l' && !strncmp(at + 1, name, length) && at[1 + length] == '\n' && !follow)
                return S_IFLNK | 0777;
    if (paths_list(below, list, sizeof(list)) >= 0)
        return S_IFDIR | 0755;
    return paths_text(below, text, sizeof(text)) >= 0 ? S_IFREG | 0444 : 0;
}

#define FILL(type)                                                                                                     \
    static int fill_##type(const char *below, bool follow, struct type *out)                                           \
    {                                                                                                                  \
        mode_t mode = mode_of(below, follow);                                                                          \
        memset(out, 0, sizeof(*out));                                                                                  \
        out->st_mode = mode;                                                                                           \
        out->st_nlink = S_ISDIR(mode) ? 2 : 1;                                                                         \
        out->st_size = S_ISDIR(mode) ? 0 : 4096;                                                                       \
        out->st_ino = number_of(below);                                                                                \
        errno = mode ? errno : ENOENT;                                                                                 \
        return mode ? 0 : -1;                                                                                          \
    }
FILL(stat)
FILL(stat64)

#define LOOK(call, type)                                                                                               \
    PATHS_EXPORT int call(const char *path, struct type *out)                                                          \
    {                                                                                                                  \
        char below[PATH_MAX];                                                                                          \
        if (paths_inside(path, below, sizeof(below)))                                                                  \
            return fill_##type(below, *#call != 'l', out);                                                             \
        return PATHS_NEXT(call)(paths_node(path), out);                                                                \
    }
LOOK(stat, stat)
LOOK(stat64, stat64)
LOOK(lstat, stat)
LOOK(lstat64, stat64)

/* What programs call that were built with a C library before 2.33. */
#define OLD_LOOK(call, now, type)                                                                                      \
    int call(int version, const char *path, struct type *out);                                                         \
    PATHS_EXPORT int call(int version, const char *path, struct type *out)                                             \
    {                                                                                                                  \
        return now(path, out);                                                                                         \
    }
OLD_LOOK(__xstat, stat, stat)
OLD_LOOK(__xstat64, stat64, stat64)
OLD_LOOK(__lxstat, lstat, stat)
OLD_LOOK(__lxstat64, lstat64, stat64)

#define LOOK_AT(call, type)                                                                                            \
    PATHS_EXPORT int call(int at, const char *path, struct type *out, int flags)                                       \
    {                                                                                                                  \
        char below[PATH_MAX];                                                                                          \
        if (paths_inside_at(at, path, below, sizeof(below)))                                                           \
            return fill_##type(below, !(flags & AT_SYMLINK_NOFOLLOW), out);                                            \
        return PATHS_NEXT(call)(at, path, out, flags);                                                                 \
    }
LOOK_AT(fstatat, stat)
LOOK_AT(fstatat64, stat64)

PATHS_EXPORT int statx(int at, const char *path, int flags, unsigned mask, struct statx *out)
{
    char below[PATH_MAX];
    struct stat plain;
    if (!paths_inside_at(at, path, below, sizeof(below)))
        return PATHS_NEXT(statx)(at, path, flags, mask, out);
    if (fill_stat(below, !(flags & AT_SYMLINK_NOFOLLOW), &plain))
        return -1;
    memset(out, 0, sizeof(*out));
    out->stx_mask = STATX_BASIC_STATS;
    out->stx_mode = (uint16_t)plain.st_mode;
    out->stx_nlink = (uint32_t)plain.st_nlink;
    out->stx_size = (uint64_t)plain.st_size;
    out->stx_ino = plain.st_ino;
    return 0;
}

static int may(const char *below, int mode)
{
    mode_t is = mode_of(below, true);
    if (is && !(mode & W_OK) && (!(mode & X_OK) || S_ISDIR(is)))
        return 0;
    errno = is ? EACCES : ENOENT;
    return -1;
}

#define ALLOWS(call)                                                                                                   \
    PATHS_EXPORT int call(const char *path, int mode)                                                                  \
    {                                                                                                                  \
        char below[PATH_MAX];                                                                                          \
        return paths_inside(path, below, sizeof(below)) ? may(below, mode) : PATHS_NEXT(call)(paths_node(path), mode); \
    }
ALLOWS(access)
ALLOWS(eaccess)

PATHS_EXPORT int faccessat(int at, const char *path, int mode, int flags)
{
    char below[PATH_MAX];
    bool ours = paths_inside_at(at, path, below, sizeof(below));
    return ours ? may(below, mode) : PATHS_NEXT(faccessat)(at, path, mode, flags);
}
