/* tests/unit/program_run.c - hand-made Programs through the whole runtime: artifact, host, rank processes, kernels. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/compare.h"
#include "tests/programs.h"

static const char kernel_text[] =
    "#include <signal.h>\n#include <stdint.h>\n#include <unistd.h>\n"
    "void relu(void *const *t, const int64_t *x) {\n"
    "  float *v = t[0];\n  for (int64_t i = 0; i < x[0] * x[1]; i++) v[i] = v[i] > 0 ? v[i] : 0;\n}\n"
    "void affine(void *const *t, const int64_t *x) {\n"
    "  const float *v = t[0];\n  float *y = t[1];\n"
    "  for (int64_t i = 0; i < x[0]; i++) y[i] = v[i] * (float)x[1] + (float)x[2];\n}\n"
    "void trouble(void *const *t, const int64_t *x) {\n" /* input 666 kills rank 1, 777 delays it */
    "  const float *v = t[0];\n"
    "  if (x[0] == 1 && v[0] == 666) kill(getpid(), SIGKILL);\n"
    "  if (x[0] == 1 && v[0] == 777) sleep(20);\n}\n";

/* All ranks use exactly the bytes that the compiler would have predicted. */
static void check_bytes(ApcModel *m) {
  for (int r = 0; r < apc_ranks(m); r++) {
    ApcReport predicted, used;
    OK(apc_predict(m, r, &predicted));
    OK(apc_report(m, r, &used));
    CHECK(predicted.param_bytes == used.param_bytes && predicted.state_bytes == used.state_bytes);
    CHECK(predicted.arena_bytes == used.arena_bytes && predicted.window_bytes == used.window_bytes);
    CHECK(predicted.mapped_bytes == used.mapped_bytes);
  }
}

/* ---- tensor parallel: y = relu(x w1) w2, hidden dimension 5 cut in 2 and 3 */

enum { D = 4, H = 5 };

static float w1_at(int i, int j) { return (float)(i * H + j - 9) / 8; }
static float w2_at(int i, int j) { return (float)((i * 7 + j * 3) % 11 - 5) / 4; }

static const char *weights_file(void) {
  float w[D * H + H * D];
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) w[i * H + j] = w1_at(i, j);
  for (int i = 0; i < H; i++)
    for (int j = 0; j < D; j++) w[D * H + i * D + j] = w2_at(i, j);
  const char *path = temp_path("w.bin");
  temp_write(path, w, sizeof w);
  return path;
}

static uint32_t add_param(Make *m, const char *name, ProgramList dims, ProgramList interval, ProgramList local,
                          uint32_t blob, uint64_t offset, ProgramList strides) {
  uint32_t tensor = make_tensor(m, PC_param, DT_f32, 1, local);
  program_add_params(m->b, &(ProgramParam){.name = program_string(m->b, name),
                                           .dtype = DT_f32,
                                           .stage = m->stage,
                                           .buffer = make_buffer_of(m, tensor),
                                           .dims = dims,
                                           .interval = interval,
                                           .init = PINIT_blob,
                                           .blob = blob,
                                           .source_dtype = DT_f32,
                                           .strides = strides,
                                           .offset = offset});
  return tensor;
}

