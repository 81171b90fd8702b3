/* program/program.h - the Program (level 3): written by the compiler, executed by the runtime.
 *
 * A Program is one flat little-endian image used in place (mapped from the artifact): a header, then arrays of
 * fixed-size records (program.def), then embedded byte ranges (kernels, weights) at page boundaries.  There are no
 * pointers: records name each other by index, lists are runs of `indices`, texts are offsets into `strings`;
 * PROGRAM_NONE means "none".  program_open checks every index, offset, count and enumerator, so that later code can
 * trust them; a damaged image is an error, never a crash.
 *
 * Ranks.  The mesh has axes (at most one temporal: the micro-batch) and stages.  Rank = stage * (product of the spatial
 * axes) + the spatial coordinates read with the first axis as the major one.  All ranks of a stage form a rank class:
 * they run the same schedule over the same bodies.
 *
 * Sizes.  Every size, offset and predicate is an expression over constants, symbols and coordinates.  A request binds
 * the symbols from the shapes of its inputs; then the whole table is evaluated, in order, for this rank (and each
 * micro-batch).  Uneven shards and late-bound dimensions are the same thing.
 *
 * Computed sizes.  A symbol with a bound is set by `bind`, from data, at most once in a request.  Before that it has
 * the value of its bound.  When it is set, expressions are evaluated again; memory is always that of the largest
 * values, so that nothing moves.  Outputs may have computed extents; inputs and states have none.  Only programs
 * without stages and micro-batches have them.
 *
 * Schedule.  Each entry and stage has rows (phase, body, micro-batch); a body is a list of instructions, all of one
 * stage and phase.  Its phase (base/phase.def) says whether it is called once or once for every micro-batch; these
 * calls come in ascending order, so that a buffer with one slot per live micro-batch suffices, and sums over
 * micro-batches have one order.  Expressions in a body see its call's micro-batch as the temporal coordinate; a body
 * that is called once has none, and uses no buffer of several slots.
 *
 * Bodies are sorted by entry, stage and phase, and within these in the order in which one micro-batch runs through
 * them.  This defines an order without a schedule: the bodies called once before, then each micro-batch through all
 * its bodies, then the bodies called once afterwards.  A schedule is right if every read finds the value that it finds
 * in that order (program/flow.h).
 *
 * Loops.  `loop` and `repeat` are brackets in the list of a body; they nest.  The number of rounds is data; it is read
 * only when the loop begins, and nothing in the body changes it.  All ranks of a stage run the same number of rounds
 * (the compiler proves it), and no loop sends to another stage.  Checks of instruction lists walk them with every back
 * edge taken once (program_next).
 *
 * Memory.  A buffer has `slots` pieces of `bytes` bytes; tensors address slot (micro-batch mod slots).
 *   persistent   entry NONE: classes param, state, library and away (the home of a state outside the memory of the
 *                device); a state that micro-batches split has a slot for each
 *   of a body    live at instructions [first, last] of every call of `body`, within one call
 *   of an entry  body NONE: live over calls [first, last] of the schedule of (entry, stage): values that bodies pass to
 *                each other, for as many micro-batches as there are slots, or accumulated over all of them (one slot)
 * A value written before a loop and read in it is live until the loop's repeat; a value of one round lives within the
 * loop.  A buffer used by communication with an event is live until the matching wait (or to the end of the entry,
 * where all events are awaited).
 *
 * Communication.  `key` is a number below 2^24, equal for all instructions that meet: the two of a send and its recv,
 * and the one instruction (of one body) for a group within a stage.  Members of a group meet in the same order.
 * `event` makes communication asynchronous: `wait` ends it, in the same round of the same loop.  The compiler writes
 * events for devices that have a queue for communication: issued directly after their producer, all in the order of the
 * level-2 function, awaited before the first instruction that reads what they fill or writes what they send.  A wait
 * may be in another body than its communication, and with `lag` that many micro-batches later, as for transfers of
 * stages that interleave forward and backward.
 *
 * Predictions.  The compiler may note the time of each instruction and of a whole request that the plan's price counts,
 * for requests of the sizes that it planned for (ProgramSymbol.hint) on devices of the target.  Only profiles read
 * them.
 *
 * Kernels are functions that every image has under one name: machine code of one kind (program.def) for one
 * architecture; a device takes the image it runs (program/image.h).  A Program with kernels but without images can only
 * be printed and planned.  In a shared object for CPUs: void NAME(void *const *tensors, const int64_t *scalars), see
 * ProgramKernelFn.  Tensors are row-major and contiguous, aligned to PROGRAM_ALIGN if their offset in the buffer is.
 */
