/* driver/batch.c - see batch.h. */
#include "driver/batch.h"

#include <string.h>

#include "driver/internal.h"
#include "driver/micro_batch.h"

/* Returns the number of the --dim that binds the batch: the one called `batch`, or the only one of that size. */
static size_t dim_of_batch(const ModelOptions *o, int64_t batch) {
  size_t found = SIZE_MAX, n = 0;
  for (size_t i = 0; i < o->ndims; i++) {
    if (strcmp(o->dims[i].name, "batch") == 0) return o->dims[i].size == batch ? i : SIZE_MAX;
    if (o->dims[i].size == batch) found = i, n++;
  }
  return n == 1 ? found : SIZE_MAX;
}

/* Returns `n` sizes with one replaced, or with one more if `at` is n. */
static const DimSize *with_size(Arena *a, const DimSize *sizes, size_t n, size_t at, DimSize size) {
  DimSize *copy = ARENA_ARRAY(a, DimSize, n + 1);
  if (n) memcpy(copy, sizes, n * sizeof *copy);
  copy[at] = size;
  return copy;
}

/* Changes the options so that the batch is `times` as large; false if no option can. */
static bool enlarge(const Build *b, ModelOptions *o, int64_t times, BatchPrice *out) {
  Arena *a = o->arena;
  bool bound;
  out->batch = batch_size(b, planned_sizes(b), &bound), out->larger = times * out->batch;
  if (o->batch > 0) return o->batch *= times, true;
  if (bound) {
    const size_t at = dim_of_batch(o, out->batch);
    if (at == SIZE_MAX) return false;
    o->dims = with_size(a, o->dims, o->ndims, at, (DimSize){o->dims[at].name, out->larger});
    return true;
  }
  const int symbol = model_batch_dimension(b->model.m);
  if (symbol < 0) return false;
  const char *name = b->model.m->symbols.items[symbol].name;
  size_t at = 0;
  while (at < o->nhints && strcmp(o->hints[at].name, name) != 0) at++;
  o->hints = with_size(a, o->hints, o->nhints, at, (DimSize){name, out->larger});
  o->nhints += at == o->nhints;
  return true;
}

/* True if the plan's choices, which are by number of the operation, fit the other function. */
static bool is_same(const Func *f, const Func *g) {
  if (f->ops.n != g->ops.n) return false;
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind != g->ops.items[i].kind || strcmp(f->ops.items[i].name, g->ops.items[i].name) != 0)
      return false;
  return true;
}

static void price(const Build *b, Build *two, BatchPrice *out) {
  Module *m = two->model.m;
  Plan *p = ARENA_NEW(two->options.model.arena, Plan);
  *p = *b->plan;
  p->allocated = NULL, p->nalternatives = 0;
  driver_take_plan(two, p);
  CostModel *cost = cost_model_new(m, two->options.target);
  p->price = cost_plan(cost, m, two->l1, (const Rule *const *)rules_of(m, two->l1), p->strategies, p->stages);
  cost_model_free(cost);
  two->next = DRIVER_lower;
  if (!p->price.possible) out->why_not = "the plan does not divide it";
  else if (b->plan->allocated && driver_is_small(two, p)) driver_measure_plan(two);
  out->seconds = p->price.time.total, out->bytes = plan_memory(p)->total;
  out->fits = plan_memory(p)->needs <= plan_memory_limit(two->options.target, two->options.plan.memory_limit);
}

bool driver_batch_price(const Build *b, int64_t times, BatchPrice *out) {
  DriverOptions options = b->options;
  *out = (BatchPrice){0};
  options.model.watch = (DriverWatch){0};
  options.model.parameters = NULL, options.model.print_after = NULL, options.model.times = false;
  options.model.checks = NULL;
  options.model.diags = diags_new(options.model.arena);
  options.plan_file = options.save_plan = options.save_temps = NULL;
  if (b->l1->joint || !enlarge(b, &options.model, times, out)) return false;
  Build two;
  driver_begin(&two, &options);
  const bool read = driver_run(&two, DRIVER_simplify);
  if (read) two.l1 = two.l1s[0];
  if (!read || !is_same(b->l1, two.l1)) out->why_not = "the model is another one for it";
  else price(b, &two, out);
  driver_free(&two);
  return true;
}
