/* ir/parse.c - the reader of IR text: recursive descent over one character pointer, written by hand.  Words are read in
 * parse_words.c, expressions, types and layouts in parse_types.c.
 *
 * Input: a whole file.  Output: a new module, or diagnostics with line and column.  The first error ends the parse
 * (tools write the text, so one precise message is enough). infer_types checks types and operands through build_op.
 */
#include <inttypes.h>
#include <string.h>

#include "ir/parse_internal.h"
#include "ir/shares.h"
#include "ir/schedule.h"

enum { MAX_LIST = 1 << 20, MAX_NAMES = 4096 };

/* ---- operations */

static const char *name_of_value(Parser *p) {
  parse_skip(p);
  if (*p->at == '"') return parse_quoted(p, "a name");
  size_t n = 0;
  while (parse_word_char(p->at[n]) || (p->at[n] && strchr("/:$-", p->at[n]))) n++;
  if (!n) parse_fail(p, p->at, "expected a name");
  const char *s = arena_strndup(p->m->arena, p->at, n);
  p->at += n;
  return module_string(p->m, s);
}

/* Values by name: a map from interned name to value, rebuilt per function. */
typedef struct ValueMap {
  const char **names;
  Val *values;
  size_t n, cap;
} ValueMap;

static size_t map_slot(const ValueMap *v, const char *name) {
  size_t i = ((uintptr_t)name >> 4) * 0x9e3779b97f4a7c15u & (v->cap - 1);
  while (v->names[i] && v->names[i] != name) i = (i + 1) & (v->cap - 1);
  return i;
}

static void map_add(Parser *p, ValueMap *v, const char *name, Val value) {
  if (2 * (v->n + 1) > v->cap) {
    ValueMap old = *v;
    v->cap = old.cap ? old.cap * 2 : 64;
    v->names = ARENA_ARRAY(p->m->arena, const char *, v->cap);
    v->values = ARENA_ARRAY(p->m->arena, Val, v->cap);
    for (size_t i = 0; i < old.cap; i++)
      if (old.names[i]) {
        size_t s = map_slot(v, old.names[i]);
        v->names[s] = old.names[i];
        v->values[s] = old.values[i];
      }
  }
  size_t s = map_slot(v, name);
  if (!v->names[s]) v->n++;
  v->names[s] = name;
  v->values[s] = value;
}

static Val operand(Parser *p, const ValueMap *values) {
  const char *start = p->at;
  parse_expect(p, "%");
  const char *name = name_of_value(p);
  size_t s = values->cap ? map_slot(values, name) : 0;
  if (!values->cap || !values->names[s]) parse_fail(p, start, "no value %%%s above this line", name);
  if (!values->values[s]) parse_fail(p, start, "\"%s\" above this line has no result", name);
  return values->values[s];
}

static Attr list_attr(Parser *p, AttrKey key) {
  AttrKind kind = attr_kind(key);
  struct {
    int64_t *items;
    size_t n, cap;
  } ints = {0};
  struct {
    double *items;
    size_t n, cap;
  } floats = {0};
  struct {
    const Expr **items;
    size_t n, cap;
  } exprs = {0};
  struct {
    const char **items;
    size_t n, cap;
  } strs = {0};
  int n = 0;
  parse_expect(p, "[");
  if (!parse_accept(p, "]")) {
    do {
      if (n++ == MAX_LIST) parse_fail(p, p->at, "list of more than %d elements", MAX_LIST);
      if (kind == AK_INTS) {
        int64_t v = parse_integer(p, "an integer");
        ARENA_PUSH(p->m->arena, &ints, v);
      } else if (kind == AK_AXES) {
        int64_t v = parse_axis(p);
        ARENA_PUSH(p->m->arena, &ints, v);
      } else if (kind == AK_FLOATS) {
        double v = parse_number(p, "a number");
        ARENA_PUSH(p->m->arena, &floats, v);
      } else if (kind == AK_STRS) {
        const char *v = parse_quoted(p, "a string");
        ARENA_PUSH(p->m->arena, &strs, v);
      } else {
        const Expr *v = parse_expr(p);
        ARENA_PUSH(p->m->arena, &exprs, v);
      }
    } while (parse_accept(p, ","));
    parse_expect(p, "]");
  }
  Attr a = {.key = key, .n = n};
  if (kind == AK_FLOATS) a.u.floats = floats.items;
  else if (kind == AK_EXPRS) a.u.exprs = exprs.items;
  else if (kind == AK_STRS) a.u.strs = strs.items;
  else a.u.ints = ints.items;
  return a;
}

