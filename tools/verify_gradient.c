/* tools/verify_gradient.c - see verify_gradient.h.
 *
 * The loss is taken at w + h d and w - h d, where d is a random direction in some of the weights: each weight has its
 * own direction if the work allows.  Weights are moved off their initial values, since zero biases are where relu has
 * no derivative, and small numbers hide errors of gradients.  A direction that disagrees is tried again at other
 * numbers: a kink between both points will not recur, a wrong derivative will.
 */
#include "tools/verify_gradient.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "ir/index_bound.h"
#include "proof/trial.h"
#include "tools/reference.h"

enum { TRIES = 3, LEAST_DIRECTIONS = 4 };
static const double most_work = 3e9, step_size = 1e-5, gradient_error = 1e-4, update_error = 1e-5, loss_error = 1e-6;

/* A step: plain descent with rate 1 or 2, or the optimizer of the line. */
typedef struct Step {
  Model model;
  const Func *f;
  WeightFiles *files;
} Step;

typedef struct Check {
  Tool *t;
  Step steps[3]; /* rates 1 and 2; the optimizer's step */
  Arena *arena;  /* of one try */
  Diags *diags;
  LossOptions kind; /* of the loss */
  Val output;       /* the model's first output, in the optimizer's step */
  int64_t *symbols;
  int ninputs, nweights;
  InterpNamed *inputs, *weights; /* at this try's point */
  InterpNamed *gradients;        /* by weight */
  bool *apart;                   /* by weight: the written value does not depend on the learning rate, as a batch norm's
                                    mean */
  double loss;
  StepCheck *out;
} Check;

/* ---- numbers */

static double normal_at(uint64_t seed, const char *name, int64_t element) {
  return random_normal(seed, hash64(name, strlen(name), 0), (uint64_t)element);
}

static double mean_size(const InterpTensor *x) {
  double sum = 0;
  int64_t n = interp_elements(x);
  for (int64_t k = 0; k < n; k++) sum += x->cells[k].f * x->cells[k].f;
  return n ? sqrt(sum / (double)n) : 0;
}

static bool cannot(Check *c, const char *why) { return c->out->why = why, false; }

static const Func *step_function(const Module *m) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->outputs.n; i++)
      if (strcmp(m->funcs.items[k]->outputs.items[i].name, "grad_norm") == 0) return m->funcs.items[k];
  return NULL;
}

/* Ignores some labels if there are more than two. */
static void ignore_some(const Check *c, InterpTensor *labels) {
  if (c->kind.kind != LOSS_cross_entropy) return;
  for (int64_t k = 2; k < interp_elements(labels); k += 3) labels->cells[k].i = (int64_t)c->kind.ignore;
}

static bool draw_inputs(Check *c, uint64_t seed) {
  Module *m = c->steps[2].model.m;
  const Func *f = c->steps[2].f;
  c->inputs = ARENA_ARRAY(c->arena, InterpNamed, f->ops.n);
  c->ninputs = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_input) continue;
    const Type *type = type_of(f, op->out);
    int64_t dims[MAX_RANK], below = 2;
    if (!interp_dims(type, c->symbols, dims)) return cannot(c, "an input has no shape at small sizes");
    InterpNamed *x = &c->inputs[c->ninputs++];
    *x = (InterpNamed){op_str(op, AT_name), interp_tensor(c->arena, type->dtype, type->rank, dims)};
    const Expr *bound = index_bound(m, f, op->out);
    if (bound && (!ex_eval(bound, c->symbols, &below) || below < 1)) below = 1;
    if (strcmp(x->name, "step") == 0) below = 5;
    bool floats = dtype_is_float(type->dtype);
    interp_fill(&x->tensor, DOMAIN_FLOAT, seed + i, floats ? -1 : 0, floats ? 1 : (double)below);
    if (strcmp(x->name, "labels") == 0) ignore_some(c, &x->tensor);
  }
  return true;
}