#ifndef APC_PROGRAM_PROGRAM_H
#define APC_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "program/epilogue.h"
#include "program/status.h"

#define PROGRAM_MAGIC 0x314d474f52504341ull /* "ACPROGM1" */
#define PROGRAM_NONE UINT32_MAX

enum {
  PROGRAM_VERSION = 20,
  PROGRAM_PAGE = 4096,  /* alignment of embedded ranges in the image */
  PROGRAM_ALIGN = 64,   /* alignment of buffers and of their slots */
  PROGRAM_MAX_RANK = 8, /* dimensions of a tensor */
  PROGRAM_MAX_AXES = 8,
  PROGRAM_MAX_RANKS = 1 << 17, /* bounds all that is made per rank; the image does not grow with ranks */
  PROGRAM_MAX_SYMBOLS = LIMIT_SYMBOLS,
  PROGRAM_MAX_COMPUTED = 256, /* computed sizes */
  PROGRAM_MAX_BATCH_LOOPS = 6,
  PROGRAM_MAX_WORDS = 4095, /* addresses and scalars of a kernel: 32 KiB, less the driver's share */
  PROGRAM_MAX_MICRO_BATCHES = 2048,
  PROGRAM_MAX_KEY = 1 << 24,
  PROGRAM_MAX_IMAGES = 64,
  PROGRAM_MAX_BLOCKS = INT32_MAX, /* of a grid */
  PROGRAM_POSITIONS = 64,         /* communication that a rank may have pending at once */
  PROGRAM_MAX_LOOPS = 64,         /* nested loops */
  PROGRAM_MAX_INSTRS = (1 << 20) - 1
};

typedef void (*ProgramKernelFn)(void *const *tensors, const int64_t *scalars);

typedef enum ProgramExprKind {
#define PROGRAM_EXPR(name, text) PX_##name,
#include "program/program.def"
#undef PROGRAM_EXPR
  PX_COUNT
} ProgramExprKind;

typedef enum ProgramSpace {
  SPACE_PARAM,
  SPACE_STATE,
  SPACE_ARENA,
  SPACE_WINDOW,
  SPACE_LIBRARY,
  SPACE_AWAY, /* not the device's memory */
  SPACE_COUNT
} ProgramSpace;

typedef enum ProgramClass {
#define PROGRAM_CLASS(name, space, doc) PC_##name,
#include "program/program.def"
#undef PROGRAM_CLASS
  PC_COUNT
} ProgramClass;

typedef enum ProgramPhase {
#define PHASE(name, each, doc) PHASE_##name,
#include "base/phase.def"
#undef PHASE
  PHASE_COUNT
} ProgramPhase;

typedef enum ProgramInit {
#define PROGRAM_INIT(name, doc) PINIT_##name,
#include "program/program.def"
#undef PROGRAM_INIT
  PINIT_COUNT
} ProgramInit;

typedef enum ProgramImageKind {
#define PROGRAM_IMAGE(kind, ...) PIMAGE_##kind,
#include "program/program.def"
#undef PROGRAM_IMAGE
  PIMAGE_COUNT
} ProgramImageKind;

typedef enum ProgramInstrKind {
#define INSTR(name, ...) PI_##name,
#include "program/program.def"
#undef INSTR
  PI_COUNT
} ProgramInstrKind;

