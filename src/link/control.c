/* SPDX-License-Identifier: Apache-2.0 */
/* Which lane carries a link's messages. */
#include "link/control.h"

#include "link/message.h"

bool control_tells_of_peer(const struct link_lane *lane)
{
    return lane->ops == lane->link->messages;
}

bool control_carries(const struct link_lane *lane)
{
    return control_tells_of_peer(lane) || (lane->ops && lane->ops->caps & TRANSPORT_MESSAGES && !lane->link->lossless);
}

/*
 * How good the lane is for messages; 0: not at all. Best is the lane for messages beside the data. When that lane has
 * died, best is one that carries data. Last comes a lane of the other transport, where the present one stays. What has
 * just come back may be gone again. One that stands still, or is to move, is good only where all others are.
 */
static int worth(const struct link *link, const struct link_lane *lane)
{
    bool present = link->control == lane->index;
    if (lane->state != LANE_UP || !lane->carrier || !control_carries(lane))
        return 0;
    if (lane_is_left(lane))
        return present ? 2 : 1;
    if (control_tells_of_peer(lane))
        return present ? 7 : lane->view.roles & PATH_CONTROL ? 6 : 5;
    if (lane->life.settling)
        return lane->index == LINK_MESSAGE_LANE ? 4 : 3;
    if (lane->index == LINK_MESSAGE_LANE)
        return 10;
    bool replaces = link->lane[LINK_MESSAGE_LANE].life.was_up && link->usable & lane_bit(lane->index);
    return !replaces ? 3 : present ? 9 : 8;
}

void control_choose(struct link *link)
{
    int best = -1, most = 0;
    for (lane_set left = link->present; left; left &= left - 1) {
        int i = (int)lane_first(left), here = worth(link, &link->lane[i]);
        if (here > most) {
            most = here;
            best = i;
        }
    }
    bool changes = best != link->control;
    link->control = best;
    if (changes && best >= 0)
        message_resend(link);
}
