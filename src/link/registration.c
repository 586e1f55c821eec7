/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations of memory with a transport whose hardware reads and writes it by itself. Memory whose life is known
 * (base/known.h) is registered once, as a whole, and the registration is kept. Other memory is registered for one
 * payload, for nobody would say when its pages go. Sources and targets are registered apart: no peer knows the key of a
 * source, and the key of a target ends at once when one of the payloads that go there is given up.
 */
#include "link/registration.h"

#include "base/log.h"
#include "base/param.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { REGISTER_USE, REGISTER_POOL }; /* TUTTI_REGISTER */

static void registration_end(struct link_domain *domain, struct link_registration *registration)
{
    list_remove(&registration->node);
    domain->registered -= registration->memory->length;
    domain->ops[registration->transport]->deregister_memory(domain->transport[registration->transport],
                                                            registration->memory);
    free(registration);
}

/* Nobody is to find it any more. */
void registration_retire(struct link_domain *domain, struct link_registration *registration)
{
    registration->known = 0;
    if (!registration->users)
        registration_end(domain, registration);
}

/* Ends the registrations that nobody uses, the longest unused first, until no more than `most` bytes are registered. */
static void registration_trim(struct link_domain *domain, uint64_t most)
{
    list_each_safe(node, &domain->registrations)
    {
        struct link_registration *registration = list_entry(node, struct link_registration, node);
        if (domain->registered <= most)
            break;
        if (!registration->users)
            registration_end(domain, registration);
    }
}

static tutti_result_t registration_ask(struct link_domain *domain, int transport, struct place place, size_t size,
                                       struct transport_memory **out)
{
    const struct transport_ops *ops = domain->ops[transport];
    return ops->register_memory(domain->transport[transport], place, size, out);
}

static struct place registration_place(const struct known *range)
{
    return (struct place){.address = range->base, .device = range->device, .life = range->id};
}

/* All of known memory, if the place has a life; else that of one payload. */
static struct link_registration *registration_make(struct link_domain *domain, int transport, struct place place,
                                                   size_t size, bool target)
{
    struct link_registration *made = calloc(1, sizeof *made);
    uint64_t most = (uint64_t)param_int(PARAM_REGISTERED);
    uint64_t begin = clock_ns();
    registration_trim(domain, most > size ? most - size : 0);
    tutti_result_t result = made ? registration_ask(domain, transport, place, size, &made->memory) : TUTTI_SYSTEM_ERROR;
    if (made && result != TUTTI_SUCCESS && result != TUTTI_INVALID_ARGUMENT &&
        domain->registered) { /* the system may have a limit of its own */
        registration_trim(domain, 0);
        result = registration_ask(domain, transport, place, size, &made->memory);
    }
    trace_count(domain->trace, WIRE_COUNTER_REGISTERING, clock_ns() - begin);
    if (result == TUTTI_INVALID_ARGUMENT && !place_is_host(place) && known_refuse(place.life))
        log_info("the %zu bytes at %p of GPU %d are copied through host memory: %s", size, place.address,
                 place.device - 1, error_last());
    if (result != TUTTI_SUCCESS) {
        free(made);
        return NULL;
    }
    made->transport = transport;
    made->target = target;
    made->known = place.life;
    list_push(&domain->registrations, &made->node);
    domain->registered += made->memory->length;
    trace_count(domain->trace, WIRE_COUNTER_REGISTRATIONS, 1);
    trace_count(domain->trace, WIRE_COUNTER_REGISTERED_BYTES, size);
    return made;
}

/* Does each device know the memory? One that was lost since, and is back, does not. */
static bool is_whole(const struct transport_memory *memory)
{
    for (int i = 0; i < memory->devices; i++)
        if (!memory->key[i])
            return false;
    return true;
}

static struct link_registration *registration_find(struct link_domain *domain, int transport, uint64_t known,
                                                   bool target)
{
    list_each(node, &domain->registrations)
    {
        struct link_registration *registration = list_entry(node, struct link_registration, node);
        if (registration->known == known && registration->target == target && registration->transport == transport)
            return registration;
    }
    return NULL;
}

struct link_registration *registration_take(struct link_domain *domain, int transport, struct place place,
                                            size_t length, bool target)
{
    struct known range;
    struct link_registration *found = NULL;
    bool kept = known_find(place.address, length, &range) && range.size <= (uint64_t)param_int(PARAM_REGISTERED);
    if ((place.life && (!kept || range.id != place.life)) || (!kept && param_int(PARAM_REGISTER) == REGISTER_POOL))
        return NULL; /* it is other memory by now, or is not to be registered */
    if (kept) {
        place = registration_place(&range);
        length = range.size;
        found = registration_find(domain, transport, range.id, target);
    }
    if (found && !is_whole(found->memory)) {
        registration_retire(domain, found);
        found = NULL;
    }
    if (!found && !(found = registration_make(domain, transport, place, length, target)))
        return NULL;
    found->users++;
    list_remove(&found->node); /* the latest are at the end */
    list_push(&domain->registrations, &found->node);
    return found;
}

void registration_drop(struct link_domain *domain, struct link_registration *registration)
{
    if (registration && --registration->users == 0 && !registration->known)
        registration_end(domain, registration);
}

/* With TUTTI_REGISTER=pool all known memory is registered before it is used. */
static void fill_pool(struct link_domain *domain)
{
    struct known range = {0};
    while (known_next(range.id, &range))
        for (int i = 0; i < domain->transports; i++)
            for (int target = 0; target <= 1; target++)
                if ((domain->ops[i]->caps & TRANSPORT_REGISTERS) &&
                    range.size <= (uint64_t)param_int(PARAM_REGISTERED) &&
                    !registration_find(domain, i, range.id, target))
                    registration_make(domain, i, registration_place(&range), range.size, target);
}

/* Known memory has come or gone. */
static void on_bell(struct poll_source *source, uint32_t events)
{
    struct link_domain *domain = (struct link_domain *)((char *)source - offsetof(struct link_domain, known_bell));
    uint64_t count;
    (void)events;
    (void)!read(source->fd, &count, sizeof count);
    list_each_safe(node, &domain->registrations)
    {
        struct link_registration *registration = list_entry(node, struct link_registration, node);
        if (registration->known && !known_lives(registration->known))
            registration_retire(domain, registration);
    }
    if (param_int(PARAM_REGISTER) == REGISTER_POOL)
        fill_pool(domain);
}

tutti_result_t registrations_open(struct link_domain *domain)
{
    bool any = false;
    for (int i = 0; i < domain->transports; i++)
        any |= domain->ops[i]->caps & TRANSPORT_REGISTERS;
    if (!any)
        return TUTTI_SUCCESS;
    domain->known_bell = (struct poll_source){.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), .ready = on_bell};
    if (domain->known_bell.fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make an eventfd: %s", strerror(errno));
    tutti_result_t result = poller_add(domain->poller, &domain->known_bell, EPOLLIN);
    if (result != TUTTI_SUCCESS) {
        close(domain->known_bell.fd);
        domain->known_bell.fd = -1;
        return result;
    }
    known_watch(&domain->known_watcher, domain->known_bell.fd);
    return TUTTI_SUCCESS;
}

void registrations_close(struct link_domain *domain)
{
    registration_trim(domain, 0);
    if (domain->known_bell.fd < 0)
        return;
    known_unwatch(&domain->known_watcher);
    poller_remove(domain->poller, &domain->known_bell);
    close(domain->known_bell.fd);
}
