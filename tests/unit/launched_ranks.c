/* tests/unit/launched_ranks.c - a launcher may start more ranks than a program starts by itself: 80 processes meet,
 * gather the parts of an input, and end together when one of them is lost. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/npy.h"
#include "runtime/session/session.h"
#include "tests/programs.h"

enum { RANKS = SANITIZED || THREAD_SANITIZER ? 70 : 80, ROWS = 3 * RANKS + 1, COLUMNS = 5 };
_Static_assert((int)RANKS > (int)SESSION_MAX_RANKS, "more than a program starts by itself");

/* y = x: each rank is fed some rows, all ranks gather them. */
static const char *gather_all(void) {
  Make m = make_new(1);
  uint32_t axis = make_axis(&m, "a", RANKS, false), r = program_coordinate(m.b, axis);
  uint32_t n = make_number(&m, ROWS), c = make_number(&m, COLUMNS), zero = make_number(&m, 0),
           lo = make_cut(&m, r, n, RANKS), rows = make_sub(&m, make_cut(&m, make_next(&m, r), n, RANKS), lo);
  uint32_t group = program_add_groups(m.b, &(ProgramGroup){MAKE_LIST(&m, axis), PROGRAM_NONE, PROGRAM_NONE});
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, n, c));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, n, c));
  make_entry(&m, "main", 1, 1);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, rows, c)),
           y = make_tensor(&m, PC_output, DT_f32, 1, MAKE_LIST(&m, n, c));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, lo, zero));
  make_put(&m, make_comm(&m, PI_all_gather, "all", group, MAKE_LIST(&m, x, y)));
  make_io(&m, PI_fetch, 0, y, 1, MAKE_LIST(&m, zero, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  return make_artifact(&m, "gather");
}

static void start_rank(const char *path, int rank, const char *const *options) {
  char number[16], world[16], meeting[4400], log[4400];
  const char *args[16] = {path, "--rank", number, "--world", world, "--rendezvous", meeting, "--timeout", "60s"};
  int n = 9;
  snprintf(number, sizeof number, "%d", rank);
  snprintf(world, sizeof world, "%d", RANKS);
  snprintf(meeting, sizeof meeting, "%s", temp_path("meeting"));
  snprintf(log, sizeof log, "%s.%d", temp_path("log"), rank);
  while (rank == 0 && *options) args[n++] = *options++;
  int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(97);
  execv(path, (char *const *)(uintptr_t)args);
  _exit(98);
}

static void start_all(const char *path, const char *const *options, pid_t *pids) {
  for (int r = 0; r < RANKS; r++) {
    pids[r] = fork();
    if (pids[r] == 0) start_rank(path, r, options);
    CHECK(pids[r] > 0);
  }
}

static void show_log(int rank, char *text, size_t size) {
  char path[4400];
  snprintf(path, sizeof path, "%s.%d", temp_path("log"), rank);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, size - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
}

static void ends(const pid_t *pids, int but, int code, const char *text) {
  for (int r = 0; r < RANKS; r++) {
    int status = 0;
    char log[2000];
    CHECK(waitpid(pids[r], &status, 0) == pids[r]);
    if (r == but) continue;
    show_log(r, log, sizeof log);
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == code, "rank %d: %#x: %s", r, (unsigned)status, log);
    CHECKF(strstr(log, text), "rank %d: %s", r, log);
  }
}

static void all_gather_as_one(void) {
  const char *path = gather_all();
  char in[4400], out[4400];
  pid_t pids[RANKS];
  float values[ROWS * COLUMNS];
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)i;
  Tensor x = {.dtype = DT_f32, .rank = 2, .dims = {ROWS, COLUMNS}, .data = values, .bytes = sizeof values}, y;
  snprintf(in, sizeof in, "x=@%s", temp_path("x.npy"));
  snprintf(out, sizeof out, "y=@%s", temp_path("y.npy"));
  CHECK(npy_write(d, in + 3, &x));
  const char *options[] = {"--input", in, "--output", out, NULL};
  start_all(path, options, pids);
  ends(pids, -1, 0, "");
  CHECK(npy_read(d, out + 3, &y));
  CHECK(y.rank == 2 && y.dims[0] == ROWS && y.dims[1] == COLUMNS && !memcmp(y.data, values, sizeof values));
  tensor_free(&y);
  arena_free(a);
}

/* The last rank is killed during the run: the others report it, with 6. */
static void all_end_with_one(void) {
  const char *path = gather_all();
  pid_t pids[RANKS];
  const char *options[] = {"--bench=100000000", NULL};
  start_all(path, options, pids);
  char meeting[4400];
  snprintf(meeting, sizeof meeting, "%s", temp_path("meeting"));
  while (access(meeting, F_OK) != 0) usleep(1000); /* it exists until all have joined */
  while (access(meeting, F_OK) == 0) usleep(1000);
  kill(pids[RANKS - 1], SIGKILL);
  char text[64];
  snprintf(text, sizeof text, "rank %d was lost", RANKS - 1);
  ends(pids, RANKS - 1, 6, text);
}

int main(void) {
  alarm(300); /* a hang is a failure */
  RUN(all_gather_as_one);
  RUN(all_end_with_one);
  return test_summary();
}
