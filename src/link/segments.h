/* SPDX-License-Identifier: Apache-2.0 */
/* A payload in segments, and the numbers by which lanes name one: `imm` at the receiver, the token at the sender. */
#ifndef TUTTI_LINK_SEGMENTS_H
#define TUTTI_LINK_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_SLOTS    16384u
#define MAX_IDS      65536u
#define MAX_SEGMENTS 32768u /* a bitmap of them is a message that every transport takes */

static inline uint64_t segment_length(uint64_t length, uint64_t segment, uint32_t index)
{
    uint64_t offset = segment * index;
    return length - offset < segment ? length - offset : segment;
}

static inline uint32_t segment_count(uint64_t length, uint64_t segment)
{
    return (uint32_t)((length + segment - 1) / segment);
}

static inline uint32_t imm_of(uint32_t slot, uint32_t segment)
{
    return slot << 16 | segment;
}

static inline uint32_t imm_slot(uint32_t imm)
{
    return imm >> 16;
}

static inline uint32_t imm_segment(uint32_t imm)
{
    return imm & 0xffff;
}

static inline uint64_t token_of(uint32_t id, uint32_t segment)
{
    return (uint64_t)id << 16 | segment;
}

static inline uint64_t token_id(uint64_t token)
{
    return token >> 16;
}

static inline uint32_t token_segment(uint64_t token)
{
    return (uint32_t)token & 0xffff;
}

/* Where a segment is: it waits, it was put on a lane, which may still read its source, or the peer has it. */
enum { SEGMENT_WAITS = 0, SEGMENT_ARRIVED = 0x7f, SEGMENT_READ = 0x80 };

static inline uint8_t segment_put(unsigned lane_index, bool is_read)
{
    return (uint8_t)((lane_index + 1) | (is_read ? SEGMENT_READ : 0));
}

static inline bool segment_is_read(uint8_t where)
{
    return where & SEGMENT_READ;
}

/* Of one that was put. */
static inline unsigned segment_lane(uint8_t where)
{
    return (where & ~(unsigned)SEGMENT_READ) - 1;
}

#endif
