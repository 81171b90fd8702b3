/* driver/micro_batch.c - see micro_batch.h.
 *
 * The number of micro-batches depends on the data-parallel degree.  Unless --dp fixes it, each degree that divides the
 * ranks is planned with its own number, and the fastest plan wins.
 */
#include "driver/micro_batch.h"

#include <inttypes.h>

const int64_t *planned_sizes(const Build *b) {
  const Module *m = b->model.m;
  int64_t *sizes = ARENA_ARRAY(m->arena, int64_t, m->symbols.n + 1);
  for (size_t i = 0; i < m->symbols.n; i++) sizes[i] = symbol_hint(&m->symbols.items[i]);
  return sizes;
}

int64_t batch_size(const Build *b, const int64_t *sizes, bool *bound) {
  int64_t batch = 1, ignored;
  *bound = false;
  for (size_t i = 0; i < b->l1->ops.n; i++) {
    const Op *op = &b->l1->ops.items[i];
    if (op->kind != OP_input || type_of(b->l1, op->out)->rank == 0) continue;
    const Expr *e = type_of(b->l1, op->out)->dims[0];
    *bound = ex_get_const(e, &ignored);
    return ex_eval(e, sizes, &batch) ? batch : 1;
  }
  return batch;
}

/* Sets *batch; false after a diagnostic if the batch is not bound or the number of micro-batches is given. */
static bool batch_to_cut(const Build *b, const PlanOptions *options, int64_t *batch, Diags *d) {
  bool bound;
  *batch = batch_size(b, ARENA_ARRAY(b->options.model.arena, int64_t, b->model.m->symbols.n + 1), &bound);
  if (options->micro_batches)
    return diag_error(d, DIAG_usage_value, (Loc){0},
                      "--micro-batch and --micro-batches cannot be combined: each determines the other");
  if (bound) return true;
  diag_error(d, DIAG_usage_value, (Loc){0}, "--micro-batch needs a batch of known size");
  diag_help(d, "bind it with --dim or --shape, or give the number of micro-batches: --micro-batches M");
  return false;
}

static Plan *search(Build *b, const PlanOptions *base, int dp, int64_t micro_batches, Diags *diags) {
  PlanOptions o = *base;
  o.degree[DEGREE_dp] = dp;
  o.micro_batches = micro_batches > INT32_MAX ? INT32_MAX : (int)micro_batches;
  return plan_search(b->model.m, b->l1, b->options.target, &o, diags);
}

static int64_t divide_up(int64_t n, int64_t parts) { return n / parts + (n % parts != 0); }

static int64_t pieces(int64_t batch, int64_t dp, int64_t size) { return divide_up(divide_up(batch, dp), size); }

/* Counts the possible data-parallel degrees. */
static int degrees(const Build *b, int64_t batch) {
  int n = 0;
  for (int dp = 1; dp <= b->options.target->ranks && dp <= batch; dp++) n += b->options.target->ranks % dp == 0;
  return n;
}

Plan *driver_micro_batch(Build *b, const PlanOptions *options, int64_t size, Diags *d) {
  int64_t batch;
  int best = 0;
  Plan *found = NULL;
  const PlanKnown *known = NULL;
  PlanOptions with = *options;
  with.known = &known;
  options = &with;
  if (!batch_to_cut(b, options, &batch, d)) return NULL;
  if (size > batch) size = batch; /* one micro-batch */
  const int forced = options->degree[DEGREE_dp];
  if (forced) return search(b, options, forced, pieces(batch, forced, size), d);
  PlanOptions each = *options;
  each.searched = true;
  each.effort /= degrees(b, batch) + 1;
  each.alternatives = false;
  for (int dp = 1; dp <= b->options.target->ranks && dp <= batch; dp++) {
    if (b->options.target->ranks % dp) continue;
    Plan *p = search(b, &each, dp, pieces(batch, dp, size), diags_new(b->options.model.arena));
    if (p && (!found || plan_seconds(p) < plan_seconds(found))) best = dp, found = p;
  }
  if (found && options->stop && *options->stop) return found;
  if (!best) best = 1; /* the search then reports why there is none */
  each.alternatives = options->alternatives;
  return search(b, &each, best, pieces(batch, best, size), d); /* again, with alternatives and the bounds of all
                                                                  searches */
}
