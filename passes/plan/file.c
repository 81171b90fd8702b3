/* passes/plan/file.c - reads the text of a plan; see file.h.  One statement per line. */
#include "passes/plan/file.h"

#include <stdlib.h>
#include <string.h>

#include "ir/schedule.h"
#include "ir/shares.h"
#include "program/program.h"

enum { MAX_STAGES = 1 << 16 };

const char *const plan_line_names[ZERO_ROLES] = {"op", "store", "grad", "update"};

typedef struct Parser {
  Arena *a;
  Diags *d;
  const char *start, *at; /* current line and position in it */
  int line;
  PlanFile *f;
} Parser;

/* ---- one line */

static Loc here(const Parser *p) {
  return (Loc){.file = p->f->file, .line = p->line, .col = (int)(p->at - p->start) + 1};
}

static void spaces(Parser *p) { p->at += strspn(p->at, " \t\r"); }

static bool at_end(Parser *p) {
  spaces(p);
  return !*p->at || *p->at == '#';
}

static bool syntax(Parser *p, const char *wanted) {
  spaces(p);
  if (at_end(p)) return diag_error(p->d, DIAG_plan_syntax, here(p), "expected %s; the line ends here", wanted);
  return diag_error(p->d, DIAG_plan_syntax, here(p), "expected %s", wanted);
}

static bool word_char(char c) { return c && !strchr(" \t\r,[]{}=\"#", c); }

/* Returns the next word; NULL after a diagnostic. */
static const char *word(Parser *p, const char *wanted) {
  spaces(p);
  const char *s = p->at;
  while (word_char(*p->at)) p->at++;
  if (p->at == s) return syntax(p, wanted), NULL;
  return arena_strndup(p->a, s, (size_t)(p->at - s));
}

static bool keyword(Parser *p, const char *name) {
  spaces(p);
  size_t n = strlen(name);
  if (strncmp(p->at, name, n) != 0 || word_char(p->at[n])) return syntax(p, arena_printf(p->a, "'%s'", name));
  p->at += n;
  return true;
}

static bool punct(Parser *p, char c) {
  spaces(p);
  if (*p->at != c) return syntax(p, arena_printf(p->a, "'%c'", c));
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

/* Returns a quoted string with the escapes of text_quoted; NULL after a diagnostic. */
static const char *string(Parser *p, const char *wanted) {
  Text t = {.arena = p->a};
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
    else if (c == 'x' && hex(p->at[1]) >= 0 && hex(p->at[2]) >= 0)
      c = (char)(hex(p->at[1]) * 16 + hex(p->at[2])), p->at += 2;
    else if (c != '"' && c != '\\') return syntax(p, "one of \\\" \\\\ \\n \\t \\xHH"), NULL;
    text_addn(&t, &c, 1);
  }
  p->at++;
  return text_str(&t);
}

/* ---- statements */

static bool read_complete(Parser *p) {
  PlanFile *f = p->f;
  if (f->complete) return syntax(p, "only one complete line");
  f->complete = true;
  f->complete_loc = (Loc){.file = f->file, .line = p->line, .col = 1};
  return true;
}

/* True if the line already forces that name. */
static bool is_forced(const char *name, const PlanFileForce *f) {
  if (strcmp(name, "recompute") == 0) return f->recompute.kind != RECOMPUTE_auto;
  if (strcmp(name, "zero") == 0) return f->zero > 0;
  if (strcmp(name, "micro-batches") == 0) return f->micro_batches > 0;
  for (int d = 0; d < DEGREE_COUNT; d++)
    if (strcmp(name, degree_names[d]) == 0) return f->degree[d] > 0;
  return false;
}

