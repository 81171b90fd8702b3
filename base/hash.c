/* base/hash.c - XXH64 as its specification describes it, at once or in pieces, for little-endian hosts. */
#include "base/hash.h"

#include <string.h>

static const uint64_t P1 = 0x9e3779b185ebca87u, P2 = 0xc2b2ae3d27d4eb4fu, P3 = 0x165667b19e3779f9u,
                      P4 = 0x85ebca77c2b2ae63u, P5 = 0x27d4eb2f165667c5u;

static uint64_t rotate(uint64_t v, int by) { return v << by | v >> (64 - by); }

static uint64_t read64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

static uint64_t read32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}

static uint64_t step(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t merge(uint64_t h, uint64_t lane) { return (h ^ step(0, lane)) * P1 + P4; }

static void lanes_begin(uint64_t *lanes, uint64_t seed) {
  lanes[0] = seed + P1 + P2;
  lanes[1] = seed + P2;
  lanes[2] = seed;
  lanes[3] = seed - P1;
}

/* Adds the stripes of 32 bytes in p[0..n) to four independent lanes. */
static void lanes_add(uint64_t *lanes, const uint8_t *p, size_t n) {
  uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
  for (; n >= 32; n -= 32, p += 32) {
    a = step(a, read64(p));
    b = step(b, read64(p + 8));
    c = step(c, read64(p + 16));
    d = step(d, read64(p + 24));
  }
  lanes[0] = a;
  lanes[1] = b;
  lanes[2] = c;
  lanes[3] = d;
}

/* Merges the lanes of all whole stripes and adds the last total % 32 bytes. */
static uint64_t finish(const uint64_t *lanes, uint64_t seed, uint64_t total, const uint8_t *rest) {
  uint64_t h = seed + P5;
  size_t n = total & 31;
  if (total >= 32) {
    h = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++) h = merge(h, lanes[i]);
  }
  h += total;
  for (; n >= 8; n -= 8, rest += 8) h = rotate(h ^ step(0, read64(rest)), 27) * P1 + P4;
  for (; n >= 4; n -= 4, rest += 4) h = rotate(h ^ read32(rest) * P1, 23) * P2 + P3;
  for (; n; n--, rest++) h = rotate(h ^ *rest * P5, 11) * P1;
  h = (h ^ h >> 33) * P2;
  h = (h ^ h >> 29) * P3;
  return h ^ h >> 32;
}

uint64_t hash64(const void *bytes, size_t n, uint64_t seed) {
  uint64_t lanes[4];
  const uint8_t *p = bytes;
  lanes_begin(lanes, seed);
  lanes_add(lanes, p, n);
  return finish(lanes, seed, n, n ? p + (n & ~(size_t)31) : p);
}

void hash64_begin(Hash64 *h, uint64_t seed) {
  *h = (Hash64){.seed = seed};
  lanes_begin(h->lanes, seed);
}

void hash64_add(Hash64 *h, const void *bytes, size_t n) {
  const uint8_t *p = bytes;
  size_t waiting = h->total & 31, taken = waiting ? 32 - waiting : 0;
  if (taken > n) taken = n;
  if (taken) memcpy(h->rest + waiting, p, taken);
  h->total += n;
  if (waiting + taken == 32) lanes_add(h->lanes, h->rest, 32);
  else if (waiting) return;
  p += taken;
  n -= taken;
  lanes_add(h->lanes, p, n);
  if (n & 31) memcpy(h->rest, p + (n & ~(size_t)31), n & 31);
}

uint64_t hash64_end(const Hash64 *h) { return finish(h->lanes, h->seed, h->total, h->rest); }
