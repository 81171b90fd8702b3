/* frontend/dsl/load.c - from the text of a model to a module: imports, parameters, dimensions, entries. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/dsl/dsl.h"
#include "frontend/dsl/eval.h"

enum { DEFAULT_STEPS = 2000000 };

typedef struct Load {
  DslEval ev;
  const DslOptions *options;
  bool *used;    /* by define: a parameter has used it */
  Func *scratch; /* collects operations that top-level expressions build by mistake */
} Load;

/* ---- files */

static DslUnit *unit_parse(Load *l, const char *name, const char *file, const char *text, bool library) {
  DslEval *ev = &l->ev;
  DslUnit *u = ARENA_NEW(ev->arena, DslUnit);
  *u = (DslUnit){.name = name, .file = file, .library = library};
  diag_source(ev->diags, file, text);
  DslParse parse = {.arena = ev->arena, .diags = ev->diags, .file = file};
  dsl_parse(&parse, strncmp(text, "\xef\xbb\xbf", 3) == 0
                        ? text + 3
                        : text); /* skips the byte order mark that some editors write */
  u->items = parse.items;
  u->next = ev->units;
  ev->units = u;
  return u;
}

static void unit_evaluate(Load *l, DslUnit *u);

static void import_library(Load *l, DslUnit *into, DslNode *n) {
  DslEval *ev = &l->ev;
  for (DslUnit *u = ev->units; u; u = u->next)
    if (u->library && strcmp(u->name, n->s) == 0) {
      ARENA_PUSH(ev->arena, &into->imports, u);
      return;
    }
  for (const DslLibrary *library = dsl_libraries; library->name; library++) {
    if (strcmp(library->name, n->s) != 0) continue;
    const char *file = arena_printf(ev->diags->arena, "library %s.apc", library->name);
    DslUnit *u = unit_parse(l, library->name, file, library->text, true);
    ARENA_PUSH(ev->arena, &into->imports, u);
    DslFrame *frame = ev->frame;
    unit_evaluate(l, u);
    ev->frame = frame;
    return;
  }
  dsl_fail(ev, n, DIAG_dsl_name, "there is no library '%s'", n->s);
  Nearest near = nearest_to(n->s);
  for (const DslLibrary *library = dsl_libraries; library->name; library++) nearest_try(&near, library->name);
  dsl_nearest_help(ev, &near);
}

/* ---- parameters */

static const DslDefine *define_for(Load *l, const char *name) {
  const DslDefine *found = NULL;
  for (int i = 0; i < l->options->ndefines; i++)
    if (strcmp(l->options->defines[i].name, name) == 0) {
      found = &l->options->defines[i];
      l->used[i] = true;
    }
  return found;
}

/* Converts the value of -D to the type of the default: integers also accept true and false. */
static bool define_value(Load *l, const DslDefine *d, const DslValue *otherwise, DslValue *out) {
  char *end;
  errno = 0;
  if (otherwise->kind == V_STRING) {
    *out = value_string(arena_strdup(l->ev.arena, d->value));
    return true;
  }
  if (otherwise->kind == V_FLOAT) {
    *out = value_float(strtod(d->value, &end));
    return end != d->value && !*end && out->u.f - out->u.f == 0;
  }
  int64_t v = strcmp(d->value, "true") == 0;
  if (v == 0 && strcmp(d->value, "false") != 0) {
    v = strtoll(d->value, &end, 10);
    if (end == d->value || *end || errno) return false;
  }
  *out = value_expr(ex_const(l->ev.m, v));
  return true;
}

static DslValue parameter_value(Load *l, DslUnit *u, DslNode *n) {
  DslEval *ev = &l->ev;
  int64_t i;
  const DslDefine *d = define_for(l, n->s); /* marks it as used even if the default is wrong */
  DslValue v = dsl_expression(ev, n->a);
  if (v.kind == V_ERROR) return v;
  if (u->library) return dsl_fail(ev, n, DIAG_dsl_structure, "a library has no parameters");
  if (!dsl_value_const(v, &i) && v.kind != V_FLOAT && v.kind != V_STRING)
    return dsl_fail(ev, n->a, DIAG_dsl_type, "a parameter must be a number or a string, not %s",
                    dsl_value_describe(ev, v));
  DslValue given;
  if (!d) return v;
  if (define_value(l, d, &v, &given)) return given;
  return dsl_fail(ev, n, DIAG_dsl_define, "-D %s=%s: parameter '%s' is %s", d->name, d->value, n->s,
                  v.kind == V_INT ? "an integer" : "a number");
}

static void define_global(Load *l, DslUnit *u, DslNode *n, DslValue v) {
  DslEval *ev = &l->ev;
  if (dsl_variable_find(&u->globals, n->s)) dsl_fail(ev, n, DIAG_dsl_duplicate, "'%s' is declared twice", n->s);
  else dsl_variable_set(ev, &u->globals, n->s, v, NULL);
}

