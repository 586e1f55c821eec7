/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of labs that are up: a folder for each, /run/tutti-lab/NAME, with its file (topology.yaml), its
 * names (hosts) and the point from which counters count (zero). The folder is written before the first namespace is
 * made and removed after the last is gone. So a lab that has no folder has nothing else either, even after a crash.
 */
#ifndef LAB_STATE_H
#define LAB_STATE_H

#include "wiring/text.h"
#include "wiring/topology.h"

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

/* Names of the labs that are up, one a line. */
tutti_result_t state_list(struct text *out, int *count);
/* The lab that is meant: `given`, or the only one there is. */
tutti_result_t state_choose(const char *given, char *out, size_t size);
tutti_result_t state_load(const char *name, struct lab_topology *out);

#endif