/* The kind of thing that ProgramInstr.object indexes. */
typedef enum ProgramObject {
  PO_NONE,
  PO_KERNEL,
  PO_GROUP,
  PO_INPUT,
  PO_OUTPUT,
  PO_PARAM,
  PO_TEXT,
  PO_SYMBOL
} ProgramObject;

/* ---- records.  Field types are fixed, no padding; `zero` fields are 0. */

typedef struct ProgramList {
  uint32_t first, n; /* indices[first .. first + n) */
} ProgramList;

typedef struct ProgramSymbol {
  uint32_t name;
  uint32_t most;                    /* 1 + the expression of the bound of a computed size, which comes before all
                                       expressions of the size; 0 for sizes that inputs bind */
  int64_t min, max, multiple, hint; /* min >= 0; max 0: no limit; multiple >= 1; hint 0: none */
} ProgramSymbol;

typedef struct ProgramAxis {
  uint32_t name;
  uint32_t size;     /* at least 1 */
  uint32_t temporal; /* 1: the micro-batch */
  uint32_t zero;
} ProgramAxis;

typedef struct ProgramExpr {
  uint32_t kind; /* ProgramExprKind */
  uint32_t a, b; /* smaller than this expression's own index */
  uint32_t zero;
  int64_t value; /* const */
} ProgramExpr;

typedef struct ProgramBlob {
  uint32_t path; /* the file; empty: bytes are in the image at `offset` */
  uint32_t zero;
  uint64_t offset; /* embedded: from the beginning of the image, a multiple of PROGRAM_PAGE; else 0 */
  uint64_t bytes;  /* of the range, or of the whole file */
  uint64_t hash;   /* program_blob_hash of the file or range; 0: not recorded */
} ProgramBlob;

/* The kind of a weight: a constant buffer of the model; a weight that could be trained; one that is trained; a
 * statistic of the data, which a step measures. */
typedef enum ProgramTraining { PARAM_FIXED, PARAM_TRAINABLE, PARAM_TRAINED, PARAM_MEASURED } ProgramTraining;

/* Rank r holds [interval[2d], interval[2d+1]) in each dimension d.  A weight that several stages use has one record per
 * stage, with the same name. */
typedef struct ProgramParam {
  uint32_t name;
  uint32_t dtype;
  uint32_t stage;
  uint32_t buffer;       /* class param; NONE: only for `load` in the entry `prepare` */
  ProgramList dims;      /* expressions without symbols and coordinates: the global extents */
  ProgramList interval;  /* 2 per dimension; expressions of coordinates */
  uint32_t init;         /* ProgramInit */
  uint32_t blob;         /* blob: index, else NONE */
  uint32_t source_dtype; /* blob: type in the file; converted if it differs from dtype */
  uint32_t trainable;    /* ProgramTraining; one that bodies write has its own buffer, and is loaded again on a reset */
  ProgramList strides;   /* blob: per dimension, in elements; constant expressions, none negative */
  uint32_t origin;       /* view: name of the whole weight */
  uint32_t view;         /* blob: 1 if it is a view of a whole weight, else 0 */
  ProgramList origin_dims; /* view: constant extents of the origin, which is row-major */
  uint64_t first;          /* view: element of the origin that is [0,..,0] */
  uint64_t offset;         /* blob: byte of element [0,..,0] in the file or embedded range */
  uint64_t seed, stream;   /* normal, uniform */
  double value;            /* constant, normal, uniform */
} ProgramParam;

/* True if bodies write the weight. */
static inline bool program_param_changes(const ProgramParam *w) { return w->trainable >= PARAM_TRAINED; }

typedef struct ProgramState {
  uint32_t name;
  uint32_t dtype;
  uint32_t stage;
  uint32_t buffer;      /* class state */
  ProgramList dims;     /* global extents; may use symbols */
  ProgramList interval; /* as for params; may use symbols, and the micro-batch if the buffer has a slot for each */
  double value;         /* every element at start */
} ProgramState;

typedef struct ProgramBuffer {
  uint32_t name;
  uint32_t class_; /* ProgramClass */
  uint32_t stage;
  uint32_t entry, body; /* see the head of this file */
  uint32_t first, last;
  uint32_t slots; /* at least 1 */
  uint32_t bytes; /* expression: of one slot */
  uint32_t zero;
} ProgramBuffer;

