/* tests/unit/program_load.c - a weight that `prepare` packs straight from its file: stored by rows or by columns, whole
 * or cut, at an odd offset.  The product is right, the ranks do not keep the file's pages, and panels that are equal on
 * two ranks are in memory once. */
#include <ctype.h>
#include <dirent.h>
#include <unistd.h>

#include "tests/programs.h"

enum { K = 1024, N = 2040, ODD = 3, MOST_KIB = 3 << 10 };

/* The part of K x N that is taken; `columns`: the file holds it column by column; `again`: the loaded value has another
 * reader, so that it is not for the pack alone; `apart`: how many columns after those of the first rank the second's
 * begin; `own`: numbers before the panels in each rank's private memory. */
typedef struct Case {
  const char *name;
  int64_t first_row, rows, first_column, n;
  bool columns, again;
  int64_t ranks, apart, own;
} Case;

static const Case cases[] = {{"rows", 0, K, 0, N, false, false, 1, 0, 0},
                             {"columns", 0, K, 0, N, true, false, 1, 0, 0},
                             {"some columns, by rows", 0, K, 601, 1000, false, false, 1, 0, 0},
                             {"some rows, by rows", 511, 300, 0, N, false, false, 1, 0, 0},
                             {"some rows, by columns", 511, 300, 0, N, true, false, 1, 0, 0},
                             {"some columns, by columns", 0, K, 7, 33, true, false, 1, 0, 0},
                             {"read twice", 0, K, 0, N, false, true, 1, 0, 0},
                             {"two ranks", 0, K, 0, N, false, false, 2, 0, 0},
                             {"two ranks, read twice", 0, K, 0, N, true, true, 2, 0, 0},
                             {"two ranks, columns of their own", 0, K, 0, N / 2, false, false, 2, N / 2, 0},
                             {"two ranks, after private memory", 0, K, 0, N, false, false, 2, 0, 3 << 18}};

static float weight(int64_t k, int64_t j) { return (float)((k * 7 + j * 3) % 11 - 5); }

static const char *write_file(bool columns, uint64_t *bytes, uint64_t *hash) {
  *bytes = ODD + sizeof(float) * K * N;
  char *all = calloc(1, *bytes);
  for (int64_t k = 0; k < K; k++)
    for (int64_t j = 0; j < N; j++) {
      float w = weight(k, j);
      memcpy(all + ODD + (columns ? j * K + k : k * N + j) * (int64_t)sizeof w, &w, sizeof w);
    }
  const char *path = temp_path("weights.bin");
  temp_write(path, all, *bytes);
  *hash = program_blob_hash(all, *bytes);
  free(all);
  return path;
}

static uint32_t make_weight(Make *m, const Case *c, uint32_t rank) {
  ProgramBlob blob = {0};
  const char *path = write_file(c->columns, &blob.bytes, &blob.hash);
  blob.path = program_string(m->b, path);
  uint32_t column = make_add(m, make_number(m, c->first_column), make_mul(m, make_number(m, c->apart), rank));
  return program_add_params(
      m->b,
      &(ProgramParam){.name = program_string(m->b, "w"),
                      .dtype = DT_f32,
                      .buffer = PROGRAM_NONE,
                      .dims = MAKE_LIST(m, make_number(m, K), make_number(m, N)),
                      .interval = MAKE_LIST(m, make_number(m, c->first_row), make_number(m, c->first_row + c->rows),
                                            column, make_add(m, column, make_number(m, c->n))),
                      .init = PINIT_blob,
                      .blob = program_add_blobs(m->b, &blob),
                      .offset = ODD,
                      .strides = MAKE_LIST(m, make_number(m, c->columns ? 1 : N), make_number(m, c->columns ? K : 1)),
                      .source_dtype = DT_f32});
}

static void make_packing(Make *m, const Case *c, uint32_t rank, uint32_t panels) {
  uint32_t k = make_number(m, c->rows), n = make_number(m, c->n), one = make_number(m, 1);
  uint32_t whole = make_tensor(m, PC_workspace, DT_f32, 1, MAKE_LIST(m, k, n));
  ProgramInstr load = make_instr(m, PI_load, "w", MAKE_LIST(m, whole)),
               pack = make_instr(m, PI_pack, "w", MAKE_LIST(m, whole, panels));
  load.object = make_weight(m, c, rank);
  load.dim = !c->again;
  make_put(m, load);
  pack.exprs = MAKE_LIST(m, k, n, n, one);
  make_put(m, pack);
  if (c->again) make_put(m, make_instr(m, PI_fill, "w", MAKE_LIST(m, whole)));
}

static void make_own(Make *m, const Case *c, uint32_t rank) {
  uint32_t n = make_number(m, c->own), first = make_mul(m, n, rank);
  uint32_t own = make_tensor(m, PC_param, DT_f32, 1, MAKE_LIST(m, n));
  program_add_params(m->b, &(ProgramParam){.name = program_string(m->b, "own"),
                                           .dtype = DT_f32,
                                           .buffer = make_buffer_of(m, own),
                                           .dims = MAKE_LIST(m, make_number(m, c->own * c->ranks)),
                                           .interval = MAKE_LIST(m, first, make_add(m, first, n)),
                                           .init = PINIT_normal,
                                           .value = 1,
                                           .blob = PROGRAM_NONE,
                                           .source_dtype = DT_f32});
}