static Make mlp(const char *weights, bool embed) {
  Make m = make_new(1);
  uint32_t tp = program_coordinate(m.b, make_axis(&m, "tp", 2, false)), batch = make_symbol(&m, "batch", 64, 8);
  uint32_t d = make_number(&m, D), h = make_number(&m, H), zero = make_number(&m, 0), one = make_number(&m, 1);
  uint32_t lo = make_cut(&m, tp, h, 2), hi = make_cut(&m, make_next(&m, tp), h, 2), mine = make_sub(&m, hi, lo);
  uint32_t group = program_add_groups(m.b, &(ProgramGroup){MAKE_LIST(&m, 0), PROGRAM_NONE, PROGRAM_NONE});
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, batch, d));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, batch, d));
  make_entry(&m, "main", 1, 1);
  uint64_t bytes = make_file_size(weights);
  uint32_t blob = embed ? program_embed(m.b, bytes, 0)
                        : program_add_blobs(m.b, &(ProgramBlob){.path = program_string(m.b, weights), .bytes = bytes});
  if (embed) m.embedded = weights, m.embedded_blob = blob;
  make_begin(&m, 0);
  uint32_t w1 = add_param(&m, "w1", MAKE_LIST(&m, d, h), MAKE_LIST(&m, zero, d, lo, hi), MAKE_LIST(&m, d, mine), blob,
                          0, MAKE_LIST(&m, h, one));
  uint32_t w2 = add_param(&m, "w2", MAKE_LIST(&m, h, d), MAKE_LIST(&m, lo, hi, zero, d), MAKE_LIST(&m, mine, d), blob,
                          D * H * 4, MAKE_LIST(&m, d, one));
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, batch, d));
  uint32_t a = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, batch, mine));
  uint32_t y = make_tensor(&m, PC_output, DT_f32, 1, MAKE_LIST(&m, batch, d));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, zero, zero));
  make_launch(&m, "trouble", MAKE_LIST(&m, x), MAKE_LIST(&m, tp));
  make_gemm(&m, MAKE_LIST(&m, x, w1, a), batch, mine, d);
  make_launch(&m, "relu", MAKE_LIST(&m, a), MAKE_LIST(&m, batch, mine));
  make_gemm(&m, MAKE_LIST(&m, a, w2, y), batch, d, mine);
  make_put(&m, make_comm(&m, PI_all_reduce, "mlp.out", group, MAKE_LIST(&m, y, y)));
  make_io(&m, PI_fetch, 0, y, 1, MAKE_LIST(&m, zero, zero));
  make_call(&m, 0, make_end(&m, "mlp"), 0);
  make_schedules(&m);
  m.kernels = kernel_text;
  return m;
}

static double run_mlp(ApcModel *m, int batch) {
  float x[64 * D], y[64 * D];
  double worst = 0;
  for (int i = 0; i < batch * D; i++) x[i] = (float)(i % 13 - 6) / 3;
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){batch, D}, x));
  OK(apc_run(m, NULL));
  OK(apc_read_output(m, "y", y, sizeof *y * (size_t)(batch * D)));
  for (int b = 0; b < batch; b++)
    for (int j = 0; j < D; j++) {
      double want = 0;
      for (int k = 0; k < H; k++) {
        double hidden = 0;
        for (int i = 0; i < D; i++) hidden += (double)x[b * D + i] * (double)w1_at(i, k);
        want += fmax(hidden, 0) * (double)w2_at(k, j);
      }
      worst = fmax(worst, number_gap((double)y[b * D + j], want));
    }
  return worst;
}

static void tensor_parallel(void) {
  for (int embed = 0; embed < 2; embed++) {
    Make make = mlp(weights_file(), embed);
    ApcModel *m = make_load(make_artifact(&make, "mlp"));
    static const int batches[] = {8, 1, 64, 3, 8};
    for (int i = 0; i < 5; i++) {
      double worst = run_mlp(m, batches[i]);
      CHECKF(worst < 1e-5, "batch %d: %g", batches[i], worst);
      if (i == 0) check_bytes(m);
    }
    ApcReport r;
    OK(apc_report(m, 1, &r));
    CHECK(r.mapped_bytes == 64 && r.param_bytes == 64 && r.communications == 5); /* w2's rows, w1's columns */
    apc_close(m);
  }
}

static void binding_errors(void) {
  Make make = mlp(weights_file(), false);
  ApcModel *m = make_load(make_artifact(&make, "mlp"));
  float x[70 * D] = {0};
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT);
  CHECK_STR(apc_error(m), "input 'x' is missing");
  CHECK(apc_bind_input(m, "xx", APC_F32, 2, (int64_t[]){1, D}, x) == APC_USAGE);
  CHECK_STR(apc_error(m), "there is no input 'xx'; did you mean 'x'?");
  CHECK(apc_bind_input(m, "x", APC_F64, 2, (int64_t[]){1, D}, x) == APC_BAD_INPUT);
  CHECK_STR(apc_error(m), "input 'x' is f64, but the model expects f32");
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){70, D}, x));
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT);
  CHECKF(strstr(apc_error(m), "batch from 0 to 64"), "%s", apc_error(m));
  OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){D}, x));
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT);
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){2, D}, x));
  CHECK(apc_run(m, "decode") == APC_USAGE);
  CHECK(apc_run_again(m) == APC_USAGE);
  OK(apc_run(m, "main"));
  CHECK(apc_read_output(m, "y", x, 3) == APC_USAGE);
  CHECK(apc_read_output(m, "z", x, 3) == APC_USAGE);
  apc_close(m);
}

static void empty_batch(void) {
  Make make = mlp(weights_file(), false);
  ApcModel *m = make_load(make_artifact(&make, "mlp"));
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){0, D}, NULL));
  OK(apc_run(m, NULL));
  apc_close(m);
}

