/* runtime/exec/exec.c - opens an executor: device, groups, weights; and manages its memory.  See exec.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/exec/entry_file.h"

uint64_t exec_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool says(const char *variable, const char *word) {
  const char *value = getenv(variable);
  return value && strcmp(value, word) == 0;
}

bool exec_is_set(const char *variable) { return says(variable, "1"); }

bool exec_comm_staged(void) { return says("APC_COMM", "staged"); }

bool exec_conv_kernels(void) { return says("APC_CONV", "kernel"); }

/* ---- memory */

/* Frees the space; its contents are lost. */
static void exec_release(Executor *e, ProgramSpace space) {
  Space *s = &e->spaces[space];
  if (s->data) e->ops->release(e->device, s->data, s->bytes);
  *s = (Space){0};
  e->generation++;
}

RtStatus exec_alloc(Executor *e, ProgramSpace space, uint64_t bytes, RtError *error) {
  Space *s = &e->spaces[space];
  RtError inner = {0};
  if (bytes <= s->bytes) return RT_OK;
  exec_release(e, space);
  RtStatus status = e->ops->alloc(e->device, bytes, &s->data, &inner);
  if (status)
    return rt_error(error, status, "rank %u cannot get %llu bytes of memory: %s", e->options.rank,
                    (unsigned long long)bytes, inner.text);
  s->bytes = bytes;
  return RT_OK;
}

RtStatus exec_fill(const Executor *e, uint32_t instr, DType dtype, void *to, int64_t rows, int64_t n, int64_t stride,
                   double value, RtError *error) {
  CallTensor tensor = {.dtype = dtype, .elements = rows * n};
  int64_t scalars[] = {rows, n, stride};
  DeviceCall c = {.kind = PI_fill,
                  .instr = instr,
                  .n_tensors = 1,
                  .n_scalars = 3,
                  .tensors = &tensor,
                  .data = &to,
                  .scalars = scalars,
                  .value = value};
  return e->ops->fill(e->device, &c, error);
}

/* ---- device and groups */

/* Called by the device while it waits. */
static RtStatus check_ranks(void *context, RtError *error) {
  const Executor *e = context;
  return e->comm ? comm_check(e->comm, error) : RT_OK;
}

/* Called by the device while it waits, with the step of the last mark that it has reached. */
static void tell_reached(void *context, uint32_t step) {
  const Executor *e = context;
  if (e->options.place) rank_place_steps(e->options.place, step, exec_mark_end(e, step));
}

static RtStatus find_device(Executor *e, RtError *error) {
  const char *name = program_text(e->p, e->p->header->device);
  e->ops = e->options.device ? e->options.device : devices_find(name);
  return e->ops ? RT_OK : rt_error(error, RT_UNSUPPORTED, "this runtime has no device '%s'", name);
}

static RtStatus open_device(Executor *e, RtError *error) {
  DeviceOptions options = {.artifact = e->artifact,
                           .rank = e->options.rank,
                           .stage = e->stage,
                           .local_rank = e->options.local_rank,
                           .threads = e->options.threads,
                           .eager = e->options.eager,
                           .tuning = e->options.tuning,
                           .kernels = e->options.kernels,
                           .check = check_ranks,
                           .reached = tell_reached,
                           .context = e};
  RtStatus status = find_device(e, error);
  if (!status) status = e->ops->open(&options, &e->device, error);
  if (!status) e->host_memory = e->ops->facts(e->device).host_memory;
  return status;
}

/* Opens the engine of communication: the device's own, or the host's. */
static RtStatus open_comm(Executor *e, RtError *error) {
  CommOptions options = exec_comm_options();
  options.progress = e->options.progress;
  e->comm = e->options.comm;
  if (!e->comm || !e->ops->comm) return RT_OK;
  return e->ops->comm(e->device, e->options.comm, &options, e->options.staged, &e->comm, error);
}

