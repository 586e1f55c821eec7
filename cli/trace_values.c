/* SPDX-License-Identifier: Apache-2.0 */
/* Values of black boxes as JSON. */
#include "cli/trace_values.h"

#include <inttypes.h>

json_t *view_time_json(const struct blackbox *box, uint64_t time)
{
    return time ? json_integer((json_int_t)(time + (uint64_t)box->realtime_offset)) : json_null();
}

json_t *view_hex_json(uint64_t value)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

json_t *view_text_json(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char plain[1024];
    size_t i;
    for (i = 0; text[i] && i + 1 < sizeof plain; i++)
        plain[i] = (unsigned char)text[i] < 127 ? text[i] : '?';
    plain[i] = 0;
    return json_string(plain);
}
