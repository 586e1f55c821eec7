/* SPDX-License-Identifier: Apache-2.0 */
/* The engine tells, under its lock, that some device has gone. Ours is taken before that one, so the thread looks which
 * it was. */
#include "rdmacm/removal.h"
#include "rdmacm/door.h"
#include "rdmacm/peer.h"

#include "verbs/device.h"
#include "verbs/engine.h"

static void end_if_gone(struct list *node)
{
    struct cm_id *id = list_entry(node, struct cm_id, node);
    if (!id->place.guid || id->removed || place_is_there(&id->place))
        return;
    id->removed = true;
    door_leave(id);
    peer_end(id);
    id->state = CM_OVER;
    id_post(id, CM_DEVICE_REMOVAL, 0, NULL);
}

static void look(void)
{
    channel_each_id(end_if_gone);
}

void removal_watch(void)
{
    watch_on_look(look);
    engine_lock();
    device_on_vanish(watch_look);
    engine_unlock();
}
