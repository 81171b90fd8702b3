/* tests/fuzz/fuzz_command.c - libFuzzer target: any bytes as a command of rank 0, or as a rank's answer with its parts
 * of outputs (runtime/launch/launched.c).
 *
 * An accepted command names an entry and gives sizes for which there is a layout, or a reason why not.  Accepted parts
 * are written inside their output.  The file under test is included for its static functions. */
#include "runtime/launch/launched.c"

#include "base/die.h"
#include "tests/programs.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* main: x[n], t[n, 3] -> y[n, 2 n], z; and an entry that prepares weights. */
static const Artifact *artifact(void) {
  static Artifact a;
  if (a.image) return &a;
  Make m = make_new(1);
  make_axis(&m, "tp", 2, false);
  uint32_t n = make_symbol(&m, "n", 1000, 12), zero = make_number(&m, 0);
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, n));
  make_port(&m, "t", DT_i64, MAKE_LIST(&m, n, make_number(&m, 3)));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, n, make_mul(&m, make_number(&m, 2), n)));
  make_port(&m, "z", DT_f16, (ProgramList){0});
  make_entry(&m, "main", 2, 2);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, n));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  ProgramFacts facts = {"fuzz", "test", "test", 1, 0, NULL, NULL, 0, NULL};
  void *tables = NULL;
  size_t size = 0;
  RtError error = {0};
  if (program_builder_finish(m.b, &facts, &tables, &size, &error) || program_open(tables, size, &a.program, &error))
    die("%s", error.text);
  program_builder_free(m.b);
  a.image = tables;
  a.bytes = size;
  return &a;
}

static void must_say_why(RtStatus status, const RtError *error) {
  if (status && (error->status != status || !*error->text)) die("refused without a reason");
}

static void command(const uint8_t *bytes, size_t n) {
  const Program *p = &artifact()->program;
  Command c = {0};
  RequestLayout layout;
  RtError error = {0};
  memcpy(&c, bytes, n < sizeof c ? n : sizeof c);
  if (!command_fits(p, &c, true) || c.kind == COMMAND_LEAVE || c.head.kind != REQUEST_RUN) return;
  RtStatus status = request_layout(p, c.head.entry, c.symbols, false, &layout, &error);
  must_say_why(status, &error);
  if (status) return;
  for (uint32_t i = 0; i < layout.n; i++)
    if (layout.offsets[i] > layout.bytes || layout.sizes[i] > layout.bytes - layout.offsets[i])
      die("a tensor outside of the area");
  request_layout_free(&layout);
}

/* The layout for n = first byte; numbers of parts and bytes; then the parts, and their elements. */
static void answer(const uint8_t *bytes, size_t n) {
  const Program *p = &artifact()->program;
  Answer answers[2] = {{.parts = 0}};
  RequestLayout layout;
  RtError error = {0};
  int64_t symbols[PROGRAM_MAX_SYMBOLS] = {n > 0 ? bytes[0] : 0};
  Launched l = {.artifact = artifact(), .answers = answers, .place = {.world = 2}};
  if (request_layout(p, 0, symbols, false, &layout, &error)) die("%s", error.text);
  uint64_t counts[2];
  if (n < sizeof counts + 1) {
    request_layout_free(&layout);
    return;
  }
  memcpy(counts, bytes + 1, sizeof counts);
  answers[1] = (Answer){.parts = counts[0], .bytes = counts[1]};
  bytes += 1 + sizeof counts;
  n -= 1 + sizeof counts;
  if (answers[1].bytes > n) answers[1].bytes = n; /* the communicator gives exactly as many */
  char *parts = malloc(answers[1].bytes + 1);
  l.io = calloc(1, layout.bytes);
  if (!parts || !l.io) die("no memory");
  memcpy(parts, bytes, answers[1].bytes);
  size_t before = layout.offsets[p->entries[0].n_inputs];
  if (answer_fits(&l, &layout, &answers[1]))
    must_say_why(unpack(&l, &p->entries[0], &layout, 1, parts, &error), &error);
  for (size_t i = 0; i < before; i++)
    if (l.io[i]) die("an answer wrote into the inputs");
  free(parts);
  free(l.io);
  request_layout_free(&layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n == 0) return 0;
  if (bytes[0] & 1) answer(bytes + 1, n - 1);
  else command(bytes + 1, n - 1);
  return 0;
}
