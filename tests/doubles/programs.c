/* tests/doubles/programs.c - compares programs for GPUs, run on the doubles, with the same models on one CPU rank.
 *
 * usage: doubles_programs BUILD [SEEDS [PATH/MODEL...]]   other models instead of those of examples/, for
 *                                                         dgx-a100x4 and dgx-h100x8, in f32 and bf16
 *        doubles_programs BUILD ask PROGRAM FILE TIMEOUT  requests of three sizes, outputs to FILE (mutants.sh); with a
 *                                                         number as last argument: so many requests of one size with
 *                                                         different values
 *
 * Every subject is compiled once for CPUs and once for GPUs, and gets several requests of different sizes through one
 * program (later seeds some of them), so that requests are captured, replayed, and captured anew after a larger one has
 * moved memory; decoding, whose requests are alike, is captured and replayed.  Outputs agree to 1e-4 (2e-2 where
 * --dtype requests fewer bits, 2e-3 for tf32) under every seed of the doubles, recorded and one call at a time, with
 * convolutions by cuDNN and by our kernels; no double reports a violation or a leak.  The memory requested from the
 * driver equals the memory plan to the byte, and at the planned sizes the output of `apc plan`.  No two pieces of work
 * use memory without an order (watch.h), which is checked once.  Some subjects also run as the ranks of a launcher,
 * under torchrun's variables: a request per seed. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cuda/nvrtc.h"
#include "tests/e2e/e2e.h"

enum { MODELS = 64, REQUESTS = 6, OUTPUTS = 4, DEFINES = 10, RANKS = 8 };

typedef struct Request {
  const char *entry;
  int64_t batch, seq, at; /* at: the position at which a cache continues */
  bool again;             /* the previous request once more: it is captured, or the graph is replayed */
} Request;

typedef struct Subject {
  const char *name, *path;
  DslDefine defines[DEFINES];
  const char *target, *arch;
  PlanOptions plan;
  ComputeType compute; /* --dtype; both programs compute in it */
  Request requests[REQUESTS];
  bool launched; /* under torchrun's variables as well */
} Subject;

/* clang-format off */
#define F32 CT_f32
#define ONE(...) {.entry = "main", __VA_ARGS__}
#define AGAIN {.again = true}
#define SIZES {ONE(.batch = 3, .seq = 7), AGAIN, ONE(.batch = 4, .seq = 12), AGAIN, ONE(.batch = 3, .seq = 7), AGAIN}
#define UNEVEN {ONE(.batch = 3, .seq = 4), AGAIN, ONE(.batch = 40, .seq = 4), ONE(.batch = 3, .seq = 4), AGAIN, AGAIN}
#define BATCHES {ONE(.batch = 2), {.again = true}, ONE(.batch = 3)}
#define CACHED {{"prefill", 2, 5, 0, 0}, {"decode", 2, 0, 5, 0}, {"decode", 2, 0, 6, 0}, {"decode", 2, 0, 7, 0}}
#define LLAMA {"layers", "2"}, {"d", "64"}, {"heads", "4"}, {"kv_heads", "2"}, {"ffn", "96"}, {"vocab", "64"}
#define MOE {"layers", "1"}, {"d", "32"}, {"heads", "4"}, {"kv_heads", "2"}, {"ffn", "48"}, {"vocab", "50"}
#define TP_X_DP(n, m) .degree = {[DEGREE_tp] = (n), [DEGREE_dp] = (m)}
#define TP_X_PP(n, m) .degree = {[DEGREE_tp] = (n), [DEGREE_pp] = (m)}
#define CONVS "convolutions", "tests/doubles/convolutions.apc"
#define A100X4 "dgx-a100x4", "80"
#define H100X8 "dgx-h100x8", "90"

