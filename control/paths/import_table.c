/* SPDX-License-Identifier: Apache-2.0 */
/* Tables with commas, as NetBox takes them: devices, interfaces, addresses, cables. Headings say which one it is. */
#include "paths/import.h"

#include "base/error.h"
#include "model/fabric.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 64
#define CELLS   16384 /* bytes of a line */

struct csv {
    struct cabling *cabling;
    const char *at, *end;
    int line;          /* where the row began */
    int next_line;     /* where the next one begins */
    char heads[CELLS]; /* the headings, and */
    char cells[CELLS]; /* the row that is read */
    char *head[COLUMNS], *cell[COLUMNS];
    int columns;
};

static tutti_result_t bad_row(const struct csv *t, const char *what)
{
    return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: %s", t->cabling->label, t->line, what);
}

/* ---- reading ---- */

/* One cell up to its comma, or the end of its line. False: it has no end, or no room. */
static bool read_cell(struct csv *t, char *out, size_t room, size_t *used)
{
    bool quoted = t->at < t->end && *t->at == '"';
    t->at += quoted;
    for (; t->at < t->end; t->at++) {
        bool again = quoted && *t->at == '"' && t->at + 1 < t->end && t->at[1] == '"';
        t->at += again;
        if (!again && (quoted ? *t->at == '"' : *t->at == ',' || *t->at == '\n' || *t->at == '\r'))
            break;
        if (*used + 1 >= room || !*t->at)
            return false;
        t->next_line += *t->at == '\n';
        out[(*used)++] = *t->at;
    }
    if (quoted && t->at++ >= t->end)
        return false;
    out[(*used)++] = 0;
    return t->at >= t->end || strchr(",\r\n", *t->at);
}

/* Reads a row; blank lines are none. Returns its cells; 0: there are no more, -1: it is none. */
static int read_row(struct csv *t, char *text, char *cell[COLUMNS])
{
    size_t used = 0;
    int count = 0;
    for (; t->at < t->end && (*t->at == '\n' || *t->at == '\r'); t->at++)
        t->next_line += *t->at == '\n';
    t->line = t->next_line;
    while (t->at < t->end) {
        if (count == COLUMNS || used >= CELLS)
            return -1;
        cell[count++] = text + used;
        if (!read_cell(t, text, CELLS, &used))
            return -1;
        if (t->at >= t->end || *t->at != ',')
            break;
        t->at++;
        if (t->at == t->end && count < COLUMNS && used < CELLS) { /* the last cell is empty */
            cell[count++] = text + used;
            text[used++] = 0;
        }
    }
    return count;
}

static bool is_heading(const char *heading, const char *name)
{
    for (; *name; heading++, name++)
        if (tolower((unsigned char)*heading) != *name && !(*name == '_' && *heading == ' '))
            return false;
    return !*heading;
}

/* The row's cell under one of the headings, or "". `name`: one heading, or two with '|' between. */
static const char *cell_of(const struct csv *t, const char *name, bool *known)
{
    char one[64];
    bool found = false;
    const char *text = "";
    for (const char *at = name; *at && !found; at += *at == '|') {
        size_t length = strcspn(at, "|");
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        for (int i = 0; i < t->columns && !found; i++) {
            found = is_heading(t->head[i], one);
            text = found && t->cell[i] ? t->cell[i] : "";
        }
        at += length;
    }
    if (known)
        *known = found;
    return text;
}

static const char *cell(const struct csv *t, const char *name)
{
    return cell_of(t, name, NULL);
}

static bool has(const struct csv *t, const char *name)
{
    bool known;
    cell_of(t, name, &known);
    return known;
}

/* ---- rows ---- */

static bool speaks_of(const char *role, const char *const *words)
{
    char small[FABRIC_NAME * 2];
    size_t n = 0;
    for (; role[n] && n + 1 < sizeof small; n++)
        small[n] = (char)tolower((unsigned char)role[n]);
    small[n] = 0;
    for (; *words; words++)
        if (strstr(small, *words))
            return true;
    return false;
}

static enum cabling_kind kind_of(const char *role)
{
    static const char *const apart[] = {"mgmt", "management", "oob", "console", "border", NULL};
    static const char *const spines[] = {"spine", NULL}, *const leaves[] = {"leaf", "tor", "top of rack", NULL};
    static const char *const hosts[] = {"server", "host", "compute", "node", "gpu", NULL};
    return speaks_of(role, apart)    ? CABLING_OTHER
           : speaks_of(role, spines) ? CABLING_SPINE
           : speaks_of(role, hosts)  ? CABLING_HOST
           : speaks_of(role, leaves) ? CABLING_LEAF
                                     : CABLING_OTHER;
}

