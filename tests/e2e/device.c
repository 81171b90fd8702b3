/* tests/e2e/device.c - programs on a second device (far_device.h), whose memory the host cannot touch: it gives the
 * same bits as the CPU, and gets the list of device calls that is computed without an executor.
 *
 * Every program runs several requests, of two sizes; ranks are processes of this test.
 *
 * usage: e2e_device BUILD */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program/device_calls.h"
#include "program/values.h"
#include "runtime/comm/cpu.h"
#include "runtime/comm/transport_local.h"
#include "runtime/exec/exec.h"
#include "tests/e2e/e2e.h"
#include "tests/e2e/far_device.h"

enum { REQUESTS = 4, IO_BYTES = 4 << 20 };

/* Sizes of the requests: symbols in the order of the model. */
static const int64_t texts[REQUESTS][2] = {{4, 8}, {4, 8}, {2, 5}, {4, 8}};
static const int64_t images[REQUESTS][2] = {{4}, {4}, {3}, {4}};
static const int64_t lengths[REQUESTS][2] = {{20}, {20}, {7}, {20}};

typedef struct Run {
  const char *path;
  const DeviceOps *device; /* NULL for the CPU */
  bool eager;
  bool contiguous;           /* the engine moves contiguous parts only */
  const int64_t (*sizes)[2]; /* per request and symbol */
  char *io;                  /* [request][IO_BYTES], shared with the ranks */
  char *rings;
} Run;

static void *shared(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* ---- the expected calls */

/* The executor skips copies of data already in place. */
static bool is_in_place(const DeviceCall *c) {
  const CallTensor *from = &c->tensors[0], *to = &c->tensors[1];
  size_t bytes = from->rank * sizeof(int64_t);
  return c->kind == PI_copy && from->buffer == to->buffer && from->slot == to->slot && from->offset == to->offset &&
         memcmp(from->extents, to->extents, bytes) == 0 &&
         memcmp(c->scalars + from->rank, c->scalars + 2 * (size_t)from->rank, bytes) == 0;
}

static bool is_of_device(const DeviceCall *c) {
  if (c->skipped || (c->kind == PI_fetch && c->elsewhere) || is_in_place(c)) return false;
  return c->kind == PI_launch || c->kind == PI_gemm || c->kind == PI_conv || c->kind == PI_copy || c->kind == PI_fill ||
         c->kind == PI_pack || c->kind == PI_feed || c->kind == PI_fetch;
}

/* Compares the calls of a body from call `at` of the log on.  The executor itself fills gaps of an exchange. */
static bool same_body(const Program *p, const DeviceCalls *l, size_t *at) {
  for (uint32_t i = 0; i < l->n; i++) {
    while (*at < far_log.n &&
           (far_log.items[*at].instr == PROGRAM_NONE || p->instrs[far_log.items[*at].instr].kind == PI_exchange))
      ++*at;
    if (!is_of_device(&l->items[i])) continue;
    FarCall want = far_call_of(&l->items[i]);
    if (*at >= far_log.n) return false;
    const FarCall *got = &far_log.items[(*at)++];
    if (got->kind != want.kind || got->instr != want.instr || got->numbers != want.numbers) {
      fprintf(stderr, "call %zu: %s %u, want %s %u\n", *at - 1, program_instr_name(got->kind), got->instr,
              program_instr_name(want.kind), want.instr);
      return false;
    }
  }
  return true;
}

/* Compares the log of one request with the calls computed from the Program alone, as for an absent device. */
static bool same_calls(const Program *p, uint32_t rank, const int64_t *symbols) {
  ProgramValues v;
  RtError error = {0};
  uint32_t entry = program_entry_find(p, "main"), stage = program_stage(p, rank);
  const ProgramSchedule *s = &p->schedules[entry * p->stages + stage];
  int64_t *values = calloc(p->n_exprs + 1u, sizeof *values), coordinates[PROGRAM_MAX_AXES];
  bool ok = values && program_values_open(p, &v, &error) == RT_OK;
  size_t at = 0;
  for (uint32_t k = s->calls; ok && k < s->calls + s->n; k++) {
    DeviceCalls l;
    uint32_t mb = p->calls[k].micro_batch;
    program_coordinates(p, rank, coordinates);
    if (p->mb_axis != PROGRAM_NONE) coordinates[p->mb_axis] = mb;
    ok = program_values_bind(&v, symbols, mb, &error) == RT_OK;
    program_values_of_rank(&v, rank, values);
    ok = ok && device_calls_make(p, p->calls[k].body, rank, &l, &error) == RT_OK;
    device_calls_resolve(&l, values, coordinates, false);
    ok = ok && same_body(p, &l, &at);
    device_calls_free(&l);
  }
  program_values_close(&v);
  free(values);
  return ok && at > 0 && at == far_log.n;
}

static bool has_loops(const Program *p) {
  for (uint32_t i = 0; i < p->n_instrs; i++)
    if (p->instrs[i].kind == PI_loop) return true;
  return false;
}

/* ---- a rank */

/* Checks that the predicted bytes were allocated: for the largest request. */
static RtStatus predicted(const Run *run, const Program *p, const Executor *e, uint32_t rank, RtError *error) {
  RankReport report;
  uint64_t most[SPACE_COUNT] = {0};
  exec_report(e, &report);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    MemoryPlan plan;
    RtStatus status =
        memory_plan(p, program_entry_find(p, "main"), program_stage(p, rank), run->sizes[i], &plan, error);
    if (status) return status;
    for (int s = 0; s < SPACE_COUNT; s++)
      if (plan.bytes[s] > most[s]) most[s] = plan.bytes[s];
    memory_plan_free(&plan);
  }
  if (report.allocated[SPACE_ARENA] == most[SPACE_ARENA] && report.allocated[SPACE_WINDOW] == most[SPACE_WINDOW])
    return RT_OK;
  return rt_error(error, RT_INTERNAL, "%llu bytes were allocated, %llu are planned",
                  (unsigned long long)report.allocated[SPACE_ARENA], (unsigned long long)most[SPACE_ARENA]);
}

