/* program/box.c - see box.h. */
#include "program/box.h"

#include <string.h>

#include "program/program.h"

bool box_fits(uint32_t rank, const int64_t *start, const int64_t *extent, const int64_t *whole) {
  for (uint32_t d = 0; d < rank; d++)
    if (start[d] < 0 || extent[d] < 0 || extent[d] > whole[d] || start[d] > whole[d] - extent[d]) return false;
  return true;
}

static size_t position(uint32_t rank, Box b, const int64_t *at) {
  size_t n = 0;
  for (uint32_t d = 0; d < rank; d++) n = n * (size_t)b.whole[d] + (size_t)(b.start[d] + at[d]);
  return n;
}

void box_move(uint32_t rank, size_t size, const int64_t *extent, Box from, Box to) {
  int64_t at[PROGRAM_MAX_RANK] = {0};
  size_t run = size;
  uint32_t outer = rank;
  for (uint32_t d = 0; d < rank; d++)
    if (extent[d] == 0) return;
  bool full = true;
  while (outer > 0 && full) {
    outer--;
    run *= (size_t)extent[outer];
    full = extent[outer] == from.whole[outer] && extent[outer] == to.whole[outer];
  }
  for (;;) {
    memcpy(to.data + position(rank, to, at) * size, from.data + position(rank, from, at) * size, run);
    uint32_t d = outer;
    while (d > 0 && ++at[d - 1] == extent[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}
