/* passes/lower/walk.h - which versions of values are made where: one walk over a level-1 function, a strategy and a
 * stage per operation.
 *
 * A version is a value in one layout in one stage; each is made once (D3).  The first is the one its operation makes,
 * or its source where it is needed; the others are converted from that one.  The walk decides what is made, from what,
 * in which stage, before or in which loop, and in which decomposition, and tells it to the functions of a WalkSink in
 * the order in which it happens: the lowering emits it, the planner adds up what it costs, and stage cutting asks the
 * same rules (walk_supply, walk_travel, walk_output) about runs of operations.
 *
 * Operation by operation: its operands are wanted in the layouts its strategy asks for; then come the exchanges of its
 * windows and the operation, or, when a body factor is cut, its decomposition in its place.  Inputs and states exist
 * from the start; other sources are made where they are wanted, once per stage, and those that are alike everywhere
 * (splats, iotas, random numbers) in each layout that is wanted.  What depends on constants alone is computed in every
 * stage that wants it.  Everything else is sent to the stages that want it, in the smaller of two layouts.
 *
 * What an operation of the forward pass makes that its strategy says is made again (D47) is not seen by what makes
 * gradients, in the stage that makes it: the first of these that wants it has the operation made again, of what it sees
 * itself, and in its own phase; those behind find that.  So a value lives to its last use in the forward pass, and anew
 * from its first use behind it.
 *
 * With micro-batches, what no micro-batch cuts and constants alone determine, in a training step inputs and weights as
 * well, is made once, before all of them (phase `pre`); so is what level 1 puts there.  Everything else is made in the
 * phase of its operation, and conversions in the later one of the phases of value and reader.  Phases are not told
 * apart without micro-batches.
 *
 * The gradient of a weight that several stages read is the sum of what each of them has of it.  With micro-batches each
 * stage accumulates its own (walk_sums.c): what accumulates the sum on level 1 is told of once per stage that has a
 * part, and the sums over stages are made behind all micro-batches, so that each part is sent once.
 *
 * A weight that is gathered at use (Strategy.gather_at_use), and what is made of it alone, is converted anew for the
 * forward pass, for the gradients and for the update, and in each micro-batch.
 *
 * At a loop all that its region reads from outside is wanted before it, in each layout that is read, so that
 * conversions of what does not change happen once and everything behind the loop may share them; but sources that are
 * alike everywhere are made where they are used.  A loop within finds there what it needs from outside both.  Count and
 * `again` are replicated; where ranks could differ (agreed.h), all take those of coordinate 0.
 */
#ifndef APC_PASSES_LOWER_WALK_H
#define APC_PASSES_LOWER_WALK_H

#include "ir/layout/body.h"
#include "ir/layout/convert.h"
#include "ir/loops.h"
#include "ir/layout/rule.h"
#include "ir/states.h"

/* ---- the rules, for whoever asks about one value */

/* How a value comes to a stage other than its own. */
typedef enum WalkSupply {
  SUPPLY_ANYWHERE, /* a source that is alike everywhere: made in the layout that is wanted */
  SUPPLY_SOURCE,   /* another source: made in that stage as well, and converted */
  SUPPLY_AGAIN,    /* computed in that stage as well, and converted */
  SUPPLY_SENT
} WalkSupply;
WalkSupply walk_supply(const Op *maker, bool derived, const Layout *wanted);

/* The layout in which a value is sent that was produced in one layout and is wanted in another: the smaller; sums are
 * resolved before they travel. */
const Layout *walk_travel(Module *m, const Type *global, const Layout *produced, const Layout *wanted);

/* The layout of an output: as it was produced, sums resolved. */
const Layout *walk_output(Module *m, const Layout *produced);

/* The windows that are exchanged for operand `operand`: one per cut halo factor and dimension that has it.  Begin with
 * *at = 0; false behind the last. */
typedef struct WalkWindow {
  int factor, dim;
  uint32_t axes;
} WalkWindow;
bool walk_window(const Rule *r, const Strategy *s, int operand, int *at, WalkWindow *out);

/* ---- the walk */

/* The parts of a step, for weights that are gathered in each: once before all micro-batches, and as level 1 says. */
enum { SEGMENT_PRE, SEGMENT_FORWARD, SEGMENT_GRADIENTS, SEGMENT_STEP };

typedef struct Version {
  const Layout *layout;
  int stage;
  int loop;    /* whose body it is made in, and visible in; -1: none */
  int segment; /* in which alone it is visible; -1: in all */
  Val v;       /* what the sink calls it */
} Version;

typedef struct Versions {
  Version *items;
  size_t n, cap;
  const Layout *produced; /* layout and stage of the original */
  int stage;
} Versions;

