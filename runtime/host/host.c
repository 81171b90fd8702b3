/* runtime/host/host.c - the host's side of apc_runtime.h: loading, binding, running. */
#include "runtime/host/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/whole.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/share.h"

_Static_assert((int)APC_BOOL == (int)DT_bool && (int)APC_U64 == (int)DT_u64 && (int)APC_F16 == (int)DT_f16 &&
                   (int)APC_U2 == (int)DT_u2 && (int)APC_U2 + 1 == (int)DT_COUNT,
               "ApcType has the order of base/dtype.def");

/* ---- errors */

ApcStatus host_status(ApcModel *m, RtStatus status) {
  if (status == RT_OK) return APC_OK;
  if (m->error.status == RT_OK) rt_error(&m->error, status, "%s", rt_brief(status));
  return (ApcStatus)rt_exit_code(status);
}

ApcStatus host_error(ApcModel *m, RtStatus status, const char *format, ...) {
  char text[RT_ERROR_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return host_status(m, rt_error(&m->error, status, "%s", text));
}

/* False after a fork: the child lacks the threads that watch the ranks, and the ranks belong to the parent. */
static bool usable(const ApcModel *m) { return m->artifact.image && m->owner == getpid(); }

bool host_begin(ApcModel *m) {
  if (m->owner != getpid()) {
    m->error = (RtError){0};
    rt_error(&m->error, RT_USAGE, "the model was loaded before a fork; a child process has to load its own");
  }
  if (!usable(m)) return false;
  m->error = (RtError){0};
  if (m->submitted) rt_error(&m->error, RT_USAGE, "a request runs; end it with apc_wait or apc_cancel");
  return !m->submitted;
}

static ApcStatus not_loaded(ApcModel *m) { return (ApcStatus)rt_exit_code(m->error.status); }

const char *apc_error(const ApcModel *m) { return m ? m->error.text : "out of memory"; }

/* ---- loading */

/* Fails if the program has nothing to tune, or its file of choices cannot be read. */
static RtStatus check_tuning(ApcModel *m) {
  const Program *p = &m->artifact.program;
  const DeviceOps *device = m->tune ? devices_find(program_text(p, p->header->device)) : NULL;
  if (device && !device->tune)
    return rt_error(&m->error, RT_UNSUPPORTED,
                    "--tune %s: it chooses among the ways to compute on a GPU, and this program is for CPUs", m->tune);
  return tuning_hash(m->tune, &m->tune_hash, &m->error);
}

/* Makes room for the sizes of the Program's dimensions, none of which is bound. */
static RtStatus make_sizes(ApcModel *m) {
  const Program *p = &m->artifact.program;
  m->fixed = malloc(sizeof *m->fixed * (p->n_symbols + 1u));
  m->symbols = malloc(sizeof *m->symbols * (p->n_symbols + 1u));
  m->checked = malloc(sizeof *m->checked * (p->n_symbols + 1u));
  m->checked_entry = PROGRAM_NONE;
  m->dim_texts = calloc((size_t)p->n_ports + p->n_states + 1, sizeof *m->dim_texts);
  if (!m->fixed || !m->symbols || !m->checked || !m->dim_texts) return rt_error(&m->error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_symbols; i++) m->fixed[i] = -1;
  return RT_OK;
}

static void free_sizes(ApcModel *m) {
  free(m->fixed);
  free(m->symbols);
  free(m->checked);
  free(m->dim_texts);
}

/* Opens the Program for that number of ranks; 0: the first one. */
static RtStatus open_tables(ApcModel *m, const char *path, int ranks) {
  const char *name = path ? path : "this program";
  return ranks ? artifact_open_for(m->path, name, ranks, true, &m->artifact, &m->error)
               : artifact_open_tables(m->path, name, &m->artifact, &m->error);
}

static RtStatus open_model(ApcModel *m, const char *path, int ranks) {
  RtStatus status = open_tables(m, path, ranks);
  if (status) return status;
  const Program *p = &m->artifact.program;
  bool runnable = false;
  if (!m->launched && p->ranks > SESSION_MAX_RANKS) /* before any code visits each of them */
    return rt_error(&m->error, RT_UNSUPPORTED,
                    "the program is for %u ranks; it starts at most %d by itself: start them with "
                    "a launcher",
                    p->ranks, SESSION_MAX_RANKS);
  for (uint32_t i = p->n_entries; i-- > 0;)
    if (!p->entries[i].prepare) {
      m->entry = i;
      runnable = true;
    }
  if (!runnable) return rt_error(&m->error, RT_BAD_INPUT, "the program has no entry that can be run");
  status = check_tuning(m);
  if (!status) status = make_sizes(m);
  if (status || m->launched) return status;
  return param_files_open(&m->artifact, m->weights, NULL, &m->files,
                          &m->error); /* checked once here, so that the ranks need not hash */
}

static void close_files(ApcModel *m) {
  param_files_close(m->files);
  m->files = NULL;
  artifact_close(&m->artifact);
}

ApcStatus apc_load(const char *path, const ApcOptions *options, ApcModel **model) {
  return host_load(path, options, options && options->launch ? options->launch->place.world : 0, model);
}

ApcStatus host_load(const char *path, const ApcOptions *options, int ranks, ApcModel **model) {
  ApcModel *m = *model = calloc(1, sizeof *m);
  if (!m) return APC_FAILED;
  m->owner = getpid();
  m->path = strdup(path ? path : "/proc/self/exe");
  if (options && options->weights) m->weights = strdup(options->weights);
  if (options && options->tune) m->tune = strdup(options->tune);
  m->timeout_ms = options ? options->timeout_ms : 0;
  m->hands_on = options && options->hands_on;
  m->launched = options && options->launch ? options->launch->launched : NULL;
  bool whole = m->path && (m->weights || !options || !options->weights) && (m->tune || !options || !options->tune);
  RtStatus status = whole ? open_model(m, path, ranks) : rt_error(&m->error, RT_FAILED, "out of memory");
  if (status) close_files(m);
  return host_status(m, status);
}

double host_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void unbind(Bound *b) {
  tensor_free(&b->tensor);
  tensor_free(&b->copy);
  free(b->name);
}

ApcStatus apc_metrics(ApcModel *m, const char *address) {
  if (!host_begin(m)) return not_loaded(m);
  if (m->metrics) return host_error(m, RT_USAGE, "metrics: they are served already");
  return host_status(m, metrics_open(address, m->artifact.program.ranks, &m->metrics, &m->error));
}

void apc_close(ApcModel *m) {
  if (!m) return;
  if (m->metrics && m->owner == getpid()) metrics_close(m->metrics);
  else if (m->metrics) metrics_forget(m->metrics);
  if (m->owner == getpid()) session_stop(m->session);
  else session_forget(m->session);
  for (size_t i = 0; i < m->n_bound; i++) unbind(&m->bound[i]);
  free(m->bound);
  host_outputs_free(m);
  host_devices_free(m);
  request_layout_free(&m->layout);
  close_files(m);
  free(m->path);
  free(m->weights);
  free(m->tune);
  free_sizes(m);
  free(m->description);
  host_record_stale(m);
  free(m->profile.text);
  free(m);
}

/* ---- what the program offers */

/* Returns entry `number` of those that a caller may run; `prepare` is not one of them. */
static const ProgramEntry *callable(const ApcModel *m, int number) {
  const Program *p = &m->artifact.program;
  for (uint32_t i = 0; usable(m) && i < p->n_entries; i++)
    if (!p->entries[i].prepare && number-- == 0) return &p->entries[i];
  return NULL;
}

int apc_entries(const ApcModel *m) {
  int n = 0;
  while (callable(m, n)) n++;
  return n;
}

const char *apc_entry_name(const ApcModel *m, int i) {
  const ProgramEntry *e = i >= 0 ? callable(m, i) : NULL;
  return e ? program_text(&m->artifact.program, e->name) : NULL;
}

RtStatus host_find_entry(ApcModel *m, const char *name, uint32_t *out) {
  const Program *p = &m->artifact.program;
  uint32_t i = program_entry_find(p, name);
  if (i == PROGRAM_NONE || p->entries[i].prepare) return rt_error(&m->error, RT_USAGE, "there is no entry '%s'", name);
  *out = i;
  return RT_OK;
}

ApcStatus apc_select(ApcModel *m, const char *entry) {
  if (!host_begin(m)) return not_loaded(m);
  return host_status(m, host_find_entry(m, entry, &m->entry));
}

static const ProgramEntry *selected(const ApcModel *m) { return &m->artifact.program.entries[m->entry]; }

int apc_inputs(const ApcModel *m) { return usable(m) ? (int)selected(m)->n_inputs : 0; }
int apc_outputs(const ApcModel *m) { return usable(m) ? (int)selected(m)->n_outputs : 0; }
int apc_ranks(const ApcModel *m) { return usable(m) ? (int)m->artifact.program.ranks : 0; }

static int64_t constant_value(const Program *p, uint32_t expr) {
  return p->exprs[expr].kind == PX_const ? p->exprs[expr].value : -1;
}

/* Sets sizes and their formulas, whose texts go to `texts`. */
static void dims_info(const Program *p, ProgramList dims, char (*texts)[64], ApcTensorInfo *info) {
  info->rank = (int)dims.n;
  for (uint32_t d = 0; d < dims.n; d++) {
    uint32_t e = program_list(p, dims)[d];
    info->dims[d] = constant_value(p, e);
    info->dim_text[d] = program_expr_text(p, e, texts[d], sizeof texts[d]);
  }
}

static ApcStatus port_info(ApcModel *m, uint32_t n, uint32_t first, int index, ApcTensorInfo *info) {
  const Program *p = &m->artifact.program;
  memset(info, 0, sizeof *info);
  if (index < 0 || (uint32_t)index >= n) return host_error(m, RT_USAGE, "there is no tensor number %d", index);
  uint32_t port = first + (uint32_t)index;
  const ProgramPort *t = &p->ports[port];
  info->name = program_text(p, t->name);
  info->type = (ApcType)t->dtype;
  info->index_below = t->index_below == PROGRAM_NONE ? -1 : constant_value(p, t->index_below);
  info->index_from = t->index_negative && info->index_below > 0 ? -info->index_below : 0;
  info->index_ignored = t->index_ignored == PROGRAM_NONE ? info->index_from : constant_value(p, t->index_ignored);
  dims_info(p, t->dims, m->dim_texts[port], info);
  return APC_OK;
}

ApcStatus apc_input_info(ApcModel *m, int index, ApcTensorInfo *info) {
  if (!host_begin(m)) return not_loaded(m);
  return port_info(m, selected(m)->n_inputs, selected(m)->inputs, index, info);
}

ApcStatus apc_output_info(ApcModel *m, int index, ApcTensorInfo *info) {
  if (!host_begin(m)) return not_loaded(m);
  return port_info(m, selected(m)->n_outputs, selected(m)->outputs, index, info);
}

int apc_states(const ApcModel *m) { return usable(m) ? (int)m->artifact.program.n_states : 0; }

ApcStatus apc_state_info(ApcModel *m, int index, ApcTensorInfo *info) {
  if (!host_begin(m)) return not_loaded(m);
  const Program *p = &m->artifact.program;
  *info = (ApcTensorInfo){.index_below = -1};
  if (index < 0 || (uint32_t)index >= p->n_states) return host_error(m, RT_USAGE, "there is no state number %d", index);
  const ProgramState *s = &p->states[index];
  info->name = program_text(p, s->name);
  info->type = (ApcType)s->dtype;
  dims_info(p, s->dims, m->dim_texts[p->n_ports + (uint32_t)index], info);
  return APC_OK;
}

/* ---- binding */

void host_suggest(const Program *p, uint32_t first, uint32_t n, const char *name, char *text, size_t size) {
  Nearest near = nearest_to(name);
  size_t used = 0;
  *text = 0;
  for (uint32_t i = first; i < first + n; i++) nearest_try(&near, program_text(p, p->ports[i].name));
  if (near.best) snprintf(text, size, "; did you mean '%s'?", near.best);
  for (uint32_t i = first; !near.best && i < first + n && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i == first ? "; there are: " : ", ",
                             program_text(p, p->ports[i].name));
}

/* Returns a port of that name among the inputs or the outputs of any entry; PROGRAM_NONE if there is none. */
static uint32_t find_port(const Program *p, const char *name, bool output) {
  for (uint32_t e = 0; e < p->n_entries; e++) {
    uint32_t first = output ? p->entries[e].outputs : p->entries[e].inputs;
    uint32_t n = output ? p->entries[e].n_outputs : p->entries[e].n_inputs;
    for (uint32_t i = first; i < first + n; i++)
      if (strcmp(program_text(p, p->ports[i].name), name) == 0) return i;
  }
  return PROGRAM_NONE;
}

Bound *host_bound(const ApcModel *m, const char *name) {
  for (size_t i = 0; i < m->n_bound; i++)
    if (strcmp(m->bound[i].name, name) == 0) return &m->bound[i];
  return NULL;
}

ApcStatus host_find_type(ApcModel *m, const char *name, bool output, DType *type) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = selected(m);
  char hint[300];
  uint32_t port = find_port(p, name, output);
  if (port != PROGRAM_NONE) return *type = (DType)p->ports[port].dtype, APC_OK;
  host_suggest(p, output ? e->outputs : e->inputs, output ? e->n_outputs : e->n_inputs, name, hint, sizeof hint);
  return host_error(m, RT_USAGE, "there is no %s '%s'%s", output ? "output" : "input", name, hint);
}