static RtStatus request(const Run *run, const Program *p, Executor *e, uint32_t rank, uint32_t number, RtError *error) {
  RequestHead head = {
      .kind = REQUEST_RUN, .entry = program_entry_find(p, "main"), .n_symbols = p->n_symbols, .number = number};
  far_log.n = 0;
  RtStatus status = exec_run(e, &head, run->sizes[number], run->io + (size_t)number * IO_BYTES, IO_BYTES, error);
  if (status || !run->device || has_loops(p)) return status;
  if (!same_calls(p, rank, run->sizes[number]))
    return rt_error(error, RT_INTERNAL, "request %u: the device got other calls than those of the list", number);
  return RT_OK;
}

static RtStatus serve(const Run *run, uint32_t rank, RtError *error) {
  Artifact a = {0};
  ParamFiles *files = NULL;
  Transport *transport;
  Comm *comm = NULL;
  Executor *e = NULL;
  RtStatus status = artifact_open(run->path, "the program", &a, error);
  if (!status) status = param_files_open(&a, NULL, NULL, &files, error);
  if (!status && a.program.ranks > 1) {
    CommOptions options = exec_comm_options();
    status = transport_local_open(run->rings, (int)rank, (int)a.program.ranks, true, &transport, error);
    if (!status) status = comm_cpu_open(transport, &options, &comm, error);
    if (!status && run->device) comm = far_comm(comm, run->contiguous);
  }
  ExecOptions options = {
      .rank = rank, .device = run->device, .comm = comm, .files = files, .check = true, .eager = run->eager};
  if (!status) status = exec_open(&a, &options, &e, error);
  for (uint32_t i = 0; i < REQUESTS && !status; i++) status = request(run, &a.program, e, rank, i, error);
  if (!status) status = predicted(run, &a.program, e, rank, error);
  bool replays = run->device && !run->eager, few = run->sizes != texts; /* small models have no runs of calls */
  if (!status && ((far_log.replayed > 0) > replays || (!far_log.replayed && replays && !few)))
    status = rt_error(error, RT_INTERNAL, "%zu calls were replayed", far_log.replayed);
  if (status && comm) comm_abort(comm);
  exec_close(e);
  comm_close(comm);
  param_files_close(files);
  artifact_close(&a);
  free(far_log.items);
  return status;
}

