/* ir/ir.h - the intermediate representation: modules, functions, operations, types, layouts.
 *
 * A Module owns an arena, interned strings, expressions, types and layouts, the symbols, the mesh, the weights
 * (params), the state, and its functions.  A Func is a list of operations in topological order; a value is a small
 * number (Val) that indexes Func.values.  Passes read a function and build a new one in its own arena, which is freed
 * once another pass has replaced the function.
 *
 * Level 1 is the model: global shapes, no mesh.  Level 2 is the SPMD program that every rank runs: local shapes
 * (expressions over dimensions and mesh coordinates) plus communication operations; inputs, params, state and outputs
 * declare the layout by which the local value is a shard of the level-1 value.
 *
 * docs/ir.md is the specification, with the grammar and the numbered rules of the verifier.
 */
#ifndef APC_IR_IR_H
#define APC_IR_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "base/text.h"
#include "ir/expr.h"
#include "ir/ops.h"

enum {
  MAX_RANK = 8,      /* dimensions of a tensor */
  MAX_LOOPS = 64,    /* nested loops */
  MAX_AXES = 8,      /* mesh axes */
  MAX_OPERANDS = 64, /* operands of an operation */
  MAX_RESULTS = 4    /* results of an operation */
};

/* ---- element reductions and partial values (D6) */
typedef enum Reduction {
  RED_NONE,
#define REDUCTION(name, NAME, ...) RED_##NAME,
#include "base/reduction.def"
#undef REDUCTION
  RED_COUNT
} Reduction;
/* Returns the name of a reduction; false if the name is unknown. */
const char *reduction_name(Reduction r);
bool reduction_find(const char *name, Reduction *out);
/* Numbers have sum, product, max and min, bool has or and and, every type has one; none is not defined for any type. */
bool reduction_defined(Reduction r, DType t);
bool reduction_is_ordered(Reduction r, DType t); /* by global index (D33): float sums */

/* ---- types: interned, compare by pointer */
typedef struct Type {
  DType dtype;
  int rank;
  const Expr *dims[MAX_RANK];
} Type;

/* ---- mesh */
typedef struct MeshAxis {
  const char *name;  /* "dp", "tp", "a0" ... */
  int size;          /* at least 1 */
  bool temporal;     /* the micro-batch axis: its coordinate is time, not place (D20) */
  int symbol;        /* the coordinate's symbol */
  const int *shares; /* by member: relative size of its part (ir/shares.h); NULL if all are equal */
} MeshAxis;

typedef enum PipelineSchedule {
#define SCHEDULE(name, ...) SCHEDULE_##name,
#include "ir/schedule.def"
#undef SCHEDULE
  SCHEDULE_COUNT
} PipelineSchedule;

typedef struct Mesh {
  int naxes;
  MeshAxis axes[MAX_AXES];
  int stages;                /* pipeline stages, at least 1; every stage has the same spatial axes */
  PipelineSchedule schedule; /* of training; values do not depend on it (ir/schedule.h) */
  int chunks;                /* stages on the same ranks, for interleaved schedules; 0 means one */
} Mesh;

/* ---- layouts (D1): interned, compare by pointer.  Dimension d of extent U*unit is cut into product(sizes of axes)
 * parts on multiples of unit; with r the rank of the coordinates read major to minor, a part is [floor(r*U/n)*unit,
 * floor((r+1)*U/n)*unit).  Axes with shares cut as in ir/shares.h. */
typedef struct DimLayout {
  int n;                  /* number of axes; 0 if not sharded */
  uint8_t axes[MAX_AXES]; /* major to minor */
  const Expr *unit;       /* NULL if n == 0 */
} DimLayout;

typedef struct Layout {
  int rank;
  Reduction partial;     /* RED_NONE if partial_axes == 0 */
  uint32_t partial_axes; /* bit a: the value is partial over axis a */
  DimLayout dims[MAX_RANK];
} Layout;

/* ---- symbols: dimensions and coordinates */
typedef struct Symbol {
  const char *name;           /* "batch", or "@tp" for the coordinate of axis tp */
  int axis;                   /* mesh axis of a coordinate, -1 for a dimension */
  int64_t min, max, multiple; /* legal sizes of a dimension: min >= 0; max 0 means no limit; multiple >= 1 */
  int64_t hint;               /* the size to plan for; 0 means none given */
  const Expr *most;           /* of a computed size, which a `bind` sets: the bound of its values; NULL for others */
} Symbol;