static ApcStatus other_type(ApcModel *m, const char *name, const Tensor *given, DType wanted) {
  return host_error(m, RT_BAD_INPUT, "input '%s' is %s, but the model expects %s", name,
                    given->raw ? "raw bytes" : dtype_name(given->dtype), dtype_name(wanted));
}

static bool has_shape(const Bound *b) { return b->kind == BOUND_DATA || b->kind == BOUND_DEVICE; }

static ApcStatus check_bound(ApcModel *m, const char *name, const Bound *bound) {
  DType type;
  ApcStatus status = host_find_type(m, name, false, &type);
  if (status || !has_shape(bound) || (bound->tensor.dtype == type && !bound->tensor.raw)) return status;
  return other_type(m, name, &bound->tensor, type);
}

ApcStatus host_bind_numbers(ApcModel *m, const char *name, Tensor t) {
  DType type;
  Tensor converted;
  int64_t index[TENSOR_MAX_RANK];
  char place[200], value[32];
  ApcStatus status = host_find_type(m, name, false, &type);
  if (!status) tensor_settle(&t, type);
  if (status || t.raw || t.dtype == type || !whole_may_be(t.dtype, type))
    return host_bind(m, name, (Bound){.tensor = t});
  int64_t other = whole_first_other(&t, type);
  if (other >= 0) {
    tensor_index(t.rank, t.dims, other, index);
    status = host_error(m, RT_BAD_INPUT, "input '%s': element%s%s is %s; it takes whole numbers of type %s", name,
                        t.rank ? " " : "", tensor_index_text(t.rank, index, place, sizeof place),
                        tensor_element_text(&t, other, value, sizeof value), dtype_name(type));
  } else if (!whole_convert(&t, type, &converted)) {
    status = host_error(m, RT_FAILED, "out of memory");
  }
  tensor_free(&t);
  return status ? status : host_bind(m, name, (Bound){.tensor = converted});
}

