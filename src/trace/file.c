/* SPDX-License-Identifier: Apache-2.0 */
/* Making the black box's file without ever being killed for it: by a full disk, by a size limit, by another's file. */
#include "trace/file.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "wire/boxfile.h"
#include "wire/boxread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Boxes of one process, of which each copy of the library makes one; and of processes that have the same pid elsewhere.
 */
#define TRIES 256

void trace_file_identify(struct wire_box_header *header)
{
    header->pid = (uint32_t)getpid();
    header->uid = (uint32_t)geteuid();
    header->start_time = boxfile_start_time(header->pid);
    header->pid_namespace = boxfile_pid_namespace();
    boxfile_boot_id(header->boot_id);
    gethostname(header->host, sizeof header->host - 1);
    size_t got = boxfile_slurp("/proc/self/cmdline", header->command, sizeof header->command);
    for (size_t i = 0; i + 1 < got; i++)
        if (!header->command[i])
            header->command[i] = ' ';
}

/* By an earlier program of this very process: in another PID namespace the pid is somebody else's. */
static bool left_behind(const char *path)
{
    struct wire_box_header header;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool left = fd >= 0 && !boxfile_marked(fd) && pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
                header.pid_namespace == boxfile_pid_namespace();
    if (fd >= 0)
        close(fd);
    return left;
}

/* Opens a name that no other box of this process has. One of an earlier program of this process (exec) is removed. */
static int open_new(const char *dir, char *path, size_t size)
{
    struct boxfile name = {(uint32_t)geteuid(), (uint32_t)getpid(), boxfile_start_time((uint32_t)getpid()), 0};
    for (; name.number < TRIES; name.number++) {
        char base[96];
        boxfile_name(&name, base, sizeof base);
        if ((size_t)snprintf(path, size, "%s/%s", dir, base) >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (access(path, F_OK) == 0 && left_behind(path))
            unlink(path);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static int file_allocate(int fd, size_t offset, size_t bytes)
{
    int code;
    do {
        code = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (code == EINTR);
    return code;
}

/* Sizes, fills and maps the new file. Zero, or the errno of what failed. */
static int file_prepare(struct trace_file *file, size_t room)
{
    file->marked = boxfile_mark(file->fd);
    if (file_grow(file->fd, file->bytes) != 0)
        return errno;
    int code = file_allocate(file->fd, 0, room);
    if (code)
        return code;
    void *base = mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (base == MAP_FAILED)
        return errno;
    file->base = base;
    return 0;
}

bool trace_file_make(struct trace_file *file, const char *dir, size_t bytes, size_t room)
{
    file->bytes = bytes;
    file->fd = open_new(dir, file->path, sizeof file->path);
    if (file->fd < 0) {
        log_warn("no black box: making %s: %m; set TUTTI_TRACE_DIR to a folder with room, or TUTTI_TRACE=0",
                 file->path);
        return false;
    }
    int code = file_prepare(file, room);
    if (!code)
        return true;
    log_warn("no black box: %zu bytes at %s: %s; set TUTTI_TRACE_DIR to a folder with room, or TUTTI_TRACE=0", bytes,
             file->path, strerror(code));
    unlink(file->path);
    close(file->fd);
    return false;
}

bool trace_file_room(struct trace_file *file, size_t offset, size_t bytes)
{
    int code = file_allocate(file->fd, offset, bytes);
    if (code && !file->full)
        log_warn("something is not in the black box %s: room for %zu bytes: %s", file->path, bytes, strerror(code));
    file->full = file->full || code;
    return code == 0;
}

void trace_file_close(struct trace_file *file, bool remove)
{
    if (remove)
        unlink(file->path);
    munmap(file->base, file->bytes);
    close(file->fd);
}

/* ---- Old boxes ---- */

#define DAY_S 86400
#define KEPT  256 /* of the dead, whatever their age: a job that crashes again and again would fill the folder */
#define SHARE 4   /* nor do they take more than 1 / SHARE of the folder's file system */

struct file_left {
    char *path;
    struct timespec made;
    uint64_t bytes;
};

static int newest_first(const void *one, const void *other)
{
    const struct timespec *a = &((const struct file_left *)one)->made, *b = &((const struct file_left *)other)->made;
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? 1 : -1;
    return (a->tv_nsec < b->tv_nsec) - (a->tv_nsec > b->tv_nsec);
}

/* This user's among them, the newest first. */
static size_t file_look_at(char **paths, size_t count, struct file_left *left)
{
    struct stat info;
    size_t mine = 0;
    for (size_t i = 0; i < count; i++)
        if (lstat(paths[i], &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid())
            left[mine++] = (struct file_left){paths[i], info.st_mtim, (uint64_t)info.st_blocks * 512};
    qsort(left, mine, sizeof *left, newest_first);
    return mine;
}

static uint64_t room_for(const char *dir)
{
    struct statvfs disk;
    return statvfs(dir, &disk) == 0 ? (uint64_t)disk.f_blocks * disk.f_frsize / SHARE : UINT64_MAX;
}

static bool gave_a_sign_today(const struct blackbox *box)
{
    return (int64_t)(box->now / NS_PER_S) + box->realtime_offset / (int64_t)NS_PER_S + DAY_S >= time(NULL);
}

/* Cheap first: neither old nor one too many is left alone without looking inside. */
static bool can_go(const struct file_left *left, bool too_many)
{
    struct blackbox *box;
    bool old = left->made.tv_sec + DAY_S < time(NULL);
    if (!old && !too_many)
        return false;
    tutti_result_t result = too_many ? blackbox_outline(left->path, &box) : blackbox_read(left->path, &box);
    if (result != TUTTI_SUCCESS)
        return boxfile_abandoned(left->path);
    bool gone = too_many ? blackbox_gone(box) : !box->alive && !gave_a_sign_today(box);
    blackbox_free(box);
    return gone;
}

void trace_file_sweep(const char *dir)
{
    char **paths;
    size_t count;
    if (boxfile_list(dir, &paths, &count) != TUTTI_SUCCESS)
        return;
    struct file_left *left = calloc(count + 1, sizeof *left);
    size_t mine = left ? file_look_at(paths, count, left) : 0;
    uint64_t bytes = 0, room = room_for(dir);
    for (size_t i = 0; i < mine; i++) {
        bytes += left[i].bytes;
        if (can_go(&left[i], i >= KEPT || bytes > room))
            unlink(left[i].path);
    }
    free(left);
    boxfile_free(paths, count);
}