/* ---- the host */

/* The requests' inputs, where ranks look for them. */
static bool place_inputs(const Run *run, const Program *p) {
  uint32_t entry = program_entry_find(p, "main");
  RtError error = {0};
  for (uint32_t r = 0; r < REQUESTS; r++) {
    RequestLayout io;
    if (request_layout(p, entry, run->sizes[r], false, &io, &error) != RT_OK || io.bytes > IO_BYTES) return false;
    for (uint32_t i = 0; i < p->entries[entry].n_inputs; i++) {
      const ProgramPort *port = &p->ports[p->entries[entry].inputs + i];
      int64_t below = 0;
      if (port->random_below != PROGRAM_NONE) program_value(p, port->random_below, run->sizes[r], &below, &error);
      request_random((DType)port->dtype, run->io + (size_t)r * IO_BYTES + io.offsets[i],
                     io.sizes[i] / dtype_bytes((DType)port->dtype), 1, program_text(p, port->name), (uint64_t)below);
    }
    request_layout_free(&io);
  }
  return true;
}

static bool run_ranks(Run *run, uint32_t ranks) {
  pid_t children[TRANSPORT_LOCAL_MAX_WORLD];
  bool ok = true;
  run->rings = shared(transport_local_bytes((int)ranks));
  fflush(NULL);
  for (uint32_t r = 0; r < ranks; r++) {
    children[r] = fork();
    if (children[r] != 0) continue;
    RtError error = {0};
    RtStatus status = serve(run, r, &error);
    if (status) fprintf(stderr, "rank %u: %s\n", r, error.text);
    _exit(status ? 1 : 0);
  }
  for (uint32_t r = 0; r < ranks; r++) {
    int status = -1;
    ok &= waitpid(children[r], &status, 0) == children[r] && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  munmap(run->rings, transport_local_bytes((int)ranks));
  return ok;
}

/* Runs on one device; the outputs of all requests are in `io`, after the reports of the ranks. */
static bool run_on(Run *run, const DeviceOps *device, bool eager) {
  Artifact a;
  RtError error = {0};
  run->device = device, run->eager = eager;
  if (artifact_open(run->path, "the program", &a, &error) != RT_OK) return false;
  run->io = shared((size_t)REQUESTS * IO_BYTES);
  bool ok = run->io && place_inputs(run, &a.program) && run_ranks(run, a.program.ranks);
  artifact_close(&a);
  return ok;
}

static char *plan_file; /* of the next program; NULL if apc plans */

static void far_from(Run *run, const char *near, const char *what) {
  for (int eager = 0; eager < 2; eager++) {
    CHECKF(run_on(run, &far_device, eager), "%s, far%s", what, eager ? ", eager" : "");
    CHECKF(near && run->io && memcmp(near, run->io, (size_t)REQUESTS * IO_BYTES) == 0, "%s: other bits", what);
    if (run->io) munmap(run->io, (size_t)REQUESTS * IO_BYTES);
  }
}

/* The numbers of all things in a program. */
typedef struct Contents {
  int kinds[PI_COUNT];
  int events;   /* asynchronous communication */
  int beside;   /* of these: with other work before they are waited for */
  int early;    /* of these: waited for before an instruction that does not touch the received data */
  int in_loops; /* of these: in a round */
} Contents;

static uint32_t wait_of(const Program *p, uint32_t i) {
  uint32_t w = i + 1;
  while (w < p->n_instrs && (p->instrs[w].kind != PI_wait || p->instrs[w].event != p->instrs[i].event)) w++;
  return w;
}

/* Does the instruction touch the last tensor of communication i? */
static bool touches_result(const Program *p, uint32_t instr, uint32_t i) {
  const ProgramInstr *x = &p->instrs[instr], *comm = &p->instrs[i];
  uint32_t result = p->tensors[program_list(p, comm->tensors)[comm->tensors.n - 1]].buffer;
  for (uint32_t t = 0; t < x->tensors.n; t++)
    if (p->tensors[program_list(p, x->tensors)[t]].buffer == result) return true;
  return false;
}

static Contents contents_of(const char *path) {
  Artifact a = {0};
  RtError error = {0};
  Contents c = {0};
  int depth = 0;
  if (artifact_open(path, "the program", &a, &error) != RT_OK) return c;
  const Program *p = &a.program;
  for (uint32_t i = 0; i < p->n_instrs; i++) {
    const ProgramInstr *x = &p->instrs[i];
    c.kinds[x->kind]++;
    depth += (x->kind == PI_loop) - (x->kind == PI_repeat);
    if (!program_instr_is_comm(x->kind) || x->event == PROGRAM_NONE) continue;
    c.events++;
    c.in_loops += depth > 0;
    c.early += !touches_result(p, wait_of(p, i) + 1, i);
    for (uint32_t k = i + 1; k < wait_of(p, i); k++)
      if (!program_instr_is_comm(p->instrs[k].kind) && p->instrs[k].kind != PI_wait) {
        c.beside++;
        break;
      }
  }
  artifact_close(&a);
  return c;
}

/* The number of instructions of a kind, and with the engine of a library. */
typedef struct Moved {
  ProgramInstrKind kind;
  int was, is;
} Moved;

/* Further checks for the next program. */
static struct {
  bool contiguous;                   /* an engine like a library's (ir/legal_comm.h), */
  const Moved *moved;                /* which changes these numbers; ends with a count of 0 and 0 */
  bool asynchronous;                 /* communication overlaps computation; */
  bool beside;                       /* some has other work beside it, and none is waited for early, */
  bool in_loops;                     /* also in a round */
  uint32_t pre_bodies, pre_messages; /* it has so many bodies of phase `pre`, with so much communication */
} also;

/* Compiles the same plan for a CPU with other traits: other programs, the same bits. */
static void made_for(E2eModel *e, const Run *as_it_is, const char *near, bool contiguous, bool asynchronous,
                     const char *model) {
  DeviceTraits traits = *target_device_traits(DEVICE_cpu);
  Run run = *as_it_is;
  const char *what =
      arena_printf(e->arena, "%s%s%s", model, contiguous ? ", contiguous" : "", asynchronous ? ", asynchronous" : "");
  traits.contiguous_collectives = run.contiguous = contiguous;
  traits.asynchronous = asynchronous;
  run.path = strdup(temp_path("other"));
  driver_make_for(&e->build, &traits);
  bool ok = driver_write(&e->build, e->build.device, run.path);
  CHECKF(ok, "%s", what);
  if (ok) far_from(&run, near, what);
  else e2e_diags(e);
  Contents was = contents_of(as_it_is->path), is = contents_of(run.path);
  CHECKF(was.events == 0 && is.events == is.kinds[PI_wait], "%s: %d events, %d waits", what, is.events,
         is.kinds[PI_wait]);
  CHECKF((is.events > 0) == asynchronous, "%s: %d events", what, is.events);
  CHECKF(!asynchronous || !also.beside || is.early == 0, "%s: %d waits are early", what, is.early);
  CHECKF(!asynchronous || ((is.beside > 0) >= also.beside && (is.in_loops > 0) >= also.in_loops),
         "%s: %d of %d beside something, %d in loops", what, is.beside, is.events, is.in_loops);
  CHECK(!contiguous || is.kinds[PI_launch] > was.kinds[PI_launch]);
  for (const Moved *k = also.moved; contiguous && (k->was || k->is); k++)
    CHECKF(was.kinds[k->kind] == k->was && is.kinds[k->kind] == k->is, "%s: %d, then %d of instruction %d", what,
           was.kinds[k->kind], is.kinds[k->kind], k->kind);
  free((char *)(uintptr_t)run.path);
}

static bool has_pre_bodies(const char *path) {
  Artifact a;
  RtError error = {0};
  uint32_t bodies = 0, messages = 0;
  if (artifact_open(path, "the program", &a, &error) != RT_OK) return false;
  for (uint32_t i = 0; i < a.program.n_bodies; i++) {
    const ProgramBody *b = &a.program.bodies[i];
    if (b->phase != PHASE_pre || a.program.entries[b->entry].prepare) continue;
    bodies++;
    for (uint32_t k = b->instrs; k < b->instrs + b->n; k++) messages += program_instr_is_comm(a.program.instrs[k].kind);
  }
  artifact_close(&a);
  if (bodies != also.pre_bodies || messages != also.pre_messages)
    fprintf(stderr, "%u bodies of phase pre, %u messages in them\n", bodies, messages);
  return bodies == also.pre_bodies && messages == also.pre_messages;
}

static void check(const char *model, int ndefines, const DslDefine *defines, const char *target, PlanOptions plan,
                  const int64_t sizes[REQUESTS][2]) {
  E2eModel e;
  Run run = {.path = strdup(temp_path("program")), .sizes = sizes};
  bool ok = e2e_load(&e, model, ndefines, defines, 0, NULL, 0, NULL);
  const char *what = arena_printf(e.arena, "%s on %s", model, target);
  e.build.options.plan_file = plan_file;
  ok = ok && e2e_compile(&e, target, &plan, run.path);
  CHECKF(ok, "%s", what);
  if (ok) {
    CHECKF(has_pre_bodies(run.path), "%s", what);
    CHECKF(run_on(&run, NULL, false), "%s", what);
    char *near = run.io;
    far_from(&run, near, what);
    for (int i = 1; i < 4; i++)
      if ((also.contiguous || !(i & 1)) && (also.asynchronous || !(i & 2)))
        made_for(&e, &run, near, i & 1, i & 2, what);
    if (near) munmap(near, (size_t)REQUESTS * IO_BYTES);
  }
  free((char *)(uintptr_t)run.path);
  e2e_free(&e);
  memset(&also, 0, sizeof also);
}

/* A model and a plan as text. */
static void check_text(const char *name, const char *text, const char *plan, const char *target,
                       const int64_t sizes[REQUESTS][2]) {
  char *path = strdup(temp_path(name));
  temp_write(path, text, strlen(text));
  if (plan) plan_file = strdup(temp_path("plan")), temp_write(plan_file, plan, strlen(plan));
  check(path, 0, NULL, target, (PlanOptions){0}, sizes);
  free(plan_file);
  plan_file = NULL;
  free(path);
}

static const DslDefine gpt[] = {{"layers", "2"}, {"d", "32"},     {"heads", "4"},
                                {"ffn", "64"},   {"vocab", "48"}, {"ctx", "16"}};
static const DslDefine unet[] = {{"channels", "8"}, {"levels", "2"}, {"image", "16"}};
static const DslDefine lstm[] = {{"layers", "1"}, {"d", "16"}, {"vocab", "32"}};

static void check_gpt(const char *target, PlanOptions plan) { check("examples/gpt.apc", 6, gpt, target, plan, texts); }
static void check_unet(const char *target, PlanOptions plan) {
  check("examples/unet.apc", 3, unet, target, plan, images);
}

static void products(void) { check_gpt("cpu", (PlanOptions){0}); }
static void convolutions(void) { check_unet("cpu", (PlanOptions){0}); }
static void loops(void) { check("examples/lstm.apc", 3, lstm, "cpu", (PlanOptions){0}, texts); }

static void collectives(void) {
  also.asynchronous = true;
  check_gpt("cpux3", (PlanOptions){.degree[DEGREE_tp] = 3});
}

/* Both stages compute the positions of their attention once. */
static void micro_batches(void) {
  also.asynchronous = true;
  also.pre_bodies = 2;
  check_gpt("cpux4", (PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}, .micro_batches = 2});
}

