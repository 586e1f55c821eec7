/* SPDX-License-Identifier: Apache-2.0 */
/* The devices: network interfaces, their state and their GID tables, kept up to date from netlink. Under the engine's
 * lock. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include "verbs/object.h"

#include <pthread.h>

/* All devices ever seen (struct rdma_device, by `node`); `present` tells which exist now. */
extern struct list device_table;

/* Held while a device is opened or closed: one at a time. Outside the engine's lock. */
extern pthread_mutex_t device_life;

/* Reads links and addresses anew and reports what changed to open contexts. 0 or errno. */
int device_refresh(void);

/* In a child of fork: open contexts are the parent's from now on. */
void device_disinherit(void);

/* The kernel tells of a carrier that goes up to a second late, and of a short interruption not at all: looks by itself.
 */
void device_look(void);

/* The GID at an index as programs see it (a shifted table is a fault that can be injected): NULL for an empty slot. */
const union ibv_gid *device_gid(const struct rdma_device *device, int index);
bool device_has_address(const struct rdma_device *device, bool v6, const uint8_t *address);
/* Is the device up, with an address? */
bool device_usable(const struct rdma_device *device);

enum ibv_mtu device_mtu(const struct rdma_device *device);
__be64 device_guid(const struct rdma_device *device);
void device_shift(struct rdma_device *device, int by);

/* Takes the device out, as a hand would: its contexts are dead. Plugging puts it back, if its interface is there; 0 or
 * errno. */
/* With the engine's lock held, as is the call when one has gone. */
void device_on_vanish(void (*call)(void));

void device_unplug(struct rdma_device *device);
int device_plug(struct rdma_device *device);

/* As if the file of the device's sysfs folder (path relative to it, like "ports/1/state") was read. -1: there is no
 * file. */
int device_sysfs(const struct rdma_device *device, const char *file, char *out, size_t size);

/* The entries of a folder there, as softverbs_sysfs_list gives them. -1: there is no folder. */
int device_sysfs_list(const struct rdma_device *device, const char *folder, char *out, size_t size);

/* Forgets the table (at the end of the process). */
void device_forget_all(void);

#endif
