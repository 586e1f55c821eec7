/* SPDX-License-Identifier: Apache-2.0 */
/* Which lanes are backups. */
#include "path/path.h"

#include "base/net.h"
#include "base/param.h"

#include <stdio.h>

/* "mlx5_0" names all ports of that device, "mlx5_0:1" one. */
static bool is_kept(const char *wish, const struct transport_nic *nic)
{
    char name[sizeof nic->name + 16];
    bool named = net_name_wanted(wish, nic->name);
    snprintf(name, sizeof name, "%s:%u", nic->name, nic->port);
    return *wish == '^' ? named && net_name_wanted(wish, name) : named || net_name_wanted(wish, name);
}

int path_lanes_and_backups(void *state, const struct path_question *question, struct path_wish *wishes)
{
    const char *wish = param_string(PARAM_BACKUP);
    int count = path_all_data(state, question, wishes), left = 0;
    bool kept[LINK_MAX_LANES] = {false};
    for (int i = 0; *wish && question->nics && i < count; i++) {
        kept[i] = is_kept(wish, &question->nic[i % question->nics]);
        left += wishes[i].roles & PATH_DATA && !kept[i];
    }
    for (int i = 0; left && i < count; i++)
        if (kept[i] && wishes[i].roles & PATH_DATA)
            wishes[i].roles = (uint16_t)((wishes[i].roles & ~(unsigned)PATH_DATA) | PATH_BACKUP);
    return count;
}
