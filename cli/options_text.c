/* SPDX-License-Identifier: Apache-2.0 */
/* Options from tables: help texts, and completion in shells. */
#include "cli/options_rows.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, WIDEST = 24, LABEL = 80 };

/* ---- Help ---- */

/* Prints a line from column `at` on; its continuation begins at `indent`. */
static void wrap_line(const char *line, size_t length, int indent, int at)
{
    int column = at;
    bool first = true;
    while (length) {
        size_t word = strcspn(line, " \n");
        if (word > length)
            word = length;
        if (!first && column + 1 + (int)word > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            first = true;
        }
        column += printf("%s%.*s", first ? "" : " ", (int)word, line);
        first = false;
        word += word < length;
        line += word;
        length -= word;
    }
    putchar('\n');
}

static void wrap(const char *text, int indent)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (*text == ' ')
            printf("%.*s\n", (int)length, text);
        else
            wrap_line(text, length, indent, indent);
        text += length + (text[length] == '\n');
    }
}

/* Writes "-b, --minbytes N", or " --np N" behind the place of a letter. Returns its width. */
static int row_label(const struct option_row *row, char *out, size_t room)
{
    int lead = row->letter ? 0 : 4;
    for (int i = 0; i < lead; i++)
        out[i] = ' ';
    option_label(row, out + lead, room - (size_t)lead);
    size_t used = strlen(out);
    if (row->argument)
        used += (size_t)snprintf(out + used, room - used, " %s", row->argument);
    return (int)used;
}

/* The width of the labels that are not too wide. */
static int widest(const struct options *options)
{
    const struct option_row *row;
    char label[LABEL];
    int most = 0;
    for (size_t i = 0; (row = option_row(options, i)); i++) {
        int width = row->help ? row_label(row, label, sizeof label) : 0;
        if (width > most && width <= WIDEST)
            most = width;
    }
    return most;
}

static void print_row(const struct option_row *row, int most)
{
    char label[LABEL], text[1024], list[512];
    int width = row_label(row, label, sizeof label), indent = 2 + most + 2;
    snprintf(text, sizeof text, "%s%s%s", row->help, row->choices ? ": " : "",
             row->choices ? options_list(row->choices, list, sizeof list) : "");
    printf("  %-*s", most + 2, label);
    if (width > most)
        printf("\n%*s", indent, "");
    wrap_line(text, strlen(text), indent, indent);
}

void options_help(const struct options *options)
{
    const struct option_row *row;
    int width = widest(options);
    const char *line = options->usage;
    for (bool first = true; *line; first = false) {
        size_t length = strcspn(line, "\n");
        printf("%s%s%s%s%.*s\n", first ? "Usage: " : "       ", options->alone ? "" : "tutti ", options->command,
               length ? " " : "", (int)length, line);
        line += length + (line[length] == '\n');
    }
    wrap(options->before, 0);
    putchar('\n');
    for (size_t i = 0; (row = option_row(options, i)); i++)
        if (row->help)
            print_row(row, width);
    if (options->after) {
        putchar('\n');
        wrap(options->after, 0);
    }
    if (options->more)
        options->more();
}

/* ---- Completion ---- */

static const char *begun = ""; /* the word at the cursor */

void options_offer(const char *word, const char *meaning)
{
    if (strncmp(word, begun, strlen(begun)) == 0)
        printf("%s\t%s\n", word, meaning);
}

/* The row that a word spells, and whether a value stands behind "=". */
static const struct option_row *spelled(const struct options *options, const char *word)
{
    const struct option_row *row = NULL;
    char name[64];
    if (strncmp(word, "--", 2) == 0 || strcmp(word, "-np") == 0) {
        word += 1 + (word[1] == '-');
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
        return row_named(options, name);
    }
    for (size_t i = 0; word[0] == '-' && word[1] && !word[2] && (row = option_row(options, i)); i++)
        if (row->letter == word[1])
            return row;
    return NULL;
}

/* `before` stands before each: "--op=", or nothing. */
static void offer_choices(const struct option_row *row, const char *before, size_t length)
{
    for (const char *word = row->choices; word && *word;) {
        char text[128];
        size_t here = strcspn(word, " ");
        snprintf(text, sizeof text, "%.*s%.*s", (int)length, before, (int)here, word);
        options_offer(text, "");
        word += here + (word[here] == ' ');
    }
}

static void offer_option(const char *dashes, const char *name, size_t length, const char *help)
{
    char text[64];
    snprintf(text, sizeof text, "%s%.*s", dashes, (int)length, name);
    if (length)
        options_offer(text, help);
}

static void offer_options(const struct options *options)
{
    const struct option_row *row;
    for (size_t i = 0; (row = option_row(options, i)); i++) {
        if (!row->help)
            continue;
        offer_option("-", &row->letter, row->letter != 0, row->help);
        if (row_is_np(row))
            offer_option("-", row->name, strlen(row->name), row->help);
        if (row->name)
            offer_option("--", row->name, strlen(row->name), row->help);
    }
}

/* Bash takes "--op=su" for three words, other shells for one. */
static const char *before_cursor(char **words, int count, int *before)
{
    const char *word = count ? words[count - 1] : "";
    *before = count - 2;
    if (count > 1 && strcmp(word, "=") == 0)
        return "";
    if (count > 2 && strcmp(words[count - 2], "=") == 0)
        *before = count - 3;
    return word;
}

/* Counts the words before the cursor that are no options or their values; -1: they are another program's. */
static int place_of(const struct options *options, int count, char **words)
{
    int place = 0;
    for (int i = 0; i + 1 < count; i++) {
        const struct option_row *row = spelled(options, words[i]);
        if (row && row->argument && !strchr(words[i], '='))
            i += i + 2 < count && strcmp(words[i + 1], "=") == 0 ? 2 : 1;
        else if (*words[i] != '-')
            words[place++] = words[i];
        if (options->stops && place)
            return -1;
    }
    return place;
}

void options_complete(const struct options *options, int count, char **words)
{
    int before;
    const char *word = before_cursor(words, count, &before), *value = strchr(word, '=');
    begun = word;
    const struct option_row *row = before >= 0 ? spelled(options, words[before]) : NULL;
    if (row && row->argument && !strchr(words[before], '=')) {
        offer_choices(row, "", 0);
        return;
    }
    int place = place_of(options, count, words);
    if (place < 0)
        return;
    if (*word == '-' && value && (row = spelled(options, word)))
        offer_choices(row, word, (size_t)(value + 1 - word));
    else if (*word == '-')
        offer_options(options);
    else if (options->words)
        options->words(place, words);
}
