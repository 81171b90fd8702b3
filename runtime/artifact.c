/* runtime/artifact.c - see artifact.h. */
#include "runtime/artifact.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static RtStatus find_image(int fd, const char *name, ArtifactTrailer *t, RtError *error) {
  struct stat st;
  if (fstat(fd, &st) != 0) return rt_error_errno(error, RT_BAD_INPUT, "%s", name);
  if (!S_ISREG(st.st_mode)) return rt_error(error, RT_BAD_INPUT, "%s is not a regular file", name);
  off_t at = st.st_size - (off_t)sizeof *t;
  if (at < 0 || pread(fd, t, sizeof *t, at) != (ssize_t)sizeof *t || t->magic != ARTIFACT_MAGIC)
    return rt_error(error, RT_BAD_INPUT, "%s carries no compiled model (was it stripped or cut off?)", name);
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
