/* SPDX-License-Identifier: Apache-2.0 */
#include "pathmaster/tenants.h"

#include "base/error.h"
#include "yaml/config_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST (1 << 20)

static bool is_name(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
    return length && length < TENANT_NAME && !text[length];
}

/* The token goes into an HTTP header: letters that need no quotes there. Blanks have ended it. */
static bool is_token(const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= 32 || (unsigned char)text[i] >= 127)
            return false;
    return length >= TOKEN_LEAST && length <= TOKEN_MOST;
}

static bool read_right(const char *word, struct tenant *out)
{
    char *end;
    if (strcmp(word, "operator") == 0)
        return (out->operates = true);
    if (strcmp(word, "prober") == 0)
        return (out->probes = true);
    long most = strtol(word, &end, 10);
    out->most = (int32_t)most;
    return *word >= '1' && *word <= '9' && !*end && most <= INT32_MAX;
}

/* All words of the rest of a line. */
static bool read_rights(char **rest, struct tenant *out)
{
    bool good = true;
    for (char *word = strtok_r(NULL, " \t\r", rest); good && word; word = strtok_r(NULL, " \t\r", rest))
        good = read_right(word, out);
    return good;
}

static tutti_result_t add_tenant(const char *label, int line, char *text, struct tenants *out)
{
    char *rest = NULL, *name = strtok_r(text, " \t\r", &rest), *token = name ? strtok_r(NULL, " \t\r", &rest) : NULL;
    struct tenant *tenant = &out->tenant[out->count];
    if (!name || *name == '#')
        return TUTTI_SUCCESS;
    if (out->count == TENANTS_MOST)
        return error_note(TUTTI_INVALID_USAGE, "%s:%d: more than %d tenants", label, line, TENANTS_MOST);
    *tenant = (struct tenant){0};
    if (!is_name(name) || !token || !is_token(token) || !read_rights(&rest, tenant))
        return error_note(
            TUTTI_INVALID_USAGE,
            "%s:%d: want NAME TOKEN, and perhaps the lanes at a time, \"operator\", \"prober\"; a token has "
            "%d to %d characters",
            label, line, TOKEN_LEAST, TOKEN_MOST);
    for (int i = 0; i < out->count; i++)
        if (strcmp(out->tenant[i].name, name) == 0 || strcmp(out->token[i].text, token) == 0)
            return error_note(TUTTI_INVALID_USAGE, "%s:%d: an earlier line has this name, or this token", label, line);
    snprintf(tenant->name, sizeof tenant->name, "%s", name);
    snprintf(out->token[out->count].text, sizeof out->token[0].text, "%s", token);
    out->count++;
    return TUTTI_SUCCESS;
}

tutti_result_t tenants_parse(const char *label, char *text, struct tenants *out)
{
    *out = (struct tenants){.tenant = calloc(TENANTS_MOST + 1, sizeof *out->tenant),
                            .token = calloc(TENANTS_MOST + 1, sizeof *out->token)};
    tutti_result_t result = out->tenant && out->token
                                ? TUTTI_SUCCESS
                                : error_note(TUTTI_SYSTEM_ERROR, "no memory for the tenants of %s", label);
    char *next = text;
    for (int line = 1; !result && next; line++) {
        char *one = strsep(&next, "\n");
        result = add_tenant(label, line, one, out);
    }
    if (!result && !out->count)
        result = error_note(TUTTI_INVALID_USAGE, "%s: no line has a tenant: NAME TOKEN", label);
    return result;
}

tutti_result_t tenants_load(const char *path, struct tenants *out)
{
    char *text = NULL;
    size_t length = 0;
    *out = (struct tenants){0};
    tutti_result_t result = config_read_file(path, FILE_MOST, &text, &length);
    if (!result && memchr(text, 0, length))
        result = error_note(TUTTI_INVALID_USAGE, "%s: a byte 0 is no text", path);
    char *ended = result ? NULL : realloc(text, length + 1);
    if (!result && !ended)
        result = error_note(TUTTI_SYSTEM_ERROR, "no memory for the tenants of %s", path);
    if (ended) {
        text = ended;
        text[length] = 0;
    }
    if (!result)
        result = tenants_parse(path, text, out);
    free(text);
    return result;
}

void tenants_free(struct tenants *tenants)
{
    free(tenants->tenant);
    free(tenants->token);
    *tenants = (struct tenants){0};
}
