/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/launcher.h"

uint32_t launcher_stopped(const struct scene *scene, const struct member *member)
{
    const struct process_facts *before = facts_before(scene, member);
    return before && before->stopped_parent == member->facts->stopped_parent ? before->stopped_parent : 0;
}

struct finding *launcher_add(struct findings *findings, const struct blackbox_comm *comm, uint32_t launcher,
                             size_t victims)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind == FINDING_STOPPED && findings->items[i].culprit.pid == launcher) {
            findings->items[i].victims += victims;
            return NULL;
        }
    struct finding *finding = finding_add_rank(findings, FINDING_STOPPED, comm, -1);
    finding->confidence = LIKELY;
    finding->victims = victims;
    finding->culprit.pid = launcher;
    say(finding, "process %u, which has started ranks, is stopped", launcher);
    return finding;
}