/* One function: the whole one, or the decomposition of a composite inside it. */
typedef struct WalkScope {
  const Func *f;
  const Rule *const *rules;
  const Strategy *strategies;
  const int *stages; /* NULL: `stage` for all */
  int stage;
  Versions *versions;           /* by value */
  Versions *again;              /* by value: those that were made again for gradients; NULL in bodies */
  Versions *sums;               /* by value: those summed over all micro-batches; NULL where there are no late sums */
  const size_t *late;           /* by operation: what accumulates it, if it is a late sum, or is that; else SIZE_MAX */
  const struct WalkScope *from; /* of the composite; NULL at the top */
  const Op *composite;
  const char *prefix, *outer_group; /* of a body, for the sink: how its names begin, the group around it */
  const bool *derived;              /* by operation, NULL in bodies: every stage computes it for itself */
  const bool *once;                 /* by operation, NULL in bodies: nothing it is made of changes (once_ops) */
  const Loops *loops;               /* NULL in bodies, which have none */
  const bool *agreed;               /* with loops, by value (agreed.h) */
  int loop;                         /* in whose body things are made now; -1: none */
  const bool *at_use;               /* by operation, NULL in bodies: gathered where it is used */
  int segment;                      /* with `at_use`: in which things are made now */
  Phase phase;                      /* of the composite */
} WalkScope;

/* Where a state is kept: as its first read says, or its write when it is never read. */
typedef struct StatePlace {
  const Layout *layout;
  int stage;
} StatePlace;

typedef struct Walk Walk;

/* Called for what is made.  Functions return what they call the version, never 0 but after a diagnostic. */
typedef struct WalkSink {
  /* A source; `declares` a state that nobody reads: `op` is its write then, and nothing refers to the result. */
  Val (*source)(Walk *w, const WalkScope *s, const Op *op, const Layout *layout, int stage, bool declares);
  Val (*convert)(Walk *w, const WalkScope *s, Val value, Val v, const Layout *from, const Layout *to, int stage);
  /* The scalar of coordinate 0, on every rank. */
  Val (*agree)(Walk *w, const WalkScope *s, Val value, Val v, int stage);
  Val (*transfer)(Walk *w, const WalkScope *s, Val value, Val v, const Layout *layout, int from, int to);
  Val (*exchange)(Walk *w, const WalkScope *s, size_t index, int operand, const WalkWindow *window, Val v, int stage);
  /* The operation itself, with all its operands in their layouts; also loop, repeat and write.  What it returns stands
   * for its first result, the numbers behind that for the others. */
  Val (*operation)(Walk *w, const WalkScope *s, size_t index, const Val *in, int stage);
  void (*output)(Walk *w, const WalkScope *s, const Output *o, Val v, const Layout *layout);
  /* The decomposition of a composite, and around what it makes; `results`: what stands for its results inside, and then
   * outside. */
  Body *(*open)(Walk *w, const WalkScope *s, const Op *composite);
  void (*enter)(Walk *w, WalkScope *body, const Val *in);
  void (*leave)(Walk *w, WalkScope *body, Body *known, Val *results);
  /* The layout that stands for it, where the sink does not tell some apart; NULL: each stands for itself. */
  const Layout *(*form)(const Walk *w, const Layout *layout);
} WalkSink;

struct Walk {
  Module *m;
  Arena *arena; /* of versions */
  const WalkSink *sink;
  Diags
      *diags; /* gets faults of the plan (an illegal strategy, a state in two stages); NULL: it is known to have none */
  const Op *at;     /* the operation that is reached */
  const Op *reader; /* for whom things are made now: that, or one of the loop that is entered there */
  size_t now;       /* the operation of the whole function that the walk has reached; Func.ops.n: its outputs */
  Phase phase;      /* of what the sink is told of now */
  bool sending;     /* things are made to be sent: as early as can be, whoever reads them */
  bool again;       /* that is made once more for gradients */
  bool summed;      /* what is seen and made are sums over all micro-batches */
  struct {
    StatePlace *items;
    size_t n, cap;
  } states;
  StateOps state_ops; /* of the whole function */
  size_t *place_of;   /* by the first operation on a state: its place + 1; 0: not known yet */
};

/* Everything a function makes; derived_ops, loops_of and agreed_values come from the caller, who may keep them.  False
 * after a diagnostic. */
bool walk_function(Walk *w, WalkScope *s);

/* A decomposition by itself: versions of the operands are `in`, those of the results `out`; false after a diagnostic.
 */
bool walk_body(Walk *w, const WalkScope *outer, const Op *op, const Rule *r, const Strategy *st, const Val *in,
               int stage, Val *out);

int walk_stage(const WalkScope *s, size_t op);
/* Is what never changes made once for all micro-batches, in that layout?  Outside of loops. */
bool walk_layout_once(const Module *m, const Layout *layout);
/* The layout that the operation makes a result in. */
const Layout *walk_produced(const Walk *w, const WalkScope *s, size_t index, int result);
/* The function that is walked, around a decomposition. */
const WalkScope *walk_outermost(const WalkScope *s);
/* A version that is visible where things are made now; 0: none. */
Val walk_find(const Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage);
void walk_add(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage, int loop, Val v);

#endif
