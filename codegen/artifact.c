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
  const ArtifactSpec *spec;
  const ProgramResult *result;
  Program p; /* of `tables`; closed if that is NULL */
  void *tables;
  size_t table_bytes;
  KernelImages kernels; /* of the Program's images, in their order */
} Image;

/* True if the embedded range is this Program's own, not one of the next Program. */
static bool is_own(const Program *p, uint32_t blob) {
  return !p->header->next || p->blobs[blob].offset < p->header->next;
}

/* Adds the image up to the next Program. */
static bool add_image(const Job *j, FileWriter *w, const Image *image, uint64_t base) {
  const Program *p = &image->p;
  bool ok = file_writer_add(w, image->tables, image->table_bytes);
  for (size_t i = 0; ok && i < image->result->embedded.n; i++) {
    const Embedded *e = &image->result->embedded.items[i];
    uint64_t at = base + p->blobs[e->blob].offset;
    if (is_own(p, e->blob)) ok = pad_to(w, at) && add_file(j, w, e, at);
  }
  for (uint32_t i = 0; ok && i < p->n_images; i++)
    if (is_own(p, p->images[i].blob))
      ok = pad_to(w, base + p->blobs[p->images[i].blob].offset) &&
           file_writer_add(w, image->kernels.items[i].data, image->kernels.items[i].bytes);
  return ok && pad_to(w, base + (p->header->next ? p->header->next : p->header->image_bytes));
}

static bool add_images(const Job *j, FileWriter *w, const Image *images, int n, uint64_t base) {
  const ProgramHeader *h = images[0].p.header;
  uint64_t at = base;
  bool ok = true;
  for (int i = 0; ok && i < n; at += images[i++].p.header->next) ok = add_image(j, w, &images[i], at);
  ArtifactTrailer trailer = {base, h->image_bytes, h->table_hash, ARTIFACT_MAGIC};
  return ok && file_writer_add(w, &trailer, sizeof trailer);
}

static bool write_behind(const Job *j, const Image *images, int n, const FileMap *stub, uint64_t *bytes) {
  FileWriter *w = file_writer_open(j->diags, j->spec->out, 0777);
  uint64_t base = (stub->size + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  bool ok = w && file_writer_add(w, stub->data, stub->size) && pad_to(w, base) && add_images(j, w, images, n, base);
  if (ok) *bytes = file_writer_offset(w);
  if (ok) return file_writer_finish(w);
  if (w) file_writer_abandon(w);
  return false;
}

static KernelCompile compile_of(const Job *j) {
  return (KernelCompile){
      j->arena, j->diags, j->spec->cc, j->dir, &j->folder, j->spec->arch, j->spec->save_temps ? NULL : j->spec->cache};
}

/* Checks the kernels' images of a Program.  Programs without kernels have none. */
static bool check_images(const Job *j, const Image *image, const FileMap *stub) {
  const KernelTarget *target = kernel_target(j->spec->legal->source.device);
  KernelCompile how = compile_of(j);
  return !image->kernels.n || !target->check || target->check(&how, &image->kernels, &image->p, stub);
}

static bool write_file(const Job *j, const Image *images, int n, uint64_t *bytes) {
  FileMap stub;
  bool ok = open_stub(j->diags, j->spec->stub, &stub);
  if (!ok) return false;
  for (int i = 0; ok && i < n; i++) ok = check_images(j, &images[i], &stub);
  ok = ok && write_behind(j, images, n, &stub, bytes);
  file_unmap(&stub);
  return ok;
}

/* ---- entry */

/* Finishes the Program with its images; NULL: without, for a Program that is not compiled. */
static void close_program(const ArtifactSpec *s, const ProgramResult *r, const KernelImages *kernels,
                          const Program *after, void **tables, size_t *bytes, Program *p) {
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
  if (program_builder_finish_before(r->b, &facts, after, tables, bytes, &error) != RT_OK ||
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

/* Compiles one of the Programs and makes its tables. */
static bool make_image(Diags *diags, ArtifactPart *part, const Program *after, Image *out) {
  Job j = {.arena = part->spec.legal->source.m->arena, .spec = &part->spec, .diags = diags};
  *out = (Image){.spec = &part->spec, .result = part->program};
  bool ok = open_directory(&j) && compile(&j, part->program, &out->kernels, &part->report);
  if (ok) {
    close_program(&part->spec, part->program, &out->kernels, after, &out->tables, &out->table_bytes, &out->p);
    check_program(part->program, &out->p);
  }
  temporary_close(&j.folder);
  return ok;
}

static void free_image(Image *image) {
  if (image->tables) program_close(&image->p);
  free(image->tables);
  kernel_images_free(&image->kernels);
}

/* Makes the images from the last to the first, as each refers to the next. */
static bool make_and_write(Job *j, ArtifactPart *parts, int n) {
  Image *images = ARENA_ARRAY(j->arena, Image, n);
  bool ok = true;
  for (int i = n - 1; ok && i >= 0; i--)
    ok = make_image(j->diags, &parts[i], i + 1 < n ? &images[i + 1].p : NULL, &images[i]);
  ok = ok && (!j->spec->out || write_file(j, images, n, &parts[0].report.bytes));
  for (int i = 0; i < n; i++) free_image(&images[i]);
  return ok;
}

bool codegen_write_all(ArtifactPart *parts, int n, Diags *diags) {
  Job j = {.arena = parts[0].spec.legal->source.m->arena, .spec = &parts[0].spec, .diags = diags};
  for (int i = 0; i < n; i++) parts[i].report = (ArtifactReport){0};
  bool ok = open_directory(&j) && make_and_write(&j, parts, n);
  temporary_close(&j.folder);
  return ok;
}

bool codegen_write(const ArtifactSpec *spec, const ProgramResult *program, ArtifactReport *report, Diags *diags) {
  ArtifactPart part = {.spec = *spec, .program = program};
  bool ok = codegen_write_all(&part, 1, diags);
  *report = part.report;
  return ok;
}

bool codegen_program_open(const ArtifactSpec *spec, bool check, ArtifactProgram *out, Diags *diags) {
  size_t bytes;
  if (!codegen_program_of(spec->legal, &out->result, diags)) return false;
  close_program(spec, &out->result, NULL, NULL, &out->tables, &bytes, &out->p);
  if (check) check_program(&out->result, &out->p);
  return true;
}

void codegen_program_close(ArtifactProgram *a) {
  program_close(&a->p);
  free(a->tables);
  program_builder_free(a->result.b);
}