/* Moves trained weights, and states initialised from weights, off their initial values. */
static bool draw_weights(Check *c, uint64_t seed) {
  Module *m = c->steps[2].model.m;
  InterpOptions o = {.blob = tool_weights_read, .context = c->steps[2].files};
  c->weights = ARENA_ARRAY(c->arena, InterpNamed, m->states.n + 1);
  c->gradients = ARENA_ARRAY(c->arena, InterpNamed, m->states.n + 1);
  c->apart = ARENA_ARRAY(c->arena, bool, m->states.n + 1);
  c->nweights = 0;
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    const Param *p = s->param ? module_param(m, s->param) : NULL;
    if (!p || !dtype_is_float(p->type->dtype)) continue;
    InterpNamed *w = &c->weights[c->nweights++];
    w->name = s->name;
    if (!interp_param(m, p, &o, c->arena, &w->tensor, c->diags)) return false;
    double by = 0.03 + 0.5 * mean_size(&w->tensor);
    for (int64_t k = 0; k < interp_elements(&w->tensor); k++) w->tensor.cells[k].f += by * normal_at(seed, s->name, k);
  }
  return true;
}

/* Draws moments in their range: second moments are not negative. */
static int draw_moments(Check *c, uint64_t seed, InterpNamed *states) {
  const Module *m = c->steps[2].model.m;
  int n = 0;
  for (int i = 0; i < c->nweights; i++) states[n++] = c->weights[i];
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    const char *of = strrchr(s->name, ':');
    int64_t dims[MAX_RANK];
    if (s->param || !of || strncmp(s->name, "loss_scale", 10) == 0 || !interp_dims(s->type, c->symbols, dims)) continue;
    InterpNamed *x = &states[n++];
    *x = (InterpNamed){s->name, interp_tensor(c->arena, s->type->dtype, s->type->rank, dims)};
    for (int64_t k = 0; k < interp_elements(&x->tensor); k++) {
      double r = 0.01 * normal_at(seed, s->name, k);
      bool square = strcmp(of, ":v") == 0 || strcmp(of, ":row") == 0 || strcmp(of, ":column") == 0;
      x->tensor.cells[k].f = square ? r * r : r;
    }
  }
  return n;
}

static bool run_step(Check *c, const Step *s, const Func *f, int n, const InterpNamed *states, Arena *arena,
                     InterpResult *out) {
  InterpOptions o = {.symbols = c->symbols,
                     .states = states,
                     .nstates = n,
                     .blob = tool_weights_read,
                     .context = s->files,
                     .max_cells = (int64_t)1 << 29};
  return interp_run(s->model.m, f, &o, c->ninputs, c->inputs, arena, out, c->diags);
}

static double scalar(const InterpNamed *items, int n, const char *name) {
  const InterpTensor *x = interp_find(items, n, name);
  return x ? x->cells[0].f : NAN;
}

/* ---- gradients */

/* Computes the gradient at this point from steps with both rates. */
static bool find_gradients(Check *c) {
  InterpResult one, two;
  if (!run_step(c, &c->steps[0], c->steps[0].f, c->nweights, c->weights, c->arena, &one) ||
      !run_step(c, &c->steps[1], c->steps[1].f, c->nweights, c->weights, c->arena, &two))
    return false;
  c->loss = scalar(one.outputs, one.noutputs, "loss");
  if (!isfinite(c->loss)) return cannot(c, "the loss of random numbers is not finite");
  for (int i = 0; i < c->nweights; i++) {
    const InterpNamed *w = &c->weights[i];
    const InterpTensor *a = interp_find(one.states, one.nstates, w->name),
                       *b = interp_find(two.states, two.nstates, w->name);
    c->gradients[i] = (InterpNamed){w->name, interp_tensor(c->arena, w->tensor.dtype, w->tensor.rank, w->tensor.dims)};
    bool moves = false, differs = false;
    for (int64_t k = 0; a && b && k < interp_elements(a); k++) {
      double slope = a->cells[k].f - b->cells[k].f;
      c->gradients[i].tensor.cells[k].f = slope;
      moves |= a->cells[k].f != w->tensor.cells[k].f, differs |= slope != 0;
    }
    c->apart[i] = moves && !differs;
  }
  return true;
}

/* Returns the part of the step that the loss needs. */
static Func forward_pass(Arena *a, const Func *f) {
  Func forward = *f;
  Output *loss = ARENA_NEW(a, Output);
  for (size_t i = 0; i < f->outputs.n; i++)
    if (strcmp(f->outputs.items[i].name, "loss") == 0) *loss = f->outputs.items[i];
  forward.outputs.items = loss;
  forward.outputs.n = 1;
  forward.ops.n = (size_t)(op_of(f, loss->value) - f->ops.items) + 1;
  return forward;
}

