/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and files of hosts. */
#include "cli/hosts.h"
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 1024 };

/* A good name is one plain word for a shell and for ssh, too. */
static bool good_name(const char *name)
{
    if (!isalnum((unsigned char)*name) && *name != '_' && *name != ':')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-@:%", *name))
            return false;
    return true;
}

/* Cuts ":2" off the name. An IPv6 address has more than one colon, and stands in brackets if slots follow. */
static bool cut_slots(char *name, int *slots)
{
    char *close = *name == '[' ? strchr(name, ']') : NULL;
    char *colon = close ? (close[1] ? close + 1 : NULL) : strchr(name, ':');
    if (colon && !close && strchr(colon + 1, ':'))
        return true;
    if (colon && (*colon != ':' || !text_int(colon + 1, 1, MOST_SLOTS, slots)))
        return false;
    if (colon)
        *colon = 0;
    if (close) {
        *close = 0;
        memmove(name, name + 1, strlen(name));
    }
    return true;
}

static bool add(struct hosts *hosts, char *name, int slots, char *why, int size)
{
    char whole[LONGEST_LINE];
    snprintf(whole, sizeof whole, "%s", name);
    if (!cut_slots(name, &slots))
        return snprintf(why, (size_t)size, "\"%s\": want HOST:N with N from 1 to %d", whole, MOST_SLOTS), false;
    if (!good_name(name) || strlen(name) >= HOST_NAME)
        return snprintf(why, (size_t)size, "\"%s\" is no name of a host", whole), false;
    for (int i = 0; i < hosts->count; i++)
        if (strcmp(hosts->all[i].name, name) == 0)
            return snprintf(why, (size_t)size, "host %s is named twice", name), false;
    if (hosts->count == MOST_HOSTS)
        return snprintf(why, (size_t)size, "more than %d hosts", MOST_HOSTS), false;
    struct host *all = realloc(hosts->all, (size_t)(hosts->count + 1) * sizeof *all);
    if (!all)
        return snprintf(why, (size_t)size, "%s", strerror(errno)), false;
    hosts->all = all;
    all[hosts->count] = (struct host){.slots = slots};
    snprintf(all[hosts->count++].name, HOST_NAME, "%s", name);
    return true;
}

bool hosts_list(struct hosts *hosts, const char *text, char *why, int size)
{
    char *copy = strdup(text), *rest = copy, *name;
    bool good = copy != NULL;
    while (good && (name = strsep(&rest, ",")))
        good = strlen(name) < LONGEST_LINE ? add(hosts, name, 1, why, size)
                                           : (snprintf(why, (size_t)size, "a name of a host is too long"), false);
    free(copy);
    return good;
}

static bool add_line(struct hosts *hosts, char *line, char *why, int size)
{
    int slots = 1;
    line[strcspn(line, "#\n")] = 0;
    char *rest = NULL, *name = strtok_r(line, " \t\r", &rest), *more = name ? strtok_r(NULL, " \t\r", &rest) : NULL;
    if (!name)
        return true;
    if (more && (strncmp(more, "slots=", 6) != 0 || !text_int(more + 6, 1, MOST_SLOTS, &slots) ||
                 strtok_r(NULL, " \t\r", &rest)))
        return snprintf(why, (size_t)size, "after host %.100s: want slots=N with N from 1 to %d", name, MOST_SLOTS),
               false;
    return add(hosts, name, slots, why, size);
}

bool hosts_file(struct hosts *hosts, const char *path, char *why, int size)
{
    char line[LONGEST_LINE], what[LONGEST_LINE];
    int number = 0;
    bool good = true;
    FILE *file = fopen(path, "re");
    if (!file)
        return snprintf(why, (size_t)size, "%s: %s", path, strerror(errno)), false;
    while (good && fgets(line, sizeof line, file)) {
        number++;
        if (!strchr(line, '\n') && !feof(file))
            good = (snprintf(what, sizeof what, "the line is too long"), false);
        else
            good = add_line(hosts, line, what, sizeof what);
    }
    if (!good)
        snprintf(why, (size_t)size, "%.200s, line %d: %.700s", path, number, what);
    else if (ferror(file))
        good = (snprintf(why, (size_t)size, "%s: %s", path, strerror(errno)), false);
    else if (!hosts->count)
        good = (snprintf(why, (size_t)size, "%s names no host", path), false);
    fclose(file);
    return good;
}

int hosts_place(struct hosts *hosts, int size)
{
    int placed = 0, used = 0;
    for (; used < hosts->count && (!size || placed < size); used++) {
        struct host *host = &hosts->all[used];
        host->first = placed;
        host->ranks = size && size - placed < host->slots ? size - placed : host->slots;
        placed += host->ranks;
    }
    if (placed < size)
        return 0;
    hosts->count = used;
    return placed;
}

void hosts_close(struct hosts *hosts)
{
    free(hosts->all);
    *hosts = (struct hosts){0};
}
