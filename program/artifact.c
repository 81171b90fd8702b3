/* program/artifact.c - see artifact.h. */
#include "program/artifact.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/lost_pages.h"
#include "base/read_at.h"

/* Returns the number of bytes the file had before it was truncated, or 0 if it was not.  A truncated program has a
 * whole runtime, followed by the beginning of an image, whose header says how long the image is. */
static uint64_t whole_size(int fd, uint64_t size) {
  Elf64_Ehdr elf;
  ProgramHeader image;
  if (pread(fd, &elf, sizeof elf, 0) != (ssize_t)sizeof elf || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  uint64_t runtime = elf.e_shoff + (uint64_t)elf.e_shnum * elf.e_shentsize,
           base = (runtime + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  if (runtime < elf.e_shoff || base > size || pread(fd, &image, sizeof image, (off_t)base) != (ssize_t)sizeof image ||
      image.magic != PROGRAM_MAGIC)
    return 0;
  uint64_t whole = base + image.image_bytes + sizeof(ArtifactTrailer);
  return image.image_bytes < INT64_MAX / 2 && whole > size ? whole : 0;
}

static RtStatus find_image(int fd, const char *name, ArtifactTrailer *t, RtError *error) {
  struct stat st;
  if (fstat(fd, &st) != 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  if (!S_ISREG(st.st_mode)) return rt_error(error, RT_BAD_INPUT, "%s is not a regular file", name);
  off_t at = st.st_size - (off_t)sizeof *t;
  if (at < 0 || pread(fd, t, sizeof *t, at) != (ssize_t)sizeof *t || t->magic != ARTIFACT_MAGIC) {
    uint64_t size = (uint64_t)st.st_size, whole = whole_size(fd, size);
    if (whole)
      return rt_error(error, RT_BAD_INPUT, "%s is truncated: it has %llu bytes, %llu are expected", name,
                      (unsigned long long)size, (unsigned long long)whole);
    return rt_error(error, RT_BAD_INPUT, "%s carries no compiled model (was it stripped or cut off?)", name);
  }
  if (t->offset % ARTIFACT_ALIGN || t->offset > (uint64_t)at || t->bytes != (uint64_t)at - t->offset || t->bytes == 0)
    return rt_error(error, RT_BAD_INPUT, "%s: the compiled model in it is damaged", name);
  return RT_OK;
}

static RtStatus open_program(Artifact *a, const ArtifactTrailer *t, const char *name, RtError *error) {
  RtError inner = {0};
  RtStatus status = program_open(a->image, a->bytes, &a->program, &inner);
  if (status) return rt_error(error, status, "%s: %s", name, inner.text);
  const ProgramHeader *h = a->program.header;
  bool first = t->offset == a->first; /* later ones have no other checksum than their own */
  if ((first && h->table_hash != t->hash) || h->image_bytes > a->bytes)
    return rt_error(error, RT_BAD_INPUT, "%s: the compiled model in it is damaged", name);
  return RT_OK;
}

static RtStatus map_image(const ArtifactTrailer *t, const char *name, Artifact *out, RtError *error) {
  void *map = mmap(NULL, t->bytes, PROT_READ, MAP_SHARED, out->fd, (off_t)t->offset);
  if (map == MAP_FAILED) return rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  lost_pages_watch(map, t->bytes, name);
  out->image = map;
  return RT_OK;
}

/* Reads the tables.  program_open refuses an invalid header. */
static RtStatus read_tables(const ArtifactTrailer *t, const char *name, Artifact *out, RtError *error) {
  ProgramHeader h = {0};
  uint64_t n = t->bytes;
  if (n >= sizeof h && !read_at(out->fd, t->offset, &h, sizeof h))
    return rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  if (h.magic == PROGRAM_MAGIC && h.table_bytes >= sizeof h && h.table_bytes <= n) n = h.table_bytes;
  else if (n > sizeof h) n = sizeof h;
  void *tables = malloc(n);
  if (!tables) return rt_error(error, RT_FAILED, "out of memory");
  out->image = tables;
  out->tables_only = true;
  return read_at(out->fd, t->offset, tables, n) ? RT_OK : rt_error_errno(error, RT_BAD_INPUT, "%s", name);
}

/* Opens the Program at the trailer's place.  */
static RtStatus open_at(const ArtifactTrailer *t, const char *name, bool tables_only, Artifact *out, RtError *error) {
  out->bytes = t->bytes;
  out->offset = t->offset;
  RtStatus status = tables_only ? read_tables(t, name, out, error) : map_image(t, name, out, error);
  return status ? status : open_program(out, t, name, error);
}

/* Frees the Program, but keeps the file. */
static void close_image(Artifact *a) {
  program_close(&a->program);
  if (a->image && a->tables_only) {
    free((void *)(uintptr_t)a->image);
  } else if (a->image) {
    lost_pages_forget(a->image);
    munmap((void *)(uintptr_t)a->image, a->bytes);
  }
  a->image = NULL;
  a->tables_only = false;
}

/* Moves to the Program after the open one; false if there is none. */
static bool step(const Artifact *a, ArtifactTrailer *t) {
  uint64_t next = a->program.header->next;
  if (!next || next >= t->bytes) return false;
  t->offset += next;
  t->bytes -= next;
  return true;
}

/* Lists the numbers of ranks of the first Program, which is open, and of those after it. */
static RtStatus list_worlds(ArtifactTrailer t, const char *name, Artifact *a, RtError *error) {
  Artifact one = {.fd = a->fd};
  RtStatus status = RT_OK;
  a->at[a->n_worlds] = t.offset, a->worlds[a->n_worlds++] = a->program.ranks;
  for (const Artifact *last = a; status == RT_OK && a->n_worlds < ARTIFACT_MOST_WORLDS && step(last, &t); last = &one) {
    close_image(&one);
    status = open_at(&t, name, true, &one, error);
    if (status == RT_OK) a->at[a->n_worlds] = t.offset, a->worlds[a->n_worlds++] = one.program.ranks;
  }
  close_image(&one);
  return status;
}

static RtStatus no_such_world(const Artifact *a, const char *name, int ranks, RtError *error) {
  char text[300] = "";
  const uint32_t *worlds = a->worlds;
  const int n = a->n_worlds;
  size_t used = 0;
  for (int i = 0; i < n && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", i ? i + 1 < n ? ", " : " and " : "", worlds[i]);
  return rt_error(error, RT_USAGE, "%s was compiled for %s rank%s, not for %d; compile it with another --target%s",
                  name, text, n == 1 && worlds[0] == 1 ? "" : "s", ranks, n > 1 ? " or --world" : "");
}

/* Goes on to the Program for that number of ranks. */
static RtStatus find_ranks(ArtifactTrailer t, const char *name, int ranks, bool tables_only, Artifact *out,
                           RtError *error) {
  int i = 0;
  while (i < out->n_worlds && out->worlds[i] != (uint32_t)ranks) i++;
  if (i == out->n_worlds) return no_such_world(out, name, ranks, error);
  if (i == 0) return RT_OK;
  close_image(out);
  t.bytes -= out->at[i] - t.offset, t.offset = out->at[i];
  return open_at(&t, name, tables_only, out, error);
}

/* `ranks`: of the Program; 0: the first one. */
static RtStatus open_either(const char *path, const char *name, int ranks, bool tables_only, Artifact *out,
                            RtError *error) {
  struct stat st;
  ArtifactTrailer t;
  *out = (Artifact){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  out->fd = fd < 0 || fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3); /* a host may run without the standard ones */
  if (fd >= 0 && fd != out->fd) close(fd);
  if (out->fd < 0 || fstat(out->fd, &st) != 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  out->stamp = file_stamp(&st);
  RtStatus status = find_image(out->fd, name, &t, error);
  if (status) return status;
  out->first = t.offset;
  status = open_at(&t, name, tables_only, out, error);
  if (status == RT_OK) status = list_worlds(t, name, out, error);
  return status || !ranks ? status : find_ranks(t, name, ranks, tables_only, out, error);
}

RtStatus artifact_open(const char *path, const char *name, Artifact *out, RtError *error) {
  RtStatus status = open_either(path, name, 0, false, out, error);
  if (status) artifact_close(out);
  return status;
}

RtStatus artifact_open_tables(const char *path, const char *name, Artifact *out, RtError *error) {
  RtStatus status = open_either(path, name, 0, true, out, error);
  if (status) artifact_close(out);
  return status;
}

RtStatus artifact_open_for(const char *path, const char *name, int ranks, bool tables_only, Artifact *out,
                           RtError *error) {
  RtStatus status = open_either(path, name, ranks, tables_only, out, error);
  if (status) artifact_close(out);
  return status;
}

void artifact_close(Artifact *a) {
  close_image(a);
  if (a->fd > 0) close(a->fd);
  *a = (Artifact){0};
}

/* ---- reading ranges */

enum { HASH_BUFFER = 256 << 10 };

static bool hash_range(int fd, uint64_t offset, uint64_t bytes, uint64_t seed, unsigned char *buffer,
                       _Atomic uint64_t *beats, uint64_t *hash) {
  Hash64 h;
  hash64_begin(&h, seed);
  for (uint64_t done = 0; done < bytes;) {
    size_t n = bytes - done < HASH_BUFFER ? (size_t)(bytes - done) : HASH_BUFFER;
    if (!read_at(fd, offset + done, buffer, n)) return false;
    hash64_add(&h, buffer, n);
    if (beats) atomic_fetch_add(beats, 1);
    done += n;
  }
  *hash = hash64_end(&h);
  return true;
}

/* Pieces of a large file, taken by several threads. */
typedef struct Pieces {
  int fd;
  uint64_t offset, bytes, *hashes, n;
  _Atomic uint64_t next;
  _Atomic int number; /* errno of a failure */
  _Atomic uint64_t *beats;
} Pieces;

static void *hash_pieces(void *argument) {
  Pieces *p = argument;
  unsigned char *buffer = malloc(HASH_BUFFER);
  if (!buffer) p->number = ENOMEM;
  for (uint64_t i; buffer && !p->number && (i = atomic_fetch_add(&p->next, 1)) < p->n;) {
    uint64_t at = i * PROGRAM_HASH_PIECE, left = p->bytes - at;
    if (!hash_range(p->fd, p->offset + at, left < PROGRAM_HASH_PIECE ? left : PROGRAM_HASH_PIECE, p->bytes, buffer,
                    p->beats, &p->hashes[i]))
      p->number = errno;
  }
  free(buffer);
  return NULL;
}

static bool hash_large(int fd, uint64_t offset, uint64_t bytes, _Atomic uint64_t *beats, uint64_t *hash) {
  enum { THREADS = 8 };
  Pieces p = {.beats = beats,
              .fd = fd,
              .offset = offset,
              .bytes = bytes,
              .n = (bytes + PROGRAM_HASH_PIECE - 1) / PROGRAM_HASH_PIECE};
  pthread_t threads[THREADS];
  sigset_t all, before;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n = 0;
  p.hashes = malloc(sizeof *p.hashes * p.n);
  if (!p.hashes) return false;
  sigfillset(&all); /* signals are the caller's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (n < THREADS && n < cores - 1 && pthread_create(&threads[n], NULL, hash_pieces, &p) == 0) n++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  hash_pieces(&p);
  while (n > 0) pthread_join(threads[--n], NULL);
  *hash = hash64(p.hashes, sizeof *p.hashes * p.n, bytes);
  free(p.hashes);
  errno = p.number;
  return !p.number;
}

bool artifact_hash_file(int fd, uint64_t offset, uint64_t bytes, _Atomic uint64_t *beats, uint64_t *hash) {
  if (bytes > PROGRAM_HASH_SMALL) return hash_large(fd, offset, bytes, beats, hash);
  unsigned char *buffer = malloc(HASH_BUFFER);
  bool ok = buffer && hash_range(fd, offset, bytes, bytes, buffer, beats, hash);
  int number = errno;
  free(buffer);
  errno = number;
  return ok;
}

bool artifact_hash_blob(const Artifact *a, const ProgramBlob *b, _Atomic uint64_t *beats, uint64_t *hash) {
  if (a->fd > 0) return artifact_hash_file(a->fd, a->offset + b->offset, b->bytes, beats, hash);
  *hash = program_blob_hash(a->image + b->offset, b->bytes);
  return true;
}

bool artifact_read_blob(const Artifact *a, const ProgramBlob *b, void *to) {
  if (a->fd > 0) return read_at(a->fd, a->offset + b->offset, to, b->bytes);
  memcpy(to, a->image + b->offset, b->bytes);
  return true;
}
