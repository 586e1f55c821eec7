/* SPDX-License-Identifier: Apache-2.0 */
/* Names, process start times, and the mark of the living: a write lock of the open file description. */
#include "wire/boxfile.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a small file of /proc as text. False when there is none. */
static bool slurp(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, out, size - 1);
    close(fd);
    out[got < 0 ? 0 : got] = 0;
    return got > 0;
}

uint64_t boxfile_start_time(uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    if (!slurp(path, text, sizeof text))
        return 0;
    char *after = strrchr(text, ')'); /* the program's name may hold anything, also spaces and brackets */
    for (int field = 2; after && field < 22; field++)
        after = strchr(after + 1, ' ');
    return after ? strtoull(after + 1, NULL, 10) : 0;
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
    if (sscanf(name, "tutti-%" SCNu32 "-%" SCNu32 "-%" SCNu64 ".%u", &file.uid, &file.pid, &file.start_time, &file.number) < 3)
        return false;
    boxfile_name(&file, again, sizeof again);
    if (strcmp(again, name) != 0)
        return false;
    *out = file;
    return true;
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
