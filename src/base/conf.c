/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of NAME=VALUE; '#' begins a comment, blanks around names and values do not count. */
#include "base/conf.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256 /* variables; more are not looked at */

static char *variables[MOST]; /* "NAME=VALUE"; the first of a name counts */
static int count;

/* In place. */
static char *conf_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = 0;
    return text;
}

static void conf_keep(const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *variable = *name && *value && count < MOST && !conf_find(name) ? malloc(size) : NULL;
    if (!variable)
        return;
    snprintf(variable, size, "%s=%s", name, value);
    variables[count++] = variable;
}

static void conf_read_file(const char *path)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0) {
        line[strcspn(line, "#")] = 0;
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value = 0;
        conf_keep(conf_trim(line), conf_trim(value + 1));
    }
    free(line);
    if (file)
        fclose(file);
}

void conf_load(void)
{
    const char *named = getenv(CONF_VARIABLE), *home = getenv("HOME");
    char path[512];
    while (count)
        free(variables[--count]);
    if (named && *named) {
        conf_read_file(named);
    } else if (home && *home) {
        snprintf(path, sizeof path, "%.480s/.nccl.conf", home);
        conf_read_file(path);
    }
    conf_read_file("/etc/nccl.conf");
}

const char *conf_find(const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < count; i++)
        if (strncmp(variables[i], name, length) == 0 && variables[i][length] == '=')
            return variables[i] + length + 1;
    return NULL;
}

void conf_each(void (*says)(const char *variable, void *context), void *context)
{
    for (int i = 0; i < count; i++)
        says(variables[i], context);
}
