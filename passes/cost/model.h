/* passes/cost/model.h - what a cost model keeps, shared by the files that price with it: cost.c (operations), moves.c
 * (what changes layouts).
 */
#ifndef APC_PASSES_COST_MODEL_H
#define APC_PASSES_COST_MODEL_H

#include "passes/cost/assumed.h"
#include "passes/cost/cost.h"
#include "passes/cost/kernel.h"
#include "passes/cost/ranks.h"

/* The conversions of values of one type. */
typedef struct TypeTable {
  const Type *type;
  ConvertTable *table;
} TypeTable;

/* The decomposition of an operation. */
typedef struct OpenBody {
  const Op *op;
  Body *body;
} OpenBody;

/* What joins what in a function, and which kernels it becomes. */
typedef struct Joined {
  const Func *f;
  const LegalJoin *joins;   /* by operation */
  const KernelPart *parts;  /* the same */
  const Together *together; /* the same, where kernels that are not built count; NULL: they do not */
  const size_t *alike;      /* the first that costs the same (alike.h) */
  double weights;           /* bytes of weights that products read; asked for a measured cpu only */
} Joined;

/* The decompositions that were needed: open addressing; `slots` is a power of two.  And what dots become. */
typedef struct OpenBodies {
  Arena *arena;
  DotMemo dots;
  OpenBody *items;
  size_t slots, n;
  struct {
    Joined *items;
    size_t n, cap;
  } joined;
} OpenBodies;

/* A set of axes, as it lies on the tiers: in one way, or, when axes have no order, in several of which the cheapest
 * counts. */
typedef struct GroupCosts {
  int n;
  CommCosts *items;
} GroupCosts;

/* Bytes of a value in a layout, both interned. */
typedef struct KnownBytes {
  const Type *type;
  const Layout *layout;
  double bytes;
} KnownBytes;
enum { KNOWN_BYTES_BITS = 10 };

struct CostModel {
  Module *m;
  const Target *target;
  OpenBodies *bodies; /* shared with the models beside it */
  bool beside;
  int loose;   /* the first so many spatial axes have no order */
  bool bounds; /* for lower bounds: of all such orders, and of any shares */
  Mesh mesh;
  RankKinds ranks;        /* that are not alike */
  int place;              /* the kind of places that is priced; -1: the cheapest */
  const RankClass *alone; /* the class of ranks that is priced; NULL: the slowest */
  const Target *mover;    /* of the place that is priced the rank with the slowest memory */
  struct CostModel **on;  /* by kind of places: the model of that alone; NULL until asked for */
  Arena *arena;           /* of what follows, which depends on the mesh */
  GroupCosts **groups;    /* by kind of ranks and set of axes; NULL until asked for */
  struct Prices *prices;
  KnownBytes *bytes; /* those that were asked for last */
  int64_t *sizes;    /* by symbol */
  size_t nsizes;
  struct {
    TypeTable *items;
    size_t n, cap;
  } tables;
};

/* A kernel that only reads and writes so much. */
static inline double cost_traffic(const CostModel *c, double bytes) {
  return c->mover->launch + cost_memory_seconds(c->mover, bytes);
}

/* Into how many parts the strategy cuts the factor. */
int64_t cost_factor_parts(const CostModel *c, const Strategy *s, int factor);

#endif