/* Checks the tensor against an input, as far as possible without the sizes of other inputs. */
static RtStatus fits_port(const Program *p, const ProgramPort *t, const Tensor *like, RtError *error) {
  const char *name = program_text(p, t->name);
  if (t->dims.n != (uint32_t)like->rank)
    return rt_error(error, RT_BAD_INPUT, "input '%s' has %d dimension%s, but the model expects %u", name, like->rank,
                    like->rank == 1 ? "" : "s", t->dims.n);
  for (uint32_t d = 0; d < t->dims.n; d++) {
    const ProgramExpr *e = &p->exprs[program_list(p, t->dims)[d]];
    if (e->kind == PX_const && e->value != like->dims[d])
      return rt_error(error, RT_BAD_INPUT, "input '%s': dimension %u is %lld, but must be %lld", name, d,
                      (long long)like->dims[d], (long long)e->value);
  }
  return RT_OK;
}

ApcStatus host_accepts(ApcModel *m, const char *name, const Tensor *like) {
  const Program *p = &m->artifact.program;
  DType type;
  ApcStatus status = host_find_type(m, name, false, &type);
  if (status) return status;
  Tensor settled = *like;
  tensor_settle(&settled, type);
  if (settled.raw || !whole_may_be(settled.dtype, type)) return other_type(m, name, &settled, type);
  RtError error = {0};
  for (uint32_t e = 0; e < p->n_entries; e++) /* it fits if it fits any entry */
    for (uint32_t i = p->entries[e].inputs; i < p->entries[e].inputs + p->entries[e].n_inputs; i++)
      if (strcmp(program_text(p, p->ports[i].name), name) == 0 && fits_port(p, &p->ports[i], &settled, &error) == RT_OK)
        return APC_OK;
  return host_error(m, error.status, "%s", error.text);
}

