/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/system.h"

#include "diagnosis/phrase.h"
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"

#include <stdio.h>
#include <string.h>

static const char *group_of(const struct member *member)
{
    return *member->facts->group ? member->facts->group : "(no name)";
}

void prove_system(const struct scene *scene, struct finding *finding, const struct member *member)
{
    const struct process_facts *now = member->facts, *before = facts_before(scene, member);
    const struct processor_share share = share_of(scene, member);
    if (share.throttled)
        prove(finding, "control group %s: its quota of processors was used up for %s of the last %s, %s times",
              group_of(member), phrase_time(share.throttled).text, phrase_time(share.time).text,
              phrase_number(now->stops > before->stops ? now->stops - before->stops : 0).text);
    if (before && before->at && now->at > before->at && now->faults >= before->faults + FAULTS_LEAST)
        prove(finding, "it waited %s times for pages of memory from a disk in the last %s: memory is short there",
              phrase_number(now->faults - before->faults).text, phrase_time(now->at - before->at).text);
}

void prove_frozen(struct finding *finding, const struct member *member)
{
    prove(finding, "control group %s is frozen: no process of it runs", group_of(member));
    snprintf(finding->remedy, sizeof finding->remedy,
             "let the group go on: echo 0 >cgroup.freeze in %s of /sys/fs/cgroup (version 1: echo THAWED "
             ">freezer.state); find out who froze it: a container's pause, a batch system",
             group_of(member));
}

static bool same_machine(const struct member *a, const struct member *b)
{
    return memcmp(a->box->header.boot_id, b->box->header.boot_id, sizeof a->box->header.boot_id) == 0;
}

/* The log names the process. Without the log, counters of those that live beside it tell less. */
void prove_memory(const struct scene *scene, struct finding *finding, const struct member *dead)
{
    const struct process_facts *facts = dead->facts;
    if (facts->out_of_memory) {
        prove(finding, "the kernel has killed it for memory, says its log: the limit was %s%s",
              *facts->group ? "that of control group " : "the machine's", facts->group);
        snprintf(finding->remedy, sizeof finding->remedy,
                 "give it more memory (%s), or let it use less; then start the job again",
                 *facts->group ? "memory.max of that group, or what the batch system allows" : "a larger machine");
        return;
    }
    for (size_t i = 0; i < scene->count; i++) {
        const struct member *other = &scene->members[i];
        if (!other->facts->killed || !other->box->alive || !same_machine(other, dead))
            continue;
        prove(finding,
              "of the control group of process %u, which lives beside it, %s processes were killed for memory so far",
              other->box->header.pid, phrase_number(other->facts->killed).text);
        return;
    }
}
