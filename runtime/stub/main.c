/* runtime/stub/main.c - the command line of a compiled program, on top of apc_runtime.h.
 *
 * Results go to stdout, everything else to stderr.  Exit codes are ApcStatus.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "base/secure.h"
#include "base/standard.h"
#include "base/statistics.h"
#include "base/text.h"
#include "program/artifact.h"
#include "runtime/host/host.h"
#include "runtime/launch/regroup.h"
#include "runtime/stub/line.h"
#include "runtime/stub/stub.h"

typedef enum Mode { NO, NEEDS, MAY } Mode;

static struct {
  char name[24]; /* with "-" for "_" after name_options */
  const char *argument;
  Mode mode;
  const char *help;
} options[] = {
#define OPTION(name, argument, mode, help) {#name, argument, mode, help},
#include "runtime/stub/options.def"
#undef OPTION
};

static void name_options(void) {
  for (int i = 0; i < OPT_COUNT; i++)
    for (char *c = options[i].name; *c; c++)
      if (*c == '_') *c = '-';
}

enum { TRACE_EVENTS = 1 << 18 }; /* of all ranks together: 10 MiB */

static const char *program_name = "model";
static char *const *arguments; /* argv */

int stub_fail(int code, const char *format, ...) {
  char text[4096], shown[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  text_show(text, shown, sizeof shown);
  fprintf(stderr, "error: %s\n", shown);
  if (code != APC_USAGE) return code;
  text_show(program_name, shown, sizeof shown);
  fprintf(stderr, "help: %s --help lists the options\n", shown);
  return code;
}

int stub_fail_model(const ApcModel *m, ApcStatus status) { return stub_fail((int)status, "%s", apc_error(m)); }

/* ---- the command line */

static int unknown_option(const char *arg) {
  if (strncmp(arg, "--", 2) != 0) return stub_fail(APC_USAGE, "unexpected argument '%s'", arg);
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
  Nearest near = nearest_to(name);
  for (int i = 0; i < OPT_COUNT; i++) nearest_try(&near, options[i].name);
  if (!near.best) return stub_fail(APC_USAGE, "unknown option %s", arg);
  return stub_fail(APC_USAGE, "unknown option %s; did you mean --%s?", arg, near.best);
}

/* Takes argv[*i] and, for its value, perhaps the next argument. */
static int take(int argc, char **argv, int *i, Line *line) {
  const char *arg = argv[*i], *equals = strchr(arg, '=');
  size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
  for (int k = 0; k < OPT_COUNT; k++) {
    if (n != strlen(options[k].name) + 2 || strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, options[k].name, n - 2) != 0)
      continue;
    Given g = {(LineOption)k, equals ? equals + 1 : NULL};
    if (options[k].mode == NO && equals) return stub_fail(APC_USAGE, "--%s takes no value", options[k].name);
    if (options[k].mode == NEEDS && !equals) {
      if (*i + 1 >= argc) return stub_fail(APC_USAGE, "--%s needs a value: %s", options[k].name, options[k].argument);
      g.value = argv[++*i];
    }
    line->given[line->n++] = g;
    return 0;
  }
  return unknown_option(arg);
}

static int parse(int argc, char **argv, Line *line) {
  line->given = calloc((size_t)argc + 1, sizeof *line->given);
  if (!line->given) return stub_fail(APC_FAILED, "out of memory");
  for (int i = 1; i < argc; i++) {
    int code = take(argc, argv, &i, line);
    if (code) return code;
  }
  return 0;
}

static bool milliseconds(const char *text, int *out) {
  char *end;
  double v = strtod(text, &end);
  double unit = strcmp(end, "ms") == 0 ? 1 : strcmp(end, "m") == 0 ? 60000 : strcmp(end, "s") == 0 || !*end ? 1000 : 0;
  if (end == text || unit == 0 || !(v > 0) || v * unit > 1e9) return false;
  *out = v * unit < 1 ? 1 : (int)(v * unit);
  return true;
}

const char *line_name(LineOption id) { return options[id].name; }

/* ---- inputs and outputs */

