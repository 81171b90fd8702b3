/* codegen/artifact.c - see artifact.h.
 *
 * Compiles the kernels' texts (codegen/target.h) and embeds the machine code.  The bytes depend only on the input and
 * the compiler: names in them are relative.
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
#include "codegen/elf.h"
#include "codegen/kept.h"
#include "ir/schedule.h"
#include "program/artifact.h"
#include "program/build.h"
#include "program/flow.h"
#include "program/memory.h"
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
    fault = "it is not a complete program";
    file_unmap(out);
  }
  if (!fault) return true;
  diag_error(d, DIAG_tool_missing, file_loc(d, path), "the runtime for compiled programs cannot be used: %s", fault);
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
    die("artifact: %llu bytes written, %llu expected", (unsigned long long)at, (unsigned long long)offset);
  return file_writer_pad(w, 0, offset - at);
}

static bool add_file(const Job *j, FileWriter *w, const Embedded *e, uint64_t base) {
  FileMap map;
  if (!file_map(j->diags, e->path, &map)) return false;
  bool ok = map.size == e->file_bytes ||
            diag_error(j->diags, DIAG_file_read, file_loc(j->diags, e->path), "the file changed while it was compiled");
  for (size_t i = 0; ok && i < e->n; i++)
    ok = pad_to(w, base + e->parts[i].to) && file_writer_add(w, map.data + e->parts[i].from, e->parts[i].bytes);
  file_unmap(&map);
  return ok;
}

/* The image that follows the runtime in the file. */
typedef struct Image {
  const ProgramResult *result;
  Program p;
  const void *tables;
  size_t table_bytes;
  const KernelImages *kernels; /* of the Program's images, in their order */
} Image;

static bool add_image(const Job *j, FileWriter *w, const Image *image, uint64_t base) {
  const Program *p = &image->p;
  bool ok = file_writer_add(w, image->tables, image->table_bytes);
  for (size_t i = 0; ok && i < image->result->embedded.n; i++) {
    const Embedded *e = &image->result->embedded.items[i];
    uint64_t at = base + p->blobs[e->blob].offset;
    ok = pad_to(w, at) && add_file(j, w, e, at);
  }
  for (uint32_t i = 0; ok && i < p->n_images; i++)
    ok = pad_to(w, base + p->blobs[p->images[i].blob].offset) &&
         file_writer_add(w, image->kernels->items[i].data, image->kernels->items[i].bytes);
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

static KernelCompile compile_of(const Job *j) {
  return (KernelCompile){
      j->arena, j->diags, j->spec->cc, j->dir, &j->folder, j->spec->arch, j->spec->save_temps ? NULL : j->spec->cache};
}

/* Checks the images.  Programs without kernels have none. */
static bool check_images(const Job *j, const KernelImages *kernels, const Program *p, const FileMap *stub) {
  const KernelTarget *target = kernel_target(j->spec->legal->source.device);
  KernelCompile how = compile_of(j);
  return !kernels->n || !target->check || target->check(&how, kernels, p, stub);
}

static bool write_file(const Job *j, const ProgramResult *r, const KernelImages *kernels, const void *tables,
                       size_t table_bytes, uint64_t *bytes) {
  FileMap stub;
  Image image = {.result = r, .tables = tables, .table_bytes = table_bytes, .kernels = kernels};
  RtError error = {0};
  if (!open_stub(j->diags, j->spec->stub, &stub)) return false;
  if (program_open(tables, table_bytes, &image.p, &error) != RT_OK) program_refused("the Program just built", &error);
  bool ok = check_images(j, kernels, &image.p, &stub) && write_behind(j, &image, &stub, bytes);
  program_close(&image.p);
  file_unmap(&stub);
  return ok;
}

/* ---- entry */

/* Finishes the Program with its images; NULL: without, for a Program that is not compiled. */
static void close_program(const ArtifactSpec *s, const ProgramResult *r, const KernelImages *kernels, void **tables,
                          size_t *bytes, Program *p) {
  RtError error = {0};
  ProgramFacts facts = {.name = s->name,
                        .target = s->target,
                        .producer = s->producer,
                        .device = s->legal->source.device->name,
                        .planned = s->planned,
                        .stages = (uint32_t)mesh_places(&s->legal->source.m->mesh),
                        .n_events = r->events,
                        .peak = s->peak,
                        .peak_of = s->peak_of};
  for (size_t i = 0; kernels && i < kernels->n; i++) {
    const KernelImage *k = &kernels->items[i];
    program_embed_image(r->b, k->kind, k->arch, k->bytes, program_blob_hash(k->data, k->bytes));
  }
  if (program_builder_finish(r->b, &facts, tables, bytes, &error) != RT_OK ||
      program_open(*tables, *bytes, p, &error) != RT_OK)
    program_refused("the Program just built", &error);
}

static void check_program(const ProgramResult *r, const Program *p) {
  RtError error = {0};
  if (order_check_all(p, &error) != RT_OK || flow_check_all(p, &error) != RT_OK ||
      (r->events && memory_check_all(p, &error) != RT_OK))
    program_refused("the Program just built", &error);
}

static bool compile(Job *j, const ProgramResult *r, KernelImages *out, ArtifactReport *report) {
  const Legal *legal = j->spec->legal;
  const KernelTarget *target = kernel_target(legal->source.device);
  size_t n;
  const char **texts = target->texts(&legal->kernels, &n);
  double begin = now_ms();
  KernelCompile how = compile_of(j);
  bool kept = false, ok = n == 0 || kernels_compile(target, &how, texts, n, out, &kept);
  *report = (ArtifactReport){.kernels = r->kernels.n, .texts = n, .compile_ms = now_ms() - begin, .kept = kept};
  return ok;
}

static bool compile_and_write(Job *j, const ProgramResult *r, ArtifactReport *report) {
  KernelImages kernels = {0};
  if (!compile(j, r, &kernels, report)) return false;
  void *tables = NULL;
  size_t bytes = 0;
  Program p;
  close_program(j->spec, r, &kernels, &tables, &bytes, &p);
  check_program(r, &p);
  program_close(&p);
  bool ok = !j->spec->out || write_file(j, r, &kernels, tables, bytes, &report->bytes);
  free(tables);
  kernel_images_free(&kernels);
  return ok;
}

bool codegen_write(const ArtifactSpec *spec, const ProgramResult *program, ArtifactReport *report, Diags *diags) {
  Job j = {.arena = spec->legal->source.m->arena, .spec = spec, .diags = diags};
  *report = (ArtifactReport){0};
  bool ok = open_directory(&j) && compile_and_write(&j, program, report);
  temporary_close(&j.folder);
  return ok;
}

bool codegen_program_open(const ArtifactSpec *spec, bool check, ArtifactProgram *out, Diags *diags) {
  size_t bytes;
  if (!codegen_program_of(spec->legal, &out->result, diags)) return false;
  close_program(spec, &out->result, NULL, &out->tables, &bytes, &out->p);
  if (check) check_program(&out->result, &out->p);
  return true;
}

void codegen_program_close(ArtifactProgram *a) {
  program_close(&a->p);
  free(a->tables);
  program_builder_free(a->result.b);
}
