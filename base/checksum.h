/* base/checksum.h - a checksum of elements that several processes have parts of.
 *
 * The sum modulo 2^64 of a bijection of every element's bits, keyed by its place: parts are summed in any order, and an
 * element that is not what it was changes the sum.  Not cryptographic.  The constants are those of SplitMix64 (Steele,
 * Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
 */
#ifndef APC_BASE_CHECKSUM_H
#define APC_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Of n elements of `size` bytes (1, 2, 4 or 8), the first of which is number `first` of its tensor. */
uint64_t checksum_part(uint64_t first, const void *elements, size_t n, size_t size);

#endif