static const Subject subjects[] = {
    {"gpt", "gpt-tiny.onnx", {{0}}, A100X4, {TP_X_PP(2, 2), .micro_batches = 2}, F32, SIZES, true},
    {"uneven", "tests/doubles/uneven.apc", {{0}}, "dgx-a100x2", "80", {.degree[DEGREE_pp] = 2}, F32, UNEVEN, true},
    {"long rows", "tests/doubles/long_rows.apc", {{0}}, H100X8, {0}, CT_bf16, {ONE(0), AGAIN}, false},
    {"llama", "llama.apc", {LLAMA}, H100X8, {TP_X_DP(2, 4)}, F32, SIZES, false},
    {"cache", "llama.apc", {LLAMA, {"ctx", "24"}, {"cache", "1"}}, A100X4, {TP_X_DP(2, 2)}, F32, CACHED, false},
    {"moe", "moe.apc", {MOE, {"routing", "dropless"}}, A100X4, {0}, F32, SIZES, false},
    {"lstm", "lstm.apc", {{"layers", "1"}, {"d", "32"}, {"vocab", "50"}}, A100X4, {0}, F32, SIZES, true},
    {"resnet", "resnet.apc", {{"depth", "18"}, {"width", "8"}, {"classes", "10"}, {"image", "32"}}, A100X4,
     {TP_X_DP(2, 2)}, F32, BATCHES, false},
    {"unet", "unet.apc", {{"channels", "4"}, {"levels", "2"}, {"image", "16"}}, H100X8, {0}, F32, BATCHES, false},
    {CONVS, {{0}}, A100X4, {0}, F32, BATCHES, false},
    {CONVS, {{0}}, H100X8, {0}, CT_bf16, BATCHES, false},
    {CONVS, {{0}}, A100X4, {0}, CT_tf32, BATCHES, false},
    {"gpt", "gpt-tiny.onnx", {{0}}, A100X4, {TP_X_PP(2, 2), .micro_batches = 2}, CT_bf16, SIZES, true},
    {"gpt", "gpt-tiny.onnx", {{0}}, A100X4, {TP_X_DP(2, 2)}, CT_tf32, SIZES, false},
    {"llama", "llama.apc", {LLAMA}, H100X8, {.degree[DEGREE_tp] = 4}, CT_f16, SIZES, false},
    {"cache", "llama.apc", {LLAMA, {"ctx", "24"}, {"cache", "1"}}, H100X8, {TP_X_DP(2, 2)}, CT_bf16, CACHED, false},
    {"moe", "moe.apc", {MOE, {"routing", "dropless"}}, A100X4, {0}, CT_bf16, SIZES, false},
    {"lstm", "lstm.apc", {{"layers", "1"}, {"d", "32"}, {"vocab", "50"}}, A100X4, {0}, CT_f16, SIZES, false},
    {"resnet", "resnet.apc", {{"depth", "18"}, {"width", "8"}, {"classes", "10"}, {"image", "32"}}, A100X4,
     {TP_X_DP(2, 2)}, CT_bf16, BATCHES, false},
};

/* Compile options for models from the command line. */
static const Subject given[] = {
    {.target = "dgx-a100x4", .arch = "80", .plan = {.degree[DEGREE_tp] = 2}, .compute = F32, .launched = true},
    {.target = "dgx-h100x8", .arch = "90", .compute = F32, .launched = true},
    {.target = "dgx-a100x4", .arch = "80", .plan = {.degree[DEGREE_tp] = 2}, .compute = CT_bf16, .launched = true},
    {.target = "dgx-h100x8", .arch = "90", .compute = CT_bf16, .launched = true},
};
static const Request asked[REQUESTS] = {ONE(.batch = 2, .seq = 6), {.again = true}, ONE(.batch = 1, .seq = 4)};
/* clang-format on */

/* ---- requests */

typedef struct Outputs {
  float *values[OUTPUTS];
  size_t bytes[OUTPUTS];
  int n;
} Outputs;

static bool read_outputs(ApcModel *model, Outputs *out) {
  out->n = apc_outputs(model);
  for (int i = 0; i < out->n && i < OUTPUTS; i++) {
    ApcTensorInfo info;
    int64_t dims[APC_MAX_RANK];
    int rank;
    if (apc_output_info(model, i, &info) || apc_output_shape(model, info.name, &rank, dims, &out->bytes[i]))
      return false;
    out->values[i] = malloc(out->bytes[i]);
    if (apc_read_output(model, info.name, out->values[i], out->bytes[i])) return false;
  }
  return out->n <= OUTPUTS;
}

