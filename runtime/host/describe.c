/* runtime/host/describe.c - apc_describe: the contents of a program, as text or JSON.
 *
 * If there is no memory for a part of the JSON document, the whole becomes NULL: add() returns NULL for NULL, and so
 * does json_pack.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/json_text.h"
#include "program/image.h"
#include "runtime/host/host.h"

/* Returns the list with one more item; takes ownership of both.  NULL if either is NULL, or there is no memory. */
static json_t *add(json_t *list, json_t *item) {
  if (json_array_append_new(list, item) == 0) return list;
  json_decref(list);
  return NULL;
}

/* The same for an object. */
static json_t *set(json_t *object, const char *key, json_t *value) {
  if (json_object_set_new(object, key, value) == 0) return object;
  json_decref(object);
  return NULL;
}

static json_t *describe_port(const Program *p, const ProgramPort *t) {
  json_t *dims = json_array();
  char text[200];
  for (uint32_t d = 0; d < t->dims.n; d++) {
    uint32_t e = program_list(p, t->dims)[d];
    dims = add(dims, p->exprs[e].kind == PX_const ? json_integer(p->exprs[e].value)
                                                  : json_text(program_expr_text(p, e, text, sizeof text)));
  }
  return json_pack("{s:o, s:s, s:o}", "name", json_text(program_text(p, t->name)), "dtype", dtype_name((DType)t->dtype),
                   "dims", dims);
}

static json_t *describe_ports(const Program *p, uint32_t first, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = first; i < first + n; i++) list = add(list, describe_port(p, &p->ports[i]));
  return list;
}

static json_t *describe_report(const ApcReport *r) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I}}", "params", (json_int_t)r->param_bytes, "state",
                   (json_int_t)r->state_bytes, "activations", (json_int_t)(r->arena_bytes + r->library_bytes), "comm",
                   (json_int_t)r->window_bytes, "mapped", (json_int_t)r->mapped_bytes, "of_activations", "gathered",
                   (json_int_t)r->gathered_bytes, "gradients", (json_int_t)r->gradient_bytes, "saved",
                   (json_int_t)r->saved_bytes);
}

/* apc_predict; false if sizes are unbound, so that nothing can be predicted.  *lacking becomes true if there is no
 * memory for the prediction. */
static bool predicted(ApcModel *m, int rank, ApcReport *out, bool *lacking) {
  ApcStatus status = apc_predict(m, rank, out);
  *lacking |= status == APC_FAILED;
  return status == APC_OK;
}

/* Lists the memory of each rank: predicted, and allocated if it has run. */
static json_t *describe_ranks(ApcModel *m, bool *lacking) {
  json_t *list = json_array();
  for (int r = 0; r < apc_ranks(m); r++) {
    ApcReport report;
    json_t *rank = json_pack("{s:i, s:i}", "rank", r, "stage", (int)program_stage(&m->artifact.program, (uint32_t)r));
    if (predicted(m, r, &report, lacking)) rank = set(rank, "predicted_bytes", describe_report(&report));
    if (m->layout.bytes && apc_report(m, r, &report) == APC_OK) {
      rank = set(rank, "allocated_bytes", describe_report(&report));
      rank = set(rank, "sent_bytes", json_integer((json_int_t)report.sent_bytes));
      rank = set(rank, "communications", json_integer((json_int_t)report.communications));
    }
    list = add(list, rank);
  }
  return list;
}

static json_t *describe_entries(const Program *p) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->n_entries; i++) {
    const ProgramEntry *e = &p->entries[i];
    if (e->prepare) continue;
    list = add(list, json_pack("{s:o, s:o, s:o}", "name", json_text(program_text(p, e->name)), "inputs",
                               describe_ports(p, e->inputs, e->n_inputs), "outputs",
                               describe_ports(p, e->outputs, e->n_outputs)));
  }
  return list;
}

static json_t *describe_symbols(const Program *p) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const ProgramSymbol *s = &p->symbols[i];
    json_t *max = s->max ? json_integer(s->max) : json_null();
    list = add(list, json_pack("{s:o, s:b, s:I, s:o, s:I, s:I}", "name", json_text(program_text(p, s->name)),
                               "computed", s->most != 0, "min", (json_int_t)s->min, "max", max, "multiple",
                               (json_int_t)s->multiple, "hint", (json_int_t)s->hint));
  }
  return list;
}

/* True if the record is the first one of its weight, and the weight is not computed from others. */
static bool is_weight(const Program *p, uint32_t i) {
  bool again = p->params[i].init == PINIT_prepared;
  for (uint32_t k = 0; k < i && !again; k++) again = p->params[k].name == p->params[i].name;
  return !again;
}

static json_int_t elements(const Program *p, uint32_t i) {
  json_int_t n = 1;
  for (uint32_t d = 0; d < p->params[i].dims.n; d++) n *= p->exprs[program_list(p, p->params[i].dims)[d]].value;
  return n;
}

