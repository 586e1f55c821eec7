/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/door.h"
#include "cli/cli.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEM_MOST (1 << 20)

/* Reads a file as text, which the caller frees. NULL after error_note. */
static char *slurp(const char *path)
{
    char *text = calloc(1, PEM_MOST + 1);
    FILE *file = fopen(path, "re");
    size_t length = text && file ? fread(text, 1, PEM_MOST, file) : 0;
    bool fine = length && !ferror(file) && length < PEM_MOST;
    if (!fine)
        error_note(TUTTI_SYSTEM_ERROR, "reading %s: %s", path, file ? "no PEM" : strerror(errno));
    if (file)
        fclose(file);
    if (fine)
        return text;
    free(text);
    return NULL;
}

int door_check(const char *command, const struct door_wishes *wishes)
{
    if (!wishes->certificate != !wishes->key)
        return usage_error(command, "--certificate and --key go together");
    if (wishes->client_ca && !wishes->certificate)
        return usage_error(command, "--client-ca wants --certificate and --key, too");
    return -1;
}

bool door_load(const struct door_wishes *wishes, struct serve_door *out)
{
    char text[NET_TEXT];
    *out = (struct serve_door){0};
    if (net_parse("--listen", wishes->address, &out->at) != TUTTI_SUCCESS)
        return false;
    if (wishes->certificate)
        return (out->certificate = slurp(wishes->certificate)) && (out->key = slurp(wishes->key)) &&
               (!wishes->client_ca || (out->client_ca = slurp(wishes->client_ca)));
    if (wishes->plain || net_is_loopback(&out->at))
        return true;
    error_note(TUTTI_INVALID_USAGE, "%s: the token would travel in the clear: want --certificate and --key, or --plain",
               net_format(&out->at, text));
    return false;
}

void door_free(struct serve_door *door)
{
    free(door->certificate);
    free(door->key);
    free(door->client_ca);
}
