/* SPDX-License-Identifier: Apache-2.0 */
/* The file or socket that a process waits for: by the call that its threads are in, and the descriptor in it. */
#include "evidence/parts.h"

#include "wire/boxfile.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PROCESSES_MOST 8192 /* processes to ask for the other end of a pipe */
#define TABLE_BYTES    (4u << 20)

enum call_kind { OF_FILE, OF_POLL, OF_EPOLL };

static const struct awaited_call {
    long number;
    const char *name;
    enum call_kind kind;
} calls[] = {
    {SYS_read, "read", OF_FILE},
    {SYS_pread64, "read", OF_FILE},
    {SYS_readv, "read", OF_FILE},
    {SYS_preadv, "read", OF_FILE},
    {SYS_write, "write", OF_FILE},
    {SYS_pwrite64, "write", OF_FILE},
    {SYS_writev, "write", OF_FILE},
    {SYS_pwritev, "write", OF_FILE},
    {SYS_fsync, "fsync", OF_FILE},
    {SYS_fdatasync, "fsync", OF_FILE},
    {SYS_ftruncate, "ftruncate", OF_FILE},
    {SYS_fallocate, "fallocate", OF_FILE},
    {SYS_flock, "flock", OF_FILE},
    {SYS_fcntl, "fcntl", OF_FILE},
    {SYS_fstat, "fstat", OF_FILE},
    {SYS_close, "close", OF_FILE},
    {SYS_ioctl, "ioctl", OF_FILE},
    {SYS_getdents64, "getdents", OF_FILE},
    {SYS_connect, "connect", OF_FILE},
    {SYS_accept, "accept", OF_FILE},
    {SYS_accept4, "accept", OF_FILE},
    {SYS_recvfrom, "recv", OF_FILE},
    {SYS_recvmsg, "recv", OF_FILE},
    {SYS_sendto, "send", OF_FILE},
    {SYS_sendmsg, "send", OF_FILE},
    {SYS_ppoll, "poll", OF_POLL},
#ifdef SYS_poll
    {SYS_poll, "poll", OF_POLL},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait", OF_EPOLL},
#endif
    {SYS_epoll_pwait, "epoll_wait", OF_EPOLL},
};

/* A whole text of /proc; the caller frees it. NULL: not there, not allowed, no memory. */
static char *text_of(uint32_t pid, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/%s", pid, file);
    FILE *in = fopen(path, "re");
    char *text = in ? malloc(TABLE_BYTES) : NULL;
    size_t got = text ? fread(text, 1, TABLE_BYTES - 1, in) : 0;
    if (text)
        text[got] = 0;
    if (in)
        fclose(in);
    return text;
}

/* ---- Sockets ---- */

/* "0100007F:1F90": the address is in the byte order of the host, by words. */
static bool read_end(const char *text, char *out, size_t size)
{
    unsigned words[4], port;
    char address[INET6_ADDRSTRLEN];
    if (sscanf(text, "%8x%8x%8x%8x:%4x", words, words + 1, words + 2, words + 3, &port) == 5) {
        if (!inet_ntop(AF_INET6, words, address, sizeof address))
            return false;
        snprintf(out, size, "[%s]:%u", address, port);
        return true;
    }
    if (sscanf(text, "%8x:%4x", words, &port) != 2 || !inet_ntop(AF_INET, words, address, sizeof address))
        return false;
    snprintf(out, size, "%s:%u", address, port);
    return true;
}

/* A row: "0: 0100007F:1F90 0100007F:C350 01 00000000:00000010 00:00000000 00000000  1000  0 123 ...". */
bool awaited_tcp(const char *text, uint64_t inode, char *out, size_t size)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char row[256], ends[2][64], from[64], to[64];
        unsigned state, queued, arrived, again;
        uint64_t number;
        snprintf(row, sizeof row, "%.*s", (int)strcspn(line, "\n"), line);
        if (sscanf(row, " %*u: %63s %63s %x %x:%x %*x:%*x %x %*u %*u %" SCNu64, ends[0], ends[1], &state, &queued,
                   &arrived, &again, &number) != 7 ||
            number != inode || !read_end(ends[0], from, sizeof from) || !read_end(ends[1], to, sizeof to))
            continue;
        if (state == 10)
            snprintf(out, size, "TCP %s, which listens", from);
        else
            snprintf(out, size, "TCP %s to %s, %u bytes to send, %u to read, sent again %u times", from, to, queued,
                     arrived, again);
        return true;
    }
    return false;
}

static void say_socket(uint32_t pid, uint64_t inode, char *out, size_t size)
{
    static const char *const tables[] = {"net/tcp", "net/tcp6"};
    for (size_t i = 0; i < 2; i++) {
        char *text = text_of(pid, tables[i]);
        bool found = text && awaited_tcp(text, inode, out, size);
        free(text);
        if (found)
            return;
    }
    snprintf(out, size, "socket %" PRIu64, inode);
}

/* ---- Files ---- */

