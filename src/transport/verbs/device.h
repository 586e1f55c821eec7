/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of adapters. */
#ifndef TUTTI_TRANSPORT_VERBS_DEVICE_H
#define TUTTI_TRANSPORT_VERBS_DEVICE_H

#include "transport/verbs/verbs.h"

/* Opens those that are wanted and work. TUTTI_INVALID_USAGE: there is none. */
tutti_result_t verbs_open_devices(struct verbs_transport *verbs);
void verbs_close_devices(struct verbs_transport *verbs);
/* The device is of no use any more: its lanes fail, and it is closed, and opened anew when it is there again. */
/* Nobody knows whether a GPU sees what the device has written there: its lanes go down, and what they have not ended
 * goes again. */
void verbs_flush_failed(struct verbs_device *device, const char *what);
void verbs_lose_device(struct verbs_device *device, const char *what);
/* The device of a lane of this index, if its port is up: with room for its completions, and its address as it is now.
 * No other one takes its place, for the lane would stay there when the port is back. */
tutti_result_t verbs_take_device(struct verbs_transport *verbs, unsigned index, struct verbs_device **out);

/* From poll: a device without lanes has no receives for them either. */
void verbs_device_rest(struct verbs_device *device);
/* From poll: the device is open again if what was lost has been opened anew. */
bool verbs_device_revived(struct verbs_device *device);

#endif