ApcStatus host_bind(ApcModel *m, const char *name, Bound bound) {
  ApcStatus status = check_bound(m, name, &bound);
  Bound *old = host_bound(m, name);
  bound.name = status ? NULL : strdup(name);
  Bound *list = status || old ? m->bound : realloc(m->bound, (m->n_bound + 1) * sizeof *list);
  if (!status && (!bound.name || !list)) status = host_error(m, RT_FAILED, "out of memory");
  if (list) m->bound = list;
  if (status) {
    unbind(&bound);
    return status;
  }
  m->devices_new |= bound.kind == BOUND_DEVICE || (old && old->kind == BOUND_DEVICE);
  if (old) unbind(old);
  else old = &list[m->n_bound++];
  *old = bound;
  return APC_OK;
}

void host_unbind(ApcModel *m, const char *name) {
  Bound *b = host_bound(m, name);
  if (!b) return;
  unbind(b);
  *b = m->bound[--m->n_bound];
  m->inputs_new = true;
}

ApcStatus apc_bind_input(ApcModel *m, const char *name, ApcType type, int rank, const int64_t *dims, const void *data) {
  if (!host_begin(m)) return not_loaded(m);
  size_t bytes;
  if ((unsigned)type >= DT_COUNT || !tensor_size((DType)type, rank, dims, &bytes))
    return host_error(m, RT_BAD_INPUT, "input '%s' has an invalid type or shape", name);
  if (!data && bytes) return host_error(m, RT_USAGE, "input '%s' has no data", name);
  return host_bind(m, name, (Bound){.tensor = tensor_view((DType)type, rank, dims, data ? data : "")});
}

ApcStatus apc_bind_dim(ApcModel *m, const char *symbol, int64_t size) {
  if (!host_begin(m)) return not_loaded(m);
  const Program *p = &m->artifact.program;
  if (size < 0) return host_error(m, RT_BAD_INPUT, "%s cannot be negative", symbol);
  for (uint32_t i = 0; i < p->n_symbols; i++)
    if (strcmp(program_text(p, p->symbols[i].name), symbol) == 0) {
      if (p->symbols[i].most)
        return host_error(m, RT_BAD_INPUT, "%s cannot be chosen: the program computes it", symbol);
      m->fixed[i] = size;
      return APC_OK;
    }
  char names[300] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < p->n_symbols && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                             i ? ", " : "; there are: ", program_text(p, p->symbols[i].name));
  return host_error(m, RT_USAGE, "there is no dimension '%s'%s", symbol, names);
}

