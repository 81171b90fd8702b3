/* passes/lower/walk.h - decides which versions of values are made where: one walk over a level-1 function with a
 * strategy and a stage per operation.
 *
 * A version is a value in one layout in one stage; each is made once (D3).  The first is made by its operation, or, for
 * sources, where it is needed; the others are converted from it.  The walk decides what is made, from which version, in
 * which stage, before or in which loop, and in which decomposition, and calls the functions of a WalkSink in that
 * order: the lowering emits code, the planner adds up costs, and stage cutting applies the same rules (walk_supply,
 * walk_travel, walk_output) to runs of operations.
 *
 * For each operation, the walk wants its operands in the layouts of its strategy, exchanges its windows, and makes the
 * operation, or its decomposition if a body factor is split.  Inputs and states exist from the start; other sources are
 * made where they are wanted, once per stage, and sources that are alike everywhere (splats, iotas, random numbers) in
 * each wanted layout.  Values that depend on constants alone are computed in every stage that wants them.  All others
 * are sent to the stages that want them, in the smaller of two layouts.
 *
 * If a strategy says that an operation of the forward pass is recomputed (D47), gradients in its stage do not see its
 * results: the first gradient that wants one recomputes the operation, from operands that it sees itself and in its own
 * phase; later gradients find that result.  So a value lives to its last use in the forward pass, and again from its
 * first use after it.
 *
 * With micro-batches, values that no micro-batch splits and only constants determine (in a training step also inputs
 * and weights) are made once, before all micro-batches (phase `pre`); so are values that level 1 places there.  All
 * others are made in the phase of their operation, and conversions in the later of the phases of value and reader.
 * Without micro-batches phases make no difference.
 *
 * The gradient of a weight that several stages read is the sum of the stages' parts.  With micro-batches each stage
 * accumulates its own part (walk_sums.c): the sink gets level 1's accumulation of the sum once per stage with a part,
 * and the sums over stages after all micro-batches, so that each part is sent once.
 *
 * A weight that is gathered at use (Strategy.gather_at_use), and values computed from it alone, are converted again for
 * the forward pass, for the gradients and for the update, in each micro-batch.
 *
 * At a loop the walk first wants all values that the loop reads from outside, in each layout that is read, so that
 * invariant conversions run once and operations after the loop may share them; but sources that are alike everywhere
 * are made where they are used.  An inner loop finds there the values from outside both loops.  Count and `again` are
 * replicated; where ranks could differ (agreed.h), all take those of coordinate 0.
 */
#ifndef APC_PASSES_LOWER_WALK_H
#define APC_PASSES_LOWER_WALK_H

#include "ir/layout/body.h"
#include "ir/layout/convert.h"
#include "ir/loops.h"
#include "ir/layout/rule.h"
#include "ir/states.h"

/* ---- the rules for one value */

/* How a value reaches a stage other than its own. */
typedef enum WalkSupply {
  SUPPLY_ANYWHERE, /* a source that is alike everywhere: made in the wanted layout */
  SUPPLY_SOURCE,   /* another source: also made in that stage, and converted */
  SUPPLY_AGAIN,    /* also computed in that stage, and converted */
  SUPPLY_SENT
} WalkSupply;
/* Returns how a value of `maker` reaches another stage; `derived`: see derived_ops. */
WalkSupply walk_supply(const Op *maker, bool derived, const Layout *wanted);

/* Returns the layout in which a value is sent: the smaller of the produced and the wanted one; partial sums are reduced
 * before they travel. */
const Layout *walk_travel(Module *m, const Type *global, const Layout *produced, const Layout *wanted);

/* Returns the layout of an output: as produced, with partial sums reduced. */
const Layout *walk_output(Module *m, const Layout *produced);

/* Finds the windows that are exchanged for operand `operand`: one per split halo factor and dimension that has it.
 * Begin with *at = 0; false after the last. */
typedef struct WalkWindow {
  int factor, dim;
  uint32_t axes;
} WalkWindow;
bool walk_window(const Rule *r, const Strategy *s, int operand, int *at, WalkWindow *out);

/* ---- the walk */

/* The parts of a step in which gathered weights are gathered again: before all micro-batches, and the phases of level
 * 1. */
enum { SEGMENT_PRE, SEGMENT_FORWARD, SEGMENT_GRADIENTS, SEGMENT_STEP };

typedef struct Version {
  const Layout *layout;
  int stage;
  int loop;    /* visible only in the body of this loop, which makes it; -1: no loop */
  int segment; /* visible only in this segment; -1: in all */
  Val v;       /* the sink's number of the version */
} Version;

typedef struct Versions {
  Version *items;
  size_t n, cap;
  const Layout *produced; /* layout and stage of the first version */
  int stage;
} Versions;

