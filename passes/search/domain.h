/* passes/search/domain.h - the strategies that a class of operations may use on a mesh, with their layouts, time and
 * memory. */
#ifndef APC_PASSES_SEARCH_DOMAIN_H
#define APC_PASSES_SEARCH_DOMAIN_H

#include "passes/search/graph.h"

typedef struct Domain {
  int n, nin, nout;
  Strategy *strategies;
  const Layout ***results;  /* by result, strategy */
  const Layout ***operands; /* by operand, strategy */
  double conversions;       /* how often the results are converted */
  bool before;              /* Shape.before */
  bool read_behind;         /* the results are read once, whenever they are made */
  double *time;             /* by strategy, weighted */
  double **outside;         /* by operand, strategy: what it takes longer when the operand comes converted
                               (cost_outside); NULL for operands that its own kernel does not make */
  double *memory;           /* NULL: none */
  double *total;            /* time with that of all that follow it (mirror.h); NULL: the same */
  double *total_memory;     /* of the same; NULL: none */
  int nfollowers;
  struct Domain **followers; /* as many strategies, one for each of this one's */
} Domain;

/* The strategies of a class; n is 0 when none is allowed.  Of several with equal layouts the cheapest is kept. */
Domain *domain_new(const GraphInput *in, Arena *a, int class);
/* What a class that follows others does with each strategy of its head: time is INFINITY where it cannot.  The head
 * gets to know it. */
Domain *domain_follow(const GraphInput *in, Arena *a, int class, Domain *head);
/* The strategies of a class of sums of gradients that fit some of what makes the value. */
Domain *domain_of_sum(const GraphInput *in, Arena *a, int class, const Domain *head);
bool domain_sum_fits(const GraphInput *in, int class, const Strategy *head, const Strategy *s);
/* Time and memory of a variable with that domain, by strategy; NULL: none. */
static inline double *domain_total(const Domain *d) { return d->total ? d->total : d->time; }
static inline double *domain_total_memory(const Domain *d) { return d->total_memory ? d->total_memory : d->memory; }

/* Drops the strategies that cost more than the cheapest by more than `slack`. */
void domain_prune(Domain *d, double slack, Arena *a);
/* The layouts of the operands in the bit set, appended to out; returns the new count. */
int domain_collect(const Domain *d, int mask, int value, const Layout **out, int n);

/* The mesh's axis of micro-batches; -1: none. */
int search_mesh_time_axis(const Mesh *mesh);

#endif
