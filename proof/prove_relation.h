/* proof/prove_relation.h - boxes and partial results; private to proof/prove*.c. */
#ifndef APC_PROOF_PROVE_RELATION_H
#define APC_PROOF_PROVE_RELATION_H

#include "ir/ir.h"
#include "proof/prove.h"
#include "proof/prove_term.h"

enum { MAX_GUESSES = 16 };

/* The part [lo, hi) of a global dimension; free: any part of extent hi (the value does not vary along it). */
typedef struct Span {
  const Expr *lo, *hi;
  bool free;
} Span;

typedef struct Relation {
  int rank;
  Span dims[MAX_RANK];
  Reduction partial;
  uint32_t axes;   /* the mesh axes over which it is partial */
  bool loses_sign; /* a partial sum, one part of which may be -0 where the others are +0 */
  bool copied;     /* copied by an operation, which lets a value that one rank owns count as a sum */
} Relation;

/* The fact proved about a level-2 value. */
typedef struct Fact2 {
  Term term;
  Relation relation;
} Fact2;

/* The box and stage of a state at its first read or write. */
typedef struct StateFact {
  const char *name;
  Relation relation;
  int stage;
} StateFact;

/* A value of level 1 with its dimensions in another order, which level 1 does not have.  Its term is unique to it, so
 * only a transpose back applies to it. */
typedef struct Permuted {
  Term term, of;
  int rank;
  int64_t perm[MAX_RANK]; /* its dimension -> that of the value */
} Permuted;

/* A reason why a proof holds over the real numbers only: the effect in floats, and the operation. */
typedef struct RealAt {
  const char *what, *op;
} RealAt;

typedef struct Prover {
  Module *m;
  const Func *l1;
  Terms *terms;
  const Term *l1_terms;
  int64_t *values; /* scratch: one per symbol */
  int *used;       /* scratch: symbols used by a condition */
  int64_t *least;  /* by symbol: its least value */
  struct {
    const Expr **items;
    size_t n, cap;
  } legal; /* local extents that are never negative */
  struct {
    const Expr **items;
    size_t n, cap;
  } extents;      /* extents of level 1 that are negative at some sizes; each once */
  size_t assumed; /* how many of them may be assumed not negative: none until all are known */
  int64_t (*seen_coordinates)[MAX_AXES], (*seen_values)[2]; /* scratch of prove_span.c */
  struct {
    StateFact *items;
    size_t n, cap;
  } states;
  size_t written;
  struct {
    struct RealAt *items;
    size_t n, cap;
  } real; /* reasons why the proof holds over the real numbers only */
  struct {
    struct Place *items;
    size_t n, cap;
  } within, covers; /* parts that lie in their dimension, and those that cover it */
  struct {
    Permuted *items;
    size_t n, cap;
  } permuted;
  int depth;      /* number of open loops */
  bool uncertain; /* a failed comparison could not be decided */
  bool guessed;   /* a free span got a place, and others were possible */
  int nguesses;   /* guesses so far; the i-th takes place number guesses[i] of those that fit, beyond MAX_GUESSES the
                     first */
  int guesses[MAX_GUESSES];
  bool exhausted; /* there was no such place */
  const char *op, *reason;
  Proof idle; /* op: the first operation without a proof whose result is unused */
} Prover;

