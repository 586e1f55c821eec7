/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/counters.h"
#include "paths/counters_json.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text while it is read, line by line. */
struct reading_counters {
    const char *label, *file_leaf;
    struct sent_bytes *out;
    int line;
    char leaf[COUNTERS_NAME]; /* of the walk that is read */
    struct walk_row {
        uint64_t index, bytes;
        bool counted;
        char name[COUNTERS_NAME];
    } * row; /* of that walk, by ifIndex */
    size_t rows, room;
};

void counters_free(struct sent_bytes *counters)
{
    free(counters->item);
    *counters = (struct sent_bytes){0};
}

/* "rack1.example.org:9100" is rack1, unless the fabric's name has the point, too. */
static bool is_leaf(const char *said, const char *leaf)
{
    size_t length = strlen(leaf);
    return strncmp(said, leaf, length) == 0 && strchr(".:", said[length]) != NULL;
}

bool counters_find(struct sent_bytes *counters, const char *leaf, const char *port, uint64_t *bytes)
{
    for (size_t i = 0; i < counters->count; i++) {
        const struct sent_port *at = &counters->item[(counters->next + i) % counters->count];
        if (strcmp(at->port, port) != 0 || !is_leaf(at->leaf, leaf))
            continue;
        counters->next = (size_t)(at - counters->item) + 1;
        *bytes = at->bytes;
        return true;
    }
    return false;
}

/* ---- Prometheus ---- */

/* Reads NAME="VALUE", with \" and \\ in it. NULL: the label ends nowhere. */
static const char *read_label(const char *at, char name[COUNTERS_NAME], char value[COUNTERS_NAME])
{
    size_t length = strcspn(at, "=\"},"), n = 0;
    snprintf(name, COUNTERS_NAME, "%.*s", (int)(length < COUNTERS_NAME ? length : COUNTERS_NAME), at);
    at += length;
    if (at[0] != '=' || at[1] != '"')
        return NULL;
    for (at += 2; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1])
            at++;
        if (n + 1 < COUNTERS_NAME)
            value[n++] = *at;
    }
    value[n] = 0;
    return *at ? at + 1 : NULL;
}

static tutti_result_t bad_line(const struct reading_counters *r, const char *what)
{
    return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: %s", r->label, r->line, what);
}

static bool is_word(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

/* Values are floating-point numbers: 1.5e+12. */
static bool read_bytes(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (end != text && *text != '-' && !errno && strchr(" \t\r", *end))
        return true;
    double value = strtod(text, &end);
    if (end == text || !strchr(" \t\r", *end) || !(value >= 0) || value >= 18e18)
        return false;
    *out = (uint64_t)value;
    return true;
}

static tutti_result_t read_sample(struct reading_counters *r, const char *text)
{
    static const char *const metrics[] = {"node_network_transmit_bytes_total", "ifHCOutOctets",
                                          "interfaces_interface_state_counters_out_octets", NULL};
    static const char *const ports[] = {"device", "ifName", "interface_name", NULL};
    static const char *const leaves[] = {"instance", "source", NULL};
    char name[COUNTERS_NAME], value[COUNTERS_NAME], port[COUNTERS_NAME] = "", leaf[COUNTERS_NAME];
    size_t length = strcspn(text, "{ \t");
    uint64_t bytes;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    if (!is_word(name, metrics))
        return TUTTI_SUCCESS;
    snprintf(leaf, sizeof leaf, "%s", r->file_leaf);
    text += length;
    if (*text == '{')
        for (text++; *text != '}';) {
            text = read_label(text + strspn(text, ", "), name, value);
            if (!text)
                return bad_line(r, "a label has no end");
            if (is_word(name, ports))
                snprintf(port, sizeof port, "%s", value);
            else if (is_word(name, leaves))
                snprintf(leaf, sizeof leaf, "%s", value);
            text += strspn(text, ", ");
        }
    text += *text == '}';
    if (!*port)
        return bad_line(r, "the counter names no port: device, ifName or interface_name");
    if (!read_bytes(text + strspn(text, " \t"), &bytes))
        return bad_line(r, "the counter has no number of bytes");
    return counters_add(r->label, r->out, leaf, port, bytes);
}

/* ---- SNMP walks ---- */

/* The rest of a line behind the object's name, by words or by numbers. NULL: it is another object. */
static const char *behind(const char *line, const char *words, const char *numbers)
{
    const char *at = strstr(line, "::");
    if (at && strncmp(at + 2, words, strlen(words)) == 0)
        return at + 2 + strlen(words);
    at = strncmp(line, "iso.", 4) == 0 ? line + 3 : strncmp(line, ".1.", 3) == 0 ? line + 2 : NULL;
    return at && strncmp(at, numbers, strlen(numbers)) == 0 ? at + strlen(numbers) : NULL;
}

/* The value behind " = TYPE: ", without quotes. */
static void value_of(const char *rest, char out[COUNTERS_NAME])
{
    const char *at = strstr(rest, " = ");
    const char *type = at ? strstr(at, ": ") : NULL;
    at = type ? type + 2 : at ? at + 3 : "";
    at += *at == '"';
    size_t length = strcspn(at, "\"\r\n");
    snprintf(out, COUNTERS_NAME, "%.*s", (int)(length < COUNTERS_NAME ? length : COUNTERS_NAME), at);
}

/* The row of an interface. NULL: no memory, or too many. Walks come in order, so the last one is the likely one. */
static struct walk_row *row_of(struct reading_counters *r, uint64_t index)
{
    for (size_t i = 0; i < r->rows; i++)
        if (r->row[i].index == index)
            return &r->row[i];
    if (r->rows == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        struct walk_row *grown = room <= 1 << 14 ? realloc(r->row, room * sizeof *grown) : NULL;
        if (!grown)
            return NULL;
        r->row = grown;
        r->room = room;
    }
    r->row[r->rows] = (struct walk_row){.index = index};
    return &r->row[r->rows++];
}

static tutti_result_t end_walk(struct reading_counters *r)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; !result && i < r->rows; i++)
        if (r->row[i].counted && r->row[i].name[0])
            result =
                counters_add(r->label, r->out, r->leaf[0] ? r->leaf : r->file_leaf, r->row[i].name, r->row[i].bytes);
    r->rows = 0;
    return result;
}

