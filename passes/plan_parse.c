/* passes/plan_parse.c - reads the text of a plan (docs/plan.md) for a function and a target.
 *
 * One statement per line.  An operation has the strategy of the last line that matches it; without one it is not cut.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "passes/plan.h"
#include "passes/labels.h"
#include "passes/plan_text.h"

typedef struct OpLine {
  const char *glob, *strategy;
  Loc name_loc, loc; /* of the glob and of the strategy */
  bool matched;
} OpLine;

typedef struct Named {
  const char *name;
  size_t op;
} Named;

typedef struct Parser {
  Module *m;
  const Func *f;
  const Target *t;
  Diags *d;
  const Rule *const *rules;
  const char *file, *start, *at; /* current line and place in it */
  int line;
  Plan *plan;
  Strategy *strategies;
  size_t *cuts;     /* by stage: its first operation; SIZE_MAX: not given */
  struct { OpLine *items; size_t n, cap; } lines;
  int *line_of;     /* by operation: the last line that matches it; -1 */
  Named *names;     /* of all operations, sorted */
  bool graph, target, mesh, same_graph;
} Parser;

/* ---- one line */

static Loc here(const Parser *p) { return (Loc){.file = p->file, .line = p->line, .col = (int)(p->at - p->start) + 1}; }

static void spaces(Parser *p) { p->at += strspn(p->at, " \t\r"); }

static bool at_end(Parser *p) {
  spaces(p);
  return !*p->at || *p->at == '#';
}

static bool syntax(Parser *p, const char *wanted) {
  spaces(p);
  if (at_end(p)) return diag_error(p->d, DIAG_plan_syntax, here(p), "expected %s, the line ends here", wanted);
  return diag_error(p->d, DIAG_plan_syntax, here(p), "expected %s", wanted);
}

static bool word_char(char c) { return c && !strchr(" \t\r,[]{}=\"#", c); }

/* The next word, or NULL after a diagnostic. */
static const char *word(Parser *p, const char *wanted) {
  spaces(p);
  const char *s = p->at;
  while (word_char(*p->at)) p->at++;
  if (p->at == s) return syntax(p, wanted), NULL;
  return arena_strndup(p->m->arena, s, (size_t)(p->at - s));
}

static bool keyword(Parser *p, const char *name) {
  spaces(p);
  size_t n = strlen(name);
  if (strncmp(p->at, name, n) != 0 || word_char(p->at[n])) return syntax(p, arena_printf(p->m->arena, "'%s'", name));
  p->at += n;
  return true;
}

static bool punct(Parser *p, char c) {
  spaces(p);
  if (*p->at != c) return syntax(p, arena_printf(p->m->arena, "'%c'", c));
  p->at++;
  return true;
}

static bool number(Parser *p, const char *wanted, int *out) {
  spaces(p);
  char *end;
  long v = *p->at >= '0' && *p->at <= '9' ? strtol(p->at, &end, 10) : -1;
  if (v < 0 || v > 1000000) return syntax(p, wanted);
  p->at = end;
  *out = (int)v;
  return true;
}

static int hex(char c) {
  const char *digits = "0123456789abcdef", *s = c ? strchr(digits, c) : NULL;
  return s ? (int)(s - digits) : -1;
}

/* A quoted string with the escapes of text_quoted; NULL after a diagnostic. */
static const char *string(Parser *p, const char *wanted) {
  Text t = {.arena = p->m->arena};
  spaces(p);
  if (*p->at != '"') return syntax(p, wanted), NULL;
  for (p->at++; *p->at != '"'; p->at++) {
    if (!*p->at) return syntax(p, "a closing \""), NULL;
    if (*p->at != '\\') {
      text_addn(&t, p->at, 1);
      continue;
    }
    p->at++;
    char c = *p->at;
    if (c == 'n' || c == 't') c = c == 'n' ? '\n' : '\t';
    else if (c == 'x' && hex(p->at[1]) >= 0 && hex(p->at[2]) >= 0) c = (char)(hex(p->at[1]) * 16 + hex(p->at[2])), p->at += 2;
    else if (c != '"' && c != '\\') return syntax(p, "one of \\\" \\\\ \\n \\t \\xHH"), NULL;
    text_addn(&t, &c, 1);
  }
  p->at++;
  return text_str(&t);
}

