/* program/program.h - the Program (level 3): what the compiler writes and the runtime executes.
 *
 * A Program is one flat little-endian image used in place (mapped from the artifact): a header, then arrays
 * of fixed-size records (program.def), then embedded byte ranges (kernels, weights) on page borders.  There
 * are no pointers: records name each other by index, lists are runs of `indices`, texts are offsets into
 * `strings`; PROGRAM_NONE means "none".  program_open checks every index, offset, count and enumerator, so
 * that nothing behind it has to; a damaged image is an error, never a crash.
 *
 * Ranks.  The mesh has axes (at most one temporal: the micro-batch) and stages.  Rank = stage * (product of
 * the spatial axes) + the spatial coordinates read with the first axis as the major one.  All ranks of a
 * stage form a rank class: they run the same schedule over the same bodies.
 *
 * Sizes.  Every size, offset and predicate is an expression over constants, symbols and coordinates.  A
 * request binds the symbols from the shapes of its inputs; then the whole table is evaluated, in order, for
 * this rank (and each micro-batch).  Uneven shards and late-bound dimensions are the same thing.
 *
 * Schedule.  Per entry and stage, rows (phase, body, micro-batch); a body is a list of instructions, all of one stage
 * and phase.  Its phase (base/phase.def) says whether it is called once or once for every micro-batch; these
 * calls come in ascending order, so that a buffer of as many slots as micro-batches live at once never needs another
 * one, and sums over micro-batches have one order.  Expressions in a body see its call's micro-batch as the temporal
 * coordinate; a body that is called once has none, and touches no buffer of several slots.
 *
 * Bodies stand by entry, stage and phase, and within these as one micro-batch runs through them.  So there is one order
 * that needs no schedule: what runs once before, then each micro-batch through all bodies, then what runs once behind.
 * A schedule is right when every read finds what it finds in that order (program/flow.h).
 *
 * Loops.  `loop` and `repeat` are brackets in the list of a body; they nest.  The number of rounds is data, so it is
 * read when the loop begins and not again: nothing in the body changes it.  All ranks of a stage make the same rounds
 * (the compiler proves it), and no loop sends to another stage.  What the lists of instructions alone tell is found by
 * walking them with every way back taken once (program_next).
 *
 * Memory.  A buffer has `slots` pieces of `bytes` bytes; tensors address slot (micro-batch mod slots).
 *   persistent   entry NONE: classes param, state and library; a state that micro-batches cut has a slot for each
 *   of a body    live at instructions [first, last] of every call of `body`, within one call
 *   of an entry  body NONE: live over calls [first, last] of the schedule of (entry, stage): what bodies hand to
 *                each other, of as many micro-batches as there are slots, or accumulated over all of them (one slot)
 * What is written before a loop and read in it is live to its repeat; what is of one round lies within.
 * A buffer used by communication with an event is live until the matching wait (or to the end of the
 * entry, where everything is waited for).
 *
 * Communication.  `key` is a number below 2^24, the same for all instructions that meet: the two of a send and its
 * recv, and the one instruction (of one body) for a group within a stage.  Members of a group meet in the same order.
 * `event` makes it asynchronous: `wait` ends it, in the same round of the same loop.  The compiler writes events for
 * devices that have a queue for communication: asked for directly behind its producer, all in the one order of the
 * level-2 function, waited for before the first instruction that reads what it fills or writes what it sends.  A wait
 * may stand in another body than what it waits for, and with `lag` that many micro-batches later: so do those for
 * transfers of stages that take turns.
 *
 * Kernels are functions that every image has under one name: machine code of one kind (program.def) for one
 * architecture; a device takes the one it runs (program/image.h).  A Program with kernels and without images can be
 * printed and planned only.  In a shared object for CPUs: void NAME(void *const *tensors, const int64_t *scalars), see
 * ProgramKernelFn.  Tensors are row-major and contiguous, aligned to PROGRAM_ALIGN when their offset in the buffer is.
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
  PROGRAM_VERSION = 13,
  PROGRAM_PAGE = 4096,  /* alignment of embedded ranges in the image */
  PROGRAM_ALIGN = 64,   /* alignment of buffers and of their slots */
  PROGRAM_MAX_RANK = 8, /* dimensions of a tensor */
  PROGRAM_MAX_AXES = 8,
  PROGRAM_MAX_RANKS = 1 << 17, /* what is made per rank is bounded by it; the image does not grow with ranks */
  PROGRAM_MAX_SYMBOLS = LIMIT_SYMBOLS,
  PROGRAM_MAX_BATCH_LOOPS = 6,
  PROGRAM_MAX_WORDS = 4095, /* addresses and scalars that a kernel takes: 32 KiB, less the driver's */
  PROGRAM_MAX_MICRO_BATCHES = 2048,
  PROGRAM_MAX_KEY = 1 << 24,
  PROGRAM_MAX_IMAGES = 64,
  PROGRAM_MAX_BLOCKS = INT32_MAX, /* of a grid */
  PROGRAM_POSITIONS = 64,         /* communication that a rank has under way */
  PROGRAM_MAX_LOOPS = 64,         /* loops inside each other */
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