static bool is_known(const char *name, const char *value, PlanFileForce *f) {
  char *end;
  long number = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : -1;
  bool is_number = number >= 0 && number <= 1000000 && !*end;
  if (strcmp(name, "recompute") == 0) return recompute_parse(value, &f->recompute);
  if (!is_number) return false;
  if (strcmp(name, "zero") == 0) return f->zero = 1 + (int)number, number < ZERO_STAGES;
  if (strcmp(name, "micro-batches") == 0) return f->micro_batches = (int)number, number > 0;
  for (int d = 0; d < DEGREE_COUNT; d++)
    if (strcmp(name, degree_names[d]) == 0) return f->degree[d] = (int)number, number > 0;
  return false;
}

/* Reads: force tp=2, zero=1, ... */
static bool read_force(Parser *p) {
  PlanFile *f = p->f;
  if (!f->complete) return syntax(p, "a complete line above");
  if (f->force.loc.line) return syntax(p, "only one force line");
  for (bool more = true; more;) {
    spaces(p);
    Loc loc = here(p);
    const char *name = word(p, "the name of a forced option");
    if (!name || !punct(p, '=')) return false;
    const char *value = word(p, "a value");
    if (!value) return false;
    if (is_forced(name, &f->force)) return diag_error(p->d, DIAG_plan_syntax, loc, "'%s' is forced twice", name);
    if (!is_known(name, value, &f->force))
      return diag_error(p->d, DIAG_plan_syntax, loc,
                        "'%s=%s' is none of tp=N, pp=N, dp=N, cp=N, ep=N, micro-batches=N, zero=0..3, recompute=POLICY",
                        name, value);
    if (!f->force.loc.line) f->force.loc = loc;
    more = !at_end(p);
    if (more && !punct(p, ',')) return false;
  }
  return true;
}

static bool read_graph(Parser *p) {
  PlanFile *f = p->f;
  if (f->func) return syntax(p, "only one graph line");
  if (!punct(p, '@')) return false;
  f->func_loc = here(p);
  f->func = word(p, "the name of a function");
  if (!f->func) return false;
  spaces(p);
  f->graph_loc = here(p);
  const char *digits = word(p, "a hash of 16 hexadecimal digits");
  if (!digits) return false;
  for (int i = 0; i < 16; i++) {
    if (hex(digits[i]) < 0)
      return diag_error(p->d, DIAG_plan_syntax, f->graph_loc, "expected a hash of 16 hexadecimal digits");
    f->graph = f->graph * 16 + (uint64_t)hex(digits[i]);
  }
  return !digits[16] || diag_error(p->d, DIAG_plan_syntax, f->graph_loc, "expected a hash of 16 hexadecimal digits");
}

static bool read_weight(Parser *p, double *out) {
  spaces(p);
  Loc loc = here(p);
  const char *text = word(p, "the weight of the entry");
  char *end = NULL;
  *out = text ? strtod(text, &end) : 0;
  return text && ((end > text && !*end && *out >= 0 && *out <= 1e18) ||
                  diag_error(p->d, DIAG_plan_syntax, loc, "'%s' is not a number of at least 0", text));
}

static bool read_entries(Parser *p) {
  double all = 0;
  if (p->f->entries.n) return syntax(p, "only one entries line");
  spaces(p);
  p->f->entries_loc = here(p);
  while (!at_end(p)) {
    spaces(p);
    const Loc loc = here(p);
    PlanFileEntry e = {.name = word(p, "the name of an entry")};
    if (!e.name || !punct(p, '=') || !read_weight(p, &e.weight)) return false;
    for (size_t i = 0; i < p->f->entries.n; i++)
      if (strcmp(p->f->entries.items[i].name, e.name) == 0)
        return diag_error(p->d, DIAG_plan_syntax, loc, "the entry '%s' is listed twice", e.name);
    all += e.weight;
    ARENA_PUSH(p->a, &p->f->entries, e);
  }
  return all > 0 || syntax(p, "a weight above 0 for at least one entry");
}

static bool read_target(Parser *p) {
  if (p->f->target) return syntax(p, "only one target line");
  p->f->target = word(p, "the name of a target");
  if (!p->f->target || !keyword(p, "ranks")) return false;
  spaces(p);
  p->f->ranks_loc = here(p);
  return number(p, "a number of ranks", &p->f->ranks);
}

