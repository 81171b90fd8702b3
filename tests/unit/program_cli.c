/* tests/unit/program_cli.c - the command line of compiled programs: options, files, exit codes, messages. */
#include <math.h>
#include <sys/wait.h>

#include "base/npy.h"
#include "base/npz.h"
#include "tests/programs.h"

static char output[65536], errors[65536];

static void slurp(const char *path, char *text, size_t size) {
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, size - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
}

/* Runs "PROGRAM ARGS"; the exit code; stdout and stderr to the texts above. */
static int run(const char *program, const char *args) {
  char command[20000];
  snprintf(command, sizeof command, "%s %s >%s 2>%s </dev/null", program, args, temp_path("out"), temp_path("err"));
  int status = system(command);
  slurp(temp_path("out"), output, sizeof output);
  slurp(temp_path("err"), errors, sizeof errors);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#define RUNS(args, code, text) \
  do { \
    int code_ = run(program, args); \
    CHECKF(code_ == (code), "%s: exit %d\n%s%s", args, code_, output, errors); \
    CHECKF(strstr((code) ? errors : output, text), "%s: missing \"%s\" in:\n%s%s", args, text, output, errors); \
  } while (0)

/* y = 2 x + ids; kernels die on x[0] = 666. */
static const char *example(int inputs) {
  Make m = make_new(1);
  uint32_t r = program_coordinate(m.b, make_axis(&m, "tp", 2, false)), n = make_symbol(&m, "batch", 100, 8);
  uint32_t zero = make_number(&m, 0);
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, n));
  if (inputs == 2) {
    uint32_t port = make_port(&m, "ids", DT_i64, MAKE_LIST(&m, n));
    program_at_ports(m.b, port)->random_below = make_number(&m, 5);
  }
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, n));
  make_entry(&m, "main", (uint32_t)inputs, 1);
  m.kernels =
      "#include <signal.h>\n#include <stdint.h>\n#include <unistd.h>\n"
      "void f(void *const *t, const int64_t *x) {\n  const float *v = t[0];\n  const int64_t *ids = t[1];\n  float *y "
      "= t[2];\n"
      "  if (x[0] > 0 && v[0] == 666 && x[1]) kill(getpid(), SIGKILL);\n  if (x[0] > 0 && v[0] == 777 && x[1]) "
      "sleep(9);\n"
      "  for (int64_t i = 0; i < x[0]; i++) y[i] = 2 * v[i] + (float)ids[i];\n}\n";
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, n)),
           ids = make_tensor(&m, PC_input, DT_i64, 1, MAKE_LIST(&m, n));
  uint32_t y = make_tensor(&m, PC_output, DT_f32, 1, MAKE_LIST(&m, n));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, zero));
  if (inputs == 2) make_io(&m, PI_feed, 1, ids, 0, MAKE_LIST(&m, zero));
  else make_put(&m, make_instr(&m, PI_fill, "zero", MAKE_LIST(&m, ids)));
  make_launch(&m, "f", MAKE_LIST(&m, x, ids, y), MAKE_LIST(&m, n, r));
  make_io(&m, PI_fetch, 0, y, 1, MAKE_LIST(&m, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  return make_artifact(&m, inputs == 2 ? "two" : "one");
}

static void write_npy(const char *name, float first, int64_t n) {
  Arena *a = arena_new();
  Tensor t;
  CHECK(tensor_alloc(&t, DT_f32, 1, &n));
  for (int64_t i = 0; i < n; i++) ((float *)t.data)[i] = first + (float)i;
  CHECK(npy_write(diags_new(a), temp_path(name), &t));
  tensor_free(&t);
  arena_free(a);
}

static float first_of(const char *name, int64_t n) {
  Arena *a = arena_new();
  Tensor t;
  float v = -1;
  if (npy_read(diags_new(a), temp_path(name), &t)) {
    CHECK(t.rank == 1 && t.dims[0] == n);
    v = *(float *)t.data;
    tensor_free(&t);
  }
  arena_free(a);
  return v;
}

static const char *with_files(const char *format) {
  static char text[20000];
  snprintf(text, sizeof text, format, temp_root(), temp_root(), temp_root());
  return text;
}

static void files(void) {
  const char *program = example(1);
  write_npy("x.npy", 3, 5);
  RUNS(with_files("--input @%s/x.npy --output y=@%s/y.npy"), 0, "");
  CHECK(first_of("y.npy", 5) == 6);
  RUNS(with_files("--input=x=@%s/x.npy --outputs=%s/y.npz"), 0, "");
  RUNS(with_files("--input x=@%s/x.npy"), 0, "y [5] = 6 8 10 12 14\n");
  Arena *a = arena_new();
  Npz *z = npz_open(diags_new(a), temp_path("y.npz"));
  CHECK(z && z->n == 1 && strcmp(z->items[0].name, "y") == 0);
  npz_close(z);
  arena_free(a);
  program = example(2);
  RUNS(with_files("--inputs %s/y.npz"), 1, "y.npz: there is no input 'y'");
  RUNS(with_files("--input x=@%s/x.npy --input ids=zeros"), 0, "y [5] = 6 8 10 12 14\n");
}

static void random_inputs(void) {
  const char *program = example(2);
  RUNS("--input x=random:7 --input ids=random", 0, "y [8] = ");
  char first[1000];
  snprintf(first, sizeof first, "%.999s", output);
  RUNS("--input x=random:7 --input ids=random:0", 0, first);
  RUNS("--input x=random:8 --input ids=random", 0, "y [8] = ");
  CHECK(strcmp(first, output) != 0);
  RUNS("--input x=zeros --input ids=random --dim batch=40", 0, "y [40] = ");
  RUNS("--bench=3 --warmup 1", 0, "3 runs: median");
  RUNS("--bench=1", 0, "1 run: median");
  RUNS("--bench=2", 0, "2 runs: median");
  double median = 0, mean = 0;
  CHECKF(sscanf(output, "2 runs: median %lf ms, mean %lf ms", &median, &mean) == 2 && fabs(median - mean) < 0.0011,
         "the median of two is their mean: %s", output);
}

static void errors_have_codes(void) {
  const char *program = example(1);
  RUNS("", 2, "no inputs were given");
  CHECK(strstr(output, "input  x : f32[batch]"));
  RUNS("--inptu x=zeros", 2, "unknown option --inptu; did you mean --input?");
  RUNS("--inptus=x.npz", 2, "unknown option --inptus=x.npz; did you mean --inputs?");
  RUNS("--inexact", 2, "unknown option --inexact\n");
  RUNS("x.npy", 2, "unexpected argument 'x.npy'");
  RUNS("--input", 2, "--input needs a value");
  RUNS("--input z=zeros", 2, "there is no input 'z'; there are: x");
  RUNS("--input x=zeroes", 2, "neither @FILE.npy nor random[:SEED] nor zeros");
  RUNS("--input x=zeros --output q=@/tmp/q.npy", 2, "there is no output 'q'");
  RUNS("--input x=zeros --output y=q.npy", 2, "expected NAME=@FILE.npy");
  RUNS("--input x=zeros --transport foo", 2, "the transport 'foo' is neither tcp nor mpi");
  RUNS("--input x=zeros --dim btach=4", 2, "there is no dimension 'btach'; there are: batch");
  RUNS("--input x=zeros --outputs -", 2, "cannot be written to standard output");
  RUNS("--input x=zeros --timeout never", 2, "a time such as 60s");
  RUNS("--input x=zeros --ranks 3", 2, "this program was compiled for 2");
  RUNS("--input x=zeros --dim batch=101", 1, "batch is 101, but this program was compiled for batch from 0 to 100");
  RUNS("--input x=zeros --entry decode", 2, "there is no entry 'decode'");
  RUNS("--inputs x.npy", 2, "x.npy is one tensor, not an archive (.npz); use --input NAME=@x.npy to bind one input");
  RUNS("--input @x.npz", 2, "use --inputs x.npz to bind inputs by name");
  RUNS("--input x.npy", 2, "write '@' before the name of a file: --input x=@x.npy");
  RUNS("--input @/nowhere/x.npy", 1, "/nowhere/x.npy: cannot read the file: No such file");
  RUNS("--input x=zeros --output y=@/nowhere/y.npy", 1, "/nowhere/y.npy: cannot write the file");
  RUNS("--data x=@x.npy", 2, "--data needs --steps");
  RUNS("--steps 3 --data x=@x.npy", 2, "this is not a training program");
  RUNS("--steps 3 --every 2 --data x=@x.npy", 2, "--every needs --checkpoint");
  write_npy("x.npy", 666, 5);
  RUNS(with_files("--input @%s/x.npy"), 6, "rank 1 was killed by signal 9");
  write_npy("x.npy", 777, 5);
  RUNS(with_files("--timeout 300ms --input @%s/x.npy"), 7, "rank 1 is late");
  RUNS("--help", 0, "--bench[=RUNS]");
  setenv("WORLD_SIZE", "4", 1);
  setenv("RANK", "1", 1);
  RUNS("--input x=zeros", 2, "rank 1 of 4 (torchrun) has no address to meet at");
  RUNS("--input x=zeros --rendezvous localhost:1", 2,
       "torchrun started 4 processes, but this program was compiled for 2 ranks");
  unsetenv("WORLD_SIZE");
}

static void descriptions(void) {
  const char *program = example(2);
  RUNS("--describe", 0, "two for test: 2 ranks (tp=2), 0 weights\nentry main\n  input  x : f32[batch]\n");
  RUNS("--describe=json", 0, "\"predicted_bytes\": {\n");
  CHECK(!strstr(output, "allocated_bytes"));
  RUNS("--describe=json --bench=1", 0, "\"allocated_bytes\": {\n");
  RUNS("--describe=xml", 2, "expected json");
}

static void damaged_files(void) {
  char program[5000], expected[200];
  uint64_t size = make_file_size(example(1));
  FILE *f = fopen(temp_path("one"), "rb");
  unsigned char *bytes = malloc(size);
  CHECK(bytes && fread(bytes, 1, size, f) == size);
  fclose(f);
  snprintf(program, sizeof program, "%s", temp_path("broken"));
  temp_write(program, bytes, size - 1);
  chmod(program, 0755);
  snprintf(expected, sizeof expected, "is truncated: it has %llu bytes, %llu are expected",
           (unsigned long long)size - 1, (unsigned long long)size);
  RUNS("--input x=zeros", 1, expected);
  ArtifactTrailer t;
  memcpy(&t, bytes + size - sizeof t, sizeof t);
  bytes[t.offset + 700] ^= 1;
  temp_write(program, bytes, size);
  RUNS("--input x=zeros", 1, "damaged program: its content does not match its checksum");
  free(bytes);
}

int main(void) {
  RUN(files);
  RUN(random_inputs);
  RUN(errors_have_codes);
  RUN(descriptions);
  RUN(damaged_files);
  return test_summary();
}
