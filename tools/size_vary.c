/* tools/size_vary.c - see size.h: the largest batch, context, number of layers or width.
 *
 * In: a model, a target, limits.  Out: the largest value that fits, and the smallest tried value above it, which does
 * not.  The first value is that of the line or the model.  It is doubled until it does not fit (or halved until it
 * does), then the gap is bisected: down to 1 for values up to 64, above that to a step of a power of two units that is
 * at most a fortieth of the value.  Values above one that does not fit are not tried, so a larger value that fits for
 * other reasons (better divisibility, for example) is not found.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "tools/size.h"

static const int64_t largest_value = (int64_t)1 << 40;
static const int64_t steps_in_value = 40;

/* ---- dimensions */

/* True for names that models give to the length of a sequence. */
static bool is_sequence(const char *name) {
  static const char *const names[] = {"seq",        "sequence",        "seq_len",       "seqlen",
                                      "seq_length", "sequence_length", "sequence_len",  "ctx",
                                      "context",    "n_ctx",           "context_length"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcasecmp(name, names[i]) == 0) return true;
  return false;
}

static int sequence_dimension(Arena *a, const Model *m) {
  const int *symbols;
  int n = model_dimensions(a, m, &symbols);
  for (int i = 0; i < n; i++)
    if (is_sequence(m->m->symbols.items[symbols[i]].name)) return symbols[i];
  return -1;
}

static bool no_dimension(const Sizing *s, const Model *m, const char *word) {
  Diags *d = s->t->diags;
  const int *symbols;
  int n = model_dimensions(s->t->arena, m, &symbols);
  Text names = {.arena = s->t->arena};
  for (int i = 0; i < n; i++) text_printf(&names, "%s'%s'", i ? ", " : "", m->m->symbols.items[symbols[i]].name);
  diag_error(d, DIAG_dimension, (Loc){.file = s->path},
             "--vary %s: the inputs of the model have no symbolic dimension for it", word);
  if (n) diag_help(d, "they have %s", text_str(&names));
  else diag_help(d, "they have no symbolic dimension");
  return false;
}

/* Returns the size that the line binds a dimension to; 0 if it does not. */
static int64_t bound_size(const Sizing *s, const char *name) {
  const Options *o = &s->t->options;
  int64_t size = s->vary == VARY_batch ? option_int(o, OPT_batch, 0) : 0;
  size_t at = 0;
  for (const OptionUse *u; !size && (u = option_next(o, OPT_dim, &at));) (void)sizing_without(s, u->value, name, &size);
  return size;
}

static bool take_dimension(Sizing *s, const Model *m, int symbol) {
  const char *word = s->vary == VARY_batch ? "batch" : "ctx";
  if (symbol < 0) return no_dimension(s, m, word);
  if (option_given(&s->t->options, OPT_shape))
    return diag_error(s->t->diags, DIAG_usage_option, (Loc){0},
                      "--shape binds the dimension that --vary %s changes: bind the other dimensions with --dim", word);
  const Symbol *sym = &m->m->symbols.items[symbol];
  s->unit = sym->multiple;
  s->least = module_symbol_from(sym, sym->min > 1 ? sym->min : 1);
  s->most_of_model = sym->max > 0;
  s->most = s->most_of_model ? sym->max : largest_value;
  int64_t bound = bound_size(s, sym->name);
  s->start = bound ? bound : symbol_hint(sym);
  s->dimension = arena_strdup(s->t->arena, sym->name);
  return true;
}

/* ---- parameters */

static const DslParameter *find(const DslParameters *list, const char *name) {
  for (size_t i = 0; i < list->n; i++)
    if (list->items[i].whole && strcmp(list->items[i].name, name) == 0) return &list->items[i];
  return NULL;
}

static bool no_parameter(const Sizing *s, const DslParameters *list, const char *name) {
  Text names = {.arena = s->t->arena};
  for (size_t i = 0; i < list->n; i++)
    if (list->items[i].whole) text_printf(&names, "%s%s", names.n ? ", " : "", list->items[i].name);
  diag_error(s->t->diags, DIAG_dsl_define, (Loc){.file = s->path},
             "--vary %s: the model has no parameter '%s' that is an integer", name, name);
  diag_help(s->t->diags, names.n ? "it has %s" : "it has no such parameters", text_str(&names));
  return false;
}

/* A width is a whole number of heads; heads of an even size stay even, as rotary positions need. */
static int64_t width_unit(const DslParameters *list, int64_t width) {
  const DslParameter *heads = find(list, "heads");
  if (!heads || heads->value < 1 || width % heads->value) return 1;
  return width / heads->value % 2 ? heads->value : 2 * heads->value;
}