/* ---- statements */

static bool read_graph(Parser *p) {
  uint64_t h = 0;
  if (p->graph) return syntax(p, "one graph line only");
  if (!punct(p, '@')) return false;
  Loc loc = here(p);
  const char *name = word(p, "the name of a function");
  if (!name) return false;
  if (strcmp(name, p->f->name) != 0) return diag_error(p->d, DIAG_plan_model, loc, "the plan is for @%s, not for @%s", name, p->f->name);
  spaces(p);
  loc = here(p);
  const char *digits = word(p, "a hash of 16 hexadecimal digits");
  if (!digits) return false;
  for (int i = 0; i < 16; i++) {
    if (hex(digits[i]) < 0) return diag_error(p->d, DIAG_plan_syntax, loc, "expected a hash of 16 hexadecimal digits");
    h = h * 16 + (uint64_t)hex(digits[i]);
  }
  if (digits[16]) return diag_error(p->d, DIAG_plan_syntax, loc, "expected a hash of 16 hexadecimal digits");
  p->same_graph = h == p->plan->graph;
  if (!p->same_graph) diag_warning(p->d, DIAG_plan_model, loc, "the plan was made for another graph; it is used where it fits");
  return p->graph = true;
}

static bool read_target(Parser *p) {
  if (p->target) return syntax(p, "one target line only");
  if (!word(p, "the name of a target") || !keyword(p, "ranks")) return false;
  spaces(p);
  Loc loc = here(p);
  int ranks;
  if (!number(p, "a number of ranks", &ranks)) return false;
  if (ranks != p->t->ranks) return diag_error(p->d, DIAG_plan_model, loc, "the plan is for %d ranks, %s has %d", ranks, p->t->name, p->t->ranks);
  return p->target = true;
}

static bool read_axis(Parser *p, Mesh *mesh) {
  spaces(p);
  Loc loc = here(p);
  const char *name = word(p, "the name of a mesh axis");
  int size;
  if (!name || !punct(p, '=') || !number(p, "the size of the axis", &size)) return false;
  if (mesh->naxes == MAX_AXES) return diag_error(p->d, DIAG_plan_syntax, loc, "a mesh has at most %d axes", MAX_AXES);
  if (mesh_axis_find(mesh, name) >= 0) return diag_error(p->d, DIAG_plan_syntax, loc, "the axis '%s' is there twice", name);
  if (size < 1) return diag_error(p->d, DIAG_plan_syntax, loc, "the axis '%s' has no ranks", name);
  spaces(p);
  bool temporal = strncmp(p->at, "time", 4) == 0 && !word_char(p->at[4]);
  if (temporal) p->at += 4;
  for (int i = 0; temporal && i < mesh->naxes; i++)
    if (mesh->axes[i].temporal) return diag_error(p->d, DIAG_plan_syntax, loc, "a mesh has one time axis");
  mesh->axes[mesh->naxes++] = (MeshAxis){.name = name, .size = size, .temporal = temporal};
  return true;
}

static bool read_mesh(Parser *p) {
  Mesh mesh = {.stages = 1};
  Loc loc = here(p);
  if (p->mesh) return syntax(p, "one mesh line only");
  if (!punct(p, '[')) return false;
  spaces(p);
  while (*p->at != ']') {
    if (!read_axis(p, &mesh)) return false;
    spaces(p);
    if (*p->at == ',') p->at++;
    else if (*p->at != ']') return syntax(p, "',' or ']'");
  }
  p->at++;
  if (!keyword(p, "stages") || !number(p, "a number of stages", &mesh.stages)) return false;
  double ranks = mesh.stages;
  for (int i = 0; i < mesh.naxes; i++) ranks *= mesh.axes[i].temporal ? 1 : mesh.axes[i].size;
  if (mesh.stages < 1 || ranks != p->t->ranks) return diag_error(p->d, DIAG_plan_model, loc, "the mesh has %.0f ranks, %s has %d", ranks, p->t->name, p->t->ranks);
  module_set_mesh(p->m, &mesh);
  p->plan->mesh = p->m->mesh;
  p->cuts = ARENA_ARRAY(p->m->arena, size_t, mesh.stages);
  for (int i = 1; i < mesh.stages; i++) p->cuts[i] = SIZE_MAX;
  return p->mesh = true;
}

