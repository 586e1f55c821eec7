/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that are taken out while identifiers use them. */
#ifndef RDMACM_REMOVAL_H
#define RDMACM_REMOVAL_H

/* From now on programs hear of it. With the lock held. */
void removal_watch(void);

#endif
