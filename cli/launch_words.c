/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch_words.h"

#include <stdlib.h>
#include <string.h>

char *words_line(const char *plain)
{
    char *line = malloc(2 * strlen(plain) + 1), *at = line;
    for (; line && *plain; plain++) {
        if (*plain == '\n' || *plain == '\\')
            *at++ = '\\';
        *at++ = *plain == '\n' ? 'n' : *plain;
    }
    if (line)
        *at = 0;
    return line;
}

char *words_plain(const char *line)
{
    char *plain = malloc(strlen(line) + 1), *at = plain;
    for (; plain && *line; line++) {
        if (*line == '\\' && line[1])
            *at++ = *++line == 'n' ? '\n' : *line;
        else
            *at++ = *line;
    }
    if (plain)
        *at = 0;
    return plain;
}
