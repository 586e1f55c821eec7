/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 with a 128-bit result: a keyed hash (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
 * Without the key nobody can tell its results from random bytes, so a result proves that its maker knows the key.
 */
#ifndef TUTTI_BASE_SIPHASH_H
#define TUTTI_BASE_SIPHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY  16
#define SIPHASH_SIZE 16

void siphash(const uint8_t key[SIPHASH_KEY], const void *data, size_t size, uint8_t out[SIPHASH_SIZE]);

/* Compares in a time that does not depend on where the two differ. */
bool siphash_equal(const uint8_t a[SIPHASH_SIZE], const uint8_t b[SIPHASH_SIZE]);

#endif
