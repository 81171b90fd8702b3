/* program/device_calls.h - one rank's calls to its device: the instructions of a body with numbers for expressions.
 *
 * In: a body, and the values of all expressions for one rank and micro-batch.  Out: a flat list of records, one per
 * instruction and in their order, with extents, offsets, strides and scalars as numbers.  The executor makes the list
 * once for a request's sizes, fills in addresses and walks it; `--emit=schedule` prints it for devices that are absent.
 *
 * Micro-batches.  One list serves all of them: device_calls_resolve with the values of another micro-batch rewrites the
 * records that depend on it (`varying`): the slots of buffers, the starts of parts of ports, and little else.  So
 * memory does not grow with their number.
 *
 * Communication.  The data that members of a group exchange follow from their values of the same few expressions
 * (CallComm.parts): the caller provides these, and device_call_blocks computes the blocks.
 *
 * Only device_calls_make allocates; a list belongs to one thread.
 */
#ifndef APC_PROGRAM_DEVICE_CALLS_H
#define APC_PROGRAM_DEVICE_CALLS_H

#include "program/comm.h"
#include "program/program.h"

/* Instruction `gemm` (program.def) for every index of the batch loops; strides in elements, none negative. */
typedef struct GemmCall {
  DType operands, result, sums; /* bias and residual have the result's type */
  DType panels;                 /* type of B, if it is in panels */
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, c_m, c_n;
  int64_t b_panel; /* 0 if B is not in panels */
  bool accumulate, tf32;
  bool narrow; /* A may be rounded to bf16 */
  Epilogue epilogue;
  int loops;
  int64_t extent[PROGRAM_MAX_BATCH_LOOPS];
  int64_t a_step[PROGRAM_MAX_BATCH_LOOPS], b_step[PROGRAM_MAX_BATCH_LOOPS], c_step[PROGRAM_MAX_BATCH_LOOPS];
  const void *a, *b, *bias, *residual; /* bias, residual: NULL if none */
  void *c;
} GemmCall;

/* Sets the addresses of a product from those of its tensors. */
void device_call_place_gemm(GemmCall *g, void *const *data);

/* x[images][image..][groups][in], y[images][output..][groups][out], both dense; weights with strides in elements.
 * Output u and window element k read image index start + u * stride + k * dilation; indices outside the image
 * contribute nothing. */
typedef struct ConvShape {
  int64_t images, groups, in, out;
  int64_t image[3], window[3], output[3], start[3], stride[3], dilation[3];
  int64_t w_group, w_in, w_out, w_window[3];
  int64_t dtype;
} ConvShape;

_Static_assert(sizeof(ConvShape) == (PROGRAM_CONV_NUMBERS + 1) * sizeof(int64_t),
               "the exprs of a convolution, then the type");

typedef struct CallTensor {
  uint32_t index; /* of the Program's tensor */
  uint32_t buffer, slot;
  uint32_t dtype, rank;
  int64_t offset, elements; /* offset: bytes in the slot */
  const int64_t *extents;
} CallTensor;

enum { CALL_PARTS = 4 /* most expressions that define a member's parts */ };

typedef struct CallComm {
  uint32_t index; /* among the communication of this list */
  ProgramMembers members;
  uint32_t n_parts, part_exprs[CALL_PARTS];
  const int64_t *parts; /* [member][n_parts], owned by the caller */
} CallComm;

/* Scalars, by kind:
 *   launch      the expressions
 *   gemm, conv  none, and those of the kernel; the rest is in `gemm` and `conv`
 *   copy        extents of the box, start in tensor 0, start in tensor 1
 *   fill        rows, elements of a row, bytes from row to row
 *   pack        rows, columns, elements from row to row, from column to column
 *   feed, fetch, load   start of the part
 *   check       value, least, greatest
 *   loop        the most rounds, where there is a limit */
typedef struct DeviceCall {
  uint32_t kind;   /* ProgramInstrKind */
  uint32_t instr;  /* the instruction it comes from */
  uint32_t object; /* kernel, input, output, weight or text */
  uint32_t to;     /* loop: the record after its repeat; repeat: the record after its loop; load: the record after the
                      only pack that reads the loaded tensor, 0 if none */
  uint32_t n_tensors, n_scalars;
  int64_t blocks; /* launch, conv: of the grid; 1 without a grid */
  bool skipped;   /* its guard is 0 */
  bool elsewhere; /* fetch: another rank with the same part writes it */
  bool in_place;  /* copy: source and destination are the same memory (set by device_calls_place); feed, fetch: the same
                     for the part (set by the executor) */
  bool varying;
  const char *refused; /* set by the executor: why reaching this call is an error; NULL if it is allowed */
  CallTensor *tensors;
  void **data; /* address of each tensor, from device_calls_place */
  int64_t *scalars;
  union {
    GemmCall *gemm;
    ConvShape *conv;
    CallComm *comm;
  };
  double value; /* fill: of every element; exchange: of elements that no member holds */
} DeviceCall;

typedef struct DeviceCalls {
  const Program *p;
  uint32_t body, n;
  DeviceCall *items;
  uint32_t n_varying, *varying;
  uint32_t n_comms;
  /* storage that the records point into */
  CallTensor *tensors;
  void **data;
  int64_t *words;
  GemmCall *gemms;
  ConvShape *convs;
  CallComm *comms;
} DeviceCalls;

/* Makes the records, without numbers.  device_calls_free frees them, also after an error. */
RtStatus device_calls_make(const Program *p, uint32_t body, uint32_t rank, DeviceCalls *out, RtError *error);
void device_calls_free(DeviceCalls *l);

/* Writes the numbers of all records, or only of those that vary with the micro-batch.  values[n_exprs] and coordinates
 * are those of the rank and the micro-batch. */
void device_calls_resolve(DeviceCalls *l, const int64_t *values, const int64_t *coordinates, bool varying);

/* Writes the addresses: address[buffer] is slot 0 of a buffer, slot_bytes[buffer] the bytes between its slots. */
void device_calls_place(DeviceCalls *l, char *const *address, const uint64_t *slot_bytes, bool varying);

/* Lists the expressions that define the members' parts of an instruction; returns their number. */
uint32_t device_call_parts(const Program *p, const ProgramInstr *x, uint32_t exprs[CALL_PARTS]);

/* Computes the blocks that a communication moves, as bytes in its first and its last tensor; send and recv are
 * [members], as CommOp needs them.  False if the parts do not make up the tensors. */
bool device_call_blocks(const Program *p, const DeviceCall *c, CommBlock *send, CommBlock *recv);

/* exchange: lists the blocks of the last tensor that no member gives in gaps[members + 1]; returns their number. */
uint32_t device_call_gaps(const Program *p, const DeviceCall *c, CommBlock *gaps);

#endif