/* ---- running */

RtStatus host_symbols(ApcModel *m, uint32_t entry, int64_t *symbols) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  ProgramShape *shapes = calloc(e->n_inputs + 1u, sizeof *shapes);
  if (!shapes) return rt_error(&m->error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    const Bound *b = host_bound(m, program_text(p, p->ports[e->inputs + i].name));
    shapes[i].rank = -1;
    if (!b || !has_shape(b)) continue;
    shapes[i].rank = b->tensor.rank;
    memcpy(shapes[i].dims, b->tensor.dims, sizeof *b->tensor.dims * (size_t)b->tensor.rank);
  }
  memcpy(symbols, m->fixed, sizeof *symbols * p->n_symbols);
  RtStatus status = program_bind(p, entry, shapes, symbols, &m->error);
  free(shapes);
  return status;
}

static RtStatus all_bound(ApcModel *m, uint32_t entry) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  for (uint32_t i = e->inputs; i < e->inputs + e->n_inputs; i++) {
    const char *name = program_text(p, p->ports[i].name);
    const Bound *b = host_bound(m, name);
    if (!b) return rt_error(&m->error, RT_BAD_INPUT, "input '%s' is missing", name);
    if (has_shape(b) && b->tensor.dtype != (DType)p->ports[i].dtype)
      return rt_error(&m->error, RT_BAD_INPUT, "input '%s' is %s, but entry '%s' expects %s", name,
                      dtype_name(b->tensor.dtype), program_text(p, e->name), dtype_name((DType)p->ports[i].dtype));
  }
  return RT_OK;
}

static void step_text(void *context, int rank, uint32_t step, char *text, size_t size) {
  (void)rank;
  exec_step_text(context, step, text, size);
}

enum { STOPPED_MS = 1000 }; /* a stopped rank of an elastic run is lost after this time */

/* The ranks get the files that were checked. */
RtStatus host_start(ApcModel *m) {
  if (m->launched) return launched_start(m->launched, &m->error);
  if (m->session) return RT_OK;
  RtStatus tuned = tuning_hash(m->tune, &m->tune_hash, &m->error); /* earlier ranks may have made the file */
  if (tuned) return tuned;
  SessionOptions options = {.path = m->path,
                            .program = m->artifact.fd,
                            .world = apc_ranks(m),
                            .timeout_ms = m->timeout_ms,
                            .hands_on = m->hands_on,
                            .may_leave = m->elastic,
                            .stopped_ms = m->elastic ? STOPPED_MS : 0,
                            .threads = m->threads,
                            .step_text = step_text,
                            .step_context = &m->artifact.program};
  char *text = param_files_text(m->files);
  int *kept = param_files_descriptors(m->files, &options.n_kept), shared = exec_share_create(&m->artifact.program);
  char number[16];
  snprintf(number, sizeof number, "%d", shared);
  char hash[24];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)m->tune_hash);
  const char *const pairs[][2] = {{"--files", text},
                                  {"--shared", number},
                                  {"--weights", m->weights},
                                  {"--tune", m->tune},
                                  {"--tune-hash", m->tune ? hash : NULL}};
  enum { PAIRS = (int)(sizeof pairs / sizeof *pairs) };
  const char *args[2 * PAIRS + 1] = {NULL}; /* NULL ends them, also if all are given */
  for (int i = 0, n = 0; i < PAIRS; i++)
    if (pairs[i][1]) args[n++] = pairs[i][0], args[n++] = pairs[i][1];
  if (kept && shared >= 0) kept[options.n_kept++] = shared;
  options.kept = kept;
  options.args = args;
  RtStatus status =
      text && kept ? session_start(&options, &m->session, &m->error) : rt_error(&m->error, RT_FAILED, "out of memory");
  if (shared >= 0) close(shared); /* the ranks have it now */
  free(text);
  free(kept);
  return status;
}

/* Drops the session after its ranks failed. */
static RtStatus end(ApcModel *m, RtStatus status) {
  if (!status) return RT_OK;
  m->lost |= m->session && (status == RT_FAILED || status == RT_LATE);
  host_inputs_take_back(m);
  session_stop(m->session);
  m->session = NULL;
  m->states.made = m->kept_states.made = false;
  m->profile.on = false;
  m->io = NULL;
  m->places.n = 0;
  request_layout_free(&m->layout);
  return status;
}