/* ---- weights and state (D27, D28) */
typedef struct Blob {
  const char *path; /* file holding bytes; weights never enter the arena */
  uint64_t bytes;   /* file size when it was read */
} Blob;

typedef enum ParamInit { INIT_BLOB, INIT_ZEROS, INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM, INIT_PREPARED } ParamInit;

/* The weight that a view is part of, or a reordering of. */
typedef struct ParamOrigin {
  const char *name;
  const Type *type; /* row-major as stored */
  int64_t first;    /* index of the weight's element that is [0,...,0] of the view; the strides are the view's */
} ParamOrigin;

typedef struct Param {
  const char *name;
  const Type *type; /* constant extents */
  ParamInit init;
  int blob;                  /* BLOB: index into Module.blobs */
  uint64_t offset;           /* BLOB: byte of element [0,...,0] */
  int64_t strides[MAX_RANK]; /* BLOB: in elements; transposes, slices and splits of a weight are views */
  ParamOrigin origin;        /* BLOB: name NULL if it is no view, and row-major */
  double value;              /* CONSTANT: the number; NORMAL: standard deviation; UNIFORM: bound, in [-value, value) */
  int64_t seed;              /* NORMAL, UNIFORM: key of the counter-based generator */
  bool trainable;            /* false for buffers such as masks and tables */
  Loc loc;
} Param;

typedef struct State {
  const char *name;
  const Type *type;  /* may use dimension symbols */
  double value;      /* initial value of every element */
  const char *param; /* or the weight with its initial value, a trained one, which only this state reads; NULL if none
                        (D39) */
  bool away;         /* kept outside the memory of the device (--offload) */
} State;

/* ---- operations */
typedef enum AttrKind {
  AK_INT,
  AK_FLOAT,
  AK_STR,
  AK_EXPR,
  AK_DTYPE,
  AK_REDUCTION,
  AK_INTS,
  AK_FLOATS,
  AK_EXPRS,
  AK_STRS,
  AK_AXIS,
  AK_AXES
} AttrKind;

typedef enum AttrKey {
#define ATTR(name, kind, doc) AT_##name,
#include "ir/attrs.def"
#undef ATTR
  AT_COUNT
} AttrKey;

typedef struct Attr {
  AttrKey key;
  int n; /* list length */
  union {
    int64_t i; /* INT, AXIS */
    double f;
    const char *s;
    const Expr *e;
    DType dtype;
    Reduction reduction;
    const int64_t *ints; /* INTS, AXES */
    const double *floats;
    const Expr *const *exprs;
    const char *const *strs; /* interned */
  } u;
} Attr;

typedef uint32_t Val; /* index into Func.values; 0 is "no value" */

/* Phases of a step (base/phase.def, V25); numbered so that 0, the default, is the forward phase. */
typedef enum Phase {
  PH_FIRST = -2,
#define PHASE(name, each, doc) PH_##name,
#include "base/phase.def"
#undef PHASE
  PH_END
} Phase;
/* The phase's name; whether it runs once per micro-batch; whether it computes gradients, of values or weights. */
const char *phase_name(Phase p);
bool phase_each(Phase p);
bool phase_backward(Phase p);

/* The operation of a forward pass whose layouts an operation of a training step follows (D57): it belongs to one of the
 * gradients made from that operation, or to the update of a weight that is read. */
typedef struct Mirror {
  const char *name; /* the operation that is followed; NULL if none */
  int operand;      /* the operand whose gradient the first result is, or one of the following */
} Mirror;
enum {
  MIRROR_INSIDE = -1, /* no operand's: an intermediate value */
  MIRROR_SUM = -2,    /* sums the gradients that the first result gets from several users */
  MIRROR_APART = -3   /* has a planner variable of its own, in the stage of that operation */
};

typedef struct Op {
  OpKind kind;
  int stage;         /* level 2: pipeline stage */
  Phase phase;       /* of a training step, and at level 2 (V25) */
  const char *name;  /* unique in its function, stable over passes (D25); names the first result */
  const char *group; /* planner variable of this operation; its own name by default */
  Mirror mirror;     /* level 1 */
  bool again;        /* level 2: recomputed for gradients (D47), so not to be merged with the original */
  Loc loc;
  int nin;
  const Val *in;
  Val out;                  /* the first result; further ones have the next numbers; 0 for operations without result */
  int nout;                 /* number of results */
  const char *const *names; /* of the further results, nout - 1 of them; unique among operations' names too */
  int nattrs;
  const Attr *attrs; /* ascending keys */
} Op;