/* Computes the loss with the weights d, d + n ... moved by h along their direction. */
static bool loss_at(Check *c, uint64_t seed, int d, int n, double h, double *loss) {
  Arena *a = arena_new();
  InterpNamed *moved = ARENA_ARRAY(a, InterpNamed, c->nweights);
  memcpy(moved, c->weights, (size_t)c->nweights * sizeof *moved);
  for (int i = d; i < c->nweights; i += n) {
    const InterpTensor *w = &c->weights[i].tensor;
    moved[i].tensor = interp_tensor(a, w->dtype, w->rank, w->dims);
    for (int64_t k = 0; k < interp_elements(w); k++)
      moved[i].tensor.cells[k].f = w->cells[k].f + h * normal_at(seed, c->weights[i].name, k);
  }
  const Step *s = &c->steps[2];
  const Func forward = forward_pass(a, s->f);
  InterpResult result;
  bool ok = run_step(c, s, &forward, c->nweights, moved, a, &result);
  if (ok) *loss = scalar(result.outputs, result.noutputs, "loss");
  arena_free(a);
  return ok;
}

/* Computes the relative error of the derivative along the direction, against the gradient. */
static bool direction_error(Check *c, uint64_t seed, int d, int n, double *error) {
  double above, below, slope = 0, most = 0;
  if (!loss_at(c, seed, d, n, step_size, &above) || !loss_at(c, seed, d, n, -step_size, &below)) return false;
  for (int i = d; i < c->nweights; i += n)
    for (int64_t k = 0; k < interp_elements(&c->gradients[i].tensor); k++) {
      double part = c->gradients[i].tensor.cells[k].f * normal_at(seed, c->weights[i].name, k);
      slope += part, most += part * part;
    }
  double difference = (above - below) / (2 * step_size), noise = 1e-14 * (1 + fabs(c->loss)) / step_size;
  *error = fmax(0, fabs(difference - slope) - noise) / fmax(fmax(fabs(difference), sqrt(most)), 1e-300);
  if (!isfinite(slope)) *error = INFINITY; /* the loss is finite, its gradient is not */
  return isfinite(difference) || cannot(c, "the loss of random numbers is not finite");
}

/* Moves to another point: other inputs, other weights. */
static bool move_to(Check *c, uint64_t seed) {
  if (c->arena) arena_free(c->arena);
  c->arena = arena_new();
  return draw_inputs(c, seed) && draw_weights(c, seed + 1000) && find_gradients(c);
}

/* Tries, at one point, the directions that have not agreed yet; *again: some still disagree. */
static bool try_directions(Check *c, uint64_t seed, int n, double *least, bool *again) {
  if (!move_to(c, seed)) return false;
  *again = false;
  for (int d = 0; d < n; d++) {
    double error;
    if (least[d] <= gradient_error) continue;
    if (!direction_error(c, seed + 2000, d, n, &error)) return *again = true, false;
    least[d] = fmin(least[d], error);
    *again |= least[d] > gradient_error;
  }
  return true;
}

static bool check_gradients(Check *c, int n) {
  double *least = ARENA_ARRAY(c->t->arena, double, n);
  bool again = true;
  for (int k = 0; k < n; k++) least[k] = INFINITY;
  for (uint64_t try = 0; try < TRIES && again; try++) {
    if (try_directions(c, 1 + 7919 * try, n, least, &again)) continue;
    if (try == 0 || !c->out->why) return false;
    c->out->why = NULL; /* reasons of earlier points no longer apply */
    break;
  }
  for (int d = 0; d < n; d++)
    if (least[d] > c->out->gradient)
      c->out->gradient = least[d], c->out->gradient_of = arena_strdup(c->t->arena, c->weights[d].name);
  c->out->directions = n;
  c->out->gradient_ok = !again;
  return true;
}

/* ---- the loss */

/* Checks a loss that apc builds, at the last point. */
static bool check_loss(Check *c) {
  const Step *s = &c->steps[2];
  Func forward = forward_pass(c->arena, s->f);
  Output both[] = {*forward.outputs.items, {.name = "output", .value = c->output}};
  InterpResult got;
  forward.outputs.items = both, forward.outputs.n = 2;
  if (!c->out->has_loss) return c->out->loss_ok = true;
  if (!run_step(c, s, &forward, c->nweights, c->weights, c->arena, &got)) return false;
  double loss = scalar(got.outputs, got.noutputs, "loss");
  double want = loss_value(&c->kind, interp_find(got.outputs, got.noutputs, "output"),
                           interp_find(c->inputs, c->ninputs, "labels"));
  c->out->loss = fabs(loss - want) / fmax(fabs(want), 1e-12);
  c->out->loss_ok = c->out->loss <= loss_error;
  return true;
}