static void rounds(void) {
  also.asynchronous = also.in_loops = true;
  check("examples/lstm.apc", 3, lstm, "cpux2", (PlanOptions){.degree[DEGREE_tp] = 2}, texts);
}

/* Tables that depend on constants only are computed once, before all micro-batches: in both stages, one of them cut and
 * gathered; one is an output too.  The broadcast over the batch runs in each micro-batch. */
static void tables(void) {
  static const char text[] =
      "apc.ir 1\n"
      "symbol b hint 4\n"
      "param \"w\" : f32[16, 16] = uniform 1 seed 3\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[b, 12, 16]\n"
      "  %i = iota {axis=0, start=0} : f32[12, 12]\n"
      "  %j = iota {axis=1, start=0} : f32[12, 12]\n"
      "  %d = sub %i, %j : f32[12, 12]\n"
      "  %s = sin %d : f32[12, 12]\n"
      "  %near = mul %s, %d : f32[12, 12]\n"
      "  %t = iota {axis=0, start=0} : f32[12, 16]\n"
      "  %c = cos %t : f32[12, 16]\n"
      "  %cs = broadcast %c {dims=[1, 2]} : f32[b, 12, 16]\n"
      "  %w = param {name=\"w\"} : f32[16, 16]\n"
      "  %h = dot %x, %w {spec=\"bsd,df->bsf\"} : f32[b, 12, 16]\n"
      "  %h1 = mul %h, %cs : f32[b, 12, 16]\n"
      "  %m = dot %near, %h1 {spec=\"st,btd->bsd\"} : f32[b, 12, 16]\n"
      "  %a = tanh %m : f32[b, 12, 16]\n"
      "  %g = dot %near, %a {spec=\"st,btd->bsd\"} : f32[b, 12, 16]\n"
      "  %y = mul %g, %cs : f32[b, 12, 16]\n"
      "  output \"y\" %y\n"
      "  output \"near\" %near\n"
      "}\n";
  static const char plan[] =
      "apc.plan 1\ngraph @main 0000000000000000\ntarget cpux4 ranks 4\nmesh [mb=2 time, tp=2] stages 2\n"
      "stage 1 \"g\"\n"
      "op \"x\" {x0:mb}\nop \"d\" {x0:tp}\nop \"s\" {x0:tp}\nop \"near\" {x0:tp}\nop \"c\" {x1:tp}\n"
      "op \"cs\" {x0:mb, x2:tp}\nop \"w\" {x1:tp}\nop \"h\" {b:mb, f:tp}\nop \"h1\" {x0:mb, x2:tp}\n"
      "op \"m\" {b:mb, d:tp}\nop \"a\" {x0:mb, x2:tp}\nop \"g\" {b:mb, d:tp}\nop \"y\" {x0:mb, x2:tp}\n";
  also.asynchronous = true;
  also.pre_bodies = 2, also.pre_messages = 2;
  check_text("tables.ir", text, plan, "cpux4", images);
}

