/* ir/ops.h - the table of operations (ir/ops.def): kinds, classes, traits, and the facts in their rows.  The semantics
 * are in the records, in ir/ops/.
 *
 * A trait is a property of several operations that more than one part of the compiler needs.  Code that needs such a
 * list uses the trait, so that a new operation joins the list by its row.  Not here: the kernel, rule or ONNX node of
 * an operation (each has a table in its own folder), and facts for the prover, which keeps its own.
 */
#ifndef APC_IR_OPS_H
#define APC_IR_OPS_H

#include <stdbool.h>

typedef enum OpKind {
  OP_none,
#define UNARY(name, ...) OP_##name,
#define BINARY(name, ...) OP_##name,
#define COMPARE(name, ...) OP_##name,
#define OP(name, ...) OP_##name,
#include "ir/ops.def"
  OP_COUNT
} OpKind;

typedef enum OpClass { OC_UNARY, OC_BINARY, OC_COMPARE, OC_OTHER } OpClass;

/* Bits of a row; the accessors below say what each promises. */
typedef enum OpTrait {
  OT_SOURCE = 1 << 0,
  OT_DECLARED = 1 << 1,
  OT_AT_ENTRY = 1 << 2,
  OT_RESIDENT = 1 << 3,
  OT_CONSTANT = 1 << 4,
  OT_ANYWHERE = 1 << 5,
  OT_STATE = 1 << 6,
  OT_ACTS = 1 << 7,
  OT_ELEMENTWISE = 1 << 8,
  OT_ARRANGES = 1 << 9,
  OT_VIEW = 1 << 10,
  OT_WINDOWED = 1 << 11,
  OT_GROUPED = 1 << 12,
  OT_CONTRACTION = 1 << 13,
  OT_LIBRARY_SUMS = 1 << 14,
  OT_COMPOSITE = 1 << 15,
  OT_CALL = 1 << 16,
  OT_LOOP = 1 << 17,
  OT_LEVEL2 = 1 << 18,
  OT_COMM = 1 << 19,
  OT_TYPED = 1 << 20,
  OT_ALONG = 1 << 21,
  OT_STORED = 1 << 22
} OpTrait;

/* Facts of a row; op_find is false if there is no operation of that name. */
const char *op_name(OpKind k);
bool op_find(const char *name, OpKind *out);
OpClass op_class(OpKind k);
const char *op_doc(OpKind k);
int op_min_operands(OpKind k), op_max_operands(OpKind k), op_results(OpKind k);
int op_element_cost(OpKind k);   /* elementwise: cost of one element in a loop of a kernel, in additions */
bool op_type_is_given(OpKind k); /* the result type is written, not inferred */

/* ---- where values come from */

/* Has no operands and one result. */
bool op_is_source(OpKind k);
/* A source whose value is bound by name from outside the function: input, param, read.  At level 2 it declares the
 * layout by which the local value is a shard. */
bool op_is_declared(OpKind k);
/* A declared source that exists when the function begins, used or not, and differs between requests: input, read.  (A
 * param exists only where it is used.) */
bool op_is_at_entry(OpKind k);
/* A declared source whose memory is held between requests: param, read. */
bool op_is_resident(OpKind k);
/* A source determined by its attributes and the sizes alone, so that all ranks know it: const, size, iota.  Not random,
 * which may be drawn only once. */
bool op_is_constant(OpKind k);

/* ---- effects */

/* Reads or writes a state of the module: read, write. */
bool op_is_state(OpKind k);
/* Must not be repeated or omitted: it writes a state, draws random numbers or binds a size.  A call may act too;
 * calls_of (ir/calls.h) tells. */
bool op_acts(OpKind k);

/* ---- elements */

/* An element of the result is a function of the operands' elements at the same index: all unary, binary and compare
 * operations, select, cast, copy. */
bool op_is_elementwise(OpKind k);
/* The elements of the result are those of its only operand, unchanged, each at least once (unless there are none):
 * reshape, copy, broadcast, transpose. */
bool op_arranges(OpKind k);
/* Arranges in row-major order: a view of memory, or read with stride 0; costs nothing: reshape, copy, broadcast. */
bool op_is_view(OpKind k);
/* Capital letters of its spec, or its window, slide over an image (ir/window.h). */
bool op_is_windowed(OpKind k);
/* Multiplies rows by the matrix that an index selects; operands from 2 on are matrices by group. */
bool op_is_grouped(OpKind k);
/* Sums products over a space larger than its operands, so arithmetic grows faster than their size: dot, attention,
 * grouped operations, convolutions. */
bool op_is_contraction(OpKind k);
/* A contraction whose float sums a library may order differently on each rank.  Grouped ones are not: their kernels add
 * in the order of k, whatever is cut. */
bool op_has_library_sums(OpKind k);
/* Runs along one dimension of operand 0 (`axis`, `axes`, else the last): a kernel computes it row by row. */
bool op_is_along(OpKind k);
/* Moves or converts elements of any type, also of those without arithmetic (dtype_computes). */
bool op_takes_stored(OpKind k);
/* Has a decomposition into primitives (ir/ops/), and is defined for floats only. */
bool op_is_composite(OpKind k);

/* ---- structure and level */

/* call and result: their effect depends on the called function. */
bool op_is_call(OpKind k);
/* Part of a loop's frame (ir/loops.h): loop, carry, repeat, leave. */
bool op_is_loop_part(OpKind k);
/* Does not occur at level 1. */
bool op_level2_only(OpKind k);
/* Level 2: moves data between ranks. */
bool op_is_comm(OpKind k);

#endif