static bool need_mesh(Parser *p) { return p->mesh || syntax(p, "a mesh line above"); }

static bool read_stage(Parser *p) {
  if (!need_mesh(p)) return false;
  spaces(p);
  Loc loc = here(p);
  int stage;
  if (!number(p, "the number of a stage", &stage)) return false;
  if (stage < 1 || stage >= p->plan->mesh.stages) return diag_error(p->d, DIAG_plan_model, loc, "stages begin from 1 to %d here", p->plan->mesh.stages - 1);
  if (p->cuts[stage] != SIZE_MAX) return diag_error(p->d, DIAG_plan_syntax, loc, "stage %d begins twice", stage);
  spaces(p);
  loc = here(p);
  const char *name = string(p, "the quoted name of an operation");
  if (!name) return false;
  for (size_t i = 0; i < p->f->ops.n; i++)
    if (strcmp(p->f->ops.items[i].name, name) == 0) p->cuts[stage] = i;
  if (p->cuts[stage] == SIZE_MAX) return diag_error(p->d, DIAG_plan_model, loc, "there is no operation \"%s\"", name);
  return true;
}

/* The operations a line matches get it as their line so far.  Most globs are plain names: those are looked up. */
static bool is_plain(const char *glob, Text *name) {
  for (; *glob; glob++) {
    if (*glob == '*') return false;
    if (*glob == '\\' && glob[1]) glob++;
    text_addn(name, glob, 1);
  }
  return true;
}

static int compare_named(const void *x, const void *y) { return strcmp(((const Named *)x)->name, ((const Named *)y)->name); }

static void match(Parser *p, OpLine *line, int number) {
  Text name = {.arena = p->m->arena};
  if (is_plain(line->glob, &name)) {
    const Named *found = bsearch(&(Named){text_str(&name), 0}, p->names, p->f->ops.n, sizeof *p->names, compare_named);
    if (found) p->line_of[found->op] = number;
    line->matched = found != NULL;
    return;
  }
  for (size_t i = 0; i < p->f->ops.n; i++) {
    if (!plan_glob(line->glob, p->f->ops.items[i].name)) continue;
    p->line_of[i] = number;
    line->matched = true;
  }
}

static bool read_op(Parser *p) {
  if (!need_mesh(p)) return false;
  spaces(p);
  OpLine line = {.name_loc = here(p)};
  line.glob = string(p, "the quoted name of an operation");
  if (!line.glob) return false;
  spaces(p);
  line.loc = here(p);
  const char *s = p->at;
  size_t n = strcspn(s, "}");
  if (*s != '{' || s[n] != '}') return syntax(p, "a strategy in braces");
  p->at += n + 1;
  line.strategy = arena_strndup(p->m->arena, s, n + 1);
  match(p, &line, (int)p->lines.n);
  ARENA_PUSH(p->m->arena, &p->lines, line);
  return true;
}

static bool read_line(Parser *p) {
  static const struct {
    const char *name;
    bool (*read)(Parser *);
  } statements[] = {{"graph", read_graph}, {"target", read_target}, {"mesh", read_mesh}, {"stage", read_stage}, {"op", read_op}};
  if (at_end(p)) return true;
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
    size_t n = strlen(statements[i].name);
    if (strncmp(p->at, statements[i].name, n) != 0 || word_char(p->at[n])) continue;
    p->at += n;
    if (!statements[i].read(p)) return false;
    return at_end(p) || syntax(p, "the end of the line");
  }
  return syntax(p, "graph, target, mesh, stage or op");
}

