/* SPDX-License-Identifier: Apache-2.0 */
/* Files under /run/tutti-lab. */
#include "lab/state.h"
#include "base/error.h"
#include "base/parse.h"
#include "wiring/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {"ready", "topology.yaml", "hosts", "zero", "user", "new"};

/* Another process may remove the folder between open and flock: then the lock is on a folder that nobody sees. */
static bool is_current(int fd)
{
    struct stat held, seen;
    return fstat(fd, &held) == 0 && stat(STATE_FOLDER, &seen) == 0 && held.st_ino == seen.st_ino &&
           held.st_dev == seen.st_dev;
}

tutti_result_t state_lock(int *lock)
{
    for (;;) {
        if (mkdir(STATE_FOLDER, 0755) != 0 && errno != EEXIST)
            return error_note(TUTTI_SYSTEM_ERROR, "making " STATE_FOLDER ": %s", strerror(errno));
        *lock = open(STATE_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*lock < 0 && errno == ENOENT)
            continue;
        if (*lock < 0)
            return error_note(TUTTI_SYSTEM_ERROR, "opening " STATE_FOLDER ": %s", strerror(errno));
        int failed;
        while ((failed = flock(*lock, LOCK_EX)) != 0 && errno == EINTR)
            ;
        if (!failed && is_current(*lock))
            return TUTTI_SUCCESS;
        close(*lock);
        if (failed)
            return error_note(TUTTI_SYSTEM_ERROR, "locking " STATE_FOLDER ": %s", strerror(errno));
    }
}

void state_unlock(int lock)
{
    rmdir(STATE_FOLDER); /* fails, rightly, while labs are up */
    close(lock);
}

void state_path(const char *name, const char *file, char *out, size_t size)
{
    snprintf(out, size, STATE_FOLDER "/%s%s%s", name, *file ? "/" : "", file);
}

bool state_exists(const char *name)
{
    char path[128];
    struct stat info;
    state_path(name, "", path, sizeof path);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

tutti_result_t state_create(const char *name)
{
    char path[128];
    state_path(name, "", path, sizeof path);
    return mkdir(path, 0755) == 0 || errno == EEXIST
               ? TUTTI_SUCCESS
               : error_note(TUTTI_SYSTEM_ERROR, "making %s: %s", path, strerror(errno));
}

tutti_result_t state_remove(const char *name)
{
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        state_path(name, files[i], path, sizeof path);
        unlink(path);
    }
    state_path(name, "", path, sizeof path);
    return rmdir(path) == 0 || errno == ENOENT
               ? TUTTI_SUCCESS
               : error_note(TUTTI_SYSTEM_ERROR, "removing %s: %s", path, strerror(errno));
}

tutti_result_t state_write(const char *name, const char *file, const struct text *text)
{
    char path[128], fresh[128];
    state_path(name, file, path, sizeof path);
    state_path(name, "new", fresh, sizeof fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "making %s: %s", fresh, strerror(errno));
    tutti_result_t result = text_write(text, fd, fresh);
    close(fd);
    if (result == TUTTI_SUCCESS && rename(fresh, path) != 0)
        result = error_note(TUTTI_SYSTEM_ERROR, "renaming %s to %s: %s", fresh, path, strerror(errno));
    return result;
}

static bool parse_user(const char *text, uid_t *out)
{
    int64_t number;
    bool good = text && parse_int(text, &number) && number >= 0 && number < UINT32_MAX;
    if (good)
        *out = (uid_t)number;
    return good;
}

uid_t state_user(void)
{
    uid_t user = getuid();
    if (user == 0)
        parse_user(getenv("SUDO_UID"), &user);
    return user;
}

uid_t state_user_of(const char *name)
{
    char path[128], number[24] = "";
    uid_t user = 0;
    state_path(name, "user", path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return user;
    ssize_t length = read(fd, number, sizeof number - 1);
    close(fd);
    number[length > 0 ? length : 0] = 0;
    parse_user(number, &user);
    return user;
}

void state_user_name(uid_t user, char *out, size_t size)
{
    const struct passwd *entry = getpwuid(user);
    if (entry)
        snprintf(out, size, "%s", entry->pw_name);
    else
        snprintf(out, size, "%u", (unsigned)user);
}

tutti_result_t state_list(bool own, struct text *out, int *count)
{
    *count = 0;
    DIR *folder = opendir(STATE_FOLDER);
    if (!folder)
        return errno == ENOENT ? TUTTI_SUCCESS
                               : error_note(TUTTI_SYSTEM_ERROR, "reading " STATE_FOLDER ": %s", strerror(errno));
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (config_name_ok(entry->d_name) && (!own || state_user_of(entry->d_name) == state_user())) {
            text_add(out, "%s\n", entry->d_name);
            ++*count;
        }
    closedir(folder);
    return text_ok(out);
}

/* Names with spaces between them. */
static tutti_result_t list_names(bool own, struct text *names, int *count)
{
    tutti_result_t result = state_list(own, names, count);
    for (size_t i = 0; i < names->length; i++)
        if (names->data[i] == '\n')
            names->data[i] = i + 1 < names->length ? ' ' : 0;
    return result;
}

static tutti_result_t choose_only(char *out, size_t size)
{
    struct text own = {0}, all = {0};
    int count = 0, others = 0;
    tutti_result_t result = list_names(true, &own, &count);
    if (result == TUTTI_SUCCESS && count == 0)
        result = list_names(false, &all, &others);
    if (result == TUTTI_SUCCESS && others > 0)
        result = error_note(TUTTI_INVALID_USAGE,
                            "no lab of yours is up, but another user's (%s); choose it with --name", all.data);
    else if (result == TUTTI_SUCCESS && count == 0)
        result = error_note(TUTTI_INVALID_USAGE, "no lab is up; begin with \"tutti-lab up FILE\"");
    else if (result == TUTTI_SUCCESS && count > 1)
        result = error_note(TUTTI_INVALID_USAGE, "%d labs are up (%s); choose one with --name", count, own.data);
    else if (result == TUTTI_SUCCESS)
        snprintf(out, size, "%s", own.data);
    text_free(&own);
    text_free(&all);
    return result;
}

tutti_result_t state_choose(const char *given, char *out, size_t size)
{
    const char *around = getenv("LAB_NAME");
    if (!given && around && *around)
        given = around;
    if (!given)
        return choose_only(out, size);
    if (!config_name_ok(given))
        return error_note(TUTTI_INVALID_ARGUMENT, "\"%s\" is not the name of a lab", given);
    if (!state_exists(given))
        return error_note(TUTTI_INVALID_USAGE, "no lab named %s is up; \"tutti-lab list\" shows those that are", given);
    snprintf(out, size, "%s", given);
    return TUTTI_SUCCESS;
}

tutti_result_t state_load(const char *name, struct lab_topology *out)
{
    char path[128];
    state_path(name, "topology.yaml", path, sizeof path);
    tutti_result_t result = config_load(path, out);
    if (result == TUTTI_SUCCESS)
        snprintf(out->spec.name, sizeof out->spec.name, "%s", name); /* --name may have changed it */
    return result;
}