static bool is_symbol(const ApcTensorInfo *info, int d) {
  const char *text = info->dim_text[d];
  return info->dims[d] < 0 && text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")] == 0;
}

static int64_t size_of(const Request *r, const char *symbol) {
  return strcmp(symbol, "batch") == 0 ? r->batch : r->seq;
}

/* True if sizes are fixed: then a request of another size than the first is skipped. */
static bool sizes_are_fixed;

static void find_sizes(const char *program) {
  ApcModel *model = NULL;
  ApcTensorInfo info;
  sizes_are_fixed = apc_load(program, NULL, &model) == APC_OK;
  for (int i = 0; sizes_are_fixed && i < apc_inputs(model); i++)
    for (int d = 0; !apc_input_info(model, i, &info) && d < info.rank; d++)
      if (info.dims[d] < 0) sizes_are_fixed = false;
  apc_close(model);
}

/* Every symbol of an input that is not the batch has the size `seq`. */
static void bind_sizes(ApcModel *model, const Request *r) {
  ApcTensorInfo info;
  for (int i = 0; i < apc_inputs(model); i++)
    for (int d = 0; !apc_input_info(model, i, &info) && d < info.rank; d++)
      if (is_symbol(&info, d) && size_of(r, info.dim_text[d]))
        apc_bind_dim(model, info.dim_text[d], size_of(r, info.dim_text[d]));
}

static int requests_of(const Subject *s) {
  int n = 0;
  while (n < REQUESTS && (s->requests[n].entry || s->requests[n].again)) n++;
  return sizes_are_fixed && n > 2 ? 2 : n;
}

static bool ask(ApcModel *model, const Request *r, const char *values, Outputs *out) {
  if (r->again) return apc_run_again(model) == APC_OK && read_outputs(model, out);
  if (apc_select(model, r->entry)) return false;
  bind_sizes(model, r);
  for (int i = 0; i < apc_inputs(model); i++) {
    ApcTensorInfo info;
    if (apc_input_info(model, i, &info)) return false;
    bool position = strcmp(info.name, "at") == 0;
    if (position ? apc_bind_input(model, "at", APC_I64, 0, NULL, &r->at)
                 : apc_bind_input_text(model, info.name, values))
      return false;
  }
  return apc_run(model, NULL) == APC_OK && read_outputs(model, out);
}

static void free_outputs(Outputs *o) {
  for (int i = 0; i < o->n && i < OUTPUTS; i++) free(o->values[i]);
}

/* ---- memory */

static char allocated[4400]; /* DOUBLES_ALLOCATED */

/* The bytes held on each device. */
static void read_allocated(int64_t held[RANKS]) {
  FILE *f = fopen(allocated, "r");
  int device;
  long long bytes;
  memset(held, 0, RANKS * sizeof *held);
  while (f && fscanf(f, "%d %lld", &device, &bytes) == 2)
    if (device >= 0 && device < RANKS) held[device] += bytes;
  CHECKF(f, "no device gave memory");
  if (f) fclose(f);
}

/* A GPU uses no weight from its mapped file. */
static uint64_t weights_of(const ApcReport *r) { return r->param_bytes + r->mapped_bytes; }
static uint64_t total_of(const ApcReport *r) {
  return weights_of(r) + r->state_bytes + r->arena_bytes + r->window_bytes + r->library_bytes;
}

