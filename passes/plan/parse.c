/* passes/plan/parse.c - turns the text of a plan (file.h) into a plan for a function and a target.
 *
 * An operation has the strategy of the last line that matches it.  Without a line it is not split; operations of an
 * update are then split like their weight.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/loops.h"
#include "passes/plan/degrees.h"
#include "passes/plan/entries.h"
#include "passes/plan/plan.h"
#include "passes/plan/file.h"
#include "passes/plan/said.h"
#include "passes/plan/text.h"
#include "passes/facts/zero.h"
#include "passes/facts/derived.h"
#include "passes/facts/home.h"
#include "passes/plan/stage.h"
#include "passes/cost/sizes.h"

typedef struct Named {
  const char *name;
  size_t op;
} Named;

typedef struct Fitting {
  Module *m;
  const Func *f;
  const Target *t;
  Diags *d;
  const PlanFile *file;
  const Rule *const *rules;
  Plan *plan;
  Strategy *strategies;
  int *line_of;          /* by operation: the last line that matches it; -1 if none */
  bool *matched;         /* by line */
  const ZeroRole *kinds; /* by operation */
  const ZeroUpdates *updates;
  Named *names; /* of all operations, sorted */
  bool same_graph;
} Fitting;

/* ---- model, target and mesh */

static bool check_graph(Fitting *p) {
  const PlanFile *file = p->file;
  if (strcmp(file->func, p->f->name) != 0)
    return diag_error(p->d, DIAG_plan_model, file->func_loc, "the plan is for @%s, not for @%s", file->func,
                      p->f->name);
  p->same_graph = file->graph == p->plan->graph;
  if (!p->same_graph)
    diag_warning(p->d, DIAG_plan_model, file->graph_loc,
                 "the plan was made for another graph; it is used where it fits");
  return true;
}

static bool check_ranks(const Fitting *p) {
  const PlanFile *file = p->file;
  if (file->ranks != p->t->ranks)
    return diag_error(p->d, DIAG_plan_model, file->ranks_loc, "the plan is for %d ranks, %s has %d", file->ranks,
                      p->t->name, p->t->ranks);
  return true;
}

static bool check_mesh(const Fitting *p) {
  const PlanFile *file = p->file;
  double ranks = mesh_places(&file->mesh);
  for (int i = 0; i < file->mesh.naxes; i++) ranks *= file->mesh.axes[i].temporal ? 1 : file->mesh.axes[i].size;
  if (ranks != p->t->ranks)
    return diag_error(p->d, DIAG_plan_model, file->mesh_loc, "the mesh has %.0f ranks, %s has %d", ranks, p->t->name,
                      p->t->ranks);
  return true;
}

static bool check_head(Fitting *p) {
  if (!check_graph(p) || !check_ranks(p) || !check_mesh(p)) return false;
  module_set_mesh(p->m, &p->file->mesh);
  p->plan->mesh = p->m->mesh;
  return true;
}

/* ---- matching lines and operations */

/* True if the glob is a plain name, as most are; those are looked up. */
static bool is_plain(const char *glob, Text *name) {
  for (; *glob; glob++) {
    if (*glob == '*') return false;
    if (*glob == '\\' && glob[1]) glob++;
    text_addn(name, glob, 1);
  }
  return true;
}

static int compare_named(const void *x, const void *y) {
  return strcmp(((const Named *)x)->name, ((const Named *)y)->name);
}

static void match(Fitting *p, const PlanFileOp *line, int number) {
  Text name = {.arena = p->m->arena};
  if (is_plain(line->glob, &name)) {
    const Named *found = bsearch(&(Named){text_str(&name), 0}, p->names, p->f->ops.n, sizeof *p->names, compare_named);
    p->matched[number] = found && line->kind == p->kinds[found->op];
    if (p->matched[number]) p->line_of[found->op] = number;
    return;
  }
  for (size_t i = 0; i < p->f->ops.n; i++) {
    if (line->kind != p->kinds[i] || !plan_glob(line->glob, p->f->ops.items[i].name)) continue;
    p->line_of[i] = number;
    p->matched[number] = true;
  }
}