/* Makes every group on every rank, in the same order: by family, then by first member. */
static RtStatus make_groups_in(Executor *e, int *ranks, RtError *error) {
  const Program *p = e->p;
  for (uint32_t g = 0; g < p->n_groups; g++) {
    e->groups[g] = -1;
    for (uint32_t r = 0; e->comm && r < p->ranks; r++) {
      ProgramMembers m = program_group_of(p, g, r);
      int group;
      if (m.n == 0 || m.place != 0) continue;
      bool mine = false;
      for (uint32_t i = 0; i < m.n; i++) {
        ranks[i] = (int)program_member(&m, i);
        mine |= ranks[i] == (int)e->options.rank;
      }
      RtStatus status = comm_group(e->comm, ranks, (int)m.n, &group, error);
      if (status) return status;
      if (mine) e->groups[g] = group;
    }
  }
  return RT_OK;
}

static RtStatus make_groups(Executor *e, RtError *error) {
  int *ranks = calloc(e->p->ranks, sizeof *ranks);
  RtStatus status = ranks ? make_groups_in(e, ranks, error) : rt_error(error, RT_FAILED, "out of memory");
  if (!status && e->comm) status = comm_ready(e->comm, error);
  free(ranks);
  return status;
}

/* ---- weights */

/* Computes extents and first index of this rank's part; false if the program's interval is not inside the weight. */
static bool part_of(const Program *p, const ProgramParam *t, const int64_t *values, int64_t *lo, int64_t *extent) {
  for (uint32_t d = 0; d < t->dims.n; d++) {
    int64_t hi = values[program_list(p, t->interval)[2 * d + 1]];
    lo[d] = values[program_list(p, t->interval)[2 * d]];
    if (lo[d] < 0 || hi < lo[d] || hi > p->exprs[program_list(p, t->dims)[d]].value) return false;
    extent[d] = hi - lo[d];
  }
  return true;
}

static RtStatus bad_part(const Program *p, uint32_t i, RtError *error) {
  return rt_error(error, RT_BAD_INPUT, "damaged program: the part of weight '%s' does not fit",
                  program_text(p, p->params[i].name));
}

static uint64_t part_bytes(const ProgramParam *t, const int64_t *extent) {
  uint64_t n = dtype_bytes((DType)t->dtype);
  for (uint32_t d = 0; d < t->dims.n; d++) n *= (uint64_t)extent[d];
  return n;
}

/* True if the weight is used directly in its mapped file. */
static bool in_place(Executor *e, uint32_t param, const int64_t *lo, const int64_t *extent) {
  if (!e->host_memory) return false;
  const void *at = weights_in_place(e->weights, param, lo, extent);
  e->mapped[e->p->params[param].buffer] = at;
  return at != NULL;
}

static RtStatus give_workspace(Executor *e, uint64_t bytes, RtError *error) {
  if (!e->ops->workspace) return RT_OK;
  RtStatus status = exec_alloc(e, SPACE_LIBRARY, bytes, error);
  if (!status) e->ops->workspace(e->device, e->spaces[SPACE_LIBRARY].data, bytes);
  return status;
}

/* First pass over the weights: finds those that are used in place, and the memory that the others take. */
static RtStatus place_weights(Executor *e, const int64_t *values, MemoryPlan *plan, RtError *error) {
  const Program *p = e->p;
  uint64_t bytes = plan->bytes[SPACE_PARAM];
  for (uint32_t i = 0; i < p->n_params; i++) {
    const ProgramParam *t = &p->params[i];
    int64_t lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
    if (t->stage != e->stage || t->buffer == PROGRAM_NONE) continue;
    if (!part_of(p, t, values, lo, extent)) return bad_part(p, i, error);
    uint64_t need = part_bytes(t, extent);
    bool planned = plan->offsets[t->buffer] == MEMORY_IN_PLACE;
    if (planned && in_place(e, i, lo, extent)) {
      e->capacity[t->buffer] = need;
      e->mapped_bytes += plan->slot_bytes[t->buffer];
      continue;
    }
    if (planned) { /* a file of --weights with another layout than planned, or not host memory */
      plan->offsets[t->buffer] = bytes;
      bytes += plan->slot_bytes[t->buffer];
    }
    e->capacity[t->buffer] = plan->slot_bytes[t->buffer];
    if (need > e->capacity[t->buffer]) return bad_part(p, i, error);
  }
  RtStatus status = exec_alloc(e, SPACE_PARAM, bytes, error);
  if (!status) status = give_workspace(e, plan->bytes[SPACE_LIBRARY], error);
  return status ? status : exec_share(e, plan, error);
}

