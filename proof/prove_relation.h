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
  uint32_t axes;   /* partial over these mesh axes */
  bool loses_sign; /* a partial sum whose parts may be -0 where the others are +0 */
  bool copied;     /* by an operation, which makes what one rank owns a sum as well */
} Relation;

/* What is known of a level-2 value. */
typedef struct Fact2 {
  Term term;
  Relation relation;
} Fact2;

/* How a state lies where it was read or written first. */
typedef struct StateFact {
  const char *name;
  Relation relation;
  int stage;
} StateFact;

/* What level 1 has not, but is a value of it with its dimensions in another order: the term stands for that alone, so
 * that nothing but a transpose back is known of it. */
typedef struct Permuted {
  Term term, of;
  int rank;
  int64_t perm[MAX_RANK]; /* its dimension -> that of the value */
} Permuted;

/* Why a proof is one over the real numbers: what floats may do otherwise, in which operation. */
typedef struct RealAt {
  const char *what, *op;
} RealAt;

typedef struct Prover {
  Module *m;
  const Func *l1;
  Terms *terms;
  const Term *l1_terms;
  int64_t *values; /* scratch: one per symbol */
  int *used;       /* scratch: symbols that are asked about */
  int64_t *least;  /* by symbol: what it is at least */
  struct {
    const Expr **items;
    size_t n, cap;
  } legal; /* local extents that are never negative */
  struct {
    const Expr **items;
    size_t n, cap;
  } extents;      /* of level 1, that some sizes would make negative; each once */
  size_t assumed; /* so many of them may be taken for not negative: none before all are known */
  int64_t (*seen_coordinates)[MAX_AXES], (*seen_values)[2]; /* scratch of prove_span.c */
  struct {
    StateFact *items;
    size_t n, cap;
  } states;
  size_t written;
  struct {
    struct RealAt *items;
    size_t n, cap;
  } real; /* what makes the proof one over the real numbers */
  struct {
    struct Place *items;
    size_t n, cap;
  } within, covers; /* parts that lie in their dimension, and those that cover it */
  struct {
    Permuted *items;
    size_t n, cap;
  } permuted;
  int depth;      /* loops that are open */
  bool uncertain; /* a failed comparison could not be decided */
  bool guessed;   /* a free span was given a place that may be another one */
  int nguesses; /* guesses so far; the i-th takes the place number guesses[i] of those that fit, beyond MAX_GUESSES the
                   first */
  int guesses[MAX_GUESSES];
  bool exhausted; /* there was no such place */
  const char *op, *reason;
  Proof idle; /* op: the first operation that is not proved and whose result nobody uses */
} Prover;

