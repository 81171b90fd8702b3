/* frontend/topo/check.c - checks parsed blocks against the table topo.def: known statements, their values, how often
 * they occur.
 *
 * A pattern's capital words are slots: a dimension of topo.def (a number with one of its units, above 0; times may
 * be 0), COUNT (an integer from 1), NUMBER (from 0), SHARE (above 0, at most 2), NAME (a word), TYPE (a word of
 * ir/compute.def), TERMS (one of ir/price.def), STRING, DATE, TILE.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/nearest.h"
#include "frontend/topo/topo.h"
#include "ir/target.h"

typedef enum Need { ONCE, MUST, MANY, SOME, EACH } Need;

typedef struct Field {
  unsigned blocks;
  const char *name;
  Need need;
  const char *pattern, *brief;
} Field;

#define B(kind) (1u << TOPO_##kind)
enum {
  DEVICES = 0u
#define DEVICE(id, word, ...) | B(word)
#include "ir/device.def"
};
static const Field fields[] = {
#define FIELD(blocks, name, need, pattern, brief) {blocks, #name, need, pattern, brief},
#include "frontend/topo/topo.def"
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static const struct {
  const char *dimension, *name;
  double factor;
} units[] = {
#define UNIT(dimension, name, factor) {#dimension, name, factor},
#include "frontend/topo/topo.def"
#undef UNIT
};
enum { UNITS = sizeof units / sizeof *units };

static const char *const kind_names[] = {
#define BLOCK(kind, brief) #kind,
#include "frontend/topo/topo.def"
#undef BLOCK
};

const char *topo_kind_name(TopoKind k) { return kind_names[k]; }

bool topo_kind_find(const char *word, TopoKind *out) {
  for (int k = 0; k < TOPO_KINDS; k++)
    if (strcmp(kind_names[k], word) == 0) return *out = (TopoKind)k, true;
  return false;
}

bool topo_unit(const char *word, double *factor) {
  for (int i = 0; i < UNITS; i++)
    if (strcmp(units[i].name, word) == 0) return *factor = units[i].factor, true;
  return false;
}

const TopoStatement *topo_find(const TopoBlock *b, const char *name, const TopoStatement *after) {
  for (const TopoStatement *s = after ? after->next : b->first; s; s = s->next)
    if (strcmp(s->name, name) == 0) return s;
  return NULL;
}

void topo_error(TopoParse *p, TopoPlace at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(p->arena, format, args);
  va_end(args);
  p->errors++;
  diag_error(p->diags, DIAG_target_syntax, (Loc){.file = p->file, .line = at.first_line, .col = at.first_column}, "%s",
             text);
}

/* ---- one statement */

typedef struct Match {
  Diags *d;
  TopoStatement *s;
  int at, nslots;
} Match;

static const TopoValue *current(const Match *m) { return m->at < m->s->nvalues ? &m->s->values[m->at] : NULL; }

static bool is_dimension(const char *slot) {
  for (int i = 0; i < UNITS; i++)
    if (strcmp(units[i].dimension, slot) == 0) return true;
  return false;
}

/* "a unit of B, KB, ..." */
static const char *units_of(Arena *a, const char *dimension) {
  Text t = {.arena = a};
  for (int i = 0; i < UNITS; i++)
    if (strcmp(units[i].dimension, dimension) == 0) text_printf(&t, "%s%s", t.n ? ", " : "", units[i].name);
  return text_str(&t);
}

/* "on-demand, spot or reserved" */
static const char *terms_text(Arena *a) {
  Text t = {.arena = a};
  for (int i = 0; i < PRICE_KINDS; i++)
    text_printf(&t, "%s%s", i == 0 ? "" : i + 1 < PRICE_KINDS ? ", " : " or ", price_name((PriceKind)i));
  return text_str(&t);
}

static const char *wanted_text(Arena *a, const char *slot) {
  if (is_dimension(slot)) return arena_printf(a, "a number with a unit (%s)", units_of(a, slot));
  if (strcmp(slot, "COUNT") == 0) return "a whole number";
  if (strcmp(slot, "NUMBER") == 0 || strcmp(slot, "SHARE") == 0) return "a number without a unit";
  if (strcmp(slot, "NAME") == 0) return "a name";
  if (strcmp(slot, "TYPE") == 0) return "a type (f32, tf32, bf16, ...)";
  if (strcmp(slot, "TERMS") == 0) return terms_text(a);
  if (strcmp(slot, "STRING") == 0) return "a text in quotes";
  if (strcmp(slot, "DATE") == 0) return "a date (2026-07-20)";
  return strcmp(slot, "TILE") == 0 ? "a tile (128x256)" : arena_printf(a, "'%s'", slot);
}

static bool wanted(const Match *m, const char *slot) {
  const TopoValue *v = current(m);
  Loc at = v ? v->loc : m->s->loc;
  const char *what = wanted_text(m->d->arena, slot);
  if (!v) return diag_error(m->d, DIAG_target_syntax, at, "'%s' ends early, expected %s", m->s->name, what);
  return diag_error(m->d, DIAG_target_syntax, at, "expected %s, found '%s%s%s'", what, v->text, v->unit ? " " : "",
                    v->unit ? v->unit : "");
}