RtStatus exec_load_part(const Executor *e, uint32_t param, const int64_t *lo, const int64_t *extent, void *to,
                        RtError *error) {
  size_t bytes = part_bytes(&e->p->params[param], extent);
  const void *mapped = e->host_memory ? NULL : weights_in_place(e->weights, param, lo, extent);
  if (mapped) {
    RtStatus moved = e->ops->upload(e->device, to, mapped, bytes, error);
    weights_give_back_part(e->weights, param, lo, extent);
    return moved;
  }
  void *host = e->host_memory ? to : malloc(bytes + 1);
  if (!host) return rt_error(error, RT_FAILED, "out of memory");
  weights_load(e->weights, param, lo, extent, host, exec_beats(e));
  weights_give_back_part(e->weights, param, lo, extent);
  if (e->host_memory) return RT_OK;
  RtStatus status = e->ops->upload(e->device, to, host, bytes, error);
  free(host);
  return status;
}

RtStatus exec_each_trained(Executor *e, TrainedVisit *visit, void *context, RtError *error) {
  const Program *p = e->p;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  RtStatus status =
      values ? program_eval(p, NULL, e->coordinates, values, error) : rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_params && !status; i++) {
    const ProgramParam *t = &p->params[i];
    int64_t lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
    if (t->stage != e->stage || !program_param_changes(t)) continue;
    part_of(p, t, values, lo, extent);
    TrainedPart part = {i, lo, extent, (char *)(uintptr_t)e->mapped[t->buffer], part_bytes(t, extent)};
    status = visit(e, &part, context, error);
  }
  free(values);
  return status;
}

static RtStatus load_trained(Executor *e, const TrainedPart *part, void *context, RtError *error) {
  (void)context;
  return exec_load_part(e, part->param, part->lo, part->extent, part->at, error);
}

RtStatus exec_load_trained(Executor *e, RtError *error) { return exec_each_trained(e, load_trained, NULL, error); }

static RtStatus load_weights(Executor *e, const int64_t *values, const MemoryPlan *plan, RtError *error) {
  const Program *p = e->p;
  RtStatus status = RT_OK;
  uint32_t first = (uint32_t)exec_shared_first(e, p->n_params);
  for (uint32_t k = 0; k < p->n_params && !status; k++) {
    uint32_t i = (first + k) % p->n_params;
    const ProgramParam *t = &p->params[i];
    int64_t lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
    if (t->stage != e->stage || t->buffer == PROGRAM_NONE || e->mapped[t->buffer]) continue;
    char *at = e->spaces[SPACE_PARAM].data + plan->offsets[t->buffer];
    e->mapped[t->buffer] = at;
    if (t->init == PINIT_prepared || exec_shared_has(e, t->buffer, 0)) continue;
    if (e->options.place) rank_place_step(e->options.place, exec_step_load(i));
    part_of(p, t, values, lo, extent);
    status = exec_load_part(e, i, lo, extent, at, error);
    if (!status) exec_shared_wrote(e, t->buffer, 0);
  }
  if (e->options.place) rank_place_step(e->options.place, 0); /* later failures do not happen while loading */
  return status;
}

/* Gives the device the addresses of the weights.  Those in mapped files must not be written. */
static RtStatus tell_weights(const Executor *e, RtError *error) {
  const Space *s = &e->spaces[SPACE_PARAM];
  if (!e->ops->weights) return RT_OK;
  bool *writable = calloc(e->p->n_buffers + 1u, sizeof *writable);
  if (!writable) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t b = 0; b < e->p->n_buffers; b++)
    writable[b] = s->data && e->mapped[b] >= s->data && e->mapped[b] < s->data + s->bytes;
  DeviceWeights w = {.address = e->mapped, .bytes = e->capacity, .writable = writable};
  RtStatus status = e->ops->weights(e->device, &w, error);
  free(writable);
  return status;
}

/* Checks, before anything is loaded, that the device has enough memory for a rank of this stage at the smallest sizes.
 * For larger sizes the allocation itself will fail. */