static tutti_result_t read_object(struct reading_counters *r, const char *line)
{
    char value[COUNTERS_NAME], *end;
    const char *name = behind(line, "ifName.", ".3.6.1.2.1.31.1.1.1.1.");
    const char *octets = name ? NULL : behind(line, "ifHCOutOctets.", ".3.6.1.2.1.31.1.1.1.10.");
    const char *system = name || octets ? NULL : behind(line, "sysName.0", ".3.6.1.2.1.1.5.0");
    if (system) {
        tutti_result_t result = end_walk(r);
        value_of(system, r->leaf);
        return result;
    }
    if (!name && !octets)
        return TUTTI_SUCCESS;
    uint64_t index = strtoull(name ? name : octets, &end, 10);
    if (end == (name ? name : octets) || *end != ' ')
        return bad_line(r, "the object has no number of an interface");
    struct walk_row *row = row_of(r, index);
    if (!row)
        return bad_line(r, "too many interfaces of one switch");
    value_of(end, value);
    if (name)
        memcpy(row->name, value, sizeof value);
    else if (!(row->counted = read_bytes(value, &row->bytes)))
        return bad_line(r, "the counter has no number of bytes");
    return TUTTI_SUCCESS;
}

/* ---- any of them ---- */

static tutti_result_t read_lines(struct reading_counters *r, const char *text, size_t length)
{
    char line[2048];
    tutti_result_t result = TUTTI_SUCCESS;
    for (const char *end = text + length; !result && text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((stop ? stop : end) - text);
        r->line++;
        if (size < sizeof line) { /* longer ones are of other objects */
            memcpy(line, text, size);
            line[size] = 0;
            if (strlen(line) != size)
                return bad_line(r, "there is a zero byte, so these are no counters");
            result = strstr(line, " = ") ? read_object(r, line) : line[0] == '#' ? TUTTI_SUCCESS : read_sample(r, line);
        }
        text += size + 1;
    }
    return result ? result : end_walk(r);
}

tutti_result_t counters_read(const char *label, const char *leaf, const char *text, size_t length,
                             struct sent_bytes *out)
{
    struct reading_counters r = {.label = label, .file_leaf = leaf, .out = out};
    size_t blank = 0, before = out->count;
    while (blank < length && strchr(" \t\r\n", text[blank]) && text[blank])
        blank++;
    bool json = blank < length && (text[blank] == '{' || text[blank] == '[');
    tutti_result_t result = json ? counters_json(label, leaf, text, length, out) : read_lines(&r, text, length);
    free(r.row);
    if (!result && out->count == before)
        result =
            error_note(TUTTI_INVALID_ARGUMENT,
                       "%s: it has no counters: neither links of tutti-lab, nor bytes that Prometheus, snmpwalk, gnmic "
                       "or sonic-db-dump tell of ports",
                       label);
    return result;
}
