/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/etcd.h"

#include "base/error.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS    16
#define CONNECT_MS 500L
#define WHOLE_MS   1500L      /* of one question to one member */
#define ANSWER     (64 << 20) /* bytes */
#define PAGE       16         /* keys of an answer */

struct etcd {
    CURL *curl;
    struct curl_slist *headers;
    char *member[MEMBERS], *words;
    int members, at; /* at: the one that answered last */
    char *answer, error[CURL_ERROR_SIZE];
    size_t length, room;
};

/* ---- Base64, which the gateway has keys and values in ---- */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The caller frees it; NULL: no memory. */
static char *to_letters(const void *data, size_t size)
{
    const uint8_t *in = data;
    char *out = malloc((size + 2) / 3 * 4 + 1), *at = out;
    for (size_t i = 0; out && i < size; i += 3) {
        uint32_t three =
            (uint32_t)in[i] << 16 | (i + 1 < size ? (uint32_t)in[i + 1] << 8 : 0) | (i + 2 < size ? in[i + 2] : 0);
        *at++ = letters[three >> 18];
        *at++ = letters[three >> 12 & 63];
        *at++ = i + 1 < size ? letters[three >> 6 & 63] : '=';
        *at++ = i + 2 < size ? letters[three & 63] : '=';
    }
    if (out)
        *at = 0;
    return out;
}

/* False: the text is none. `out` has room for three quarters of it. */
static bool from_letters(const char *text, uint8_t *out, size_t *size)
{
    size_t length = strlen(text);
    *size = 0;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t four = 0;
        size_t pads = 0;
        for (size_t k = 0; k < 4; k++) {
            char letter = i + k < length ? text[i + k] : 0;
            const char *found = letter ? strchr(letters, letter) : NULL;
            pads += letter == '=';
            if (letter != '=' && (!found || pads))
                return false;
            four = four << 6 | (found ? (uint32_t)(found - letters) : 0);
        }
        if (pads > 2 || (pads && i + 4 < length))
            return false;
        for (size_t k = 0; k < 3 - pads; k++)
            out[(*size)++] = (uint8_t)(four >> (16 - 8 * k));
    }
    return true;
}

/* ---- beginning and end ---- */

static size_t on_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct etcd *etcd = context;
    size_t more = size * count, needed = etcd->length + more + 1;
    if (needed > ANSWER)
        return 0;
    if (needed > etcd->room) {
        char *grown = realloc(etcd->answer, needed * 2);
        if (!grown)
            return 0;
        etcd->answer = grown;
        etcd->room = needed * 2;
    }
    memcpy(etcd->answer + etcd->length, bytes, more);
    etcd->length += more;
    return more;
}

static bool read_members(struct etcd *etcd, const char *members)
{
    char *rest = NULL;
    if (!(etcd->words = strdup(members)))
        return false;
    for (char *word = strtok_r(etcd->words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bool http = strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0;
        if (!http || strlen(word) > 900 || etcd->members == MEMBERS)
            return false;
        etcd->member[etcd->members++] = word;
    }
    return etcd->members > 0;
}

static bool prepare(struct etcd *etcd)
{
    CURL *curl = etcd->curl = curl_easy_init();
    etcd->headers = curl_slist_append(NULL, "Content-Type: application/json");
    return curl && etcd->headers && curl_easy_setopt(curl, CURLOPT_HTTPHEADER, etcd->headers) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, WHOLE_MS) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEDATA, etcd) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, etcd->error) == CURLE_OK;
}

struct etcd *etcd_open(const char *members)
{
    struct etcd *etcd = calloc(1, sizeof *etcd);
    if (etcd && !read_members(etcd, members)) {
        error_note(TUTTI_INVALID_USAGE, "%s: want members of etcd, http://HOST:PORT,..., %d at most", members, MEMBERS);
        etcd_close(etcd);
        return NULL;
    }
    if (etcd && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && prepare(etcd))
        return etcd;
    etcd_close(etcd);
    error_note(TUTTI_SYSTEM_ERROR, "libcurl cannot be made ready for etcd: no memory, or a version too old");
    return NULL;
}