typedef struct Value {
  const Type *type;
  int op;               /* index into Func.ops of the operation that defines it */
  const Layout *layout; /* level 2, for input, param and read: the declared shard; else NULL */
} Value;

typedef struct Output {
  const char *name;
  Val value;
  const Layout *layout; /* level 2 */
} Output;

typedef struct Func {
  Arena *own;                /* arena of the function, its lists and operands (func_new); NULL if they are in the
                                module's */
  const struct Joint *joint; /* of several entries (joint.h); NULL for a single function */
  const char *name;
  int level; /* 1 or 2 */
  struct {
    Op *items;
    size_t n, cap;
  } ops;
  struct {
    Value *items;
    size_t n, cap;
  } values; /* item 0 is unused */
  struct {
    Output *items;
    size_t n, cap;
  } outputs;
} Func;

/* A value that a pass left under its name with its dimensions in another order: dimension d of the model's value is
 * dimension at[d]. */
typedef struct ValueOrder {
  const char *name;
  int rank, at[MAX_RANK];
} ValueOrder;

typedef struct Module {
  Arena *arena;
  struct Interned *interned; /* strings, expressions, types, layouts */
  Mesh mesh;                 /* naxes 0 before planning; stages >= 1 */
  struct {
    Symbol *items;
    size_t n, cap;
  } symbols;
  struct {
    Blob *items;
    size_t n, cap;
  } blobs;
  struct {
    Param *items;
    size_t n, cap;
  } params;
  struct {
    State *items;
    size_t n, cap;
  } states;
  struct {
    Func **items;
    size_t n, cap;
  } funcs;
  struct {
    Func **items;
    size_t n, cap;
  } made; /* by func_new, and not dropped yet */
  struct {
    ValueOrder *items;
    size_t n, cap;
  } orders;
  struct {
    struct OpaqueKernel *items;
    size_t n, cap;
  } kernels;              /* of operators that apc does not know (ir/opaque.h) */
  const char *expr_fault; /* why some size could not be computed (expr.h); NULL if none failed.  Reported as rule V3 */
  Loc expr_fault_at;      /* of the operation that was built next */
} Module;

/* ---- modules and interning (ir/module.c) */
/* Returns an empty module with an arena of its own. */
Module *module_new(void);
void module_free(Module *m);                         /* frees everything that belongs to it */
const char *module_string(Module *m, const char *s); /* interned: equal strings are equal pointers */

int module_symbol(Module *m, const char *name); /* finds or adds a dimension symbol; finds a coordinate "@x" or dies */
int module_symbol_find(const Module *m, const char *name); /* -1 if there is none */
/* Adds a computed size: a dimension that a `bind` sets when the program runs, from 0 to `most`, an expression of
 * earlier dimensions.  Its name is `wanted`, or `wanted`.1, .2 ... */
int module_symbol_computed(Module *m, const char *wanted, const Expr *most);
/* True if the expression uses a computed size. */
bool ex_uses_computed(const Module *m, const Expr *e);
/* Sets all computed sizes to their bounds, in order, under the values of the others; 0 where a bound has no value. */
void module_bound_computed(const Module *m, int64_t *values);
/* True if types or attributes of the operation use the symbol. */
bool op_uses_symbol(const Func *f, const Op *op, int symbol);
/* True if the function binds a computed size. */
bool func_binds(const Func *f);
/* The first legal multiple that is at least `size` (which must not be negative); the last one below 2^63 if none is. */
int64_t module_symbol_from(const Symbol *s, int64_t size);
int module_blob(Module *m, const char *path, uint64_t bytes);           /* finds or adds a file; returns its index */
Param *module_param(Module *m, const char *name);                       /* NULL if there is none */
Param *module_param_add(Module *m, const char *name, const Type *type); /* dies if the name exists */
State *module_state(Module *m, const char *name);                       /* NULL if there is none */
State *module_state_add(Module *m, const char *name, const Type *type, double value); /* dies if the name exists */
void module_state_remove(Module *m, const char *name);                                /* nothing may read or write it */
Func *module_func(const Module *m, const char *name);                                 /* NULL if there is none */
Func *module_func_add(Module *m, const char *name, int level); /* replaces a function of that name */
void module_func_remove(Module *m, const Func *f);             /* does nothing if f is not in the module */

