/* codegen/cpu/c_compiler.c - see c_compiler.h. */
#include "codegen/cpu/c_compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/temporary.h"
#include "base/text.h"
#include "codegen/rows/units.h"

enum { MAX_WORDS = 64, WORDS_OF_CC = 32 };

const char *c_compiler_name(const CCompiler *c) {
  const char *cc = c->command ? c->command : getenv("CC");
  return cc && *cc ? cc : "cc";
}

/* Splits a string at blanks and appends the words to argv. */
static int add_words(Arena *a, const char **argv, int n, int room, const char *words) {
  while (*words) {
    size_t length = strcspn(words, " ");
    if (length && n < room) argv[n++] = arena_strndup(a, words, length);
    words += length;
    while (*words == ' ') words++;
  }
  return n;
}

/* ---- one run */

typedef struct Run {
  pid_t pid; /* -1: it could not be started, with errno `number` */
  int number;
  const char **argv;
  const char *log; /* its output, in the folder */
} Run;

static const char *path_in(const CCompiler *c, const char *name) {
  return arena_printf(c->arena, "%s/%s", c->dir, name);
}

/* Runs in the child: errors go to the log. */
static _Noreturn void execute(const CCompiler *c, const Run *r, int log, pid_t parent) {
  bool ok = dup2(log, 1) >= 0 && dup2(log, 2) >= 0;
  ok = ok && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0; /* a compiler that gets SIGTERM removes its files */
  if (getppid() != parent) _exit(126);
  ok = ok && temporary_join(c->folder->keeper) && chdir(c->dir) == 0 && setenv("LC_ALL", "C", 1) == 0 &&
       setenv("TMPDIR", c->folder->path, 1) == 0;
  if (ok) execvp(r->argv[0], (char *const *)(uintptr_t)r->argv);
  if (ok && errno == ENOENT) _exit(127);
  dprintf(2, "%s: %s\n", r->argv[0], strerror(errno));
  _exit(126);
}

