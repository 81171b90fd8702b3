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
  double **outside;         /* by operand, strategy: additional time if it is converted; NULL if another kernel makes
                             * it */
  double *memory;           /* NULL if none */
  double *total;            /* time with that of all followers (mirror.h); NULL: the same */
  double *total_memory;     /* the same for memory; NULL if none */
  int nfollowers;
  struct Domain **followers; /* with as many strategies, one for each of this domain */
} Domain;

/* Makes the strategies of a class; n is 0 if none is allowed.  Of several with equal layouts it keeps the cheapest. */
Domain *domain_new(const GraphInput *in, Arena *a, int class);
/* Makes the domain of a class that follows others, and adds it to its head: for each strategy of the head the class's
 * own; time is INFINITY if it cannot follow. */
Domain *domain_follow(const GraphInput *in, Arena *a, int class, Domain *head);
/* Makes the domain of a class of sums of gradients: the strategies that fit some strategy of the maker of the value.
 * domain_sum_fits: true if strategy `s` fits `head`. */
Domain *domain_of_sum(const GraphInput *in, Arena *a, int class, const Domain *head);
bool domain_sum_fits(const GraphInput *in, int class, const Strategy *head, const Strategy *s);
/* Time and memory of a variable with that domain, by strategy; NULL if none. */
static inline double *domain_total(const Domain *d) { return d->total ? d->total : d->time; }
static inline double *domain_total_memory(const Domain *d) { return d->total_memory ? d->total_memory : d->memory; }

/* Drops strategies that cost more than the cheapest by more than `slack`. */
void domain_prune(Domain *d, double slack, Arena *a);
/* Appends the layouts of the operands in the bit set to `out`; returns the new count. */
int domain_collect(const Domain *d, int mask, int value, const Layout **out, int n);

/* Returns the mesh's axis of micro-batches; -1 if none. */
int search_mesh_time_axis(const Mesh *mesh);

#endif
