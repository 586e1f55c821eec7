/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/verdicts.h"

#include "base/error.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void verdicts_path(const char *dir, uint32_t uid, char *out, size_t size)
{
    snprintf(out, size, "%s/tutti-%" PRIu32 ".verdicts", dir, uid);
}

/* Sentences hold names that programs chose. */
static void clean(char text[VERDICTS_TEXT])
{
    size_t length = strnlen(text, VERDICTS_TEXT - 1);
    memset(text + length, 0, VERDICTS_TEXT - length);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 32 || text[i] == 127)
            text[i] = ' ';
}

bool verdicts_check(struct verdict_list *list)
{
    if (list->magic != VERDICTS_MAGIC || list->version != VERDICTS_VERSION || list->count > VERDICTS_MOST)
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        clean(list->news[i].text);
        if (list->news[i].number <= (i ? list->news[i - 1].number : 0))
            return false;
    }
    return true;
}

bool verdicts_read(const char *dir, uint32_t uid, struct verdict_list *out)
{
    char path[4096];
    struct stat info;
    verdicts_path(dir, uid, path, sizeof path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool fine = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == uid &&
                pread(fd, out, sizeof *out, 0) == (ssize_t)sizeof *out && verdicts_check(out);
    close(fd);
    return fine;
}

tutti_result_t verdicts_write(const char *dir, const struct verdict_list *list)
{
    char path[4096], made[4112];
    uint32_t uid = (uint32_t)geteuid();
    verdicts_path(dir, uid, path, sizeof path);
    snprintf(made, sizeof made, "%s.%d", path, (int)getpid());
    unlink(made);
    int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, uid == 0 ? 0644 : 0600);
    bool fine = fd >= 0 && write(fd, list, sizeof *list) == (ssize_t)sizeof *list &&
                fchmod(fd, uid == 0 ? 0644 : 0600) == 0 && rename(made, path) == 0;
    if (!fine)
        error_note(TUTTI_SYSTEM_ERROR, "writing verdicts for the processes of this host into %s: %m", path);
    if (fd >= 0)
        close(fd);
    if (!fine)
        unlink(made);
    return fine ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
}