/* Sets the reason; always returns false. */
bool prove_fail(Prover *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* prove_size.c */
void sizes_open(Prover *p); /* collects the sizes of m and l1 (NULL if none) */
typedef enum Decision { HOLDS, FAILS, OPEN } Decision;
/* True (HOLDS) if the condition holds for the values of the expressions, at all coordinates and all legal sizes.  OPEN
 * if it holds at all that were tried. */
Decision decide(Prover *p, int n, const Expr *const *exprs, bool (*holds)(const int64_t *values, const void *context),
                const void *context);
/* True if equal at all coordinates and sizes; sets p->uncertain if that could not be decided. */
bool expr_equal(Prover *p, const Expr *a, const Expr *b);
/* Sets p->values to sizes at which the extents of level 1 are legal, and coordinates to 0; false if none was found. */
bool sizes_choose(Prover *p);
/* True if the extent is never negative. */
bool extent_is_legal(Prover *p, const Expr *e);

/* prove_span.c: axes and dimensions that an expression uses, and the next combination of the axes' coordinates. */
uint32_t expr_axes(const Module *m, const Expr *e);
bool expr_has_dimension(const Module *m, const Expr *e);
bool next_coordinates(const Module *m, uint32_t axes, int64_t *values);
/* e / by if exact at all coordinates and sizes, else NULL. */
const Expr *expr_quotient(Prover *p, const Expr *e, const Expr *by);
/* True if a <= b at all coordinates and sizes; false if unknown (prove_bound.c). */
bool expr_at_most(Prover *p, const Expr *a, const Expr *b);
/* Spans: construction, extent, the axes they use; the span common to two, and whether a span is the whole dimension. */
Span span_at(const Expr *lo, const Expr *hi);
const Expr *span_extent(Prover *p, const Span *s);
uint32_t span_axes(const Module *m, const Span *s);
uint32_t relation_axes(const Module *m, const Relation *r);
bool span_unify(Prover *p, const Span *a, const Span *b, Span *out);
bool span_is_whole(Prover *p, const Span *s, const Expr *extent);
/* Inside [0, whole) or empty, at all coordinates and sizes. */
bool span_within(Prover *p, const Span *s, const Expr *whole);
/* Places a free span at a canonical cut of that extent.  Every cut is valid; `prove` tries which of them leads to a
 * proof. */
bool span_settle(Prover *p, Span *s, const Expr *extent);
/* True if the parts follow each other from 0 to the extent, with ranks numbered by these axes, major to minor. */
bool span_covers(Prover *p, const Span *s, const Expr *extent, int n, const uint8_t *axes);
/* True if the parts over the axes' coordinates follow each other from 0 to the extent, in some order of the axes. */
bool span_tiles(Prover *p, const Span *s, const Expr *extent, uint32_t axes);
/* Finds the first canonical cut of the extent over ordered subsets of the axes that fits.  Tries the units of a
 * constant extent, or 1 and the units in the expression `part`, the extent of a part. */
bool span_search(Prover *p, const Expr *extent, const Expr *part, uint32_t axes,
                 bool (*fits)(Prover *, const Span *, const void *), const void *context, Span *out);

/* prove_case.c: true if `op` of function f, on boxes `in`, computes as its result number `result` its part of that
 * result of the level-1 operation `g` of function gf.  Fills the spans of the result and its partial axes. */
typedef struct CaseOf {
  const Func *gf;
  const Op *g;
  const Func *f;
  const Op *op;
  int result;
  const Relation *in;
} CaseOf;
bool prove_case(Prover *p, const CaseOf *of, Relation *out);

/* prove.c */
typedef struct ProveWalk {
  const Func *f;
  const Loops *loops;
  const Fact2 *inputs;  /* NULL for level 2 itself; else the facts of its inputs (of a composite's body) */
  Fact2 *known;         /* by value */
  const bool *controls; /* by value; controls_of */
  const bool *needed;   /* by value: an effect of the function depends on it; NULL if all do */
} ProveWalk;
/* Proves operations [from, to), which end only loops that they begin. */
bool prove_range(Prover *p, const ProveWalk *w, size_t from, size_t to);
/* The operands of operation i are visible and in its stage. */
bool prove_operands(Prover *p, const ProveWalk *w, size_t i);
/* The local extents are those of the box. */
bool prove_extents(Prover *p, const Type *local, Relation *r);

/* prove_loop.c */
/* By value: it has the same bits on all ranks that compute it, so that it may control a loop; NULL if there are no
 * loops. */
const bool *controls_of(Module *m, const Func *f, const Loops *loops);
bool prove_loop(Prover *p, const ProveWalk *w, const Loop *l); /* the whole loop, with its leaves */
bool prove_bind(Prover *p, const ProveWalk *w, const Op *op);

/* prove_longer.c: the function with products as long as level 1's; the function itself if all are. */
const Func *prove_shortened(Module *m, const Func *f);

/* prove_comm.c: the axioms of the level-2 operations. */
bool prove_comm(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out);
bool prove_accumulate(Prover *p, const Relation *in, Relation *out);

/* prove_case.c: a reduced dimension that is cut makes the result partial over the axes that cut it. */
bool reduce_span(Prover *p, Span s, const Expr *extent, Reduction r, Relation *out);

/* prove_case.c: handles the letters from `first` on in a product's spec: shared letters must have equal spans, letters
 * of the result pass their span on, the others are summed. */
bool prove_letters(Prover *p, const Func *gf, const Op *g, const Relation *in, char first, Relation *out);

/* prove_real.c: notes how an operation that is right over the real numbers affects infinities, NaN and the sign of a
 * zero. */
void note_real(Prover *p, const Func *f, const Op *op, int result, const Fact2 *in, Relation *out);
void note_real_comm(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out);
const char *real_reason(const Prover *p); /* NULL if the proof holds in floats as well */

/* prove_window.c: `g` is the level-1 operation that the local one is part of; fills the result's spans. */
typedef struct WindowCase {
  const Func *gf;
  const Op *g;
  const Func *f;
  const Op *op;
  const Relation *in;
  Relation *out;
} WindowCase;
bool prove_window(Prover *p, const WindowCase *c);

/* prove_opaque.c: `g` is the level-1 operation, an operator with a rule; fills the spans of that result. */
typedef struct OpaqueCase {
  const Func *gf;
  const Op *g;
  int result;
  const Relation *in;
  Relation *out;
} OpaqueCase;
bool prove_opaque(Prover *p, const OpaqueCase *c);

#endif