/* A model and a plan as text: windows that reach over the cut of the only dimension. */
static void halos(void) {
  static const char text[] =
      "apc.ir 1\n"
      "symbol s hint 24\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[s]\n"
      "  %p = pad %x {low=[2], high=[2], value=-1} : f32[s + 4]\n"
      "  %a = slice %p {starts=[0], strides=[1]} : f32[s]\n"
      "  %b = slice %p {starts=[4], strides=[1]} : f32[s]\n"
      "  %y = add %a, %b : f32[s]\n"
      "  %z = exp %y : f32[s]\n"
      "  output \"o\" %z\n"
      "}\n";
  static const char plan[] =
      "apc.plan 1\ngraph @main 0000000000000000\ntarget cpux2 ranks 2\nmesh [h=2] stages 1\n"
      "op \"x\" {x0:h}\nop \"p\" {x0:h}\nop \"a\" {x0:h}\nop \"b\" {x0:h}\nop \"y\" {x0:h}\n"
      "op \"z\" {x0:h}\n";
  check_text("halo.ir", text, plan, "cpux2", lengths);
}

/* Collectives along dimensions other than the first: gathers, sums that are scattered, windows, and all-to-alls whose
 * parts are equal on the cut side (c), on the joined one (d) and on none (e). */
static void inner_dimensions(void) {
  static const char text[] =
      "apc.ir 1\n"
      "symbol s hint 24\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[4, 6, s]\n"
      "  %p = pad %x {low=[0, 0, 2], high=[0, 0, 2], value=-1} : f32[4, 6, s + 4]\n"
      "  %a = slice %p {starts=[0, 0, 0], strides=[1, 1, 1]} : f32[4, 6, s]\n"
      "  %b = slice %p {starts=[0, 0, 4], strides=[1, 1, 1]} : f32[4, 6, s]\n"
      "  %y = add %a, %b : f32[4, 6, s]\n"
      "  %c = tanh %y : f32[4, 6, s]\n"
      "  %d = sin %c : f32[4, 6, s]\n"
      "  %r = reduce %d {axes=[0], op=sum} : f32[6, s]\n"
      "  %q = exp %r : f32[6, s]\n"
      "  output \"o\" %q\n"
      "  %i = input {name=\"i\"} : f32[4, s, 7]\n"
      "  %e = tanh %i : f32[4, s, 7]\n"
      "  %f = sin %e : f32[4, s, 7]\n"
      "  output \"f\" %f\n"
      "}\n";
  static const char plan[] =
      "apc.plan 1\ngraph @main 0000000000000000\ntarget cpux3 ranks 3\nmesh [h=3] stages 1\n"
      "op \"x\" {x2:h}\nop \"p\" {x2:h}\nop \"a\" {x2:h}\nop \"b\" {x2:h}\nop \"y\" {x2:h}\n"
      "op \"c\" {x1:h}\nop \"d\" {x2:h}\nop \"r\" {r0:h}\nop \"q\" {x1:h}\n"
      "op \"i\" {x1:h}\nop \"e\" {x2:h}\nop \"f\" {}\n";
  static const Moved moved[] = {{PI_reduce_scatter, 1, 1},
                                {PI_exchange, 3, 3},
                                {PI_all_to_all, 4, 2}, /* two cannot have equal parts */
                                {PI_all_gather, 1, 3},
                                {0}};
  also.contiguous = also.asynchronous = true, also.moved = moved;
  check_text("inner.ir", text, plan, "cpux3", lengths);
}

