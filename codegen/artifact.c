/* codegen/artifact.c - see artifact.h.
 *
 * The kernels' texts are compiled (codegen/target.h), and the machine code is embedded.  The bytes depend only on the
 * input and the compiler: names in them are relative.
 */
#include "codegen/artifact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/die.h"
#include "base/file.h"
#include "base/temporary.h"
#include "codegen/cpu/c_compiler.h"
#include "codegen/cpu/kernel_object.h"
#include "program/artifact.h"
#include "program/build.h"
#include "program/cpu.h"
#include "program/flow.h"
#include "program/order.h"

typedef struct Job {
  Arena *arena;
  const ArtifactSpec *spec;
  Diags *diags;
  const char *dir;
  TemporaryFolder folder;
} Job;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- the temporary directory */

static bool open_directory(Job *j) {
  bool ok = temporary_open(j->diags, j->arena, &j->folder);
  j->dir = j->spec->save_temps ? j->spec->save_temps : j->folder.path;
  if (!ok || !j->spec->save_temps) return ok;
  return mkdir(j->dir, 0777) == 0 || errno == EEXIST ||
         diag_error(j->diags, DIAG_file_write, (Loc){.file = j->dir}, "%s", strerror(errno));
}

/* ---- the runtime */

static bool open_stub(Diags *d, const char *path, FileMap *out) {
  Diags *unread = diags_new(d->arena);
  const char *fault = NULL;
  if (!file_map(unread, path, out)) {
    fault = unread->items[0].message;
    if (unread->items[0].code == DIAG_no_memory) return diag_error(d, DIAG_no_memory, file_loc(d, path), "%s", fault);
  } else if (!elf_is_whole(out)) {
    fault = "it is not a whole program";
    file_unmap(out);
  }
  if (!fault) return true;
  diag_error(d, DIAG_tool_missing, file_loc(d, path), "the runtime that programs are made of cannot be used: %s",
             fault);
  diag_help(d, "build or install apc again; apcrt-stub belongs beside apc");
  return false;
}

bool codegen_stub_check(const char *path, Diags *d) {
  FileMap stub;
  if (!open_stub(d, path, &stub)) return false;
  file_unmap(&stub);
  return true;
}

/* ---- the file */

static bool pad_to(FileWriter *w, uint64_t offset) {
  uint64_t at = file_writer_offset(w);
  if (at > offset)
    die("artifact: %llu bytes written where %llu were to come", (unsigned long long)at, (unsigned long long)offset);
  return file_writer_pad(w, 0, offset - at);
}

static bool add_file(const Job *j, FileWriter *w, const char *path, uint64_t bytes) {
  FileMap map;
  if (!file_map(j->diags, path, &map)) return false;
  bool ok = map.size == bytes ||
            diag_error(j->diags, DIAG_file_read, file_loc(j->diags, path), "the file changed while it was compiled");
  ok = ok && file_writer_add(w, map.data, map.size);
  file_unmap(&map);
  return ok;
}

/* What becomes the file, behind the runtime. */
typedef struct Image {
  const ProgramResult *result;
  Program p;
  const void *tables;
  size_t table_bytes;
  const KernelImage *kernels; /* no bytes when there are none */
} Image;

static bool add_image(const Job *j, FileWriter *w, const Image *image, uint64_t base) {
  const Program *p = &image->p;
  bool ok = file_writer_add(w, image->tables, image->table_bytes);
  for (size_t i = 0; ok && i < image->result->embedded.n; i++) {
    const ProgramEmbedded *f = &image->result->embedded.items[i];
    ok = pad_to(w, base + p->blobs[f->blob].offset) && add_file(j, w, f->path, f->bytes);
  }
  if (ok && p->header->cpu_image != PROGRAM_NONE)
    ok = pad_to(w, base + p->blobs[p->header->cpu_image].offset) &&
         file_writer_add(w, image->kernels->data, image->kernels->bytes);
  ok = ok && pad_to(w, base + p->header->image_bytes);
  ArtifactTrailer trailer = {base, p->header->image_bytes, p->header->table_hash, ARTIFACT_MAGIC};
  return ok && file_writer_add(w, &trailer, sizeof trailer);
}

