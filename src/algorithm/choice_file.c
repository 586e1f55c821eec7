/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuned tables as JSON:
 *   {"version": 1, "comment": "where and when", "rules": [
 *     {"collective": "allreduce", "class": "shm", "shared": true, "min_ranks": 2, "max_ranks": 8, "max_bytes": 65536,
 *      "algorithm": "one-shot"}]}
 * class is "shm", "tcp" or "any". Only collective and algorithm are required; a limit that is absent does not limit.
 */
#include "algorithm/algorithm.h"
#include "algorithm/choice_rules.h"
#include "base/error.h"
#include "base/jsonread.h"
#include "base/tuned.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RULES 4096
#define OLD_SHARED "direct" /* what older files call KEY_SHARED */
#define ANY_CLASS  ((1u << CHOICE_CLASS_COUNT) - 1)

static const char *const class_names[CHOICE_CLASS_COUNT] = {[CHOICE_SHM] = "shm", [CHOICE_TCP] = "tcp"};

enum choice_key { KEY_COLLECTIVE, KEY_CLASS, KEY_SHARED, KEY_HOSTS, KEY_MIN, KEY_MAX, KEY_BYTES, KEY_ALGORITHM, KEYS };

static const char *const choice_keys[KEYS] = {
    [KEY_COLLECTIVE] = "collective", [KEY_CLASS] = "class",   [KEY_SHARED] = "shared",   [KEY_HOSTS] = "hosts",
    [KEY_MIN] = "min_ranks",         [KEY_MAX] = "max_ranks", [KEY_BYTES] = "max_bytes", [KEY_ALGORITHM] = "algorithm",
};

/* A rule that is being read, and what messages say of where it stands. */
struct choice_reader {
    const char *path;
    int index;
    struct jsonread_value values[KEYS];
    char unknown[JSONREAD_TEXT]; /* a key that is none; "": there is none */
    bool is_object;
    struct choice_rule rule;
};

static tutti_result_t bad_rule(const struct choice_reader *r, const char *key, const char *want)
{
    return error_set(TUTTI_INVALID_ARGUMENT, "choice table %s: rule %d: \"%s\": want %s; " TUNED_CURE, r->path,
                     r->index, key, want);
}

/* A whole number, or what *out has. */
static tutti_result_t read_number(const struct choice_reader *r, enum choice_key key, int64_t least, int64_t most,
                                  int64_t *out)
{
    char want[80];
    const struct jsonread_value *value = &r->values[key];
    if (value->kind == JSONREAD_ABSENT)
        return TUTTI_SUCCESS;
    if (value->kind == JSONREAD_INTEGER && value->number >= least && value->number <= most) {
        *out = value->number;
        return TUTTI_SUCCESS;
    }
    snprintf(want, sizeof want, "an integer, %lld to %lld", (long long)least, (long long)most);
    return bad_rule(r, choice_keys[key], want);
}

static tutti_result_t read_limits(struct choice_reader *r)
{
    int64_t min_ranks = 1, max_ranks = INT_MAX, max_bytes = -1;
    tutti_result_t result = read_number(r, KEY_MIN, 1, INT_MAX, &min_ranks);
    if (!result)
        result = read_number(r, KEY_MAX, min_ranks, INT_MAX, &max_ranks);
    if (!result)
        result = read_number(r, KEY_BYTES, 0, INT64_MAX, &max_bytes);
    r->rule.min_ranks = (int)min_ranks;
    r->rule.max_ranks = (int)max_ranks;
    r->rule.max_bytes = max_bytes < 0 ? UINT64_MAX : (uint64_t)max_bytes;
    return result;
}

static tutti_result_t read_class(struct choice_reader *r)
{
    const struct jsonread_value *value = &r->values[KEY_CLASS];
    r->rule.classes = value->kind == JSONREAD_ABSENT || strcmp(value->text, "any") == 0 ? ANY_CLASS : 0;
    for (int c = 0; c < CHOICE_CLASS_COUNT; c++)
        if (strcmp(value->text, class_names[c]) == 0)
            r->rule.classes = 1u << c;
    return r->rule.classes ? TUTTI_SUCCESS : bad_rule(r, "class", "\"shm\", \"tcp\" or \"any\"");
}