static bool take_parameter(Sizing *s, const DslParameters *list, const char *name) {
  const DslParameter *p = find(list, name);
  if (!p) return no_parameter(s, list, name);
  s->parameter = name;
  s->start = p->value;
  s->unit = s->vary == VARY_d ? width_unit(list, p->value) : 1;
  s->least = s->unit, s->most = largest_value;
  return true;
}

/* ---- the varied quantity */

/* Sets both the parameter that limits the context, if the model has one, and the sequence length to plan for. */
static bool take_context(Sizing *s, const Model *m, const DslParameters *list) {
  if (!take_dimension(s, m, sequence_dimension(s->t->arena, m))) return false;
  const DslParameter *ctx = find(list, "ctx");
  if (!ctx) return true;
  int64_t bound = bound_size(s, s->dimension);
  if (!take_parameter(s, list, "ctx")) return false;
  s->most_of_model = false;
  if (bound) s->start = bound;
  return true;
}

static bool take(Sizing *s, const Model *m, const DslParameters *list) {
  switch (s->vary) {
    case VARY_batch: return take_dimension(s, m, model_batch_dimension(m->m));
    case VARY_ctx: return take_context(s, m, list);
    case VARY_layers: return take_parameter(s, list, "layers");
    case VARY_d: return take_parameter(s, list, "d");
    default: return true;
  }
}

bool sizing_vary_begin(Sizing *s) {
  Tool one = *s->t;
  Model model;
  DslParameters list = {.arena = s->t->arena};
  bool of_parameter = s->vary == VARY_layers || s->vary == VARY_d;
  if (of_parameter && model_kind(s->path) != MODEL_APC)
    return diag_error(s->t->diags, DIAG_usage_option, (Loc){0},
                      "--vary %s sets a parameter of .apc models; %s has none", option_text(&s->t->options, OPT_vary),
                      s->path);
  one.options = sizing_line_open(s);
  one.quiet = true, one.times = false;
  bool ok = tool_model_parameters(&one, s->path, &list, &model) && take(s, &model, &list);
  model_free(&model);
  return ok;
}

/* ---- values */

static int64_t step_at(const Sizing *s, int64_t value) {
  int64_t step = s->unit;
  while (2 * step <= value / steps_in_value) step *= 2;
  return step;
}

/* Finds the smallest value that does not fit, and the largest below it that does; 0 if none. */
static void bounds(const Sizing *s, int64_t *fits, int64_t *fails) {
  *fits = *fails = 0;
  for (size_t i = 0; i < s->tries.n; i++) {
    const SizeTry *x = &s->tries.items[i];
    if (!x->fits && (!*fails || x->number < *fails)) *fails = x->number;
  }
  for (size_t i = 0; i < s->tries.n; i++) {
    const SizeTry *x = &s->tries.items[i];
    if (x->fits && x->number > *fits && (!*fails || x->number < *fails)) *fits = x->number;
  }
}

static int64_t at_least(int64_t v, int64_t least) { return v > least ? v : least; }
static int64_t at_most(int64_t v, int64_t most) { return v < most ? v : most; }

/* Returns the next value to try; 0 if none. */
static int64_t next_value(const Sizing *s) {
  int64_t fits, fails;
  bounds(s, &fits, &fails);
  if (!fits && !fails) return at_most(at_least(s->start, s->least), s->most);
  if (!fails) return fits < s->most ? at_most(2 * fits, s->most) : 0;
  if (!fits) return fails > s->least ? at_least(fails / 2 / s->unit * s->unit, s->least) : 0;
  int64_t step = step_at(s, fits), middle = (fits + fails) / 2 / step * step;
  if (fails - fits <= step) return 0;
  return middle > fits ? middle : (fits / step + 1) * step;
}

static SizeTry *try_of(Sizing *s, int64_t number) {
  for (size_t i = 0; i < s->tries.n; i++)
    if (s->tries.items[i].number == number) return &s->tries.items[i];
  return NULL;
}

/* Searches the values on both sides of the border fully, which may move one of them to the other side. */
static bool border_moved(Sizing *s) {
  int64_t fits, fails;
  bounds(s, &fits, &fails);
  SizeTry *below = try_of(s, fits), *above = try_of(s, fails);
  if (above && sizing_doubtful(above) && sizing_confirm(s, above)) return true;
  return below && below->quick && !sizing_confirm(s, below);
}

SizeTry *sizing_vary_search(Sizing *s, bool *ok) {
  int64_t fits, fails;
  *ok = true;
  for (;;) {
    SizeTry *x;
    int64_t value = next_value(s);
    if (value && !(*ok = sizing_try(s, value, s->target->name, &x))) return NULL;
    if (!value && !border_moved(s)) break;
  }
  bounds(s, &fits, &fails);
  return try_of(s, fits);
}
