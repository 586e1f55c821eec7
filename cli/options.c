/* SPDX-License-Identifier: Apache-2.0 */
/* Options from tables: parsing. */
#include "cli/options.h"
#include "cli/cli.h"
#include "cli/options_rows.h"

#include "base/clock.h"
#include "base/guess.h"
#include "base/parse.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 62, LONG_ONLY = 256, LABEL = 80 };

/* ---- Words with blanks between ---- */

int options_index(const char *words, const char *word)
{
    size_t length = strlen(word), here;
    for (int index = 0; *words; index++, words += here + (words[here] == ' ')) {
        here = strcspn(words, " ");
        if (here == length && strncmp(words, word, length) == 0)
            return index;
    }
    return -1;
}

static int refuse_word(const struct options *options, const char *label, const char *choices, const char *text)
{
    const char *names[64], *near;
    char list[512], copy[512], *rest = copy, *word;
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", choices);
    while (count < 64 && (word = strsep(&rest, " ")))
        names[count++] = word;
    near = guess_name(text, names, count);
    options_list(choices, list, sizeof list);
    if (near)
        return usage_error(options->command, "%s: there is no \"%s\". Did you mean \"%s\"? It wants %s", label, text,
                           near, list);
    return usage_error(options->command, "%s wants %s, got \"%s\"", label, list, text);
}

/* ---- Values ---- */

static void duration(int64_t ms, char *out, size_t room)
{
    if (ms % (3600 * 1000) == 0 && ms)
        snprintf(out, room, "%lldh", (long long)ms / (3600 * 1000));
    else if (ms % 1000 == 0)
        snprintf(out, room, "%llds", (long long)ms / 1000);
    else
        snprintf(out, room, "%lldms", (long long)ms);
}

static int refuse(const struct options *options, const struct option_row *row, const char *text)
{
    char label[LABEL], low[24], high[24];
    option_label(row, label, sizeof label);
    if (row->choices)
        return refuse_word(options, label, row->choices, text);
    switch (row->kind) {
    case OPTION_INT:
        return usage_error(options->command, "%s wants a whole number from %lld to %lld, got \"%s\"", label,
                           (long long)row->low, (long long)row->high, text);
    case OPTION_SIZE:
        return usage_error(options->command, "%s wants bytes such as 4096, 64K or 1M, %lld or more, got \"%s\"", label,
                           (long long)row->low, text);
    case OPTION_TIME:
        duration(row->low, low, sizeof low);
        duration(row->high, high, sizeof high);
        return usage_error(options->command, "%s wants a time such as 500ms or 30s, from %s to %s, got \"%s\"", label,
                           low, high, text);
    case OPTION_REAL:
        return usage_error(options->command, "%s wants seconds such as 5e-6, 0 or more, got \"%s\"", label, text);
    default:
        return usage_error(options->command, "%s wants %s, got \"%s\"", label, row->wants, text);
    }
}

static bool take_real(const char *text, double *out)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !(value >= 0) || value > 1e6)
        return false;
    *out = value;
    return true;
}

static bool within(const struct option_row *row, int64_t value)
{
    return value >= row->low && value <= row->high;
}

static bool take_int(const struct option_row *row, const char *text, int *out)
{
    int index = row->choices ? options_index(row->choices, text) : -1;
    if (index >= 0)
        *out = index;
    return row->choices ? index >= 0 : text_int(text, row->low, row->high, out);
}

static int take(const struct option_row *row, char *text, void *request)
{
    void *to = (char *)request + row->at;
    int64_t number;
    bool good = true;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)to = true;
        break;
    case OPTION_TEXT:
        good = !row->choices || options_index(row->choices, text) >= 0;
        *(const char **)to = text;
        break;
    case OPTION_INT:
        good = take_int(row, text, to);
        break;
    case OPTION_SIZE:
        if ((good = parse_size(text, &number) && within(row, number)))
            *(int64_t *)to = number;
        break;
    case OPTION_TIME:
        if ((good = parse_ms(text, &number) && within(row, number)))
            *(uint64_t *)to = (uint64_t)number * NS_PER_MS;
        break;
    case OPTION_REAL:
        good = take_real(text, to);
        break;
    case OPTION_CALL:
        return row->take(request, text);
    }
    return good ? OPTION_TAKEN : OPTION_REFUSED;
}

