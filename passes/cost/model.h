/* passes/cost/model.h - the data of a cost model, shared by the files that price with it: cost.c (operations), moves.c
 * (changes of layout).
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

/* The joins of a function, and its kernels. */
typedef struct Joined {
  const Func *f;
  const LegalJoin *joins;   /* by operation */
  const KernelPart *parts;  /* by operation */
  const Together *together; /* by operation, if kernels that are not built count; else NULL */
  const size_t *alike;      /* by operation: the first that costs the same (alike.h) */
  double weights;           /* bytes of weights that products read; only for a measured CPU */
} Joined;

/* A cache of decompositions and of forms of dots: open addressing; `slots` is a power of two. */
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

/* A set of axes on the tiers: one way, or several if axes have no order, of which the cheapest counts. */
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
  OpenBodies *bodies; /* shared with models made by cost_model_beside */
  bool beside;
  int loose;   /* the first `loose` spatial axes have no order */
  bool bounds; /* for lower bounds: over all such orders, and over any shares */
  bool range;  /* for lower bounds over several numbers of micro-batches, some of which may split evenly */
  Mesh mesh;
  RankKinds ranks;        /* kinds of ranks, if they differ */
  int place;              /* the kind of places that is priced; -1: the cheapest */
  const RankClass *alone; /* the class of ranks that is priced; NULL: the slowest */
  const Target *mover;    /* the rank with the slowest memory of the priced place */
  struct CostModel **on;  /* by kind of places: its model; NULL until needed */
  Arena *arena;           /* for the data below, which depends on the mesh */
  GroupCosts **groups;    /* by kind of ranks and set of axes; NULL until needed */
  struct Prices *prices;
  KnownBytes *bytes; /* a cache of the last queries */
  int64_t *sizes;    /* by symbol */
  size_t nsizes;
  struct {
    TypeTable *items;
    size_t n, cap;
  } tables;
};

/* Returns the seconds of a kernel that only reads and writes so many bytes. */
static inline double cost_traffic(const CostModel *c, double bytes) {
  return c->mover->launch + cost_memory_seconds(c->mover, bytes);
}

/* Returns the number of parts into which the strategy splits the factor. */
int64_t cost_factor_parts(const CostModel *c, const Strategy *s, int factor);

#endif
