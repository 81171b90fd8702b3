/* runtime/exec/exec.h - one rank executing a Program on a device.
 *
 * exec_open opens the device (runtime/device/device.h) and loads this rank's part of the weights; exec_run runs one
 * request.  Everything known once the symbols are bound (memory plan, addresses, the lists of device calls, shapes of
 * the other members of groups) is a Binding, kept for later requests of the same sizes.  All memory of the model comes
 * from exec_alloc, which counts it.  Nothing here knows a kind of device: it calls DeviceOps, and CommOps to
 * communicate.
 */
#ifndef APC_RUNTIME_EXEC_EXEC_H
#define APC_RUNTIME_EXEC_EXEC_H

#include "runtime/device/device.h"
#include "runtime/exec/load.h"
#include "runtime/exec/request.h"
#include "runtime/net/signs.h"

typedef struct Executor Executor;

/* A part of an output (its place in the RequestLayout) that a rank wrote, and all of one request in order. */
typedef struct WrittenPart {
  uint32_t port, rank;
  int64_t start[PROGRAM_MAX_RANK], extents[PROGRAM_MAX_RANK];
} WrittenPart;

typedef struct WrittenParts {
  WrittenPart *items; /* from malloc */
  size_t n, capacity;
} WrittenParts;

typedef struct ExecOptions {
  uint32_t rank;
  const DeviceOps *device; /* NULL: the kind that the Program names */
  int threads;             /* of the host that the device computes with; 0: as the environment says */
  uint32_t local_rank;     /* among the ranks of this machine */
  Comm *comm;              /* of the host; NULL when the program has one rank */
  RankPlace *place;        /* where steps are told; may be NULL */
  CommProgress *progress;  /* where communication is told that is not the host's; may be NULL */
  WrittenParts *written;   /* exec_run appends what it writes of the outputs; may be NULL */
  const ParamFiles *files; /* must stay open */
  int shared;              /* what exec_share_create gave, open while exec_open runs; 0 or less: none */
  bool check;              /* APC_CHECK=1: check every memory plan independently */
  bool eager;              /* APC_EAGER=1: record nothing, make every call by itself */
  bool staged;             /* APC_COMM=staged: what devices send each other goes through the host's memory */
  bool kernels;            /* APC_CONV=kernel: convolutions by the Program's kernels, though a library may be there */
} ExecOptions;

/* Is the environment variable 1? */
bool exec_is_set(const char *variable);
/* Is APC_COMM `staged`? */
bool exec_comm_staged(void);
/* Is APC_CONV `kernel`? */
bool exec_conv_kernels(void);

/* What a communicator for the program must hold. */
CommOptions exec_comm_options(void);

RtStatus exec_open(const Artifact *a, const ExecOptions *options, Executor **out, RtError *error);

/* Runs a request; symbols[n_symbols] are bound and checked by the host, io is the session's area with the layout of
 * request_layout. */
RtStatus exec_run(Executor *e, const RequestHead *head, const int64_t *symbols, void *io, size_t io_bytes,
                  RtError *error);

/* The same where inputs or outputs are tensors of a file (request_has_file).  Without an error all of this rank's parts
 * are on the disk. */
RtStatus exec_run_file(Executor *e, const RequestHead *head, const int64_t *symbols, const RequestFile *file,
                       RtError *error);

void exec_report(const Executor *e, RankReport *out);

/* After a request that gives something (request_gives): one block, as long on every rank. */
const void *exec_given(const Executor *e, uint32_t kind, size_t *bytes);
void exec_close(Executor *e); /* NULL is allowed */

/* Order keys: the request, the turn, the position in the body.  Turns are what runs once before, the micro-batches,
 * what runs once behind.  What moves before and after a request takes its least and its greatest key, so that the
 * smaller key is always the rank that is behind (until request numbers wrap round; and where a schedule goes from one
 * micro-batch to an earlier one, only about so). */
static inline uint64_t exec_key(uint32_t request, uint32_t turn, uint64_t position) {
  return (uint64_t)(request & 0xfff) << 36 | (uint64_t)turn << 24 | position;
}
static inline uint32_t exec_turn(uint32_t phase, uint32_t micro_batch) {
  if (program_phase_each(phase)) return micro_batch + 1;
  return phase < PHASE_fwd ? 0 : PROGRAM_MAX_MICRO_BATCHES + 1;
}
static inline uint64_t exec_key_before(uint32_t request) { return exec_key(request, 0, 0); }
static inline uint64_t exec_key_after(uint32_t request) { return exec_key(request, 0xfff, 0xffffff); }

/* The steps told to the watchdog, and their text (for the host): instruction and micro-batch, or the weight loaded. */
static inline uint32_t exec_step(uint32_t instr, uint32_t micro_batch) { return micro_batch << 20 | (instr + 1); }
static inline uint32_t exec_step_load(uint32_t param) { return 1u << 31 | param; }
void exec_step_text(const Program *p, uint32_t step, char *text, size_t size);

#endif
