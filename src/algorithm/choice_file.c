/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuned tables as JSON:
 *   {"version": 1, "comment": "where and when", "rules": [
 *     {"collective": "allreduce", "class": "shm", "direct": true, "min_ranks": 2, "max_ranks": 8, "max_bytes": 65536,
 *      "algorithm": "one-shot"}]}
 * class is "shm", "tcp" or "any". Only collective and algorithm are required; a limit that is absent does not limit.
 */
#include "algorithm/algorithm.h"
#include "algorithm/choice_rules.h"
#include "base/error.h"
#include "base/random.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION    1
#define MOST_RULES 4096
#define ANY_CLASS  ((1u << CHOICE_CLASS_COUNT) - 1)

static const char *const class_names[CHOICE_CLASS_COUNT] = {[CHOICE_SHM] = "shm", [CHOICE_TCP] = "tcp"};

/* A rule that is being read, and what messages say of where it stands. */
struct reader {
    const char *path;
    int index;
    json_t *json;
    struct choice_rule rule;
};

static tutti_result_t bad_rule(const struct reader *r, const char *key, const char *want)
{
    return error_set(TUTTI_INVALID_ARGUMENT,
                     "choice table %s: rule %d: \"%s\": want %s; correct it, or run tutti tune again", r->path,
                     r->index, key, want);
}

/* A whole number, or `absent`. */
static tutti_result_t read_number(const struct reader *r, const char *key, int64_t least, int64_t most, int64_t *out)
{
    char want[80];
    json_t *value = json_object_get(r->json, key);
    if (!value)
        return TUTTI_SUCCESS;
    if (json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most) {
        *out = json_integer_value(value);
        return TUTTI_SUCCESS;
    }
    snprintf(want, sizeof want, "an integer, %lld to %lld", (long long)least, (long long)most);
    return bad_rule(r, key, want);
}

static tutti_result_t read_limits(struct reader *r)
{
    int64_t min_ranks = 1, max_ranks = INT_MAX, max_bytes = -1;
    tutti_result_t result = read_number(r, "min_ranks", 1, INT_MAX, &min_ranks);
    if (!result)
        result = read_number(r, "max_ranks", min_ranks, INT_MAX, &max_ranks);
    if (!result)
        result = read_number(r, "max_bytes", 0, INT64_MAX, &max_bytes);
    r->rule.min_ranks = (int)min_ranks;
    r->rule.max_ranks = (int)max_ranks;
    r->rule.max_bytes = max_bytes < 0 ? UINT64_MAX : (uint64_t)max_bytes;
    return result;
}

static tutti_result_t read_class(struct reader *r)
{
    const char *text = json_string_value(json_object_get(r->json, "class"));
    r->rule.classes = 0;
    if (!json_object_get(r->json, "class") || (text && strcmp(text, "any") == 0))
        r->rule.classes = ANY_CLASS;
    for (int c = 0; text && c < CHOICE_CLASS_COUNT; c++)
        if (strcmp(text, class_names[c]) == 0)
            r->rule.classes = 1u << c;
    return r->rule.classes ? TUTTI_SUCCESS : bad_rule(r, "class", "\"shm\", \"tcp\" or \"any\"");
}

static tutti_result_t read_algorithm(struct reader *r)
{
    char choices[256];
    const char *coll = json_string_value(json_object_get(r->json, "collective"));
    const char *name = json_string_value(json_object_get(r->json, "algorithm"));
    json_t *direct = json_object_get(r->json, "direct");
    r->rule.coll = coll ? schedule_coll_find(coll, strlen(coll)) : COLL_COUNT;
    if (r->rule.coll == COLL_COUNT)
        return bad_rule(r, "collective", "\"allreduce\", \"broadcast\" and so on");
    r->rule.algorithm = name ? algorithm_find(r->rule.coll, name, strlen(name)) : NULL;
    if (!r->rule.algorithm)
        return bad_rule(r, "algorithm", algorithm_names(r->rule.coll, choices, sizeof choices));
    if (direct && !json_is_boolean(direct))
        return bad_rule(r, "direct", "true or false");
    r->rule.direct = json_is_true(direct);
    json_t *hosts = json_object_get(r->json, "hosts");
    if (hosts && !json_is_boolean(hosts))
        return bad_rule(r, "hosts", "true or false");
    r->rule.hosts = json_is_true(hosts);
    return TUTTI_SUCCESS;
}

