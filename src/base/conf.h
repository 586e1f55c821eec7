/* SPDX-License-Identifier: Apache-2.0 */
/* Files of variables: what the environment does not set they do. The one of NCCL_CONF_FILE, or else ~/.nccl.conf;
 * behind that /etc/nccl.conf. */
#ifndef TUTTI_BASE_CONF_H
#define TUTTI_BASE_CONF_H

#define CONF_VARIABLE "NCCL_CONF_FILE"

/* Reads them again. Before any other thread runs. */
void conf_load(void);
/* NULL: no file sets it. */
const char *conf_find(const char *name);
/* Every NAME=VALUE that holds where the environment says nothing. */
void conf_each(void (*says)(const char *variable, void *context), void *context);

#endif
