/* SPDX-License-Identifier: Apache-2.0 */
#include "report/token.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

/* The token goes into an HTTP header: it has letters that need no quotes there. */
static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text <= 32 || *text >= 127)
            return false;
    return true;
}

tutti_result_t token_load(const char *path, struct token *out)
{
    char line[TOKEN_MOST + 3] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return error_note(TUTTI_SYSTEM_ERROR, "reading the token in %s: %s", path, strerror(errno));
    bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    line[strcspn(line, "\r\n")] = 0;
    size_t length = strlen(line);
    if (!got || length < TOKEN_LEAST || length > TOKEN_MOST || !is_plain(line))
        return error_note(TUTTI_INVALID_USAGE,
                          "the first line of %s is no token: want %d to %d characters without spaces", path,
                          TOKEN_LEAST, TOKEN_MOST);
    memcpy(out->text, line, length + 1);
    return TUTTI_SUCCESS;
}
