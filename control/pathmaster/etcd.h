/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd by its JSON gateway: a value or a range of keys is read, keys are changed while others are as they should be,
 * and a lease lives while it is renewed. Members are tried in turn. What times out may have been done all the same.
 */
#ifndef TUTTI_PATHMASTER_ETCD_H
#define TUTTI_PATHMASTER_ETCD_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_KEY 256

struct etcd;

/* `members`: "http://10.0.0.1:2379,http://10.0.0.2:2379". NULL after error_note. */
struct etcd *etcd_open(const char *members);
void etcd_close(struct etcd *etcd);

/* Makes a lease that lives for `seconds` after its latest renewal. */
tutti_result_t etcd_grant(struct etcd *etcd, int seconds, int64_t *lease);
/* *lives: it was there. */
tutti_result_t etcd_renew(struct etcd *etcd, int64_t lease, bool *lives);
tutti_result_t etcd_revoke(struct etcd *etcd, int64_t lease);

/* A change: if `same` was made by the revision `made` (0: it is not there), and `absent` is not there. */
struct etcd_change {
    const char *same, *absent; /* absent: NULL: none */
    int64_t made;
    const char *put; /* NULL: nothing is changed, it is a question */
    const void *value;
    size_t size;
    int64_t lease;               /* of the value; 0: none */
    const char *remove, *before; /* keys from `remove` on, up to `before`; NULL: none */
};
/* *done: it was so, and is changed; *revision: of it. */
tutti_result_t etcd_change(struct etcd *etcd, const struct etcd_change *change, bool *done, int64_t *revision);

/* Hands over the keys from `first` on, up to `end`, in their order, until `take` says false. */
struct etcd_pair {
    char key[ETCD_KEY];
    const uint8_t *value;
    size_t size;
    int64_t made, lease;
};
typedef bool etcd_take(void *context, const struct etcd_pair *pair);
tutti_result_t etcd_read(struct etcd *etcd, const char *first, const char *end, etcd_take *take, void *context);

#endif
