/* runtime/comm/transport.c - copies 2-D strided blocks; see transport.h.
 *
 * Shards of an inner dimension have rows of a few bytes, so rows of one to four elements are copied with a size that
 * the compiler knows.
 */
#include "runtime/comm/transport.h"

#include <string.h>

typedef enum Direction { GATHER, SCATTER } Direction;

static inline void copy_run(Direction direction, char *strided, char *flat, size_t n) {
  if (direction == GATHER) memcpy(flat, strided, n);
  else memcpy(strided, flat, n);
}

/* Copies `rows` whole rows; row_bytes is a constant where this is inlined. */
static inline __attribute__((always_inline)) void copy_rows(Direction direction, char *strided, size_t stride,
                                                            char *flat, size_t rows, size_t row_bytes) {
  for (size_t i = 0; i < rows; i++) copy_run(direction, strided + i * stride, flat + i * row_bytes, row_bytes);
}

static void copy_whole_rows(Direction direction, char *strided, size_t stride, char *flat, size_t rows,
                            size_t row_bytes) {
  switch (row_bytes) {
    case 2: copy_rows(direction, strided, stride, flat, rows, 2); break;
    case 4: copy_rows(direction, strided, stride, flat, rows, 4); break;
    case 8: copy_rows(direction, strided, stride, flat, rows, 8); break;
    case 16: copy_rows(direction, strided, stride, flat, rows, 16); break;
    default: copy_rows(direction, strided, stride, flat, rows, row_bytes); break;
  }
}

/* Copies the end of a row, whole rows, and the start of a row. */
static void copy_stream(Direction direction, const Strided *block, size_t first, char *flat, size_t n) {
  if (n == 0) return;
  size_t row = first / block->row_bytes, column = first % block->row_bytes;
  char *strided = block->data + row * block->stride;
  if (column) {
    size_t head = block->row_bytes - column < n ? block->row_bytes - column : n;
    copy_run(direction, strided + column, flat, head);
    flat += head;
    n -= head;
    strided += block->stride;
  }
  size_t rows = n / block->row_bytes, tail = n % block->row_bytes;
  copy_whole_rows(direction, strided, block->stride, flat, rows, block->row_bytes);
  if (tail) copy_run(direction, strided + rows * block->stride, flat + rows * block->row_bytes, tail);
}

void strided_gather(void *to, const Strided *block, size_t first, size_t n) {
  copy_stream(GATHER, block, first, to, n);
}

void strided_scatter(const Strided *block, size_t first, const void *from, size_t n) {
  copy_stream(SCATTER, block, first, (char *)(uintptr_t)from, n);
}

char *strided_direct(const Strided *block, size_t first, size_t n) {
  if (block->row_bytes == 0) return block->data;
  size_t row = first / block->row_bytes, column = first % block->row_bytes;
  bool one_run = block->stride == block->row_bytes || block->rows == 1 || column + n <= block->row_bytes;
  return one_run ? block->data + row * block->stride + column : NULL;
}

void strided_copy(const Strided *to, const Strided *from) {
  size_t n = to->rows * to->row_bytes;
  if (n == 0) return;
  char *flat = strided_direct(from, 0, n);
  if (flat) {
    if (flat == strided_direct(to, 0, n)) return;
    strided_scatter(to, 0, flat, n);
    return;
  }
  flat = strided_direct(to, 0, n);
  if (flat) {
    strided_gather(flat, from, 0, n);
    return;
  }
  if (to->data == from->data && to->row_bytes == from->row_bytes && to->stride == from->stride) return;
  for (size_t row = 0; row < from->rows; row++)
    strided_scatter(to, row * from->row_bytes, from->data + row * from->stride, from->row_bytes);
}