/* Splits "NAME=REST" at `equals`; a bare REST stands for the only input or output. */
static bool split(const char *text, const char *equals, char *name, size_t size, const char **rest) {
  if (text[0] == '@' || !equals) {
    *name = 0;
    *rest = text;
    return true;
  }
  size_t n = (size_t)(equals - text);
  if (n == 0 || n >= size) return false;
  memcpy(name, text, n);
  name[n] = 0;
  *rest = equals + 1;
  return true;
}

/* Returns the '=' after the name of an input, which may itself contain one. */
static const char *end_of_input(ApcModel *m, const char *text) {
  const char *end = NULL;
  ApcTensorInfo info;
  for (int i = 0; i < apc_inputs(m) && apc_input_info(m, i, &info) == APC_OK; i++) {
    size_t n = strlen(info.name);
    if (strncmp(text, info.name, n) == 0 && text[n] == '=' && (!end || text + n > end)) end = text + n;
  }
  return end ? end : strchr(text, '=');
}

static bool split_output(const char *text, char *name, size_t size, const char **file) {
  const char *equals = strstr(text, "=@");
  return split(text, equals ? equals : strchr(text, '='), name, size, file);
}

static int bind_one(ApcModel *m, const char *text) {
  char name[512];
  const char *value;
  ApcTensorInfo only;
  if (!split(text, end_of_input(m, text), name, sizeof name, &value))
    return stub_fail(APC_USAGE, "--input %s: expected NAME=VALUE", text);
  if (!*name && apc_inputs(m) != 1)
    return stub_fail(APC_USAGE, "--input %s: the program has %d inputs; name one: --input NAME=%s", text, apc_inputs(m),
                     value);
  ApcStatus status = *name ? APC_OK : apc_input_info(m, 0, &only);
  if (!status) status = apc_bind_input_text(m, *name ? name : only.name, value);
  return status ? stub_fail_model(m, status) : 0;
}

static int bind_dim(ApcModel *m, const char *text) {
  char name[512];
  const char *value;
  long n;
  if (!split(text, strrchr(text, '='), name, sizeof name, &value) || !*name || !line_whole(value, 0, LONG_MAX, &n))
    return stub_fail(APC_USAGE, "--dim %s: expected NAME=N", text);
  ApcStatus status = apc_bind_dim(m, name, n);
  return status ? stub_fail_model(m, status) : 0;
}

static int bind_all(ApcModel *m, const Line *line) {
  int code = 0;
  bool measured = line_last(line, OPT_bench) || line_last(line, OPT_profile) || line_last(line, OPT_trace);
  if (measured) { /* options below replace these */
    ApcTensorInfo info;
    for (int i = 0; i < apc_inputs(m) && !code; i++) {
      ApcStatus status = apc_input_info(m, i, &info);
      if (!status) status = apc_bind_input_text(m, info.name, "random");
      if (status) code = stub_fail_model(m, status);
    }
  }
  for (int i = 0; i < line->n && !code; i++) {
    const Given *g = &line->given[i];
    if (g->id == OPT_input) code = bind_one(m, g->value);
    if (g->id == OPT_dim) code = bind_dim(m, g->value);
    if (g->id == OPT_inputs) {
      ApcStatus status = apc_bind_inputs_file(m, g->value);
      if (status) code = stub_fail_model(m, status);
    }
  }
  return code;
}

/* Returns the file that an option reads or writes; NULL if there is none. */
static const char *file_of(ApcModel *m, const Given *g) {
  char name[512];
  const char *value;
  if (g->id == OPT_inputs || g->id == OPT_outputs || g->id == OPT_trace) return g->value;
  bool ok = g->id == OPT_input ? split(g->value, end_of_input(m, g->value), name, sizeof name, &value)
                               : g->id == OPT_output && split_output(g->value, name, sizeof name, &value);
  return ok && value[0] == '@' ? value + 1 : NULL;
}

