/* program/size.c - evaluating a Program's expressions and binding its symbols.  See program.h. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

static bool divide(int64_t a, int64_t b, int64_t *out) {
  if (b <= 0) return false;
  *out = a / b - (a % b < 0);
  return true;
}

static bool operate(uint32_t kind, int64_t a, int64_t b, int64_t *out) {
  switch (kind) {
    case PX_add: return !__builtin_add_overflow(a, b, out);
    case PX_mul: return !__builtin_mul_overflow(a, b, out);
    case PX_div: return divide(a, b, out);
    case PX_min: *out = a < b ? a : b; return true;
    default: *out = a > b ? a : b; return true;
  }
}

static RtStatus failed(const Program *p, uint32_t e, const int64_t *symbols, RtError *error) {
  char expr[200], bound[300] = "";
  size_t n = 0;
  for (uint32_t s = 0; symbols && s < p->n_symbols && n < sizeof bound; s++)
    n += (size_t)snprintf(bound + n, sizeof bound - n, "%s%s = %" PRId64, s ? ", " : " with ",
                          program_text(p, p->symbols[s].name), symbols[s]);
  return rt_error(error, RT_BAD_INPUT, "the size %s does not fit 64 bits or divides by 0%s",
                  program_expr_text(p, e, expr, sizeof expr), bound);
}

/* Evaluates the expressions that use any of `uses` (0: all of them). */
static RtStatus evaluate(const Program *p, uint8_t uses, const int64_t *symbols, const int64_t *coordinates,
                         int64_t *values, RtError *error) {
  for (uint32_t i = 0; i < p->n_exprs; i++) {
    const ProgramExpr *e = &p->exprs[i];
    if (uses && !(p->expr_uses[i] & uses)) continue;
    if (!symbols && (p->expr_uses[i] & PROGRAM_USES_SYMBOL)) {
      values[i] = 0;
      continue;
    }
    switch (e->kind) {
      case PX_const: values[i] = e->value; break;
      case PX_sym: values[i] = symbols[e->a]; break;
      case PX_coordinate: values[i] = coordinates[e->a]; break;
      default:
        if (!operate(e->kind, values[e->a], values[e->b], &values[i])) return failed(p, i, symbols, error);
    }
  }
  return RT_OK;
}

RtStatus program_eval(const Program *p, const int64_t *symbols, const int64_t *coordinates, int64_t *values,
                      RtError *error) {
  return evaluate(p, 0, symbols, coordinates, values, error);
}

RtStatus program_eval_again(const Program *p, uint8_t uses, const int64_t *symbols, const int64_t *coordinates,
                            int64_t *values, RtError *error) {
  return p->uses & uses ? evaluate(p, uses, symbols, coordinates, values, error) : RT_OK;
}

/* ---- computed sizes */

/* All values from lo to hi.  An end beyond 64 bits is the last number. */
typedef struct Range {
  int64_t lo, hi;
} Range;

static const Range anything = {INT64_MIN, INT64_MAX};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

static Range range_of(uint32_t kind, Range a, Range b) {
  int64_t v[4];
  if (kind == PX_min) return (Range){least(a.lo, b.lo), least(a.hi, b.hi)};
  if (kind == PX_max) return (Range){largest(a.lo, b.lo), largest(a.hi, b.hi)};
  if (kind == PX_div) b.lo = largest(b.lo, 1); /* a divisor of 0 is an error when it is reached */
  for (int i = 0; i < 4; i++)
    if (!operate(kind, i & 1 ? a.hi : a.lo, i & 2 ? b.hi : b.lo, &v[i])) return anything;
  if (kind == PX_add) return (Range){v[0], v[3]};
  return (Range){least(least(v[0], v[1]), least(v[2], v[3])), largest(largest(v[0], v[1]), largest(v[2], v[3]))};
}