static bool quantity_fits(const Match *m, const TopoValue *v, const char *dimension) {
  if (v->kind != TV_NUMBER || !v->unit) return wanted(m, dimension);
  for (int i = 0; i < UNITS; i++) {
    if (strcmp(units[i].name, v->unit) != 0) continue;
    if (strcmp(units[i].dimension, dimension) != 0) return wanted(m, dimension);
  }
  bool zero = strcmp(dimension, "TIME") == 0 && v->number == 0;
  if (isinf(v->number)) return diag_error(m->d, DIAG_target_syntax, v->loc, "the number is too large");
  return zero || (v->number > 0 && isfinite(v->number)) ||
         diag_error(m->d, DIAG_target_syntax, v->loc, "'%s' must be above 0", m->s->name);
}

static bool plain_number_fits(const Match *m, const TopoValue *v, const char *slot) {
  if (v->kind != TV_NUMBER || v->unit) return wanted(m, slot);
  bool whole = strcmp(slot, "COUNT") == 0, share = strcmp(slot, "SHARE") == 0;
  if (whole && (v->number < 1 || v->number > 1e6 || v->number != floor(v->number)))
    return diag_error(m->d, DIAG_target_syntax, v->loc, "'%s' must be a whole number from 1 to 1000000", m->s->name);
  if (share && (v->number <= 0 || v->number > 2))
    return diag_error(m->d, DIAG_target_syntax, v->loc, "a share must be above 0 and at most 2");
  return isfinite(v->number) || diag_error(m->d, DIAG_target_syntax, v->loc, "the number is too large");
}

static bool type_fits(const Match *m, const TopoValue *v) {
  ComputeType type;
  if (v->kind != TV_WORD) return wanted(m, "TYPE");
  if (compute_find(v->text, &type)) return true;
  Nearest near = nearest_to(v->text);
  for (int i = 0; i < CT_COUNT; i++) nearest_try(&near, compute_name((ComputeType)i));
  diag_error(m->d, DIAG_target_syntax, v->loc, "there is no type '%s'", v->text);
  if (near.best) diag_help(m->d, "the nearest is '%s'", near.best);
  return false;
}

/* True for days of the calendar, as timegm counts them: it turns 30 February into a day of March. */
static bool date_fits(const Match *m, const TopoValue *v) {
  int year = 0, month = 0, day = 0;
  if (v->kind != TV_DATE || sscanf(v->text, "%d-%d-%d", &year, &month, &day) != 3) return wanted(m, "DATE");
  struct tm t = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
  timegm(&t);
  return (t.tm_year == year - 1900 && t.tm_mon == month - 1 && t.tm_mday == day) || wanted(m, "DATE");
}

static bool terms_fit(const Match *m, const TopoValue *v) {
  PriceKind kind;
  return (v->kind == TV_WORD && price_find(v->text, &kind)) || wanted(m, "TERMS");
}

static bool slot_fits(const Match *m, const char *slot) {
  const TopoValue *v = current(m);
  if (!v) return wanted(m, slot);
  if (is_dimension(slot)) return quantity_fits(m, v, slot);
  if (strcmp(slot, "COUNT") == 0 || strcmp(slot, "NUMBER") == 0 || strcmp(slot, "SHARE") == 0)
    return plain_number_fits(m, v, slot);
  if (strcmp(slot, "TYPE") == 0) return type_fits(m, v);
  if (strcmp(slot, "DATE") == 0) return date_fits(m, v);
  if (strcmp(slot, "TERMS") == 0) return terms_fit(m, v);
  TopoValueKind kind = strcmp(slot, "NAME") == 0 ? TV_WORD : strcmp(slot, "STRING") == 0 ? TV_STRING : TV_TILE;
  return v->kind == kind || wanted(m, slot);
}

/* Copies the next word of a pattern to `word`; NULL at its end. */
static const char *next_word(const char *pattern, char word[16]) {
  size_t n;
  pattern += strspn(pattern, " ");
  if (!*pattern) return NULL;
  n = *pattern == '[' || *pattern == ']' ? 1 : strcspn(pattern, " []");
  memcpy(word, pattern, n);
  word[n] = 0;
  return pattern + n;
}

static bool is_slot(const char *word) { return word[0] >= 'A' && word[0] <= 'Z'; }

/* Skips an optional part whose first word is absent; its slots stay NULL. */
static const char *skip_optional(Match *m, const char *pattern) {
  char word[16];
  while ((pattern = next_word(pattern, word)) && strcmp(word, "]") != 0)
    if (is_slot(word)) m->s->slots[m->nslots++] = NULL;
  return pattern;
}

static bool literal_here(const Match *m, const char *word) {
  const TopoValue *v = current(m);
  return v && v->kind == TV_WORD && strcmp(v->text, word) == 0;
}

