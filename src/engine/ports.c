/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest ports of a GPU are those whose path in sysfs shares the most folders with the GPU's: the fewest bridges
 * lie between. What a GPU sends goes by these. So GPUs of a host, each with an adapter at its switch, do not meet on
 * the way.
 */
#include "engine/ports.h"

#include "base/near.h"
#include "engine/engine.h"

/* Bits of the nearest; 0: all are as near, or nothing is known. */
static uint32_t ports_find(const struct engine *engine, const char *gpu)
{
    struct transport_nic nic;
    uint32_t nearest = 0, all = 0;
    int most = 0;
    for (unsigned i = 0; i < WIRE_DEVICES && link_domain_nic(engine->links, &transport_verbs, i, &nic); i++) {
        char adapter[NEAR_FOLDER + 64];
        near_adapter(nic.name, adapter);
        int shared = near_shared("", gpu, adapter);
        if (shared > most)
            nearest = 0;
        most = shared > most ? shared : most;
        nearest |= shared && shared == most ? 1u << i : 0;
        all |= 1u << i;
    }
    return nearest == all ? 0 : nearest;
}

uint32_t ports_near(void *context, struct place place, const struct transport_ops *ops)
{
    struct engine *engine = context;
    char gpu[NEAR_FOLDER];
    unsigned ordinal = (unsigned)place.device - 1;
    if (ops != &transport_verbs || place.device < 1 || ordinal >= ENGINE_GPUS)
        return 0;
    if (!(engine->near_known >> ordinal & 1) && near_gpu((int)ordinal, gpu)) {
        engine->near[ordinal] = ports_find(engine, gpu);
        engine->near_known |= 1ull << ordinal;
    }
    return engine->near[ordinal];
}

uint32_t ports_of(struct engine *engine, int gpu)
{
    lock_take(&engine->lock);
    uint32_t ports = ports_near(engine, (struct place){.device = gpu + 1}, &transport_verbs);
    lock_release(&engine->lock);
    return ports;
}

bool ports_are_idle(struct engine *engine, uint32_t ports, bool comes)
{
    lock_take(&engine->lock);
    bool idle = link_domain_idle(engine->links, &transport_verbs, ports, comes);
    lock_release(&engine->lock);
    return idle;
}
