/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/import.h"

#include "base/error.h"

#include <string.h>

tutti_result_t import_text(const char *label, const char *host, const char *text, size_t length,
                           struct cabling *cabling)
{
    json_error_t why;
    size_t blank = 0;
    cabling->label = label;
    while (blank < length && text[blank] && strchr(" \t\r\n", text[blank]))
        blank++;
    if (blank == length)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: it is empty", label);
    if (text[blank] != '{' && text[blank] != '[')
        return import_table(text, length, cabling);
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: no JSON: %s", label, why.line, why.text);
    tutti_result_t result;
    if (json_object_get(root, "lldp"))
        result = import_lldp(host, root, cabling);
    else if (json_object_get(root, "DEVICE_METADATA"))
        result = import_sonic(root, cabling);
    else
        result = error_note(TUTTI_INVALID_ARGUMENT,
                            "%s: it is neither what lldpcli -f json show neighbors prints, nor the config_db.json of a "
                            "SONiC switch",
                            label);
    json_decref(root);
    return result;
}
