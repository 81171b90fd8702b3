/* codegen/artifact.c - see artifact.h.
 *
 * The kernels' C texts are compiled by the system's compiler, as many at once as there are processors, linked into one shared
 * object, and embedded.  The bytes depend only on the input and the compiler: names in them are relative.
 */
#include "codegen/artifact.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/temporary.h"
#include "codegen/units.h"
#include "runtime/artifact.h"
#include "runtime/cpu.h"
#include "runtime/order.h"

typedef struct Job {
  Arena *arena;
  const ArtifactSpec *spec;
  Diags *diags;
  const char *dir;
  TemporaryFolder folder; /* not open when the texts are kept */
} Job;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- running the C compiler */

static const char *compiler(const ArtifactSpec *s) {
  const char *cc = s->cc ? s->cc : getenv("CC");
  return cc && *cc ? cc : "cc";
}

/* Splits a string at blanks behind what argv already has. */
static int add_words(Arena *a, const char **argv, int n, int room, const char *words) {
  while (*words) {
    size_t length = strcspn(words, " ");
    if (length && n < room) argv[n++] = arena_strndup(a, words, length);
    words += length;
    while (*words == ' ') words++;
  }
  return n;
}

/* Starts a program in the job's directory with its output going to `log`; -1 when it cannot be started. */
static pid_t start(const Job *j, const char *const *argv, const char *log) {
  pid_t self = getpid(), pid = fork();
  if (pid != 0) return pid;
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != self) _exit(126); /* a compiler that is told to end removes its files */
  int fd = open(arena_printf(j->arena, "%s/%s", j->dir, log), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(j->dir) != 0) _exit(126);
  execvp(argv[0], (char *const *)(uintptr_t)argv);
  _exit(errno == ENOENT ? 127 : 126);
}

static bool finish(const Job *j, pid_t pid, const char *const *argv, const char *log) {
  int status = 0;
  if (pid < 0) return diag_error(j->diags, DIAG_tool_failed, (Loc){0}, "%s cannot be started: %s", argv[0], strerror(errno));
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return diag_error(j->diags, DIAG_tool_failed, (Loc){0}, "waiting for %s: %s", argv[0], strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    struct stat st;
    const char *path = arena_printf(j->arena, "%s/%s", j->dir, log);
    if (stat(path, &st) == 0 && st.st_size == 0) unlink(path); /* it said nothing */
    return true;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    diag_error(j->diags, DIAG_tool_missing, (Loc){0}, "there is no C compiler '%s'", argv[0]);
    diag_help(j->diags, "install one (apt-get install gcc) or name it in the environment variable CC");
    return false;
  }
  const char *how = WIFEXITED(status) ? arena_printf(j->arena, "exit status %d", WEXITSTATUS(status)) : arena_printf(j->arena, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
  const char *said = file_read_text(j->diags, j->arena, arena_printf(j->arena, "%s/%s", j->dir, log), NULL);
  if (!said || !*said) return diag_error(j->diags, DIAG_tool_failed, (Loc){0}, "%s failed on generated code (%s) and said nothing", argv[0], how);
  return diag_error(j->diags, DIAG_tool_failed, (Loc){0}, "%s failed on generated code (%s):\n%.2000s", argv[0], how, said);
}

enum { MAX_ARGS = 4096 };

static bool compile_texts(const Job *j, const ProgramResult *r) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  size_t width = processors > 1 ? (size_t)processors : 1;
  pid_t *pids = ARENA_ARRAY(j->arena, pid_t, r->texts.n);
  const char ***argvs = ARENA_ARRAY(j->arena, const char **, r->texts.n);
  bool ok = true;
  for (size_t i = 0; i < r->texts.n + width; i++) {
    if (i >= width && i - width < r->texts.n)
      ok &= finish(j, pids[i - width], argvs[i - width], arena_printf(j->arena, "kernels%zu.log", i - width));
    if (i >= r->texts.n) continue;
    const char *source = arena_printf(j->arena, "kernels%zu.c", i); /* that it is not there the compiler says as well */
    ok &= file_write(j->diags, arena_printf(j->arena, "%s/%s", j->dir, source), 0666, r->texts.items[i], strlen(r->texts.items[i]));
    const char **argv = argvs[i] = ARENA_ARRAY(j->arena, const char *, 64);
    int n = add_words(j->arena, argv, 0, 48, compiler(j->spec));
    n = add_words(j->arena, argv, n, 48, UNITS_CFLAGS);
    argv[n++] = "-c";
    argv[n++] = source;
    argv[n++] = "-o";
    argv[n++] = arena_printf(j->arena, "kernels%zu.o", i);
    pids[i] = start(j, argv, arena_printf(j->arena, "kernels%zu.log", i));
  }
  return ok;
}

