/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulator counts, by cause. Read by `softverbs ctl stats` and, under the same names, in sysfs' hw_counters.
 */
#ifndef VERBS_COUNTERS_H
#define VERBS_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#define COUNTERS(X)                                                                                                    \
    X(sent_packets)                                                                                                    \
    X(sent_bytes)                                                                                                      \
    X(sent_retransmitted)                                                                                              \
    X(send_failed)                                                                                                     \
    X(waited_for_queue)                                                                                                \
    X(waited_for_rate)                                                                                                 \
    X(received_packets)                                                                                                \
    X(received_bytes)                                                                                                  \
    X(dropped_not_ip)                                                                                                  \
    X(dropped_short)                                                                                                   \
    X(dropped_version)                                                                                                 \
    X(dropped_opcode)                                                                                                  \
    X(dropped_pad)                                                                                                     \
    X(dropped_long)                                                                                                    \
    X(dropped_icrc)                                                                                                    \
    X(dropped_qpn)                                                                                                     \
    X(dropped_pkey)                                                                                                    \
    X(dropped_qkey)                                                                                                    \
    X(dropped_state)                                                                                                   \
    X(dropped_source)                                                                                                  \
    X(dropped_interface)                                                                                               \
    X(dropped_service)                                                                                                 \
    X(dropped_no_receive)                                                                                              \
    X(dropped_duplicate)                                                                                               \
    X(dropped_answer)                                                                                                  \
    X(dropped_handover)                                                                                                \
    X(sent_frames)                                                                                                     \
    X(sent_handed)                                                                                                     \
    X(dropped_port_down)                                                                                               \
    X(dropped_by_socket)                                                                                               \
    X(out_of_sequence)                                                                                                 \
    X(duplicate_request)                                                                                               \
    X(rnr_nak_sent)                                                                                                    \
    X(rnr_nak_received)                                                                                                \
    X(nak_sent)                                                                                                        \
    X(nak_received)                                                                                                    \
    X(nak_sequence)                                                                                                    \
    X(implied_nak)                                                                                                     \
    X(ack_timeout)                                                                                                     \
    X(retry_exceeded)                                                                                                  \
    X(access_error)                                                                                                    \
    X(posted_writes)                                                                                                   \
    X(cq_overrun)                                                                                                      \
    X(fault_drop)                                                                                                      \
    X(fault_duplicate)                                                                                                 \
    X(fault_reorder)                                                                                                   \
    X(fault_delay)                                                                                                     \
    X(fault_corrupt)                                                                                                   \
    X(fault_call)

enum counter {
#define COUNTER_ENUM(name) COUNT_##name,
    COUNTERS(COUNTER_ENUM)
#undef COUNTER_ENUM
        COUNTER_COUNT
};

extern _Atomic uint64_t counters[COUNTER_COUNT];

/* The counters of the device that is at work; never NULL. */
extern _Atomic uint64_t *counters_here;

/* Until the next call: what is counted is a device's (its `counts`), or nobody's (NULL). */
void counters_are(_Atomic uint64_t *counts);

static inline void counter_step(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Writers hold the engine's lock, readers need none. */
#define count_add(name, n) (counter_step(&counters[COUNT_##name], n), counter_step(&counters_here[COUNT_##name], n))
#define count(name)        count_add(name, 1)

const char *counter_name(enum counter counter);
uint64_t counter_read(enum counter counter);

#endif