typedef struct ProgramTensor {
  uint32_t buffer;
  uint32_t offset; /* expression: byte in the slot, a multiple of the element size */
  uint32_t dtype;
  uint32_t zero;
  ProgramList extents; /* expressions; n is the rank */
} ProgramTensor;

/* Threads and shared memory are fixed in the code: it is compiled for this many threads per block and declares all its
 * shared memory, so that a launch requests none.  The number of blocks depends on the sizes of an instruction, and
 * several instructions may use one kernel, so the instruction holds it. */
typedef struct ProgramKernel {
  uint32_t name;    /* symbol in the images */
  uint32_t threads; /* of a block; 0: called once, without a grid */
  uint32_t shared;  /* bytes of a block that its text declares; the compiled code may use less */
  uint32_t looks;   /* 1: it checks indices; its launch passes the address of the note after the scalars
                       (program/index_fault.h) */
} ProgramKernel;

/* All kernels, as machine code of one kind for one architecture; no two images are for the same pair. */
typedef struct ProgramImage {
  uint32_t kind; /* ProgramImageKind */
  uint32_t arch; /* text: see the kind's row */
  uint32_t blob; /* embedded */
  uint32_t zero;
} ProgramImage;

/* An operator with a kernel of the user's: a function of a shared object for CPUs (program/apc_operator.h). */
typedef struct ProgramOperator {
  uint32_t name;     /* "my.Op" */
  uint32_t function; /* its symbol */
  uint32_t blob;     /* embedded: the shared object; several operators may be in one */
  uint32_t zero;
} ProgramOperator;

/* A family of groups.  Over axes, every stage has one group per value of the other spatial coordinates, with its ranks
 * ordered by the axes' coordinates, first axis major.  Over two stages (axes empty), each rank of `from` forms a group
 * with the rank of equal coordinates of `to`. */
typedef struct ProgramGroup {
  ProgramList axes;  /* distinct spatial axes, not necessarily in mesh order */
  uint32_t from, to; /* two stages, or NONE */
} ProgramGroup;

typedef struct ProgramPort {
  uint32_t name;
  uint32_t dtype;
  ProgramList dims;        /* global extents: expressions without coordinates */
  uint32_t random_below;   /* expression: random integer inputs are in [0, this); NONE: 0 or 1 */
  uint32_t index_below;    /* expression: every element is an index below it; NONE: elements are no indices */
  uint32_t index_negative; /* 1: elements from -index_below on count from the end */
  uint32_t index_ignored;  /* expression: an element that may be outside the range; NONE if none */
  ProgramList fixed;       /* the bytes of the only value that the input may have, in words; empty: any value */
} ProgramPort;

typedef struct ProgramEntry {
  uint32_t name;
  uint32_t prepare;          /* 1: runs once after loading, requests cannot name it; no ports */
  uint32_t inputs, n_inputs; /* ports[inputs .. ) */
  uint32_t outputs, n_outputs;
  ProgramList flops; /* model FLOPs of a training step (ir/layout/flops.h), a sum of terms: pairs of a count and an
                        expression without coordinates; empty: unknown */
  double seconds;    /* predicted, of a request of the planned sizes; 0 if unknown */
} ProgramEntry;

typedef struct ProgramSchedule {
  uint32_t calls, n; /* calls[calls .. calls + n) */
} ProgramSchedule;

typedef struct ProgramCall {
  uint32_t body;
  uint32_t micro_batch; /* below the temporal axis's size; 0 without one, and for a body that is called once */
} ProgramCall;

typedef struct ProgramBody {
  uint32_t name;
  uint32_t entry, stage;
  uint32_t phase;     /* ProgramPhase */
  uint32_t instrs, n; /* instrs[instrs .. instrs + n) */
} ProgramBody;