/* Starts a program in the folder, with its output in the log.  We parse its messages, so their language is fixed. */
static void start(const CCompiler *c, Run *r) {
  pid_t self = getpid();
  int log = open(path_in(c, r->log), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  r->pid = log < 0 ? -1 : fork();
  if (r->pid == 0) execute(c, r, log, self);
  r->number = errno;
  if (log >= 0) close(log);
}

static bool failed(const CCompiler *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool failed(const CCompiler *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(c->arena, format, args);
  va_end(args);
  return diag_error(c->diags, DIAG_tool_failed, (Loc){0}, "%s", text);
}

/* Returns the name after `words` in a message, between quotes of either kind. */
static const char *name_behind(Arena *a, const char *said, const char *words) {
  const char *at = strstr(said, words);
  if (!at) return NULL;
  at += strlen(words);
  at += strspn(at, ": `'\"");
  size_t n = strcspn(at, "`'\"\n ;");
  return n ? arena_strndup(a, at, n) : NULL;
}

/* Returns a function that generated code calls but does not define, from the messages of gcc, clang, ld, gold and lld;
 * else NULL. */
static const char *unresolved(Arena *a, const char *said) {
  static const char *const words[] = {"implicit declaration of function", "call to undeclared function",
                                      "call to undeclared library function", "undefined reference to",
                                      "undefined symbol"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *name = name_behind(a, said, words[i]);
    if (name) return name;
  }
  return NULL;
}

static bool explain(const CCompiler *c, const Run *r, int status) {
  const char *how = WIFEXITED(status)
                        ? arena_printf(c->arena, "exit status %d", WEXITSTATUS(status))
                        : arena_printf(c->arena, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
  const char *text = c->trial ? "a small program" : "generated code",
             *said = file_read_text(diags_new(c->arena), c->arena, path_in(c, r->log), NULL);
  if (!said || !*said) return failed(c, "%s failed on %s (%s) without a message", r->argv[0], text, how);
  const char *name = c->trial ? NULL : unresolved(c->arena, said);
  if (name) die("generated kernels call the undefined function '%s' (%s)", name, r->argv[0]);
  return failed(c, "%s failed on %s (%s):\n%.2000s", r->argv[0], text, how, said);
}

static bool missing(const CCompiler *c, const char *program) {
  diag_error(c->diags, DIAG_tool_missing, (Loc){0}, "there is no C compiler '%s'", program);
  diag_help(c->diags, "install one (apt-get install gcc) or name it in the environment variable CC");
  return false;
}

/* Waits for the process.  After a failure of another one (`ok` false) it reports nothing. */
static bool finish(const CCompiler *c, const Run *r, bool ok) {
  int status = 0;
  if (r->pid < 0) return ok && failed(c, "%s cannot be started: %s", r->argv[0], strerror(r->number));
  while (waitpid(r->pid, &status, 0) < 0)
    if (errno != EINTR) return ok && failed(c, "waiting for %s: %s", r->argv[0], strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    struct stat st;
    const char *path = path_in(c, r->log);
    if (stat(path, &st) == 0 && st.st_size == 0) unlink(path); /* it printed nothing */
    return ok;
  }
  if (!ok) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? missing(c, r->argv[0]) : explain(c, r, status);
}

/* ---- all texts */

static void compile_one(const CCompiler *c, size_t i, Run *r) {
  r->argv = ARENA_ARRAY(c->arena, const char *, MAX_WORDS);
  int n = add_words(c->arena, r->argv, 0, WORDS_OF_CC, c_compiler_name(c));
  n = add_words(c->arena, r->argv, n, MAX_WORDS - 8, UNITS_CFLAGS);
  r->argv[n++] = "-c";
  r->argv[n++] = arena_printf(c->arena, "kernels%zu.c", i);
  r->argv[n++] = "-o";
  r->argv[n++] = arena_printf(c->arena, "kernels%zu.o", i);
  r->log = arena_printf(c->arena, "kernels%zu.log", i);
  start(c, r);
}

static bool compile_texts(const CCompiler *c, const char *const *texts, size_t n) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  size_t width = processors > 1 ? (size_t)processors : 1;
  Run *runs = ARENA_ARRAY(c->arena, Run, n);
  bool ok = true;
  for (size_t i = 0; i < n + width; i++) {
    if (i >= width && i - width < n && runs[i - width].argv) ok = finish(c, &runs[i - width], ok);
    if (i >= n || !ok) continue;
    ok = file_write(c->diags, path_in(c, arena_printf(c->arena, "kernels%zu.c", i)), 0666, texts[i], strlen(texts[i]));
    if (ok) compile_one(c, i, &runs[i]);
  }
  return ok;
}

/* Links the objects.  Every function that they call must be in them or in the libraries named here. */
static bool link_objects(const CCompiler *c, size_t n) {
  Run r = {.argv = ARENA_ARRAY(c->arena, const char *, n + MAX_WORDS), .log = "link.log"};
  int k = add_words(c->arena, r.argv, 0, WORDS_OF_CC, c_compiler_name(c));
  k = add_words(c->arena, r.argv, k, MAX_WORDS, "-shared -fopenmp -Wl,--build-id=none -Wl,-z,defs");
  for (size_t i = 0; i < n; i++) r.argv[k++] = arena_printf(c->arena, "kernels%zu.o", i);
  k = add_words(c->arena, r.argv, k, k + 3, "-o kernels.so -lm");
  start(c, &r);
  return finish(c, &r, true);
}

bool c_compile(const CCompiler *c, const char *const *texts, size_t n, FileMap *object) {
  if (!compile_texts(c, texts, n) || !link_objects(c, n)) return false;
  const char *path = path_in(c, "kernels.so");
  Diags *unread = diags_new(c->arena);
  if (file_map(unread, path, object)) return true;
  if (unread->items[0].code == DIAG_no_memory)
    return diag_error(c->diags, DIAG_no_memory, file_loc(c->diags, path), "%s", unread->items[0].message);
  return failed(c, "%s reported success, but wrote no shared object", c_compiler_name(c));
}

/* ---- the key: everything that the bytes depend on */

/* Returns the path of the command's program; NULL if it is not found. */
static const char *program_path(Arena *a, const char *name) {
  const char *path = getenv("PATH");
  if (strchr(name, '/')) return name;
  while (path && *path) {
    size_t n = strcspn(path, ":");
    const char *file = n ? arena_printf(a, "%.*s/%s", (int)n, path, name) : name;
    if (access(file, X_OK) == 0) return file;
    path += n + (path[n] == ':');
  }
  return NULL;
}

/* Adds the compiler: it counts as another one if its file has changed. */
static bool add_compiler(CacheKey *k, const CCompiler *c) {
  const char *words[WORDS_OF_CC];
  struct stat st;
  int n = add_words(c->arena, words, 0, WORDS_OF_CC, c_compiler_name(c));
  const char *path = n ? program_path(c->arena, words[0]) : NULL;
  if (!path || stat(path, &st)) return false;
  cache_key_text(k, c_compiler_name(c));
  cache_key_text(k, path);
  cache_key_number(k, (uint64_t)st.st_size);
  cache_key_number(k, (uint64_t)st.st_mtim.tv_sec);
  cache_key_text(k, UNITS_CFLAGS);
  return true;
}

/* Adds the properties that -march=native reads: the kind and features of the first processor. */
static bool add_processor(CacheKey *k) {
  static const char *const lines[] = {"vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU "};
  FILE *f = fopen("/proc/cpuinfo", "re");
  char *line = NULL;
  size_t room = 0;
  bool any = false;
  while (f && getline(&line, &room, f) > 1)
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
      if (strncmp(line, lines[i], strlen(lines[i])) == 0) cache_key_text(k, line), any = true;
  free(line);
  if (f) fclose(f);
  return any;
}

bool c_compiler_key(const CCompiler *c, CacheKey *k) { return add_compiler(k, c) && add_processor(k); }

/* ---- check before the work */

bool c_compiler_check(Arena *a, Diags *d, const char *command, const Cache *cache) {
  static const char *const text =
      "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
      "void check(float *x, int64_t n);\nvoid check(float *x, int64_t n) {\n#pragma omp parallel for\n  for (int64_t i "
      "= 0; i < n; i++) x[i] = sqrtf(x[i]);\n}\n";
  TemporaryFolder folder = {0};
  CCompiler c = {a, d, command, NULL, &folder, true};
  CacheKey key = cache_key(cache, "compiler");
  FileMap object;
  size_t n;
  bool known = c_compiler_key(&c, &key);
  if (known && cache_find(cache, &key, a, &n)) return true;
  if (!temporary_open(d, a, &folder)) return false;
  c.dir = folder.path;
  bool ok = c_compile(&c, &text, 1, &object);
  if (ok && known) cache_keep(cache, &key, "works", 5);
  if (ok) file_unmap(&object);
  temporary_close(&folder);
  return ok;
}