/* The order of the value of that name; NULL if it is the model's. */
const ValueOrder *module_order(const Module *m, const char *name);
/* Notes that dimension d of the value is dimension at[d] from now on. */
void module_order_note(Module *m, const char *name, int rank, const int *at);

/* A new function that is not in the module.  It lives until module_funcs_drop, or as long as the module if it is
 * added. */
Func *func_new(Module *m, const char *name, int level);
/* Frees the functions that func_new made since Module.made had `since` entries, except functions of the module. */
void module_funcs_drop(Module *m, size_t since);

/* Sets the mesh of the module; coordinates become symbols.  Must be called before level-2 functions exist. */
void module_set_mesh(Module *m, const Mesh *mesh);
const Expr *mesh_coordinate(Module *m, int axis);       /* of this rank, a symbol */
int mesh_axis_find(const Mesh *mesh, const char *name); /* -1 if there is none */
int mesh_ranks(const Mesh *mesh);                       /* stages times the sizes of the spatial axes */
int mesh_micro_batches(const Mesh *mesh);               /* size of the temporal axis; 1 if there is none */

/* Interned types: from extents, from numbers, and one with another element type. */
const Type *type_get(Module *m, DType dtype, int rank, const Expr *const *dims);
const Type *type_of_ints(Module *m, DType dtype, int rank, const int64_t *dims);
const Type *type_with_dtype(Module *m, const Type *t, DType dtype);
const Expr *type_elements(Module *m, const Type *t);                  /* product of the extents */
const Expr *type_product(Module *m, const Type *t, int from, int to); /* of the extents of dimensions [from, to) */
bool type_constant_dims(const Type *t, int64_t *dims);                /* false if an extent is symbolic */
void type_print(const Module *m, Text *t, const Type *type);

const Layout *layout_get(Module *m, const Layout *l);         /* normalises (unit, empty partial) and interns */
const Layout *layout_replicated(Module *m, int rank);         /* no axes */
void layout_print(const Module *m, Text *t, const Layout *l); /* {0:dp, 2:tp.x/64, sum:tp}; {} when replicated */

/* The part [lo, hi) of a dimension of that global extent held by this rank, as expressions of the coordinates; 0 and
 * the extent if the dimension is not sharded. */
void layout_interval(Module *m, const DimLayout *d, const Expr *extent, const Expr **lo, const Expr **hi);
/* True if the unit divides the extent for all sizes: then the parts cover the dimension exactly once. */
bool layout_unit_divides(Module *m, const DimLayout *d, const Expr *extent);
/* The local type of a shard. */
const Type *layout_local_type(Module *m, const Type *global, const Layout *l);
/* Number of parts of a dimension. */
int64_t layout_parts(const Mesh *mesh, const DimLayout *d);
/* True if the value belongs to one micro-batch: it is cut or partial over the temporal axis. */
bool layout_over_time(const Mesh *mesh, const Layout *l);

/* ---- attributes of operations: table facts (ir/ops.c; those of the operations themselves are in ir/ops.h) */
/* 1 required, 0 optional, -1 not an attribute of this operation. */
int op_attr_rule(OpKind k, AttrKey key);
/* The first required key from `from` on; AT_COUNT if none. */
AttrKey op_attr_required(OpKind k, AttrKey from);
/* Name and kind of a key; attr_find is false if no key has that name. */
const char *attr_name(AttrKey key);
AttrKind attr_kind(AttrKey key);
bool attr_find(const char *name, AttrKey *out);

/* ---- reading an operation */
const Attr *op_attr(const Op *op, AttrKey key);               /* NULL if absent */
int64_t op_int(const Op *op, AttrKey key, int64_t otherwise); /* `otherwise` if absent */
double op_float(const Op *op, AttrKey key, double otherwise); /* `otherwise` if absent */
/* Writes the listed elements (ints, floats) of a constant or an input, in its type; false if it lists none. */
bool op_store_listed(const Op *op, DType type, void *out);
/* True if it is computed for gradients, sums over micro-batches excluded. */
bool op_makes_gradients(const Op *op);
/* True if it reads or writes a state that starts as a weight: a trained one, or a statistic that training updates. */
bool op_is_of_weight(Module *m, const Op *op);
/* True if some operation is in a phase of gradients. */
bool func_has_gradients(const Func *f);
const char *op_str(const Op *op, AttrKey key);  /* NULL if absent */
const Expr *op_expr(const Op *op, AttrKey key); /* NULL if absent */
/* True if all elements are one number: a size, or a const that is no list. */
bool op_is_splat(const Op *op);
/* True for a const that is 0 in all elements. */
bool op_is_zeros(const Op *op);
/* True for a source that any rank can make in any layout without communication: constants, except listed elements, and
 * random numbers. */
