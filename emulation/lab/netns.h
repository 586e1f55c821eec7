/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces by name, as `ip netns` keeps them, and the processes in them. */
#ifndef LAB_NETNS_H
#define LAB_NETNS_H

#include "wiring/topology.h"

#include <stddef.h>

#define NETNS_FOLDER "/run/netns"

/* The path of "LAB-NODE". */
void netns_path(const char *lab, const char *node, char *out, size_t size);

/* Puts this process into a node's namespace, until netns_leave() returns it to the one it was in. Not nested. */
tutti_result_t netns_enter(const char *lab, const char *node, int *home);
tutti_result_t netns_leave(int home);

/* Names in /run/netns that look like nodes of this lab: LAB-h0, LAB-l12. The caller frees each name and the list. */
tutti_result_t netns_list(const char *lab, char ***names, int *count);
void netns_list_free(char **names, int count);

/* How many processes are in the namespaces of this list (the caller does not count); -1: out of memory. */
int netns_processes(char *const *names, int count);
/* Ends every process in the namespaces of this list (not the caller): asks first, forces after a second. */
tutti_result_t netns_end_processes(char *const *names, int count);

/* Removes the name; the namespace goes when nothing uses it. No error if there is none. */
tutti_result_t netns_remove(const char *name);

#endif