static tutti_result_t device_row(const struct csv *t)
{
    const char *name = cell(t, "name");
    return *name ? cabling_kind(t->cabling, name, kind_of(cell(t, "role|device_role"))) : TUTTI_SUCCESS;
}

/* kbit/s, or what the type says: "100gbase-x-qsfp28". 0: neither does. */
static uint64_t rate_of(const struct csv *t)
{
    const char *speed = cell(t, "speed|speed_(kbps)"), *type = cell(t, "type");
    char *end;
    double told = strtod(speed, &end) * 1e3;
    if (end == speed || *end || !(told >= 1e6 && told < 1e15)) {
        told = strtod(type, &end) * 1e9;
        if (end == type || strncmp(end, "gbase", 5) != 0 || !(told >= 1e6 && told < 1e15))
            return 0;
    }
    return (uint64_t)told;
}

static bool is_true(const char *word)
{
    return is_heading(word, "true") || is_heading(word, "yes") || strcmp(word, "1") == 0;
}

static tutti_result_t interface_row(const struct csv *t)
{
    const char *device = cell(t, "device"), *name = cell(t, "name"), *lag = cell(t, "lag"), *vrf = cell(t, "vrf");
    uint64_t rate = rate_of(t);
    tutti_result_t result = TUTTI_SUCCESS;
    if (!*device) /* of a virtual machine */
        return TUTTI_SUCCESS;
    if (is_true(cell(t, "mgmt_only|management_only")))
        return cabling_apart(t->cabling, device, name);
    if (rate)
        result = cabling_rate(t->cabling, device, name, rate);
    if (!result && *lag)
        result = cabling_bundle(t->cabling, device, name, lag);
    if (!result && *vrf)
        result = cabling_vrf(t->cabling, device, name, vrf);
    return result;
}

static tutti_result_t address_row(const struct csv *t)
{
    const char *device = cell(t, "device"), *name = cell(t, "interface");
    return *device && *name ? cabling_address(t->cabling, device, name, cell(t, "address|ip_address")) : TUTTI_SUCCESS;
}

/* An end is a port of a device; cables of power and of patch panels are others. */
static tutti_result_t cable_row(const struct csv *t)
{
    const char *a = cell(t, "side_a_device|device_a"), *b = cell(t, "side_b_device|device_b");
    const char *types[] = {cell(t, "side_a_type"), cell(t, "side_b_type")};
    for (int i = 0; i < 2; i++)
        if (*types[i] && !strstr(types[i], "interface"))
            return TUTTI_SUCCESS;
    return *a && *b ? cabling_cable(t->cabling, a, cell(t, "side_a_name|termination_a"), b,
                                    cell(t, "side_b_name|termination_b"), false)
                    : TUTTI_SUCCESS;
}

/* ---- the table ---- */

typedef tutti_result_t read_row_of(const struct csv *t);

static read_row_of *rows_of(const struct csv *t)
{
    if (has(t, "side_a_device|device_a") && has(t, "side_a_name|termination_a") && has(t, "side_b_device|device_b") &&
        has(t, "side_b_name|termination_b"))
        return cable_row;
    if (has(t, "address|ip_address") && has(t, "device") && has(t, "interface"))
        return address_row;
    if (has(t, "device") && has(t, "name"))
        return interface_row;
    return has(t, "name") && has(t, "role|device_role") ? device_row : NULL;
}

static tutti_result_t read_table(struct csv *t)
{
    int cells = read_row(t, t->heads, t->head);
    if (cells < 0)
        return bad_row(t, "neither a document of JSON, nor a line of headings with commas");
    t->columns = cells;
    read_row_of *row = rows_of(t);
    if (!row)
        return bad_row(t, "the headings are not those of devices (name, role), interfaces (device, name), addresses "
                          "(address, device, interface) or cables (side_a_device, side_a_name, side_b_device, "
                          "side_b_name)");
    tutti_result_t result = TUTTI_SUCCESS;
    while (!result && (cells = read_row(t, t->cells, t->cell)) != 0) {
        if (cells != t->columns)
            return bad_row(t, "it has not as many cells as there are headings");
        result = row(t);
    }
    return result;
}

tutti_result_t import_table(const char *text, size_t length, struct cabling *cabling)
{
    struct csv *t = calloc(1, sizeof *t);
    if (!t)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory", cabling->label);
    *t = (struct csv){.cabling = cabling, .at = text, .end = text + length, .next_line = 1};
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
    if (length >= 3 && memcmp(text, mark, 3) == 0)
        t->at += 3;
    tutti_result_t result = read_table(t);
    free(t);
    return result;
}
