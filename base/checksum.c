/* base/checksum.c - see checksum.h. */
#include "base/checksum.h"

#include <string.h>

static uint64_t mixed(uint64_t bits, uint64_t place) {
  uint64_t x = bits + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* One loop per size, so that the compiler knows the size. */
#define SUM(type) \
  for (size_t i = 0; i < n; i++) { \
    type bits; \
    memcpy(&bits, (const char *)elements + i * sizeof bits, sizeof bits); \
    sum += mixed(bits, first + i); \
  }

uint64_t checksum_part(uint64_t first, const void *elements, size_t n, size_t size) {
  uint64_t sum = 0;
  switch (size) {
    case 1: SUM(uint8_t) break;
    case 2: SUM(uint16_t) break;
    case 4: SUM(uint32_t) break;
    default: SUM(uint64_t) break;
  }
  return sum;
}