static void take_parameter(Load *l, DslUnit *u, DslNode *n) {
  DslParameters *list = l->options->parameters;
  DslValue v = parameter_value(l, u, n);
  DslParameter p = {0};
  define_global(l, u, n, v);
  if (!list || v.kind == V_ERROR) return;
  p.name = arena_strdup(list->arena, n->s);
  p.whole = dsl_value_const(v, &p.value);
  ARENA_PUSH(list->arena, list, p);
}

static void report_unused_defines(Load *l, const DslUnit *u) {
  for (int i = 0; i < l->options->ndefines; i++) {
    const DslDefine *d = &l->options->defines[i];
    if (l->used[i]) continue;
    diag_error(l->ev.diags, DIAG_dsl_define, (Loc){u->file, NULL, 0, 0}, "-D %s=%s: the model has no parameter '%s'",
               d->name, d->value, d->name);
    Nearest near = nearest_to(d->name);
    for (const DslNode *n = u->items; n; n = n->next)
      if (n->kind == N_PARAM) nearest_try(&near, n->s);
    dsl_nearest_help(&l->ev, &near);
  }
}

/* ---- dimensions */

static DslValue dimension(Load *l, DslNode *n) {
  DslEval *ev = &l->ev;
  int64_t max = 0;
  static const char *const words[] = {"div", "min", "max"}; /* reserved in the IR's expressions */
  for (int i = 0; i < 3; i++)
    if (strcmp(n->s, words[i]) == 0) return dsl_fail(ev, n, DIAG_dsl_name, "a dimension cannot be called '%s'", n->s);
  if (n->a) {
    DslValue v = dsl_expression(ev, n->a);
    if (v.kind == V_ERROR) return v;
    if (!dsl_value_const(v, &max) || max < 1)
      return dsl_fail(ev, n->a, DIAG_dsl_type, "the largest value of a dimension must be a positive integer");
  }
  int symbol = module_symbol(ev->m, n->s);
  ev->m->symbols.items[symbol].min = 1;
  ev->m->symbols.items[symbol].max = max;
  return value_expr(ex_sym(ev->m, symbol));
}

/* ---- top-level items in order */

static void check_function(Load *l, const DslUnit *u, DslNode *n) {
  DslEval *ev = &l->ev;
  for (const DslNode *o = u->items; o != n; o = o->next)
    if (o->kind == n->kind && strcmp(o->s, n->s) == 0)
      dsl_fail(ev, n, DIAG_dsl_duplicate, "'%s' is declared twice", n->s);
  for (DslNode *p = n->a; p; p = p->next) {
    if (p->a && n->kind == N_FUNCTION && p->i == ':')
      dsl_fail(ev, p, DIAG_dsl_structure, "the parameters of a function have no types; entries declare theirs");
    if (n->kind == N_ENTRY && p->i != ':')
      dsl_fail(ev, p, DIAG_dsl_structure, "an input needs a type, as in %s: f32[batch, 4]", p->s);
    for (const DslNode *o = n->a; o != p; o = o->next)
      if (strcmp(o->s, p->s) == 0) dsl_fail(ev, p, DIAG_dsl_duplicate, "'%s' is declared twice", p->s);
  }
}

static void evaluate_constant(Load *l, DslUnit *u, DslNode *n) {
  DslEval *ev = &l->ev;
  DslValue v = dsl_expression(ev, n->b);
  if (l->scratch->ops.n && !n->reported && v.kind != V_ERROR)
    v = dsl_fail(ev, n->b, DIAG_dsl_structure,
                 "tensors are made inside an entry or a function, not at the top of a file");
  l->scratch->ops.n = 0;
  define_global(l, u, n->a, v);
}

static void check_statement(Load *l, DslNode *n) {
  dsl_statements(&l->ev, &(DslNode){.kind = N_CHECK, .line = n->line, .col = n->col, .a = n->a, .b = n->b});
}

static void unit_evaluate(Load *l, DslUnit *u) {
  DslEval *ev = &l->ev;
  DslFrame frame = {.unit = u, .function = u->name, .weights = "", .ops = ""};
  ev->frame = &frame;
  ev->b = builder_new(ev->m, l->scratch, ev->diags);
  ev->labels.n = 0;
  for (DslNode *n = u->items; n && !ev->stopped; n = n->next) {
    switch (n->kind) {
      case N_IMPORT: import_library(l, u, n); break;
      case N_PARAM: take_parameter(l, u, n); break;
      case N_DIMS:
        for (DslNode *d = n->a; d; d = d->next) define_global(l, u, d, dimension(l, d));
        break;
      case N_ASSIGN: evaluate_constant(l, u, n); break;
      case N_CHECK: check_statement(l, n); break;
      case N_FUNCTION:
      case N_ENTRY: check_function(l, u, n); break;
      default: break;
    }
  }
}

