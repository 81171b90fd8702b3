/* tools/emit_trace.c - see emit_trace.h.
 *
 * A place of the pipeline is a process, in the order of the pipeline.  Its first row has its calls (plan_calls.h), and
 * arrows that follow a micro-batch from place to place.  Its second row has the operations and collectives of the first
 * micro-batch that take time, one after another from the start of their call, in the order of the ledger.  Other
 * micro-batches do the same, and would make the file hundreds of times larger.  Work that is done once stands at the
 * end.
 *
 * Source: "Trace Event Format", Google, 2016.
 */
#include "tools/emit_trace.h"

#include <math.h>

#include "base/json_text.h"
#include "tools/plan_calls.h"

enum { CALLS, OPERATIONS }; /* rows of a process */

typedef struct Trace {
  const Build *b;
  const Mesh *mesh;
  const PlanLedger *ledger;
  PlanCalls calls;
  Text *out;
  double *busy; /* by place: the end of the last operation */
} Trace;

static const char *const phases[] = {"forward", "backward", "gradients of weights"};

/* Returns a text of the user as a JSON string. */
static const char *quoted(Arena *a, const char *text) {
  json_t *j = json_text(text_shown(a, text));
  char *shown = json_dumps(j, JSON_ENCODE_ANY);
  const char *copy = arena_strdup(a, shown);
  free(shown);
  json_decref(j);
  return copy;
}

static void add_name(Trace *x, const char *kind, int place, int row, const char *name) {
  text_printf(x->out, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":%s}}", kind, place,
              row, quoted(x->out->arena, name));
}

static void add_event(Trace *x, int place, int row, const char *name, const char *kind, double start, double seconds) {
  text_printf(x->out, ",\n{\"ph\":\"X\",\"name\":%s,\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
              quoted(x->out->arena, name), kind, place, row, start * 1e6, seconds * 1e6);
}

/* ---- operations */

static void add_operation(Trace *x, int place, const LedgerEntry *e) {
  static const char *const kinds[] = {"compute", "memory", "collective", "transfer"};
  Arena *a = x->out->arena;
  const char *name = x->b->l1->ops.items[e->op].name;
  if (e->kind >= LEDGER_collective)
    name = arena_printf(a, "%s.%s", name, e->comm == COMM_KIND_COUNT ? "slice" : program_comm_kind_name(e->comm));
  add_event(x, place, OPERATIONS, name, kinds[e->kind], x->busy[place], e->seconds);
  text_printf(x->out, ",\"args\":{\"stage\":%d,\"bytes\":%.0f,\"flop\":%.0f}}", e->stage, e->bytes, e->flops);
  x->busy[place] += e->seconds;
}

/* Adds the operations of a stage that a call executes, or those that run once. */
static void add_operations(Trace *x, int place, int stage, bool once, Phase phase, double start) {
  x->busy[place] = fmax(x->busy[place], start);
  for (size_t i = 0; i < x->ledger->entries.n; i++) {
    const LedgerEntry *e = &x->ledger->entries.items[i];
    if (e->stage != stage || e->seconds <= 0 || once == phase_each(e->phase)) continue;
    if (once || schedule_body(x->mesh, true, e->phase) == phase) add_operation(x, place, e);
  }
}

/* ---- calls */

/* Adds an arrow between calls, from just before the end of one to the start of the other. */
static void add_arrow(Trace *x, size_t id, int from, int to, const ScheduleCall *a, const ScheduleCall *b) {
  const char *form =
      ",\n{\"ph\":\"%s\",\"name\":\"%s\",\"cat\":\"transfer\",\"id\":%zu,\"pid\":%d,\"tid\":0,\"ts\":%.3f%s}";
  const char *name = a->phase == PH_fwd ? "activations" : "gradients";
  text_printf(x->out, form, "s", name, id, from, fmax(a->start, a->end - 1e-9) * 1e6, "");
  text_printf(x->out, form, "f", name, id, to, fmax(b->start, a->end) * 1e6, ",\"bp\":\"e\"");
}

