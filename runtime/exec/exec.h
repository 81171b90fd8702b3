/* runtime/exec/exec.h - one rank executing a Program on a device.
 *
 * exec_open opens the device (runtime/device/device.h) and loads this rank's part of the weights; exec_run runs one
 * request.  Everything that follows from the bound symbols (memory plan, addresses, the lists of device calls, shapes
 * of the other members of groups) is a Binding, kept for later requests of the same sizes.  All memory of the model
 * comes from exec_alloc, which counts it.  The executor knows no kind of device: it calls DeviceOps, and CommOps to
 * communicate.
 */
#ifndef APC_RUNTIME_EXEC_EXEC_H
#define APC_RUNTIME_EXEC_EXEC_H

#include "runtime/device/device.h"
#include "runtime/exec/load.h"
#include "runtime/exec/request.h"
#include "runtime/net/signs.h"

typedef struct Executor Executor;

/* A part of an output (by number in the RequestLayout) that a rank wrote, and all parts of one request in order. */
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
  int threads;             /* host threads that the device computes with; 0: from the environment */
  uint32_t local_rank;     /* number among the ranks of this machine */
  Comm *comm;              /* the host's engine; NULL if the program has one rank */
  RankPlace *place;        /* gets the current step; may be NULL */
  CommProgress *progress;  /* gets the progress of communication by the device's own engine; may be NULL */
  WrittenParts *written;   /* exec_run appends the parts of outputs that it writes; may be NULL */
  const ParamFiles *files; /* must stay open */
  int shared;              /* result of exec_share_create, open during exec_open; 0 or less: none */
  Tuning *tuning;          /* choices of --tune; NULL: none.  Must stay open */
  bool check;              /* APC_CHECK=1: check every memory plan independently */
  bool eager;              /* APC_EAGER=1: record nothing, make every call separately */
  bool staged;             /* APC_COMM=staged: communication between devices goes through host memory */
  bool kernels;            /* APC_CONV=kernel: convolutions use the Program's kernels even if there is a library */
} ExecOptions;

/* True if the environment variable is 1. */
bool exec_is_set(const char *variable);
/* True if APC_COMM is `staged`. */
bool exec_comm_staged(void);
/* True if APC_CONV is `kernel`. */
bool exec_conv_kernels(void);

/* Returns the options of a communicator for the program: its limit of operations. */
CommOptions exec_comm_options(void);

/* Opens the executor of a rank: device, communication, weights, and weights computed from others.  Sets *out only with
 * RT_OK.  RT_UNSUPPORTED if a library is missing, RT_BAD_INPUT for damaged files, RT_FAILED without memory. */
RtStatus exec_open(const Artifact *a, const ExecOptions *options, Executor **out, RtError *error);

/* Runs a request.  The host has bound and checked symbols[n_symbols]; io is the session's area with the layout of
 * request_layout. */
RtStatus exec_run(Executor *e, const RequestHead *head, const int64_t *symbols, void *io, size_t io_bytes,
                  RtError *error);

/* The same if inputs or outputs are tensors of a file (request_has_file).  With RT_OK all parts of this rank are on the
 * disk. */
RtStatus exec_run_file(Executor *e, const RequestHead *head, const int64_t *symbols, const RequestFile *file,
                       RtError *error);

/* Fills the report of the last request: memory, communication, times. */
void exec_report(const Executor *e, RankReport *out);

/* Returns the block of a request that gives something (request_gives): equally long on every rank. */
const void *exec_given(const Executor *e, uint32_t kind, size_t *bytes);
/* After a failure: waits until a file that is written beside the requests (REQUEST_COPY) is written.  NULL is allowed.
 */
void exec_end_file(Executor *e);
bool exec_writes_file(const Executor *e); /* true if there is one */
void exec_close(Executor *e);             /* gives such a file up; NULL is allowed */

/* Order keys: the request, the turn, the position in the body.  Turns are the bodies that run once before the
 * micro-batches, the micro-batches, and the bodies that run once after them.  Communication before and after a request
 * takes its least and its greatest key.  So the smaller key is always that of the rank that lags (until request numbers
 * wrap round; only approximately if a schedule goes from one micro-batch to an earlier one). */
static inline uint64_t exec_key(uint32_t request, uint32_t turn, uint64_t position) {
  return (uint64_t)(request & 0xfff) << 36 | (uint64_t)turn << 24 | position;
}
static inline uint32_t exec_turn(uint32_t phase, uint32_t micro_batch) {
  if (program_phase_each(phase)) return micro_batch + 1;
  return phase < PHASE_fwd ? 0 : PROGRAM_MAX_MICRO_BATCHES + 1;
}
static inline uint64_t exec_key_before(uint32_t request) { return exec_key(request, 0, 0); }
static inline uint64_t exec_key_after(uint32_t request) { return exec_key(request, 0xfff, 0xffffff); }

/* The steps shown to the watchdog: instruction and micro-batch, or the weight being loaded; and their text, for the
 * host. */
static inline uint32_t exec_step(uint32_t instr, uint32_t micro_batch) { return micro_batch << 20 | (instr + 1); }
static inline uint32_t exec_step_load(uint32_t param) { return 1u << 31 | param; }
static inline bool exec_step_loads(uint32_t step) { return step >> 31; }
static inline uint32_t exec_step_instr(uint32_t step) { return (step & 0xfffff) - 1; }
void exec_step_text(const Program *p, uint32_t step, char *text, size_t size);

#endif
