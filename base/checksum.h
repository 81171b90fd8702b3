/* base/checksum.h - a checksum of elements that are spread over several processes.
 *
 * Each element's bits, keyed by its index, pass through a bijection; the checksum is the sum of the results modulo
 * 2^64.  Parts can be summed in any order, and a single changed element always changes the sum.  Not cryptographic.
 * The constants are those of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
 * 2014).
 */
#ifndef APC_BASE_CHECKSUM_H
#define APC_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of n elements of `size` bytes each (1, 2, 4 or 8); `first` is the tensor index of the first
 * one. */
uint64_t checksum_part(uint64_t first, const void *elements, size_t n, size_t size);

#endif