static int by_glob(const void *x, const void *y) {
  const PlanFileOp *a = *(const PlanFileOp *const *)x, *b = *(const PlanFileOp *const *)y;
  int order = a->kind != b->kind ? (int)a->kind - (int)b->kind : strcmp(a->glob, b->glob);
  return order ? order : a < b ? -1 : a > b;
}

/* Warns about a repeated line; in a file to be completed it is an error, because both lines cannot hold. */
static bool check_repeated(Fitting *p) {
  const PlanFileOp **sorted = ARENA_ARRAY(p->m->arena, const PlanFileOp *, p->file->ops.n);
  for (size_t i = 0; i < p->file->ops.n; i++) sorted[i] = &p->file->ops.items[i];
  if (p->file->ops.n) qsort(sorted, p->file->ops.n, sizeof *sorted, by_glob);
  for (size_t i = 1; i < p->file->ops.n; i++)
    if (sorted[i - 1]->kind == sorted[i]->kind && strcmp(sorted[i - 1]->glob, sorted[i]->glob) == 0) {
      if (p->file->complete)
        return diag_error(p->d, DIAG_plan_model, sorted[i]->glob_loc, "\"%s\" has a line already (line %d)",
                          sorted[i]->glob, sorted[i - 1]->glob_loc.line);
      diag_warning(p->d, DIAG_plan_model, sorted[i]->glob_loc, "\"%s\" has a line already (line %d); this line is used",
                   sorted[i]->glob, sorted[i - 1]->glob_loc.line);
    }
  return true;
}

/* If the graph is the same, a line without a match is an error; for another graph only if most lines have none. */
static bool check_matches(Fitting *p) {
  enum { NAMED = 3 };
  Text names = {.arena = p->m->arena};
  size_t missed = 0;
  Loc first = {0};
  for (size_t i = 0; i < p->file->ops.n; i++) {
    const PlanFileOp *line = &p->file->ops.items[i];
    if (p->matched[i]) continue;
    static const char *const what[ZERO_ROLES] = {"no operation is", "no trained weight is", "no accumulation is",
                                                 "no part of an update is"};
    if (p->same_graph)
      diag_error(p->d, DIAG_plan_model, line->glob_loc, "%s named \"%s\"", what[line->kind], line->glob);
    if (missed++ == 0) first = line->glob_loc;
    if (missed <= NAMED) text_printf(&names, "%s\"%s\"", missed > 1 ? ", " : "", line->glob);
  }
  if (!missed) return true;
  if (p->same_graph) return false;
  if (missed > NAMED) text_add(&names, " ...");
  if (2 * missed > p->file->ops.n)
    return diag_error(p->d, DIAG_plan_model, first,
                      "the plan is for another model: %zu of %zu op lines match no operation: %s", missed,
                      p->file->ops.n, text_str(&names));
  diag_warning(p->d, DIAG_plan_model, first, "%zu of %zu op lines match no operation: %s", missed, p->file->ops.n,
               text_str(&names));
  return true;
}

/* Returns why an operation cannot be recomputed as its line says; NULL if it can, or need not. */
static const char *not_again(const Fitting *p, const PlanFileOp *line, const Op *op) {
  bool none = line->again && (op->phase != PH_fwd || op_is_source(op->kind));
  return none ? arena_printf(p->m->arena,
                             "'again' is only for operations of the forward pass, which gradients recompute")
              : NULL;
}

static bool is_of_packed(const char *name) {
  static const char end[] = ".packed";
  size_t n = strlen(name);
  return n >= sizeof end - 1 && strcmp(name + n - (sizeof end - 1), end) == 0;
}

