/* SPDX-License-Identifier: Apache-2.0 */
/* In place of import_xml.c in a build without expat. */
#include "paths/import.h"

#include "base/error.h"

json_t *import_xml(const char *label, const char *text, size_t length)
{
    (void)text, (void)length;
    error_note(TUTTI_INVALID_USAGE, "%s: this program was built without expat, which reads XML", label);
    return NULL;
}