bool op_is_anywhere(const Op *op);
/* For a broadcast of one type to another: true if it only adds last dimensions.  Then it may be computed in one kernel
 * with its operand, once per row; any other broadcast reads its operand from memory at each use. */
bool op_spreads_rows(const Op *op, const Type *of, const Type *to);
/* True if the types have the same dimensions in the same order, ignoring those of extent 1. */
bool type_same_but_for_ones(const Type *x, const Type *y);
bool attr_equal(const Attr *x, const Attr *y); /* same key and value; compares floats by bits */
/* The operation that defines a value. */
static inline const Op *op_of(const Func *f, Val v) { return &f->ops.items[f->values.items[v].op]; }
/* The operation's index in the function. */
static inline size_t func_op_index(const Func *f, const Op *op) { return (size_t)(op - f->ops.items); }
/* The type of a value. */
static inline const Type *type_of(const Func *f, Val v) { return f->values.items[v].type; }
/* End of the operation's values, which are out ... op_end - 1. */
static inline Val op_end(const Op *op) { return op->out + (Val)op->nout; }
/* Index of a value among its operation's results, from 0. */
static inline int value_index(const Func *f, Val v) { return (int)(v - op_of(f, v)->out); }
/* The name of a value, and the value of a name; 0 if there is none. */
const char *name_of(const Func *f, Val v);
Val func_find(const Func *f, const char *name);

/* ---- building (ir/build.c) */

/* A new operation; unset fields have defaults. */
typedef struct OpSpec {
  OpKind kind;
  const char *name;  /* made unique by .1, .2 ...; NULL: named after the kind */
  const char *group; /* NULL: its own name */
  Mirror mirror;
  bool again;
  Loc loc;
  int stage;
  Phase phase; /* PH_fwd: the builder's, or else the latest of its operands */
  int nin;
  const Val *in;
  int nattrs;
  const Attr *attrs; /* any order */
  const Type *type;  /* of the first result: required if the type is given, else checked if set */
  const Layout *layout;
  const char *const *names; /* of the further results; NULL: named after the operation; made unique as well */
} OpSpec;

typedef struct Builder {
  Module *m;
  Func *f;
  Diags *diags;       /* receives errors of user input (shape mismatch ...) */
  Loc loc;            /* default location, name prefix, group, stage and phase of new operations */
  const char *prefix; /* prefix of every default name; may be NULL */
  const char *group;
  int stage;
  Phase phase;
  struct NameSet *names;
} Builder;

/* Starts building at the end of f; errors go to `diags`. */
Builder builder_new(Module *m, Func *f, Diags *diags);
/* Ends building: frees room for the next builder. */
void builder_end(Builder *b);

/* Takes the name `wanted`, or `wanted`.1, .2 ... if it is taken, and returns it. */
const char *builder_unique_name(Builder *b, const char *wanted);

/* Makes room for so many more operations with one result each. */
void builder_reserve(Builder *b, size_t more);

/* Adds an operation, inferring the types of its results.  Returns the first result, followed by the others; 0 after
 * diag_error if the operands do not fit. */
Val build_op(Builder *b, const OpSpec *spec);

/* Adds an operation of another function with other operands.  If build_can_copy is true, that equals build_op with the
 * spec of op_spec_of: the types stay, since they follow from those of the operands.  Shares names and attributes. */
bool build_can_copy(const Builder *b, const Func *from, const Op *op, const Val *in);
Val build_copy(Builder *b, const Func *from, const Op *op, const Val *in);
void build_output(Builder *b, const char *name, Val v, const Layout *layout); /* layout: NULL at level 1 */

/* Moves the last operations, from `first` on, before operation `to` <= first. */
void func_move_ops(Func *f, size_t first, size_t to);

