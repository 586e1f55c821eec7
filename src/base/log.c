/* SPDX-License-Identifier: Apache-2.0 */
/* One write(2) a line, so that lines of several processes do not mix. */
#include "base/log.h"
#include "base/param.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"none", "version", "warn", "info", "trace"};

enum log_level log_level(void)
{
    return (enum log_level)param_int(PARAM_DEBUG);
}

/* Expands %h (host) and %p (pid) in the file name, as NCCL's users expect. */
static void expand(const char *pattern, char *out, size_t size)
{
    size_t used = 0;
    for (const char *p = pattern; *p && used + 1 < size; p++) {
        char host[64] = "";
        if (p[0] == '%' && p[1] == 'h' && gethostname(host, sizeof host - 1) == 0)
            used += (size_t)snprintf(out + used, size - used, "%s", host), p++;
        else if (p[0] == '%' && p[1] == 'p')
            used += (size_t)snprintf(out + used, size - used, "%d", (int)getpid()), p++;
        else
            out[used++] = *p;
    }
    out[used < size ? used : size - 1] = 0;
}

/* The descriptor to write to. Opened once; a loser of the race closes its own. */
static int log_fd(void)
{
    static _Atomic int cached = -1;
    int fd = atomic_load_explicit(&cached, memory_order_acquire), none = -1;
    if (fd >= 0)
        return fd;
    const char *pattern = param_string(PARAM_DEBUG_FILE);
    char path[512];
    expand(pattern, path, sizeof path);
    fd = *pattern ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : STDERR_FILENO;
    if (fd < 0)
        fd = STDERR_FILENO;
    if (!atomic_compare_exchange_strong(&cached, &none, fd)) {
        if (fd != STDERR_FILENO)
            close(fd);
        return none;
    }
    return fd;
}

void log_write(enum log_level level, const char *format, ...)
{
    char line[1400], host[64] = "?";
    gethostname(host, sizeof host - 1);
    int used =
        snprintf(line, sizeof line, "tutti %s:%d:%d [%s] ", host, (int)getpid(), (int)gettid(), level_names[level]);
    va_list args;
    va_start(args, format);
    int text = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (text < 0 ? 0 : (size_t)text);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t ignored = write(log_fd(), line, length);
    (void)ignored;
}
