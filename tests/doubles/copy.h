/* tests/doubles/copy.h - copies and fills, as work of streams. */
#ifndef APC_TESTS_DOUBLES_COPY_H
#define APC_TESTS_DOUBLES_COPY_H

#include "tests/doubles/double.h"

typedef struct CopySide {
  bool host;
  uint64_t at;
  size_t row, plane; /* bytes from row to row, from plane to plane */
} CopySide;

typedef struct Copy {
  const char *what;
  int device;
  CopySide to, from;
  size_t bytes, rows, planes;
  bool fills; /* writes a pattern of `unit` bytes instead of `from` */
  uint32_t value;
  int unit;
} Copy;

/* Checks the device side and adds the copy to a stream. */
CUresult copy_submit(CUstream s, const Copy *c);

#endif