static bool match_pattern(Match *m, const char *pattern) {
  char word[16];
  while ((pattern = next_word(pattern, word))) {
    if (strcmp(word, "]") == 0) continue;
    if (strcmp(word, "[") == 0) {
      const char *inside = next_word(pattern, word);
      if (!literal_here(m, word)) pattern = skip_optional(m, pattern);
      else m->at++, pattern = inside;
    } else if (is_slot(word)) {
      if (!slot_fits(m, word)) return false;
      m->s->slots[m->nslots++] = &m->s->values[m->at++];
    } else {
      if (!literal_here(m, word)) return wanted(m, word);
      m->at++;
    }
  }
  const TopoValue *v = current(m);
  return !v || diag_error(m->d, DIAG_target_syntax, v->loc, "'%s' takes no further values: unexpected '%s'", m->s->name,
                          v->text);
}

static bool check_statement(Diags *d, const TopoBlock *b, TopoStatement *s) {
  Nearest near = nearest_to(s->name);
  for (s->field = 0; s->field < FIELDS; s->field++) {
    const Field *f = &fields[s->field];
    if (!((f->blocks >> b->kind) & 1u)) continue;
    if (strcmp(f->name, s->name) == 0) break;
    nearest_try(&near, f->name);
  }
  if (s->field == FIELDS) {
    diag_error(d, DIAG_target_syntax, s->loc, "a %s block has no statement '%s'", kind_names[b->kind], s->name);
    if (near.best) diag_help(d, "the nearest is '%s'", near.best);
    return false;
  }
  Match m = {.d = d, .s = s};
  return match_pattern(&m, fields[s->field].pattern);
}

/* ---- one block */

/* The value that distinguishes statements of the same name; NULL if there is none or it was omitted. */
static const TopoValue *key_of(const TopoStatement *s) {
  const Field *f = &fields[s->field];
  int slots = 0;
  char word[16];
  for (const char *p = f->pattern; (p = next_word(p, word));) slots += is_slot(word);
  return f->need == MANY || f->need == SOME ? s->slots[0] : f->need == EACH ? s->slots[slots - 1] : NULL;
}

static bool same_key(const TopoStatement *a, const TopoStatement *b) {
  if (strcmp(a->name, b->name) != 0) return false;
  const TopoValue *x = key_of(a), *y = key_of(b);
  if (!x || !y) return x == y;
  bool names = x->kind != TV_STRING && x->kind != TV_NUMBER;
  return names && x->kind == y->kind && strcmp(x->text, y->text) == 0;
}

static bool check_repeats(Diags *d, const TopoBlock *b) {
  bool ok = true;
  for (const TopoStatement *s = b->first; s; s = s->next) {
    for (const TopoStatement *t = b->first; t != s; t = t->next) {
      if (!same_key(s, t)) continue;
      const TopoValue *key = key_of(s);
      ok = diag_error(d, DIAG_target_syntax, s->loc, "'%s%s%s' is given twice", s->name, key ? " " : "",
                      key ? key->text : "");
      break;
    }
  }
  return ok;
}

static bool check_needs(Diags *d, const TopoBlock *b) {
  bool ok = true;
  for (int i = 0; i < FIELDS; i++)
    if ((fields[i].need == MUST || fields[i].need == SOME) && ((fields[i].blocks >> b->kind) & 1u) &&
        !topo_find(b, fields[i].name, NULL))
      ok = diag_error(d, DIAG_target_syntax, b->loc, "%s '%s' needs a statement '%s': %s", kind_names[b->kind], b->name,
                      fields[i].name, fields[i].brief);
  return ok;
}

static bool check_block(Diags *d, const TopoBlock *b) {
  bool ok = true;
  for (TopoStatement *s = b->first; s; s = s->next) ok = check_statement(d, b, s) && ok;
  return ok && check_repeats(d, b) && check_needs(d, b);
}

bool topo_check(Diags *d, const TopoFile *file) {
  bool ok = true;
  for (const TopoBlock *b = file->first; b; b = b->next) {
    ok = check_block(d, b) && ok;
    for (const TopoBlock *other = file->first; other != b; other = other->next)
      if (other->kind == b->kind && strcmp(other->name, b->name) == 0)
        ok = diag_error(d, DIAG_target_syntax, b->loc, "%s '%s' exists already", kind_names[b->kind], b->name);
  }
  return ok;
}

/* ---- printing */

static void print_value(Text *out, const TopoValue *v) {
  if (v->kind == TV_STRING) text_printf(out, " \"%s\"", v->text);
  else text_printf(out, " %s", v->text);
  if (v->unit) text_printf(out, " %s", v->unit);
}

void topo_print_block(Text *out, const TopoBlock *b) {
  text_printf(out, "%s %s {\n", kind_names[b->kind], b->name);
  for (int i = 0; i < FIELDS; i++)
    for (const TopoStatement *s = b->first; s; s = s->next) {
      if (s->field != i) continue;
      text_printf(out, "  %s", s->name);
      for (int k = 0; k < s->nvalues; k++) print_value(out, &s->values[k]);
      text_add(out, ";\n");
    }
  text_add(out, "}\n");
}
