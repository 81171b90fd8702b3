/* ir/layout/rule.c - factor rules of operations: parsed from their records' text, or made by their records' functions.
 *
 * A rule depends on the operation's attributes and on its operand and result types.  Regular operations need only text;
 * operations that rearrange dimensions (reshape, slice ...) have a function (ir/ops/).  Strategies are in
 * ir/layout/strategy.c.
 */
#include "ir/layout/rule.h"

#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "ir/layout/rule_make.h"
#include "ir/module.h"

static const char *const kind_names[FK_COUNT] = {"parallel", "reduce",     "frozen", "halo",
                                                 "linear",   "accumulate", "body"};
const char *factor_kind_name(FactorKind k) { return kind_names[k]; }

/* ---- assembling */

const Type *rule_in(const RuleMaking *k, int i) { return type_of(k->f, k->op->in[i]); }
const Type *rule_out(const RuleMaking *k) { return type_of(k->f, k->op->out); }

uint8_t rule_factor(const RuleMaking *k, const char *name, const Expr *size, FactorKind kind, Reduction reduction) {
  if (k->r->nfactors == MAX_FACTORS) die("rule of %s has too many factors", op_name(k->op->kind));
  k->r->factors[k->r->nfactors] = (Factor){module_string(k->m, name), size, kind, reduction, 0, ~0u};
  return (uint8_t)k->r->nfactors++;
}

uint8_t rule_numbered(const RuleMaking *k, const char *letter, int i, const Expr *size, FactorKind kind) {
  return rule_factor(k, arena_printf(k->m->arena, "%s%d", letter, i), size, kind, RED_NONE);
}

void rule_set_dim(TensorFactors *t, int dim, uint8_t f) {
  t->dims[dim].n = 1;
  t->dims[dim].f[0] = f;
}

void rule_push_dim(TensorFactors *t, int dim, uint8_t f) {
  DimFactors *d = &t->dims[dim];
  if (d->n == MAX_DIM_FACTORS) die("dimension with too many factors");
  d->f[d->n++] = f;
}

void rule_linear(const RuleMaking *k, uint32_t operands, Reduction reduction) {
  uint8_t f = rule_factor(k, arena_printf(k->m->arena, "L%d", __builtin_ctz(operands)), NULL, FK_LINEAR, reduction);
  k->r->factors[f].operands = operands;
}

void rule_moves_sums(const RuleMaking *k, uint32_t operands) {
  if (rule_out(k)->dtype != DT_bool) rule_linear(k, operands, RED_SUM);
}

static void start_rule(const RuleMaking *k) {
  k->r->noperands = k->op->nin;
  for (int i = 0; i < k->op->nin; i++) k->r->operands[i].rank = rule_in(k, i)->rank;
  k->r->nresults = k->op->nout;
  for (int i = 0; i < k->op->nout; i++) k->r->results[i].rank = type_of(k->f, k->op->out + (Val)i)->rank;
}

/* ---- rules from text */

int rule_letter(const RuleMaking *k, const char *name) {
  for (int i = 0; i < k->r->nfactors; i++)
    if (strcmp(k->r->factors[i].name, name) == 0) return i;
  return -1;
}

void rule_assign(const RuleMaking *k, TensorFactors *t, int dim, const Type *type, const char *name) {
  int f = rule_letter(k, name);
  if (f < 0) f = rule_factor(k, name, type->dims[dim], FK_PARALLEL, RED_NONE);
  rule_set_dim(t, dim, (uint8_t)f);
}

/* Parses one side of the text, "b.. m k": letters to dimensions; `..` takes the remaining ones. */
static void parse_tensor(const RuleMaking *k, const char *s, const char *end, TensorFactors *t, const Type *type) {
  char letters[MAX_RANK + 1];
  bool repeated[MAX_RANK + 1];
  int n = 0, rest = -1;
  for (; s < end; s++) {
    if (*s == ' ') continue;
    letters[n] = *s;
    repeated[n] = s + 2 < end && s[1] == '.' && s[2] == '.';
    if (s + 1 < end && s[1] == '.') repeated[n] = true, s += 2;
    if (repeated[n]) rest = n;
    n++;
  }
  int spread = rest >= 0 ? type->rank - (n - 1) : 0, dim = 0;
  if (rest < 0 && n != type->rank) die("rule of %s: %d letters for rank %d", op_name(k->op->kind), n, type->rank);
  for (int i = 0; i < n; i++) {
    char name[8] = {letters[i], 0};
    if (!repeated[i]) {
      rule_assign(k, t, dim++, type, name);
      continue;
    }
    for (int j = 0; j < spread; j++) rule_assign(k, t, dim++, type, arena_printf(k->m->arena, "%c%d", letters[i], j));
  }
}

static void parse_kind(const RuleMaking *k, const char *kind, size_t n, const char *what) {
  if (n == 6 && strncmp(kind, "linear", n) == 0) {
    uint32_t mask = 0;
    for (; *what >= '0' && *what <= '9'; what++) mask |= 1u << (*what - '0');
    rule_linear(k, mask, RED_SUM);
    return;
  }
  char name[2] = {*what, 0};
  int f = rule_letter(k, name);
  if (f < 0) die("rule of %s: no factor %s", op_name(k->op->kind), name);
  k->r->factors[f].kind = n == 4 ? FK_BODY : FK_FROZEN;
}