static bool link_objects(const Job *j, const ProgramResult *r) {
  const char **argv = ARENA_ARRAY(j->arena, const char *, r->texts.n + 64);
  int n = add_words(j->arena, argv, 0, 32, compiler(j->spec));
  argv[n++] = "-shared";
  argv[n++] = "-fopenmp";
  argv[n++] = "-Wl,--build-id=none";
  for (size_t i = 0; i < r->texts.n; i++) argv[n++] = arena_printf(j->arena, "kernels%zu.o", i);
  argv[n++] = "-o";
  argv[n++] = "kernels.so";
  argv[n++] = "-lm";
  return finish(j, start(j, argv, "link.log"), argv, "link.log");
}

/* ---- the temporary directory */

static bool open_directory(Job *j) {
  if (j->spec->save_temps) {
    j->dir = j->spec->save_temps;
    return mkdir(j->dir, 0777) == 0 || errno == EEXIST || diag_error(j->diags, DIAG_file_write, (Loc){.file = j->dir}, "%s", strerror(errno));
  }
  bool ok = temporary_open(j->diags, j->arena, &j->folder);
  j->dir = j->folder.path;
  return ok;
}

/* ---- the runtime */

/* The table of sections is the last thing in an ELF file, so that a file that was cut off does not have it. */
static bool is_whole_program(const FileMap *f) {
  Elf64_Ehdr head;
  if (f->size < sizeof head) return false;
  memcpy(&head, f->data, sizeof head);
  uint64_t table = (uint64_t)head.e_shnum * head.e_shentsize;
  return memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 && table > 0 && table <= f->size && head.e_shoff <= f->size - table;
}

static bool open_stub(Diags *d, const char *path, FileMap *out) {
  Diags *unread = diags_new(d->arena);
  const char *fault = NULL;
  if (!file_map(unread, path, out)) fault = unread->items[0].message;
  else if (!is_whole_program(out)) {
    fault = "it is not a whole program";
    file_unmap(out);
  }
  if (!fault) return true;
  diag_error(d, DIAG_tool_missing, file_loc(d, path), "the runtime that programs are made of cannot be used: %s", fault);
  diag_help(d, "build or install apc again; apcrt-stub belongs beside apc");
  return false;
}

bool artifact_stub_check(const char *path, Diags *d) {
  FileMap stub;
  if (!open_stub(d, path, &stub)) return false;
  file_unmap(&stub);
  return true;
}

/* ---- the file */

static bool pad_to(FileWriter *w, uint64_t offset) {
  uint64_t at = file_writer_offset(w);
  if (at > offset) die("artifact: %llu bytes written where %llu were to come", (unsigned long long)at, (unsigned long long)offset);
  return file_writer_pad(w, 0, offset - at);
}

static bool add_file(const Job *j, FileWriter *w, const char *path, uint64_t bytes) {
  FileMap map;
  if (!file_map(j->diags, path, &map)) return false;
  bool ok = map.size == bytes || diag_error(j->diags, DIAG_file_read, file_loc(j->diags, path), "the file changed while it was compiled");
  ok = ok && file_writer_add(w, map.data, map.size);
  file_unmap(&map);
  return ok;
}

static bool add_image(const Job *j, FileWriter *w, const ProgramResult *r, const FileMap *kernels, const unsigned char *tables, size_t table_bytes,
                      uint64_t base) {
  Program p;
  RtError error = {0};
  if (program_open(tables, table_bytes, &p, &error) != RT_OK) die("the Program just built does not open: %s", error.text);
  bool ok = file_writer_add(w, tables, table_bytes);
  for (size_t i = 0; ok && i < r->embedded.n; i++) {
    const ProgramEmbedded *f = &r->embedded.items[i];
    ok = pad_to(w, base + p.blobs[f->blob].offset) && add_file(j, w, f->path, f->bytes);
  }
  if (ok && p.header->cpu_image != PROGRAM_NONE)
    ok = pad_to(w, base + p.blobs[p.header->cpu_image].offset) && file_writer_add(w, kernels->data, kernels->size);
  ok = ok && pad_to(w, base + p.header->image_bytes);
  ArtifactTrailer trailer = {base, p.header->image_bytes, p.header->table_hash, ARTIFACT_MAGIC};
  ok = ok && file_writer_add(w, &trailer, sizeof trailer);
  program_close(&p);
  return ok;
}