/* Refuses the output given[i] if its file is also an input, or an earlier output. */
static int check_apart(ApcModel *m, const Line *line, int i) {
  const Given *g = line->given;
  const char *file = file_of(m, &g[i]), *other;
  for (int k = 0; k < line->n; k++) {
    bool written = g[k].id == OPT_output || g[k].id == OPT_outputs || g[k].id == OPT_trace;
    if ((written && k >= i) || !(other = file_of(m, &g[k])) || !file_same(file, other)) continue;
    return stub_fail(APC_USAGE, "--%s would write %s, which is %s by --%s", options[g[i].id].name, file,
                     written ? "written" : "read", options[g[k].id].name);
  }
  return 0;
}

static int check_name(ApcModel *m, const char *text) {
  char name[512];
  const char *file;
  ApcTensorInfo info;
  if (!split_output(text, name, sizeof name, &file) || file[0] != '@' || (!*name && apc_outputs(m) != 1))
    return stub_fail(APC_USAGE, "--output %s: expected NAME=@FILE.npy", text);
  for (int k = 0; k < apc_outputs(m); k++)
    if (!*name || (apc_output_info(m, k, &info) == APC_OK && strcmp(info.name, name) == 0)) return 0;
  return stub_fail(APC_USAGE, "there is no output '%s'", name);
}

/* Checks names and files before anything runs. */
static int check_outputs(ApcModel *m, const Line *line) {
  int code = 0;
  for (int i = 0; i < line->n && !code; i++) {
    const Given *g = &line->given[i];
    if (g->id != OPT_output && g->id != OPT_outputs && g->id != OPT_trace) continue;
    if (g->id == OPT_output) code = check_name(m, g->value);
    else if (g->id == OPT_outputs && strcmp(g->value, "-") == 0)
      code = stub_fail(APC_USAGE, "--outputs -: an archive cannot be written to standard output");
    if (!code) code = check_apart(m, line, i);
  }
  return code;
}

static void say_written(const char *path) {
  char shown[4096];
  text_show(path, shown, sizeof shown);
  fprintf(stderr, "wrote %s\n", shown);
}

static int write_one(ApcModel *m, const char *text) {
  char name[512];
  const char *file;
  ApcTensorInfo only;
  if (!split_output(text, name, sizeof name, &file)) return 0; /* never: check_name has accepted it */
  ApcStatus status = *name ? APC_OK : apc_output_info(m, 0, &only);
  if (!status) status = apc_write_output(m, *name ? name : only.name, file + 1);
  if (status) return stub_fail_model(m, status);
  if (strcmp(file, "@-") != 0) say_written(file + 1);
  return 0;
}

static int write_outputs(ApcModel *m, const Line *line) {
  int code = 0;
  for (int i = 0; i < line->n && !code; i++) {
    const Given *g = &line->given[i];
    if (g->id == OPT_output) code = write_one(m, g->value);
    if (g->id != OPT_outputs) continue;
    ApcStatus status = apc_write_outputs(m, g->value);
    if (status) return stub_fail_model(m, status);
    say_written(g->value);
  }
  return code;
}

/* Without --output: prints the shape of each output and its first numbers. */
static void print_number(const void *data, ApcType type, size_t i) {
  switch (type) {
    case APC_F32: printf("%g", (double)((const float *)data)[i]); return;
    case APC_F64: printf("%g", ((const double *)data)[i]); return;
    case APC_I32: printf("%" PRId32, ((const int32_t *)data)[i]); return;
    case APC_I64: printf("%" PRId64, ((const int64_t *)data)[i]); return;
    case APC_BOOL: printf("%s", ((const uint8_t *)data)[i] ? "true" : "false"); return;
    default: printf("?"); return;
  }
}

static bool printable(ApcType t) {
  return t == APC_F32 || t == APC_F64 || t == APC_I32 || t == APC_I64 || t == APC_BOOL;
}

static int print_outputs(ApcModel *m) {
  for (int i = 0; i < apc_outputs(m); i++) {
    ApcTensorInfo info;
    int rank;
    int64_t dims[APC_MAX_RANK];
    size_t bytes, count = 1;
    const void *data;
    ApcStatus status = apc_output_info(m, i, &info);
    if (!status) status = apc_output_shape(m, info.name, &rank, dims, &bytes);
    if (!status) status = apc_output_data(m, info.name, &data);
    if (status) return stub_fail_model(m, status);
    printf("%s [", info.name);
    for (int d = 0; d < rank; d++) {
      printf("%s%" PRId64, d ? ", " : "", dims[d]);
      count *= (size_t)dims[d];
    }
    printf("]");
    for (size_t k = 0; printable(info.type) && k < count && k < 8; k++) {
      printf(k ? " " : " = ");
      print_number(data, info.type, k);
    }
    printf("%s\n", printable(info.type) && count > 8 ? " .." : "");
  }
  return 0;
}