/* Gives the ranks of the session a request, without waiting. */
static RtStatus send(ApcModel *m, const RequestHead *head, const int64_t *symbols, const RequestFile *file) {
  char payload[sizeof *head + PROGRAM_MAX_SYMBOLS * sizeof *symbols + sizeof *file];
  size_t n = sizeof *head, values = sizeof *symbols * head->n_symbols;
  memcpy(payload, head, sizeof *head);
  if (values) memcpy(payload + n, symbols, values), n += values;
  if (file) memcpy(payload + n, file, sizeof *file), n += sizeof *file;
  return session_run(m->session, payload, n, &m->error);
}

static RequestHead head_of(ApcModel *m, RequestKind kind, uint32_t entry, uint32_t n_symbols) {
  RequestHead head = {.kind = (uint32_t)kind, .entry = entry, .n_symbols = n_symbols, .number = m->requests++};
  if (kind == REQUEST_RUN) head.n_places = m->places.n, head.at = m->places.at;
  if (request_is_of_state(kind)) head.at = m->box;
  return head;
}

static RtStatus ask(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols, uint32_t n_symbols,
                    const RequestFile *file) {
  RequestHead head = head_of(m, kind, entry, n_symbols);
  RtStatus status;
  if (m->launched && file) {
    status = launched_run_file(m->launched, &head, symbols, file, &m->error);
  } else if (m->launched) {
    bool inputs = m->inputs_new;
    m->inputs_new = false;
    status = launched_run(m->launched, &head, symbols, kind == REQUEST_RUN ? &m->layout : NULL, inputs, &m->error);
  } else {
    status = send(m, &head, symbols, file);
    if (!status) status = session_wait(m->session, &m->error);
    status = end(m, status);
  }
  if (!status) host_states_note(m, kind, entry, symbols);
  m->launch_failed = m->launch_failed || (status && m->launched);
  return status;
}

int host_leaving(const ApcModel *m) {
  return m->launched ? launched_leaving(m->launched) : m->session ? session_leaving(m->session) : 0;
}

/* Opens the Program for that number of ranks in place of the present one; sizes bound to dimensions stay. */
static RtStatus reopen(ApcModel *m, int ranks) {
  Artifact before = m->artifact;
  int64_t *fixed = m->fixed;
  ParamFiles *files = m->files;
  free(m->symbols);
  free(m->checked);
  free(m->dim_texts);
  m->artifact = (Artifact){0};
  m->fixed = m->symbols = m->checked = NULL;
  m->dim_texts = NULL;
  m->files = NULL;
  RtStatus status = open_model(m, NULL, ranks);
  const Program *p = &m->artifact.program;
  for (uint32_t i = 0; i < p->n_symbols && !status; i++)
    for (uint32_t k = 0; k < before.program.n_symbols; k++)
      if (strcmp(program_text(p, p->symbols[i].name), program_text(&before.program, before.program.symbols[k].name)) ==
          0)
        m->fixed[i] = fixed[k];
  param_files_close(files);
  artifact_close(&before);
  free(fixed);
  return status;
}

ApcStatus host_switch(ApcModel *m, int ranks) {
  if (!host_begin(m)) return not_loaded(m);
  end(m, RT_ABORTED);
  RtStatus status = ranks == apc_ranks(m) ? RT_OK : reopen(m, ranks);
  metrics_ranks(m->metrics, m->artifact.program.ranks);
  return host_status(m, status);
}

RtStatus host_request_file(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols,
                           const RequestFile *file) {
  RtStatus status = host_start(m);
  return status ? status : ask(m, kind, entry, symbols, m->artifact.program.n_symbols, file);
}

static void count_run(ApcModel *m, RtStatus status) {
  metrics_request(m->metrics, host_now() - m->begun_s, !status, m->io);
  if (!m->profile.on) return;
  m->profile.asked_s += host_now() - m->begun_s;
  host_record_stale(m);
}

RtStatus host_request(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols, uint32_t n_symbols) {
  m->begun_s = host_now();
  RtStatus status = ask(m, kind, entry, symbols, n_symbols, NULL);
  if (kind == REQUEST_RUN) count_run(m, status);
  return status;
}

/* Computes the layout of the request, and checks once per sizes that this machine can hold it. */
static RtStatus lay_out(ApcModel *m, uint32_t entry) {
  const Program *p = &m->artifact.program;
  size_t bytes = sizeof *m->symbols * p->n_symbols;
  request_layout_free(&m->layout);
  RtStatus status = request_layout(p, entry, m->symbols, false, &m->layout, &m->error);
  if (status || (m->checked_entry == entry && memcmp(m->checked, m->symbols, bytes) == 0)) return status;
  status = host_check_memory(m, entry, m->layout.bytes);
  if (status) return status;
  m->checked_entry = entry;
  memcpy(m->checked, m->symbols, bytes);
  return RT_OK;
}