static tutti_result_t read_boolean(const struct choice_reader *r, enum choice_key key, bool *out)
{
    const struct jsonread_value *value = &r->values[key];
    *out = value->kind == JSONREAD_BOOLEAN && value->number;
    return value->kind == JSONREAD_ABSENT || value->kind == JSONREAD_BOOLEAN
               ? TUTTI_SUCCESS
               : bad_rule(r, choice_keys[key], "true or false");
}

static tutti_result_t read_algorithm(struct choice_reader *r)
{
    char choices[256];
    const char *coll = r->values[KEY_COLLECTIVE].text, *name = r->values[KEY_ALGORITHM].text;
    r->rule.coll = *coll ? schedule_coll_find(coll, strlen(coll)) : COLL_COUNT;
    if (r->rule.coll == COLL_COUNT)
        return bad_rule(r, "collective", "\"allreduce\", \"broadcast\" and so on");
    r->rule.algorithm = *name ? algorithm_find(r->rule.coll, name, strlen(name)) : NULL;
    if (!r->rule.algorithm)
        return bad_rule(r, "algorithm", algorithm_names(r->rule.coll, choices, sizeof choices));
    tutti_result_t result = read_boolean(r, KEY_SHARED, &r->rule.shared);
    return result ? result : read_boolean(r, KEY_HOSTS, &r->rule.hosts);
}

static tutti_result_t read_rule(struct choice_reader *r)
{
    if (!r->is_object)
        return bad_rule(r, "", "an object");
    if (*r->unknown) /* a misspelt key would silently not limit */
        return bad_rule(r, r->unknown,
                        "one of the keys collective, class, shared, hosts, min_ranks, max_ranks, max_bytes, algorithm");
    tutti_result_t result = read_algorithm(r);
    if (!result)
        result = read_class(r);
    return result ? result : read_limits(r);
}

/* ---- The file ---- */

static bool take_member(struct jsonread *json, const char *key, void *context)
{
    struct choice_reader *r = context;
    struct jsonread_value passed;
    for (int i = 0; i < KEYS; i++)
        if (strcmp(choice_keys[i], key) == 0 || (i == KEY_SHARED && strcmp(key, OLD_SHARED) == 0)) {
            if (r->values[i].kind != JSONREAD_ABSENT)
                json->error = "a key stands twice in an object";
            return !json->error && jsonread_value(json, &r->values[i]);
        }
    if (!*r->unknown)
        snprintf(r->unknown, sizeof r->unknown, "%s", *key ? key : "?");
    return jsonread_value(json, &passed);
}

/* The table as it is read. The first rule that is wrong is told when all is read: another version may have others. */
struct choice_table_reader {
    const char *path;
    struct jsonread_value version;
    struct choice_list list;
    bool rules, too_many, no_memory;
    tutti_result_t result;
    char sentence[512];
};

static bool take_rule(struct jsonread *json, const char *key, void *context)
{
    struct choice_table_reader *table = context;
    struct choice_reader reader = {.path = table->path, .index = table->list.count};
    struct jsonread_value passed;
    reader.is_object = jsonread_next(json) == JSONREAD_OBJECT;
    if (!(reader.is_object ? jsonread_object(json, take_member, &reader) : jsonread_value(json, &passed)))
        return false;
    table->too_many |= table->list.count == MOST_RULES;
    if (table->result || table->too_many || table->no_memory)
        return true;
    table->result = read_rule(&reader);
    if (table->result)
        snprintf(table->sentence, sizeof table->sentence, "%s", error_last());
    struct choice_rule *more = realloc(table->list.rules, (size_t)(table->list.count + 1) * sizeof *more);
    table->no_memory = !more;
    if (more) {
        more[table->list.count++] = reader.rule;
        table->list.rules = more;
    }
    return true;
}

static bool take_part(struct jsonread *json, const char *key, void *context)
{
    struct choice_table_reader *table = context;
    struct jsonread_value passed;
    bool version = strcmp(key, "version") == 0, rules = strcmp(key, "rules") == 0;
    if ((version && table->version.kind != JSONREAD_ABSENT) || (rules && table->rules))
        json->error = "a key stands twice in an object";
    if (json->error)
        return false;
    if (rules && jsonread_next(json) == JSONREAD_ARRAY)
        return table->rules = true, jsonread_array(json, take_rule, table);
    return jsonread_value(json, version ? &table->version : &passed);
}