/* Says how the graph differs from the one that the plan was made for, as far as names tell. */
static void help_other_graph(const Fitting *p) {
  bool here = false, there = false;
  if (p->same_graph) return;
  for (size_t i = 0; i < p->f->ops.n && !here; i++) here = p->f->ops.items[i].kind == OP_packed_dot;
  for (size_t i = 0; i < p->file->ops.n && !there; i++) there = is_of_packed(p->file->ops.items[i].glob);
  if (here != there)
    diag_help(p->d, "the plan was made %s --weights-dtype, which changes the graph: plan again %s it, or %s",
              here ? "without" : "with", here ? "with" : "without", here ? "leave it out" : "give it here too");
  else
    diag_help(p->d, "the plan was made for another graph: another model, or other options; plan again (--save-plan)");
}

static bool refuse_strategy(const Fitting *p, const PlanFileOp *line, size_t op, const char *why) {
  Text rule = {.arena = p->m->arena};
  rule_print(p->m, &rule, p->rules[op]);
  diag_error(p->d, DIAG_plan_strategy, line->strategy_loc, "\"%s\" (%s) cannot have %s: %s", p->f->ops.items[op].name,
             op_name(p->f->ops.items[op].kind), line->strategy, why);
  diag_note(p->d, (Loc){0}, "its rule is %s", text_str(&rule));
  help_other_graph(p);
  return false;
}

/* Only the last matching line must fit: a wide glob may match operations that another line is meant for. */
static bool read_strategies(Fitting *p) {
  for (size_t i = 0; i < p->f->ops.n; i++) {
    if (p->line_of[i] < 0) {
      zero_follows(p->updates, &p->plan->mesh, i, p->strategies, &p->strategies[i]);
      continue;
    }
    const PlanFileOp *line = &p->file->ops.items[p->line_of[i]];
    const Op *op = &p->f->ops.items[i];
    const char *why = NULL;
    bool ok = strategy_parse(p->m->arena, &p->plan->mesh, p->rules[i], line->strategy, &p->strategies[i], &why);
    if (ok) why = not_again(p, line, op), ok = !why;
    p->strategies[i].again = line->again;
    p->strategies[i].gather_at_use = line->gather_at_use && p->strategies[i].n > 0;
    if (ok) continue;
    return refuse_strategy(p, line, i, why);
  }
  return true;
}

/* A plan whose lines were lost is still valid, with whole operands everywhere, so it only gets a warning. */
static void warn_idle_axes(Fitting *p) {
  const Mesh *mesh = &p->plan->mesh;
  uint32_t used = 0;
  for (size_t i = 0; i < p->f->ops.n; i++)
    for (int k = 0; k < p->strategies[i].n; k++) used |= 1u << p->strategies[i].picks[k].axis;
  for (int i = 0; i < mesh->naxes; i++)
    if (!(used >> i & 1) && mesh->axes[i].size > 1 && !mesh->axes[i].temporal)
      diag_warning(p->d, DIAG_plan_model, p->file->mesh_loc,
                   "no line splits anything over the axis '%s': its %d ranks all do the same work", mesh->axes[i].name,
                   mesh->axes[i].size);
}

/* Returns the outermost loop that a stage beginning at operation `at` would cut; NULL if none. */
static const Loop *loop_cut_at(const Loops *loops, size_t at) {
  for (int i = 0; i < loops->n; i++)
    if (loops->items[i].begin < at && at < loops->items[i].end) return &loops->items[i];
  return NULL;
}

static const char *layout_text(const Fitting *p, const Layout *l) {
  Text t = {.arena = p->m->arena};
  layout_print(p->m, &t, l);
  return text_str(&t);
}

/* A leave is the next value of its carry, so both must have one layout.  Faults are reported at the line of one of
 * them. */