/* Reductions that NCCL lacks: the largest float over one axis, over two and of a part, sums of 16-bit integers; and
 * some that it has, of flags and of 32-bit integers. */
static void reductions(void) {
  static const char text[] =
      "apc.ir 1\n"
      "symbol s hint 24\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[8, 6, s]\n"
      "  %l = log %x : f32[8, 6, s]\n" /* NaN where x is below 0 */
      "  %m = reduce %l {axes=[0], op=max} : f32[6, s]\n"
      "  %o = exp %m : f32[6, s]\n"
      "  output \"o\" %o\n"
      "  %m2 = reduce %x {axes=[0], op=max} : f32[6, s]\n"
      "  %o2 = tanh %m2 : f32[6, s]\n"
      "  output \"o2\" %o2\n"
      "  %m3 = reduce %x {axes=[0], op=min} : f32[6, s]\n"
      "  %o3 = sin %m3 : f32[6, s]\n"
      "  output \"o3\" %o3\n"
      "  %h = const {value=1000} : f32[8, 6, s]\n"
      "  %big = mul %x, %h : f32[8, 6, s]\n"
      "  %i = cast %big {to=i16} : i16[8, 6, s]\n"
      "  %n = reduce %i {axes=[0], op=sum} : i16[6, s]\n"
      "  %o4 = cast %n {to=f32} : f32[6, s]\n"
      "  output \"o4\" %o4\n"
      "  %k = cast %big {to=i32} : i32[8, 6, s]\n"
      "  %odd = gt %x, %l : bool[8, 6, s]\n"
      "  %or = reduce %odd {axes=[0], op=or} : bool[6, s]\n"
      "  %o5 = cast %or {to=f32} : f32[6, s]\n"
      "  output \"o5\" %o5\n"
      "  %sum = reduce %k {axes=[0], op=sum} : i32[6, s]\n"
      "  %o6 = cast %sum {to=f32} : f32[6, s]\n"
      "  output \"o6\" %o6\n"
      "}\n";
  static const char slow[] = /* a message takes so long that two axes form one group */
      "protocols slow { ring simple base 1 ms step 1 us share 0.5; direct simple base 1 ms step 1 us share 0.5; }\n"
      "machine slow { devices 1 avx512-2core; link wire at 1 GB/s with slow; }\n";
  static const char plan[] =
      "apc.plan 1\ngraph @main 0000000000000000\ntarget cpux4 ranks 4\nmesh [g=2, h=2] stages 1\n"
      "op \"x\" {x0:g.h}\nop \"l\" {x0:h}\nop \"m\" {r0:h}\nop \"m2\" {r0:g.h}\nop \"m3\" {r0:h}\nop \"o3\" {x1:h}\n"
      "op \"h\" {x0:h}\nop \"big\" {x0:h}\nop \"i\" {x0:h}\nop \"n\" {r0:h}\nop \"k\" {x0:h}\nop \"odd\" {x0:h}\nop "
      "\"or\" {r0:h}\n"
      "op \"sum\" {r0:h}\n";
  static const Moved moved[] = {
      {PI_all_reduce, 5, 2}, {PI_reduce_scatter, 1, 0}, {PI_all_gather, 2, 5}, {PI_exchange, 0, 1}, {0}};
  also.contiguous = also.asynchronous = true, also.moved = moved;
  temp_write(temp_path("slow.topo"), slow, strlen(slow));
  check_text("reductions.ir", text, plan, temp_path("slow.topox4"), lengths);
}

