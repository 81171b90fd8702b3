/* ir/run/interp.h - the reference interpreter: what a function means, as numbers (docs/ir.md, "Operations").
 *
 * A level-1 function runs once on whole tensors.  A level-2 function runs on every rank of the mesh in lock step (the
 * micro-batch axis is one more axis of ranks; an operation runs on the ranks of its stage); the interpreter cuts
 * inputs, weights and state by their declared layouts and puts the outputs together again.  It never reads a factor
 * rule, so that a sharded program that agrees with the unsharded one is evidence for the rules.
 *
 * Two domains (D36).  In DOMAIN_FLOAT float types compute in double, rounded only by casts to a type that holds less.
 * In DOMAIN_MODP the float types are the integers modulo p = 2^31 - 1: sums, products and quotients are exact, every
 * other pointwise function is a hash of its operands, comparison goes by the order of 0 .. p-1.  Equality is then
 * equality: a bias added twice or a wrong divisor cannot hide in a tolerance.  Integers and bool are the same in both
 * domains.
 *
 * Deliberately not done: speed beyond dense loops, and any rounding the types would do between operations.
 */
#ifndef APC_IR_RUN_INTERP_H
#define APC_IR_RUN_INTERP_H

#include "ir/ir.h"

enum { INTERP_P = 2147483647, MAX_INTERP_RANKS = 1024 };
#define MAX_INTERP_EXTENT ((int64_t)1 << 40)

typedef enum InterpDomain { DOMAIN_FLOAT, DOMAIN_MODP } InterpDomain;

/* One element: floats in f (DOMAIN_FLOAT) or as a residue 0 .. p-1 in i (DOMAIN_MODP); integers and bool in i,
 * wrapped to their width (u64 keeps its bits). */
typedef union Cell {
  double f;
  int64_t i;
} Cell;

/* Row-major. */
typedef struct InterpTensor {
  DType dtype;
  int rank;
  int64_t dims[MAX_RANK];
  Cell *cells;
} InterpTensor;

typedef struct InterpNamed {
  const char *name;
  InterpTensor tensor;
} InterpNamed;

typedef struct InterpOptions {
  InterpDomain domain;
  const int64_t *symbols;    /* values of dimensions, indexed as Module.symbols; NULL: their hints */
  const InterpNamed *params; /* weights given here come before Param.init */
  int nparams;
  const InterpNamed *states; /* state at entry; the others start as the module says */
  int nstates;
  /* Fills a weight of INIT_BLOB in DOMAIN_FLOAT; false after a diagnostic.  NULL: such weights are an error. */
  bool (*blob)(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
  void *context;
  double tolerance;      /* copies of one output element may differ by this, relative to 1 + |element|; 0: equal bits */
  uint64_t partial_seed; /* inputs declared partial: 0 puts the value on one rank, else it is split at random */
  int64_t max_cells;     /* elements alive at once, all ranks together; 0: 2^27 */
  int64_t max_rounds;    /* that a loop may make; 0: any number */
} InterpOptions;

typedef struct InterpResult {
  InterpNamed *outputs, *states; /* in the order of the function's outputs, and of its writes */
  int noutputs, nstates;
} InterpResult;

/* Runs the function.  Inputs are whole tensors, found by name.  Results are allocated in `arena`.  False after
 * diagnostics (DIAG_interp): unbound input, shapes that do not fit, an absurd size, ranks that disagree on a copy of an
 * element, a collective whose members do not fit. */
bool interp_run(Module *m, const Func *f, const InterpOptions *options, int ninputs, const InterpNamed *inputs,
                Arena *arena, InterpResult *result, Diags *diags);

/* ---- data (ir/run/interp_data.c) */

InterpTensor interp_tensor(Arena *arena, DType dtype, int rank, const int64_t *dims); /* zeros */
int64_t interp_elements(const InterpTensor *t);
const InterpTensor *interp_find(const InterpNamed *items, int n, const char *name); /* NULL */

/* Values of all dimension symbols from their hints, else their smallest legal value but at least 1. */
int64_t *interp_symbols(const Module *m, Arena *arena);
/* The extents of a type under symbol values; false on overflow, a negative extent, or one over MAX_INTERP_EXTENT. */
bool interp_dims(const Type *t, const int64_t *symbols, int64_t *dims);

/* Fills a tensor with numbers that depend on (seed, element) only: floats uniform in [low, high) rounded to the type,
 * integers in [low, high), bools fair. */
void interp_fill(InterpTensor *t, InterpDomain domain, uint64_t seed, double low, double high);
/* The inputs of a function at random: floats in [-1, 1), integers in [0, 4). */
InterpNamed *interp_random_inputs(Module *m, const Func *f, InterpDomain domain, const int64_t *symbols, uint64_t seed,
                                  Arena *arena, int *n, Diags *diags);

/* The initial value of a weight (not INIT_PREPARED, which needs the function @prepare). */
bool interp_param(const Module *m, const Param *p, const InterpOptions *options, Arena *arena, InterpTensor *out,
                  Diags *diags);

/* Takes a tensor of numbers to the other domain: floats become the residues of their exact values. */
void interp_to_modp(InterpTensor *t);
uint64_t interp_residue(double v);

/* True when both agree: in type and shape, and element by element as number_close(b, a, tolerance) of base/compare.h
 * says.  Else `why` (may be NULL) says where, allocated in `arena`. */
bool interp_equal(const InterpTensor *a, const InterpTensor *b, InterpDomain domain, double tolerance, Arena *arena,
                  const char **why);
/* ||a - b|| / ||b|| in DOMAIN_FLOAT (base/compare.h), of integers and bool the fraction of elements that differ;
 * infinity when type or shape do. */
double interp_distance(const InterpTensor *a, const InterpTensor *b);

#endif
