/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the preloaded library: what the emulator's libibverbs says of a path. */
#ifndef VERBS_PATHS_H
#define VERBS_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#define PATHS_EXPORT     __attribute__((visibility("default")))
#define PATHS_NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Whether the path, or the process's folder and a relative path, leads to /sys/class/infiniband or below it; then
 * *below is what follows, without slashes at its ends. */
bool paths_inside(const char *path, char *below, size_t size);

/* The same for a path that is relative to the folder `at`, as openat(2) takes one. */
bool paths_inside_at(int at, const char *path, char *below, size_t size);

/* A device node looks like /dev/null, a character device that everyone may open; any other path is itself. */
const char *paths_node(const char *path);

/* The text of a file, or of what a link leads to; -1: there is none. */
int paths_text(const char *below, char *out, size_t size);

/* The entries of a folder, each with its kind (d folder, f file, l link) before its name and a newline behind it; -1:
 * there is no folder. */
int paths_list(const char *below, char *out, size_t size);

#endif