static bool check_carries(Fitting *p) {
  for (size_t leave = 0; leave < p->f->ops.n; leave++) {
    const Op *op = &p->f->ops.items[leave];
    if (op->kind != OP_leave) continue;
    size_t carry = (size_t)p->f->values.items[op->in[0]].op;
    const Layout *before = strategy_result(p->m, p->rules[carry], &p->strategies[carry], 0),
                 *after = strategy_result(p->m, p->rules[leave], &p->strategies[leave], 0);
    if (before == after) continue;
    int line = p->line_of[leave] >= 0 ? p->line_of[leave] : p->line_of[carry];
    diag_error(p->d, DIAG_plan_strategy, p->file->ops.items[line].strategy_loc,
               "the leave \"%s\" has layout %s, its carry \"%s\" %s: they must be equal", op->name,
               layout_text(p, after), p->f->ops.items[carry].name, layout_text(p, before));
    diag_help(p->d, "give both the same strategy: op \"%s\" and op \"%s\"", p->f->ops.items[carry].name, op->name);
    return false;
  }
  return true;
}

const char *plan_cut_refused(Module *m, const Func *f, size_t op) {
  Loops loops = loops_of(m->arena, f);
  const size_t *home = homes_of(m->arena, f, derived_ops(m->arena, f));
  const Loop *cut = loop_cut_at(&loops, op);
  if (cut)
    return arena_printf(m->arena, "is inside the loop \"%s\", which lies in one stage", f->ops.items[cut->begin].name);
  if (!home || home[op] == op) return NULL;
  return arena_printf(m->arena, "is not an operation of the forward pass, which stages cut; it is placed with \"%s\"",
                      f->ops.items[home[op]].name);
}

/* Finds the first operation of every stage. */
static bool find_cuts(Fitting *p, size_t *cuts) {
  for (int s = 1; s < p->plan->mesh.stages; s++) {
    const PlanFileStage *stage = &p->file->stages[s];
    const Named *found = bsearch(&(Named){stage->op, 0}, p->names, p->f->ops.n, sizeof *p->names, compare_named);
    if (!found) return diag_error(p->d, DIAG_plan_model, stage->loc, "there is no operation \"%s\"", stage->op);
    cuts[s] = found->op;
    const char *why = plan_cut_refused(p->m, p->f, cuts[s]);
    if (why) return diag_error(p->d, DIAG_plan_model, stage->loc, "\"%s\" %s", stage->op, why);
    if (cuts[s] <= cuts[s - 1])
      return diag_error(p->d, DIAG_plan_model, stage->loc, "stage %d begins before stage %d", s, s - 1);
  }
  return true;
}

static bool place_stages(Fitting *p) {
  int n = p->plan->mesh.stages;
  int *stages = ARENA_ARRAY(p->m->arena, int, p->f->ops.n);
  size_t *cuts = ARENA_ARRAY(p->m->arena, size_t, n);
  if (!find_cuts(p, cuts)) return false;
  stages_place(p->f, n, cuts, stages);
  p->plan->stages = stages;
  return true;
}

/* Checks that the entries of a joint function keep each state in one layout, on one stage. */
static bool check_entries(Fitting *p) {
  size_t i, k;
  if (plan_states_agree(p->m, p->f, p->rules, p->strategies, p->plan->stages, &i, &k)) return true;
  const int line = p->line_of[k] >= 0 ? p->line_of[k] : p->line_of[i];
  const Layout *here = plan_state_layout(p->m, p->f, i, p->rules, p->strategies),
               *there = plan_state_layout(p->m, p->f, k, p->rules, p->strategies);
  diag_error(p->d, DIAG_plan_strategy, line >= 0 ? p->file->ops.items[line].strategy_loc : p->file->mesh_loc,
             "a state is %s in stage %d in \"%s\" and %s in stage %d in \"%s\": entries share it", layout_text(p, here),
             p->plan->stages[i], p->f->ops.items[i].name, layout_text(p, there), p->plan->stages[k],
             p->f->ops.items[k].name);
  return diag_help(p->d, "give both the same strategy"), false;
}

/* Returns the line that an operation has its strategy from; NULL if none. */
static const PlanFileOp *line_of(const Fitting *p, size_t op) {
  return op < p->f->ops.n && p->line_of[op] >= 0 ? &p->file->ops.items[p->line_of[op]] : NULL;
}