/* True for names that IR text accepts for axes (docs/ir.md), because level 2 is printed with them. */
static bool is_axis_name(const char *s) {
  if (*s >= '0' && *s <= '9') return false;
  for (; *s; s++)
    if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !(*s >= '0' && *s <= '9') && *s != '_') return false;
  return true;
}

/* Reads: [shares 2:1:1] */
static bool read_shares(Parser *p, MeshAxis *axis) {
  spaces(p);
  if (strncmp(p->at, "shares", 6) != 0 || word_char(p->at[6])) return true;
  p->at += 6;
  spaces(p);
  axis->shares = axis->size <= MAX_SHARED ? mesh_shares_read(p->a, &p->at, axis->size) : NULL;
  if (!axis->shares)
    return diag_error(p->d, DIAG_plan_syntax, here(p), "expected %d shares from 1 to %d, as 2:1", axis->size,
                      MAX_SHARE);
  if (mesh_shares_equal(axis->shares, axis->size)) axis->shares = NULL;
  return true;
}

static bool read_axis(Parser *p, Mesh *mesh) {
  spaces(p);
  Loc loc = here(p);
  const char *name = word(p, "the name of a mesh axis");
  if (name && !is_axis_name(name))
    return diag_error(p->d, DIAG_plan_syntax, loc,
                      "'%s' cannot name a mesh axis: use letters, digits and '_', no digit first", name);
  int size = 0;
  if (!name || !punct(p, '=') || !number(p, "the size of the axis", &size)) return false;
  if (mesh->naxes == MAX_AXES) return diag_error(p->d, DIAG_plan_syntax, loc, "a mesh has at most %d axes", MAX_AXES);
  if (mesh_axis_find(mesh, name) >= 0)
    return diag_error(p->d, DIAG_plan_syntax, loc, "the axis '%s' is listed twice", name);
  if (size < 1) return diag_error(p->d, DIAG_plan_syntax, loc, "the axis '%s' has no ranks", name);
  spaces(p);
  bool temporal = strncmp(p->at, "time", 4) == 0 && !word_char(p->at[4]);
  if (temporal) p->at += 4;
  for (int i = 0; temporal && i < mesh->naxes; i++)
    if (mesh->axes[i].temporal) return diag_error(p->d, DIAG_plan_syntax, loc, "a mesh has at most one time axis");
  if (temporal && size > PROGRAM_MAX_MICRO_BATCHES)
    return diag_error(p->d, DIAG_plan_model, loc, "there are at most %d micro-batches", PROGRAM_MAX_MICRO_BATCHES);
  mesh->axes[mesh->naxes++] = (MeshAxis){.name = name, .size = size, .temporal = temporal};
  return temporal || read_shares(p, &mesh->axes[mesh->naxes - 1]);
}

static bool read_mesh(Parser *p) {
  Mesh mesh = {.stages = 1};
  if (p->f->stages) return syntax(p, "only one mesh line");
  if (p->f->scheduled) return syntax(p, "the mesh line above the schedule line");
  p->f->mesh_loc = here(p);
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
  if (!mesh_shares_fit(&mesh))
    return diag_error(p->d, DIAG_plan_syntax, p->f->mesh_loc, "the shares of all axes are more than %d parts",
                      MAX_SHARE_PARTS);
  if (mesh.stages < 1 || mesh.stages > MAX_STAGES)
    return diag_error(p->d, DIAG_plan_model, p->f->mesh_loc, "a mesh has 1 to %d stages", MAX_STAGES);
  p->f->mesh = mesh;
  p->f->stages = ARENA_ARRAY(p->a, PlanFileStage, mesh.stages);
  return true;
}