static bool write_behind(const Job *j, const Image *image, const FileMap *stub, uint64_t *bytes) {
  FileWriter *w = file_writer_open(j->diags, j->spec->out, 0777);
  uint64_t base = (stub->size + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  bool ok = w && file_writer_add(w, stub->data, stub->size) && pad_to(w, base) && add_image(j, w, image, base);
  if (ok) *bytes = file_writer_offset(w);
  if (ok) return file_writer_finish(w);
  if (w) file_writer_abandon(w);
  return false;
}

static bool write_file(const Job *j, const ProgramResult *r, const KernelImage *kernels, const void *tables,
                       size_t table_bytes, uint64_t *bytes) {
  FileMap stub;
  Image image = {.result = r, .tables = tables, .table_bytes = table_bytes, .kernels = kernels};
  RtError error = {0};
  if (!open_stub(j->diags, j->spec->stub, &stub)) return false;
  if (program_open(tables, table_bytes, &image.p, &error) != RT_OK) program_refused("the Program just built", &error);
  KernelObject object = {&kernels->map, &image.p, &stub, c_compiler_name(&(CCompiler){.command = j->spec->cc})};
  bool ok = (!kernels->data || kernel_object_check(j->diags, &object)) && write_behind(j, &image, &stub, bytes);
  program_close(&image.p);
  file_unmap(&stub);
  return ok;
}

/* ---- entry */

static void close_program(const Job *j, const ProgramResult *r, const KernelImage *kernels, void **tables,
                          size_t *bytes) {
  const ArtifactSpec *s = j->spec;
  RtError error = {0};
  ProgramFacts facts = {.name = s->name,
                        .target = s->target,
                        .producer = s->producer,
                        .cpu = "",
                        .cpu_image = PROGRAM_NONE,
                        .stages = (uint32_t)s->legal->source.m->mesh.stages};
  if (kernels) {
    facts.cpu = program_cpu_features();
    facts.cpu_image = program_embed(r->b, kernels->bytes, program_blob_hash(kernels->data, kernels->bytes));
  } else if (r->kernels.n) { /* not compiled: an empty place for the kernels */
    facts.cpu_image = program_embed(r->b, 0, program_blob_hash("", 0));
  }
  Program p;
  if (program_builder_finish(r->b, &facts, tables, bytes, &error) != RT_OK ||
      program_open(*tables, *bytes, &p, &error) != RT_OK || order_check_all(&p, &error) != RT_OK ||
      flow_check_all(&p, &error) != RT_OK)
    program_refused("the Program just built", &error);
  program_close(&p);
}

static bool compile(Job *j, const ProgramResult *r, KernelImage *out, ArtifactReport *report) {
  const Legal *legal = j->spec->legal;
  const KernelTarget *target = kernel_target(legal->source.device);
  size_t n;
  const char **texts = target->texts(&legal->kernels, &n);
  double begin = now_ms();
  bool ok = n == 0 ||
            target->compile(&(KernelCompile){j->arena, j->diags, j->spec->cc, j->dir, &j->folder, NULL}, texts, n, out);
  *report = (ArtifactReport){.kernels = r->kernels.n, .texts = n, .compile_ms = now_ms() - begin};
  return ok;
}

static bool compile_and_write(Job *j, const ProgramResult *r, ArtifactReport *report) {
  KernelImage kernels = {0};
  if (!compile(j, r, &kernels, report)) return false;
  void *tables = NULL;
  size_t bytes = 0;
  close_program(j, r, kernels.data ? &kernels : NULL, &tables, &bytes);
  bool ok = !j->spec->out || write_file(j, r, &kernels, tables, bytes, &report->bytes);
  free(tables);
  kernel_image_free(&kernels);
  return ok;
}

bool codegen_write(const ArtifactSpec *spec, const ProgramResult *program, ArtifactReport *report, Diags *diags) {
  Job j = {.arena = spec->legal->source.m->arena, .spec = spec, .diags = diags};
  *report = (ArtifactReport){0};
  bool ok = open_directory(&j) && compile_and_write(&j, program, report);
  temporary_close(&j.folder);
  return ok;
}

bool codegen_program_open(const ArtifactSpec *spec, ArtifactProgram *out, Diags *diags) {
  Job j = {.arena = spec->legal->source.m->arena, .spec = spec, .diags = diags};
  size_t bytes;
  RtError error = {0};
  if (!codegen_program_of(spec->legal, &out->result, diags)) return false;
  close_program(&j, &out->result, NULL, &out->tables, &bytes);
  if (program_open(out->tables, bytes, &out->p, &error) != RT_OK) program_refused("the Program just built", &error);
  return true;
}

void codegen_program_close(ArtifactProgram *a) {
  program_close(&a->p);
  free(a->tables);
  program_builder_free(a->result.b);
}