static bool explain_gap(const Fitting *p, const PlanGap *gap) {
  size_t producer = (size_t)p->f->values.items[gap->value].op;
  bool output = gap->user >= p->f->ops.n;
  const PlanFileOp *user = line_of(p, gap->user), *maker = line_of(p, producer);
  diag_error(p->d, DIAG_plan_conversion,
             user    ? user->strategy_loc
             : maker ? maker->strategy_loc
                     : p->file->mesh_loc,
             "%s needs \"%s\" in layout %s, which cannot be made from %s: micro-batches cannot be joined",
             output ? "an output" : arena_printf(p->m->arena, "\"%s\"", p->f->ops.items[gap->user].name),
             p->f->ops.items[producer].name, layout_text(p, gap->to), layout_text(p, gap->from));
  if (user && maker && user != maker)
    diag_note(p->d, maker->strategy_loc, "\"%s\" is cut here", p->f->ops.items[producer].name);
  if (!user && !output)
    diag_note(p->d, (Loc){0}, "\"%s\" has no line, so it takes whole operands", p->f->ops.items[gap->user].name);
  return false;
}

static bool complete(Fitting *p) {
  Plan *plan = p->plan;
  CostModel *c = cost_model_new(p->m, p->t);
  if (!cost_sizes_can_be_priced(c, p->m, p->f, p->d)) return cost_model_free(c), false;
  plan->price = cost_plan(c, p->m, p->f, p->rules, plan->strategies, plan->stages);
  plan->flops = cost_plan_flops(c, p->m, p->f, p->rules);
  plan->params = cost_plan_params(p->m, p->f);
  Shares shares = shares_of(c, p->f, p->rules, labels_of(p->m, p->f, p->rules), plan->strategies);
  cost_model_free(c);
  uint32_t data = 0;
  for (int i = 0; i < plan->mesh.naxes; i++)
    if (!plan->mesh.axes[i].temporal && main_degree(&shares, i) == DEGREE_dp) data |= 1u << i;
  plan->zero = zero_stage(p->m, &plan->mesh, p->f, p->rules, plan->strategies, data, zero_mirrors(p->updates));
  degrees_of(&plan->mesh, &shares, plan->degree);
  for (size_t i = 0; i < p->f->ops.n; i++) plan->mirrored |= p->f->ops.items[i].mirror.name != NULL;
  plan->recompute = recompute_name(p->m->arena, recompute_choices(p->m->arena, p->f), plan->strategies);
  plan->micro_batches = 1;
  for (int i = 0; i < plan->mesh.naxes; i++)
    if (plan->mesh.axes[i].temporal) plan->micro_batches = plan->mesh.axes[i].size;
  return plan->price.possible || explain_gap(p, &plan->price.gaps[0]);
}

static void index_names(Fitting *p) {
  p->names = ARENA_ARRAY(p->m->arena, Named, p->f->ops.n);
  for (size_t i = 0; i < p->f->ops.n; i++) p->names[i] = (Named){p->f->ops.items[i].name, i};
  if (p->f->ops.n) qsort(p->names, p->f->ops.n, sizeof *p->names, compare_named);
}

static void match_lines(Fitting *p) {
  ZeroRole *kinds = ARENA_ARRAY(p->m->arena, ZeroRole, p->f->ops.n);
  p->updates = zero_updates(p->m->arena, p->m, p->f, p->rules);
  for (size_t i = 0; i < p->f->ops.n; i++) kinds[i] = zero_role(p->updates, i);
  p->kinds = kinds;
  p->line_of = ARENA_ARRAY(p->m->arena, int, p->f->ops.n);
  p->matched = ARENA_ARRAY(p->m->arena, bool, p->file->ops.n);
  for (size_t i = 0; i < p->f->ops.n; i++) p->line_of[i] = -1;
  for (size_t i = 0; i < p->file->ops.n; i++) match(p, &p->file->ops.items[i], (int)i);
}

/* Gives the states the homes that the plan says. */
static bool put_away(Fitting *p) {
  const PlanFile *file = p->file;
  offload_apply(p->m, file->offload);
  return offload_of(p->m) == file->offload ||
         diag_error(p->d, DIAG_plan_model, file->offload_loc, "@%s has no %s to keep away", p->f->name,
                    offload_name(file->offload));
}

