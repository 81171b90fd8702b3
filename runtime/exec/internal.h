/* runtime/exec/internal.h - what the files of the executor share: exec.c (opening, memory), bind.c (what follows
 * from bound symbols), bodies.c (the lists of calls of a binding), validate.c (what is checked of them), comm.c
 * (communication), pack.c (weights in panels), share.c (weights of several ranks), ports.c (inputs and
 * outputs in place), run.c (the walk), capture.c (requests as one). */
#ifndef APC_RUNTIME_EXEC_INTERNAL_H
#define APC_RUNTIME_EXEC_INTERNAL_H

#include "runtime/device/device.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/record.h"

enum {
  EXEC_BINDINGS = 8, /* kept; the oldest goes first */
  EXEC_STATE_VALUES = 1 + PROGRAM_MAX_RANK
};
#define EXEC_NO_PORT UINT32_MAX

/* For one communication instruction: per micro-batch (or once) and member, the extents its blocks follow from. */
typedef struct CommParts {
  int64_t *values; /* [micro-batch][member][per_member] */
  uint32_t members, place, per_member;
  uint32_t first; /* the group's first rank */
} CommParts;

/* What nobody gives to this rank in an exchange. */
typedef struct CommGaps {
  CommBlock *blocks;
  uint32_t n;
} CommGaps;

/* Calls that the device makes as one; n is 0 where none begin. */
typedef struct Recording {
  uint32_t n;
  void *recorded;
} Recording;

/* A body of a binding. */
typedef struct BoundBody {
  DeviceCalls calls; /* without items: the body is of another entry or stage */
  uint32_t mb;       /* the micro-batch that they are for */
  CommOp *ops;       /* per communication of the list */
  CommGaps *gaps;
  CommBlock *blocks;     /* what ops and gaps point into */
  Recording *recordings; /* per call; NULL: the device records nothing */
} BoundBody;

/* Where in the I/O area a buffer lies. */
typedef struct BufferPort {
  uint32_t port; /* place in the RequestLayout; EXEC_NO_PORT: it does not lie there */
  uint64_t at;   /* bytes from the port's first on */
} BufferPort;

/* A binding's request as one. */
typedef struct BoundCapture {
  bool wanted;         /* such a request is captured */
  bool made;           /* one was made call by call since memory moved last: the next one is captured */
  uint64_t moves;      /* of the executor, then */
  uint64_t *need;      /* per stage and space: bytes; NULL: the device captures nothing */
  uint64_t ports;      /* bytes of the parts that are fed and fetched, each rounded up */
  void *device, *comm; /* theirs; NULL: not captured yet */
  uint32_t request;    /* that was captured */
  WrittenPart *written;
  size_t n_written;
} BoundCapture;

typedef struct Binding {
  uint32_t entry;
  int64_t *symbols;
  int64_t *values; /* expressions of this rank for micro-batch `mb` */
  uint32_t mb;
  MemoryPlan plan;
  CommParts *parts; /* per instruction of this stage's part of the entry, from instr_first on */
  uint32_t instr_first, instr_end;
  RequestLayout io;
  BoundBody *bodies; /* per body of the Program */
  BoundCapture capture;
  BufferPort *ports; /* per buffer: the input or output in the I/O area that is its memory */
  char **address;    /* per buffer: slot 0; valid while `generation` and `area` are the executor's */
  uint64_t generation;
  const char *area; /* of inputs and outputs */
} Binding;

typedef struct Space {
  char *data;
  uint64_t bytes;
} Space;

/* What a device that does calls later is to tell of those of a request that is recorded. */
typedef struct Stamps {
  struct StampedCall {
    uint32_t instr;
    uint64_t event; /* of the record; UINT64_MAX: there was no room */
  } * calls;
  uint64_t *ns;
  uint32_t n, capacity;
  uint64_t begin; /* when it stamped the first time */
} Stamps;

struct Executor {
  const Artifact *artifact;
  const Program *p;
  ExecOptions options;
  uint32_t stage;
  int64_t coordinates[PROGRAM_MAX_AXES]; /* of this rank; micro-batch 0 */
  Weights *weights;
  Device *device;
  const DeviceOps *ops; /* the device's */
  bool host_memory;     /* DeviceFacts */
  Comm *comm;           /* that reaches the device's memory: options.comm, or an engine of its own; NULL: one rank */
  int *groups;          /* per family: the communicator's group of this rank, -1: none */

