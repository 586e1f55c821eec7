/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonread.h"

#include <ctype.h>
#include <string.h>

#define DEEPEST 32 /* objects and arrays in one another */

void jsonread_start(struct jsonread *json, const char *text, size_t length)
{
    *json = (struct jsonread){.at = text, .end = text + length, .line_start = text, .line = 1};
}

int jsonread_column(const struct jsonread *json)
{
    return (int)(json->at - json->line_start) + 1;
}

static bool jsonread_fail(struct jsonread *json, const char *error)
{
    if (!json->error)
        json->error = error;
    return false;
}

/* The next letter that is no blank; 0: there is none. */
static char jsonread_look(struct jsonread *json)
{
    for (; json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at; json->at++)
        if (*json->at == '\n') {
            json->line++;
            json->line_start = json->at + 1;
        }
    return json->at < json->end ? *json->at : '\0';
}

static bool jsonread_take(struct jsonread *json, char letter)
{
    if (jsonread_look(json) != letter || json->at == json->end)
        return false;
    json->at++;
    return true;
}

bool jsonread_end(struct jsonread *json)
{
    return (!jsonread_look(json) && json->at == json->end) || jsonread_fail(json, "something follows the end");
}

enum jsonread_kind jsonread_next(struct jsonread *json)
{
    switch (jsonread_look(json)) {
    case '"':
        return JSONREAD_STRING;
    case '{':
        return JSONREAD_OBJECT;
    case '[':
        return JSONREAD_ARRAY;
    case 't':
    case 'f':
        return JSONREAD_BOOLEAN;
    case '\0':
        return JSONREAD_ABSENT;
    default:
        return *json->at == '-' || isdigit((unsigned char)*json->at) ? JSONREAD_INTEGER : JSONREAD_OTHER;
    }
}

/* ---- Strings ---- */