/* A row: "36 35 98:0 /root /mnt rw - nfs4 server:/data rw". The longest mount point counts. */
bool awaited_mount(const char *text, const char *path, char *out, size_t size)
{
    size_t longest = 0;
    bool found = false;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char row[1024], point[512], type[64], source[256];
        snprintf(row, sizeof row, "%.*s", (int)strcspn(line, "\n"), line);
        const char *rest = strstr(row, " - ");
        if (!rest || sscanf(row, "%*s %*s %*s %*s %511s", point) != 1 ||
            sscanf(rest, " - %63s %255s", type, source) != 2)
            continue;
        size_t length = strcmp(point, "/") == 0 ? 0 : strlen(point);
        bool in = strncmp(path, point, length) == 0 && (!length || path[length] == '/' || !path[length]);
        if (!in || (found && length < longest))
            continue;
        snprintf(out, size, "%s, %s", type, source);
        longest = length;
        found = true;
    }
    return found;
}

/* The first other process that has this pipe, of those that this user may look at. */
static uint32_t other_end(uint32_t pid, const char *pipe)
{
    uint32_t found = 0;
    int looked = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && !found && looked < PROCESSES_MOST && (entry = readdir(all));) {
        char path[320], target[64];
        uint32_t other = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (!other || other == pid)
            continue;
        looked++;
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd", other);
        DIR *files = opendir(path);
        for (struct dirent *file; files && !found && (file = readdir(files));) {
            snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd/%.16s", other, file->d_name);
            ssize_t length = readlink(path, target, sizeof target - 1);
            target[length < 0 ? 0 : length] = 0;
            found = strcmp(target, pipe) == 0 ? other : 0;
        }
        if (files)
            closedir(files);
    }
    if (all)
        closedir(all);
    return found;
}

static void say_pipe(uint32_t pid, const char *pipe, char *out, size_t size)
{
    char path[64], name[32];
    uint32_t other = other_end(pid, pipe);
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/comm", other);
    if (!other || !boxfile_slurp(path, name, sizeof name)) {
        snprintf(out, size, "a pipe of which no other process has an end");
        return;
    }
    name[strcspn(name, "\n")] = 0;
    evidence_clean(name);
    snprintf(out, size, "a pipe to process %" PRIu32 " (%s)", other, name);
}

/* False: the process does not have this descriptor, or this user may not know. */
static bool say_descriptor(uint32_t pid, int64_t fd, char *out, size_t size)
{
    char path[64], target[PATH_MAX];
    uint64_t inode;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd/%" PRId64, pid, fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = 0;
    evidence_clean(target);
    if (sscanf(target, "socket:[%" SCNu64 "]", &inode) == 1) {
        say_socket(pid, inode, out, size);
        return true;
    }
    if (strncmp(target, "pipe:[", 6) == 0) {
        say_pipe(pid, target, out, size);
        return true;
    }
    char mount[96] = "", *text = *target == '/' ? text_of(pid, "mountinfo") : NULL;
    bool known = text && awaited_mount(text, target, mount, sizeof mount);
    free(text);
    evidence_clean(mount);
    snprintf(out, size, "%s%.80s%s%s%s", length > 80 ? "..." : "", target + (length > 80 ? length - 80 : 0),
             known ? " (" : "", mount, known ? ")" : "");
    return true;
}

/* ---- Calls ---- */

/* The first descriptor in a call of poll, by the memory of the process. */
static int64_t polled(uint32_t pid, uint64_t address, uint64_t count)
{
    struct pollfd first = {.fd = -1};
    struct iovec here = {&first, sizeof first}, there = {(void *)(uintptr_t)address, sizeof first};
    if (!count || process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof first)
        return -1;
    return first.fd;
}

/* The first descriptor that this one of epoll watches: "tfd:        7 events: ...". */
static int64_t watched(uint32_t pid, int64_t epoll)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/fdinfo/%" PRId64, pid, epoll);
    const char *line = boxfile_slurp(path, text, sizeof text) ? strstr(text, "tfd:") : NULL;
    return line ? strtol(line + 4, NULL, 10) : -1;
}

/* A text of /proc/PID/task/TID/syscall: "0 0x3 0x7ffc 0x10 ...", or "running". */
static bool say_call(uint32_t pid, const char *thread, const char *text, char line[EVIDENCE_LINE])
{
    long number;
    uint64_t first, second;
    char what[160];
    if (sscanf(text, "%ld 0x%" SCNx64 " 0x%" SCNx64, &number, &first, &second) != 3)
        return false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (calls[i].number != number)
            continue;
        int64_t fd = calls[i].kind == OF_FILE   ? (int64_t)(int32_t)first
                     : calls[i].kind == OF_POLL ? polled(pid, first, second)
                                                : watched(pid, (int64_t)(int32_t)first);
        if (fd < 0 || !say_descriptor(pid, fd, what, sizeof what))
            return false;
        snprintf(line, EVIDENCE_LINE, "thread %.12s waits in %s of %s", thread, calls[i].name, what);
        return true;
    }
    return false;
}

/* The first thread is the program's; others may be the library's, which watch over sockets all the time. */
bool awaited_line(uint32_t pid, char line[EVIDENCE_LINE])
{
    char path[96], text[256], number[16];
    snprintf(number, sizeof number, "%" PRIu32, pid);
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%s/syscall", pid, number);
    return boxfile_slurp(path, text, sizeof text) && say_call(pid, number, text, line);
}