typedef struct ProgramInstr {
  uint32_t kind;   /* ProgramInstrKind */
  uint32_t where;  /* text: name of the operation, for errors and the watchdog */
  uint32_t object; /* index, see the table; NONE if none; `input`, `output`: place in the entry's ports */
  uint32_t guard;  /* expression: the instruction is skipped where it is 0; NONE: never skipped */
  ProgramList tensors;
  ProgramList exprs;
  uint32_t dim, dim2; /* loop, repeat: instructions between the two, and one; gemm, conv: dim is the Activation; gemm:
                         dim2 is the DType of the sums; conv: dim2 is the ProgramConvResult; launch: it writes the last
                         `dim` tensors; load: dim 1: only the pack after it reads the loaded tensor */
  uint32_t reduction; /* CommReduction, for all_reduce and reduce_scatter */
  uint32_t key;       /* communication */
  uint32_t event;     /* communication: asynchronous, NONE if synchronous; wait: the event it waits for */
  uint32_t lag;       /* wait: for the communication of so many micro-batches before; no effect if there is no such
                         micro-batch */
  uint32_t mask;      /* fetch: bit a: the output is replicated over axis a; gemm, conv: 1 bias, 2 residual, 4 operands
                         may be rounded to tf32; launch: bit i: the kernel reads only elements of tensor i that other
                         tensors name (a table) */
  uint32_t blocks;    /* launch, conv: expression: blocks of the grid; NONE for kernels without a grid */
  double value;       /* fill, exchange */
} ProgramInstr;

typedef struct ProgramSection {
  uint64_t offset; /* from the beginning of the image, a multiple of 8 */
  uint64_t count;  /* records */
} ProgramSection;

enum {
#define SECTION(name, record, doc) PS_##name,
#include "program/program.def"
#undef SECTION
  PS_COUNT
};

typedef struct ProgramHeader {
  uint64_t magic;
  uint32_t version, header_bytes;
  uint64_t table_hash;  /* hash64 of the bytes from `table_bytes` to the end of the tables, seed 0 */
  uint64_t table_bytes; /* header and sections; embedded ranges follow */
  uint64_t image_bytes; /* header, sections, embedded ranges, and all later Programs */
  uint32_t name;        /* text: the model */
  uint32_t target;      /* text: the target it was compiled for, "cpux2" */
  uint32_t producer;    /* text: "apc 0.1.0" */
  uint32_t stages;      /* at least 1 */
  uint32_t n_events;    /* events are numbers below this */
  uint32_t device;      /* text: the kind of its devices, "cpu" (runtime/device/devices.def) */
  double peak;          /* FLOP/s of all ranks for the type that the model computes in; 0: unknown */
  uint32_t peak_of;     /* text: the type and the source of the peak, for people */
  uint32_t planned;     /* text: the target's devices, for which times are predicted: "cpu", "gpu sm_80" */
  uint64_t next;        /* offset of the Program for another number of ranks (program/artifact.h); 0: there is none */
  ProgramSection sections[PS_COUNT];
} ProgramHeader;

/* ---- an opened image */

typedef struct Program {
  const unsigned char *image;
  const ProgramHeader *header;
#define SECTION(name, record, doc) \
  const record *name; \
  uint32_t n_##name;
#include "program/program.def"
#undef SECTION
  uint32_t stages;
  uint32_t ranks_per_stage, ranks;
  uint32_t micro_batches; /* size of the temporal axis, 1 without one */
  uint32_t mb_axis;       /* PROGRAM_NONE without one */
  uint8_t *expr_uses;     /* per expression: PROGRAM_USES_*; owned */
  uint8_t uses;           /* union over all expressions */
} Program;

enum {
  PROGRAM_USES_SYMBOL = 1,
  PROGRAM_USES_PLACE = 2,
  PROGRAM_USES_MICRO_BATCH = 4,
  PROGRAM_USES_COMPUTED = 8 /* computed sizes, which are symbols too */
};

/* Opens an image in place; it must outlive the Program and be aligned to 8.  `bytes` are available: at least the
 * tables; the loader checks that the embedded ranges, up to header->image_bytes, are available as well.
 * RT_BAD_INPUT if the image is damaged.  program_close frees; a zeroed Program is allowed. */