static Plan *read_plan(Module *m, const Func *f, const Target *t, const char *file, const char *text, Diags *d) {
  Fitting p = {.m = m,
               .f = f,
               .t = t,
               .d = d,
               .rules = rules_of(m, f),
               .file = plan_file_read(m->arena, file, text, d),
               .plan = ARENA_NEW(m->arena, Plan)};
  p.strategies = ARENA_ARRAY(m->arena, Strategy, f->ops.n);
  p.plan->target = arena_strdup(m->arena, t->name);
  p.plan->on = t;
  p.plan->func = f->name;
  p.plan->ranks = t->ranks;
  p.plan->graph = plan_graph_hash(m, f);
  p.plan->strategies = p.strategies;
  if (!p.file) return NULL;
  if (p.file->complete) {
    diag_error(d, DIAG_plan_model, p.file->complete_loc,
               "the file contains only part of a plan; a complete plan is needed");
    return NULL;
  }
  if (!check_head(&p) || !put_away(&p)) return NULL;
  index_names(&p);
  match_lines(&p);
  if (!check_repeated(&p) || !check_matches(&p) || !read_strategies(&p) || !check_carries(&p) || !place_stages(&p) ||
      !check_entries(&p) || !complete(&p))
    return NULL;
  warn_idle_axes(&p);
  return p.plan;
}

Plan *plan_parse(Module *m, const Func *f, const Target *t, const char *file, const char *text, Diags *d) {
  const Mesh before = m->mesh;
  Plan *p = read_plan(m, f, t, file, text, d);
  module_set_mesh(m, &before);
  return p;
}

/* ---- files to be completed */

/* Drops axes of one rank; the axis of micro-batches comes first. */
static bool said_axes(PlanSaid *x, const PlanFile *file, Diags *d) {
  x->mesh = (Mesh){.stages = file->mesh.stages, .schedule = file->mesh.schedule, .chunks = file->mesh.chunks};
  x->time = "mb";
  for (int temporal = 1; temporal >= 0; temporal--)
    for (int i = 0; i < file->mesh.naxes; i++) {
      const MeshAxis *axis = &file->mesh.axes[i];
      if (axis->temporal != temporal) continue;
      if (temporal) x->time = axis->name, x->timed = axis->size > 1;
      if (axis->size > 1) x->mesh.axes[x->mesh.naxes++] = *axis;
      x->shares |= axis->shares != NULL;
    }
  enum { MOST_SPATIAL = 4 }; /* the planner would need minutes for more */
  if (x->mesh.naxes - x->timed > MOST_SPATIAL)
    return diag_error(d, DIAG_plan_model, file->mesh_loc,
                      "the mesh has %d axes of several ranks; a file to be completed may have at most %d",
                      x->mesh.naxes - x->timed, MOST_SPATIAL);
  bool open = mesh_axis_find(&x->mesh, x->time) < 0;
  for (int i = 0; i < file->mesh.naxes; i++)
    if (open && !file->mesh.axes[i].temporal && strcmp(file->mesh.axes[i].name, x->time) == 0)
      return diag_error(d, DIAG_plan_model, file->mesh_loc, "'%s' is reserved for the axis of micro-batches", x->time);
  return !open || x->mesh.naxes < MAX_AXES ||
         diag_error(d, DIAG_plan_model, file->mesh_loc, "the mesh has no room for an axis of micro-batches");
}

static void degree_axes(PlanSaid *x) {
  x->mesh = (Mesh){.stages = 1};
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++)
    x->mesh.axes[x->mesh.naxes++] = (MeshAxis){.name = degree_names[d], .size = 2};
}

