/* SPDX-License-Identifier: Apache-2.0 */
/* Which lanes there are, and which are backups. */
#include "path/path.h"

#include "base/net.h"
#include "base/param.h"

#include <stdio.h>
#include <string.h>

/* "mlx5_0" names all ports of that device, "mlx5_0:1" one. */
static bool is_kept(const char *wish, const struct transport_nic *nic)
{
    char name[sizeof nic->name + 16];
    bool named = net_name_wanted(wish, nic->name);
    snprintf(name, sizeof name, "%s:%u", nic->name, nic->port);
    return *wish == '^' ? named && net_name_wanted(wish, name) : named || net_name_wanted(wish, name);
}

/* The least distance, where it is known of all; 0: it is not. */
static int roles_nearest(const struct path_question *question)
{
    int least = 0;
    for (int i = 0; i < question->nics; i++) {
        int here = question->nic[i].distance;
        if (!here)
            return 0;
        least = !least || here < least ? here : least;
    }
    return least;
}

/* TUTTI_QUEUES: the most queue pairs for each port to a peer this far away (DQPLB, NCCLX section 4.4). */
static int as_many_as_told(const struct path_question *question, int count)
{
    struct path_windows told;
    if (question->messages || !question->nics || !path_parse_queues(param_string(PARAM_QUEUES), &told))
        return count;
    uint64_t most = (uint64_t)told.window[question->distance].segments * (uint64_t)question->nics;
    return most && most < (uint64_t)count ? (int)most : count;
}

int path_lanes_and_backups(void *state, const struct path_question *question, struct path_wish *wishes)
{
    const char *wish = param_string(PARAM_BACKUP);
    bool alone = strcmp(wish, "none") == 0, by_distance = !*wish || strcmp(wish, "auto") == 0;
    int least = by_distance ? roles_nearest(question) : 0;
    int count = as_many_as_told(question, path_all_data(state, question, wishes)), left = 0;
    bool kept[LINK_MAX_LANES] = {false};
    for (int i = 0; !alone && question->nics && i < count; i++) {
        const struct transport_nic *nic = &question->nic[i % question->nics];
        kept[i] = by_distance ? nic->distance > least && least : is_kept(wish, nic);
        left += wishes[i].roles & PATH_DATA && !kept[i];
    }
    for (int i = 0; left && i < count; i++)
        if (kept[i] && wishes[i].roles & PATH_DATA)
            wishes[i].roles = (uint16_t)((wishes[i].roles & ~(unsigned)PATH_DATA) | PATH_BACKUP);
    return count;
}
