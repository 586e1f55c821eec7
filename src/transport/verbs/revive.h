/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that are lost. */
#ifndef TUTTI_TRANSPORT_VERBS_REVIVE_H
#define TUTTI_TRANSPORT_VERBS_REVIVE_H

#include "transport/verbs/verbs.h"

tutti_result_t verbs_revival_init(struct verbs_revival *revival, struct verbs_device *device);
/* Ends its thread, and closes what it has. Safe after a failed verbs_revival_init(), and without one. */
void verbs_revival_fini(struct verbs_revival *revival);
/* The device has just lost its parts, `old`. */
void verbs_revive(struct verbs_revival *revival, const struct verbs_parts *old);
/* From poll: takes what is done, which is the caller's. False: it is not. */
bool verbs_revival_take(struct verbs_revival *revival, struct verbs_parts *out);

#endif