/* Attributes; strings and lists are copied into the module. */
Attr attr_i(AttrKey k, int64_t v);
Attr attr_f(AttrKey k, double v);
Attr attr_s(Module *m, AttrKey k, const char *v);
Attr attr_e(AttrKey k, const Expr *v);
Attr attr_dtype(AttrKey k, DType v);
Attr attr_red(AttrKey k, Reduction v);
Attr attr_ints(Module *m, AttrKey k, int n, const int64_t *v);
Attr attr_floats(Module *m, AttrKey k, int n, const double *v);
Attr attr_exprs(Module *m, AttrKey k, int n, const Expr *const *v);
Attr attr_strs(Module *m, AttrKey k, int n, const char *const *v);

/* Shorthands for common operations; each may return 0 with a diagnostic. */
Val build_unary(Builder *b, OpKind k, Val x);
Val build_binary(Builder *b, OpKind k, Val x, Val y);       /* equal types */
Val build_binary_bcast(Builder *b, OpKind k, Val x, Val y); /* NumPy broadcasting of both operands first */
Val build_bcast_to(Builder *b, Val x, int rank, const Expr *const *dims); /* NumPy rules, aligned right */
Val build_splat(Builder *b, const Type *type, double value);
Val build_size(Builder *b, const Type *type, const Expr *value);
Val build_iota(Builder *b, const Type *type, int axis);
Val build_cast(Builder *b, Val x, DType to);
Val build_bitcast(Builder *b, Val x, DType to);
Val build_reshape(Builder *b, Val x, int rank, const Expr *const *dims);
Val build_transpose(Builder *b, Val x, const int *perm);
Val build_slice(Builder *b, Val x, int axis, const Expr *start, const Expr *extent, int64_t stride); /* one dimension */
Val build_concat(Builder *b, int n, const Val *x, int axis);
Val build_reduce(Builder *b, Reduction r, Val x, int naxes, const int *axes);
Val build_dot(Builder *b, Val x, Val y, const char *spec);
Val build_gather(Builder *b, Val table, Val index, int axis);
/* A gather or take whose indices must be inside. */
Val build_checked_gather(Builder *b, OpKind k, Val table, Val index, int axis);
/* Checks that the index is inside 0 ... below - 1, or, if negative, -below ... below - 1; the result is the index. */
Val build_within(Builder *b, Val index, const Expr *below, bool negative);
Val build_input(Builder *b, const char *name, const Type *type);
/* Loops (ir/loops.h), in textual order: the loop, its carries, the body, repeat, leaves in the order of the carries. */
Val build_loop(Builder *b, Val count, const Expr *trips); /* result: the round number; trips may be NULL */
Val build_carry(Builder *b, Val init);
void build_repeat(Builder *b, Val round, Val again); /* again: condition of another round; 0 if there is none */
Val build_leave(Builder *b, Val carry, Val next);
Val build_param(Builder *b, const char *name);         /* the param must be in the module */
Val build_read(Builder *b, const char *name);          /* the state must be in the module */
void build_write(Builder *b, const char *name, Val v); /* names the operation NAME.write */
/* Restores the reduced dimensions, for means over the last dimension and the like, built from reduce, size and div. */
Val build_keepdims(Builder *b, Val reduced, Val like, int naxes, const int *axes); /* broadcasts a reduction back to the
                                                                                      type of `like` */

/* The spec of a copy of the operation for another function of the same module; keeps attributes, name, group, location
 * and type.  The caller sets operands and may override fields. */
OpSpec op_spec_of(const Func *f, const Op *op);

/* The types of an operation's results (ir/infer.c). */
typedef struct ResultTypes {
  int n;
  const Type *items[MAX_RESULTS];
} ResultTypes;
/* Infers the types of an operation's results.  False after diag_error. */
bool infer_types(Module *m, const Func *f, const OpSpec *spec, Diags *diags, ResultTypes *out);

/* ---- text (ir/print.c, ir/parse.c) */
/* Append the text of a module, a function or one operation, which ir_parse reads back. */
void module_print(const Module *m, Text *t);
void func_print(const Module *m, Text *t, const Func *f);
void op_print(const Module *m, Text *t, const Func *f, const Op *op);
void attr_print(const Module *m, Text *t, const Attr *a); /* key=value */
/* Parses a whole file into a new module; NULL after diagnostics. */
Module *ir_parse(const char *file, const char *text, Diags *diags);

/* ---- checking (ir/verify.c): numbered rules V1.. of docs/ir.md.  False after diagnostics. */
bool verify_func(Module *m, const Func *f, Diags *diags);
bool verify_module(Module *m, Diags *diags);

#endif
