/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of the lab's links: words in a file and on a command line. */
#include "wiring/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

tutti_result_t config_rate(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    if (!text || !config_parse_rate(text, out))
        return config_fail(file, node,
                           "%s: \"%s\" is not a rate; write a number from 8kbit to 1000gbit with kbit, mbit or gbit, "
                           "such as 200mbit, or none",
                           key->name, config_shown(node));
    return TUTTI_SUCCESS;
}

bool config_parse_rate(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    char *end;
    if (strcasecmp(text, "none") == 0) {
        *out = 0;
        return true;
    }
    double value = strtod(text, &end);
    if (end == text || !isfinite(value))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(end, units[i].unit) == 0 && value * units[i].factor >= 8e3 && value * units[i].factor <= 1e12) {
            *out = (uint64_t)(value * units[i].factor + 0.5);
            return true;
        }
    return false;
}

void config_format_rate(uint64_t rate, char *out, size_t size)
{
    if (rate == 0)
        snprintf(out, size, "none");
    else if (rate >= 1000000000)
        snprintf(out, size, "%.4ggbit", (double)rate / 1e9);
    else if (rate >= 1000000)
        snprintf(out, size, "%.4gmbit", (double)rate / 1e6);
    else
        snprintf(out, size, "%.4gkbit", (double)rate / 1e3);
}