/* ---- the update */

static void note_update(Check *c, const char *name, double got, double want, double size) {
  double error = fabs(got - want) / fmax(size, 1e-30);
  if (isfinite(error) && error <= c->out->update) return;
  c->out->update = isfinite(error) ? error : INFINITY;
  c->out->update_of = arena_strdup(c->t->arena, name);
}

/* How far a moment may be off: one in bf16 is rounded. */
static double moment_size(const Check *c, const char *name, double size) {
  const State *s = module_state(c->steps[2].model.m, name);
  return s && s->type->dtype == DT_bf16 ? size * 0x1p-7 / update_error : size;
}

static double *numbers_of(Check *c, const InterpTensor *x, double scale) {
  double *out = x ? ARENA_ARRAY(c->arena, double, interp_elements(x) + 1) : NULL;
  for (int64_t e = 0; x && e < interp_elements(x); e++) out[e] = scale * x->cells[e].f;
  return out;
}

/* Checks a weight whose elements are updated together, as check_weight does. */
static void check_whole(Check *c, const Optimizer *o, int i, double t, double scale, int nstates,
                        const InterpNamed *states, const InterpResult *got) {
  const char *name = c->weights[i].name;
  static const char *const moments[] = {"m", "row", "column", "v"};
  const InterpTensor *w = interp_find(states, nstates, name), *after = interp_find(got->states, got->nstates, name);
  UpdateWhole x = {.rank = w->rank, .dims = w->dims};
  x.g = numbers_of(c, &c->gradients[i].tensor, scale), x.w = numbers_of(c, w, 1);
  double **const to[] = {&x.m, &x.row, &x.column, &x.m};
  for (int k = 0; k < 4; k++) {
    double *have = numbers_of(c, interp_find(states, nstates, arena_printf(c->arena, "%s:%s", name, moments[k])), 1);
    if (have) *to[k] = have;
  }
  formula_whole(c->arena, o, name, t, &x);
  for (int64_t e = 0; after && e < interp_elements(after); e++)
    note_update(c, name, after->cells[e].f, x.w[e],
                fmax(fabs(x.w[e] - w->cells[e].f), 1e-7 * fabs(w->cells[e].f)) + 1e-9);
  for (int k = 0; k < 4; k++) {
    const char *moment = arena_printf(c->arena, "%s:%s", name, moments[k]);
    const InterpTensor *m = interp_find(got->states, got->nstates, moment);
    for (int64_t e = 0; m && e < interp_elements(m); e++)
      note_update(c, moment, m->cells[e].f, (*to[k])[e], moment_size(c, moment, fabs((*to[k])[e]) + 1e-9));
  }
}

/* Checks the average of a weight. */
static void check_average(Check *c, const Optimizer *o, int i, double t, int nstates, const InterpNamed *states,
                          const InterpResult *got) {
  const char *weight = c->weights[i].name, *name = arena_printf(c->arena, "%s:ema", weight);
  const InterpTensor *before = interp_find(states, nstates, name),
                     *after = interp_find(got->states, got->nstates, name),
                     *w = interp_find(got->states, got->nstates, weight);
  for (int64_t e = 0; before && after && e < interp_elements(after); e++) {
    double want = t == 1 ? w->cells[e].f : o->ema * before->cells[e].f + (1 - o->ema) * w->cells[e].f;
    note_update(c, name, after->cells[e].f, want, fabs(want) + 1e-6);
  }
}

/* Checks a weight and its moments, element by element.  A state that the step does not write is not trained. */
static void check_weight(Check *c, const Optimizer *o, int i, double t, double scale, int nstates,
                         const InterpNamed *states, const InterpResult *got) {
  const char *name = c->weights[i].name, *first = o->kind == OPTIMIZER_sgd ? "momentum" : "m";
  const char *named[] = {name, arena_printf(c->arena, "%s:%s", name, first), arena_printf(c->arena, "%s:v", name)};
  const InterpTensor *before[3], *after[3];
  for (int k = 0; k < 3; k++) {
    before[k] = interp_find(states, nstates, named[k]);
    after[k] = interp_find(got->states, got->nstates, named[k]);
  }
  for (int64_t e = 0; after[0] && e < interp_elements(after[0]); e++) {
    UpdateAt x = {before[0]->cells[e].f, c->gradients[i].tensor.cells[e].f, before[1] ? before[1]->cells[e].f : 0,
                  before[2] ? before[2]->cells[e].f : 0};
    UpdateAt y = formula_weight(o, name, t, scale, x);
    double moved = fabs(y.w - x.w);
    note_update(c, named[0], after[0]->cells[e].f, y.w, fmax(moved, 1e-7 * fabs(x.w)) + 1e-12);
    if (after[1]) note_update(c, named[1], after[1]->cells[e].f, y.m, moment_size(c, named[1], fabs(y.m) + 1e-9));
    if (after[2]) note_update(c, named[2], after[2]->cells[e].f, y.v, moment_size(c, named[2], fabs(y.v) + 1e-12));
  }
}

