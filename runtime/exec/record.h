/* runtime/exec/record.h - a rank's recording of its runs, in the form in which the host gets it.
 *
 * One block of memory per rank: RecordHead, a RecordRow per instruction of the Program, then room for `capacity`
 * RecordEvents.  Its size follows from the Program and the request (REQUEST_RECORD) alone, so that host and ranks both
 * know it.  Times are nanoseconds of CLOCK_MONOTONIC, which the ranks of one machine share.
 */
#ifndef APC_RUNTIME_EXEC_RECORD_H
#define APC_RUNTIME_EXEC_RECORD_H

#include "program/program.h"

enum { RECORD_EVENTS_MOST = 1 << 20 }; /* of all ranks together */

typedef struct RecordHead {
  uint64_t requests; /* number of recorded ones */
  uint64_t run_ns;   /* total time of these, from taking up a request to its end */
  uint64_t load_ns;  /* time to load the weights, before */
  uint64_t events, dropped, capacity;
  double peak_flops; /* of this rank's threads while all ranks measured, per second; 0: not measured */
  double peak_bytes; /* read from memory, likewise */
  uint32_t threads;
  uint32_t zero;
  char arch[16]; /* of its device (DeviceFacts.arch); "" if it has none */
} RecordHead;

/* The sizes of a product or convolution, in its last call.
 *   gemm  batch, m, k, n
 *   conv  images, groups, channels of a group in and out, then per dimension: of the output (3), of the window (3) */
enum { RECORD_SIZES = 10 };

/* All calls of an instruction. */
typedef struct RecordRow {
  uint64_t calls, ns;
  uint64_t wait_ns; /* communication: the part of ns without progress */
  double flops;     /* products and convolutions: a multiply-add counts 2; window elements outside the image count 0 */
  double bytes;     /* of its tensors; communication: sent to other ranks */
  int64_t size[RECORD_SIZES];
} RecordRow;

/* One call, or one request (instr PROGRAM_NONE). */
typedef struct RecordEvent {
  uint64_t begin, end, wait_ns;
  uint32_t instr, micro_batch, request;
  uint32_t round; /* of the innermost loop, from 1; 0 outside of loops */
} RecordEvent;

/* Returns the bytes of a record with room for `capacity` events; its rows, one per instruction; its events after
 * them. */
static inline size_t record_bytes(const Program *p, uint64_t capacity) {
  return sizeof(RecordHead) + sizeof(RecordRow) * p->n_instrs + sizeof(RecordEvent) * (size_t)capacity;
}
static inline RecordRow *record_rows(RecordHead *h) { return (RecordRow *)(h + 1); }
static inline RecordEvent *record_events(const Program *p, RecordHead *h) {
  return (RecordEvent *)(record_rows(h) + p->n_instrs);
}

#endif