/* An all-to-all whose result is first used after two products, and whose operand a kernel between them could
   overwrite. */
static void beside_products(void) {
  static const char text[] =
      "apc.ir 1\n"
      "symbol s hint 24\n"
      "param \"w\" : f32[16, 16] = uniform 0.25 seed 9\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[s, 16]\n"
      "  %a = tanh %x : f32[s, 16]\n"
      "  %w = param {name=\"w\"} : f32[16, 16]\n"
      "  %g = dot %a, %w {spec=\"mk,kn->mn\"} : f32[s, 16]\n"
      "  %c = sub %a, %g : f32[s, 16]\n"
      "  %q = dot %c, %w {spec=\"mk,kn->mn\"} : f32[s, 16]\n"
      "  %b = sin %a : f32[s, 16]\n"
      "  output \"b\" %b\n"
      "  output \"q\" %q\n"
      "}\n";
  static const char plan[] =
      "apc.plan 1\ngraph @main 0000000000000000\ntarget cpux2 ranks 2\nmesh [h=2] stages 1\n"
      "op \"x\" {x0:h}\nop \"a\" {x0:h}\nop \"g\" {m:h}\nop \"c\" {x0:h}\nop \"q\" {m:h}\nop \"b\" {x1:h}\n";
  also.asynchronous = also.beside = true;
  check_text("beside.ir", text, plan, "cpux2", lengths);
}