static Make make_program(const Case *c) {
  Make m = make_new(1);
  int64_t count = (c->n + PROGRAM_PANEL - 1) / PROGRAM_PANEL;
  uint32_t rank =
      c->ranks > 1 ? program_coordinate(m.b, make_axis(&m, "a", (uint32_t)c->ranks, false)) : make_number(&m, 0);
  uint32_t k = make_number(&m, c->rows), n = make_number(&m, c->n), zero = make_number(&m, 0), one = make_number(&m, 1),
           all = make_number(&m, c->ranks);
  uint32_t panels_n = make_number(&m, count), width = make_number(&m, PROGRAM_PANEL);
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, all, k));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, all, n));
  make_entry(&m, "main", 1, 1);
  make_begin(&m, 0);
  if (c->own) make_own(&m, c, rank);
  uint32_t panels = make_tensor(&m, PC_param, DT_f32, 1, MAKE_LIST(&m, panels_n, k, width));
  program_add_params(m.b, &(ProgramParam){.name = program_string(m.b, "panels"),
                                          .dtype = DT_f32,
                                          .buffer = make_buffer_of(&m, panels),
                                          .dims = MAKE_LIST(&m, panels_n, k, width),
                                          .interval = MAKE_LIST(&m, zero, panels_n, zero, k, zero, width),
                                          .init = PINIT_prepared,
                                          .blob = PROGRAM_NONE,
                                          .source_dtype = DT_f32});
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, one, k)),
           y = make_tensor(&m, PC_output, DT_f32, 1, MAKE_LIST(&m, one, n));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, rank, zero));
  ProgramInstr g = make_instr(&m, PI_gemm, "product", MAKE_LIST(&m, x, panels, y));
  g.dim2 = DT_f32;
  g.exprs = MAKE_LIST(&m, one, n, k, k, one, width, one, n, one, zero, make_number(&m, c->rows * PROGRAM_PANEL));
  make_put(&m, g);
  make_io(&m, PI_fetch, 0, y, 0, MAKE_LIST(&m, rank, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  make_entry(&m, "prepare", 0, 0);
  program_at_entries(m.b, m.entry)->prepare = 1;
  m.phase = PHASE_pre;
  make_begin(&m, 0);
  make_packing(&m, c, rank, panels);
  make_call(&m, 0, make_end(&m, "packing"), 0);
  make_schedules(&m);
  return m;
}

/* KiB of a process's mappings whose name contains `name`, by a field of smaps; -1 if there are none. */
static long in_memory(const char *process, const char *name, const char *field) {
  char path[64], line[512];
  long kib = -1, n;
  bool ours = false;
  size_t length = strlen(field);
  snprintf(path, sizeof path, "/proc/%.20s/smaps", process);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) {
    if (isxdigit((unsigned char)line[0]) && strchr(line, '-') && !strstr(line, "kB\n"))
      ours = strstr(line, name) != NULL;
    if (ours && strncmp(line, field, length) == 0 && sscanf(line + length, ": %ld kB", &n) == 1)
      kib = (kib < 0 ? 0 : kib) + n;
  }
  if (f) fclose(f);
  return kib;
}

static bool is_below(const char *process) {
  char path[64];
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%.20s/stat", process);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
  if (f) fclose(f);
  return parent == getpid();
}

/* The sum over the ranks, which are children of this process; *least: the least of them.  -1 if none has such
 * mappings. */
static long of_ranks(const char *name, const char *field, long *least) {
  DIR *all = opendir("/proc");
  long sum = -1;
  for (struct dirent *d; all && (d = readdir(all));) {
    if (!isdigit((unsigned char)d->d_name[0]) || !is_below(d->d_name)) continue;
    long kib = in_memory(d->d_name, name, field);
    if (kib < 0) continue;
    *least = sum < 0 || kib < *least ? kib : *least;
    sum = (sum < 0 ? 0 : sum) + kib;
  }
  if (all) closedir(all);
  return sum;
}

static void check_memory(const Case *c) {
  long least = 0, file = of_ranks("weights.bin", "Rss", &least), panels = (long)(c->n * c->rows / 256);
  CHECKF(file >= 0 && file < MOST_KIB, "%s: %ld KiB of the file are in memory", c->name, file);
  long shared = of_ranks("memfd:apc-weights", "Pss", &least);
  if (c->ranks == 1 || c->apart || c->again) {
    CHECKF(shared <= 4, "%s: %ld KiB are shared", c->name, shared); /* flags */
    return;
  }
  CHECKF(shared < panels * 5 / 4, "%s: %ld KiB of memory for %ld KiB of panels", c->name, shared, panels);
  of_ranks("memfd:apc-weights", "Rss", &least);
  CHECKF(least > panels * 3 / 4, "%s: a rank shares %ld KiB of %ld", c->name, least, panels);
}

static void run_case(const Case *c) {
  static float x[2 * K], y[2 * N];
  Make make = make_program(c);
  for (int64_t i = 0; i < 2 * K; i++) x[i] = (float)(i % 5 - 2);
  ApcModel *m;
  bool ok = apc_load(make_artifact(&make, "load"), NULL, &m) == APC_OK &&
            apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){c->ranks, c->rows}, x) == APC_OK &&
            apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, sizeof *y * (size_t)(c->ranks * c->n)) == APC_OK;
  CHECKF(ok, "%s: %s", c->name, apc_error(m));
  int64_t differ = 0;
  for (int64_t r = 0; ok && r < c->ranks; r++)
    for (int64_t j = 0; j < c->n; j++) {
      float want = 0; /* whole numbers: exact in any order */
      for (int64_t k = 0; k < c->rows; k++)
        want += x[r * c->rows + k] * weight(c->first_row + k, c->first_column + r * c->apart + j);
      differ += y[r * c->n + j] != want;
    }
  CHECKF(differ == 0, "%s: %d of %d differ", c->name, (int)differ, (int)c->n);
  if (ok) check_memory(c);
  apc_close(m);
}

static void all_cases(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
}

int main(void) {
  RUN(all_cases);
  return test_summary();
}
