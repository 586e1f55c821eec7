/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of the diagnosis in the boxes that are shown. */
#include "cli/trace.h"
#include "cli/trace_set.h"

#include "diagnosis/process.h"
#include "verdict/verdict.h"

#include <stdlib.h>

struct findings view_findings(const struct view_options *options, const struct view_set *set)
{
    struct process_facts *facts = process_facts_read(set->boxes, set->count);
    const struct snapshot snapshot = {.now = {set->boxes, facts, set->count}, .stuck = options->stuck};
    struct findings findings = diagnosis_find(&snapshot);
    free(facts);
    return findings;
}

json_t *view_findings_json(const struct findings *findings)
{
    json_t *out = json_array();
    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(out, verdict_json(&findings->items[i]));
    return out;
}
