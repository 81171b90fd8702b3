/* runtime/artifact.c - see artifact.h. */
#include "runtime/artifact.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A program that was cut off: its runtime is whole, and behind it lies the beginning of an image, which says how long it is.  The number of
 * bytes the file had, or 0. */
static uint64_t whole_size(int fd, uint64_t size) {
  Elf64_Ehdr elf;
  ProgramHeader image;
  if (pread(fd, &elf, sizeof elf, 0) != (ssize_t)sizeof elf || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  uint64_t runtime = elf.e_shoff + (uint64_t)elf.e_shnum * elf.e_shentsize, base = (runtime + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  if (runtime < elf.e_shoff || base > size || pread(fd, &image, sizeof image, (off_t)base) != (ssize_t)sizeof image || image.magic != PROGRAM_MAGIC) return 0;
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
    if (whole) return rt_error(error, RT_BAD_INPUT, "%s is truncated: it has %llu bytes, %llu are expected", name, (unsigned long long)size, (unsigned long long)whole);
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
  if (h->table_hash != t->hash || h->image_bytes > a->bytes)
    return rt_error(error, RT_BAD_INPUT, "%s: the compiled model in it is damaged", name);
  return RT_OK;
}

RtStatus artifact_open(const char *path, const char *name, Artifact *out, RtError *error) {
  memset(out, 0, sizeof *out);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  ArtifactTrailer t;
  RtStatus status = find_image(fd, name, &t, error);
  void *map = MAP_FAILED;
  if (!status) {
    map = mmap(NULL, t.bytes, PROT_READ, MAP_SHARED, fd, (off_t)t.offset);
    if (map == MAP_FAILED) status = rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  }
  close(fd);
  if (status) return status;
  out->image = map;
  out->bytes = t.bytes;
  status = open_program(out, &t, name, error);
  if (status) artifact_close(out);
  return status;
}

void artifact_close(Artifact *a) {
  program_close(&a->program);
  if (a->image) munmap((void *)(uintptr_t)a->image, a->bytes);
  memset(a, 0, sizeof *a);
}