/* ---- measuring */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Warms up and measures; the recording of --profile and --trace begins in between. */
static ApcStatus run_often(ApcModel *m, long runs, long warmup, long events, double *ms) {
  ApcStatus status = APC_OK;
  for (long i = -warmup; i < runs && !status; i++) {
    if (i == 0 && events >= 0) status = apc_record(m, (size_t)events);
    double begin = now_ms();
    if (!status) status = apc_run_again(m);
    if (i >= 0) ms[i] = now_ms() - begin;
  }
  return status;
}

static int measure(ApcModel *m, FILE *out, long runs, long warmup, long events) {
  double *ms = calloc((size_t)runs, sizeof *ms);
  if (!ms) return stub_fail(APC_FAILED, "out of memory");
  ApcStatus status = run_often(m, runs, warmup, events, ms);
  if (!status) {
    Statistics s = statistics_of(ms, (size_t)runs);
    fprintf(out,
            "%ld run%s: median %.3f ms, mean %.3f ms, min %.3f ms, max %.3f ms, p90 %.3f ms, p99 %.3f ms, %.1f "
            "requests/s",
            runs, runs == 1 ? "" : "s", s.median, s.mean, s.least, s.most, s.p90, s.p99,
            1e3 / s.mean * (double)apc_batch(m));
    if (apc_batch(m) > 1) fprintf(out, ", %" PRId64 " in a run", apc_batch(m));
    fputc('\n', out);
  }
  free(ms);
  return status ? stub_fail_model(m, status) : 0;
}

static bool in_json(const Given *profile) { return profile && profile->value && strcmp(profile->value, "json") == 0; }

/* Writes the recording. */
static int report(ApcModel *m, const Line *line) {
  const Given *profile = line_last(line, OPT_profile), *trace = line_last(line, OPT_trace);
  uint64_t dropped = 0;
  ApcStatus status = trace ? apc_write_trace(m, trace->value, &dropped) : APC_OK;
  if (status) return stub_fail_model(m, status);
  if (dropped)
    fprintf(stderr, "warning: %" PRIu64 " calls are not in the trace, which holds at most %d\n", dropped, TRACE_EVENTS);
  if (!profile) return 0;
  const char *text = apc_profile(m, in_json(profile) ? 1 : profile->value ? 2 : 0);
  if (!*text) return stub_fail_model(m, APC_FAILED);
  standard_json(in_json(profile));
  fputs(text, stdout);
  if (in_json(profile)) fputs("\n", stdout);
  standard_json(false);
  return 0;
}

/* Reads --profile and --trace.  *events: the number of calls to record; -1 without a recording. */
static int recording(const Line *line, long *events) {
  const Given *profile = line_last(line, OPT_profile);
  *events = line_last(line, OPT_trace) ? TRACE_EVENTS : profile ? 0 : -1;
  if (profile && profile->value && !in_json(profile) && strcmp(profile->value, "worst") != 0)
    return stub_fail(APC_USAGE, "--profile=%s: expected json or worst", profile->value);
  return 0;
}

/* ---- training */