static void a_rank_dies_or_is_late(void) {
  Make make = mlp(weights_file(), false);
  const char *program = make_artifact(&make, "mlp");
  ApcModel *m = make_load(program);
  float x[D] = {666};
  CHECK(run_mlp(m, 4) < 1e-5);
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){1, D}, x));
  CHECK(apc_run(m, NULL) == APC_FAILED);
  CHECKF(strstr(apc_error(m), "rank 1") && strstr(apc_error(m), "launch of trouble"), "%s", apc_error(m));
  CHECK(run_mlp(m, 4) < 1e-5); /* new ranks */
  apc_close(m);
  m = make_load_late(program);
  x[0] = 777;
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){1, D}, x));
  CHECK(apc_run(m, NULL) == APC_LATE);
  CHECKF(strstr(apc_error(m), "rank 1") && strstr(apc_error(m), "launch of trouble"), "%s", apc_error(m));
  apc_close(m);
}

static void weights_are_checked(void) {
  const char *path = weights_file();
  Make make = mlp(path, false);
  const char *artifact = make_artifact(&make, "mlp");
  ApcModel *m;
  temp_write(path, "short", 5);
  CHECK(apc_load(artifact, NULL, &m) == APC_BAD_INPUT);
  CHECKF(strstr(apc_error(m), "w.bin is not the file with the weights: it has 5 bytes"), "%s", apc_error(m));
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT && apc_inputs(m) == 0);
  apc_close(m);
  unlink(path);
  CHECK(apc_load(artifact, NULL, &m) == APC_BAD_INPUT);
  apc_close(m);
  const char *moved = weights_file();
  char elsewhere[5000];
  snprintf(elsewhere, sizeof elsewhere, "%s.moved", moved);
  CHECK(rename(moved, elsewhere) == 0);
  ApcOptions options = {.weights = elsewhere};
  CHECKF(apc_load(artifact, &options, &m) == APC_OK, "%s", apc_error(m));
  CHECK(run_mlp(m, 4) < 1e-5);
  apc_close(m);
}

static Make counter(void); /* below */

/* Waits for a tick of the file system's clock: a later write gives a file another time. */
static void tick(void) { usleep(20000); }

static void write_over(const char *path) {
  int fd = open(path, O_WRONLY);
  tick();
  CHECK(fd >= 0 && pwrite(fd, "changed", 7, 8) == 7 && close(fd) == 0);
}

static void files_are_opened_once(void) {
  char program[5000], weights[5000];
  Make make = mlp(weights_file(), false), counting = counter();
  snprintf(program, sizeof program, "%s", make_artifact(&make, "mlp"));
  snprintf(weights, sizeof weights, "%s", temp_path("w.bin"));
  ApcModel *m = make_load(program);
  const char *zeros = temp_path("zeros.bin");
  char none[D * H * 8] = {0};
  temp_write(zeros, none, sizeof none);
  CHECK(rename(make_artifact(&counting, "counter"), program) == 0 && rename(zeros, weights) == 0);
  CHECK(run_mlp(m, 8) < 1e-5);
  float x[D] = {666};
  OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){1, D}, x));
  CHECK(apc_run(m, NULL) == APC_FAILED);
  CHECK(unlink(program) == 0);
  CHECK(run_mlp(m, 8) < 1e-5); /* new ranks, from the same files */
  apc_close(m);
}

static void changed_weights_are_noticed(void) {
  Make make = mlp(weights_file(), false);
  const char *program = make_artifact(&make, "mlp");
  ApcModel *m = make_load(program);
  OK(apc_bind_input_text(m, "x", "zeros"));
  write_over(temp_path("w.bin")); /* before the ranks start */
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT);
  CHECKF(strstr(apc_error(m), "w.bin was changed after"), "%s", apc_error(m));
  apc_close(m);
  weights_file();
  m = make_load(program);
  CHECK(run_mlp(m, 8) < 1e-5);
  write_over(temp_path("w.bin")); /* between two requests */
  CHECK(apc_run_again(m) == APC_FAILED);
  CHECKF(strstr(apc_error(m), "w.bin was changed after"), "%s", apc_error(m));
  apc_close(m);
  weights_file();
  m = make_load(program);
  CHECK(run_mlp(m, 8) < 1e-5);
  CHECK(truncate(temp_path("w.bin"), 0) == 0); /* used in place */
  CHECK(apc_run_again(m) == APC_FAILED);
  CHECKF(strstr(apc_error(m), "w.bin was truncated"), "%s", apc_error(m));
  apc_close(m);
}