/* After a request: rank r has device r.  Arena and window are those of the largest request so far: most[]. */
static void check_memory(const Subject *s, const char *what, int request, ApcModel *model, ApcReport most[RANKS]) {
  int64_t held[RANKS];
  read_allocated(held);
  for (int r = 0; r < apc_ranks(model); r++) {
    ApcReport *want = &most[r], foretold = {0}, is = {0};
    CHECK(apc_predict(model, r, &foretold) == APC_OK && apc_report(model, r, &is) == APC_OK);
    if (foretold.arena_bytes < want->arena_bytes) foretold.arena_bytes = want->arena_bytes;
    if (foretold.window_bytes < want->window_bytes) foretold.window_bytes = want->window_bytes;
    *want = foretold;
    CHECKF(weights_of(&is) == weights_of(want) && is.state_bytes == want->state_bytes &&
               is.arena_bytes == want->arena_bytes && is.window_bytes == want->window_bytes,
           "%s on %s, %s, request %d: rank %d says it took %llu bytes, predicted %llu", s->name, s->target, what,
           request, r, (unsigned long long)total_of(&is), (unsigned long long)total_of(want));
    CHECKF(held[r] == (int64_t)total_of(want), "%s on %s, %s, request %d: device %d gave %lld bytes, predicted %llu",
           s->name, s->target, what, request, r, (long long)held[r], (unsigned long long)total_of(want));
  }
}

/* Convolutions run by cuDNN, and in one more run by our kernels. */
static bool convolves(const Subject *s) {
  static const char *const names[] = {"convolutions", "resnet", "unet"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(s->name, names[i]) == 0) return true;
  return false;
}

/* Before any request: the largest rank over the entries, at the planned sizes. */
static void check_planned(const Subject *s, ApcModel *model, double planned) {
  uint64_t most = 0, workspace = 0;
  for (int e = 0; e < 2 && s->requests[e].entry; e++) {
    CHECK(apc_select(model, s->requests[e].entry) == APC_OK);
    for (int r = 0; r < apc_ranks(model); r++) {
      ApcReport foretold = {0};
      CHECKF(apc_predict(model, r, &foretold) == APC_OK, "%s", apc_error(model));
      if (total_of(&foretold) > most) most = total_of(&foretold);
      workspace = foretold.library_bytes;
    }
  }
  uint64_t wanted = (uint64_t)(convolves(s) || strcmp(s->arch, "90") == 0 ? 32 : 4) << 20;
  bool unknown = s->name == s->path; /* a model of the user: it may have convolutions, or no products */
  CHECKF(workspace == wanted || (unknown && (workspace == 0 || workspace == 32 << 20)),
         "%s on %s: libraries have %llu bytes", s->name, s->target, (unsigned long long)workspace);
  CHECKF((double)most == planned, "%s on %s: the program needs %llu bytes, %.0f are planned", s->name, s->target,
         (unsigned long long)most, planned);
}

/* ---- programs */

/* *planned: bytes of the largest rank, as `apc plan` prints. */
static bool write_program(E2eModel *e, const char *target, ComputeType compute, const PlanOptions *plan,
                          const char *out, double *planned) {
  DriverOptions *o = &e->build.options;
  o->target = topo_target_find(e->diags, e->arena, target);
  if (o->target && device_multiplies(o->target->device, compute_storage(compute)) &&
      o->target->device->kind != DEVICE_cpu)
    o->target = topo_target_computing_in(e->arena, o->target, compute);
  o->plan = *plan;
  o->producer = "tests/doubles";
  o->stub = arena_printf(e->arena, "%s/apcrt-stub", e2e_build);
  bool ok = o->target && driver_run(&e->build, DRIVER_lower) && driver_measure(&e->build) && e->build.plan->allocated;
  *planned = e->build.plan->allocated->total;
  return ok && driver_write(&e->build, o->target->device, out);
}

static bool compile(const Subject *s, const char *target, const PlanOptions *plan, const char *out, const char *texts,
                    double *planned) {
  const char *entries[2] = {s->requests[0].entry, s->requests[1].entry};
  bool two = entries[1] && strcmp(entries[0], entries[1]) != 0;
  int ndefines = 0;
  E2eModel e;
  char path[4400];
  e2e_compute = s->compute;
  while (ndefines < DEFINES && s->defines[ndefines].name) ndefines++;
  snprintf(path, sizeof path, "%s%s", strchr(s->path, '/') ? "" : "examples/", s->path);
  bool ok = e2e_load(&e, path, ndefines, s->defines, 0, NULL, two ? 2 : 1, entries);
  e.build.options.save_temps = texts;
  ok = ok && write_program(&e, target, s->compute, plan, out, planned);
  if (!ok) e2e_diags(&e);
  e2e_free(&e);
  return ok;
}

