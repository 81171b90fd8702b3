/* runtime/exec/internal.h - shared by the files of the executor: exec.c (opening, memory), bind.c (everything that
 * follows from bound symbols), bodies.c (the lists of calls of a binding), validate.c (their checks), comm.c
 * (communication), pack.c (weights in panels), share.c (weights shared by ranks), ports.c (inputs and outputs in
 * place), places.c (inputs and outputs on a device), run.c (the walk), capture.c (captured requests). */
#ifndef APC_RUNTIME_EXEC_INTERNAL_H
#define APC_RUNTIME_EXEC_INTERNAL_H

#include "runtime/device/device.h"
#include "runtime/exec/away.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/record.h"

enum {
  EXEC_BINDINGS = 8, /* limit of bindings; the oldest goes first */
  EXEC_STATE_VALUES = 1 + PROGRAM_MAX_RANK
};
#define EXEC_NO_PORT UINT32_MAX

/* For one communication instruction: per micro-batch (or once) and member, the extents that determine its blocks. */
typedef struct CommParts {
  int64_t *values; /* [micro-batch][member][per_member] */
  uint32_t members, place, per_member;
  uint32_t first; /* first rank of the group */
} CommParts;

/* Parts of this rank's result that no rank sends in an exchange. */
typedef struct CommGaps {
  CommBlock *blocks;
  uint32_t n;
} CommGaps;

/* Calls that the device replays as one, from this one on; n is 0 if none begin here. */
typedef struct Recording {
  uint32_t n;
  void *recorded;
} Recording;

/* A body of a binding. */
typedef struct BoundBody {
  DeviceCalls calls; /* without items if the body is of another entry or stage */
  uint32_t mb;       /* the micro-batch of their numbers */
  CommOp *ops;       /* per communication of the list */
  CommGaps *gaps;
  CommBlock *blocks;     /* blocks of ops and gaps */
  Recording *recordings; /* per call; NULL if the device records nothing */
} BoundBody;

/* The place of a buffer in the I/O area. */
typedef struct BufferPort {
  uint32_t port; /* number in the RequestLayout; EXEC_NO_PORT: not in the area */
  uint64_t at;   /* bytes after the port's first */
} BufferPort;

/* A binding's captured request. */
typedef struct BoundCapture {
  bool wanted;         /* requests of this binding are captured */
  bool *after;         /* per output: it is fetched after the capture; NULL if none is */
  bool made;           /* a request ran call by call since memory last moved, so the next one is captured */
  uint64_t moves;      /* `moves` of the executor at that time */
  uint64_t *need;      /* per stage and space: bytes; NULL if the device captures nothing */
  uint64_t ports;      /* bytes of all fed and fetched parts, each rounded up */
  uint64_t on_device;  /* the same of ports on a device */
  uint64_t which;      /* `places.which` of these requests */
  void *device, *comm; /* the captures of device and communication; NULL: not captured yet */
  uint32_t request;    /* number of the captured request */
  WrittenPart *written;
  size_t n_written;
} BoundCapture;

typedef struct Binding {
  uint32_t entry;
  uint32_t computed; /* so many computed sizes are set; the others have their bounds */
  int64_t *symbols;
  int64_t *values; /* expressions of this rank for micro-batch `mb` */
  uint32_t mb;
  MemoryPlan plan;
  CommParts *parts; /* per instruction of this stage's part of the entry, from instr_first on */
  uint32_t instr_first, instr_end;
  RequestLayout io;
  BoundBody *bodies; /* per body of the Program */
  bool tuned;        /* its calls were timed (tune.c) */
  BoundCapture capture;
  BufferPort *ports; /* per buffer: the input or output in the I/O area that is its memory */
  char **address;    /* per buffer: slot 0; valid while `generation` and `area` are the executor's */
  uint64_t generation;
  const char *area; /* the I/O area at that time */
} Binding;

typedef struct Space {
  char *data;
  uint64_t bytes;
} Space;