/* The sentence, or what is wrong with the table as a whole. */
static tutti_result_t choice_judge(const struct choice_table_reader *table)
{
    if (table->version.kind != JSONREAD_INTEGER || table->version.number != TUNED_VERSION_HERE)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "choice table %s: \"version\" is not %d: another tutti wrote it; " TUNED_CURE, table->path,
                         TUNED_VERSION_HERE);
    if (!table->rules || table->too_many)
        return error_set(TUTTI_INVALID_ARGUMENT, "choice table %s: \"rules\": want an array of at most %d rules",
                         table->path, MOST_RULES);
    if (table->no_memory)
        return error_set(TUTTI_SYSTEM_ERROR, "choice table %s: out of memory", table->path);
    return table->result ? error_set(table->result, "%s", table->sentence) : TUTTI_SUCCESS;
}

static tutti_result_t choice_parse(const char *text, size_t length, struct choice_table_reader *table)
{
    struct jsonread json;
    struct jsonread_value passed;
    jsonread_start(&json, text, length);
    bool whole = jsonread_next(&json) == JSONREAD_OBJECT ? jsonread_object(&json, take_part, table)
                                                         : jsonread_value(&json, &passed);
    if (whole && jsonread_end(&json))
        return choice_judge(table);
    return error_set(TUTTI_INVALID_ARGUMENT, "choice table %s: %s (line %d, column %d); " TUNED_CURE, table->path,
                     json.error, json.line, jsonread_column(&json));
}

tutti_result_t choice_load(const char *path, struct choice_list *list)
{
    struct choice_table_reader table = {.path = path};
    size_t length;
    char *text = tuned_read(path, &length);
    if (!text)
        return error_set(TUTTI_INVALID_ARGUMENT, "choice table %s: it cannot be read: %s; " TUNED_CURE, path,
                         strerror(errno));
    tutti_result_t result = choice_parse(text, length, &table);
    free(text);
    if (result)
        free(table.list.rules);
    else
        *list = table.list;
    return result;
}

/* ---- Written ---- */

static void write_rule(FILE *file, const struct choice_rule *rule)
{
    const char *name = "any";
    for (int c = 0; c < CHOICE_CLASS_COUNT; c++)
        if (rule->classes == 1u << c)
            name = class_names[c];
    fprintf(file, "    {\"collective\": \"%s\", \"class\": \"%s\", \"shared\": %s, \"min_ranks\": %d, ",
            schedule_coll_name(rule->coll), name, rule->shared ? "true" : "false", rule->min_ranks);
    if (rule->hosts)
        fprintf(file, "\"hosts\": true, ");
    if (rule->max_ranks != INT_MAX)
        fprintf(file, "\"max_ranks\": %d, ", rule->max_ranks);
    if (rule->max_bytes <= INT64_MAX)
        fprintf(file, "\"max_bytes\": %" PRIu64 ", ", rule->max_bytes);
    fprintf(file, "\"algorithm\": \"%s\"}", rule->algorithm->name);
}

/* What was printed into memory, the caller's; NULL: there was not enough. */
static char *choice_printed(FILE *file, char **text)
{
    bool whole = !ferror(file);
    if (fclose(file) == 0 && whole)
        return *text;
    free(*text);
    return NULL;
}

static char *choice_comment_text(const char *comment)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    tuned_print_text(file, comment);
    return choice_printed(file, &text);
}

static char *choice_rules_text(const struct choice_rule *rules, int count)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    fprintf(file, "[");
    for (int i = 0; i < count; i++) {
        fprintf(file, i ? ",\n" : "\n");
        write_rule(file, &rules[i]);
    }
    fprintf(file, "\n  ]");
    return choice_printed(file, &text);
}

tutti_result_t choice_save(const char *path, const char *comment, const struct choice_rule *rules, int count)
{
    if (comment && !jsonread_is_text(comment, strlen(comment)))
        return error_set(TUTTI_SYSTEM_ERROR, "choice table %s: the comment is not UTF-8", path);
    char *said = choice_comment_text(comment ? comment : ""), *listed = choice_rules_text(rules, count);
    const char *const parts[TUNED_PARTS] = {[TUNED_COMMENT] = said, [TUNED_RULES] = listed};
    tutti_result_t result = said && listed
                                ? tuned_write(path, parts)
                                : error_set(TUTTI_SYSTEM_ERROR, "choice table %s: no memory to write it", path);
    free(said);
    free(listed);
    return result;
}