static int train(ApcModel *m, const Line *line) {
  Training t;
  StepLog *rows = NULL;
  const char *log = line_text(line, OPT_log);
  long events;
  int code = stub_training(line, &t);
  const size_t room = (size_t)line->n + 1;
  const char **data = calloc(3 * room, sizeof *data), **eval = data + room, **documents = eval + room;
  if (!data) return stub_fail(APC_FAILED, "out of memory");
  for (int i = 0; i < line->n; i++) {
    const Given *g = &line->given[i];
    if (g->id == OPT_data) data[t.data.n++] = g->value;
    if (g->id == OPT_eval) eval[t.eval.n++] = g->value;
    if (g->id == OPT_documents) documents[t.data.n_documents++] = g->value;
  }
  t.data.data = data, t.eval.data = eval;
  t.data.documents = t.eval.documents = documents, t.eval.n_documents = t.data.n_documents;
  if (!code) code = bind_all(m, line);
  if (!code) code = recording(line, &events);
  if (!code) code = check_outputs(m, line);
  if (!code && log) code = stub_check_log(m, &t, log);
  if (!code && log) code = stub_log_open(log, t.resume != NULL, &rows);
  if (!code && events >= 0 && apc_record(m, (size_t)events)) code = stub_fail_model(m, APC_FAILED);
  if (!code) code = stub_train(m, &t, rows, line_last(line, OPT_json) || in_json(line_last(line, OPT_profile)));
  stub_log_close(rows);
  free(data);
  if (!code && m->regroup) return LAUNCH_REGROUP;
  return code || events < 0 ? code : report(m, line);
}

/* ---- */

static int run(ApcModel *m, const Line *line) {
  const Given *bench = line_last(line, OPT_bench), *warmup = line_last(line, OPT_warmup);
  long runs = 20, before = 3;
  if (bench && bench->value && !line_whole(bench->value, 1, 1000000, &runs))
    return stub_fail(APC_USAGE, "--bench=%s: expected a positive number of runs", bench->value);
  if (warmup && !line_whole(warmup->value, 0, 1000000, &before))
    return stub_fail(APC_USAGE, "--warmup %s: expected a number of runs", warmup->value);
  const Given *profile = line_last(line, OPT_profile);
  long events;
  int code = recording(line, &events);
  if (!code) code = bind_all(m, line);
  if (!code) code = check_outputs(m, line);
  if (code) return code;
  ApcStatus status = !bench && events >= 0 ? apc_record(m, (size_t)events) : APC_OK;
  if (!status) status = apc_run(m, NULL);
  if (status) return stub_fail_model(m, status);
  if (bench) code = measure(m, in_json(profile) ? stderr : stdout, runs, before, events);
  if (!code) code = write_outputs(m, line);
  if (!code && !bench && !in_json(profile) && !line_last(line, OPT_output) && !line_last(line, OPT_outputs) &&
      !line_last(line, OPT_describe))
    code = print_outputs(m);
  return code ? code : report(m, line);
}

static int describe(ApcModel *m, const Line *line) {
  const Given *g = line_last(line, OPT_describe);
  if (g->value && strcmp(g->value, "json") != 0) return stub_fail(APC_USAGE, "--describe=%s: expected json", g->value);
  const char *text = apc_describe(m, g->value != NULL);
  if (!*text) return stub_fail_model(m, APC_FAILED);
  standard_json(g->value != NULL);
  puts(text);
  standard_json(false);
  return 0;
}

static bool runs_something(const Line *line) {
  for (int i = 0; i < line->n; i++) {
    LineOption id = line->given[i].id;
    if (id == OPT_input || id == OPT_inputs || id == OPT_output || id == OPT_outputs || id == OPT_bench ||
        id == OPT_profile || id == OPT_trace || id == OPT_steps || id == OPT_epochs)
      return true;
  }
  return false;
}

static int use(ApcModel *m, const Line *line) {
  const Given *entry = line_last(line, OPT_entry);
  int code = 0;
  if (entry && apc_select(m, entry->value)) return stub_fail_model(m, APC_USAGE);
  bool wanted = runs_something(line) || (apc_inputs(m) == 0 && !line_last(line, OPT_describe));
  if (line_text(line, OPT_metrics) && wanted) {
    ApcStatus status = apc_metrics(m, line_text(line, OPT_metrics));
    if (status && regroup_round() > 0) /* a rank 0 of an earlier round that is only stopped holds the port */
      fprintf(stderr, "warning: elastic: %s; the run goes on without\n", apc_error(m));
    else if (status) return stub_fail_model(m, status);
  }
  if (line_trains(line)) {
    code = train(m, line);
    return !code && line_last(line, OPT_describe) ? describe(m, line) : code;
  }
  code = stub_needs_steps(line);
  if (code) return code;
  if (!wanted && !line_last(line, OPT_describe)) {
    const char *text = apc_describe(m, 0);
    if (!*text) return stub_fail_model(m, APC_FAILED);
    printf("%s", text);
    fflush(stdout);
    return stub_fail(APC_USAGE,
                     "no inputs were given; use --input NAME=@FILE.npy, --inputs FILE.npz, or --bench for random ones");
  }
  if (wanted) code = run(m, line);
  return !code && line_last(line, OPT_describe) ? describe(m, line) : code;
}

