/* runtime/exec/internal.h - what the files of the executor share: exec.c (opening, memory), bind.c (what follows
 * from bound symbols), comm.c (blocks of communication), conv.c (convolutions), run.c (instructions). */
#ifndef APC_RUNTIME_EXEC_INTERNAL_H
#define APC_RUNTIME_EXEC_INTERNAL_H

#include "runtime/exec/exec.h"

enum {
  EXEC_BINDINGS = 8, /* kept; the oldest goes first */
  EXEC_STATE_VALUES = 1 + PROGRAM_MAX_RANK
};

/* For one communication instruction: per micro-batch (or once) and member, the extents its blocks follow from. */
typedef struct CommParts {
  int64_t *values; /* [micro-batch][member][per_member] */
  uint32_t members, place, per_member;
  uint32_t first; /* the group's first rank */
} CommParts;

typedef struct Binding {
  uint32_t entry;
  int64_t *symbols;
  int64_t *values; /* expressions of this rank for micro-batch `mb` */
  uint32_t mb;
  MemoryPlan plan;
  CommParts *parts; /* per instruction of this stage's part of the entry, from instr_first on */
  uint32_t instr_first, instr_end;
  RequestLayout io;
  char **address; /* per buffer: slot 0; valid while `generation` is the executor's */
  uint64_t generation;
} Binding;

typedef struct Space {
  char *data;
  uint64_t bytes;
} Space;

struct Executor {
  const Artifact *artifact;
  const Program *p;
  ExecOptions options;
  uint32_t stage;
  int64_t coordinates[PROGRAM_MAX_AXES]; /* of this rank; micro-batch 0 */
  Weights *weights;
  void *library; /* the kernels */
  ProgramKernelFn *kernels;
  int *groups; /* per family: the communicator's group of this rank, -1: none */

  Space spaces[SPACE_COUNT];
  uint64_t mapped_bytes;
  uint64_t generation; /* grows when a space moves */
  const char **mapped; /* per buffer: a weight used in place */
  uint64_t *capacity;  /* per persistent buffer: bytes behind its address */
  bool has_states;
  struct ConvWeights **conv_weights; /* per tensor: weights of convolutions; NULL for others */
  struct ConvCache *conv_cache;
  uint64_t prepared;     /* how often the entry `prepare` ran */
  int64_t *state_values; /* per state, at first use: its offset, its extents */

  Binding *bindings[EXEC_BINDINGS];
  uint32_t next_binding;
  uint64_t class_bytes[PC_COUNT];

  CommTicket window[PROGRAM_POSITIONS]; /* the last positions enqueued */
  uint64_t positions;
  uint64_t *tickets; /* per event and micro-batch: ticket + 1; 0: nothing to wait for */

  struct {
    int64_t round, rounds;
  } loops[PROGRAM_MAX_LOOPS]; /* under way, from outside to inside */
  uint32_t n_loops;

  /* the request under way */
  Binding *binding;
  uint32_t request;
  char *io;
  uint64_t load_ns, run_ns;

  CommOp ops[PROGRAM_MAX_TOGETHER];
  CommBlock *blocks;   /* [operation of a position][send, receive][member] */
  uint32_t group_most; /* members of the largest group */
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

/* An instruction's expressions that decide a member's blocks; how many (at most 4). */
uint32_t exec_part_exprs(const Program *p, const ProgramInstr *x, uint32_t exprs[4]);

/* Enqueues instruction `index` and those joined with it; *next is the one behind them. */
RtStatus exec_communicate(Executor *e, uint32_t index, uint32_t *next, RtError *error);
RtStatus exec_wait(Executor *e, const ProgramInstr *x, RtError *error);
RtStatus exec_wait_all(Executor *e, RtError *error);

/* A tensor of the running instruction. */
typedef struct View {
  char *data;
  DType dtype;
  uint32_t rank;
  int64_t extents[PROGRAM_MAX_RANK];
} View;
View exec_view(const Executor *e, const ProgramInstr *x, uint32_t i);
int64_t exec_elements(const View *v);

static inline int64_t exec_value(const Executor *e, const ProgramInstr *x, uint32_t i) {
  return e->binding->values[program_list(e->p, x->exprs)[i]];
}

/* An error of the running instruction: begins with what and where it is. */
RtStatus exec_error(const Executor *e, const ProgramInstr *x, RtStatus status, RtError *error, const char *what);

/* conv.c: which weights convolutions have, after loading; the instruction. */
RtStatus exec_open_convs(Executor *e, RtError *error);
void exec_close_convs(Executor *e);
RtStatus exec_conv(Executor *e, const ProgramInstr *x, RtError *error);

/* Calls a kernel of the program with the instruction's tensors and its exprs from `first` on. */
void exec_launch(const Executor *e, const ProgramInstr *x, uint32_t first);

/* Fills n elements with a number. */
void exec_fill(DType dtype, void *to, int64_t n, double value);

/* Where signs of life are counted; NULL: nobody watches. */
static inline _Atomic uint64_t *exec_beats(const Executor *e) {
  return e->options.place ? &e->options.place->beats : NULL;
}

#endif
