/* ir/layout/rule.h - factor rules, strategies, and what follows from them (docs/ir.md, "Sharding").
 *
 * A rule names the dimensions of an operation's iteration space (factors).  A strategy maps mesh axes to
 * factors.  Operand and result layouts follow, so no operation needs code of its own to be sharded.
 */
#ifndef APC_IR_LAYOUT_RULE_H
#define APC_IR_LAYOUT_RULE_H

#include "ir/ir.h"

enum { MAX_FACTORS = 32, MAX_DIM_FACTORS = 6 };

typedef enum FactorKind {
  FK_PARALLEL,   /* cut: operands and results that have it are sharded */
  FK_REDUCE,     /* cut: results are partial by `reduction` */
  FK_FROZEN,     /* never cut */
  FK_HALO,       /* cut: results are sharded, operands are exchanged to the interval each rank needs */
  FK_LINEAR,     /* pseudo-factor: operands in `operands` arrive partial, the others replicated, results partial */
  FK_ACCUMULATE, /* pseudo-factor, of the micro-batch alone: operands in `operands` arrive partial, results are whole */
  FK_BODY,       /* cut: the operation is replaced by its decomposition, in which the factor is cut */
  FK_COUNT
} FactorKind;
const char *factor_kind_name(FactorKind k);

typedef struct Factor {
  const char *name; /* "b", "k"; unique in the rule */
  const Expr *size; /* NULL for pseudo-factors */
  FactorKind kind;
  Reduction reduction; /* REDUCE: of the results; LINEAR, ACCUMULATE: of operands and results */
  uint32_t operands;   /* LINEAR, ACCUMULATE: bit i: operand i is partial */
  uint32_t results;    /* REDUCE, LINEAR: bit i: result i becomes partial; the others do not depend on it */
} Factor;

typedef struct DimFactors {
  int n;
  uint8_t f[MAX_DIM_FACTORS]; /* major to minor */
} DimFactors;

typedef struct TensorFactors {
  int rank;
  DimFactors dims[MAX_RANK];
} TensorFactors;

typedef struct Rule {
  int nfactors, noperands, nresults;
  Factor factors[MAX_FACTORS];
  TensorFactors *operands;            /* noperands of them */
  TensorFactors results[MAX_RESULTS]; /* the first has rank 0 and no factors for operations without result */
  struct RuleLayouts *layouts;        /* what strategies made of it (ir/layout/strategy.c); NULL: nobody remembers */
} Rule;

/* One mesh axis given to one factor.  Among picks of the same factor the earlier is the more major. */
typedef struct Pick {
  uint8_t axis, factor;
} Pick;

typedef struct Strategy {
  int n;
  Pick picks[MAX_AXES]; /* every axis at most once */
  bool again;           /* what it makes is not kept for gradients, which make it again (D47) */
  bool gather_at_use;   /* of a weight's read: what is made of it in other layouts is made anew in the forward pass, for
                           the gradients and in the update, and let go of between; no rule asks for it */
} Strategy;

/* The rule of a level-1 operation on its global types.  Never NULL; unknown structure is frozen.  Equal rules of a
 * module are one. */
const Rule *rule_of(Module *m, const Func *f, const Op *op);

/* True when the strategy may be used; else `why` (may be NULL) gets a static text.
 * Illegal: a frozen factor; a factor that is not the major one of some dimension it occurs in (values are never
 * strided); an axis twice; two partial kinds on one value; a temporal axis on anything but parallel, sums and
 * accumulation, another axis on accumulation. */
bool strategy_legal(const Mesh *mesh, const Rule *r, const Strategy *s, const char **why);

/* May micro-batches cut the factor? */
bool strategy_cut_by_time(const Rule *r, int factor);

/* All legal strategies over the mesh's axes, in a fixed order, the empty one first.  Axes that share a factor appear in
 * every order when `orders` is set, else only in mesh order.  Returns the count; `out` receives an array of the arena.
 */
int strategy_enumerate(Arena *a, Module *m, const Rule *r, bool orders, const Strategy **out);
/* Those whose axes cut these factors alone, by axis as bit sets. */
int strategy_enumerate_among(Arena *a, Module *m, const Rule *r, bool orders, const uint32_t *factors,
                             const Strategy **out);

/* Room for the layouts that strategies of a rule in this module make. */
struct RuleLayouts *rule_layouts_new(Module *m);

/* Layout the operand must have, and layout a result will have.  Body factors are treated as parallel on
 * operands and results that have them, and results that lack them are replicated (the body reduces).  Those that no
 * mesh changes are remembered. */
const Layout *strategy_operand(Module *m, const Rule *r, const Strategy *s, int operand);
const Layout *strategy_result(Module *m, const Rule *r, const Strategy *s, int result);

/* True when some pick is on a body factor: the operation must be expanded (ir/layout/body.h). */
bool strategy_needs_body(const Rule *r, const Strategy *s);

int rule_factor_find(const Rule *r, const char *name); /* -1 */

/* Text: {b:dp, h:tp.x}; {} when empty.  Parsing is by factor and axis names. */
void strategy_print(const Mesh *mesh, Text *t, const Rule *r, const Strategy *s);
bool strategy_parse(Arena *arena, const Mesh *mesh, const Rule *r, const char *text, Strategy *out, const char **why);

void rule_print(const Module *m, Text *t, const Rule *r);

/* Halo factors: the interval of dimension `dim` of operand `operand` that the result interval [lo, hi) of the
 * same factor needs, clipped to the operand (interval arithmetic over expressions, D10).  `result_dim` is the
 * dimension of the result the factor is in. */
void rule_halo_interval(Module *m, const Func *f, const Op *op, int operand, int dim, const Expr *lo, const Expr *hi,
                        const Expr **operand_lo, const Expr **operand_hi);

#endif