static bool read_lines(Parser *p, const char *text) {
  bool first = true;
  for (p->line = 1; *text; p->line++) {
    size_t n = strcspn(text, "\n");
    p->start = p->at = arena_strndup(p->m->arena, text, n);
    if (first && !at_end(p)) {
      first = false;
      if (!keyword(p, "apc.plan") || !keyword(p, "1") || !(at_end(p) || syntax(p, "the end of the line"))) return false;
    } else if (!read_line(p)) {
      return false;
    }
    text += n + (text[n] == '\n');
  }
  p->start = p->at = "";
  if (first) return syntax(p, "'apc.plan 1'");
  if (!p->graph || !p->target || !p->mesh) return syntax(p, !p->graph ? "a graph line" : !p->target ? "a target line" : "a mesh line");
  return true;
}

/* ---- from lines to a plan */

static int by_glob(const void *x, const void *y) {
  const OpLine *a = *(const OpLine *const *)x, *b = *(const OpLine *const *)y;
  int order = strcmp(a->glob, b->glob);
  return order ? order : a < b ? -1 : a > b;
}

static void warn_repeated(Parser *p) {
  const OpLine **sorted = ARENA_ARRAY(p->m->arena, const OpLine *, p->lines.n);
  for (size_t i = 0; i < p->lines.n; i++) sorted[i] = &p->lines.items[i];
  if (p->lines.n) qsort(sorted, p->lines.n, sizeof *sorted, by_glob);
  for (size_t i = 1; i < p->lines.n; i++)
    if (strcmp(sorted[i - 1]->glob, sorted[i]->glob) == 0)
      diag_warning(p->d, DIAG_plan_model, sorted[i]->name_loc, "\"%s\" has a line already (line %d); this one counts", sorted[i]->glob, sorted[i - 1]->name_loc.line);
}

/* A line of this graph that matches nothing is an error; of another graph, only when most lines do. */
static bool check_matches(Parser *p) {
  enum { NAMED = 3 };
  Text names = {.arena = p->m->arena};
  size_t missed = 0;
  Loc first = {0};
  for (size_t i = 0; i < p->lines.n; i++) {
    const OpLine *line = &p->lines.items[i];
    if (line->matched) continue;
    if (p->same_graph) diag_error(p->d, DIAG_plan_model, line->name_loc, "no operation is named \"%s\"", line->glob);
    if (missed++ == 0) first = line->name_loc;
    if (missed <= NAMED) text_printf(&names, "%s\"%s\"", missed > 1 ? ", " : "", line->glob);
  }
  if (!missed) return true;
  if (p->same_graph) return false;
  if (missed > NAMED) text_add(&names, " ...");
  if (2 * missed > p->lines.n)
    return diag_error(p->d, DIAG_plan_model, first, "the plan is for another model: %zu of %zu op lines match no operation: %s", missed, p->lines.n, text_str(&names));
  diag_warning(p->d, DIAG_plan_model, first, "%zu of %zu op lines match no operation: %s", missed, p->lines.n, text_str(&names));
  return true;
}

/* Only the line that counts has to fit: a wide glob may match operations that another line is for. */
static bool read_strategies(Parser *p) {
  for (size_t i = 0; i < p->f->ops.n; i++) {
    if (p->line_of[i] < 0) continue;
    const OpLine *line = &p->lines.items[p->line_of[i]];
    const char *why = NULL;
    if (strategy_parse(p->m, p->rules[i], line->strategy, &p->strategies[i], &why)) continue;
    Text rule = {.arena = p->m->arena};
    rule_print(p->m, &rule, p->rules[i]);
    diag_error(p->d, DIAG_plan_strategy, line->loc, "\"%s\" (%s) cannot have %s: %s", p->f->ops.items[i].name, op_name(p->f->ops.items[i].kind), line->strategy, why);
    diag_note(p->d, (Loc){0}, "its rule is %s", text_str(&rule));
    return false;
  }
  return true;
}

