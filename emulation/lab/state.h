/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of labs that are up: a folder for each, /run/tutti-lab/NAME. The folder has the lab's file
 * (topology.yaml), its names (hosts), the number of its user (user), and the point from which counters count (zero). A
 * mark says that `up` came to its end (ready). The folder is written before the first namespace is made and removed
 * after the last is gone. So a lab that has no folder has nothing else either, even after a crash.
 */
#ifndef LAB_STATE_H
#define LAB_STATE_H

#include "wiring/text.h"
#include "wiring/topology.h"

#include <sys/types.h>

#define STATE_FOLDER "/run/tutti-lab"

/* One command at a time changes labs. The folder vanishes with its last lab, at unlock. */
tutti_result_t state_lock(int *lock);
void state_unlock(int lock);

bool state_exists(const char *name);
tutti_result_t state_create(const char *name);
tutti_result_t state_remove(const char *name);

void state_path(const char *name, const char *file, char *out, size_t size);
/* Replaces a file of a lab at once: readers see the old or the new one. */
tutti_result_t state_write(const char *name, const char *file, const struct text *text);

/* The user behind this process, also under sudo. And that of a lab; root, where the folder does not say. */
uid_t state_user(void);
uid_t state_user_of(const char *name);
void state_user_name(uid_t user, char *out, size_t size);

/* Names of the labs that are up, one a line; `own`: of this user's alone. */
tutti_result_t state_list(bool own, struct text *out, int *count);
/* The lab that is meant: `given`, or LAB_NAME of the environment, or the only one that this user has. */
tutti_result_t state_choose(const char *given, char *out, size_t size);
tutti_result_t state_load(const char *name, struct lab_topology *out);

#endif