RtStatus program_eval_most(const Program *p, const int64_t *symbols, const int64_t *coordinates, int64_t *values,
                           RtError *error) {
  Range *r = malloc(sizeof *r * (p->n_exprs + 1u));
  if (!r) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_exprs; i++) {
    const ProgramExpr *e = &p->exprs[i];
    int64_t one = e->kind == PX_const ? e->value : e->kind == PX_coordinate ? coordinates[e->a] : 0;
    if (e->kind > PX_coordinate) r[i] = range_of(e->kind, r[e->a], r[e->b]);
    else if (e->kind != PX_sym) r[i] = (Range){one, one};
    else if (p->symbols[e->a].most) r[i] = (Range){0, largest(r[p->symbols[e->a].most - 1].hi, 0)};
    else r[i] = symbols ? (Range){symbols[e->a], symbols[e->a]} : (Range){0, 0};
    values[i] = r[i].hi;
  }
  free(r);
  return RT_OK;
}

RtStatus program_bound_computed(const Program *p, const bool *known, int64_t *symbols, RtError *error) {
  if (!(p->uses & PROGRAM_USES_COMPUTED)) return RT_OK;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_exprs; i++) {
    const ProgramExpr *e = &p->exprs[i];
    values[i] = e->kind == PX_const ? e->value : 0; /* also where there is no value, which is an error later */
    if (e->kind > PX_coordinate && !operate(e->kind, values[e->a], values[e->b], &values[i])) values[i] = 0;
    if (e->kind != PX_sym) continue;
    uint32_t most = p->symbols[e->a].most;
    if (most && !(known && known[e->a])) symbols[e->a] = largest(values[most - 1], 0);
    values[i] = symbols[e->a];
  }
  free(values);
  return RT_OK;
}

/* ---- text of expressions */

typedef struct Cut {
  char *text;
  size_t size, n;
} Cut;

__attribute__((format(printf, 2, 3))) static void put(Cut *t, const char *format, ...) {
  if (t->n + 1 >= t->size) return;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->text + t->n, t->size - t->n, format, args);
  va_end(args);
  if (n > 0) t->n += (size_t)n;
}

/* Writes an expression.  It may be a deep or heavily shared graph: both the depth and the text are bounded. */
static void put_expr(const Program *p, uint32_t i, Cut *t, int depth, bool inner) {
  const ProgramExpr *e = &p->exprs[i];
  if (depth > 40 || t->n + 1 >= t->size) {
    put(t, "..");
    return;
  }
  switch (e->kind) {
    case PX_const: put(t, "%" PRId64, e->value); return;
    case PX_sym: put(t, "%s", program_text(p, p->symbols[e->a].name)); return;
    case PX_coordinate: put(t, "@%s", program_text(p, p->axes[e->a].name)); return;
    default: break;
  }
  bool call = e->kind == PX_min || e->kind == PX_max;
  static const char *const between[] = {
      [PX_add] = " + ", [PX_mul] = "*", [PX_div] = " div ", [PX_min] = ", ", [PX_max] = ", "};
  put(t, "%s", e->kind == PX_min ? "min(" : e->kind == PX_max ? "max(" : inner ? "(" : "");
  put_expr(p, e->a, t, depth + 1, !call);
  put(t, "%s", between[e->kind]);
  put_expr(p, e->b, t, depth + 1, !call);
  put(t, "%s", call || inner ? ")" : "");
}

const char *program_expr_text(const Program *p, uint32_t expr, char *text, size_t size) {
  Cut t = {text, size, 0};
  if (size) *text = 0;
  put_expr(p, expr, &t, 0, false);
  return text;
}

/* ---- binding */

static const ProgramPort *input_of(const Program *p, uint32_t entry, uint32_t i) {
  return &p->ports[p->entries[entry].inputs + i];
}