static Attr attribute(Parser *p) {
  parse_skip(p);
  const char *start = p->at, *name = parse_word(p, "an attribute");
  AttrKey key;
  if (!attr_find(name, &key)) parse_fail(p, start, "unknown attribute '%s'", name);
  parse_expect(p, "=");
  parse_skip(p);
  start = p->at;
  switch (attr_kind(key)) {
    case AK_INT: return attr_i(key, parse_integer(p, "an integer"));
    case AK_FLOAT: return attr_f(key, parse_number(p, "a number"));
    case AK_STR: return attr_s(p->m, key, parse_quoted(p, "a string"));
    case AK_EXPR: return attr_e(key, parse_expr(p));
    case AK_DTYPE: return attr_dtype(key, parse_dtype(p));
    case AK_AXIS: return attr_i(key, parse_axis(p));
    case AK_REDUCTION: {
      Reduction r;
      const char *which = parse_word(p, "a reduction");
      if (!reduction_find(which, &r)) parse_fail(p, start, "unknown reduction '%s'", which);
      return attr_red(key, r);
    }
    default: return list_attr(p, key);
  }
}

static Loc parse_loc(Parser *p) {
  Loc loc = {0};
  parse_skip(p);
  if (*p->at == '"') {
    loc.file = parse_quoted(p, "a file");
    parse_skip(p);
    if (*p->at >= '0' && *p->at <= '9') {
      loc.line = (int)parse_integer(p, "a line");
      parse_expect(p, ":");
      loc.col = (int)parse_integer(p, "a column");
    }
  }
  if (parse_accept_word(p, "node")) loc.node = parse_quoted(p, "a node path");
  return loc;
}

static bool accept_phase(Parser *p, Phase *out) {
  for (int i = PH_FIRST + 1; i < PH_END; i++)
    if (parse_accept_word(p, phase_name((Phase)i))) return *out = (Phase)i, true;
  return false;
}

static Mirror parse_mirror(Parser *p) {
  Mirror m = {parse_quoted(p, "an operation"), MIRROR_INSIDE};
  if (parse_accept_word(p, "sum")) m.operand = MIRROR_SUM;
  if (parse_accept_word(p, "apart")) m.operand = MIRROR_APART;
  if (!parse_accept_word(p, "of")) return m;
  const char *start = p->at;
  int64_t operand = parse_integer(p, "an operand");
  if (operand < 0 || operand >= MAX_OPERANDS) parse_fail(p, start, "operand %lld does not exist", (long long)operand);
  m.operand = (int)operand;
  return m;
}

static void suffixes(Parser *p, OpSpec *spec) {
  for (;;) {
    if (parse_accept_word(p, "stage")) {
      const char *start = p->at;
      int64_t s = parse_integer(p, "a stage");
      if (s < 0 || s >= p->m->mesh.stages)
        parse_fail(p, start, "stage %lld is not one of %d", (long long)s, p->m->mesh.stages);
      spec->stage = (int)s;
    } else if (accept_phase(p, &spec->phase)) {
    } else if (parse_accept_word(p, "again")) {
      spec->again = true;
    } else if (parse_accept_word(p, "group")) {
      spec->group = parse_quoted(p, "a group");
    } else if (parse_accept_word(p, "mirror")) {
      spec->mirror = parse_mirror(p);
    } else if (parse_accept_word(p, "loc")) {
      spec->loc = parse_loc(p);
    } else {
      return;
    }
  }
}