static void compare(const Subject *s, const char *what, int request, const Outputs *got, const Outputs *want) {
  CHECK(got->n == want->n);
  for (int i = 0; i < got->n && got->n == want->n; i++) {
    CHECK(got->bytes[i] == want->bytes[i]);
    if (got->bytes[i] != want->bytes[i]) continue;
    double distance = e2e_distance(got->values[i], want->values[i], got->bytes[i] / sizeof(float));
    double most = s->compute == CT_f32 ? 1e-4 : s->compute == CT_tf32 ? 2e-3 : 2e-2;
    CHECKF(distance <= most, "%s in %s on %s, %s, request %d, output %d: distance %g", s->name,
           compute_name(s->compute), s->target, what, request, i, distance);
  }
}

/* Runs requests `from` to `to` through one program; compares with `want`, or fills it.  planned: of a program for
   GPUs. */
static bool run(const Subject *s, const char *program, const char *what, Outputs *want, bool makes, double planned,
                int from, int to) {
  ApcModel *model = NULL;
  ApcReport most[RANKS] = {0};
  bool ok = apc_load(program, NULL, &model) == APC_OK && apc_ranks(model) <= RANKS;
  remove(allocated);
  if (ok && !makes) check_planned(s, model, planned);
  for (int i = from; ok && i < to; i++) {
    Outputs got = {0};
    ok = ask(model, &s->requests[i], "random:3", makes ? &want[i] : &got);
    if (ok && !makes) compare(s, what, i, &got, &want[i]);
    if (ok && !makes) check_memory(s, what, i, model, most);
    free_outputs(&got);
  }
  CHECKF(ok, "%s on %s, %s: %s", s->name, makes ? "cpu" : s->target, what, apc_error(model));
  apc_close(model);
  return ok;
}

/* ---- ranks of a launcher */

static int free_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t n = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool ok = fd >= 0 && !bind(fd, (struct sockaddr *)&at, n) && !getsockname(fd, (struct sockaddr *)&at, &n);
  CHECK(ok);
  if (fd >= 0) close(fd);
  return ntohs(at.sin_port);
}

static void set_number(const char *name, int n) {
  char text[16];
  snprintf(text, sizeof text, "%d", n);
  setenv(name, text, 1);
}

static pid_t start_rank(char **argv, int rank, int ranks, int port) {
  pid_t pid = fork();
  if (pid) return pid;
  set_number("RANK", rank), set_number("LOCAL_RANK", rank);
  set_number("WORLD_SIZE", ranks), set_number("LOCAL_WORLD_SIZE", ranks);
  setenv("MASTER_ADDR", "127.0.0.1", 1), set_number("MASTER_PORT", port);
  int fd = open("/dev/null", O_WRONLY);
  dup2(fd, 1); /* the time it took */
  execv(argv[0], argv);
  _exit(127);
}

/* The command line of rank 0; the request is also bound in `model`, which knows names and sizes. */
typedef struct CommandLine {
  char text[16][4500];
  char *argv[17];
  int n;
} CommandLine;

static void add_word(CommandLine *c, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(c->text[c->n], sizeof c->text[0], format, list);
  va_end(list);
  c->argv[c->n] = c->text[c->n];
  c->argv[++c->n] = NULL;
}

/* Each symbol is named once. */
static void add_size(CommandLine *c, const char *symbol, int64_t size) {
  size_t n = strlen(symbol);
  for (int i = 0; i < c->n; i++)
    if (strncmp(c->text[i], "--dim=", 6) == 0 && strncmp(c->text[i] + 6, symbol, n) == 0 && c->text[i][6 + n] == '=')
      return;
  add_word(c, "--dim=%s=%lld", symbol, (long long)size);
}