void etcd_close(struct etcd *etcd)
{
    if (!etcd)
        return;
    curl_easy_cleanup(etcd->curl);
    curl_slist_free_all(etcd->headers);
    free(etcd->answer);
    free(etcd->words);
    free(etcd);
}

/* ---- questions ---- */

/* One member's answer; NULL after error_note. */
static json_t *ask_member(struct etcd *etcd, const char *page, const char *question)
{
    char url[1000];
    long status = 0;
    json_error_t wrong;
    etcd->length = 0;
    *etcd->error = 0;
    snprintf(url, sizeof url, "%s/v3/%s", etcd->member[etcd->at], page);
    curl_easy_setopt(etcd->curl, CURLOPT_URL, url);
    curl_easy_setopt(etcd->curl, CURLOPT_POSTFIELDS, question);
    CURLcode code = curl_easy_perform(etcd->curl);
    curl_easy_getinfo(etcd->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        error_note(TUTTI_SYSTEM_ERROR, "%s: %s", etcd->member[etcd->at],
                   *etcd->error ? etcd->error : curl_easy_strerror(code));
        return NULL;
    }
    json_t *answer = etcd->length ? json_loadb(etcd->answer, etcd->length, JSON_DISABLE_EOF_CHECK, &wrong) : NULL;
    if (status == 200 && json_is_object(answer))
        return answer;
    const char *said = json_string_value(json_object_get(answer, "error"));
    error_note(TUTTI_SYSTEM_ERROR, "%s: %ld %.100s", etcd->member[etcd->at], status, said ? said : "and no JSON");
    json_decref(answer);
    return NULL;
}

/* A renewal of a lease that is no more is an answer like others, of status 200. */
static json_t *ask(struct etcd *etcd, const char *page, json_t *question)
{
    char *text = question ? json_dumps(question, JSON_COMPACT) : NULL;
    json_t *answer = NULL;
    json_decref(question);
    if (!text)
        error_note(TUTTI_SYSTEM_ERROR, "no memory for a question to etcd");
    for (int i = 0; text && !answer && i < etcd->members; i++) {
        answer = ask_member(etcd, page, text);
        if (!answer)
            etcd->at = (etcd->at + 1) % etcd->members;
    }
    free(text);
    return answer;
}

/* The gateway writes numbers of 64 bits as texts, and leaves zero out. */
static int64_t number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    return text ? strtoll(text, NULL, 10) : json_integer_value(value);
}

static json_t *number(int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return json_string(text);
}

static json_t *coded(const void *data, size_t size)
{
    char *text = to_letters(data, size);
    json_t *value = text ? json_string(text) : NULL;
    free(text);
    return value;
}

static json_t *key_of(const char *key)
{
    return coded(key, strlen(key));
}

/* ---- leases ---- */

tutti_result_t etcd_grant(struct etcd *etcd, int seconds, int64_t *lease)
{
    json_t *answer = ask(etcd, "lease/grant", json_pack("{s:o}", "TTL", number(seconds)));
    *lease = number_of(answer, "ID");
    json_decref(answer);
    if (!answer)
        return TUTTI_SYSTEM_ERROR;
    return *lease ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "etcd gave no lease");
}

tutti_result_t etcd_renew(struct etcd *etcd, int64_t lease, bool *lives)
{
    json_t *answer = ask(etcd, "lease/keepalive", json_pack("{s:o}", "ID", number(lease)));
    *lives = number_of(json_object_get(answer, "result"), "TTL") > 0;
    json_decref(answer);
    return answer ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
}

tutti_result_t etcd_revoke(struct etcd *etcd, int64_t lease)
{
    json_t *answer = ask(etcd, "lease/revoke", json_pack("{s:o}", "ID", number(lease)));
    json_decref(answer);
    return answer ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
}