/* Reports names that are taken, or repeated in the list. */
static void check_names(Parser *p, const char *start, const ValueMap *values, int n, const char *const *names) {
  for (int i = 0; i < (n ? n : 1); i++) {
    bool twice = values->cap && values->names[map_slot(values, names[i])];
    for (int k = 0; k < i; k++) twice |= names[k] == names[i];
    if (twice) parse_fail(p, start, "the name %s is used twice", names[i]);
  }
}

static void fail_type(Parser *p, const char *start, const char *name, const Type *type) {
  Text t = {.arena = p->m->arena};
  type_print(p->m, &t, type);
  parse_fail(p, start, "the result %s is %s, unlike the written type", name, text_str(&t));
}

static void operation(Parser *p, ValueMap *values) {
  OpSpec spec = {0};
  Val in[MAX_OPERANDS];
  Attr attrs[AT_COUNT];
  const char *start = p->at, *names[MAX_RESULTS] = {NULL};
  int n = 0; /* number of results */
  if (parse_accept(p, "%")) {
    do {
      if (n) parse_expect(p, "%");
      if (n == MAX_RESULTS) parse_fail(p, p->at, "more than %d results", MAX_RESULTS);
      names[n++] = name_of_value(p);
    } while (parse_accept(p, ","));
    parse_expect(p, "=");
  }
  parse_skip(p);
  const char *kind_at = p->at, *kind = parse_word(p, "an operation");
  if (!op_find(kind, &spec.kind)) parse_fail(p, kind_at, "unknown operation '%s'", kind);
  if ((op_results(spec.kind) != 0) != (n > 0))
    parse_fail(p, start, "%s %s", kind, n ? "has no result" : "needs a result name");
  if (!n) names[0] = parse_quoted(p, "a name");
  parse_skip(p);
  if (*p->at == '%') {
    do {
      if (spec.nin == MAX_OPERANDS) parse_fail(p, p->at, "more than %d operands", MAX_OPERANDS);
      in[spec.nin++] = operand(p, values);
    } while (parse_accept(p, ","));
  }
  if (parse_accept(p, "{")) {
    do {
      const char *at = p->at;
      Attr a = attribute(p);
      for (int i = 0; i < spec.nattrs; i++)
        if (attrs[i].key == a.key) parse_fail(p, at, "duplicate attribute %s", attr_name(a.key));
      attrs[spec.nattrs++] = a;
    } while (parse_accept(p, ","));
    parse_expect(p, "}");
  }
  spec.in = in;
  spec.attrs = attrs;
  spec.name = names[0];
  spec.names = n > 1 ? names + 1 : NULL;
  const Type *types[MAX_RESULTS];
  for (int i = 0; i < n; i++) {
    parse_expect(p, i ? "," : ":");
    types[i] = parse_type(p);
    if (i) continue;
    spec.type = types[0];
    if (parse_accept(p, "@")) spec.layout = parse_layout(p, spec.type->rank);
  }
  suffixes(p, &spec);
  check_names(p, start, values, n, names);
  Loc saved = spec.loc;
  if (!spec.loc.file && !spec.loc.node) p->b.loc = (Loc){0};
  size_t errors = p->diags->errors;
  Val v = build_op(&p->b, &spec);
  if (!v) {
    if (p->diags->errors > errors) diag_note(p->diags, parse_here(p, start), "in this operation");
    longjmp(p->out, 1);
  }
  Op *op = &p->f->ops.items[p->f->ops.n - 1];
  op->loc = saved;
  if (op->nout != n) parse_fail(p, start, "%s has %d results here, not %d", kind, op->nout, n);
  for (int i = 1; i < n; i++)
    if (types[i] != type_of(p->f, v + (Val)i)) fail_type(p, start, names[i], type_of(p->f, v + (Val)i));
  for (int i = 0; i < (n ? n : 1); i++) map_add(p, values, names[i], n ? v + (Val)i : 0);
}

