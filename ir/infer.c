/* ir/infer.c - the result types of every operation from its operands and attributes.
 *
 * infer_types checks operand count and attributes, calls the operation's record (ir/ops/) for the types, and compares
 * the first with the written one, if any.  Errors are worded for the user.  Level 2 uses the same functions on local
 * types.
 */
#include "ir/infer.h"

#include <stdarg.h>
#include <string.h>

#include "base/die.h"

/* ---- for the operations' functions */

const Type *infer_fail(const Infer *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(c->m->arena, format, args);
  va_end(args);
  Loc loc = c->spec->loc;
  if (!loc.node && !loc.file && c->spec->name) loc.node = c->spec->name;
  diag_error(c->diags, DIAG_ir_verify, loc, "%s: %s", op_name(c->spec->kind), text);
  for (int i = 0; i < c->spec->nin; i++) {
    Text t = {.arena = c->m->arena};
    if (!c->in[i]) continue;
    type_print(c->m, &t, c->in[i]);
    diag_note(c->diags, (Loc){0}, "operand %d is %s, %s", i, name_of(c->f, c->spec->in[i]), text_str(&t));
  }
  return NULL;
}

void infer_further(const Infer *c, const Type *t) {
  if (c->out->n == MAX_RESULTS) die("%s has more than %d results", op_name(c->spec->kind), MAX_RESULTS);
  c->out->items[c->out->n++] = t;
}

const Attr *infer_attr(const Infer *c, AttrKey key) {
  for (int i = 0; i < c->spec->nattrs; i++)
    if (c->spec->attrs[i].key == key) return &c->spec->attrs[i];
  return NULL;
}

const char *infer_text(const Infer *c, const Type *t) {
  Text text = {.arena = c->m->arena};
  type_print(c->m, &text, t);
  return text_str(&text);
}

int infer_axis(const Infer *c, AttrKey key, int rank) {
  int64_t a = infer_attr(c, key)->u.i;
  if (a < 0 || a >= rank) {
    infer_fail(c, "%s %lld is outside a tensor of rank %d", attr_name(key), (long long)a, rank);
    return -1;
  }
  return (int)a;
}

bool infer_spec(const char *spec, const char *part[3], int length[3]) {
  const char *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  if (!comma || !arrow || comma > arrow || strchr(comma + 1, ',')) return false;
  part[0] = spec, length[0] = (int)(comma - spec);
  part[1] = comma + 1, length[1] = (int)(arrow - comma - 1);
  part[2] = arrow + 2, length[2] = (int)strlen(arrow + 2);
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < length[p]; i++) {
      char l = part[p][i];
      if (!((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z'))) return false;
      if (memchr(part[p] + i + 1, l, (size_t)(length[p] - i - 1))) return false;
    }
  return true;
}

bool infer_reduction(const Infer *c, DType t) {
  Reduction r = infer_attr(c, AT_op)->u.reduction;
  if (reduction_defined(r, t) && r != RED_ONE) return true;
  infer_fail(c, "%s is not defined for %s", reduction_name(r), dtype_name(t));
  return false;
}

const Type *infer_same(const Infer *c) { return c->in[0]; }

const Type *infer_given(const Infer *c) { return c->spec->type; }

const Type *infer_weight(const Infer *c) {
  const Type *y = c->spec->type;
  return infer_attr(c, AT_experts) && infer_axis(c, AT_experts, y->rank) < 0 ? NULL : y;
}

/* ---- entry */

static bool is_flag(AttrKey key) {
  return key == AT_descending || key == AT_exclusive || key == AT_reverse || key == AT_causal || key == AT_sums ||
         key == AT_interleaved;
}

static bool check_attrs(const Infer *c) {
  OpKind k = c->spec->kind;
  for (int i = 0; i < c->spec->nattrs; i++) {
    const Attr *a = &c->spec->attrs[i];
    if (op_attr_rule(k, a->key) < 0) return infer_fail(c, "has no attribute %s", attr_name(a->key)) != NULL;
    if (is_flag(a->key) && a->u.i != 0 && a->u.i != 1)
      return infer_fail(c, "%s is %lld, not 0 or 1", attr_name(a->key), (long long)a->u.i) != NULL;
  }
  for (AttrKey key = op_attr_required(k, (AttrKey)0); key < AT_COUNT; key = op_attr_required(k, (AttrKey)(key + 1)))
    if (!infer_attr(c, key)) return infer_fail(c, "needs attribute %s", attr_name(key)) != NULL;
  return true;
}

/* True if the written type may be right.  Extents that are no numbers are trusted: at level 2 those of a joined or
 * padded shard are sums of minima that no longer look like the shard's own.  The prover, the interpreter and the
 * runtime check them. */
static bool may_be(const Type *t, const Type *written) {
  if (t->rank != written->rank || t->dtype != written->dtype) return false;
  for (int d = 0; d < t->rank; d++) {
    int64_t inferred, stated;
    if (ex_get_const(t->dims[d], &inferred) && ex_get_const(written->dims[d], &stated) && inferred != stated)
      return false;
  }
  return true;
}

/* Reports a type without arithmetic in an operation that computes. */
static bool computes_on(const Infer *c, const Type *t) {
  if (!t || dtype_computes(t->dtype) || op_takes_stored(c->spec->kind)) return true;
  return infer_fail(c, "not defined for %s; cast it first", dtype_name(t->dtype)) != NULL;
}

static const Type *first_type(const Infer *c) {
  const OpSpec *spec = c->spec;
  const OpRecord *record = op_record(spec->kind);
  for (int i = 0; i < spec->nin; i++)
    if (!computes_on(c, c->in[i])) return NULL;
  const Type *t = computes_on(c, spec->type) ? record->infer(c) : NULL;
  bool trusted = c->f->level == 2 && record->written_at_level2;
  if (t && spec->type && trusted && may_be(t, spec->type)) return spec->type;
  if (t && spec->type && t != spec->type && op_results(spec->kind))
    return infer_fail(c, "the result is %s, written as %s", infer_text(c, t), infer_text(c, spec->type));
  return t;
}

bool infer_types(Module *m, const Func *f, const OpSpec *spec, Diags *diags, ResultTypes *out) {
  *out = (ResultTypes){.n = 1};
  Infer c = {m, f, spec, diags, out, {NULL}};
  if (spec->nin < op_min_operands(spec->kind) || spec->nin > op_max_operands(spec->kind))
    return infer_fail(&c, "%d operands", spec->nin) != NULL;
  for (int i = 0; i < spec->nin; i++) c.in[i] = type_of(f, spec->in[i]);
  if (!check_attrs(&c)) return false;
  if (op_type_is_given(spec->kind) && !spec->type) return infer_fail(&c, "needs a result type") != NULL;
  out->items[0] = first_type(&c);
  if (!op_results(spec->kind)) out->n = 0;
  return out->items[0] != NULL;
}