/* Sets *ranks to the number of ranks that the program is to run with; 0: the first that it was compiled for. */
static int wanted_ranks(const Line *line, const ApcLaunch *launch, int *ranks) {
  const Given *given = line_last(line, OPT_ranks), *world = line_last(line, OPT_world);
  long n = 0;
  if (given && !line_whole(given->value, 1, 1 << 20, &n))
    return stub_fail(APC_USAGE, "--ranks %s: expected a positive number", given->value);
  int started = launch ? launch->place.world : world ? (int)strtol(world->value, NULL, 10) : 0;
  if (!launch && regroup_round() > 0) started = 1; /* the last of a launcher's ranks */
  if (given && started && n != started)
    return stub_fail(APC_USAGE, "--ranks %ld: %d processes were started", n, started);
  *ranks = started ? started : (int)n;
  return 0;
}

static int open_and_use(const Line *line, ApcLaunch *launch, int timeout_ms) {
  const Given *weights = line_last(line, OPT_weights);
  const Given *tune = line_last(line, OPT_tune);
  ApcOptions o = {.weights = weights ? weights->value : NULL,
                  .timeout_ms = timeout_ms,
                  .launch = launch,
                  .hands_on = line_trains(line),
                  .tune = tune ? tune->value : NULL};
  ApcModel *m;
  int ranks = 0;
  int wrong = wanted_ranks(line, launch, &ranks);
  if (wrong) return wrong;
  ApcStatus status = host_load(NULL, &o, ranks, &m);
  const Given *threads = line_last(line, OPT_thread_count); /* launch_options has checked it */
  if (!status && threads && !launch) status = apc_set_threads(m, (int)strtol(threads->value, NULL, 10));
  int code = status ? stub_fail_model(m, status) : use(m, line);
  apc_close(m);
  return code;
}

/* ---- launchers */

static ApcLaunch *elastic_ranks; /* for end_stuck; NULL if the ranks do not meet again */

/* The ranks of an elastic run meet again after the round that ends with `code`.  Returns the exit code. */
static int meet_again(ApcLaunch *ranks, int code) {
  bool leaves = code == LAUNCH_REGROUP && *stub_asked() == 2;
  fprintf(stderr, "note: elastic: rank %d %s\n", apc_launch_rank(ranks),
          leaves                   ? "leaves"
          : code == LAUNCH_REGROUP ? "meets the others again: their number changes"
                                   : "meets the others again: a rank was lost");
  fflush(stdout);
  ApcStatus status = host_launch_again(ranks, code, leaves);
  return status ? stub_fail((int)status, "%s", apc_launch_error(ranks)) : 0;
}

/* Called when another rank failed while this one is busy. */
static void end_stuck(int code, const char *error) {
  code = stub_fail(code, "%s", error);
  if (elastic_ranks && (code == APC_FAILED || code == APC_LATE)) code = meet_again(elastic_ranks, code);
  _exit(code);
}