static void function(Parser *p) {
  parse_expect(p, "@");
  const char *start = p->at, *name = parse_word(p, "a function name");
  ValueMap values = {0};
  if (module_func(p->m, name)) parse_fail(p, start, "duplicate function @%s", name);
  if (!parse_accept_word(p, "level")) parse_fail(p, p->at, "expected 'level'");
  const char *at = p->at;
  int64_t level = parse_integer(p, "a level");
  if (level != 1 && level != 2) parse_fail(p, at, "level %lld is not 1 or 2", (long long)level);
  p->f = module_func_add(p->m, name, (int)level);
  p->b = builder_new(p->m, p->f, p->diags);
  parse_expect(p, "{");
  while (!parse_accept(p, "}")) {
    if (!*p->at) parse_fail(p, p->at, "function @%s has no closing '}'", name);
    if (parse_accept_word(p, "output")) {
      const char *output = parse_quoted(p, "an output name");
      Val v = operand(p, &values);
      if (!v) parse_fail(p, p->at, "an operation without result cannot be an output");
      const Layout *l = parse_accept(p, "@") ? parse_layout(p, type_of(p->f, v)->rank) : NULL;
      build_output(&p->b, output, v, l);
    } else {
      operation(p, &values);
    }
  }
}

/* ---- the top level */

/* Checks that some size is legal.  An illegal hint is reported where it is used. */
static void check_symbol(Parser *p, const char *start, const Symbol *s) {
  int64_t last = s->max / s->multiple * s->multiple; /* min may be close to INT64_MAX */
  if (s->max && s->max < s->min)
    parse_fail(p, start, "symbol %s: min %" PRId64 " is above max %" PRId64, s->name, s->min, s->max);
  if (s->max && last < s->min)
    parse_fail(p, start, "symbol %s: no multiple of %" PRId64 " lies between %" PRId64 " and %" PRId64, s->name,
               s->multiple, s->min, s->max);
}

static void symbol(Parser *p) {
  const char *const begin = p->at, *start = begin, *name = parse_word(p, "a symbol name");
  if (*name >= '0' && *name <= '9') parse_fail(p, start, "a symbol must not start with a digit");
  if (module_symbol_find(p->m, name) >= 0) parse_fail(p, start, "duplicate symbol %s", name);
  if (p->m->symbols.n >= MAX_NAMES) parse_fail(p, start, "more than %d symbols", MAX_NAMES);
  int index = module_symbol(p->m, name); /* may move the array */
  Symbol *s = &p->m->symbols.items[index];
  for (;;) {
    int64_t *field = parse_accept_word(p, "min")        ? &s->min
                     : parse_accept_word(p, "max")      ? &s->max
                     : parse_accept_word(p, "multiple") ? &s->multiple
                     : parse_accept_word(p, "hint")     ? &s->hint
                                                        : NULL;
    if (!field) break;
    start = p->at;
    *field = parse_integer(p, "a number");
    if (*field < (field == &s->multiple ? 1 : 0)) parse_fail(p, start, "out of range");
  }
  check_symbol(p, begin, s);
  start = p->at;
  if (!parse_accept_word(p, "most")) return;
  if (s->min || s->max || s->multiple > 1) parse_fail(p, start, "a computed size has no min, max or multiple");
  const Expr *most = parse_expr(p); /* may move the array */
  if (ex_uses(most, index)) parse_fail(p, start, "the bound of %s uses it", name);
  p->m->symbols.items[index].most = most;
}

/* shares 2:1:1 */
static void axis_shares(Parser *p, MeshAxis *a) {
  parse_skip(p);
  a->shares = a->size <= MAX_SHARED ? mesh_shares_read(p->m->arena, &p->at, a->size) : NULL;
  if (!a->shares) parse_fail(p, p->at, "expected %d shares from 1 to %d, as 2:1", a->size, MAX_SHARE);
  if (mesh_shares_equal(a->shares, a->size)) a->shares = NULL;
}