/* Checks the request and copies its inputs to where the ranks read them. */
static RtStatus prepare(ApcModel *m, const char *entry) {
  uint32_t which = m->entry;
  RtStatus status = entry ? host_find_entry(m, entry, &which) : RT_OK;
  if (!status) status = all_bound(m, which);
  if (!status) status = host_symbols(m, which, m->symbols);
  if (!status) status = host_check_sizes(m, which);
  if (!status) status = host_devices_begin(m, which);
  if (!status) status = host_check_values(m, which);
  if (!status) status = lay_out(m, which);
  if (!status) status = host_outputs_check(m, which);
  if (!status) status = host_start(m);
  if (!status) status = host_record_begin(m);
  if (!status) status = host_inputs_place(m, which);
  if (!status) status = host_devices_place(m, which);
  m->ran_entry = which;
  m->devices_new = false;
  return status;
}

/* Gives the outputs of a request the sizes that it computed. */
static RtStatus take_computed(ApcModel *m) {
  const Program *p = &m->artifact.program;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  RequestLayout now;
  if (!(p->uses & PROGRAM_USES_COMPUTED)) return RT_OK;
  memcpy(symbols, m->symbols, sizeof *symbols * p->n_symbols);
  request_computed(p, request_report(m->io, 0), symbols);
  RtStatus status = request_layout(p, m->ran_entry, symbols, true, &now, &m->error);
  if (status) return status;
  request_layout_free(&m->layout);
  m->layout = now;
  return RT_OK;
}

/* Ends a request: delivers its results, or drops its layout. */
static ApcStatus finish(ApcModel *m, RtStatus status) {
  if (!status) status = take_computed(m);
  if (!status) status = host_outputs_deliver(m);
  if (status) request_layout_free(&m->layout);
  return host_status(m, status);
}

ApcStatus apc_run(ApcModel *m, const char *entry) {
  if (!host_begin(m)) return not_loaded(m);
  RtStatus status = prepare(m, entry);
  if (!status) status = host_request(m, REQUEST_RUN, m->ran_entry, m->symbols, m->artifact.program.n_symbols);
  return finish(m, status);
}

ApcStatus apc_submit(ApcModel *m, const char *entry) {
  if (!host_begin(m)) return not_loaded(m);
  if (m->launched) return host_error(m, RT_UNSUPPORTED, "apc_submit is not available with the ranks of a launcher");
  RtStatus status = prepare(m, entry);
  if (status) return finish(m, status);
  RequestHead head = head_of(m, REQUEST_RUN, m->ran_entry, m->artifact.program.n_symbols);
  m->begun_s = host_now();
  status = end(m, send(m, &head, m->symbols, NULL));
  m->submitted = !status;
  if (status) count_run(m, status);
  return status ? finish(m, status) : APC_OK;
}

/* Begins a call that ends a submitted request. */
static bool has_submitted(ApcModel *m) {
  bool submitted = m->submitted;
  m->submitted = false;
  if (!host_begin(m)) return m->submitted = submitted, false;
  if (!submitted) rt_error(&m->error, RT_USAGE, "no request runs; apc_submit starts one");
  return m->submitted = submitted;
}

/* The caller may come long after the end of a submitted request: only the time of its slowest rank counts. */
static void note_begin(ApcModel *m) {
  uint64_t longest = 0;
  for (uint32_t r = 0; r < m->artifact.program.ranks; r++)
    if (request_report(m->io, r)->run_ns > longest) longest = request_report(m->io, r)->run_ns;
  double begun = host_now() - (double)longest * 1e-9;
  if (begun > m->begun_s) m->begun_s = begun;
}

ApcStatus apc_wait(ApcModel *m, int timeout_ms) {
  if (!has_submitted(m)) return not_loaded(m);
  bool done = true;
  RtStatus status =
      timeout_ms < 0 ? session_wait(m->session, &m->error) : session_wait_for(m->session, timeout_ms, &done, &m->error);
  if (!status && !done) return APC_PENDING;
  m->submitted = false;
  status = end(m, status);
  if (!status) host_states_note(m, REQUEST_RUN, m->ran_entry, m->symbols), note_begin(m);
  count_run(m, status);
  return finish(m, status);
}

ApcStatus apc_cancel(ApcModel *m) {
  if (!has_submitted(m)) return not_loaded(m);
  m->submitted = false;
  end(m, RT_ABORTED);
  return APC_OK;
}

ApcStatus apc_set_threads(ApcModel *m, int threads) {
  if (!host_begin(m)) return not_loaded(m);
  if (threads < 0 || threads > 1 << 16)
    return host_error(m, RT_USAGE, "%d threads; 0 to %d are allowed", threads, 1 << 16);
  if (m->session || m->launched) return host_error(m, RT_USAGE, "the ranks run already; set their threads before");
  m->threads = threads;
  return APC_OK;
}

RtStatus host_has_run(ApcModel *m) {
  return m->layout.bytes ? RT_OK : rt_error(&m->error, RT_USAGE, "nothing has run yet");
}