/* "{x1:tp, ...}" leaves other axes open: returns the text without the dots. */
static const char *without_dots(Arena *a, const char *text, bool *more) {
  size_t n = strlen(text) - 1;
  while (n > 0 && text[n - 1] == ' ') n--;
  *more = n >= 3 && strncmp(text + n - 3, "...", 3) == 0;
  if (!*more) return text;
  for (n -= 3; n > 0 && (text[n - 1] == ' ' || text[n - 1] == ','); n--) continue;
  return arena_printf(a, "%.*s}", (int)n, text);
}

/* Reads the strategy with the file's axes, then drops axes of one rank. */
static bool said_strategy(const Fitting *p, PlanSaid *x, size_t op, SaidStrategy *out) {
  const PlanFileOp *line = &p->file->ops.items[p->line_of[op]];
  const Mesh *written = x->has_mesh ? &p->file->mesh : &x->mesh;
  const char *why = NULL, *text = without_dots(p->m->arena, line->strategy, &out->more);
  Strategy s;
  bool ok = strategy_parse(p->m->arena, written, p->rules[op], text, &s, &why);
  if (ok) why = not_again(p, line, &p->f->ops.items[op]), ok = !why;
  if (!ok) return refuse_strategy(p, line, op, why);
  out->loc = line->strategy_loc;
  out->s = (Strategy){.again = line->again};
  for (int i = 0; i < s.n; i++) {
    int axis = mesh_axis_find(&x->mesh, written->axes[s.picks[i].axis].name);
    if (axis < 0) continue;
    out->s.picks[out->s.n++] = (Pick){(uint8_t)axis, s.picks[i].factor};
    if (!x->has_mesh) x->degrees |= 1u << (axis + DEGREE_FIRST_AXIS);
  }
  return true;
}

static bool said_strategies(const Fitting *p, PlanSaid *x) {
  const SaidStrategy **all = ARENA_ARRAY(p->m->arena, const SaidStrategy *, p->f->ops.n + 1);
  for (size_t i = 0; i < p->f->ops.n; i++) {
    if (p->line_of[i] < 0) continue;
    SaidStrategy *s = ARENA_NEW(p->m->arena, SaidStrategy);
    if (!said_strategy(p, x, i, s)) return false;
    all[i] = s, x->n++;
  }
  x->strategies = all;
  return true;
}

static bool has_no_updates(const Fitting *p) {
  for (size_t i = 0; i < p->file->ops.n; i++)
    if (p->file->ops.items[i].kind == ZERO_UPDATE)
      return diag_error(p->d, DIAG_plan_model, p->file->ops.items[i].glob_loc,
                        "a file to be completed cannot have update lines: updates follow the store lines of weights");
  return true;
}

static bool said_cuts(Fitting *p, PlanSaid *x) {
  size_t *cuts = ARENA_ARRAY(p->m->arena, size_t, p->file->mesh.stages + 1);
  if (!x->has_mesh || p->file->mesh.stages == 1 || !p->file->stages[1].op) return true;
  p->plan->mesh = p->file->mesh;
  x->cuts = cuts;
  return find_cuts(p, cuts);
}

PlanSaid *plan_said(Module *m, const Func *f, const Target *t, const PlanFile *file, Diags *d) {
  Fitting p = {.m = m, .f = f, .t = t, .d = d, .rules = rules_of(m, f), .file = file};
  PlanSaid *x = ARENA_NEW(m->arena, PlanSaid);
  *x = (PlanSaid){.file = file, .source = file->file, .has_mesh = file->stages != NULL, .time = "mb"};
  p.plan = ARENA_NEW(m->arena, Plan);
  p.plan->graph = plan_graph_hash(m, f);
  if ((file->func && !check_graph(&p)) || (file->target && !check_ranks(&p))) return NULL;
  if (x->has_mesh && (!check_mesh(&p) || !said_axes(x, file, d))) return NULL;
  if (!x->has_mesh) degree_axes(x);
  p.same_graph = true; /* a line that matches nothing is an error */
  index_names(&p);
  match_lines(&p);
  bool ok = has_no_updates(&p) && check_repeated(&p) && check_matches(&p) && said_strategies(&p, x) && said_cuts(&p, x);
  return ok ? x : NULL;
}