/* Allowed once: text before a second mesh may name axes of the first. */
static void mesh(Parser *p) {
  Mesh mesh = {.stages = 1};
  if (p->has_mesh) parse_fail(p, p->at, "duplicate mesh");
  p->has_mesh = true;
  parse_expect(p, "[");
  if (!parse_accept(p, "]")) {
    do {
      if (mesh.naxes == MAX_AXES) parse_fail(p, p->at, "more than %d mesh axes", MAX_AXES);
      MeshAxis *a = &mesh.axes[mesh.naxes];
      const char *start = p->at;
      a->name = parse_word(p, "an axis name");
      if (strchr(a->name, '.') || mesh_axis_find(&mesh, a->name) >= 0)
        parse_fail(p, start, "bad or repeated axis name %s", a->name);
      parse_expect(p, "=");
      int64_t size = parse_integer(p, "a size");
      if (size < 1 || size > 1 << 20) parse_fail(p, start, "axis size %lld is out of range", (long long)size);
      a->size = (int)size;
      a->temporal = parse_accept_word(p, "time");
      if (!a->temporal && parse_accept_word(p, "shares")) axis_shares(p, a);
      mesh.naxes++;
    } while (parse_accept(p, ","));
    parse_expect(p, "]");
  }
  if (!mesh_shares_fit(&mesh)) parse_fail(p, p->at, "the shares of all axes are more than %d parts", MAX_SHARE_PARTS);
  if (parse_accept_word(p, "stages")) {
    const char *start = p->at;
    int64_t n = parse_integer(p, "a number of stages");
    if (n < 1 || n > 1 << 16) parse_fail(p, start, "a mesh cannot have %lld stages", (long long)n);
    mesh.stages = (int)n;
  }
  if (parse_accept_word(p, "schedule")) {
    const char *start = (parse_skip(p), p->at);
    size_t n = strcspn(start, " \t\n#");
    if (!schedule_parse(start, n, &mesh.schedule, &mesh.chunks))
      parse_fail(p, start, "there is no schedule %.*s", (int)n, start);
    if (mesh.chunks > 1 && mesh.stages % mesh.chunks)
      parse_fail(p, start, "%d stages are not a multiple of the %d on each place", mesh.stages, mesh.chunks);
    p->at = start + n;
  }
  module_set_mesh(p->m, &mesh);
}

/* Reads a type with constant extents; reports errors at `at`. */
static const Type *constant_type(Parser *p, const char *at) {
  int64_t dims[MAX_RANK];
  const Type *t = parse_type(p);
  if (!type_constant_dims(t, dims)) parse_fail(p, at, "the extents of a parameter must be constants");
  return t;
}

static ParamOrigin param_origin(Parser *p) {
  ParamOrigin o = {.name = parse_quoted(p, "the name of the whole weight")};
  parse_expect(p, ":");
  const char *start = p->at;
  o.type = constant_type(p, start);
  if (!parse_accept_word(p, "first")) parse_fail(p, p->at, "expected 'first'");
  o.first = parse_integer(p, "an element");
  if (o.first < 0) parse_fail(p, start, "the first element is negative");
  return o;
}