/* Times of a recorded request's calls, on a device that executes calls later. */
typedef struct Stamps {
  struct StampedCall {
    uint32_t instr;
    uint64_t event; /* number in the record; UINT64_MAX: there was no room */
  } * calls;
  uint64_t *ns;
  uint32_t n, capacity;
  uint64_t begin; /* time of the first stamp */
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
  Comm *comm;           /* the engine that reaches the device's memory: options.comm, or the device's own; NULL with one
                         * rank */
  int tuning_group;     /* of all ranks, in options.comm; with options.tuning only */
  int *groups;          /* per family: this rank's group in the communicator, -1 if it has none */

  Space spaces[SPACE_COUNT]; /* the device's memory; that of SPACE_AWAY is empty */
  Away away;
  struct {
    _Atomic unsigned char *written; /* flags in memory shared by all ranks; NULL: nothing is shared */
    uint64_t bytes, *flag;          /* bytes of all flags; per buffer: its first flag */
    uint32_t *n_flags;              /* per buffer: number of flags; 0: not shared */
  } shared;
  uint64_t mapped_bytes;
  uint64_t generation; /* increases when a space moves */
  uint64_t moves;      /* increases when a space of some rank moves; equal on all ranks */
  uint64_t *need;      /* per stage and space: the most bytes so far */
  const char **mapped; /* per buffer: address of a weight */
  uint64_t *capacity;  /* per persistent buffer: bytes at its address */
  bool has_states;
  struct {
    char *data; /* NULL: nothing was kept */
    uint64_t bytes, state_bytes;
    int64_t *state_values; /* as below */
    bool has_states;
  } kept;                /* set by exec_keep */
  uint64_t not_finite;   /* set by exec_look: 1 + the first trained weight with an infinity or a NaN; 0: none */
  uint64_t prepared;     /* how often the entry `prepare` ran */
  int64_t *state_values; /* per state, from its first use: its offset, its extents */

  Binding *bindings[EXEC_BINDINGS];
  uint32_t next_binding;
  uint64_t class_bytes[PC_COUNT];

  CommTicket window[PROGRAM_POSITIONS]; /* the last enqueued positions */
  uint64_t positions;
  uint64_t *tickets; /* per event and micro-batch: ticket + 1; 0: nothing to wait for */
  uint64_t beside;   /* of these, tickets that have not been waited for yet */

  struct {
    int64_t round, rounds;
  } loops[PROGRAM_MAX_LOOPS]; /* running loops, from outside to inside */
  uint32_t n_loops;

  /* computed sizes of the current request: which are set, and how many */
  bool *known;
  uint32_t n_known;

  /* the current request */
  Binding *binding;
  uint32_t request, micro_batch;
  char *io;               /* NULL: inputs or outputs are in a file */
  struct EntryFile *file; /* that file; NULL if there is none */
  struct EntryCopy *copy; /* written by a thread; NULL if there is none */
  struct {
    char **at;      /* per number of a port: its address on the device; NULL: in the area */
    char **mapped;  /* per number: what `unmap` takes; NULL: nothing was mapped for it */
    uint32_t n;     /* ports of the entry; 0: the request has no places */
    uint32_t room;  /* of both lists */
    uint64_t which; /* hash of the numbers with an address; 0 without any */
  } places;
  struct {
    const RequestState *what; /* NULL: the request is of no box of a state */
    char *values;             /* in the I/O area */
    bool reads;               /* from the state */
  } box;
  struct {
    uint64_t *of; /* per output of the entry: checksum of this rank's parts in the last written file */
    uint32_t n;
  } sums;
  uint64_t load_ns, run_ns;
  bool failed;
  bool capturing;     /* the request is being captured */
  RecordHead *record; /* NULL: not recording */
  Stamps stamps;
};

uint64_t exec_now(void); /* a monotonic time in nanoseconds */

/* Makes a space at least `bytes` large; its contents are lost when it grows.  The only function that allocates model
 * memory.  RT_FAILED names rank and bytes. */
RtStatus exec_alloc(Executor *e, ProgramSpace space, uint64_t bytes, RtError *error);

/* Finds or makes the binding of an entry for these symbols. */
RtStatus exec_bind(Executor *e, uint32_t entry, const int64_t *symbols, Binding **out, RtError *error);
/* The same for requests that use states only: without the memory of intermediate values. */
RtStatus exec_bind_states(Executor *e, uint32_t entry, const int64_t *symbols, Binding **out, RtError *error);
/* Frees a binding; NULL is allowed. */
void exec_binding_free(const Executor *e, Binding *b);