/* ---- Spelling ---- */

static int refuse_unknown(const struct options *options, const char *word)
{
    const char *names[MOST_ROWS + 1], *near;
    size_t count = 0, length = strcspn(word, "="), similar = 0;
    char name[64];
    const struct option_row *row;
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    for (size_t i = 0; (row = option_row(options, i)); i++)
        if (row->name && row->help) {
            names[count++] = row->name;
            similar += strncmp(row->name, name, strlen(name)) == 0;
        }
    near = guess_name(name, names, count);
    if (similar > 1)
        return usage_error(options->command, "--%s begins more than one option, one of them --%s: spell it out", name,
                           near);
    if (near)
        return usage_error(options->command, "there is no option --%s. Did you mean --%s?", name, near);
    return usage_error(options->command, "there is no option --%s", name);
}

static const struct option_row *row_of(const struct options *options, int code)
{
    const struct option_row *row;
    for (size_t i = 0; (row = option_row(options, i)); i++)
        if (code == (row->letter ? row->letter : LONG_ONLY + (int)i))
            return row;
    return NULL;
}

/* Explains what getopt did not take: `code` is its answer. */
static int refuse_spelling(const struct options *options, int code, const char *word)
{
    const struct option_row *row = optopt ? row_of(options, optopt) : NULL;
    char label[LABEL];
    if (row)
        option_label(row, label, sizeof label);
    if (row && code == ':')
        return usage_error(options->command, "option %s lacks its value, %s", label, row->argument);
    if (row)
        return usage_error(options->command, "option %s takes no value", label);
    if (optopt)
        return usage_error(options->command, "there is no option -%c", optopt);
    return refuse_unknown(options, word + strlen("--"));
}

/* Takes -np before getopt, which would read -n with the value "p", or two letters. */
static void spell_np(const struct options *options, int argc, char **argv)
{
    static char np[] = "--np";
    int first = optind ? optind : 1, end = options->stops && first < argc ? first + 1 : argc;
    if (row_named(options, "np"))
        for (int i = first; i < end && strcmp(argv[i], "--") != 0; i++)
            if (strcmp(argv[i], "-np") == 0)
                argv[i] = np;
}

/* The table in getopt's form. */
struct spelling {
    struct option longs[MOST_ROWS + 2];
    char letters[2 * MOST_ROWS + 5];
};

static void spell(const struct options *options, struct spelling *out)
{
    struct option *next = out->longs;
    char *letter = out->letters;
    const struct option_row *row;
    *out = (struct spelling){0};
    if (options->stops)
        *letter++ = '+';
    *letter++ = ':';
    for (size_t i = 0; (row = option_row(options, i)); i++) {
        if (row->letter) {
            *letter++ = row->letter;
            if (row->argument)
                *letter++ = ':';
        }
        if (row->name)
            *next++ = (struct option){row->name, row->argument ? required_argument : no_argument, NULL,
                                      row->letter ? row->letter : LONG_ONLY + (int)i};
    }
}

int options_parse(const struct options *options, int argc, char **argv, void *request)
{
    struct spelling spelling;
    int code, status = OPTION_TAKEN;
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        options_complete(options, argc - 2, argv + 2);
        return EXIT_OK;
    }
    if (options->alone)
        text_alone();
    spell(options, &spelling);
    optind = opterr = 0;
    spell_np(options, argc, argv);
    while (status == OPTION_TAKEN && (code = getopt_long(argc, argv, spelling.letters, spelling.longs, NULL)) != -1) {
        const struct option_row *row = row_of(options, code);
        if (code == 'h') {
            options_help(options);
            return EXIT_OK;
        }
        if (!row)
            return refuse_spelling(options, code, argv[optind - 1]);
        status = take(row, optarg, request);
        if (status == OPTION_REFUSED)
            status = refuse(options, row, optarg);
        spell_np(options, argc, argv);
    }
    return status;
}