/* What ProgramInstr.object means. */
typedef enum ProgramObject { PO_NONE, PO_KERNEL, PO_GROUP, PO_INPUT, PO_OUTPUT, PO_PARAM, PO_TEXT } ProgramObject;

/* ---- records.  Field types are fixed, no padding; `zero` fields are 0. */

typedef struct ProgramList {
  uint32_t first, n; /* indices[first .. first + n) */
} ProgramList;

typedef struct ProgramSymbol {
  uint32_t name, zero;
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

/* What becomes of a weight: a buffer of the model, one that could be trained, one that bodies write. */
typedef enum ProgramTraining { PARAM_FIXED, PARAM_TRAINABLE, PARAM_TRAINED } ProgramTraining;

/* The part of rank r is [interval[2d], interval[2d+1]) in each dimension d.  A weight several stages use has one
 * record per stage, with the same name. */
typedef struct ProgramParam {
  uint32_t name;
  uint32_t dtype;
  uint32_t stage;
  uint32_t buffer;         /* class param; NONE: only for `load` in the entry `prepare` */
  ProgramList dims;        /* expressions without symbols and coordinates: the global extents */
  ProgramList interval;    /* 2 per dimension; expressions of coordinates */
  uint32_t init;           /* ProgramInit */
  uint32_t blob;           /* blob: index, else NONE */
  uint32_t source_dtype;   /* blob: type in the file; converted when it differs from dtype */
  uint32_t trainable;      /* ProgramTraining; a trained one has a buffer of its own, and is loaded again on a reset */
  ProgramList strides;     /* blob: per dimension, in elements; constant expressions, none negative */
  uint32_t origin;         /* view: name of the whole weight */
  uint32_t view;           /* blob: 1 when it is a view of a whole weight, else 0 */
  ProgramList origin_dims; /* view: constant extents of the origin, which is row-major */
  uint64_t first;          /* view: element of the origin that is [0,..,0] */
  uint64_t offset;         /* blob: byte of element [0,..,0] in the file or embedded range */
  uint64_t seed, stream;   /* normal, uniform */
  double value;            /* constant, normal, uniform */
} ProgramParam;

typedef struct ProgramState {
  uint32_t name;
  uint32_t dtype;
  uint32_t stage;
  uint32_t buffer;      /* class state */
  ProgramList dims;     /* global extents; may use symbols */
  ProgramList interval; /* as for params; may use symbols, and the micro-batch when each has a slot of the buffer */
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

/* Threads and shared memory are of the code: it is compiled for so many of a block and declares all its shared memory,
 * so that a launch asks for none.  How many blocks there are depends on the sizes of an instruction, and one kernel
 * serves several: that is said there. */
typedef struct ProgramKernel {
  uint32_t name;    /* symbol in the images */
  uint32_t threads; /* of a block; 0: it is called once, without a grid */
  uint32_t shared;  /* bytes of a block that its text declares; a compiler may make do with less */
  uint32_t looks;   /* 1: at indices, behind whose launch stands where it notes one (program/index_fault.h) */
} ProgramKernel;

/* All kernels, as machine code of one kind for one architecture; no two are for the same. */
typedef struct ProgramImage {
  uint32_t kind; /* ProgramImageKind */
  uint32_t arch; /* text: see the kind's row */
  uint32_t blob; /* embedded */
  uint32_t zero;
} ProgramImage;

/* A family: over axes, every stage has one group per value of the other spatial coordinates, with its
 * ranks ordered by the axes' coordinates, first axis major.  Over two stages (axes empty), each rank of `from` forms a
 * group with the rank of equal coordinates of `to`. */
typedef struct ProgramGroup {
  ProgramList axes;  /* distinct spatial axes, not necessarily in mesh order */
  uint32_t from, to; /* two stages, or NONE */
} ProgramGroup;

typedef struct ProgramPort {
  uint32_t name;
  uint32_t dtype;
  ProgramList dims;        /* global extents: expressions without coordinates */
  uint32_t random_below;   /* expression: integer inputs filled at random are in [0, this); NONE: 0 or 1 */
  uint32_t index_below;    /* expression: every element is an index and must be below it; NONE: none is */
  uint32_t index_negative; /* 1: elements from -index_below on count from the end */
  uint32_t index_ignored;  /* expression: an element that may be outside; NONE: no such number */
} ProgramPort;

typedef struct ProgramEntry {
  uint32_t name;
  uint32_t prepare;          /* 1: runs once after loading and cannot be asked for; no ports */
  uint32_t inputs, n_inputs; /* ports[inputs .. ) */
  uint32_t outputs, n_outputs;
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
  uint32_t where;  /* text: the operation's name, for errors and the watchdog */
  uint32_t object; /* see the table; NONE when there is none; `input`, `output`: place in the entry's ports */
  uint32_t guard;  /* expression: skipped where it is 0; NONE: always done */
  ProgramList tensors;
  ProgramList exprs;
  uint32_t dim, dim2; /* loop, repeat: instructions between the two, and one; gemm, conv: dim is the Activation; gemm:
                         dim2 is the DType of the sums; conv: dim2 is the ProgramConvResult; launch: dim of the tensors,
                         the last ones, are written; load: dim 1: the pack behind it alone reads what is loaded */
  uint32_t reduction; /* CommReduction, for all_reduce and reduce_scatter */
  uint32_t key;       /* communication */
  uint32_t event;     /* communication: asynchronous, or NONE; wait: which */
  uint32_t lag;       /* wait: for how many micro-batches before; nothing where there is none */
  uint32_t mask;      /* fetch: bit a: the output is replicated over axis a; gemm, conv: 1 bias, 2 residual, 4
                         operands may be rounded to tf32;
                        launch: bit i: of tensor i only what other values name is read (a table) */
  uint32_t blocks;    /* launch, conv: expression: of the grid; NONE for kernels without one */
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
  uint64_t table_bytes; /* header and sections; embedded ranges come behind */
  uint64_t image_bytes; /* everything */
  uint32_t name;        /* text: the model */
  uint32_t target;      /* text: what it was compiled for, "cpux2" */
  uint32_t producer;    /* text: "apc 0.1.0" */
  uint32_t stages;      /* at least 1 */
  uint32_t n_events;    /* events are numbers below this */
  uint32_t device;      /* text: the kind of device its ranks are, "cpu" (runtime/device/devices.def) */
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
  uint8_t *expr_uses;     /* per expression: PROGRAM_USES_* ; owned */
  uint8_t uses;           /* of all expressions together */
} Program;

enum { PROGRAM_USES_SYMBOL = 1, PROGRAM_USES_PLACE = 2, PROGRAM_USES_MICRO_BATCH = 4 };

/* Opens an image in place; it must outlive the Program and be aligned to 8.  `bytes` is what is there: at least the
 * tables; the loader checks that the embedded ranges, up to header->image_bytes, are there as well.
 * RT_BAD_INPUT for a damaged image. */
RtStatus program_open(const void *image, size_t bytes, Program *out, RtError *error);
void program_close(Program *p);

static inline const char *program_text(const Program *p, uint32_t text) { return p->strings + text; }
static inline const uint32_t *program_list(const Program *p, ProgramList l) { return p->indices + l.first; }
const char *program_instr_name(uint32_t kind);
const char *program_class_name(uint32_t class_);
const char *program_phase_name(uint32_t phase);
/* Are bodies of the phase called for every micro-batch? */
bool program_phase_each(uint32_t phase);
ProgramSpace program_class_space(uint32_t class_);
ProgramObject program_instr_object(uint32_t kind);
bool program_instr_is_comm(uint32_t kind);
Epilogue program_instr_epilogue(const ProgramInstr *x); /* of gemm and conv */
/* Which tensor of a conv is the image, the weights, the output? */
uint32_t program_conv_image(const ProgramInstr *x);
uint32_t program_conv_weights(const ProgramInstr *x);
uint32_t program_conv_output(const ProgramInstr *x);
bool program_instr_has_grid(const ProgramInstr *x); /* then `blocks` says how many */
/* Does the instruction write its tensor `i`?  It reads all others, and C of a gemm that accumulates. */
bool program_instr_writes(const ProgramInstr *x, uint32_t i);

/* Walks a body with every way back of its loops taken once.  A walk begins with the body's first instruction and *again
 * = PROGRAM_NONE and ends behind its last; *again is the repeat of the loop in its second round.  A loop inside others
 * is walked twice in their first round and once in the second, so that an instruction is met at most once more than
 * there are loops around it. */
uint32_t program_next(const Program *p, uint32_t instr, uint32_t *again);

uint32_t program_entry_find(const Program *p, const char *name); /* PROGRAM_NONE when there is none */

/* ---- ranks */
uint32_t program_stage(const Program *p, uint32_t rank);
/* coordinates[n_axes]; the temporal one is 0. */
void program_coordinates(const Program *p, uint32_t rank, int64_t *coordinates);
uint32_t program_rank_at(const Program *p, uint32_t stage, const int64_t *coordinates);

/* The ranks of one group, as a pattern: member i is `first` plus, per axis, the digit of i (the first axis is the major
 * one) times the axis's stride. */
typedef struct ProgramMembers {
  uint32_t n, place; /* how many; which one is the rank that was asked about */
  uint32_t first, n_axes;
  uint32_t sizes[PROGRAM_MAX_AXES], strides[PROGRAM_MAX_AXES];
} ProgramMembers;

/* The group of the family that `rank` is in; n is 0 when it is in none. */
ProgramMembers program_group_of(const Program *p, uint32_t group, uint32_t rank);
uint32_t program_member(const ProgramMembers *m, uint32_t i);

/* ---- sizes */

/* Evaluates all expressions under the symbols (values[n_symbols]; NULL: expressions of symbols are left 0) and
 * coordinates; values[n_exprs].  RT_BAD_INPUT when a size overflows or divides by 0 or less. */
RtStatus program_eval(const Program *p, const int64_t *symbols, const int64_t *coordinates, int64_t *values,
                      RtError *error);
/* Only those that use any of `uses` (PROGRAM_USES_*); the others are taken from `values` as they are. */
RtStatus program_eval_again(const Program *p, uint8_t uses, const int64_t *symbols, const int64_t *coordinates,
                            int64_t *values, RtError *error);

typedef struct ProgramShape {
  int rank; /* -1: not known, follows from the other inputs */
  int64_t dims[PROGRAM_MAX_RANK];
} ProgramShape;

/* Binds the symbols from the shapes of all inputs of an entry, one per input: a dimension that is just a symbol binds
 * it, one like 4*n + 1 its symbol when no other does, and every one must evaluate to the given extent.
 * symbols[n_symbols] begins with -1 for free symbols or a value given by the caller; those that nothing binds get
 * program_default_size.  RT_BAD_INPUT names input and dimension. */
RtStatus program_bind(const Program *p, uint32_t entry, const ProgramShape *shapes, int64_t *symbols, RtError *error);
/* The hint, or without one the smallest size above 0 that is allowed. */
int64_t program_default_size(const ProgramSymbol *s);
/* The smallest size above 0 that is allowed. */
int64_t program_least_size(const ProgramSymbol *s);
/* The value of one expression without coordinates under bound symbols. */
RtStatus program_value(const Program *p, uint32_t expr, const int64_t *symbols, int64_t *out, RtError *error);
/* The shape of a port under bound symbols. */
RtStatus program_port_shape(const Program *p, uint32_t port, const int64_t *symbols, ProgramShape *out, RtError *error);

/* ---- text */

/* "2*batch + @tp"; cut when it does not fit.  Returns text. */
const char *program_expr_text(const Program *p, uint32_t expr, char *text, size_t size);

/* The whole Program as text (`--emit=schedule` for CPU ranks, `apc inspect -v`): symbols, mesh, memory, entries,
 * schedules, bodies. */
void program_print(const Program *p, Text *t);
/* "all_reduce of h3.mlp.out over tp" */
void program_instr_text(const Program *p, uint32_t instr, char *text, size_t size);

/* ---- identity of weights and kernels */

/* ProgramBlob.hash: XXH64 with the size as seed; of more than PROGRAM_HASH_SMALL bytes, the hash of the hashes of
 * pieces, which several threads compute. */
enum { PROGRAM_HASH_SMALL = 64 << 20, PROGRAM_HASH_PIECE = 16 << 20 };
uint64_t program_blob_hash(const void *bytes, size_t n);

/* The same of `n` bytes that come in any pieces. */
typedef struct ProgramBlobHash {
  Hash64 all, piece;
  uint64_t n, done;
} ProgramBlobHash;

void program_blob_hash_begin(ProgramBlobHash *h, uint64_t n);
void program_blob_hash_add(ProgramBlobHash *h, const void *bytes, size_t n);
uint64_t program_blob_hash_end(ProgramBlobHash *h);

#endif