/* Computes every buffer's address for the present generation. */
void exec_place(const Executor *e, Binding *b);

/* Evaluates the expressions for a micro-batch. */
RtStatus exec_micro_batch(const Executor *e, Binding *b, uint32_t mb, RtError *error);

/* Returns the coordinates of this rank for a micro-batch. */
void exec_coordinates(const Executor *e, uint32_t mb, int64_t coordinates[PROGRAM_MAX_AXES]);

/* bodies.c: makes the lists of calls of a binding, for micro-batch 0. */
RtStatus exec_bodies_make(const Executor *e, Binding *b, RtError *error);
void exec_bodies_free(const Executor *e, Binding *b);
/* ports.c: finds the buffers that lie in the I/O area, after the calls are made. */
RtStatus exec_ports_find(const Executor *e, Binding *b, RtError *error);
/* Inserts addresses into the calls, after exec_place. */
RtStatus exec_bodies_place(const Executor *e, Binding *b, RtError *error);
/* Records again what is replayed, after the device chose other ways to compute it. */
RtStatus exec_bodies_again(const Executor *e, Binding *b, RtError *error);
/* Sets the numbers of a body's calls to those of a micro-batch. */
RtStatus exec_body_select(const Executor *e, Binding *b, BoundBody *body, uint32_t mb, RtError *error);

/* validate.c: returns why the call is impossible with these sizes; NULL if it is possible.  It is an error only when
 * the call is reached: a loop may make no rounds, and an earlier check gives a better explanation. */
const char *exec_fault(const Executor *e, const Binding *b, const DeviceCall *c);
/* Reports c->refused, for a product with its numbers. */
RtStatus exec_refuse(const Executor *e, const DeviceCall *c, RtError *error);

/* capture.c: decides whether the requests of a new binding are captured. */
RtStatus exec_capture_bind(const Executor *e, Binding *b, RtError *error);
/* Note that a request of the binding is about to use a space, perhaps more of it than any before; and that all ranks
 * freed a space. */
void exec_capture_moved(Executor *e, const Binding *b, ProgramSpace space);
void exec_capture_given_back(Executor *e, ProgramSpace space);
/* Keeps the capture of a binding with valid addresses if no rank's memory has moved, else drops it.  placed: this
 * rank's addresses changed. */
RtStatus exec_capture_keep(const Executor *e, Binding *b, bool placed, RtError *error);
/* Captures the request, or replays the capture. */
RtStatus exec_capture_run(Executor *e, RtError *error);
/* True if the call fetches an output after the capture. */
bool exec_is_after(const Executor *e, const DeviceCall *c);
/* Drops the capture of a binding. */
void exec_capture_release(const Executor *e, BoundCapture *k);

/* run.c: makes all calls of a request, and waits for its communication. */
RtStatus exec_walk(Executor *e, uint32_t entry, RtError *error);
/* Fetches a part of an output, unless it comes after the capture that is being made. */
RtStatus exec_fetch(const Executor *e, const DeviceCall *c, RtError *error);
/* Appends a part of an output to the list of written parts. */
RtStatus exec_note_written(WrittenParts *w, const WrittenPart *part, RtError *error);

/* comm.c: enqueues the operation of a call. */
RtStatus exec_communicate(Executor *e, const BoundBody *b, const DeviceCall *c, RtError *error);
/* Waits for the operation of a call's event. */
RtStatus exec_wait(Executor *e, const DeviceCall *c, RtError *error);
/* Lets communication in flight progress between calls, if the engine does not by itself. */
RtStatus exec_progress(Executor *e, RtError *error);
/* Waits for all enqueued operations. */
RtStatus exec_wait_all(Executor *e, RtError *error);

/* marks.c: true if the device marks call i before it makes it; *since is 0 at the start of a body, and counts.
 * exec_mark_end returns the step of the last call that the mark of a step stands for. */
bool exec_is_marked(const Executor *e, const BoundBody *b, uint32_t i, uint32_t *since);
uint32_t exec_mark_end(const Executor *e, uint32_t step);

/* places.c.  exec_places_open maps the places of a request; exec_places_close ends that after a request without an
 * error, and returns the first error.  exec_port gives a port of the request. */