/* "body:t frozen:k e linear:2": a lone letter repeats the kind before it. */
static void parse_kinds(const RuleMaking *k, const char *s) {
  const char *kind = NULL;
  size_t n = 0;
  while (*s) {
    size_t length = strcspn(s, " ");
    const char *colon = memchr(s, ':', length);
    if (colon) kind = s, n = (size_t)(colon - s);
    parse_kind(k, kind, n, colon ? colon + 1 : s);
    s += length;
    while (*s == ' ') s++;
  }
}

void rule_parse(const RuleMaking *k, const char *text, const char *kinds) {
  const char *arrow = strstr(text, "->"), *s = text;
  for (int i = 0; i < k->op->nin; i++) {
    const char *end = s + strcspn(s, ",");
    if (end > arrow) end = arrow;
    parse_tensor(k, s, end, &k->r->operands[i], rule_in(k, i));
    s = *end == ',' ? end + 1 : end;
  }
  s = arrow + 2;
  for (int i = 0; i < k->op->nout; i++) {
    const char *end = s + strcspn(s, ",");
    parse_tensor(k, s, end, &k->r->results[i], type_of(k->f, k->op->out + (Val)i));
    s = *end == ',' ? end + 1 : end;
  }
  if (kinds) parse_kinds(k, kinds);
}

/* ---- rules shared by operations */

void rule_none(const RuleMaking *k) {
  for (int i = 0; i < k->op->nin; i++)
    for (int d = 0; d < rule_in(k, i)->rank; d++)
      rule_set_dim(&k->r->operands[i], d,
                   rule_numbered(k, arena_printf(k->m->arena, "f%d_", i), d, rule_in(k, i)->dims[d], FK_FROZEN));
  for (int d = 0; d < k->r->results[0].rank; d++)
    rule_set_dim(&k->r->results[0], d, rule_numbered(k, "g", d, rule_out(k)->dims[d], FK_FROZEN));
}

void rule_same_dims(const RuleMaking *k) {
  for (int d = 0; d < k->r->results[0].rank; d++) {
    uint8_t f = rule_numbered(k, "x", d, rule_out(k)->dims[d], FK_PARALLEL);
    for (int i = 0; i < k->op->nin; i++) rule_set_dim(&k->r->operands[i], d, f);
    rule_set_dim(&k->r->results[0], d, f);
  }
}

/* ---- entry */

static uint64_t rule_hash(const Rule *r) {
  uint64_t h = hash64(r->factors, sizeof *r->factors * (size_t)r->nfactors, 0);
  h = hash64(r->operands, sizeof *r->operands * (size_t)r->noperands, h);
  return hash64(r->results, sizeof *r->results * (size_t)r->nresults, h);
}

/* Compares bytes: names and sizes are interned, and unset fields are 0. */
static int rule_equal(const void *key, const void *item) {
  const Rule *a = key, *b = item;
  return a->nfactors == b->nfactors && a->noperands == b->noperands && a->nresults == b->nresults &&
         memcmp(a->factors, b->factors, sizeof *a->factors * (size_t)a->nfactors) == 0 &&
         memcmp(a->operands, b->operands, sizeof *a->operands * (size_t)a->noperands) == 0 &&
         memcmp(a->results, b->results, sizeof a->results) == 0;
}

/* Returns the module's copy of the rule; adds it if missing. */
static const Rule *kept_rule(Module *m, const Rule *r) {
  uint64_t h = rule_hash(r);
  const Rule *found = intern_find(&m->interned->rules, h, r, rule_equal);
  if (found) return found;
  Rule *fresh = ARENA_NEW(m->arena, Rule);
  TensorFactors *operands = ARENA_ARRAY(m->arena, TensorFactors, r->noperands);
  if (r->noperands) memcpy(operands, r->operands, sizeof *operands * (size_t)r->noperands);
  *fresh = *r;
  fresh->operands = operands;
  fresh->layouts = rule_layouts_new(m);
  intern_add(m->arena, &m->interned->rules, h, fresh);
  return fresh;
}

const Rule *rule_of(Module *m, const Func *f, const Op *op) {
  TensorFactors operands[MAX_OPERANDS];
  Rule made;
  memset(operands, 0, sizeof *operands * (size_t)op->nin);
  memset(&made, 0, sizeof made);
  made.operands = operands;
  RuleMaking k = {m, f, op, &made};
  const OpRecord *record = op_record(op->kind);
  start_rule(&k);
  if (record->rule) record->rule(&k);
  else rule_parse(&k, record->space, record->kinds);
  if (op->out && rule_out(&k)->dtype == DT_bool) { /* truth values have no sums */
    int n = 0;
    while (n < k.r->nfactors && k.r->factors[n].size) n++;
    k.r->nfactors = n;
  }
  return kept_rule(m, &made);
}

void rule_halo_interval(Module *m, const Func *f, const Op *op, int operand, int dim, const Expr *lo, const Expr *hi,
                        const Expr **operand_lo, const Expr **operand_hi) {
  const OpRecord *record = op_record(op->kind);
  if (!record->halo) die("no windows for %s", op_name(op->kind));
  record->halo(&(HaloNeed){m, f, op, operand, dim, lo, hi}, operand_lo, operand_hi);
}