/* Reads the schedule of a training pipeline. */
static bool read_schedule(Parser *p) {
  spaces(p);
  size_t n = strcspn(p->at, " \t#");
  if (!p->f->stages && !p->f->complete) return syntax(p, "a mesh line above");
  if (p->f->scheduled && p->f->complete) return syntax(p, "only one schedule line");
  Mesh *mesh = &p->f->mesh;
  p->f->scheduled = true, p->f->schedule_loc = here(p);
  if (!schedule_parse(p->at, n, &mesh->schedule, &mesh->chunks))
    return diag_error(p->d, DIAG_plan_model, here(p), "there is no schedule '%.*s'", (int)n, p->at);
  if (p->f->stages && mesh->chunks > 1 && (mesh->stages % mesh->chunks || mesh_micro_batches(mesh) == 1))
    return diag_error(p->d, DIAG_plan_model, here(p),
                      "schedule %.*s needs a multiple of %d stages and several micro-batches; the mesh has %d stages "
                      "and %d micro-batches",
                      (int)n, p->at, mesh->chunks, mesh->stages, mesh_micro_batches(mesh));
  p->at += n;
  return true;
}

/* Reads what the plan keeps outside the memory of the devices. */
static bool read_offload(Parser *p) {
  spaces(p);
  size_t n = strcspn(p->at, " \t#");
  Offload *o = &p->f->offload;
  if (p->f->offload_loc.line) return syntax(p, "only one offload line");
  p->f->offload_loc = here(p);
  if (!offload_find(p->at, n, o) || *o == OFFLOAD_auto)
    return diag_error(p->d, DIAG_plan_model, here(p), "a plan keeps none or moments away, not '%.*s'", (int)n, p->at);
  p->at += n;
  return true;
}

static bool need_mesh(Parser *p) { return p->f->stages || syntax(p, "a mesh line above"); }

static bool read_stage(Parser *p) {
  if (!need_mesh(p)) return false;
  spaces(p);
  Loc loc = here(p);
  int stage = 0;
  if (!number(p, "the number of a stage", &stage)) return false;
  if (p->f->mesh.stages == 1)
    return diag_error(p->d, DIAG_plan_model, loc, "the mesh line above has one stage, which begins with the model");
  if (stage < 1 || stage >= p->f->mesh.stages)
    return diag_error(p->d, DIAG_plan_model, loc, "stage %d of %d does not exist, or begins with the model (stage 0)",
                      stage, p->f->mesh.stages);
  if (p->f->stages[stage].op) return diag_error(p->d, DIAG_plan_syntax, loc, "stage %d begins twice", stage);
  spaces(p);
  PlanFileStage s = {.loc = here(p)};
  s.op = string(p, "the quoted name of an operation");
  p->f->stages[stage] = s;
  return s.op != NULL;
}

/* Reads: gather once|use; without it: once. */
static bool read_gather(Parser *p, bool *at_use) {
  if (at_end(p)) return true;
  if (!keyword(p, "gather")) return false;
  spaces(p);
  *at_use = strncmp(p->at, "use", 3) == 0;
  return *at_use ? keyword(p, "use") : keyword(p, "once");
}

static bool read_line_of(Parser *p, ZeroRole kind) {
  if (!p->f->complete && !need_mesh(p)) return false;
  spaces(p);
  PlanFileOp op = {.kind = kind, .glob_loc = here(p)};
  op.glob = string(p, "the quoted name of an operation");
  if (!op.glob) return false;
  spaces(p);
  op.strategy_loc = here(p);
  const char *s = p->at;
  size_t n = strcspn(s, "}");
  if (*s != '{' || s[n] != '}') return syntax(p, "a strategy in braces");
  p->at += n + 1;
  op.strategy = arena_strndup(p->a, s, n + 1);
  if (kind == ZERO_STORE && !read_gather(p, &op.gather_at_use)) return false;
  op.again = kind == ZERO_OP && !at_end(p);
  if (op.again && !keyword(p, "again")) return false;
  ARENA_PUSH(p->a, &p->f->ops, op);
  return true;
}