static bool place_stages(Parser *p) {
  int n = p->plan->mesh.stages;
  int *stages = ARENA_ARRAY(p->m->arena, int, p->f->ops.n);
  for (int s = 1; s < n; s++) {
    if (p->cuts[s] == SIZE_MAX) return syntax(p, arena_printf(p->m->arena, "a line for stage %d", s));
    if (p->cuts[s] <= (s > 1 ? p->cuts[s - 1] : 0)) return diag_error(p->d, DIAG_plan_model, here(p), "stage %d begins before stage %d", s, s - 1);
  }
  for (size_t i = 0; i < p->f->ops.n; i++) {
    int s = n - 1;
    while (s > 0 && p->cuts[s] > i) s--;
    stages[i] = cost_is_source(p->f->ops.items[i].kind) ? n : s;
  }
  /* Sources live where they are used first. */
  for (size_t i = 0; i < p->f->ops.n; i++)
    for (int j = 0; j < p->f->ops.items[i].nin; j++) {
      int made = p->f->values.items[p->f->ops.items[i].in[j]].op;
      if (stages[made] > stages[i]) stages[made] = stages[i];
    }
  for (size_t i = 0; i < p->f->ops.n; i++)
    if (stages[i] == n) stages[i] = 0;
  p->plan->stages = stages;
  return true;
}

/* Degrees by the names of the axes: tp, tp2 ... */
static int degree(const Mesh *mesh, const char *name) {
  size_t n = strlen(name);
  int d = 1;
  for (int i = 0; i < mesh->naxes; i++) {
    const char *axis = mesh->axes[i].name;
    bool same = strncmp(axis, name, n) == 0 && strspn(axis + n, "0123456789") == strlen(axis + n);
    if (same && !mesh->axes[i].temporal) d *= mesh->axes[i].size;
  }
  return d;
}

static bool complete(Parser *p) {
  Plan *plan = p->plan;
  CostModel *c = cost_model_new(p->m, p->t);
  plan->price = plan_price(c, p->m, p->f, p->rules, plan->strategies, plan->stages);
  plan->flops = plan_flops(c, p->m, p->f, p->rules);
  plan->params = plan_params(p->m, p->f);
  cost_model_free(c);
  plan->tp = degree(&plan->mesh, "tp"), plan->dp = degree(&plan->mesh, "dp"), plan->cp = degree(&plan->mesh, "cp"), plan->ep = degree(&plan->mesh, "ep");
  plan->pp = plan->mesh.stages;
  plan->micro_batches = 1;
  for (int i = 0; i < plan->mesh.naxes; i++)
    if (plan->mesh.axes[i].temporal) plan->micro_batches = plan->mesh.axes[i].size;
  if (plan->price.possible) return true;
  return diag_error(p->d, DIAG_plan_conversion, (Loc){.file = p->file}, "the strategies need a conversion that does not exist: micro-batches cannot be joined again");
}

static void index_names(Parser *p) {
  p->names = ARENA_ARRAY(p->m->arena, Named, p->f->ops.n);
  p->line_of = ARENA_ARRAY(p->m->arena, int, p->f->ops.n);
  for (size_t i = 0; i < p->f->ops.n; i++) {
    p->names[i] = (Named){p->f->ops.items[i].name, i};
    p->line_of[i] = -1;
  }
  if (p->f->ops.n) qsort(p->names, p->f->ops.n, sizeof *p->names, compare_named);
}

Plan *plan_parse(Module *m, const Func *f, const Target *t, const char *file, const char *text, Diags *d) {
  Parser p = {.m = m, .f = f, .t = t, .d = d, .rules = rules_of(m, f), .file = file, .plan = ARENA_NEW(m->arena, Plan)};
  diag_source(d, file, text);
  p.strategies = ARENA_ARRAY(m->arena, Strategy, f->ops.n);
  p.plan->target = arena_strdup(m->arena, t->name);
  p.plan->func = f->name;
  p.plan->ranks = t->ranks;
  p.plan->graph = plan_graph_hash(m, f);
  p.plan->strategies = p.strategies;
  index_names(&p);
  if (!read_lines(&p, text)) return NULL;
  warn_repeated(&p);
  return check_matches(&p) && read_strategies(&p) && place_stages(&p) && complete(&p) ? p.plan : NULL;
}