static void command_of(ApcModel *model, const char *program, const Request *r, CommandLine *c) {
  ApcTensorInfo info;
  c->n = 0;
  add_word(c, "%s", program);
  if (!getenv("APC_EAGER")) add_word(c, "--bench=1"); /* and once before: recorded, replayed */
  if (!getenv("APC_EAGER")) add_word(c, "--warmup=0");
  bind_sizes(model, r);
  for (int i = 0; i < apc_inputs(model); i++) {
    if (apc_input_info(model, i, &info)) continue;
    for (int d = 0; d < info.rank; d++)
      if (is_symbol(&info, d)) add_size(c, info.dim_text[d], size_of(r, info.dim_text[d]));
    add_word(c, "--input=%s=random:3", info.name);
  }
  for (int i = 0; i < apc_outputs(model) && i < OUTPUTS; i++)
    if (!apc_output_info(model, i, &info)) add_word(c, "--output=%s=@%s/%d.npy", info.name, temp_root(), i);
}

/* Reads the numbers at the end of the files. */
static void read_files(const Outputs *like, Outputs *out) {
  out->n = like->n;
  for (int i = 0; i < like->n && i < OUTPUTS; i++) {
    char path[4500];
    snprintf(path, sizeof path, "%s/%d.npy", temp_root(), i);
    FILE *f = fopen(path, "rb");
    out->values[i] = calloc(1, like->bytes[i] + 1);
    bool all = f && !fseek(f, -(long)like->bytes[i], SEEK_END) && fread(out->values[i], like->bytes[i], 1, f) == 1;
    out->bytes[i] = all ? like->bytes[i] : 0;
    if (f) fclose(f);
    remove(path);
  }
}