static RtStatus check_room(Executor *e, RtError *error) {
  const Program *p = e->p;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  uint64_t room, least = 0, weights = 0;
  if (!e->ops->room) return RT_OK;
  for (uint32_t s = 0; s < p->n_symbols; s++) symbols[s] = program_least_size(&p->symbols[s]);
  for (uint32_t i = 0; i < p->n_entries; i++) {
    MemoryPlan plan;
    RtError unread = {0};
    if (memory_plan(p, i, e->stage, symbols, &plan, &unread)) continue; /* the model excludes this size */
    uint64_t bytes = plan.mapped_bytes;
    for (int s = 0; s < SPACE_COUNT; s++) bytes += s == SPACE_AWAY ? 0 : plan.bytes[s];
    if (bytes > least) least = bytes, weights = plan.bytes[SPACE_PARAM] + plan.mapped_bytes;
    memory_plan_free(&plan);
  }
  RtStatus status = e->ops->room(e->device, &room, error);
  if (status || least <= room) return status;
  return rt_error(error, RT_FAILED,
                  "rank %u needs at least %.1f MiB on its device, %.1f MiB of it for weights, but %.1f MiB are free",
                  e->options.rank, (double)least / 0x1p20, (double)weights / 0x1p20, (double)room / 0x1p20);
}

static RtStatus open_weights(Executor *e, RtError *error) {
  const Program *p = e->p;
  uint64_t begin = exec_now();
  MemoryPlan plan;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = check_room(e, error);
  if (!status) status = memory_plan(p, PROGRAM_NONE, e->stage, NULL, &plan, error);
  if (!status) {
    status = weights_open(e->options.files, &e->weights, error);
    if (!status) status = program_eval(p, NULL, e->coordinates, values, error);
    if (!status) status = place_weights(e, values, &plan, error);
    if (!status) status = load_weights(e, values, &plan, error);
    memory_plan_free(&plan);
  }
  free(values);
  e->load_ns = exec_now() - begin;
  return status;
}

/* ---- opening */

CommOptions exec_comm_options(void) { return (CommOptions){.max_operations = PROGRAM_POSITIONS}; }

static bool allocate_tables(Executor *e) {
  const Program *p = e->p;
  e->groups = calloc(p->n_groups + 1u, sizeof *e->groups);
  e->mapped = calloc(p->n_buffers + 1u, sizeof *e->mapped);
  e->capacity = calloc(p->n_buffers + 1u, sizeof *e->capacity);
  e->state_values = calloc(p->n_states + 1u, sizeof *e->state_values * EXEC_STATE_VALUES);
  e->tickets = calloc((size_t)p->header->n_events * p->micro_batches + 1, sizeof *e->tickets);
  e->need = calloc((size_t)p->stages * SPACE_COUNT, sizeof *e->need);
  e->known = calloc(p->n_symbols + 1u, sizeof *e->known);
  return e->known && e->groups && e->mapped && e->capacity && e->state_values && e->tickets && e->need;
}

/* Runs the entry that computes weights from weights.  Frees its other memory afterwards, so that a rank only holds
 * memory that its requests need. */
static RtStatus run_prepare(Executor *e, RtError *error) {
  const Program *p = e->p;
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < p->n_entries && !status; i++) {
    int64_t symbols[PROGRAM_MAX_SYMBOLS];
    if (!p->entries[i].prepare) continue;
    program_default_sizes(p, symbols);
    RequestHead head = {.kind = REQUEST_RUN, .entry = i, .n_symbols = p->n_symbols};
    status = exec_run(e, &head, symbols, NULL, 0, error);
    e->load_ns += e->run_ns;
    e->run_ns = 0;
    exec_release(e, SPACE_ARENA);
    exec_release(e, SPACE_WINDOW);
    exec_capture_given_back(e, SPACE_ARENA);
    exec_capture_given_back(e, SPACE_WINDOW);
    if (!status && e->options.place) rank_place_step(e->options.place, 0); /* later failures do not happen in prepare */
  }
  return status;
}