/* A function: the whole one, or the decomposition of a composite inside it. */
typedef struct WalkScope {
  const Func *f;
  const Rule *const *rules;
  const Strategy *strategies;
  const int *stages; /* NULL: `stage` for all */
  int stage;
  Versions *versions;           /* by value */
  Versions *again;              /* by value: versions recomputed for gradients; NULL in bodies */
  Versions *sums;               /* by operation: the accumulation of a late sum, for both of them; else SIZE_MAX */
  const size_t *late;           /* by operation: the accumulation of a late sum, for the sum and for itself; else
                                 * SIZE_MAX */
  const struct WalkScope *from; /* the scope of the composite; NULL at the top */
  const Op *composite;
  const char *prefix, *outer_group; /* for the sink: prefix of names in a body, and the group of the composite */
  const bool *derived;              /* by operation, NULL in bodies: every stage computes it itself */
  const bool *once;                 /* by operation, NULL in bodies: it depends on nothing that changes (once_ops) */
  const Loops *loops;               /* NULL in bodies, which have none */
  const bool *agreed;               /* with loops, by value (agreed.h) */
  int loop;                         /* the loop whose body is being made; -1 if none */
  const bool *at_use;               /* by operation, NULL in bodies: gathered at use */
  int segment;                      /* with `at_use`: the current segment */
  Phase phase;                      /* of the composite */
} WalkScope;

/* The place of a state: as its first read says, or its write if it is never read. */
typedef struct StatePlace {
  const Layout *layout;
  int stage;
} StatePlace;

typedef struct Walk Walk;

/* Callbacks for what is made.  Functions return the sink's number of the version, 0 only after a diagnostic. */
typedef struct WalkSink {
  /* A source.  If `declares`, it stands for a state that is never read: `op` is its write, and the result has no
   * users. */
  Val (*source)(Walk *w, const WalkScope *s, const Op *op, const Layout *layout, int stage, bool declares);
  Val (*convert)(Walk *w, const WalkScope *s, Val value, Val v, const Layout *from, const Layout *to, int stage);
  /* Gives every rank the scalar of coordinate 0. */
  Val (*agree)(Walk *w, const WalkScope *s, Val value, Val v, int stage);
  Val (*transfer)(Walk *w, const WalkScope *s, Val value, Val v, const Layout *layout, int from, int to);
  Val (*exchange)(Walk *w, const WalkScope *s, size_t index, int operand, const WalkWindow *window, Val v, int stage);
  /* The operation itself, with all operands in their layouts; also loop, repeat and write.  The returned number stands
   * for its first result, the next numbers for the others. */
  Val (*operation)(Walk *w, const WalkScope *s, size_t index, const Val *in, int stage);
  void (*output)(Walk *w, const WalkScope *s, const Output *o, Val v, const Layout *layout);
  /* The decomposition of a composite: open returns it, enter and leave surround its operations; `results`: the numbers
   * of its results, first inside and then outside. */
  Body *(*open)(Walk *w, const WalkScope *s, const Op *composite);
  void (*enter)(Walk *w, WalkScope *body, const Val *in);
  void (*leave)(Walk *w, WalkScope *body, Body *known, Val *results);
  /* Returns the representative of a layout, if the sink does not distinguish some layouts; NULL: it distinguishes
   * all. */
  const Layout *(*form)(const Walk *w, const Layout *layout);
} WalkSink;

struct Walk {
  Module *m;
  Arena *arena; /* of versions */
  const WalkSink *sink;
  Diags
      *diags; /* receives faults of the plan (an illegal strategy, a state in two stages); NULL if it cannot have any */
  const Op *at;     /* the current operation */
  const Op *reader; /* the current reader: that operation, or one of the loop that is entered there */
  size_t now;       /* the current operation of the whole function; Func.ops.n: its outputs */
  size_t step;      /* the calls of the sink so far that make a value or run an operation, sources excepted: all sinks
                       get the same ones for the same choice */
  Phase phase;      /* of the current call of the sink */
  bool sending;     /* versions are made to be sent: as early as possible, whoever reads them */
  bool again;       /* the current operation is recomputed for gradients */
  bool summed;      /* the versions seen and made are sums over all micro-batches */
  struct {
    StatePlace *items;
    size_t n, cap;
  } states;
  StateOps state_ops; /* of the whole function */
  size_t *place_of;   /* by the first operation on a state: its place, plus 1; 0 if unknown */
};

/* Walks a function.  The caller provides derived_ops, loops_of and agreed_values, and may reuse them.  False after a
 * diagnostic. */
bool walk_function(Walk *w, WalkScope *s);

/* Walks a decomposition alone: `in` are the versions of the operands; fills `out` with those of the results.  False
 * after a diagnostic.
 */
bool walk_body(Walk *w, const WalkScope *outer, const Op *op, const Rule *r, const Strategy *st, const Val *in,
               int stage, Val *out);

/* Returns the stage of operation number `op`. */
int walk_stage(const WalkScope *s, size_t op);
/* True if an invariant value in that layout is made once for all micro-batches, outside loops. */
bool walk_layout_once(const Module *m, const Layout *layout);
/* Returns the layout in which the operation makes a result. */
const Layout *walk_produced(const Walk *w, const WalkScope *s, size_t index, int result);
/* Returns the scope of the whole function. */
const WalkScope *walk_outermost(const WalkScope *s);
/* Returns a visible version; 0 if none.  walk_add records one. */
Val walk_find(const Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage);
void walk_add(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage, int loop, Val v);

#endif