/* ---- fork */

/* In the child. */
static bool all_calls_fail(ApcModel *m) {
  float x[D] = {0};
  const void *data;
  ApcReport report;
  bool ok = apc_run(m, NULL) == APC_USAGE && strstr(apc_error(m), "before a fork");
  ok = ok && apc_run_again(m) == APC_USAGE && apc_reset(m) == APC_USAGE &&
       apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){1, D}, x) == APC_USAGE;
  ok = ok && apc_output_data(m, "y", &data) == APC_USAGE && apc_report(m, 0, &report) == APC_USAGE &&
       apc_predict(m, 0, &report) == APC_USAGE;
  ok = ok && apc_write_output(m, "y", temp_path("y.npy")) == APC_USAGE && apc_select(m, "main") == APC_USAGE;
  ApcTensorInfo info;
  int rank;
  int64_t dims[APC_MAX_RANK];
  size_t bytes;
  ok = ok && apc_input_info(m, 0, &info) == APC_USAGE && apc_output_info(m, 0, &info) == APC_USAGE &&
       apc_output_shape(m, "y", &rank, dims, &bytes) == APC_USAGE;
  ok = ok && apc_read_output(m, "y", x, sizeof x) == APC_USAGE &&
       apc_write_outputs(m, temp_path("y.npz")) == APC_USAGE && apc_bind_dim(m, "batch", 1) == APC_USAGE;
  ok = ok && apc_bind_input_text(m, "x", "zeros") == APC_USAGE &&
       apc_bind_inputs_file(m, temp_path("none")) == APC_USAGE && !apc_entry_name(m, 0) && apc_outputs(m) == 0;
  return ok && apc_inputs(m) == 0 && apc_ranks(m) == 0 && apc_entries(m) == 0 && !*apc_describe(m, 1);
}