RtStatus program_check_size(const ProgramSymbol *s, const char *name, int64_t extent, const char *who, RtError *error) {
  if (extent < s->min || (s->max && extent > s->max)) {
    char limits[64];
    if (s->max) snprintf(limits, sizeof limits, "from %" PRId64 " to %" PRId64, s->min, s->max);
    else snprintf(limits, sizeof limits, "of at least %" PRId64, s->min);
    return rt_error(error, RT_BAD_INPUT, "%s is %" PRId64 ", but this program was compiled for %s %s", who, extent,
                    name, limits);
  }
  if (extent % s->multiple)
    return rt_error(error, RT_BAD_INPUT, "%s is %" PRId64 ", but %s must be a multiple of %" PRId64, who, extent, name,
                    s->multiple);
  return RT_OK;
}

/* Binds the symbol that is the whole dimension, if one is.  binder[symbol]: the input that bound it, for messages; NULL
 * if it is free. */
static RtStatus bind_dim(const Program *p, const ProgramPort *port, uint32_t d, int64_t extent, int64_t *symbols,
                         const char **binder, RtError *error) {
  const ProgramExpr *e = &p->exprs[program_list(p, port->dims)[d]];
  char who[200];
  snprintf(who, sizeof who, "input '%s': dimension %u", program_text(p, port->name), d);
  if (extent < 0) return rt_error(error, RT_BAD_INPUT, "%s is negative", who);
  if (e->kind != PX_sym) return RT_OK;
  const ProgramSymbol *s = &p->symbols[e->a];
  const char *name = program_text(p, s->name);
  if (binder[e->a] && symbols[e->a] != extent)
    return rt_error(error, RT_BAD_INPUT, "%s is %" PRId64 ", but %s is %" PRId64 " in %s'%s'", who, extent, name,
                    symbols[e->a], *binder[e->a] ? "input " : "the size given for ",
                    *binder[e->a] ? binder[e->a] : name);
  symbols[e->a] = extent;
  binder[e->a] = program_text(p, port->name);
  return program_check_size(s, name, extent, who, error);
}

static RtStatus bind_input(const Program *p, const ProgramPort *port, const ProgramShape *shape, int64_t *symbols,
                           const char **binder, RtError *error) {
  if (shape->rank < 0) return RT_OK;
  if (shape->rank != (int)port->dims.n)
    return rt_error(error, RT_BAD_INPUT, "input '%s' has %d dimension%s, but the model expects %u",
                    program_text(p, port->name), shape->rank, shape->rank == 1 ? "" : "s", port->dims.n);
  for (uint32_t d = 0; d < port->dims.n; d++) {
    RtStatus status = bind_dim(p, port, d, shape->dims[d], symbols, binder, error);
    if (status) return status;
  }
  return RT_OK;
}

/* factor * symbol + constant, of at most one free symbol; factor 0 if none. */
typedef struct Linear {
  int64_t factor, constant;
  uint32_t symbol;
} Linear;

enum { LINEAR_DEPTH = 12 };

static bool linear_of(const Program *p, uint32_t expr, const int64_t *symbols, const char *const *binder, int depth,
                      Linear *out) {
  const ProgramExpr *e = &p->exprs[expr];
  *out = (Linear){0};
  if (e->kind == PX_const) return out->constant = e->value, true;
  if (e->kind == PX_sym) {
    if (binder[e->a]) out->constant = symbols[e->a];
    else *out = (Linear){1, 0, e->a};
    return true;
  }
  Linear x, y;
  if ((e->kind != PX_add && e->kind != PX_mul) || depth == LINEAR_DEPTH ||
      !linear_of(p, e->a, symbols, binder, depth + 1, &x) || !linear_of(p, e->b, symbols, binder, depth + 1, &y))
    return false;
  if (e->kind == PX_add) {
    if (x.factor && y.factor && x.symbol != y.symbol) return false;
    out->symbol = x.factor ? x.symbol : y.symbol;
    return !__builtin_add_overflow(x.factor, y.factor, &out->factor) &&
           !__builtin_add_overflow(x.constant, y.constant, &out->constant);
  }
  if (x.factor && y.factor) return false;
  const Linear *of = x.factor ? &x : &y;
  int64_t by = x.factor ? y.constant : x.constant;
  out->symbol = of->symbol;
  return !__builtin_mul_overflow(of->factor, by, &out->factor) &&
         !__builtin_mul_overflow(of->constant, by, &out->constant);
}