/* A misspelt key would silently not limit. */
static tutti_result_t check_keys(const struct reader *r)
{
    static const char *const keys[] = {"collective", "class",     "direct",    "hosts",
                                       "min_ranks",  "max_ranks", "max_bytes", "algorithm"};
    const char *key;
    json_t *value;
    if (!json_is_object(r->json))
        return bad_rule(r, "", "an object");
    json_object_foreach(r->json, key, value)
    {
        bool known = false;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            known |= strcmp(keys[i], key) == 0;
        if (!known)
            return bad_rule(
                r, key,
                "no such key, but collective, class, direct, hosts, min_ranks, max_ranks, max_bytes, algorithm");
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t read_rule(struct reader *r)
{
    tutti_result_t result = check_keys(r);
    if (!result)
        result = read_algorithm(r);
    if (!result)
        result = read_class(r);
    return result ? result : read_limits(r);
}

static tutti_result_t read_rules(const char *path, json_t *array, struct choice_list *list)
{
    size_t count = json_array_size(array);
    if (!json_is_array(array) || count > MOST_RULES)
        return error_set(TUTTI_INVALID_ARGUMENT, "choice table %s: \"rules\": want an array of at most %d rules", path,
                         MOST_RULES);
    struct choice_rule *rules = calloc(count + 1, sizeof *rules);
    if (!rules)
        return error_set(TUTTI_SYSTEM_ERROR, "choice table %s: out of memory", path);
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; i < count && !result; i++) {
        struct reader reader = {.path = path, .index = (int)i, .json = json_array_get(array, i)};
        result = read_rule(&reader);
        rules[i] = reader.rule;
    }
    if (result)
        free(rules);
    else
        *list = (struct choice_list){rules, (int)count};
    return result;
}

tutti_result_t choice_load(const char *path, struct choice_list *list)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "choice table %s: %s (line %d, column %d); correct it, or run tutti tune again", path,
                         error.text, error.line, error.column);
    json_t *version = json_object_get(root, "version");
    tutti_result_t result;
    if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        result = error_set(TUTTI_INVALID_ARGUMENT,
                           "choice table %s: \"version\" is not %d: another tutti wrote it; run tutti tune again", path,
                           VERSION);
    else
        result = read_rules(path, json_object_get(root, "rules"), list);
    json_decref(root);
    return result;
}

static json_t *rule_json(const struct choice_rule *rule)
{
    const char *name = "any";
    for (int c = 0; c < CHOICE_CLASS_COUNT; c++)
        if (rule->classes == 1u << c)
            name = class_names[c];
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:i, s:s}", "collective", schedule_coll_name(rule->coll), "class", name, "direct",
                  (int)rule->direct, "min_ranks", rule->min_ranks, "algorithm", rule->algorithm->name);
    if (json && rule->hosts)
        json_object_set_new(json, "hosts", json_true());
    if (json && rule->max_ranks != INT_MAX)
        json_object_set_new(json, "max_ranks", json_integer(rule->max_ranks));
    if (json && rule->max_bytes <= INT64_MAX)
        json_object_set_new(json, "max_bytes", json_integer((json_int_t)rule->max_bytes));
    return json;
}

static json_t *table_json(const char *comment, const struct choice_rule *rules, int count)
{
    json_t *array = json_array();
    for (int i = 0; array && i < count; i++)
        json_array_append_new(array, rule_json(&rules[i]));
    if (!array || json_array_size(array) != (size_t)count) {
        json_decref(array);
        return NULL;
    }
    return json_pack("{s:i, s:s, s:o}", "version", VERSION, "comment", comment ? comment : "", "rules", array);
}

tutti_result_t choice_save(const char *path, const char *comment, const struct choice_rule *rules, int count)
{
    char temporary[PATH_MAX];
    uint64_t unique;
    if (random_bytes(&unique, sizeof unique) != TUTTI_SUCCESS)
        return TUTTI_SYSTEM_ERROR;
    if (snprintf(temporary, sizeof temporary, "%s.%016" PRIx64, path, unique) >= (int)sizeof temporary)
        return error_set(TUTTI_INVALID_ARGUMENT, "choice table %.100s...: the path is too long", path);
    json_t *json = table_json(comment, rules, count);
    if (!json)
        return error_set(TUTTI_SYSTEM_ERROR, "choice table %s: out of memory, or the comment is not UTF-8", path);
    tutti_result_t result = TUTTI_SUCCESS;
    errno = 0;
    if (json_dump_file(json, temporary, JSON_INDENT(2)) != 0 || rename(temporary, path) != 0) {
        result = error_set(TUTTI_SYSTEM_ERROR, "choice table %s: it cannot be written: %s", path, strerror(errno));
        unlink(temporary);
    }
    json_decref(json);
    return result;
}
