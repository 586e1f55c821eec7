/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/masters.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define MASTERS 8
#define WAIT_MS 3000 /* for one of several: when the leader is silent for that long, another one leads */

struct masters {
    char *words, *url[MASTERS];
    struct sender *sender[MASTERS];
    int count, at;
};

static bool open_all(struct masters *masters, const struct sender_options *options, const volatile bool *stop)
{
    char *rest = NULL;
    bool several = strchr(masters->words, ',');
    for (char *word = strtok_r(masters->words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        struct sender_options one = *options;
        one.url = word;
        one.wait_ms = several ? WAIT_MS : 0;
        if (masters->count == MASTERS) {
            error_note(TUTTI_INVALID_USAGE, "--master: more than %d", MASTERS);
            return false;
        }
        if (!(masters->sender[masters->count] = sender_open(&one, stop)))
            return false;
        masters->url[masters->count++] = word;
    }
    if (!masters->count)
        error_note(TUTTI_INVALID_USAGE, "--master: want https://HOST:PORT");
    return masters->count;
}

struct masters *masters_open(const struct sender_options *options, const volatile bool *stop)
{
    struct masters *masters = calloc(1, sizeof *masters);
    if (!masters || !(masters->words = strdup(options->url))) {
        free(masters);
        error_note(TUTTI_SYSTEM_ERROR, "no memory for the names of masters");
        return NULL;
    }
    if (open_all(masters, options, stop))
        return masters;
    masters_close(masters);
    return NULL;
}

void masters_close(struct masters *masters)
{
    if (!masters)
        return;
    for (int i = 0; i < MASTERS; i++)
        sender_close(masters->sender[i]);
    free(masters->words);
    free(masters);
}

bool masters_ask(struct masters *masters, const uint8_t *bytes, size_t size, const uint8_t **answer, size_t *answered)
{
    for (int i = 0; i < masters->count; i++) {
        if (sender_ask(masters->sender[masters->at], "paths", bytes, size, answer, answered))
            return true;
        masters->at = (masters->at + 1) % masters->count;
    }
    return false;
}

const char *masters_url(const struct masters *masters)
{
    return masters->url[masters->at];
}
