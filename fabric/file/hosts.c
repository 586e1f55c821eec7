/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of hosts. */
#include "file/hosts.h"
#include "base/error.h"
#include "file/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (64 << 20) /* bytes */
#define WORD       256

void host_list_free(struct host_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->line[i].text);
    free(list->line);
    *list = (struct host_list){0};
}

struct hosts_reading {
    const char *label;
    const struct fabric *fabric;
    struct name_index names;
    bool *taken, again;
    int number, room;
    struct host_list list;
};

static int32_t by_address(const struct fabric *fabric, const char *word)
{
    for (int32_t n = 0; n < fabric->nics; n++)
        if (strcmp(fabric->nic[n].address, word) == 0)
            return fabric->nic[n].host;
    return -1;
}

static int32_t look_up(const struct hosts_reading *r, char *word)
{
    int32_t host = name_index_find(&r->names, word);
    if (host < 0)
        host = by_address(r->fabric, word);
    for (const char *mark = ":."; host < 0 && *mark; mark++) { /* without slots, then without a domain */
        char *end = strchr(word, *mark);
        if (!end)
            continue;
        *end = 0;
        host = name_index_find(&r->names, word);
        host = host < 0 && *mark == ':' ? by_address(r->fabric, word) : host;
    }
    return host;
}

static tutti_result_t keep(struct hosts_reading *r, const char *line, size_t length, int32_t host)
{
    if (r->list.count == r->room) {
        int room = r->room ? 2 * r->room : 64;
        void *grown = realloc(r->list.line, (size_t)room * sizeof *r->list.line);
        if (!grown)
            return error_note(TUTTI_SYSTEM_ERROR, "%s: out of memory", r->label);
        r->list.line = grown;
        r->room = room;
    }
    char *text = strndup(line, length);
    if (!text)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: out of memory", r->label);
    r->list.line[r->list.count++] = (struct host_line){text, host};
    return TUTTI_SUCCESS;
}

static tutti_result_t read_line(struct hosts_reading *r, const char *line, size_t length)
{
    char word[WORD];
    size_t blank = strspn(line, " \t\r"), end = strcspn(line + blank, " \t\r\n,#");
    if (blank >= length || end == 0)
        return TUTTI_SUCCESS;
    if (end >= sizeof word)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: host: a name of %zu characters; at most %d", r->label,
                          r->number, end, WORD - 1);
    snprintf(word, sizeof word, "%.*s", (int)end, line + blank);
    int32_t host = look_up(r, word);
    if (host < 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: host: the fabric %s has no \"%.*s\"", r->label, r->number,
                          r->fabric->name, (int)end, line + blank);
    if (r->taken[host] && !r->again)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: host: %s is there twice", r->label, r->number,
                          r->fabric->host[host].name);
    r->taken[host] = true;
    return keep(r, line, length, host);
}

tutti_result_t host_list_parse(const char *label, const char *text, const struct fabric *fabric, bool again,
                               struct host_list *out)
{
    struct hosts_reading r = {.label = label, .fabric = fabric, .again = again};
    int32_t twice;
    tutti_result_t result = TUTTI_SUCCESS;
    r.taken = calloc((size_t)fabric->hosts + 1, sizeof *r.taken);
    if (!r.taken || !name_index_make(&r.names, fabric->host->name, sizeof *fabric->host, fabric->hosts, &twice))
        result = error_note(TUTTI_SYSTEM_ERROR, "%s: out of memory", label);
    while (!result && *text) {
        size_t length = strcspn(text, "\n");
        r.number++;
        result = read_line(&r, text, length);
        text += length + (text[length] == '\n');
    }
    if (!result && !r.list.count)
        result = error_note(TUTTI_INVALID_ARGUMENT, "%s: it names no host", label);
    free(r.taken);
    name_index_free(&r.names);
    if (result)
        host_list_free(&r.list);
    *out = r.list;
    return result;
}

tutti_result_t host_list_load(const char *path, const struct fabric *fabric, bool again, struct host_list *out)
{
    char *data = NULL;
    size_t length = 0;
    tutti_result_t result = config_read_file(path, FILE_LIMIT, &data, &length);
    if (!result && strlen(data) != length)
        result = error_note(TUTTI_INVALID_ARGUMENT, "%s: there is a zero byte, so the file is no list of hosts", path);
    if (!result)
        result = host_list_parse(path, data, fabric, again, out);
    free(data);
    return result;
}
