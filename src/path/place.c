/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process is, by TUTTI_PLACE or by the line of a file that is for its host. */
#include "path/path.h"

#include "base/error.h"
#include "base/param.h"
#include "base/random.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_NAME 256

/* Names by level, parts of the text that tells them. */
struct names {
    const char *name[WIRE_PLACES];
    size_t length[WIRE_PLACES]; /* 0: not told */
};

/* The level that a text begins with, as "zone=" does; WIRE_PLACES: none. */
static unsigned level_of(const char *text, size_t *length)
{
    unsigned level = 0;
    for (; level < WIRE_PLACES; level++) {
        const char *name = wire_distance_name(WIRE_DISTANCE_RACK + level);
        *length = strlen(name) + 1;
        if (strncmp(text, name, *length - 1) == 0 && text[*length - 1] == '=')
            break;
    }
    return level;
}

static bool read_names(const char *text, struct names *out)
{
    *out = (struct names){0};
    for (;;) {
        size_t head, length = strcspn(text, ",");
        unsigned level = level_of(text, &head);
        if (level == WIRE_PLACES || out->length[level] || length == head ||
            strcspn(text + head, "= \t") < length - head)
            return false;
        out->name[level] = text + head;
        out->length[level] = length - head;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

bool path_parse_place(const char *text, uint32_t place[WIRE_PLACES])
{
    struct names names;
    uint64_t hash = 0;
    bool told = false;
    if (!read_names(text, &names))
        return false;
    for (unsigned i = 0; i < WIRE_PLACES; i++)
        place[i] = told |= names.length[i] > 0;
    for (unsigned i = WIRE_PLACES; i-- > 0;) { /* the same name in two zones is two racks */
        hash = hash_bytes(hash, names.length[i] ? names.name[i] : "", names.length[i]);
        place[i] = place[i] ? (uint32_t)hash | 1 : 0;
    }
    return true;
}

static tutti_result_t place_refuse(const char *from, unsigned line, const char *text)
{
    char at[32] = "";
    if (line)
        snprintf(at, sizeof at, ", line %u", line);
    return error_set(
        TUTTI_INVALID_ARGUMENT,
        "%s%s: \"%s\" is no place: LEVEL=NAME[,LEVEL=NAME...] is, of the levels rack, zone, building and campus "
        "each once at most",
        from, at, text);
}

/* Parts of a line: a pattern of host names, then a place or nothing. NULL: the line has none. */
static const char *place_split(char *line, const char **place)
{
    char *rest = NULL;
    line[strcspn(line, "#\r\n")] = 0;
    for (size_t end = strlen(line); end && strchr(" \t", line[end - 1]); end--)
        line[end - 1] = 0;
    const char *pattern = strtok_r(line, " \t", &rest);
    *place = pattern ? rest + strspn(rest, " \t") : "";
    return pattern;
}

static tutti_result_t read_line_of(FILE *file, const char *path, const char *host, uint32_t *place)
{
    char *line = NULL;
    const char *text;
    size_t room = 0;
    unsigned number = 0;
    bool found = false;
    tutti_result_t result = TUTTI_SUCCESS;
    while (!found && getline(&line, &room, file) >= 0) {
        const char *pattern = place_split(line, &text);
        number++;
        found = pattern && fnmatch(pattern, host, 0) == 0;
    }
    if (!found)
        result = error_set(TUTTI_INVALID_ARGUMENT,
                           "%s has no line for host %s: \"HOST PLACE\", where HOST may have * and ? in it", path, host);
    else if (*text && !path_parse_place(text, place))
        result = place_refuse(path, number, text);
    free(line);
    return result;
}

static tutti_result_t place_read_file(const char *path, uint32_t *place)
{
    char host[HOST_NAME] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(TUTTI_INVALID_ARGUMENT, "TUTTI_PLACE_FILE: cannot read %s: %s", path, strerror(errno));
    gethostname(host, sizeof host - 1);
    tutti_result_t result = read_line_of(file, path, host, place);
    fclose(file);
    return result;
}

tutti_result_t path_settings(struct wire_process *self)
{
    const char *text = param_string(PARAM_PLACE), *path = param_string(PARAM_PLACE_FILE),
               *windows = param_string(PARAM_WINDOWS);
    const char *queues = param_string(PARAM_QUEUES);
    struct path_windows none;
    uint64_t lengths[WIRE_DISTANCES];
    tutti_result_t result = TUTTI_SUCCESS;
    if (*text && !path_parse_place(text, self->place))
        result = place_refuse("TUTTI_PLACE", 0, text);
    else if (!*text && *path)
        result = place_read_file(path, self->place);
    if (result == TUTTI_SUCCESS && !path_parse_windows(windows, &none))
        result = error_set(
            TUTTI_INVALID_ARGUMENT,
            "TUTTI_WINDOWS: \"%s\" is not DISTANCE=SEGMENTS[/BYTES][@US][,DISTANCE=...], of the distances host, rack, "
            "zone, building, campus and far each once at most",
            windows);
    if (result == TUTTI_SUCCESS && !path_parse_queues(queues, &none))
        result = error_set(TUTTI_INVALID_ARGUMENT,
                           "TUTTI_QUEUES: \"%s\" is not DISTANCE=NUMBER[,DISTANCE=...], of the distances host, rack, "
                           "zone, building, campus and far each once at most",
                           queues);
    if (result == TUTTI_SUCCESS && !path_parse_segments(param_string(PARAM_SEGMENTS), lengths))
        result =
            error_set(TUTTI_INVALID_ARGUMENT,
                      "TUTTI_SEGMENTS: \"%s\" is not DISTANCE=BYTES[,DISTANCE=...], of 4096 bytes and more, of the "
                      "distances host, rack, zone, building, campus and far each once at most",
                      param_string(PARAM_SEGMENTS));
    return result;
}