/* Returns the elements of the model's weights: once if several stages use them, and without weights that are computed
 * from others. */
static json_int_t weight_elements(const Program *p) {
  json_int_t sum = 0;
  for (uint32_t i = 0; i < p->n_params; i++)
    if (is_weight(p, i)) sum += elements(p, i);
  return sum;
}

/* Prints the number of weights and elements that a step changes, of all that training could change. */
static void trained_text(const Program *p, Text *t) {
  json_int_t weights[2] = {0}, sums[2] = {0};
  for (uint32_t i = 0; i < p->n_params; i++) {
    const uint32_t kind = p->params[i].trainable;
    if (kind == PARAM_FIXED || kind == PARAM_MEASURED || !is_weight(p, i)) continue;
    for (int k = kind == PARAM_TRAINED ? 0 : 1; k < 2; k++) weights[k]++, sums[k] += elements(p, i);
  }
  text_printf(t, "trains %lld of %lld weights, %s of %s", (long long)weights[0], (long long)weights[1],
              show_rounded(t->arena, sums[0]), show_rounded(t->arena, sums[1]));
}

static json_t *describe_images(const Program *p) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->n_images; i++) {
    const ProgramImage *x = &p->images[i];
    list = add(list, json_pack("{s:s, s:o, s:I}", "kind", program_image_kind(x->kind), "arch",
                               json_text(program_text(p, x->arch)), "bytes", (json_int_t)p->blobs[x->blob].bytes));
  }
  return list;
}

static json_t *describe_operators(const Program *p) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->n_operators; i++) {
    const ProgramOperator *x = &p->operators[i];
    list = add(
        list, json_pack("{s:o, s:o, s:I}", "name", json_text(program_text(p, x->name)), "function",
                        json_text(program_text(p, x->function)), "library_bytes", (json_int_t)p->blobs[x->blob].bytes));
  }
  return list;
}

/* Returns the instruction sets of the first image for CPUs; "" if there is none. */
static const char *cpu_sets(const Program *p) {
  for (uint32_t i = 0; i < p->n_images; i++)
    if (p->images[i].kind == PIMAGE_object) return program_text(p, p->images[i].arch);
  return "";
}

/* The numbers of ranks that the artifact has Programs for. */
static json_t *describe_worlds(const Artifact *a) {
  json_t *list = json_array();
  for (int i = 0; i < a->n_worlds; i++) list = add(list, json_integer(a->worlds[i]));
  return list;
}

static void print_worlds(const Artifact *a, Text *t) {
  if (a->n_worlds < 2) return;
  text_add(t, "plans for");
  for (int i = 0; i < a->n_worlds; i++) text_printf(t, "%s %u", i ? "," : "", a->worlds[i]);
  text_add(t, " ranks (--ranks)\n");
}

static json_t *describe(ApcModel *m, bool *lacking) {
  const Program *p = &m->artifact.program;
  const ProgramHeader *h = p->header;
  json_t *axes = json_object();
  for (uint32_t i = 0; i < p->n_axes; i++)
    axes = json_set_text(axes, program_text(p, p->axes[i].name), json_integer(p->axes[i].size));
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:i, s:o, s:I, s:I, s:o, s:o, s:o}", "schema",
                   "apc.program/1", "name", json_text(program_text(p, h->name)), "target",
                   json_text(program_text(p, h->target)), "producer", json_text(program_text(p, h->producer)), "cpu",
                   json_text(cpu_sets(p)), "images", describe_images(p), "operators", describe_operators(p), "ranks",
                   (int)p->ranks, "worlds", describe_worlds(&m->artifact), "stages", (int)p->stages, "mesh", axes,
                   "weights", weight_elements(p), "instructions", (json_int_t)p->n_instrs, "symbols",
                   describe_symbols(p), "entries", describe_entries(p), "memory", describe_ranks(m, lacking));
}

/* Prints the value of an input that --const bound: all of it, or the beginning. */
static void print_fixed(const Program *p, Text *t, const ProgramPort *port) {
  enum { SHOWN = 4 };
  size_t n = 1;
  for (uint32_t d = 0; d < port->dims.n; d++) n *= (size_t)p->exprs[program_list(p, port->dims)[d]].value;
  const Tensor all = tensor_view((DType)port->dtype, 1, &(int64_t){(int64_t)n}, program_list(p, port->fixed));
  text_add(t, ", always");
  for (size_t i = 0; i < n && i < SHOWN; i++) {
    char value[32];
    text_printf(t, " %s", tensor_element_text(&all, (int64_t)i, value, sizeof value));
  }
  if (n > SHOWN) text_add(t, " ..");
}