static void launched(const Subject *s, const char *program, const char *what, int request, const Outputs *want) {
  static CommandLine line;
  char *alone[] = {(char *)(uintptr_t)program, NULL};
  ApcModel *model = NULL;
  Outputs got = {0};
  pid_t pids[RANKS];
  bool ok = apc_load(program, NULL, &model) == APC_OK && apc_ranks(model) <= RANKS;
  int ranks = ok ? apc_ranks(model) : 0, port = free_port();
  if (ok) command_of(model, program, &s->requests[request], &line);
  for (int r = 0; r < ranks; r++) pids[r] = start_rank(r ? alone : line.argv, r, ranks, port);
  for (int r = 0; r < ranks; r++) {
    int status = 0;
    ok &= waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  CHECKF(ok && ranks > 1, "%s on %s, %s: %d ranks", s->name, s->target, what, ranks);
  if (ok) read_files(want, &got), compare(s, what, request, &got, want);
  free_outputs(&got);
  apc_close(model);
}

/* A request without earlier state, another one each time. */
static int request_of(const Subject *s, int turn) {
  int n = requests_of(s);
  while (s->requests[turn % n].again) turn++;
  return turn % n;
}

static char report[4400];

static void nothing_reported(const Subject *s, const char *what) {
  char said[2000];
  FILE *f = fopen(report, "r");
  if (!f) return;
  said[fread(said, 1, sizeof said - 1, f)] = 0;
  fclose(f);
  remove(report);
  CHECKF(false, "%s on %s, %s: %s", s->name, s->target, what, said);
}

/* Seconds since the process began, and CPU seconds, including those of ended processes. */
typedef struct Spent {
  double wall, cpu;
} Spent;

static Spent spent(void) {
  struct timespec t;
  struct rusage own, children;
  clock_gettime(CLOCK_MONOTONIC, &t);
  getrusage(RUSAGE_SELF, &own), getrusage(RUSAGE_CHILDREN, &children);
  const struct timeval *all[] = {&own.ru_utime, &own.ru_stime, &children.ru_utime, &children.ru_stime};
  Spent s = {(double)t.tv_sec + (double)t.tv_nsec / 1e9, 0};
  for (int i = 0; i < 4; i++) s.cpu += (double)all[i]->tv_sec + (double)all[i]->tv_usec / 1e6;
  return s;
}

/* The first seed runs all requests, recorded and call by call.  Later ones, unless states tie their requests together,
 * run the first size, recorded and so twice, and the next ones call by call, and alternately the other way round; if
 * there is only one size, both. */
static bool halved(const Subject *s, int turn) { return turn > 1 && strcmp(s->requests[0].entry, "main") == 0; }
static bool is_first(int turn) { return turn % 2 == turn / 2 % 2; }
static int first_of(const Subject *s, int turn) {
  return halved(s, turn) && !is_first(turn) && requests_of(s) > 2 ? 2 : 0;
}
static int end_of(const Subject *s, int turn) {
  int all = requests_of(s);
  if (!halved(s, turn)) return all;
  if (is_first(turn)) return turn % 2 ? 1 : 2;
  return all == 2 ? 1 : turn % 2 ? 3 : all;
}

/* Watches the uses of memory once, in graphs and without: that finds a missing order under any seed. */
static void watched(const Subject *s, const char *program, Outputs *want, double planned) {
  setenv("DOUBLES_WATCH", "1", 1);
  run(s, program, "watched", want, false, planned, 0, requests_of(s));
  nothing_reported(s, "watched");
  setenv("APC_EAGER", "1", 1);
  run(s, program, "watched call by call", want, false, planned, 0, requests_of(s) < 3 ? 1 : 3);
  nothing_reported(s, "watched call by call");
  unsetenv("DOUBLES_WATCH"), unsetenv("APC_EAGER");
}

static void subject(const Subject *s, int seeds) {
  Spent begun = spent();
  Outputs want[REQUESTS] = {0};
  char what[100], texts[4400];
  const char *cpu = temp_path("cpu"), *gpu = temp_path("gpu");
  snprintf(texts, sizeof texts, "%s", temp_path("texts"));
  setenv("DOUBLES_TEXTS", texts, 1);
  setenv("DOUBLES_ARCH", s->arch, 1);
  double planned;
  bool ok = compile(s, "cpu", &(PlanOptions){0}, cpu, NULL, &planned) &&
            compile(s, s->target, &s->plan, gpu, texts, &planned);
  CHECKF(ok, "%s on %s", s->name, s->target);
  if (ok) find_sizes(cpu);
  int all = requests_of(s);
  ok = ok && run(s, cpu, "one rank", want, true, 0, 0, all);
  if (ok) watched(s, gpu, want, planned);
  Spent made = spent();
  for (int i = 0; ok && i < 2 * seeds; i++) {
    snprintf(what, sizeof what, "%d", i / 2);
    setenv("DOUBLES_SEED", what, 1);
    if (i % 2) setenv("APC_EAGER", "1", 1);
    else unsetenv("APC_EAGER");
    snprintf(what, sizeof what, "seed %d, %s", i / 2, i % 2 ? "call by call" : "recorded");
    run(s, gpu, what, want, false, planned, first_of(s, i), end_of(s, i));
    nothing_reported(s, what);
    if (!s->launched || i % 2 != i / 2 % 2) continue; /* recorded and call by call alternately */
    snprintf(what, sizeof what, "seed %d, %s, launched", i / 2, i % 2 ? "call by call" : "recorded");
    int request = request_of(s, i / 2);
    launched(s, gpu, what, request, &want[request]);
    nothing_reported(s, what);
  }
  if (ok && convolves(s)) {
    setenv("APC_CONV", "kernel", 1), unsetenv("APC_EAGER");
    run(s, gpu, "without cuDNN", want, false, planned, 0, requests_of(s));
    nothing_reported(s, "without cuDNN");
    unsetenv("APC_CONV");
  }
  for (int i = 0; i < REQUESTS; i++) free_outputs(&want[i]);
  Spent done = spent();
  printf("%s in %s on %s: made in %.1f s (%.1f of processors), run in %.1f s (%.1f)\n", s->name,
         compute_name(s->compute), s->target, made.wall - begun.wall, made.cpu - begun.cpu, done.wall - made.wall,
         done.cpu - made.cpu);
  fflush(stdout);
}

static int seeds_of_all = 1;
static Subject now;

static int seeds_of_now;

static void one_subject(void) { subject(&now, seeds_of_now); }

static void set_file(const char *setting, char *path, size_t n, const char *name) {
  snprintf(path, n, "%s", temp_path(name));
  setenv(setting, path, 1);
}

/* Runs a subject in its own process and folder.  In a quarter the others have one seed. */
static pid_t start_subject(const Subject *s, int number) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid) return pid;
  now = *s;
  seeds_of_now = in_quarter(number) ? seeds_of_all : 1;
  set_file("DOUBLES_REPORT", report, sizeof report, "report");
  set_file("DOUBLES_ALLOCATED", allocated, sizeof allocated, "allocated");
  setenv("DOUBLES_SHARED", temp_root(), 1);
  RUN(one_subject);
  exit(test_failed != 0);
}

