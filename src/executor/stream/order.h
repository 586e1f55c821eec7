/* SPDX-License-Identifier: Apache-2.0 */
/* An executor's operations follow one another, whatever streams they are issued on. */
#ifndef TUTTI_EXECUTOR_STREAM_ORDER_H
#define TUTTI_EXECUTOR_STREAM_ORDER_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

#include <stdbool.h>

struct stream_base;

/* In front of and behind what is issued for an operation, with the device's context current. Behind a begin that failed
 * nothing is issued, and no end comes. */
tutti_result_t order_begin(struct stream_base *base, CUstream stream, bool collective);
tutti_result_t order_end(struct stream_base *base, CUstream stream, tutti_result_t issued);
/* What comes on the stream, of another executor, comes behind this one's last operation. */
tutti_result_t order_behind(struct stream_base *base, CUstream stream);
/* Peers wait for what does not come. Returns the failure. */
tutti_result_t order_fail(struct stream_base *base, tutti_result_t result);
/* What comes on `stream` follows what is on `before`: for a group on several streams. */
tutti_result_t order_follow(struct stream_base *base, CUstream stream, CUstream before);

#endif
