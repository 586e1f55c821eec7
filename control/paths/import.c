/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/import.h"

#include "base/error.h"

#include <string.h>

static tutti_result_t import_object(const char *host, const json_t *root, struct cabling *cabling)
{
    if (json_object_get(root, "lldp"))
        return import_lldp(host, root, cabling);
    if (json_object_get(root, "DEVICE_METADATA"))
        return import_sonic(root, cabling);
    return error_note(TUTTI_INVALID_ARGUMENT,
                      "%s: it is neither what lldpcli -f json show neighbors prints, nor the config_db.json of a "
                      "SONiC switch",
                      cabling->label);
}

tutti_result_t import_text(const char *label, const char *host, const char *text, size_t length,
                           struct cabling *cabling)
{
    json_error_t why;
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
    size_t blank = length >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    cabling->label = label;
    while (blank < length && text[blank] && strchr(" \t\r\n", text[blank]))
        blank++;
    if (blank == length)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: it is empty", label);
    char first = text[blank];
    if (first == '#')
        return import_ports(text, length, cabling);
    if (first != '<' && first != '{' && first != '[')
        return import_table(text, length, cabling);
    json_t *root =
        first == '<' ? import_xml(label, text, length) : json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (!root && first != '<')
        error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: no JSON: %s", label, why.line, why.text);
    if (!root)
        return TUTTI_INVALID_ARGUMENT;
    tutti_result_t result = first == '<' ? import_minigraph(root, cabling) : import_object(host, root, cabling);
    json_decref(root);
    return result;
}
