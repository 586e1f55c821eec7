/* SPDX-License-Identifier: Apache-2.0 */
/* What is registered with transports, kept where the life of the memory is known. */
#ifndef TUTTI_LINK_REGISTRATION_H
#define TUTTI_LINK_REGISTRATION_H

#include "link/domain.h"

struct link_registration {
    struct list node; /* in domain->registrations, the latest used last */
    struct transport_memory *memory;
    int transport;
    uint64_t known; /* number of the memory; 0: to be ended with its last user */
    bool target;    /* peers are told its key */
    unsigned users; /* payloads */
};
tutti_result_t registrations_open(struct link_domain *domain);
/* All payloads are gone. */
void registrations_close(struct link_domain *domain);
/* For a payload, until registration_drop(). NULL: it cannot, or is not to be, registered. */
struct link_registration *registration_take(struct link_domain *domain, int transport, struct place place,
                                            size_t length, bool target);
/* NULL: nothing. */
void registration_drop(struct link_domain *domain, struct link_registration *registration);
/* Nobody is to find it any more: it ends with its last user. */
void registration_retire(struct link_domain *domain, struct link_registration *registration);

#endif
