/* SPDX-License-Identifier: Apache-2.0 */
/* The table port_config.ini of a kind of switches, which has the names that minigraphs and SONiC give to ports. */
#include "paths/import.h"

#include "base/error.h"

#include <ctype.h>
#include <string.h>

#define WORDS     32  /* of a line */
#define LONG_LINE 512 /* bytes, with the zero at the end */

/* Returns how many words a line has. They are in it. */
static int words_of(char *line, char *word[WORDS])
{
    int count = 0;
    char *rest = NULL;
    for (char *at = strtok_r(line, " \t\r", &rest); at && count < WORDS; at = strtok_r(NULL, " \t\r", &rest))
        word[count++] = at;
    return count;
}

static int index_of(char *const *word, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word[i], name) == 0)
            return i;
    return -1;
}

static bool is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isprint((unsigned char)text[i]) && !isspace((unsigned char)text[i]))
            return false;
    return true;
}

/* The first line is "# name lanes alias ...". Other lines that begin with # are remarks. */
tutti_result_t import_ports(const char *text, size_t length, struct cabling *c)
{
    char line[LONG_LINE], *word[WORDS];
    int name = -1, alias = -1, number = 0;
    const char *end = text + length;
    json_decref(c->port_names);
    c->port_names = json_object();
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((stop ? stop : end) - at);
        number++;
        if (bytes >= sizeof line || !is_plain(at, bytes))
            return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: it is no line of ports", c->label, number);
        memcpy(line, at, bytes);
        line[bytes] = 0;
        at += bytes + 1;
        bool remark = line[strspn(line, " \t")] == '#';
        int count = words_of(remark ? strchr(line, '#') + 1 : line, word);
        if (remark && name < 0 && count) {
            name = index_of(word, count, "name");
            alias = index_of(word, count, "alias");
            if (name < 0 || alias < 0)
                return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: the headings have no name, or no alias", c->label,
                                  number);
        }
        if (remark || !count)
            continue;
        if (name < 0 || name >= count || alias >= count)
            return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: it has no name of a port, or no alias", c->label, number);
        tutti_result_t result = cabling_once(c, c->port_names, word[alias], "name", word[name]);
        if (result)
            return result;
    }
    return TUTTI_SUCCESS;
}
