/* SPDX-License-Identifier: Apache-2.0 */
/* What the diagnosis finds in the boxes that are shown. */
#include "trace.h"

#include "diagnosis/process.h"

#include <inttypes.h>
#include <stdlib.h>

struct findings view_findings(const struct view_options *options, const struct view_set *set)
{
    struct process_facts *facts = process_facts_read(set->boxes, set->count);
    const struct snapshot snapshot = {.now = {set->boxes, facts, set->count}, .stuck = options->stuck};
    struct findings findings = diagnosis_find(&snapshot);
    free(facts);
    return findings;
}

static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *number_json(int64_t number, bool known)
{
    return known ? json_integer(number) : json_null();
}

static json_t *finding_json(const struct finding *finding)
{
    const struct culprit *culprit = &finding->culprit;
    char id[24];
    json_t *evidence = json_array();
    snprintf(id, sizeof id, "%016" PRIx64, culprit->comm);
    for (size_t i = 0; i < finding->evidence_count; i++)
        json_array_append_new(evidence, text_json(finding->evidence[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "kind", finding_row(finding->kind)->name, "class",
                     finding_class_name(finding_row(finding->kind)->class), "confidence", confidence_name(finding->confidence), "comm", id, "name",
                     text_json(culprit->name), "rank", number_json(culprit->rank, culprit->rank >= 0), "world_rank",
                     number_json(culprit->world_rank, culprit->world_rank >= 0), "peer",
                     number_json(culprit->peer, culprit->peer >= 0), "pid", number_json(culprit->pid, culprit->pid), "host",
                     text_json(culprit->host), "victims", (json_int_t)finding->victims, "text", text_json(finding->sentence), "evidence", evidence,
                     "remedy", text_json(finding->remedy));
}

json_t *view_findings_json(const struct findings *findings)
{
    json_t *out = json_array();
    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(out, finding_json(&findings->items[i]));
    return out;
}