/* Binds the symbol that occurs only in a dimension like 4*n + 1: solves the dimension for it. */
static RtStatus solve_dim(const Program *p, const ProgramPort *port, uint32_t d, int64_t extent, int64_t *symbols,
                          const char **binder, bool *progress, RtError *error) {
  uint32_t expr = program_list(p, port->dims)[d];
  Linear l;
  int64_t left;
  if (!linear_of(p, expr, symbols, binder, 0, &l) || l.factor == 0 || __builtin_sub_overflow(extent, l.constant, &left))
    return RT_OK;
  char text[200];
  const char *name = program_text(p, p->symbols[l.symbol].name);
  if (l.factor == -1 && left == INT64_MIN) return RT_OK;
  if (left % l.factor || left / l.factor < 0)
    return rt_error(error, RT_BAD_INPUT, "input '%s': dimension %u is %" PRId64 ", but must be %s, with a whole %s",
                    program_text(p, port->name), d, extent, program_expr_text(p, expr, text, sizeof text), name);
  symbols[l.symbol] = left / l.factor;
  binder[l.symbol] = program_text(p, port->name);
  *progress = true;
  return program_check_size(&p->symbols[l.symbol], name, symbols[l.symbol], name, error);
}

static RtStatus solve_dims(const Program *p, uint32_t entry, const ProgramShape *shapes, int64_t *symbols,
                           const char **binder, RtError *error) {
  RtStatus status = RT_OK;
  for (bool progress = true; progress && !status;) {
    progress = false;
    for (uint32_t i = 0; !status && i < p->entries[entry].n_inputs; i++) {
      const ProgramPort *port = input_of(p, entry, i);
      for (uint32_t d = 0; !status && shapes[i].rank >= 0 && d < port->dims.n; d++)
        status = solve_dim(p, port, d, shapes[i].dims[d], symbols, binder, &progress, error);
    }
  }
  return status;
}

int64_t program_default_size(const ProgramSymbol *s) { return s->hint ? s->hint : program_least_size(s); }

void program_default_sizes(const Program *p, int64_t *symbols) {
  for (uint32_t s = 0; s < p->n_symbols; s++) symbols[s] = program_default_size(&p->symbols[s]);
  program_bound_computed(p, NULL, symbols, NULL);
}

int64_t program_least_size(const ProgramSymbol *s) {
  int64_t n = s->min > 1 ? s->min : 1, more = (s->multiple - n % s->multiple) % s->multiple;
  return n <= INT64_MAX - more && (s->max == 0 || n + more <= s->max) ? n + more : s->min;
}

static RtStatus bind_symbols(const Program *p, uint32_t entry, const ProgramShape *shapes, int64_t *symbols,
                             RtError *error) {
  const char *binder[PROGRAM_MAX_SYMBOLS] = {0};
  RtStatus status = RT_OK;
  for (uint32_t s = 0; !status && s < p->n_symbols; s++)
    if (symbols[s] >= 0) {
      const char *name = program_text(p, p->symbols[s].name);
      if (p->symbols[s].most)
        return rt_error(error, RT_BAD_INPUT, "%s cannot be chosen: the program computes it", name);
      status = program_check_size(&p->symbols[s], name, symbols[s], name, error);
      binder[s] = "";
    }
  for (uint32_t i = 0; !status && i < p->entries[entry].n_inputs; i++)
    status = bind_input(p, input_of(p, entry, i), &shapes[i], symbols, binder, error);
  if (!status) status = solve_dims(p, entry, shapes, symbols, binder, error);
  for (uint32_t s = 0; s < p->n_symbols; s++)
    if (!binder[s]) symbols[s] = program_default_size(&p->symbols[s]);
  return status ? status : program_bound_computed(p, NULL, symbols, error);
}