RtStatus exec_open(const Artifact *a, const ExecOptions *options, Executor **out, RtError *error) {
  Executor *e = calloc(1, sizeof *e);
  if (!e) return rt_error(error, RT_FAILED, "out of memory");
  e->artifact = a;
  e->p = &a->program;
  e->options = *options;
  e->stage = program_stage(e->p, options->rank);
  e->generation = 1;
  program_coordinates(e->p, options->rank, e->coordinates);
  RtStatus status = allocate_tables(e) ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  if (!status) status = open_device(e, error);
  if (!status) status = exec_tune_open(e, error);
  if (!status) status = open_comm(e, error);
  if (!status) status = make_groups(e, error);
  if (!status) status = open_weights(e, error);
  if (!status) status = param_files_unchanged(options->files, RT_BAD_INPUT, error);
  if (!status) status = tell_weights(e, error);
  if (!status) status = run_prepare(e, error);
  if (!status) weights_give_back_all(e->weights); /* pages in use come back on demand */
  if (status) {
    e->failed = true;
    exec_close(e);
    return status;
  }
  *out = e;
  return RT_OK;
}

/* Closes an engine of the device's own; the host's stays open. */
static void close_comm(Executor *e) {
  if (!e->comm || e->comm == e->options.comm) return;
  if (e->failed) comm_give_up(e->comm);
  comm_close(e->comm);
}

bool exec_writes_file(const Executor *e) { return e && e->copy; }

void exec_end_file(Executor *e) {
  RtError unread = {0};
  if (e) entry_file_join(e, &unread); /* its record says whether it is whole */
}

void exec_close(Executor *e) {
  if (!e) return;
  entry_file_stop(e);
  /* Captured communication goes before its communicators, and they go before their device's memory, which operations in
   * flight use. */
  for (int i = 0; i < EXEC_BINDINGS; i++) exec_binding_free(e, e->bindings[i]);
  close_comm(e);
  for (int s = 0; s < SPACE_COUNT; s++) exec_release(e, (ProgramSpace)s);
  exec_away_close(e);
  weights_close(e->weights);
  exec_share_close(e);
  if (e->device) e->ops->close(e->device);
  free(e->groups);
  free(e->places.at);
  free(e->places.mapped);
  free(e->mapped);
  free(e->capacity);
  free(e->state_values);
  free(e->kept.data);
  free(e->kept.state_values);
  free(e->sums.of);
  free(e->tickets);
  free(e->need);
  free(e->known);
  free(e->record);
  free(e->stamps.calls);
  free(e->stamps.ns);
  free(e);
}

void exec_report(const Executor *e, RankReport *out) {
  *out = (RankReport){.mapped = e->mapped_bytes,
                      .prepared = e->prepared,
                      .load_ns = e->load_ns,
                      .run_ns = e->run_ns,
                      .not_finite = e->not_finite,
                      .writing = entry_file_runs(e)};
  for (int s = 0; s < SPACE_COUNT; s++) out->allocated[s] = s == SPACE_AWAY ? e->away.bytes : e->spaces[s].bytes;
  memcpy(out->class_bytes, e->class_bytes, sizeof out->class_bytes);
  for (uint32_t i = 0, k = 0; e->binding && i < e->p->n_symbols; i++)
    if (e->p->symbols[i].most) out->computed[k++] = e->binding->symbols[i];
  for (int k = 0; e->comm && k < COMM_KIND_COUNT; k++) {
    CommCount c = comm_count(e->comm, (CommKind)k);
    out->sent[k] = c.bytes_sent;
    out->operations[k] = c.operations;
  }
}

void exec_step_text(const Program *p, uint32_t step, char *text, size_t size) {
  if (exec_step_loads(step)) {
    uint32_t i = step & 0x7fffffff;
    snprintf(text, size, "loading weight '%s'", i < p->n_params ? program_text(p, p->params[i].name) : "?");
    return;
  }
  uint32_t instr = exec_step_instr(step), mb = step >> 20;
  if (instr >= p->n_instrs) {
    snprintf(text, size, "starting");
    return;
  }
  program_instr_text(p, instr, text, size);
  size_t n = strlen(text);
  if (p->micro_batches > 1) snprintf(text + n, size - n, " (micro-batch %u)", mb);
}
