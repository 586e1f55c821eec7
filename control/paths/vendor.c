/* SPDX-License-Identifier: Apache-2.0 */
/* What the grammars of several vendors need. */
#include "paths/vendor.h"

#include <stdio.h>

void acl_host_ports(const struct acl_leaf *leaf, const char *before, const char *after)
{
    const struct fabric *f = leaf->paths->fabric;
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++)
            if (f->nic[n].port[p].leaf == leaf->number)
                text_add(leaf->out, "%s%s%s", before, fabric_word(f, f->nic[n].port[p].name), after);
}

void acl_dscp(const struct acl_leaf *leaf, const char *before)
{
    if (leaf->paths->dscp >= 0)
        text_add(leaf->out, "%s%d", before, leaf->paths->dscp);
}

void acl_mask(int bits, char out[16])
{
    uint32_t mask = bits > 0 ? ~0u << (32 - bits) : 0;
    snprintf(out, 16, "%u.%u.%u.%u", mask >> 24, mask >> 16 & 255, mask >> 8 & 255, mask & 255);
}
