/* runtime/exec/param_files.c - see param_files.h. */
#include "runtime/exec/param_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "program/image.h"
#include "runtime/exec/load.h"
#include "runtime/exec/param_paths.h"

static bool is_safetensors(const char *path) {
  size_t n = strlen(path), k = strlen(".safetensors");
  return n >= k && strcmp(path + n - k, ".safetensors") == 0;
}

static uint32_t refers_to_files(const Program *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_blobs; i++) n += *program_text(p, p->blobs[i].path) != 0;
  return n;
}

/* Returns a blob's file, at the place that --weights names.  If the program refers to one file only, --weights may name
 * that file itself. */
static ParamFile file_of_blob(const ParamFiles *f, uint32_t i) {
  const Program *p = &f->artifact->program;
  ParamFile w = {.fd = -1, .path = program_text(p, p->blobs[i].path)};
  if (!*w.path || !f->other) return w;
  struct stat st;
  w.found = param_path_find(p, i, f->other);
  bool meant = refers_to_files(p) == 1 && (stat(f->other, &st) != 0 || !S_ISDIR(st.st_mode));
  w.missing = !w.found && !meant;
  if (w.found || meant) w.path = w.found ? w.found : f->other;
  return w;
}

static RtStatus new_files(const Artifact *a, const char *other, ParamFiles **out, RtError *error) {
  ParamFiles *f = *out = calloc(1, sizeof *f);
  if (!f) return rt_error(error, RT_FAILED, "out of memory");
  f->artifact = a;
  f->program = a->stamp;
  f->replaces = other && is_safetensors(other);
  f->n = f->replaces ? 1 : a->program.n_blobs;
  f->items = calloc(f->n + 1u, sizeof *f->items);
  if (other) f->other = strdup(other);
  if (!f->items || (other && !f->other)) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < f->n; i++)
    f->items[i] = f->replaces ? (ParamFile){.fd = -1, .path = f->other} : file_of_blob(f, i);
  if (!other || f->replaces || refers_to_files(&a->program)) return RT_OK;
  return rt_error(error, RT_BAD_INPUT,
                  "%s: this program contains its weights; only a .safetensors file can replace them", other);
}

/* Opens a file above the standard descriptors: a host may run without those, but the ranks get them. */
static int open_above_standard(const char *path) {
  int made = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (made < 0 || made > 2) return made;
  int fd = fcntl(made, F_DUPFD_CLOEXEC, 3), number = errno;
  close(made);
  errno = number;
  return fd;
}

/* Opens the file of blob i. */
static RtStatus open_one(const ParamFiles *f, uint32_t i, RtError *error) {
  ParamFile *w = &f->items[i];
  struct stat st;
  if (w->missing && stat(f->other, &st) != 0)
    return rt_error_errno(error, RT_BAD_INPUT, "the weights in %s cannot be read (see --weights)", f->other);
  if (w->missing)
    return rt_error(error, RT_BAD_INPUT,
                    "there is no %s of %" PRIu64 " bytes at %s (--weights); the program was compiled with %s",
                    strrchr(w->path, '/') ? strrchr(w->path, '/') + 1 : w->path, f->artifact->program.blobs[i].bytes,
                    f->other, w->path);
  w->fd = open_above_standard(w->path);
  if (w->fd < 0 || fstat(w->fd, &st) != 0)
    return rt_error_errno(error, RT_BAD_INPUT, "the weights in %s cannot be read (see --weights)", w->path);
  if (!S_ISREG(st.st_mode)) return rt_error(error, RT_BAD_INPUT, "%s is not a regular file", w->path);
  w->stamp = file_stamp(&st);
  return RT_OK;
}

/* Checks that a file has the size and the hash that the program was compiled with. */
static RtStatus check_blob(const ParamFile *w, const ProgramBlob *b, _Atomic uint64_t *beats, uint64_t *hash,
                           RtError *error) {
  if ((uint64_t)w->stamp.size != b->bytes)
    return rt_error(error, RT_BAD_INPUT, "%s is not the file with the weights: it has %lld bytes instead of %llu",
                    w->path, (long long)w->stamp.size, (unsigned long long)b->bytes);
  if (!artifact_hash_file(w->fd, 0, b->bytes, beats, hash)) return rt_error_errno(error, RT_BAD_INPUT, "%s", w->path);
  if (!b->hash || *hash == b->hash) return RT_OK;
  return rt_error(error, RT_BAD_INPUT, "%s is not the file with the weights: its content has changed", w->path);
}

/* Damaged weights would give wrong results, and damaged kernels could do anything. */
static RtStatus check_embedded(const Artifact *a, uint32_t i, _Atomic uint64_t *beats, uint64_t *hash, RtError *error) {
  const ProgramBlob *b = &a->program.blobs[i];
  if (!artifact_hash_blob(a, b, beats, hash))
    return rt_error_errno(error, RT_BAD_INPUT, "the compiled model cannot be read");
  if (!b->hash || *hash == b->hash) return RT_OK;
  for (uint32_t k = 0; k < a->program.n_operators; k++)
    if (a->program.operators[k].blob == i)
      return rt_error(error, RT_BAD_INPUT,
                      "the compiled model is damaged: the library of operator %s does not match its checksum",
                      program_text(&a->program, a->program.operators[k].name));
  return rt_error(error, RT_BAD_INPUT, "the compiled model is damaged: its %s do not match their checksum",
                  program_image_has_blob(&a->program, i) ? "kernels" : "weights");
}