/* ---- entries */

static void declare_input(DslEval *ev, DslNode *p) {
  DslValue t = p->a ? dsl_expression(ev, p->a) : value_error(), v = value_error();
  if (t.kind == V_TYPE) {
    dsl_begin(ev, p);
    v = dsl_built(ev, p, build_input(&ev->b, p->s, t.u.type));
  } else if (t.kind != V_ERROR) {
    dsl_fail(ev, p->a, DIAG_dsl_type, "the type of an input is like f32[batch, 4], not %s", dsl_value_describe(ev, t));
  }
  dsl_variable_set(ev, &ev->frame->variables, p->s, v, NULL);
}

static void build_entry(Load *l, DslUnit *u, DslNode *n, const char *name, bool training) {
  DslEval *ev = &l->ev;
  DslFrame frame = {.unit = u, .function = n->s, .weights = "", .ops = "", .is_entry = true};
  size_t errors = ev->diags->errors;
  ev->frame = &frame;
  ev->b = builder_new(ev->m, module_func_add(ev->m, name, 1), ev->diags);
  ev->labels.n = ev->weights.n = ev->states.n = 0;
  ev->training = training;
  ev->drawn = 0;
  for (DslNode *p = n->a; p; p = p->next) declare_input(ev, p);
  dsl_statements(ev, n->b);
  if (ev->diags->errors > errors) return;
  if (ev->b.f->outputs.n == 0) dsl_fail(ev, n, DIAG_dsl_structure, "entry '%s' has no output", n->s);
  else dsl_apply_labels(ev);
}

/* The entry that evaluates the model during training; `training` is 0 in it. */
static const char eval_entry[] = "eval";

/* Builds the entries whose condition holds; returns how many.  When training, an entry that reads `training` is
 * built twice, unless the model has its own evaluation entry. */
static int build_entries(Load *l, DslUnit *u) {
  DslEval *ev = &l->ev;
  int count = 0;
  DslNode *asking = NULL;
  bool evaluates = false;
  for (DslNode *n = u->items; n && !ev->stopped; n = n->next) {
    bool wanted = true;
    DslFrame frame = {.unit = u, .function = u->name, .weights = "", .ops = ""};
    if (n->kind != N_ENTRY) continue;
    ev->frame = &frame;
    ev->b = builder_new(ev->m, l->scratch, ev->diags);
    ev->labels.n = 0;
    if (n->c && !dsl_condition(ev, n->c, &wanted)) count++;
    else if (wanted) {
      bool is_eval = strcmp(n->s, eval_entry) == 0;
      count++;
      ev->asked = false;
      build_entry(l, u, n, n->s, l->options->training && !is_eval);
      if (ev->asked && !asking) asking = n;
      evaluates = evaluates || is_eval;
    }
  }
  if (l->options->training && asking && !evaluates && count == 1 && !ev->stopped)
    build_entry(l, u, asking, eval_entry, false);
  return count;
}

/* Makes all functions read the buffers that training writes as states. */
static void read_written(Module *m) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_param && module_state(m, op_str(op, AT_name))) op->kind = OP_read;
    }
}

Module *dsl_load(const char *file, const char *text, const DslOptions *options, Diags *diags) {
  static const DslOptions defaults = {0};
  if (!options) options = &defaults;
  size_t errors = diags->errors;
  Arena *arena = arena_new();
  Load l = {.ev = {.arena = arena, .m = module_new(), .diags = diags}, .options = options};
  l.ev.max_steps = options->max_steps ? options->max_steps : DEFAULT_STEPS;
  l.used = ARENA_ARRAY(arena, bool, options->ndefines);
  l.scratch = ARENA_NEW(arena, Func);
  l.scratch->name = "top level";
  l.scratch->level = 1;
  DslUnit *u = unit_parse(&l, "model", file, text, false);
  if (diags->errors == errors) { /* after syntax errors, further errors would be guesses */
    unit_evaluate(&l, u);
    report_unused_defines(&l, u);
    if (diags->errors == errors && build_entries(&l, u) == 0)
      diag_error(diags, DIAG_dsl_structure, (Loc){file, NULL, 0, 0},
                 "the model has no entry; write entry main(...) { ... }");
  }
  Module *m = l.ev.m;
  read_written(m);
  if (diags->errors > errors || !verify_module(m, diags)) {
    module_free(m);
    m = NULL;
  }
  arena_free(arena);
  return m;
}

int64_t dsl_parameter_count(const Module *m) {
  int64_t total = 0;
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    int64_t dims[MAX_RANK], count = 1;
    if (!p->trainable || !type_constant_dims(p->type, dims)) continue;
    for (int d = 0; d < p->type->rank; d++) count *= dims[d];
    total += count;
  }
  return total;
}