static bool write_file(const Job *j, const ProgramResult *r, const FileMap *kernels, const void *tables, size_t table_bytes, uint64_t *bytes) {
  FileMap stub;
  if (!open_stub(j->diags, j->spec->stub, &stub)) return false;
  FileWriter *w = file_writer_open(j->diags, j->spec->out, 0777);
  uint64_t base = (stub.size + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  bool ok = w && file_writer_add(w, stub.data, stub.size) && pad_to(w, base) && add_image(j, w, r, kernels, tables, table_bytes, base);
  if (ok) *bytes = file_writer_offset(w);
  if (ok) ok = file_writer_finish(w);
  else if (w) file_writer_abandon(w);
  file_unmap(&stub);
  return ok;
}

/* ---- entry */

/* What a Program cannot hold, and sizes that cannot be computed in it, are reported at no place: the model as a whole has them. */
static bool fits_program(const Module *m, Diags *diags) {
  int dimensions = 0;
  for (size_t i = 0; i < m->symbols.n; i++) dimensions += m->symbols.items[i].axis < 0;
  if (dimensions <= PROGRAM_MAX_SYMBOLS) return true;
  diag_error(diags, DIAG_dimension, (Loc){0}, "a program has at most %d symbolic dimensions, this one has %d", PROGRAM_MAX_SYMBOLS, dimensions);
  diag_help(diags, "--dim NAME=SIZE fixes one");
  return false;
}

static bool make_program(const ProgramSource *source, ProgramResult *r, Diags *diags) {
  if (!fits_program(source->m, diags) || !program_of(source, r, diags)) return false;
  if (!source->m->expr_fault) return true;
  program_builder_free(r->b);
  return diag_error(diags, DIAG_dimension, (Loc){0}, "the program's buffers: %s", source->m->expr_fault);
}

static bool build_tables(const Job *j, ProgramResult *r, const FileMap *kernels, void **tables, size_t *bytes) {
  const ArtifactSpec *s = j->spec;
  RtError error = {0};
  ProgramFacts facts = {.name = s->name, .target = s->target, .producer = s->producer, .cpu = "", .cpu_image = PROGRAM_NONE,
                        .stages = (uint32_t)s->source.m->mesh.stages};
  if (kernels) {
    facts.cpu = cpu_features();
    facts.cpu_image = program_embed(r->b, kernels->size, hash64(kernels->data, kernels->size, 0));
  } else if (r->kernel_count) { /* not compiled: an empty place for the kernels */
    facts.cpu_image = program_embed(r->b, 0, hash64("", 0, 0));
  }
  Program p;
  if (program_builder_finish(r->b, &facts, tables, bytes, &error) != RT_OK || program_open(*tables, *bytes, &p, &error) != RT_OK ||
      order_check_all(&p, &error) != RT_OK)
    die("the Program is not valid: %s", error.text);
  program_close(&p);
  return true;
}

static bool compile_and_write(Job *j, ProgramResult *r, ArtifactReport *report) {
  double begin = now_ms();
  FileMap kernels = {0};
  bool has_kernels = r->texts.n > 0;
  if (has_kernels) {
    if (!compile_texts(j, r) || !link_objects(j, r)) return false;
    if (!file_map(j->diags, arena_printf(j->arena, "%s/kernels.so", j->dir), &kernels)) return false;
  }
  report->compile_ms = now_ms() - begin;
  report->kernels = r->kernel_count;
  report->texts = r->texts.n;
  void *tables = NULL;
  size_t bytes = 0;
  build_tables(j, r, has_kernels ? &kernels : NULL, &tables, &bytes);
  bool ok = !j->spec->out || write_file(j, r, &kernels, tables, bytes, &report->bytes);
  free(tables);
  if (has_kernels) file_unmap(&kernels);
  return ok;
}

bool artifact_write(const ArtifactSpec *spec, ArtifactReport *report, Diags *diags) {
  ProgramResult r;
  Job j = {.arena = spec->source.m->arena, .spec = spec, .diags = diags};
  *report = (ArtifactReport){0};
  if (spec->out && !artifact_stub_check(spec->stub, diags)) return false; /* before the work */
  if (!make_program(&spec->source, &r, diags)) return false;
  bool ok = open_directory(&j) && compile_and_write(&j, &r, report);
  temporary_close(&j.folder);
  program_builder_free(r.b);
  return ok;
}

bool artifact_program_open(const ArtifactSpec *spec, ArtifactProgram *out, Diags *diags) {
  Job j = {.arena = spec->source.m->arena, .spec = spec, .diags = diags};
  size_t bytes;
  RtError error = {0};
  if (!make_program(&spec->source, &out->result, diags)) return false;
  build_tables(&j, &out->result, NULL, &out->tables, &bytes);
  if (program_open(out->tables, bytes, &out->p, &error) != RT_OK) die("the Program just built does not open: %s", error.text);
  return true;
}

void artifact_program_close(ArtifactProgram *a) {
  program_close(&a->p);
  free(a->tables);
  program_builder_free(a->result.b);
}

const char *artifact_schedule(const ArtifactSpec *spec, Diags *diags) {
  ArtifactProgram a;
  if (!artifact_program_open(spec, &a, diags)) return NULL;
  Text t = {.arena = spec->source.m->arena};
  program_print(&a.p, &t);
  artifact_program_close(&a);
  return text_str(&t);
}