RtStatus program_open(const void *image, size_t bytes, Program *out, RtError *error);
void program_close(Program *p);

/* Return a string and the items of a list of an opened Program; valid until program_close. */
static inline const char *program_text(const Program *p, uint32_t text) { return p->strings + text; }
static inline const uint32_t *program_list(const Program *p, ProgramList l) { return p->indices + l.first; }
/* Return names as in the tables ("gemm", "activation", "forward"); "?" for numbers outside. */
const char *program_instr_name(uint32_t kind);
const char *program_class_name(uint32_t class_);
const char *program_phase_name(uint32_t phase);
/* True if bodies of the phase are called for every micro-batch. */
bool program_phase_each(uint32_t phase);
/* Return columns of the tables, for a class and kind inside them. */
ProgramSpace program_class_space(uint32_t class_);
ProgramObject program_instr_object(uint32_t kind);
bool program_instr_is_comm(uint32_t kind);
/* Returns the epilogue of a gemm or conv. */
Epilogue program_instr_epilogue(const ProgramInstr *x);
/* Return the index of the tensor of a conv that is the image, the weights, the output. */
uint32_t program_conv_image(const ProgramInstr *x);
uint32_t program_conv_weights(const ProgramInstr *x);
uint32_t program_conv_output(const ProgramInstr *x);
bool program_instr_has_grid(const ProgramInstr *x); /* true if `blocks` holds the size of its grid */
/* True if the instruction writes its tensor `i`.  It reads all others, and C of a gemm that accumulates. */
bool program_instr_writes(const ProgramInstr *x, uint32_t i);

/* Walks a body with every back edge of its loops taken once; returns the next instruction.  A walk begins with the
 * body's first instruction and *again = PROGRAM_NONE and ends after its last; *again is the repeat of the loop that is
 * in its second round.  A loop inside others is walked twice in their first round and once in the second, so that an
 * instruction is visited at most once more than there are loops around it. */
uint32_t program_next(const Program *p, uint32_t instr, uint32_t *again);

uint32_t program_entry_find(const Program *p, const char *name); /* PROGRAM_NONE if none */

/* ---- ranks */

/* Returns the stage of a rank. */
uint32_t program_stage(const Program *p, uint32_t rank);
/* Fills coordinates[n_axes] of a rank; the temporal one is 0. */
void program_coordinates(const Program *p, uint32_t rank, int64_t *coordinates);
/* Returns the rank of a stage with these coordinates. */
uint32_t program_rank_at(const Program *p, uint32_t stage, const int64_t *coordinates);

/* The ranks of one group as a pattern: member i is `first` plus, per axis, the digit of i (the first axis is the major
 * one) times the axis's stride. */
typedef struct ProgramMembers {
  uint32_t n, place; /* number of members; which of them is the given rank */
  uint32_t first, n_axes;
  uint32_t sizes[PROGRAM_MAX_AXES], strides[PROGRAM_MAX_AXES];
} ProgramMembers;

/* Returns the group of the family that contains `rank`; n is 0 if none does. */
ProgramMembers program_group_of(const Program *p, uint32_t group, uint32_t rank);
/* Returns the rank of member i. */
uint32_t program_member(const ProgramMembers *m, uint32_t i);

/* ---- sizes */

/* Evaluates all expressions under the symbols (symbols[n_symbols]; NULL: expressions of symbols are left 0) and
 * coordinates into values[n_exprs].  RT_BAD_INPUT if a size overflows or divides by 0 or less. */
RtStatus program_eval(const Program *p, const int64_t *symbols, const int64_t *coordinates, int64_t *values,
                      RtError *error);
/* Evaluates only expressions that use any of `uses` (PROGRAM_USES_*); the others keep their `values`. */
RtStatus program_eval_again(const Program *p, uint8_t uses, const int64_t *symbols, const int64_t *coordinates,
                            int64_t *values, RtError *error);