  Space spaces[SPACE_COUNT];
  struct {
    _Atomic unsigned char *written; /* flags in memory of all ranks; NULL: nothing is shared */
    uint64_t bytes, *flag;          /* of the flags; per buffer: its first one */
    uint32_t *n_flags;              /* per buffer: how many; 0: it is not shared */
  } shared;
  uint64_t mapped_bytes;
  uint64_t generation; /* grows when a space moves */
  uint64_t moves;      /* grows when one of some rank does; the same on all ranks */
  uint64_t *need;      /* per stage and space: the most bytes so far */
  const char **mapped; /* per buffer: a weight used in place */
  uint64_t *capacity;  /* per persistent buffer: bytes behind its address */
  bool has_states;
  struct {
    char *data; /* NULL: nothing was kept */
    uint64_t bytes;
    bool has_states;
  } kept;                /* by exec_keep */
  uint64_t not_finite;   /* by exec_look: 1 + the first trained weight that has a number that is not; 0: none */
  uint64_t prepared;     /* how often the entry `prepare` ran */
  int64_t *state_values; /* per state, at first use: its offset, its extents */

  Binding *bindings[EXEC_BINDINGS];
  uint32_t next_binding;
  uint64_t class_bytes[PC_COUNT];

  CommTicket window[PROGRAM_POSITIONS]; /* the last positions enqueued */
  uint64_t positions;
  uint64_t *tickets; /* per event and micro-batch: ticket + 1; 0: nothing to wait for */
  uint64_t beside;   /* tickets of these that are not waited for yet */

  struct {
    int64_t round, rounds;
  } loops[PROGRAM_MAX_LOOPS]; /* under way, from outside to inside */
  uint32_t n_loops;

  /* the request under way */
  Binding *binding;
  uint32_t request, micro_batch;
  char *io;               /* NULL: inputs or outputs are in a file */
  struct EntryFile *file; /* that one; NULL */
  struct {
    uint64_t *of; /* per output of the entry: what this rank wrote of it into the last file */
    uint32_t n;
  } sums;
  uint64_t load_ns, run_ns;
  bool failed;
  RecordHead *record; /* NULL: nobody asked */
  Stamps stamps;
};

uint64_t exec_now(void); /* nanoseconds */

/* Makes a space at least `bytes` large; contents are lost when it grows.  The only place that allocates model
 * memory. */
RtStatus exec_alloc(Executor *e, ProgramSpace space, uint64_t bytes, RtError *error);

/* Finds or makes the binding of an entry under symbols. */
RtStatus exec_bind(Executor *e, uint32_t entry, const int64_t *symbols, Binding **out, RtError *error);
void exec_binding_free(const Executor *e, Binding *b);

/* Every buffer's address for the present generation. */
void exec_place(const Executor *e, Binding *b);

/* Evaluates the expressions for a micro-batch. */
RtStatus exec_micro_batch(const Executor *e, Binding *b, uint32_t mb, RtError *error);

/* The values of a micro-batch for the coordinates of this rank. */
void exec_coordinates(const Executor *e, uint32_t mb, int64_t coordinates[PROGRAM_MAX_AXES]);

/* bodies.c: makes the lists of calls of a binding, for micro-batch 0. */
RtStatus exec_bodies_make(const Executor *e, Binding *b, RtError *error);
void exec_bodies_free(const Executor *e, Binding *b);
/* ports.c: once the calls are made, which buffers lie in the I/O area. */
RtStatus exec_ports_find(const Executor *e, Binding *b, RtError *error);
/* After exec_place: puts the addresses in. */
RtStatus exec_bodies_place(const Executor *e, Binding *b, RtError *error);
/* Makes a body's list the one of a micro-batch. */
RtStatus exec_body_select(const Executor *e, Binding *b, BoundBody *body, uint32_t mb, RtError *error);

/* validate.c: why the call may not be made with these sizes; NULL: it may.  An error only when it is come to: a loop
 * may make no rounds, and a check before it says better what is wrong. */
const char *exec_fault(const Executor *e, const Binding *b, const DeviceCall *c);

/* capture.c: decides whether the requests of a new binding are captured. */
RtStatus exec_capture_bind(const Executor *e, Binding *b, RtError *error);
/* A request of the binding is about to have that space: it may be the first that needs so much.  And: all ranks gave it
 * back. */
