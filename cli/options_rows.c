/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table of options, and how they are spelled. */
#include "cli/options_rows.h"

#include <stdio.h>
#include <string.h>

static const struct option_row help_row = {'h', "help", NULL, "this text", .kind = OPTION_CALL};

const struct option_row *option_row(const struct options *options, size_t index)
{
    return index < options->count ? &options->rows[index] : index == options->count ? &help_row : NULL;
}

bool row_is_np(const struct option_row *row)
{
    return row->name && strcmp(row->name, "np") == 0;
}

void option_label(const struct option_row *row, char *out, size_t room)
{
    char letter[5] = "", name[40] = "";
    if (row->letter)
        snprintf(letter, sizeof letter, row->name ? "-%c, " : "-%c", row->letter);
    if (row->name)
        snprintf(name, sizeof name, row_is_np(row) ? "-np, --%s" : "--%s", row->name);
    snprintf(out, room, "%s%s", letter, name);
}

const char *options_list(const char *words, char *out, size_t room)
{
    size_t used = 0;
    *out = 0;
    while (*words && used < room) {
        size_t here = strcspn(words, " ");
        const char *next = words + here + (words[here] == ' ');
        const char *between = !*next ? "" : strchr(next, ' ') ? ", " : " or ";
        used += (size_t)snprintf(out + used, room - used, "%.*s%s", (int)here, words, between);
        words = next;
    }
    return out;
}

const struct option_row *row_named(const struct options *options, const char *name)
{
    const struct option_row *row;
    for (size_t i = 0; (row = option_row(options, i)); i++)
        if (row->name && strcmp(row->name, name) == 0)
            return row;
    return NULL;
}