static void a_child_has_no_part_in_it(void) {
  Make make = mlp(weights_file(), false);
  const char *program = make_artifact(&make, "mlp");
  ApcModel *m = make_load(program), *own;
  CHECK(run_mlp(m, 8) < 1e-5);
  pid_t pid = fork();
  if (pid == 0) {
    bool ok = all_calls_fail(m);
    apc_close(m);
    if (ok && !THREAD_SANITIZER) {
      ok = apc_load(program, NULL, &own) == APC_OK && run_mlp(own, 4) < 1e-5;
      apc_close(own);
    }
    _exit(ok ? 0 : 1);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(apc_run_again(m) == APC_OK && run_mlp(m, 3) < 1e-5); /* the same ranks */
  apc_close(m);
}

/* Adds the grids that code for GPUs needs. */
static void give_grids(Make *m) {
  uint32_t one = make_number(m, 1);
  for (uint32_t i = 0; i < program_count_kernels(m->b); i++) program_at_kernels(m->b, i)->threads = 32;
  for (uint32_t i = 0; i < program_count_instrs(m->b); i++)
    if (program_at_instrs(m->b, i)->kind == PI_launch) program_at_instrs(m->b, i)->blocks = one;
}

/* Ranks on CPUs use their own one of several images; each is checked. */
static void code_of_several_devices(void) {
  static char code[5000] = "code";
  const char *path = temp_path("cubin");
  temp_write(path, code, sizeof code);
  Make make = mlp(weights_file(), true);
  make.cubin = path;
  give_grids(&make);
  const char *program = make_artifact(&make, "mlp");
  ApcModel *m = make_load(program);
  CHECK(run_mlp(m, 4) < 1e-5);
  CHECKF(strstr(apc_describe(m, 0), "  code: object, ") && strstr(apc_describe(m, 0), "  code: cubin sm_90, 4.9 KiB"),
         "%s", apc_describe(m, 0));
  apc_close(m);
  FILE *f = fopen(program, "r+b");
  CHECK(f && fseek(f, -(long)sizeof(ArtifactTrailer) - 1, SEEK_END) == 0 && fputc('x', f) == 'x' && fclose(f) == 0);
  ApcStatus status = apc_load(program, NULL, &m);
  CHECKF(status == APC_BAD_INPUT && strstr(apc_error(m), "its kernels do not match their checksum"), "%d: %s", status,
         apc_error(m));
  apc_close(m);
}

/* Ranks on CPUs find only code for GPUs. */
static void code_of_another_device(void) {
  Make make = mlp(weights_file(), true);
  make.image = PIMAGE_cubin, make.arch = "sm_90";
  give_grids(&make);
  ApcModel *m = make_load(make_artifact(&make, "mlp"));
  CHECKF(strstr(apc_describe(m, 0), "  code: cubin sm_90, "), "%s", apc_describe(m, 0));
  CHECKF(strstr(apc_describe(m, 1), "\"kind\": \"cubin\",\n      \"arch\": \"sm_90\""), "%s", apc_describe(m, 1));
  OK(apc_bind_input_text(m, "x", "zeros"));
  CHECK(apc_run(m, NULL) == APC_UNSUPPORTED);
  CHECKF(strstr(apc_error(m), "no machine code for a CPU; it has cubin sm_90"), "%s", apc_error(m));
  apc_close(m);
}

static void missing_instruction_sets(void) {
  Make make = mlp(weights_file(), true);
  make.arch = "mmx9000";
  ApcModel *m = make_load(make_artifact(&make, "mlp"));
  OK(apc_bind_input_text(m, "x", "zeros"));
  CHECK(apc_run(m, NULL) == APC_UNSUPPORTED);
  CHECKF(strstr(apc_error(m), "this CPU lacks mmx9000"), "%s", apc_error(m));
  apc_close(m);
}

/* ---- pipeline: two stages, four micro-batches of uneven size; y = (2 x + 1) * 3 + 10 */

enum { MB = 4 };

static Make pipeline(void) {
  Make m = make_new(2);
  uint32_t mb = program_coordinate(m.b, make_axis(&m, "mb", MB, true)), batch = make_symbol(&m, "batch", 0, 8);
  uint32_t lo = make_cut(&m, mb, batch, MB), n = make_sub(&m, make_cut(&m, make_next(&m, mb), batch, MB), lo);
  uint32_t one = make_number(&m, 1), two = make_number(&m, 2);
  uint32_t pair = program_add_groups(m.b, &(ProgramGroup){{0, 0}, 0, 1});
  m.events = 1;
  m.kernels = kernel_text;
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, batch));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, batch));
  make_entry(&m, "main", 1, 1);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, n));
  uint32_t sent = make_tensor(&m, PC_communication, DT_f32, 2, MAKE_LIST(&m, n)); /* two slots */
  ProgramInstr wait = make_instr(&m, PI_wait, "cut", (ProgramList){0, 0});
  wait.event = 0;
  wait.lag = 2; /* the slot is free again */
  make_put(&m, wait);
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, lo));
  make_launch(&m, "affine", MAKE_LIST(&m, x, sent), MAKE_LIST(&m, n, two, one));
  ProgramInstr send = make_comm(&m, PI_send, "cut", pair, MAKE_LIST(&m, sent));
  send.event = 0;
  make_put(&m, send);
  uint32_t first = make_end(&m, "first");
  make_begin(&m, 1);
  uint32_t got = make_tensor(&m, PC_communication, DT_f32, 1, MAKE_LIST(&m, n));
  uint32_t y = make_tensor(&m, PC_output, DT_f32, 1, MAKE_LIST(&m, n));
  ProgramInstr recv = make_comm(&m, PI_recv, "cut", pair, MAKE_LIST(&m, got));
  recv.key = send.key;
  make_put(&m, recv);
  make_launch(&m, "affine", MAKE_LIST(&m, got, y), MAKE_LIST(&m, n, make_number(&m, 3), make_number(&m, 10)));
  make_io(&m, PI_fetch, 0, y, 0, MAKE_LIST(&m, lo));
  uint32_t second = make_end(&m, "second");
  for (uint32_t k = 0; k < MB; k++) {
    make_call(&m, 0, first, k);
    make_call(&m, 1, second, k);
  }
  make_schedules(&m);
  return m;
}

/* Products of other types than f32 are for devices whose libraries support them. */
static void products_of_f16_are_refused(void) {
  Make m = make_new(1);
  uint32_t two = make_number(&m, 2), zero = make_number(&m, 0);
  make_port(&m, "x", DT_f16, MAKE_LIST(&m, two, two));
  make_port(&m, "y", DT_f16, MAKE_LIST(&m, two, two));
  make_entry(&m, "main", 1, 1);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f16, 1, MAKE_LIST(&m, two, two));
  uint32_t y = make_tensor(&m, PC_output, DT_f16, 1, MAKE_LIST(&m, two, two));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, zero, zero));
  make_gemm(&m, MAKE_LIST(&m, x, x, y), two, two, two);
  make_io(&m, PI_fetch, 0, y, 0, MAKE_LIST(&m, zero, zero));
  make_call(&m, 0, make_end(&m, "f16"), 0);
  make_schedules(&m);
  ApcModel *model;
  const uint16_t ones[4] = {0x3c00, 0x3c00, 0x3c00, 0x3c00};
  ApcStatus status = apc_load(make_artifact(&m, "f16"), NULL, &model);
  if (!status) status = apc_bind_input(model, "x", APC_F16, 2, (int64_t[]){2, 2}, ones);
  if (!status) status = apc_run(model, NULL);
  CHECKF(status == APC_UNSUPPORTED &&
             strstr(apc_error(model), "CPUs multiply f32 into f32, but 'gemm' is f16 into f16, summed in f32"),
         "%d: %s", status, apc_error(model));
  apc_close(model);
}