static void print_ports(const Program *p, Text *t, const char *word, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n; i++) {
    const ProgramPort *port = &p->ports[i];
    text_printf(t, "  %s %s : %s[", word, program_text(p, port->name), dtype_name((DType)port->dtype));
    for (uint32_t d = 0; d < port->dims.n; d++) {
      char dim[200];
      text_printf(t, "%s%s", d ? ", " : "", program_expr_text(p, program_list(p, port->dims)[d], dim, sizeof dim));
    }
    text_add(t, "]");
    if (port->fixed.n) print_fixed(p, t, port);
    text_add(t, "\n");
  }
}

static void print_symbols(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const ProgramSymbol *s = &p->symbols[i];
    char most[200];
    text_printf(t, "  dimension %s: from %" PRId64, program_text(p, s->name), s->min);
    if (s->most) text_printf(t, " to %s, computed", program_expr_text(p, s->most - 1, most, sizeof most));
    if (s->max) text_printf(t, " to %" PRId64, s->max);
    if (s->multiple > 1) text_printf(t, ", a multiple of %" PRId64, s->multiple);
    if (s->hint) text_printf(t, ", planned for %" PRId64, s->hint);
    text_add(t, "\n");
  }
}

void host_ports_text(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_entries; i++) {
    const ProgramEntry *e = &p->entries[i];
    if (e->prepare) continue;
    text_printf(t, "entry %s\n", program_text(p, e->name));
    print_ports(p, t, "input ", e->inputs, e->n_inputs);
    print_ports(p, t, "output", e->outputs, e->n_outputs);
  }
  print_symbols(p, t);
}

static void describe_text(ApcModel *m, Text *t, bool *lacking) {
  const Program *p = &m->artifact.program;
  text_printf(t, "%s for %s: %u rank%s", program_text(p, p->header->name), program_text(p, p->header->target), p->ranks,
              p->ranks == 1 ? "" : "s");
  for (uint32_t i = 0; i < p->n_axes; i++)
    text_printf(t, "%s%s=%u", i ? ", " : " (", program_text(p, p->axes[i].name), p->axes[i].size);
  if (p->stages > 1) text_printf(t, "%sstages=%u", p->n_axes ? ", " : " (", p->stages);
  text_printf(t, "%s, %lld weights\n", p->n_axes || p->stages > 1 ? ")" : "", (long long)weight_elements(p));
  print_worlds(&m->artifact, t);
  host_ports_text(p, t);
  for (uint32_t i = 0; i < p->n_images; i++) {
    text_add(t, "  code: ");
    program_image_text(p, i, t);
    text_add(t, "\n");
  }
  for (uint32_t i = 0; i < p->n_operators; i++)
    text_printf(t, "  operator %s: %s of a library of %.1f KiB\n", program_text(p, p->operators[i].name),
                program_text(p, p->operators[i].function), (double)p->blobs[p->operators[i].blob].bytes / 1024);
  ApcReport r;
  for (int rank = 0; rank < apc_ranks(m); rank++)
    if (predicted(m, rank, &r, lacking))
      text_printf(
          t, "  rank %d memory: weights %.1f MiB (and %.1f MiB in place), state %.1f MiB, activations %.1f MiB\n", rank,
          (double)r.param_bytes / 1048576, (double)r.mapped_bytes / 1048576, (double)r.state_bytes / 1048576,
          (double)(r.arena_bytes + r.window_bytes + r.library_bytes) / 1048576);
}

/* json_dumps leaves keys out if it runs out of memory (jansson 2.14). */
char *host_json_text(const json_t *d) {
  size_t n = json_dumpb(d, NULL, 0, JSON_INDENT(2));
  char *text = n ? malloc(n + 1) : NULL;
  if (!text) return NULL;
  bool whole = json_dumpb(d, text, n, JSON_INDENT(2)) == n;
  text[whole ? n : 0] = 0;
  return text;
}

static const char *lacks_memory(ApcModel *m) {
  m->error = (RtError){0};
  rt_error(&m->error, RT_FAILED, "out of memory");
  return "";
}

const char *apc_trained(ApcModel *m) {
  if (!host_begin(m)) return "";
  Arena *a = arena_new();
  Text t = {.arena = a};
  trained_text(&m->artifact.program, &t);
  free(m->description);
  m->description = strdup(text_str(&t));
  arena_free(a);
  return m->description ? m->description : lacks_memory(m);
}

const char *apc_describe(ApcModel *m, int json) {
  if (!host_begin(m)) return "";
  bool lacking = false;
  free(m->description);
  m->description = NULL;
  if (json) {
    json_t *d = describe(m, &lacking);
    m->description = host_json_text(d);
    json_decref(d);
  } else {
    Arena *a = arena_new();
    Text t = {.arena = a};
    describe_text(m, &t, &lacking);
    m->description = strdup(text_str(&t));
    arena_free(a);
  }
  if (m->description && *m->description && !lacking) return m->description;
  return lacks_memory(m);
}