/* Sets the reason; always false. */
bool prove_fail(Prover *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* prove_size.c */
void sizes_open(Prover *p); /* of m and l1 (NULL: none) */
typedef enum Decision { HOLDS, FAILS, OPEN } Decision;
/* Does this hold of the values of the expressions, at all coordinates and all legal sizes?  Open: at those that were
 * tried. */
Decision decide(Prover *p, int n, const Expr *const *exprs, bool (*holds)(const int64_t *values, const void *context),
                const void *context);
bool expr_equal(Prover *p, const Expr *a, const Expr *b);
/* Sets p->values to sizes at which level 1 has extents, and coordinates to 0; false when none was found. */
bool sizes_choose(Prover *p);
/* Never negative. */
bool extent_is_legal(Prover *p, const Expr *e);

/* prove_span.c */
uint32_t expr_axes(const Module *m, const Expr *e);
bool expr_has_dimension(const Module *m, const Expr *e);
bool next_coordinates(const Module *m, uint32_t axes, int64_t *values);
/* e / by where that is exact at all coordinates and sizes, else NULL. */
const Expr *expr_quotient(Prover *p, const Expr *e, const Expr *by);
/* a <= b at all coordinates and sizes; false when that is not found (prove_bound.c). */
bool expr_at_most(Prover *p, const Expr *a, const Expr *b);
Span span_at(const Expr *lo, const Expr *hi);
const Expr *span_extent(Prover *p, const Span *s);
uint32_t span_axes(const Module *m, const Span *s);
uint32_t relation_axes(const Module *m, const Relation *r);
bool span_unify(Prover *p, const Span *a, const Span *b, Span *out);
bool span_is_whole(Prover *p, const Span *s, const Expr *extent);
/* Inside [0, whole) or empty, at all coordinates and sizes. */
bool span_within(Prover *p, const Span *s, const Expr *whole);
/* A free span has to be somewhere: a canonical cut of that extent.  All are true; which one leads on is found by trying
 * (prove). */
bool span_settle(Prover *p, Span *s, const Expr *extent);
/* The parts follow each other from 0 to the extent when the ranks are counted by these axes, major to minor. */
bool span_covers(Prover *p, const Span *s, const Expr *extent, int n, const uint8_t *axes);
/* The parts over the coordinates of the axes follow each other from 0 to the extent, in some order of the axes. */
bool span_tiles(Prover *p, const Span *s, const Expr *extent, uint32_t axes);
/* The first canonical cut of the extent over ordered subsets of the axes that fits.  The units tried are those of a
 * constant extent, or 1 and those by which the extent of a part, `part`, counts. */
bool span_search(Prover *p, const Expr *extent, const Expr *part, uint32_t axes,
                 bool (*fits)(Prover *, const Span *, const void *), const void *context, Span *out);

/* prove_case.c: does `op` of function f, on boxes `in`, compute as its result number `result` its part of that of the
 * level-1 operation `g` of function gf?  Fills the spans of that result and its partial axes. */
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
  const Fact2 *inputs;  /* NULL: level 2 itself; else what its inputs are (the decomposition of a composite) */
  Fact2 *known;         /* by value */
  const bool *controls; /* by value; controls_of */
  const bool *needed;   /* by value: what the function does depends on it; NULL: all are */
} ProveWalk;
bool prove_range(Prover *p, const ProveWalk *w, size_t from,
                 size_t to); /* the operations [from, to), which end no loop but those they begin */
bool prove_operands(Prover *p, const ProveWalk *w, size_t i);  /* those of operation i are in its stage, and visible */
bool prove_extents(Prover *p, const Type *local, Relation *r); /* the local extents are those of the box */

/* prove_loop.c */
/* By value: has the same bits on all ranks that compute it, so that it may control a loop; NULL without loops. */
const bool *controls_of(Module *m, const Func *f, const Loops *loops);
bool prove_loop(Prover *p, const ProveWalk *w, const Loop *l); /* all of it, with its leaves */

/* prove_longer.c: the function without what products are longer by than level 1's; itself where none is. */
const Func *prove_shortened(Module *m, const Func *f);

/* prove_comm.c: the axioms of the level-2 operations. */
bool prove_comm(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out);
bool prove_accumulate(Prover *p, const Relation *in, Relation *out);

/* prove_case.c: a reduced dimension that is cut makes the result partial over the axes that cut it. */
bool reduce_span(Prover *p, Span s, const Expr *extent, Reduction r, Relation *out);

/* prove_case.c: the letters from `first` on of a product's spec: spans that operands share, spans of the result, sums
 * of the others. */
bool prove_letters(Prover *p, const Func *gf, const Op *g, const Relation *in, char first, Relation *out);

/* prove_real.c: what an operation that is right over the real numbers does to infinities, NaN and the sign of a
 * zero. */
void note_real(Prover *p, const Func *f, const Op *op, int result, const Fact2 *in, Relation *out);
void note_real_comm(Prover *p, const Func *f, const Op *op, const Relation *in, Relation *out);
const char *real_reason(const Prover *p); /* NULL: it holds in floats as well */

/* prove_window.c: `g` is the level-1 witness of the local operation; fills the result's spans. */
typedef struct WindowCase {
  const Func *gf;
  const Op *g;
  const Func *f;
  const Op *op;
  const Relation *in;
  Relation *out;
} WindowCase;
bool prove_window(Prover *p, const WindowCase *c);

#endif