static void add_calls(Trace *x, int place) {
  const PlaceCalls *p = &x->calls.places[place];
  for (size_t i = 0; i < p->n; i++) {
    const ScheduleCall *c = &p->items[i];
    const char *name = phases[c->phase - PH_fwd];
    add_event(x, place, CALLS, name, name, c->start, c->end - c->start);
    text_printf(x->out, ",\"args\":{\"stage\":%d,\"micro_batch\":%d}}", c->stage, c->micro_batch);
    if (c->micro_batch == 0) add_operations(x, place, c->stage, false, c->phase, c->start);
  }
}

/* Adds the arrows to the next stage (activations) or the one before (gradients) on another place. */
static void add_arrows(Trace *x) {
  const size_t batches = (size_t)mesh_micro_batches(x->mesh), stages = (size_t)x->mesh->stages,
               all = 2 * stages * batches;
  const ScheduleCall **at = ARENA_ARRAY(x->out->arena, const ScheduleCall *, all);
  for (int k = 0; k < x->calls.n; k++)
    for (size_t i = 0; i < x->calls.places[k].n; i++) {
      const ScheduleCall *c = &x->calls.places[k].items[i];
      if (c->phase == PH_wgt) continue;
      at[((size_t)(c->phase == PH_bwd) * stages + (size_t)c->stage) * batches + (size_t)c->micro_batch] = c;
    }
  for (size_t i = 0; i < all; i++) {
    const ScheduleCall *c = at[i];
    if (!c) continue;
    const int next = c->stage + (c->phase == PH_fwd ? 1 : -1);
    if (next < 0 || next >= x->mesh->stages) continue;
    const int from = mesh_place_of(x->mesh, c->stage), to = mesh_place_of(x->mesh, next);
    const ScheduleCall *other = c->phase == PH_fwd ? at[i + batches] : at[i - batches];
    if (other && from != to) add_arrow(x, i, from, to, c, other);
  }
}

static void add_once(Trace *x, int place) {
  double once = 0;
  for (int s = 0; s < x->mesh->stages; s++)
    if (mesh_place_of(x->mesh, s) == place) once += x->ledger->sums[s].once;
  if (once <= 0) return;
  add_event(x, place, CALLS, "once", "once", x->calls.seconds, once);
  text_add(x->out, ",\"args\":{}}");
  for (int s = 0; s < x->mesh->stages; s++)
    if (mesh_place_of(x->mesh, s) == place) add_operations(x, place, s, true, PH_step, x->calls.seconds);
}

static void add_place(Trace *x, int place) {
  Text name = {.arena = x->out->arena};
  text_add(&name, "predicted: stage");
  for (int s = 0; s < x->mesh->stages; s++)
    if (mesh_place_of(x->mesh, s) == place) text_printf(&name, " %d", s);
  add_name(x, "process_name", place, CALLS, text_str(&name));
  add_name(x, "thread_name", place, CALLS, "calls");
  add_name(x, "thread_name", place, OPERATIONS, "operations of the first micro-batch");
  text_printf(x->out, ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
              place, place);
  add_calls(x, place);
  add_once(x, place);
}

bool trace_print(Tool *t, const Build *b, Text *out) {
  Module *m = b->model.m;
  if (b->l1->joint)
    return diag_error(t->diags, DIAG_later_emit_trace, (Loc){0},
                      "predicted traces of several entries at once are not built yet");
  CostModel *cost = cost_model_new(m, b->options.target);
  const PlanLedger ledger =
      cost_plan_ledger(t->arena, cost, m, b->l1, rules_of(m, b->l1), b->plan->strategies, b->plan->stages);
  const Mesh *mesh = &b->plan->mesh;
  Trace x = {b, mesh, &ledger, tool_plan_calls(t->arena, mesh, &ledger), out, NULL};
  x.busy = ARENA_ARRAY(t->arena, double, x.calls.n);
  text_printf(
      out,
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"schema\":\"apc.trace/1\",\"predicted\":true,\"program\":%s},"
      "\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"args\":{}}",
      quoted(t->arena, b->model.name));
  for (int k = 0; k < x.calls.n; k++) add_place(&x, k);
  add_arrows(&x);
  text_add(out, "\n]}\n");
  cost_model_free(cost);
  return true;
}
