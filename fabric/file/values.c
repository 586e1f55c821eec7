/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a fabric's file. */
#include "file/values.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_OF_RANGE (1 << 20)

struct unit {
    const char *name;
    double factor;
};

/* Reads a number that is not negative, and one of the units behind it. */
static bool with_unit(const char *text, const struct unit *units, double *out)
{
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    double value = strtod(text, &end);
    for (; end != text && units->name; units++)
        if (strcasecmp(end, units->name) == 0) {
            *out = value * units->factor;
            return isfinite(value);
        }
    return false;
}

bool value_rate(const char *text, double *out)
{
    static const struct unit units[] = {
        {"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}, {"tbit", 1e12 / 8}, {0}};
    double value;
    if (strcasecmp(text, "none") == 0) {
        *out = INFINITY;
        return true;
    }
    if (!with_unit(text, units, &value) || value < 1e3 / 8 || value > 1e17 / 8)
        return false;
    *out = value;
    return true;
}

bool value_time(const char *text, double *out)
{
    static const struct unit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {0}};
    double value;
    if (!with_unit(text, units, &value) || value > 1000)
        return false;
    *out = value;
    return true;
}

tutti_result_t read_rate(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    if (!text || !value_rate(text, out))
        return config_fail(file, node,
                           "%s: \"%s\" is not a rate; write a number with kbit, mbit, gbit or tbit, such as 400gbit, "
                           "or none for no limit",
                           key->name, config_shown(node));
    return TUTTI_SUCCESS;
}

tutti_result_t read_time(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    if (!text || !value_time(text, out))
        return config_fail(file, node, "%s: \"%s\" is not a time; write a number with ns, us, ms or s, such as 5us",
                           key->name, config_shown(node));
    return TUTTI_SUCCESS;
}

tutti_result_t read_node(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    *(yaml_node_t **)out = node;
    return TUTTI_SUCCESS;
}

/* ---- names ---- */

static bool letters_ok(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.:", text[i]))
            return false;
    return true;
}

/* "[FIRST-LAST]" */
static bool read_bracket(const char *text, struct name_range *out)
{
    char *end;
    if (!isdigit((unsigned char)text[1]))
        return false;
    long first = strtol(text + 1, &end, 10);
    out->width = (int)(end - (text + 1));
    if (*end != '-' || !isdigit((unsigned char)end[1]))
        return false;
    long last = strtol(end + 1, &end, 10);
    if (*end != ']' || first > last || last >= 1 << 30 || last - first >= MOST_OF_RANGE)
        return false;
    out->first = (int)first;
    out->count = (int)(last - first + 1);
    out->behind = end + 1;
    return true;
}

bool name_range(const char *text, struct name_range *out)
{
    const char *bracket = text ? strchr(text, '[') : NULL;
    size_t length = text ? strlen(text) : 0, before = bracket ? (size_t)(bracket - text) : length;
    if (length == 0 || length >= 128 || !letters_ok(text, before))
        return false;
    *out = (struct name_range){.text = text, .before = (int)before, .behind = "", .count = 1};
    if (!bracket)
        return length < FABRIC_NAME;
    if (!read_bracket(bracket, out) || !letters_ok(out->behind, strlen(out->behind)))
        return false;
    int digits = snprintf(NULL, 0, "%d", out->first + out->count - 1);
    digits = digits > out->width ? digits : out->width;
    return before + (size_t)digits + strlen(out->behind) < FABRIC_NAME;
}

void name_of(const struct name_range *range, int index, char out[FABRIC_NAME])
{
    char digits[FABRIC_NAME] = "";
    if (range->width)
        snprintf(digits, sizeof digits, "%0*d", range->width, range->first + index);
    snprintf(out, FABRIC_NAME, "%.*s%s%s", range->before, range->text, digits, range->behind);
}

static int entries_by_name(const void *left, const void *right)
{
    const struct name_entry *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : a->number - b->number;
}

bool name_index_make(struct name_index *index, const void *items, size_t size, int32_t count, int32_t *twice)
{
    *twice = -1;
    *index = (struct name_index){.entry = malloc(((size_t)count + 1) * sizeof *index->entry), .count = count};
    if (!index->entry)
        return false;
    for (int32_t i = 0; i < count; i++)
        index->entry[i] = (struct name_entry){(const char *)items + (size_t)i * size, i};
    qsort(index->entry, (size_t)count, sizeof *index->entry, entries_by_name);
    for (int32_t i = 1; i < count; i++)
        if (strcmp(index->entry[i - 1].name, index->entry[i].name) == 0) {
            *twice = index->entry[i].number;
            return false;
        }
    return true;
}

int32_t name_index_find(const struct name_index *index, const char *name)
{
    int32_t low = 0, high = index->count - 1;
    while (low <= high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(index->entry[middle].name, name);
        if (order == 0)
            return index->entry[middle].number;
        if (order < 0)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

void name_index_free(struct name_index *index)
{
    free(index->entry);
    *index = (struct name_index){0};
}

tutti_result_t read_name(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    struct name_range range;
    const char *text = config_text(node);
    if (!name_range(text, &range) || range.width)
        return config_fail(file, node, "%s: \"%s\" is no name; write letters, digits and -_.: (%d at most)", key->name,
                           config_shown(node), FABRIC_NAME - 1);
    snprintf(out, FABRIC_NAME, "%s", text);
    return TUTTI_SUCCESS;
}
