/* SPDX-License-Identifier: Apache-2.0 */
/* Names, process start times, and the mark of the living: a write lock of the open file description. */
#include "wire/boxfile.h"
#include "base/error.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MINUTE_S 60
#define DAY_S    86400

size_t boxfile_slurp(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[got < 0 ? 0 : got] = 0;
    return got < 0 ? 0 : (size_t)got;
}

void boxfile_boot_id(uint8_t out[16])
{
    char text[64];
    memset(out, 0, 16);
    boxfile_slurp("/proc/sys/kernel/random/boot_id", text, sizeof text);
    int digit = 0;
    for (const char *p = text; *p && digit < 32; p++) {
        unsigned value;
        char one[2] = {*p, 0};
        if (sscanf(one, "%1x", &value) == 1) {
            out[digit / 2] = (uint8_t)(out[digit / 2] << 4 | value);
            digit++;
        }
    }
}

/* Of the first thread: the same number, and an emulator that makes up the stat of its own process leaves it alone. */
uint64_t boxfile_start_time(uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%" PRIu32 "/stat", pid, pid);
    if (!boxfile_slurp(path, text, sizeof text))
        return 0;
    char *after = strrchr(text, ')'); /* the program's name may hold anything, also spaces and brackets */
    for (int field = 2; after && field < 22; field++)
        after = strchr(after + 1, ' ');
    return after ? strtoull(after + 1, NULL, 10) : 0;
}

/* From the clocks of the host: 0 where the kernel has no time namespaces, or does not tell. */
static struct boxfile_shift read_time_shift(const char *process)
{
    struct boxfile_shift shift = {0, 0};
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%s/timens_offsets", process);
    if (!boxfile_slurp(path, text, sizeof text))
        return shift;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char clock[16];
        int64_t seconds, ns;
        if (sscanf(line, "%15s %" SCNd64 " %" SCNd64, clock, &seconds, &ns) == 3)
            *(strcmp(clock, "monotonic") == 0 ? &shift.monotonic_ns : &shift.boottime_ns) = seconds * 1000000000 + ns;
    }
    return shift;
}

struct boxfile_shift boxfile_time_shift(uint32_t pid)
{
    char process[16];
    snprintf(process, sizeof process, "%" PRIu32, pid);
    struct boxfile_shift theirs = read_time_shift(process), ours = read_time_shift("self");
    return (struct boxfile_shift){theirs.monotonic_ns - ours.monotonic_ns, theirs.boottime_ns - ours.boottime_ns};
}

uint64_t boxfile_pid_namespace(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

void boxfile_name(const struct boxfile *file, char *out, size_t size)
{
    int used = snprintf(out, size, "tutti-%" PRIu32 "-%" PRIu32 "-%" PRIu64, file->uid, file->pid, file->start_time);
    if (used < 0 || (size_t)used >= size)
        return;
    if (file->number)
        snprintf(out + used, size - (size_t)used, ".%u.box", file->number);
    else
        snprintf(out + used, size - (size_t)used, ".box");
}

bool boxfile_parse(const char *name, struct boxfile *out)
{
    struct boxfile file = {0};
    char again[96];
    if (sscanf(name, "tutti-%" SCNu32 "-%" SCNu32 "-%" SCNu64 ".%u", &file.uid, &file.pid, &file.start_time,
               &file.number) < 3)
        return false;
    boxfile_name(&file, again, sizeof again);
    if (strcmp(again, name) != 0)
        return false;
    *out = file;
    return true;
}

static bool boxfile_wanted(const char *name)
{
    struct boxfile file;
    uint32_t me = (uint32_t)geteuid();
    return boxfile_parse(name, &file) && (me == 0 || file.uid == me);
}

static int by_name(const void *left, const void *right)
{
    return strverscmp(*(char *const *)left, *(char *const *)right);
}

/* Appends to an array that doubles when its length is a power of 2. */
static bool append(char ***paths, size_t *count, const char *dir, const char *name)
{
    if ((*count & (*count - 1)) == 0) {
        char **more = realloc(*paths, (*count ? *count * 2 : 1) * sizeof **paths);
        if (!more)
            return false;
        *paths = more;
    }
    if (asprintf(&(*paths)[*count], "%s/%s", dir, name) < 0)
        return false;
    ++*count;
    return true;
}

tutti_result_t boxfile_list(const char *dir, char ***out, size_t *count)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    char **paths = NULL;
    size_t found = 0;
    bool fine = true;
    if (!folder)
        return error_note(TUTTI_SYSTEM_ERROR, "looking for black boxes in %s: %m", dir);
    while (fine && (entry = readdir(folder)))
        fine = !boxfile_wanted(entry->d_name) || append(&paths, &found, dir, entry->d_name);
    closedir(folder);
    if (!fine) {
        boxfile_free(paths, found);
        return error_note(TUTTI_SYSTEM_ERROR, "looking for black boxes in %s: no memory", dir);
    }
    if (found)
        qsort(paths, found, sizeof *paths, by_name);
    *out = paths;
    *count = found;
    return TUTTI_SUCCESS;
}

void boxfile_free(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
}

bool boxfile_mark(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool boxfile_marked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Of the open file. */
static bool deserted(int fd, const char *path)
{
    struct boxfile name;
    const char *base = strrchr(path, '/');
    return fd >= 0 && !boxfile_marked(fd) && boxfile_parse(base ? base + 1 : path, &name) &&
           boxfile_start_time(name.pid) != name.start_time;
}

static int open_box(const char *path)
{
    return open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

bool boxfile_deserted(const char *path)
{
    int fd = open_box(path);
    bool gone = deserted(fd, path);
    if (fd >= 0)
        close(fd);
    return gone;
}

bool boxfile_abandoned(const char *path)
{
    struct stat info;
    uint64_t magic = 0;
    int fd = open_box(path);
    bool gone = deserted(fd, path) && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
    if (gone) {
        bool made = pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic && magic != 0;
        gone = info.st_mtime + (made ? DAY_S : MINUTE_S) < time(NULL);
    }
    if (fd >= 0)
        close(fd);
    return gone;
}