/* Checks the update at the last point. */
static bool check_update(Check *c, const Optimizer *o) {
  const Module *m = c->steps[2].model.m;
  InterpNamed *states = ARENA_ARRAY(c->arena, InterpNamed, m->states.n + (size_t)c->nweights);
  int n = draw_moments(c, 77, states);
  InterpResult got;
  if (!run_step(c, &c->steps[2], c->steps[2].f, n, states, c->arena, &got)) return false;
  double t = 1 + (double)interp_find(c->inputs, c->ninputs, "step")->cells[0].i, square = 0;
  for (int i = 0; i < c->nweights; i++)
    for (int64_t k = 0; k < interp_elements(&c->gradients[i].tensor); k++)
      square += c->gradients[i].tensor.cells[k].f * c->gradients[i].tensor.cells[k].f;
  double norm = sqrt(square), rate = formula_rate(o, t);
  note_update(c, "grad_norm", scalar(got.outputs, got.noutputs, "grad_norm"), norm, norm + 1e-9);
  note_update(c, "lr", scalar(got.outputs, got.noutputs, "lr"), rate, rate + 1e-12);
  for (int i = 0; i < c->nweights; i++) {
    if (c->apart[i]) continue;
    bool whole = formula_is_whole(o, c->weights[i].name, c->weights[i].tensor.rank);
    (whole ? check_whole : check_weight)(c, o, i, t, formula_scale(o, norm), n, states, &got);
    if (o->ema > 0) check_average(c, o, i, t, n, states, &got);
  }
  c->out->update_ok = c->out->update <= update_error;
  return true;
}

/* ---- the whole check */

static bool load_steps(Check *c, const char *path, const TrainOptions **options) {
  for (int i = 0; i < 3; i++) {
    Step *s = &c->steps[i];
    if (!tool_model_step(c->t, path, i == 2 ? 0 : i + 1, &s->model, options)) return false;
    s->f = step_function(s->model.m);
    s->files = tool_weights_open(s->model.m->arena, s->model.m);
  }
  c->output = (*options)->report->output;
  if (!train_loss_parse(c->t->arena, (*options)->loss, &c->kind, c->diags)) return false;
  c->out->has_loss = c->kind.kind != LOSS_own;
  return true;
}

/* Returns the number of directions that the work allows; 0 if none. */
static int directions(Check *c) {
  Module *m = c->steps[2].model.m;
  c->symbols = ARENA_ARRAY(c->t->arena, int64_t, m->symbols.n + 1);
  trial_sizes(m, 1, c->symbols);
  const Func forward = forward_pass(c->t->arena, c->steps[2].f);
  double whole = trial_work(m, c->steps[2].f, c->symbols), part = trial_work(m, &forward, c->symbols);
  int weights = 0;
  for (size_t i = 0; i < m->states.n; i++) weights += m->states.items[i].param != NULL;
  double n = (most_work - 3 * whole) / (2 * part);
  int least = weights < LEAST_DIRECTIONS ? weights : LEAST_DIRECTIONS;
  return n < least ? 0 : n < weights ? (int)n : weights;
}

bool tool_check_step(Tool *t, const char *path, StepCheck *out) {
  Check c = {.t = t, .diags = t->diags, .out = out};
  const TrainOptions *options = NULL;
  *out = (StepCheck){0};
  tool_stage(t, "Deriving", "%s at small sizes", path);
  bool ok = load_steps(&c, path, &options);
  int n = ok ? directions(&c) : 0;
  if (ok && !n) out->why = "too large, even at small sizes";
  if (n) ok = (check_gradients(&c, n) && check_loss(&c) && check_update(&c, &options->optimizer)) || out->why;
  if (c.arena) arena_free(c.arena);
  for (int i = 0; i < 3; i++) {
    tool_weights_close(c.steps[i].files);
    model_free(&c.steps[i].model);
  }
  return ok;
}