/* Bytes of the letter that begins here; 0: it is none. */
static size_t jsonread_letter(const unsigned char *at, size_t left)
{
    size_t length = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : (*at & 0xf0) == 0xe0 ? 3 : 4;
    if (length > left || (*at >= 0x80 && *at < 0xc2) || *at > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
    bool outside = (*at == 0xed && at[1] > 0x9f) || (*at == 0xf4 && at[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

bool jsonread_is_text(const char *text, size_t length)
{
    for (size_t i = 0, step; i < length; i += step)
        if (!(step = jsonread_letter((const unsigned char *)text + i, length - i)))
            return false;
    return true;
}

/* What a backslash and this letter stand for, a question mark for control characters; 0: nothing. */
static char jsonread_escaped(char letter)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/?????"; /* what is read may be printed */
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? meant[found - letters] : '\0';
}

/* Four digits behind \u: letters other than ASCII, and control characters, become a question mark. */
static bool jsonread_hex(struct jsonread *json, char *out)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        if (json->at == json->end || !isxdigit((unsigned char)*json->at))
            return jsonread_fail(json, "want four hexadecimal digits behind \\u");
        code =
            code << 4 | (unsigned)(isdigit((unsigned char)*json->at) ? *json->at - '0' : (*json->at | 32) - 'a' + 10);
    }
    *out = code >= 0x20 && code < 0x7f ? (char)code : '?';
    return true;
}

static bool jsonread_one(struct jsonread *json, char *out)
{
    *out = *json->at++;
    if ((unsigned char)*out < 0x20)
        return jsonread_fail(json, "a control character stands in a string");
    if (*out != '\\')
        return true;
    char letter = json->at < json->end ? *json->at++ : '\0';
    if (letter == 'u')
        return jsonread_hex(json, out);
    *out = jsonread_escaped(letter);
    return *out || jsonread_fail(json, "a backslash stands before a letter that it may not stand before");
}

static bool jsonread_string(struct jsonread *json, char out[JSONREAD_TEXT])
{
    size_t used = 0;
    char letter;
    if (!jsonread_take(json, '"'))
        return jsonread_fail(json, "want a string");
    const char *start = json->at;
    while (json->at < json->end && *json->at != '"') {
        if (!jsonread_one(json, &letter))
            return false;
        if (used + 1 < JSONREAD_TEXT)
            out[used++] = letter;
    }
    out[used] = 0;
    if (json->at == json->end)
        return jsonread_fail(json, "a string has no end");
    if (!jsonread_is_text(start, (size_t)(json->at - start)))
        return jsonread_fail(json, "a string is not UTF-8");
    json->at++;
    return true;
}

/* ---- Values ---- */

static bool jsonread_number(struct jsonread *json, struct jsonread_value *out)
{
    bool negative = jsonread_take(json, '-'), large = false;
    uint64_t value = 0;
    const char *start = json->at;
    for (; json->at < json->end && isdigit((unsigned char)*json->at); json->at++) {
        large |= __builtin_mul_overflow(value, 10, &value);
        large |= __builtin_add_overflow(value, (unsigned)(*json->at - '0'), &value);
    }
    if (json->at == start || (*start == '0' && json->at > start + 1))
        return jsonread_fail(json, "want a number");
    const char *whole = json->at;
    while (json->at < json->end && *json->at && strchr("0123456789.eE+-", *json->at))
        json->at++;
    if (whole == json->at && (large || value > INT64_MAX))
        return jsonread_fail(json, "a number is too large");
    out->kind = whole == json->at ? JSONREAD_INTEGER : JSONREAD_OTHER;
    out->number = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool jsonread_word(struct jsonread *json, struct jsonread_value *out)
{
    static const struct {
        const char *word;
        struct jsonread_value means;
    } words[] = {
        {"true", {JSONREAD_BOOLEAN, 1, ""}}, {"false", {JSONREAD_BOOLEAN, 0, ""}}, {"null", {JSONREAD_OTHER, 0, ""}}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);
        if ((size_t)(json->end - json->at) >= length && memcmp(json->at, words[i].word, length) == 0) {
            json->at += length;
            *out = words[i].means;
            return true;
        }
    }
    return jsonread_fail(json, json->at == json->end ? "a value is missing at the end" : "want a value");
}

static bool jsonread_pass(struct jsonread *json, const char *key, void *context)
{
    struct jsonread_value passed;
    return jsonread_value(json, &passed);
}

bool jsonread_value(struct jsonread *json, struct jsonread_value *out)
{
    *out = (struct jsonread_value){.kind = jsonread_next(json)};
    switch (out->kind) {
    case JSONREAD_STRING:
        return jsonread_string(json, out->text);
    case JSONREAD_INTEGER:
        return jsonread_number(json, out);
    case JSONREAD_OBJECT:
        return jsonread_object(json, jsonread_pass, NULL);
    case JSONREAD_ARRAY:
        return jsonread_array(json, jsonread_pass, NULL);
    default:
        return jsonread_word(json, out);
    }
}

/* What is between brackets, with a key before each value in an object. */
static bool jsonread_members(struct jsonread *json, bool keys, jsonread_each_fn *each, void *context)
{
    char key[JSONREAD_TEXT] = "", close = keys ? '}' : ']';
    if (json->depth == DEEPEST)
        return jsonread_fail(json, "too many objects and arrays in one another");
    if (jsonread_take(json, close))
        return true;
    json->depth++;
    do {
        if (keys && !jsonread_string(json, key))
            return false;
        if (keys && !jsonread_take(json, ':'))
            return jsonread_fail(json, "want a colon behind a key");
        if (!each(json, key, context))
            return jsonread_fail(json, "want another value");
    } while (jsonread_take(json, ','));
    json->depth--;
    return jsonread_take(json, close) ||
           jsonread_fail(json, keys ? "want , or } behind a value" : "want , or ] behind a value");
}

bool jsonread_object(struct jsonread *json, jsonread_each_fn *each, void *context)
{
    return jsonread_take(json, '{') ? jsonread_members(json, true, each, context)
                                    : jsonread_fail(json, "want an object");
}

bool jsonread_array(struct jsonread *json, jsonread_each_fn *each, void *context)
{
    return jsonread_take(json, '[') ? jsonread_members(json, false, each, context)
                                    : jsonread_fail(json, "want an array");
}