/* Prepared values, and states. */
static void states(void) {
  static const char text[] =
      "apc.ir 1\n"
      "symbol s hint 24\n"
      "param \"g\" : f32[64] = uniform 1 seed 9\n"
      "state \"sum\" : f32[16, 64] = 3\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[s, 16, 64]\n"
      "  %g = param {name=\"g\"} : f32[64]\n"
      "  %g2 = mul %g, %g : f32[64]\n"
      "  %gs = broadcast %g2 {dims=[2]} : f32[s, 16, 64]\n"
      "  %y = mul %x, %gs : f32[s, 16, 64]\n"
      "  %part = reduce %y {axes=[0], op=sum} : f32[16, 64]\n"
      "  %old = read {name=\"sum\"} : f32[16, 64]\n"
      "  %new = add %old, %part : f32[16, 64]\n"
      "  write \"next\" %new {name=\"sum\"}\n"
      "  output \"o\" %new\n"
      "}\n";
  check_text("state.ir", text, NULL, "cpux2", images);
}

int main(int argc, char **argv) {
  int status;
  if (!e2e_start(argc, argv, &status)) return status;
  RUN(products);
  RUN(collectives);
  RUN(micro_batches);
  RUN(tables);
  RUN(convolutions);
  RUN(halos);
  RUN(inner_dimensions);
  RUN(reductions);
  RUN(loops);
  RUN(beside_products);
  RUN(rounds);
  RUN(states);
  return test_summary();
}