static void end_subject(void) {
  int status = 0;
  CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Two at a time. */
static void all_subjects(const Subject *list, int n) {
  enum { AT_ONCE = 2 };
  for (int i = 0; i < n; i++) {
    if (i >= AT_ONCE) end_subject();
    CHECK(start_subject(&list[i], i) > 0);
  }
  for (int i = 0; i < n && i < AT_ONCE; i++) end_subject();
}

static int models_given;
static char **models;

static void programs(void) {
  Subject list[4 * MODELS];
  int n = 0;
  for (int i = 0; i < models_given && i < MODELS; i++)
    for (size_t k = 0; k < sizeof given / sizeof *given; k++) {
      list[n] = given[k];
      list[n].name = list[n].path = models[i];
      memcpy(list[n++].requests, asked, sizeof asked);
    }
  if (n) all_subjects(list, n);
  else all_subjects(subjects, sizeof subjects / sizeof *subjects);
}

/* alike: the number of requests of the first size; 0 for all sizes.  Returns the exit code: that of the request that
   failed. */
static int ask_sizes(const char *program, const char *file, const char *seconds, int alike) {
  static const Request requests[] = {ONE(.batch = 4, .seq = 12), ONE(.batch = 3, .seq = 7), ONE(.batch = 5, .seq = 16)};
  ApcModel *model = NULL;
  ApcStatus status = apc_load(program, &(ApcOptions){.timeout_ms = 1000 * atoi(seconds)}, &model);
  FILE *f = fopen(file, "wb");
  if (!f) return 1;
  for (int i = 0; !status && i < (alike ? alike : 3); i++) {
    Outputs got = {0};
    char values[20];
    snprintf(values, sizeof values, "random:%d", i + 3);
    if (!ask(model, &requests[alike ? 0 : i], values, &got)) status = APC_FAILED;
    for (int k = 0; !status && k < got.n; k++) fwrite(got.values[k], 1, got.bytes[k], f);
    free_outputs(&got);
  }
  if (status) fprintf(stderr, "error: %s\n", apc_error(model));
  apc_close(model);
  fclose(f);
  return (int)status;
}

int main(int argc, char **argv) {
  char path[9000];
  int major, minor;
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  if (argc < 2) return 2;
  if (argc >= 6 && strcmp(argv[2], "ask") == 0)
    return ask_sizes(argv[3], argv[4], argv[5], argc > 6 ? atoi(argv[6]) : 0);
  if (!nvrtc_found(&major, &minor)) {
    printf("skipped: no NVRTC\n");
    return 77;
  }
  e2e_build = argv[1];
  if (argc > 2) seeds_of_all = atoi(argv[2]);
  if (argc > 3) models = argv + 3, models_given = argc - 3;
  if (models_given > MODELS) return 2;
  const char *before = getenv("LD_LIBRARY_PATH");
  snprintf(path, sizeof path, "%s/doubles%s%s", argv[1], before ? ":" : "", before ? before : "");
  setenv("LD_LIBRARY_PATH", path, 1);
  RUN(programs);
  return test_summary();
}