static RtStatus check_shapes(const Program *p, uint32_t entry, const ProgramShape *shapes, const int64_t *values,
                             RtError *error) {
  for (uint32_t i = 0; i < p->entries[entry].n_inputs; i++) {
    const ProgramPort *port = input_of(p, entry, i);
    const uint32_t *dims = program_list(p, port->dims);
    for (uint32_t d = 0; shapes[i].rank >= 0 && d < port->dims.n; d++)
      if (values[dims[d]] != shapes[i].dims[d]) {
        char expr[200], value[24];
        snprintf(value, sizeof value, "%" PRId64, values[dims[d]]);
        bool number = strcmp(program_expr_text(p, dims[d], expr, sizeof expr), value) == 0;
        return rt_error(error, RT_BAD_INPUT, "input '%s': dimension %u is %" PRId64 ", but must be %s%s%s",
                        program_text(p, port->name), d, shapes[i].dims[d], number ? "" : expr, number ? "" : " = ",
                        value);
      }
  }
  return RT_OK;
}

RtStatus program_bind(const Program *p, uint32_t entry, const ProgramShape *shapes, int64_t *symbols, RtError *error) {
  RtStatus status = bind_symbols(p, entry, shapes, symbols, error);
  if (status) return status;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) return rt_error(error, RT_FAILED, "out of memory");
  const int64_t coordinates[PROGRAM_MAX_AXES] = {0};
  status = program_eval(p, symbols, coordinates, values, error);
  if (!status) status = check_shapes(p, entry, shapes, values, error);
  free(values);
  return status;
}

RtStatus program_value(const Program *p, uint32_t expr, const int64_t *symbols, int64_t *out, RtError *error) {
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) return rt_error(error, RT_FAILED, "out of memory");
  const int64_t coordinates[PROGRAM_MAX_AXES] = {0};
  RtStatus status = program_eval(p, symbols, coordinates, values, error);
  *out = status ? 0 : values[expr];
  free(values);
  return status;
}

double program_flops(const Program *p, uint32_t entry, const int64_t *symbols) {
  const ProgramList l = p->entries[entry].flops;
  const int64_t coordinates[PROGRAM_MAX_AXES] = {0};
  int64_t *values = l.n ? malloc(sizeof *values * (p->n_exprs + 1u)) : NULL;
  double sum = NAN;
  if (values && program_eval(p, symbols, coordinates, values, NULL) == RT_OK) {
    sum = 0;
    for (uint32_t i = 0; i < l.n; i += 2)
      sum += (double)program_list(p, l)[i] * (double)values[program_list(p, l)[i + 1]];
  }
  free(values);
  return sum;
}

static RtStatus port_shape(const Program *p, uint32_t port, const int64_t *symbols, bool most, ProgramShape *out,
                           RtError *error) {
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) return rt_error(error, RT_FAILED, "out of memory");
  const int64_t coordinates[PROGRAM_MAX_AXES] = {0};
  RtStatus status = most ? program_eval_most(p, symbols, coordinates, values, error)
                         : program_eval(p, symbols, coordinates, values, error);
  const ProgramPort *t = &p->ports[port];
  *out = (ProgramShape){.rank = (int)t->dims.n};
  for (uint32_t d = 0; !status && d < t->dims.n; d++) {
    out->dims[d] = values[program_list(p, t->dims)[d]];
    if (out->dims[d] < 0)
      status = rt_error(error, RT_BAD_INPUT, "'%s': dimension %u would be %" PRId64, program_text(p, t->name), d,
                        out->dims[d]);
  }
  free(values);
  return status;
}

RtStatus program_port_shape(const Program *p, uint32_t port, const int64_t *symbols, ProgramShape *out,
                            RtError *error) {
  return port_shape(p, port, symbols, false, out, error);
}

RtStatus program_port_most(const Program *p, uint32_t port, const int64_t *symbols, ProgramShape *out, RtError *error) {
  return port_shape(p, port, symbols, (p->uses & PROGRAM_USES_COMPUTED) != 0, out, error);
}
