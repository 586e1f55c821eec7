/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines for people: "tutti host:pid:tid [level] text" on stderr or in TUTTI_DEBUG_FILE. */
#ifndef TUTTI_BASE_LOG_H
#define TUTTI_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_NONE, LOG_VERSION, LOG_WARN, LOG_INFO, LOG_TRACE };

/* The level in force, from TUTTI_DEBUG (or NCCL_DEBUG). */
enum log_level log_level(void);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

#define log_at(level, ...)                                                                                             \
    do {                                                                                                               \
        if (log_level() >= (level))                                                                                    \
            log_write((level), __VA_ARGS__);                                                                           \
    } while (0)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_trace(...) log_at(LOG_TRACE, __VA_ARGS__)

#endif