/* The most that the expressions may be under any values of the computed sizes, by arithmetic of intervals; INT64_MAX
 * where there is no limit.  RT_FAILED without memory. */
RtStatus program_eval_most(const Program *p, const int64_t *symbols, const int64_t *coordinates, int64_t *values,
                           RtError *error);
/* Sets the computed sizes that are not `known` to their bounds under the other symbols; known NULL: none is. */
RtStatus program_bound_computed(const Program *p, const bool *known, int64_t *symbols, RtError *error);

typedef struct ProgramShape {
  int rank; /* -1 if unknown: it follows from the other inputs */
  int64_t dims[PROGRAM_MAX_RANK];
} ProgramShape;

/* Binds the symbols from the shapes of all inputs of an entry: a dimension that is just a symbol binds it, one like 4*n
 * + 1 binds its symbol if no other does, and every dimension must evaluate to the given extent.  On entry
 * symbols[n_symbols] are -1 if free, or values given by the caller; those that remain free get program_default_size.
 * RT_BAD_INPUT names input and dimension. */
RtStatus program_bind(const Program *p, uint32_t entry, const ProgramShape *shapes, int64_t *symbols, RtError *error);
/* Checks that the symbol `name` may have size `extent`; RT_BAD_INPUT if not.  `who` begins the message: "input 'x':
 * dimension 0". */
RtStatus program_check_size(const ProgramSymbol *s, const char *name, int64_t extent, const char *who, RtError *error);
/* Returns the hint, or without a hint the smallest allowed size above 0. */
int64_t program_default_size(const ProgramSymbol *s);
/* Sets all symbols: these sizes, and the bounds of computed ones. */
void program_default_sizes(const Program *p, int64_t *symbols);
/* Returns the smallest allowed size above 0. */
int64_t program_least_size(const ProgramSymbol *s);
/* Computes one expression without coordinates under bound symbols. */
RtStatus program_value(const Program *p, uint32_t expr, const int64_t *symbols, int64_t *out, RtError *error);
/* Returns the model FLOPs of an entry under bound symbols; NaN if they are unknown or a size has no value. */
double program_flops(const Program *p, uint32_t entry, const int64_t *symbols);
/* The same of the largest shape of a port, whatever the computed sizes are. */
RtStatus program_port_most(const Program *p, uint32_t port, const int64_t *symbols, ProgramShape *out, RtError *error);
/* Computes the shape of a port under bound symbols. */
RtStatus program_port_shape(const Program *p, uint32_t port, const int64_t *symbols, ProgramShape *out, RtError *error);

/* ---- text */

/* Writes "2*batch + @tp", truncated if it does not fit; returns text. */
const char *program_expr_text(const Program *p, uint32_t expr, char *text, size_t size);

/* Appends the whole Program as text (`--emit=schedule` for CPU ranks, `apc inspect -v`): symbols, mesh, memory,
 * entries, schedules, bodies. */
void program_print(const Program *p, Text *t);
/* Writes "all_reduce of h3.mlp.out over tp"; truncated if it does not fit. */
void program_instr_text(const Program *p, uint32_t instr, char *text, size_t size);

/* ---- identity of weights and kernels */

/* ProgramBlob.hash: XXH64 with the size as seed; above PROGRAM_HASH_SMALL bytes, the hash of the hashes of pieces,
 * which several threads compute. */
enum { PROGRAM_HASH_SMALL = 64 << 20, PROGRAM_HASH_PIECE = 16 << 20 };
uint64_t program_blob_hash(const void *bytes, size_t n);

/* The same hash of `n` bytes that arrive in chunks of any size. */
typedef struct ProgramBlobHash {
  Hash64 all, piece;
  uint64_t n, done;
} ProgramBlobHash;

/* Begins a hash of n bytes in total, adds n bytes, returns the hash. */
void program_blob_hash_begin(ProgramBlobHash *h, uint64_t n);
void program_blob_hash_add(ProgramBlobHash *h, const void *bytes, size_t n);
uint64_t program_blob_hash_end(ProgramBlobHash *h);

#endif