ApcStatus apc_run_again(ApcModel *m) {
  if (!host_begin(m)) return not_loaded(m);
  RtStatus status = host_has_run(m);
  if (!status && m->devices_new)
    status = rt_error(&m->error, RT_USAGE, "tensors on devices were bound since the last request: it cannot run again");
  if (!status) status = host_devices_begin(m, m->ran_entry);
  if (!status && m->tensors) status = host_check_values(m, m->ran_entry);
  if (!status) status = host_outputs_check(m, m->ran_entry);
  if (!status) status = host_inputs_again(m);
  if (!status) status = host_devices_place(m, m->ran_entry);
  if (status) return host_status(m, status);
  return finish(m, host_request(m, REQUEST_RUN, m->ran_entry, m->symbols, m->artifact.program.n_symbols));
}

int apc_asked(const ApcModel *m) { return usable(m) && m->launched && launched_asked(m->launched); }

ApcStatus apc_reset(ApcModel *m) {
  if (!host_begin(m)) return not_loaded(m);
  return m->session || m->launched ? host_status(m, host_request(m, REQUEST_RESET, 0, NULL, 0)) : APC_OK;
}

static ApcStatus ask_of_states(ApcModel *m, RequestKind kind) {
  if (!host_begin(m)) return not_loaded(m);
  RtStatus status = host_start(m);
  return host_status(m, status ? status : host_request(m, kind, 0, NULL, 0));
}

ApcStatus apc_keep(ApcModel *m) { return ask_of_states(m, REQUEST_KEEP); }
ApcStatus apc_back(ApcModel *m) { return ask_of_states(m, REQUEST_BACK); }

ApcStatus apc_not_finite(ApcModel *m, const char **name) {
  if (!host_begin(m)) return not_loaded(m);
  *name = NULL;
  if (host_has_run(m)) return host_status(m, m->error.status);
  ApcStatus status = ask_of_states(m, REQUEST_LOOK);
  const Program *p = &m->artifact.program;
  uint64_t first = UINT64_MAX;
  for (uint32_t r = 0; r < p->ranks && !status; r++) {
    uint64_t of_rank = request_report(m->io, r)->not_finite;
    if (of_rank && of_rank < first) first = of_rank;
  }
  if (!status && first <= p->n_params) *name = program_text(p, p->params[first - 1].name);
  return status;
}

/* ---- cost */

ApcStatus apc_report(ApcModel *m, int rank, ApcReport *out) {
  if (!host_begin(m)) return not_loaded(m);
  if (host_has_run(m)) return host_status(m, m->error.status);
  if (rank < 0 || rank >= apc_ranks(m)) return host_error(m, RT_USAGE, "there is no rank %d", rank);
  const RankReport *r = request_report(m->io, (uint32_t)rank);
  *out = (ApcReport){.param_bytes = r->allocated[SPACE_PARAM],
                     .state_bytes = r->allocated[SPACE_STATE],
                     .arena_bytes = r->allocated[SPACE_ARENA],
                     .window_bytes = r->allocated[SPACE_WINDOW],
                     .library_bytes = r->allocated[SPACE_LIBRARY],
                     .gathered_bytes = r->class_bytes[PC_gathered],
                     .gradient_bytes = r->class_bytes[PC_gradient],
                     .saved_bytes = r->class_bytes[PC_saved],
                     .mapped_bytes = r->mapped,
                     .load_s = (double)r->load_ns * 1e-9,
                     .run_s = (double)r->run_ns * 1e-9,
                     .prepared = r->prepared};
  for (int k = 0; k < COMM_KIND_COUNT; k++) {
    out->sent_bytes += r->sent[k];
    out->communications += r->operations[k];
  }
  return APC_OK;
}

ApcStatus apc_predict(ApcModel *m, int rank, ApcReport *out) {
  if (!host_begin(m)) return not_loaded(m);
  const Program *p = &m->artifact.program;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  MemoryPlan plan;
  if (rank < 0 || rank >= apc_ranks(m)) return host_error(m, RT_USAGE, "there is no rank %d", rank);
  RtStatus status = host_symbols(m, m->entry, symbols);
  if (!status) status = memory_plan(p, m->entry, program_stage(p, (uint32_t)rank), symbols, &plan, &m->error);
  if (status) return host_status(m, status);
  *out = (ApcReport){.param_bytes = plan.bytes[SPACE_PARAM],
                     .state_bytes = plan.bytes[SPACE_STATE],
                     .arena_bytes = plan.bytes[SPACE_ARENA],
                     .window_bytes = plan.bytes[SPACE_WINDOW],
                     .library_bytes = plan.bytes[SPACE_LIBRARY],
                     .gathered_bytes = plan.class_bytes[PC_gathered],
                     .gradient_bytes = plan.class_bytes[PC_gradient],
                     .saved_bytes = plan.class_bytes[PC_saved],
                     .mapped_bytes = plan.mapped_bytes};
  memory_plan_free(&plan);
  return APC_OK;
}