RtStatus exec_places_open(Executor *e, const RequestHead *head, const void *io, size_t io_bytes, RtError *error);
RtStatus exec_places_close(Executor *e, RtStatus status, RtError *error);
DevicePort exec_port(const Executor *e, uint32_t number);

/* tune.c.  exec_tune_open compares devices and the file of choices, after the device is open.  exec_tune times what the
 * table of choices lacks, after a request call by call; all ranks call it. */
RtStatus exec_tune_open(Executor *e, RtError *error);
RtStatus exec_tune(Executor *e, RtError *error);

/* share.c: maps the bytes that are equal on all ranks of the stage from their file, after the memory of weights is
 * allocated. */
RtStatus exec_share(Executor *e, const MemoryPlan *plan, RtError *error);
/* Unmaps the flags; the pages belong to the space of weights. */
void exec_share_close(Executor *e);
/* exec_shared_has is true if some rank has written that piece of a buffer; false for buffers that are not shared and,
 * for buffers with one flag, for pieces after the first.  exec_shared_wrote notes that this rank has.
 * exec_shared_first returns the piece of n that this rank begins with. */
bool exec_shared_has(const Executor *e, uint32_t buffer, uint64_t piece);
void exec_shared_wrote(const Executor *e, uint32_t buffer, uint64_t piece);
uint64_t exec_shared_first(const Executor *e, uint64_t n);

/* pack.c: executes a load and its pack as one, reading the weight in its mapped file.  False if that is impossible:
 * then the caller makes both calls. */
bool exec_pack_stored(const Executor *e, const DeviceCall *load, RtStatus *status, RtError *error);

/* This rank's part of a weight that bodies write. */
typedef struct TrainedPart {
  uint32_t param;
  const int64_t *lo, *extent;
  char *at;
  uint64_t bytes;
} TrainedPart;
typedef RtStatus TrainedVisit(Executor *e, const TrainedPart *part, void *context, RtError *error);
/* Calls `visit` for this rank's part of every trained weight, until it fails. */
RtStatus exec_each_trained(Executor *e, TrainedVisit *visit, void *context, RtError *error);
RtStatus exec_load_trained(Executor *e, RtError *error); /* restores their initial values */

/* keep.c: execute REQUEST_KEEP, REQUEST_BACK and REQUEST_LOOK */
RtStatus exec_keep(Executor *e, RtError *error);
RtStatus exec_back(Executor *e, RtError *error);
RtStatus exec_look(Executor *e, RtError *error);
/* Loads the part of a weight from its source into the device's memory. */
RtStatus exec_load_part(const Executor *e, uint32_t param, const int64_t *lo, const int64_t *extent, void *to,
                        RtError *error);

/* Fills rows of n elements with a number.  instr: the instruction it is done for; NONE if there is none. */
RtStatus exec_fill(const Executor *e, uint32_t instr, DType dtype, void *to, int64_t rows, int64_t n, int64_t stride,
                   double value, RtError *error);

/* Records an error of an instruction, whose kind, name and rank come first. */
RtStatus exec_error(const Executor *e, uint32_t instr, RtStatus status, RtError *error, const char *what);

/* record.c: state at the start of a call, for its record. */
typedef struct RecordMark {
  uint64_t begin, waited;
  uint32_t round;
} RecordMark;

/* exec_record_mark begins a call; exec_record_call and exec_record_request record a call and a request that are
 * over. */
RecordMark exec_record_mark(const Executor *e);
RtStatus exec_record_call(Executor *e, const BoundBody *b, const DeviceCall *c, const RecordMark *mark, RtError *error);
void exec_record_request(Executor *e, uint64_t begin);
/* For devices that execute calls later: start their times before the first call of a request, and read them when the
 * device has finished. */
RtStatus exec_record_start(Executor *e, RtError *error);
RtStatus exec_record_times(Executor *e, RtError *error);
/* exec_record begins a new recording, with room for `capacity` events; exec_record_end measures the machine's peak. */
RtStatus exec_record(Executor *e, uint64_t capacity, RtError *error);
RtStatus exec_record_end(Executor *e, RtError *error);

/* Returns the counter of signs of life; NULL without a watchdog. */
static inline _Atomic uint64_t *exec_beats(const Executor *e) {
  return e->options.place ? &e->options.place->beats : NULL;
}

#endif