static void param(Parser *p) {
  parse_skip(p);
  const char *start = p->at, *name = parse_quoted(p, "a name");
  if (module_param(p->m, name)) parse_fail(p, start, "duplicate parameter \"%s\"", name);
  parse_expect(p, ":");
  const Type *t = constant_type(p, start);
  Param *q = module_param_add(p->m, name, t);
  if (p->m->expr_fault) parse_fail(p, start, "%s", p->m->expr_fault);
  parse_expect(p, "=");
  start = p->at;
  if (parse_accept_word(p, "zeros")) q->init = INIT_ZEROS;
  else if (parse_accept_word(p, "prepared")) q->init = INIT_PREPARED;
  else if (parse_accept_word(p, "constant")) q->init = INIT_CONSTANT, q->value = parse_number(p, "a number");
  else if (parse_accept_word(p, "normal")) q->init = INIT_NORMAL, q->value = parse_number(p, "a number");
  else if (parse_accept_word(p, "uniform")) q->init = INIT_UNIFORM, q->value = parse_number(p, "a number");
  else if (parse_accept_word(p, "blob")) {
    q->init = INIT_BLOB;
    int64_t blob = parse_integer(p, "a blob number");
    if (blob < 0 || (size_t)blob >= p->m->blobs.n) parse_fail(p, start, "unknown blob %lld", (long long)blob);
    q->blob = (int)blob;
    if (!parse_accept_word(p, "offset")) parse_fail(p, p->at, "expected 'offset'");
    int64_t offset = parse_integer(p, "an offset");
    if (offset < 0) parse_fail(p, start, "negative offset");
    q->offset = (uint64_t)offset;
    if (!parse_accept_word(p, "strides")) parse_fail(p, p->at, "expected 'strides'");
    parse_expect(p, "[");
    for (int d = 0; d < t->rank; d++) {
      if (d) parse_expect(p, ",");
      q->strides[d] = parse_integer(p, "a stride");
    }
    parse_expect(p, "]");
    if (parse_accept_word(p, "of")) q->origin = param_origin(p);
  } else parse_fail(p, start, "expected zeros, constant, normal, uniform, blob or prepared");
  if (parse_accept_word(p, "seed")) q->seed = parse_integer(p, "a seed");
  if (parse_accept_word(p, "buffer")) q->trainable = false;
  if (parse_accept_word(p, "loc")) q->loc = parse_loc(p);
}

static void state(Parser *p) {
  parse_skip(p);
  const char *start = p->at, *name = parse_quoted(p, "a name");
  if (module_state(p->m, name)) parse_fail(p, start, "duplicate state \"%s\"", name);
  parse_expect(p, ":");
  const Type *t = parse_type(p);
  parse_expect(p, "=");
  if (parse_accept_word(p, "param"))
    module_state_add(p->m, name, t, 0)->param = parse_quoted(p, "the name of a weight");
  else module_state_add(p->m, name, t, parse_number(p, "a number or a weight"));
  if (parse_accept_word(p, "away")) module_state(p->m, name)->away = true;
}

static void blob(Parser *p) {
  const char *path = parse_quoted(p, "a path");
  if (!parse_accept_word(p, "bytes")) parse_fail(p, p->at, "expected 'bytes'");
  const char *start = p->at;
  int64_t bytes = parse_integer(p, "a size");
  if (bytes < 0) parse_fail(p, start, "negative size");
  size_t before = p->m->blobs.n;
  module_blob(p->m, path, (uint64_t)bytes);
  if (p->m->blobs.n == before) parse_fail(p, start, "duplicate blob \"%s\"", path);
}

static void top(Parser *p) {
  if (!parse_accept(p, "apc.ir")) parse_fail(p, p->at, "this is not apc IR: the first line must be 'apc.ir 1'");
  const char *start = p->at;
  int64_t version = parse_integer(p, "a version");
  if (version != 1) parse_fail(p, start, "IR version %lld; this apc reads version 1", (long long)version);
  for (;;) {
    parse_skip(p);
    if (!*p->at) return;
    if (parse_accept_word(p, "symbol")) symbol(p);
    else if (parse_accept_word(p, "mesh")) mesh(p);
    else if (parse_accept_word(p, "blob")) blob(p);
    else if (parse_accept_word(p, "param")) param(p);
    else if (parse_accept_word(p, "state")) state(p);
    else if (parse_accept_word(p, "func")) function(p);
    else parse_fail(p, p->at, "expected symbol, mesh, blob, param, state or func");
  }
}

Module *ir_parse(const char *file, const char *text, Diags *diags) {
  Module *m = module_new();
  Parser *p = ARENA_NEW(m->arena, Parser);
  *p = (Parser){.file = file, .text = text, .at = text, .m = m, .diags = diags};
  if (setjmp(p->out)) {
    module_free(m);
    return NULL;
  }
  top(p);
  return m;
}
