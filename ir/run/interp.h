/* ir/run/interp.h - the reference interpreter: the result of a function in numbers (docs/ir.md, "Operations").
 *
 * A level-1 function runs once on whole tensors.  A level-2 function runs on every rank of the mesh in lock step (the
 * micro-batch axis is one more axis of ranks; an operation runs on the ranks of its stage).  The interpreter cuts
 * inputs, weights and state by their declared layouts and reassembles the outputs.  It never reads a factor rule, so a
 * sharded program that agrees with the unsharded one is evidence for the rules.
 *
 * Two domains (D36).  In DOMAIN_FLOAT float types compute in double, rounded only by casts to a narrower type.  In
 * DOMAIN_MODP the float types are the integers modulo p = 2^31 - 1: sums, products and quotients are exact, every other
 * pointwise function is a hash of its operands, and comparison uses the order of 0 .. p-1.  Equality is then exact: a
 * bias added twice or a wrong divisor cannot hide in a tolerance.  Integers and bool are the same in both domains.
 *
 * Not a goal: speed beyond dense loops, and rounding of the types between operations.
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
  const int64_t *symbols;    /* values of dimensions, indexed as Module.symbols; NULL for their hints */
  const InterpNamed *params; /* weights given here override Param.init */
  int nparams;
  const InterpNamed *states; /* states at entry; the others start as declared in the module */
  int nstates;
  /* Fills a weight of INIT_BLOB in DOMAIN_FLOAT; false after a diagnostic.  NULL: such weights are errors. */
  bool (*blob)(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
  void *context;
  double tolerance;      /* allowed difference between copies of an output element, relative to 1 + |element|; 0: equal
                            bits */
  uint64_t partial_seed; /* inputs declared partial: 0 puts the value on one rank, any other splits it at random */
  int64_t max_cells;     /* limit of elements allocated at once, over all ranks; 0: 2^27 */
  int64_t max_rounds;    /* limit of a loop's rounds; 0 if none */
} InterpOptions;

typedef struct InterpResult {
  InterpNamed *outputs, *states; /* in the order of the function's outputs, and of its writes */
  int noutputs, nstates;
} InterpResult;

/* Runs the function.  Inputs are whole tensors, found by name.  Results are allocated in `arena`.  False after
 * diagnostics (DIAG_interp): unbound input, shapes that do not fit, excessive size, ranks that disagree on a copy of an
 * element, a collective whose members do not fit. */
bool interp_run(Module *m, const Func *f, const InterpOptions *options, int ninputs, const InterpNamed *inputs,
                Arena *arena, InterpResult *result, Diags *diags);

/* ---- data (ir/run/interp_data.c) */

InterpTensor interp_tensor(Arena *arena, DType dtype, int rank, const int64_t *dims); /* zeros */
int64_t interp_elements(const InterpTensor *t);                                       /* their number */
const InterpTensor *interp_find(const InterpNamed *items, int n, const char *name);   /* NULL if there is none */

/* Values of all dimension symbols: their hints, else their smallest legal value that is at least 1. */
int64_t *interp_symbols(const Module *m, Arena *arena);
/* Extents of a type under symbol values; false on overflow, a negative extent, or one over MAX_INTERP_EXTENT. */
bool interp_dims(const Type *t, const int64_t *symbols, int64_t *dims);

/* Fills a tensor with numbers that depend on (seed, element) only: floats uniform in [low, high) rounded to the type,
 * integers in [low, high), bools fair. */
void interp_fill(InterpTensor *t, InterpDomain domain, uint64_t seed, double low, double high);
/* Random inputs of a function: floats in [-1, 1), integers in [0, 4).  NULL after a diagnostic. */
InterpNamed *interp_random_inputs(Module *m, const Func *f, InterpDomain domain, const int64_t *symbols, uint64_t seed,
                                  Arena *arena, int *n, Diags *diags);

/* The initial value of a weight (not INIT_PREPARED, which needs the function @prepare). */
bool interp_param(const Module *m, const Param *p, const InterpOptions *options, Arena *arena, InterpTensor *out,
                  Diags *diags);

/* Converts a tensor of numbers to DOMAIN_MODP: floats become the residues of their exact values. */
void interp_to_modp(InterpTensor *t);
uint64_t interp_residue(double v); /* of one number */

/* True if both agree in type and shape, and each element by number_close(b, a, tolerance) of base/compare.h.  Else *why
 * (why may be NULL) names the difference, allocated in `arena`. */
bool interp_equal(const InterpTensor *a, const InterpTensor *b, InterpDomain domain, double tolerance, Arena *arena,
                  const char **why);
/* ||a - b|| / ||b|| in DOMAIN_FLOAT (base/compare.h); for integers and bool the fraction of elements that differ;
 * infinity if type or shape differ. */
double interp_distance(const InterpTensor *a, const InterpTensor *b);

#endif