static RtStatus check_all(ParamFiles *f, _Atomic uint64_t *beats, RtError *error) {
  const Artifact *a = f->artifact;
  const Program *p = &a->program;
  uint64_t *hashes = calloc(p->n_blobs + 1u, sizeof *hashes);
  RtStatus status = hashes ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_blobs && !status; i++) {
    if (!*program_text(p, p->blobs[i].path)) status = check_embedded(a, i, beats, &hashes[i], error);
    else if (!f->replaces) status = check_blob(&f->items[i], &p->blobs[i], beats, &hashes[i], error);
  }
  if (!status && f->replaces &&
      !artifact_hash_file(f->items[0].fd, 0, (uint64_t)f->items[0].stamp.size, beats, &hashes[p->n_blobs]))
    status = rt_error_errno(error, RT_BAD_INPUT, "%s", f->other);
  if (!status) f->digest = hash64(hashes, sizeof *hashes * (p->n_blobs + 1u), f->replaces);
  free(hashes);
  return status ? status : param_files_unchanged(f, RT_BAD_INPUT, error);
}

RtStatus param_files_open(const Artifact *a, const char *other, _Atomic uint64_t *beats, ParamFiles **out,
                          RtError *error) {
  ParamFiles *f = NULL;
  RtStatus status = new_files(a, other, &f, error);
  for (uint32_t i = 0; !status && i < f->n; i++)
    if (*f->items[i].path) status = open_one(f, i, error);
  if (!status) status = weights_check(f, error); /* the header, before all of it is read */
  if (!status) status = check_all(f, beats, error);
  if (status) param_files_close(f);
  else *out = f;
  return status;
}

void param_files_close(ParamFiles *f) {
  if (!f) return;
  for (uint32_t i = 0; f->items && i < f->n; i++) {
    if (f->items[i].fd >= 0) close(f->items[i].fd);
    free(f->items[i].found);
  }
  free(f->items);
  free(f->other);
  free(f);
}

uint64_t param_files_digest(const ParamFiles *f) { return f->digest; }

static RtStatus unchanged(int fd, const char *path, const FileStamp *stamp, RtStatus status, RtError *error) {
  struct stat st;
  if (fd <= 0) return RT_OK;
  if (fstat(fd, &st) != 0) return rt_error_errno(error, status, "%s", path);
  FileStamp now = file_stamp(&st);
  if (memcmp(&now, stamp, sizeof now) == 0) return RT_OK;
  return rt_error(error, status, "%s was changed after it was checked", path);
}

RtStatus param_files_unchanged(const ParamFiles *f, RtStatus status, RtError *error) {
  RtStatus found = unchanged(f->artifact->fd, "the program's file", &f->program, status, error);
  for (uint32_t i = 0; !found && i < f->n; i++)
    found = unchanged(f->items[i].fd, f->items[i].path, &f->items[i].stamp, status, error);
  return found;
}

/* ---- inheritance: "FD:SIZE:SECONDS:NANOSECONDS" of the program's file (whose descriptor a rank opens itself) and of
 * every other file */

enum { ITEM_TEXT = 4 * 24 };

char *param_files_text(const ParamFiles *f) {
  size_t size = (f->n + 1u) * ITEM_TEXT + 1;
  char *text = malloc(size), *at = text;
  if (!text) return NULL;
  at += snprintf(at, ITEM_TEXT, "-1:%" PRId64 ":%" PRId64 ":%" PRId64, f->program.size, f->program.seconds,
                 f->program.nanoseconds);
  for (uint32_t i = 0; i < f->n; i++) {
    const ParamFile *w = &f->items[i];
    if (w->fd >= 0)
      at += snprintf(at, ITEM_TEXT, ",%d:%" PRId64 ":%" PRId64 ":%" PRId64, w->fd, w->stamp.size, w->stamp.seconds,
                     w->stamp.nanoseconds);
  }
  return text;
}

int *param_files_descriptors(const ParamFiles *f, int *n) {
  int *fds = malloc(sizeof *fds * (f->n + 2u));
  *n = 0;
  for (uint32_t i = 0; fds && i < f->n; i++)
    if (f->items[i].fd >= 0) fds[(*n)++] = f->items[i].fd;
  return fds;
}

static bool read_item(const char **text, int *fd, FileStamp *stamp) {
  int used = 0;
  if (sscanf(*text, "%d:%" SCNd64 ":%" SCNd64 ":%" SCNd64 "%n", fd, &stamp->size, &stamp->seconds, &stamp->nanoseconds,
             &used) < 4 ||
      !used)
    return false;
  *text += used;
  if (**text == ',') ++*text;
  return true;
}

RtStatus param_files_inherit(const Artifact *a, const char *other, const char *text, ParamFiles **out, RtError *error) {
  ParamFiles *f = NULL;
  RtStatus status = new_files(a, other, &f, error);
  int fd = -1;
  bool ok = !status && read_item(&text, &fd, &f->program);
  for (uint32_t i = 0; ok && i < f->n; i++) {
    ParamFile *w = &f->items[i];
    if (!*w->path) continue;
    ok = read_item(&text, &w->fd, &w->stamp) && fcntl(w->fd, F_SETFD, FD_CLOEXEC) == 0;
  }
  if (!status && (!ok || *text))
    status = rt_error(error, RT_INTERNAL, "the files of the weights were not passed to the rank");
  if (!status) status = param_files_unchanged(f, RT_BAD_INPUT, error);
  if (status) param_files_close(f);
  else *out = f;
  return status;
}