/* ---- keys ---- */

static json_t *condition(const char *key, int64_t made)
{
    return json_pack("{s:o, s:s, s:s, s:o}", "key", key_of(key), "target", "CREATE", "result", "EQUAL",
                     "create_revision", number(made));
}

static json_t *action(const struct etcd_change *change)
{
    json_t *all = json_array();
    if (change->put)
        json_array_append_new(all, json_pack("{s:{s:o, s:o, s:o}}", "request_put", "key", key_of(change->put), "value",
                                             coded(change->value, change->size), "lease", number(change->lease)));
    if (change->remove)
        json_array_append_new(all, json_pack("{s:{s:o, s:o}}", "request_delete_range", "key", key_of(change->remove),
                                             "range_end", key_of(change->before)));
    return all;
}

tutti_result_t etcd_change(struct etcd *etcd, const struct etcd_change *change, bool *done, int64_t *revision)
{
    json_t *conditions = json_array();
    json_array_append_new(conditions, condition(change->same, change->made));
    if (change->absent)
        json_array_append_new(conditions, condition(change->absent, 0));
    json_t *answer = ask(etcd, "kv/txn", json_pack("{s:o, s:o}", "compare", conditions, "success", action(change)));
    *done = json_is_true(json_object_get(answer, "succeeded"));
    *revision = number_of(json_object_get(answer, "header"), "revision");
    json_decref(answer);
    return answer ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
}

static bool read_pair(const json_t *from, struct etcd_pair *out, uint8_t **value)
{
    const char *key = json_string_value(json_object_get(from, "key")),
               *text = json_string_value(json_object_get(from, "value"));
    uint8_t name[ETCD_KEY];
    size_t length = 0;
    text = text ? text : "";
    *value = malloc(strlen(text) + 1);
    if (!*value || !key || strlen(key) / 4 * 3 >= ETCD_KEY || !from_letters(key, name, &length) ||
        !from_letters(text, *value, &out->size))
        return false;
    memcpy(out->key, name, length);
    out->key[length] = 0;
    out->value = *value;
    out->made = number_of(from, "create_revision");
    out->lease = number_of(from, "lease");
    return true;
}

/* Hands over what an answer has. *next: the last key. */
static tutti_result_t take_pairs(const json_t *pairs, etcd_take *take, void *context, char next[ETCD_KEY], bool *more)
{
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        struct etcd_pair pair = {0};
        uint8_t *value = NULL;
        bool good = read_pair(json_array_get(pairs, i), &pair, &value);
        bool wants = good && take(context, &pair);
        free(value);
        if (!good)
            return error_note(TUTTI_SYSTEM_ERROR, "etcd answers what is no key and value, or there is no memory");
        *more &= wants;
        if (!wants)
            return TUTTI_SUCCESS;
        memcpy(next, pair.key, sizeof pair.key);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t etcd_read(struct etcd *etcd, const char *first, const char *end, etcd_take *take, void *context)
{
    char from[ETCD_KEY];
    size_t length = strlen(first);
    bool more = true;
    tutti_result_t result = TUTTI_SUCCESS;
    snprintf(from, sizeof from, "%s", first);
    while (!result && more) {
        json_t *answer = ask(etcd, "kv/range",
                             json_pack("{s:o, s:o, s:i, s:s, s:s}", "key", coded(from, length), "range_end",
                                       key_of(end), "limit", PAGE, "sort_order", "ASCEND", "sort_target", "KEY"));
        if (!answer)
            return TUTTI_SYSTEM_ERROR;
        more = json_is_true(json_object_get(answer, "more"));
        result = take_pairs(json_object_get(answer, "kvs"), take, context, from, &more);
        length = strlen(from) + 1; /* the next key is this one with a byte 0 behind it */
        json_decref(answer);
    }
    return result;
}