static void pipelined(void) {
  Make make = pipeline();
  ApcModel *m = make_load(make_artifact(&make, "pipeline"));
  static const int sizes[] = {6, 4, 100, 1, 0, 30000, 6};
  float *x = malloc(sizeof *x * 30000), *y = malloc(sizeof *y * 30000);
  for (int s = 0; s < 7; s++) {
    for (int i = 0; i < sizes[s]; i++) x[i] = (float)i;
    OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){sizes[s]}, x));
    OK(apc_run(m, NULL));
    OK(apc_read_output(m, "y", y, sizeof *y * (size_t)sizes[s]));
    bool right = true;
    for (int i = 0; i < sizes[s]; i++) right &= y[i] == (float)(2 * i + 1) * 3 + 10;
    CHECKF(right, "batch %d", sizes[s]);
    if (s == 0) check_bytes(m);
  }
  free(x);
  free(y);
  apc_close(m);
}

/* ---- state: total += x, over requests */

static Make counter(void) {
  Make m = make_new(1);
  uint32_t n = make_symbol(&m, "n", 0, 4), zero = make_number(&m, 0);
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, n));
  make_port(&m, "total", DT_f32, MAKE_LIST(&m, n));
  make_entry(&m, "main", 1, 1);
  m.kernels =
      "#include <stdint.h>\nvoid add(void *const *t, const int64_t *x) {\n"
      "  const float *v = t[0];\n  float *s = t[1];\n  for (int64_t i = 0; i < x[0]; i++) s[i] += v[i];\n}\n";
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, n));
  uint32_t s = make_tensor(&m, PC_state, DT_f32, 1, MAKE_LIST(&m, n));
  program_add_states(m.b, &(ProgramState){.name = program_string(m.b, "total"),
                                          .dtype = DT_f32,
                                          .buffer = make_buffer_of(&m, s),
                                          .dims = MAKE_LIST(&m, n),
                                          .interval = MAKE_LIST(&m, zero, n),
                                          .value = 0.5});
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, zero));
  make_launch(&m, "add", MAKE_LIST(&m, x, s), MAKE_LIST(&m, n));
  make_io(&m, PI_fetch, 0, s, 0, MAKE_LIST(&m, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  return m;
}

static void states_persist(void) {
  Make make = counter();
  ApcModel *m = make_load(make_artifact(&make, "counter"));
  float x[3] = {1, 2, 3}, y[3];
  OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){3}, x));
  OK(apc_run(m, NULL));
  OK(apc_run(m, NULL));
  OK(apc_run_again(m));
  OK(apc_read_output(m, "total", y, sizeof y));
  CHECK(y[0] == 3.5f && y[1] == 6.5f && y[2] == 9.5f);
  check_bytes(m);
  OK(apc_reset(m));
  OK(apc_run(m, NULL));
  OK(apc_read_output(m, "total", y, sizeof y));
  CHECK(y[2] == 3.5f);
  OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){2}, x));
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT);
  CHECKF(strstr(apc_error(m), "state 'total' was made for other sizes"), "%s", apc_error(m));
  OK(apc_reset(m));
  OK(apc_run(m, NULL));
  apc_close(m);
}

int main(void) {
  setenv("APC_CHECK", "1", 1);
  RUN(tensor_parallel);
  RUN(binding_errors);
  RUN(empty_batch);
  RUN(a_rank_dies_or_is_late);
  RUN(weights_are_checked);
  RUN(files_are_opened_once);
  RUN(changed_weights_are_noticed);
  RUN(a_child_has_no_part_in_it);
  RUN(missing_instruction_sets);
  RUN(code_of_several_devices);
  RUN(code_of_another_device);
  RUN(products_of_f16_are_refused);
  RUN(pipelined);
  RUN(states_persist);
  return test_summary();
}