void exec_capture_moved(Executor *e, const Binding *b, ProgramSpace space);
void exec_capture_given_back(Executor *e, ProgramSpace space);
/* The addresses of the binding are right: its capture stays if no rank's memory has moved.  placed: this rank's did. */
RtStatus exec_capture_keep(const Executor *e, Binding *b, bool placed, RtError *error);
/* A request that is captured, now or before. */
RtStatus exec_capture_run(Executor *e, RtError *error);
void exec_capture_release(const Executor *e, BoundCapture *k);

/* run.c: asks for all calls of a request, and waits for what is sent. */
RtStatus exec_walk(Executor *e, uint32_t entry, RtError *error);
RtStatus exec_note_written(WrittenParts *w, const WrittenPart *part, RtError *error);

/* comm.c: enqueues what the record asks for. */
RtStatus exec_communicate(Executor *e, const BoundBody *b, const DeviceCall *c, RtError *error);
RtStatus exec_wait(Executor *e, const DeviceCall *c, RtError *error);
/* Between calls: moves what is under way beside them, where nobody else does. */
RtStatus exec_progress(Executor *e, RtError *error);
RtStatus exec_wait_all(Executor *e, RtError *error);

/* share.c: maps what all ranks of the stage hold alike from their file, once the memory of weights is there. */
RtStatus exec_share(Executor *e, const MemoryPlan *plan, RtError *error);
void exec_share_close(Executor *e);
/* Has some rank written that piece of a buffer?  Not known of buffers that are not shared, and of pieces smaller than
 * 256 KiB but the first one.  And: this rank has; of n pieces, the one that it begins with. */
bool exec_shared_has(const Executor *e, uint32_t buffer, uint64_t piece);
void exec_shared_wrote(const Executor *e, uint32_t buffer, uint64_t piece);
uint64_t exec_shared_first(const Executor *e, uint64_t n);

/* pack.c: makes a load and the pack it is for as one, which reads the weight where its file is mapped.  False: they
 * have to be made as they are. */
bool exec_pack_stored(const Executor *e, const DeviceCall *load, RtStatus *status, RtError *error);

/* The part of a weight, from its source into the device's memory. */
/* This rank's part of a weight that bodies write. */
typedef struct TrainedPart {
  uint32_t param;
  const int64_t *lo, *extent;
  char *at;
  uint64_t bytes;
} TrainedPart;
typedef RtStatus TrainedVisit(Executor *e, const TrainedPart *part, void *context, RtError *error);
RtStatus exec_each_trained(Executor *e, TrainedVisit *visit, void *context, RtError *error);
RtStatus exec_load_trained(Executor *e, RtError *error); /* all of them: as they were at first */

/* keep.c: REQUEST_KEEP, REQUEST_BACK, REQUEST_LOOK */
RtStatus exec_keep(Executor *e, RtError *error);
RtStatus exec_back(Executor *e, RtError *error);
RtStatus exec_look(Executor *e, RtError *error);
RtStatus exec_load_part(const Executor *e, uint32_t param, const int64_t *lo, const int64_t *extent, void *to,
                        RtError *error);

/* Fills rows of n elements with a number.  instr: what it is done for; NONE: no instruction. */
RtStatus exec_fill(const Executor *e, uint32_t instr, DType dtype, void *to, int64_t rows, int64_t n, int64_t stride,
                   double value, RtError *error);

/* An error of an instruction: begins with what and where it is. */
RtStatus exec_error(const Executor *e, uint32_t instr, RtStatus status, RtError *error, const char *what);

/* record.c: what is known when a call begins, and what is recorded when it is over. */
typedef struct RecordMark {
  uint64_t begin, waited;
  uint32_t round;
} RecordMark;

RecordMark exec_record_mark(const Executor *e);
RtStatus exec_record_call(Executor *e, const BoundBody *b, const DeviceCall *c, const RecordMark *mark, RtError *error);
void exec_record_request(Executor *e, uint64_t begin);
/* Before the first call of a request, and when the device has finished: devices that do calls later time them. */
RtStatus exec_record_start(Executor *e, RtError *error);
RtStatus exec_record_times(Executor *e, RtError *error);
/* Begins anew, with room for that many events; at the end measures what the machine can do. */
RtStatus exec_record(Executor *e, uint64_t capacity, RtError *error);
RtStatus exec_record_end(Executor *e, RtError *error);

/* Where signs of life are counted; NULL: nobody watches. */
static inline _Atomic uint64_t *exec_beats(const Executor *e) {
  return e->options.place ? &e->options.place->beats : NULL;
}

#endif
