/* ir/opaque.h - operators that apc does not know: the functions that compute them, and reports. */
#ifndef APC_IR_OPAQUE_H
#define APC_IR_OPAQUE_H

#include "ir/ir.h"

/* ---- kernels: functions of libraries */

/* A dense row-major tensor in memory. */
typedef struct OpaqueArray {
  DType dtype;
  int rank;
  const int64_t *dims;
  void *data;
} OpaqueArray;

typedef struct OpaqueCall {
  int nin, nout;
  const OpaqueArray *in, *out;
  const char *attributes; /* a JSON object */
  int64_t scratch;        /* bytes */
} OpaqueCall;

typedef struct OpaqueKernel {
  const char *kind;            /* the operator: "my.Op" */
  const char *function, *path; /* the symbol, and the library that has it */
  const void *library;         /* the same for all kernels of a library */
  void *address;
  /* Calls the function; false with a reason in `why`, of n bytes. */
  bool (*run)(const struct OpaqueKernel *k, const OpaqueCall *call, char *why, size_t n);
} OpaqueKernel;

/* Adds a kernel to the module, which keeps a copy of the record.  opaque_kernel: that of an operator; NULL if none. */
void opaque_kernel_add(Module *m, const OpaqueKernel *k);
const OpaqueKernel *opaque_kernel(const Module *m, const char *kind);

/* ---- reports */

/* True if a level-1 function has an opaque operation. */
bool opaque_any(const Module *m);
/* True if one of them cannot be computed: it has no rule, or no kernel. */
bool opaque_missing(const Module *m);
/* True if one of them has no rule. */
bool opaque_unruled(const Module *m);
/* The operators with a rule as "my.Op, my.Other"; NULL if there are none. */
const char *opaque_ruled(Arena *a, const Module *m);

/* Reports each operator that cannot be computed once, with its count and first places: as warnings that say how it is
 * planned, or as errors (`refuse`). */
void opaque_report(const Module *m, bool refuse, Diags *diags);

#endif