static int launch_options(const Line *line, ApcLaunchOptions *o) {
  const Given *rank = line_last(line, OPT_rank), *world = line_last(line, OPT_world),
              *timeout = line_last(line, OPT_timeout);
  const Given *rendezvous = line_last(line, OPT_rendezvous), *transport = line_last(line, OPT_transport),
              *weights = line_last(line, OPT_weights), *tune = line_last(line, OPT_tune);
  const Given *threads = line_last(line, OPT_thread_count);
  long r = -1, w = -1, n;
  *o = (ApcLaunchOptions){.rendezvous = rendezvous ? rendezvous->value : NULL,
                          .transport = transport ? transport->value : NULL,
                          .weights = weights ? weights->value : NULL,
                          .tune = tune ? tune->value : NULL,
                          .insecure = line_last(line, OPT_insecure) != NULL};
  if (rank && !line_whole(rank->value, 0, 1 << 20, &r))
    return stub_fail(APC_USAGE, "--rank %s: expected a number", rank->value);
  if (world && !line_whole(world->value, 1, 1 << 20, &w))
    return stub_fail(APC_USAGE, "--world %s: expected a positive number", world->value);
  if (threads && !line_whole(threads->value, 1, 1 << 16, &n))
    return stub_fail(APC_USAGE, "--thread-count %s: expected a positive number of threads", threads->value);
  if (threads) setenv("OMP_NUM_THREADS", threads->value, 1); /* for apc_launch */
  if (timeout && !milliseconds(timeout->value, &o->timeout_ms))
    return stub_fail(APC_USAGE, "--timeout %s: expected a time such as 60s or 500ms", timeout->value);
  if (line_trains(line)) o->asked = stub_asked();
  if (line_last(line, OPT_elastic) && line_trains(line)) o->elastic = line_text(line, OPT_checkpoint);
  o->argv = arguments;
  o->rank = (int)r;
  o->stuck = end_stuck;
  o->world = (int)w;
  return 0;
}

/* Returns the exit code after flushing all results. */
static int written(int code) {
  if (standard_output_written() || code) return code;
  return stub_fail(APC_BAD_INPUT, "standard output cannot be written");
}

/* Runs as rank 0, alone or with others, or serves as another rank. */
static int launch(const Line *line) {
  ApcLaunchOptions o;
  ApcLaunch *ranks = NULL;
  int code = launch_options(line, &o);
  if (code) return code;
  if (o.elastic) mkdir(o.elastic, 0777); /* where ranks meet again; what fails here is said when it is written to */
  ApcStatus status = apc_launch(&o, &ranks);
  bool ended = ranks && ranks->ended;
  if (ended) apc_launch_close(ranks, 0);
  if (ended) return stub_ended_meanwhile(line, o.elastic);
  if (ranks && ranks->elastic) stub_term_leaves(), elastic_ranks = ranks;
  if (*apc_launch_warning(ranks)) fprintf(stderr, "warning: %s\n", apc_launch_warning(ranks));
  bool serves = !status && ranks && apc_launch_rank(ranks) > 0;
  if (serves && o.asked) stub_listen();
  if (serves) status = apc_launch_serve(ranks, &code);
  else if (!status) code = open_and_use(line, ranks, o.timeout_ms);
  if (status) {
    code = (int)status;
    if (apc_launch_tells(ranks)) stub_fail(code, "%s", apc_launch_error(ranks));
  }
  code = written(code); /* now, because closing may end the process */
  if (host_launch_meets(ranks, code)) {
    host_launch_leave(ranks, code);
    code = meet_again(ranks, code);
  } else if (!code && o.elastic && (ranks ? ranks->elastic && apc_launch_rank(ranks) == 0 : regroup_round() > 0)) {
    regroup_end(o.elastic);
  }
  apc_launch_close(ranks, code);
  return code;
}

int main(int argc, char **argv) {
  standard_hold();
  standard_show();
  file_limit_refuses();
  json_must_have_memory();
  if (secure_execution())
    return stub_fail(
        APC_UNSUPPORTED,
        "a compiled program does not run with the rights of another user (a set-uid or set-gid copy, or file "
        "capabilities)");
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  Line line = {0};
  if (argc > 0) program_name = argv[0];
  arguments = argv;
  name_options();
  int code = parse(argc, argv, &line);
  if (!code && line_last(&line, OPT_help)) {
    code = stub_help(program_name);
  } else if (!code && line_last(&line, OPT_version)) {
    code = stub_version(program_name);
  } else if (!code && line_last(&line, OPT_completion)) {
    code = stub_completion(program_name, line_last(&line, OPT_completion)->value);
  } else if (!code) {
    code = launch(&line);
  }
  free(line.given);
  return written(code);
}
