/* program/box.h - boxes of row-major tensors: the elements [start, start + extent) in every dimension. */
#ifndef APC_PROGRAM_BOX_H
#define APC_PROGRAM_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A box of one tensor's memory: from `data`, whose extents are `whole`, the elements from `start` on. */
typedef struct Box {
  char *data;
  const int64_t *whole, *start;
} Box;

/* True if [start, start + extent) lies in [0, whole) in every one of `rank` dimensions and no extent is negative. */
bool box_fits(uint32_t rank, const int64_t *start, const int64_t *extent, const int64_t *whole);

/* Copies a box of elements of `size` bytes; trailing dimensions taken whole on both sides move as one run. */
void box_move(uint32_t rank, size_t size, const int64_t *extent, Box from, Box to);

#endif
