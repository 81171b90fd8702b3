/* ir/layout/rule.h - factor rules, strategies, and their consequences (docs/ir.md, "Sharding").
 *
 * A rule names the dimensions of an operation's iteration space (factors).  A strategy maps mesh axes to factors.
 * Operand and result layouts follow, so no operation needs its own code for sharding.
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
const char *factor_kind_name(FactorKind k); /* as in the text of rules */

typedef struct Factor {
  const char *name; /* "b", "k"; unique in the rule */
  const Expr *size; /* NULL for pseudo-factors */
  FactorKind kind;
  Reduction reduction; /* REDUCE: of the results; LINEAR, ACCUMULATE: of operands and results */
  uint32_t operands;   /* LINEAR, ACCUMULATE: bit i: operand i is partial */
  uint32_t results;    /* REDUCE, LINEAR: bit i: result i becomes partial; the other results do not depend on it */
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
  struct RuleLayouts *layouts;        /* cache of layouts made by strategies (ir/layout/strategy.c); NULL if none */
} Rule;

/* One mesh axis given to one factor.  Of picks of one factor the earlier is more major. */
typedef struct Pick {
  uint8_t axis, factor;
} Pick;

typedef struct Strategy {
  int n;
  Pick picks[MAX_AXES]; /* every axis at most once */
  bool again;           /* its results are not kept for gradients, which recompute them (D47) */
  bool gather_at_use;   /* for the read of a weight: its copies in other layouts are gathered anew in the forward and
                           backward passes and in the update, and freed in between; rules never set it */
} Strategy;

/* The rule of a level-1 operation on its global types; never NULL. Unknown structure is frozen.  Equal rules of a
 * module are one pointer. */
const Rule *rule_of(Module *m, const Func *f, const Op *op);

/* True if the strategy may be used; else *why (why may be NULL) is a static text.  Illegal: a frozen factor; a factor
 * that is not the major one of some dimension it occurs in (values are never strided); an axis used twice; two kinds of
 * partial values in one; a temporal axis on anything but parallel, sums and accumulation; another axis on
 * accumulation. */
bool strategy_legal(const Mesh *mesh, const Rule *r, const Strategy *s, const char **why);

/* True if micro-batches may cut the factor. */
bool strategy_cut_by_time(const Rule *r, int factor);

/* Lists all legal strategies over the mesh's axes, in a fixed order, the empty one first.  Axes that share a factor
 * appear in every order if `orders` is set, else only in mesh order.  Returns the count; `out` gets an array in the
 * arena. */
int strategy_enumerate(Arena *a, Module *m, const Rule *r, bool orders, const Strategy **out);
/* Lists those whose axes cut only these factors, by axis as bit sets. */
int strategy_enumerate_among(Arena *a, Module *m, const Rule *r, bool orders, const uint32_t *factors,
                             const Strategy **out);

/* An empty cache of the layouts that strategies of a rule in this module make. */
struct RuleLayouts *rule_layouts_new(Module *m);

/* The layout that an operand must have, and that a result will have.  Body factors count as parallel on operands and
 * results that have them; results without them are replicated (the body reduces).  Layouts that depend on no mesh are
 * cached. */
const Layout *strategy_operand(Module *m, const Rule *r, const Strategy *s, int operand);
const Layout *strategy_result(Module *m, const Rule *r, const Strategy *s, int result);

/* True if some pick is on a body factor: the operation must be expanded (ir/layout/body.h). */
bool strategy_needs_body(const Rule *r, const Strategy *s);

int rule_factor_find(const Rule *r, const char *name); /* -1 if there is none */

/* Text: {b:dp, h:tp.x}; {} if empty.  Parses factor and axis names; false with *why on an error. */
void strategy_print(const Mesh *mesh, Text *t, const Rule *r, const Strategy *s);
bool strategy_parse(Arena *arena, const Mesh *mesh, const Rule *r, const char *text, Strategy *out, const char **why);

void rule_print(const Module *m, Text *t, const Rule *r); /* appends the text */

/* Halo factors: the interval of dimension `dim` of operand `operand` needed for the result interval [lo, hi) of the
 * same factor, clipped to the operand (interval arithmetic over expressions, D10). */
void rule_halo_interval(Module *m, const Func *f, const Op *op, int operand, int dim, const Expr *lo, const Expr *hi,
                        const Expr **operand_lo, const Expr **operand_hi);

#endif