static bool read_op(Parser *p) { return read_line_of(p, ZERO_OP); }
static bool read_store(Parser *p) { return read_line_of(p, ZERO_STORE); }
static bool read_grad(Parser *p) { return read_line_of(p, ZERO_GRAD); }
static bool read_update(Parser *p) { return read_line_of(p, ZERO_UPDATE); }

static void keep_comment(Parser *p) {
  spaces(p);
  if (*p->at != '#') return;
  const char *text = p->at + 1;
  ARENA_PUSH(p->a, &p->f->comments, text + strspn(text, " \t"));
}

static bool read_line(Parser *p) {
  static const struct {
    const char *name;
    bool (*read)(Parser *);
  } statements[] = {{"graph", read_graph},    {"entries", read_entries},   {"target", read_target},
                    {"mesh", read_mesh},      {"schedule", read_schedule}, {"stage", read_stage},
                    {"op", read_op},          {"store", read_store},       {"grad", read_grad},
                    {"update", read_update},  {"complete", read_complete}, {"force", read_force},
                    {"offload", read_offload}};
  keep_comment(p);
  if (at_end(p)) return true;
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
    size_t n = strlen(statements[i].name);
    if (strncmp(p->at, statements[i].name, n) != 0 || word_char(p->at[n])) continue;
    p->at += n;
    if (!statements[i].read(p)) return false;
    return at_end(p) || syntax(p, "the end of the line");
  }
  return syntax(p,
                "graph, entries, target, mesh, schedule, offload, stage, op, store, grad, update, complete or force");
}

/* Checks that all stages have lines, or none. */
static bool all_borders(Parser *p) {
  int said = 0, missing = 0;
  for (int s = 1; p->f->stages && s < p->f->mesh.stages; s++)
    if (p->f->stages[s].op) said = s;
    else missing = s;
  return !said || !missing ||
         diag_error(p->d, DIAG_plan_syntax, p->f->stages[said].loc,
                    "stage %d has a line and stage %d has none: give a line for every stage from 1 on, or for none",
                    said, missing);
}

static bool read_lines(Parser *p, const char *text) {
  bool first = true;
  for (p->line = 1; *text; p->line++) {
    size_t n = strcspn(text, "\n");
    p->start = p->at = arena_strndup(p->a, text, n);
    if (first && !at_end(p)) {
      first = false;
      if (!keyword(p, "apc.plan") || !keyword(p, "1") || !(at_end(p) || syntax(p, "the end of the line"))) return false;
    } else if (!read_line(p)) {
      return false;
    }
    text += n + (text[n] == '\n');
  }
  p->start = p->at = "";
  p->f->end = here(p);
  if (first) return syntax(p, "'apc.plan 1'");
  if (p->f->complete) return all_borders(p);
  if (!p->f->func || !p->f->target || !p->f->stages)
    return syntax(p, !p->f->func ? "a graph line" : !p->f->target ? "a target line" : "a mesh line");
  for (int s = 1; s < p->f->mesh.stages; s++)
    if (!p->f->stages[s].op) return syntax(p, arena_printf(p->a, "a line for stage %d", s));
  return true;
}

PlanFile *plan_file_read(Arena *a, const char *file, const char *text, Diags *d) {
  Parser p = {.a = a, .d = d, .f = ARENA_NEW(a, PlanFile)};
  p.f->file = file;
  diag_source(d, file, text);
  return read_lines(&p, text) ? p.f : NULL;
}

bool plan_file_pick(Arena *a, const char **at, const char **factor, const char **axes) {
  const char *s = *at + strspn(*at, "{, \t");
  size_t n = strcspn(s, ":,} \t"), k = s[n] == ':' ? strcspn(s + n + 1, ",} \t") : 0;
  if (!n || !k) return false;
  *factor = arena_strndup(a, s, n);
  *axes = arena_strndup(a, s + n + 1, k);
  *at = s + n + 1 + k;
  return true;
}
