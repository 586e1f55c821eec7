/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict/verdict.h"

#include <inttypes.h>

const char *verdict_word(const struct finding *finding)
{
    return finding_is_note(finding->kind) ? "NOTE" : "VERDICT";
}

void verdict_print(FILE *out, const struct finding *finding)
{
    const struct finding_row *row = finding_row(finding->kind);
    fprintf(out, "%s: %s\n", verdict_word(finding), finding->sentence);
    fprintf(out, "  %s: %s (%s)\n", finding_class_name(row->class), row->name, confidence_name(finding->confidence));
    for (size_t i = 0; i < finding->evidence_count; i++)
        fprintf(out, "  - %s\n", finding->evidence[i]);
    fprintf(out, "  what to do: %s\n", finding->remedy);
}

json_t *verdict_text(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *number_json(int64_t number, bool known)
{
    return known ? json_integer(number) : json_null();
}

json_t *verdict_json(const struct finding *finding)
{
    const struct culprit *culprit = &finding->culprit;
    char id[24];
    json_t *evidence = json_array();
    snprintf(id, sizeof id, "%016" PRIx64, culprit->comm);
    for (size_t i = 0; i < finding->evidence_count; i++)
        json_array_append_new(evidence, verdict_text(finding->evidence[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "kind",
                     finding_row(finding->kind)->name, "class", finding_class_name(finding_row(finding->kind)->class),
                     "confidence", confidence_name(finding->confidence), "comm", id, "name",
                     verdict_text(culprit->name), "rank", number_json(culprit->rank, culprit->rank >= 0), "world_rank",
                     number_json(culprit->world_rank, culprit->world_rank >= 0), "peer",
                     number_json(culprit->peer, culprit->peer >= 0), "pid", number_json(culprit->pid, culprit->pid),
                     "host", verdict_text(culprit->host), "victims", (json_int_t)finding->victims, "text",
                     verdict_text(finding->sentence), "evidence", evidence, "remedy", verdict_text(finding->remedy));
}
