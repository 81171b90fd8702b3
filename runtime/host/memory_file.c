/* runtime/host/memory_file.c - the tensors of an entry in a file in memory, from which other ranks continue.
 *
 * In: an entry without inputs, or with the same tensors as inputs; a descriptor of memfd_create.  The file is a
 * safetensors file as entry_files.c makes it, without checksums; the ranks open it by the host's descriptor.  Its first
 * 8 bytes are right only when all ranks have written their parts.  Nothing is left if the host ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/read_at.h"
#include "base/safetensors.h"
#include "runtime/host/host.h"

static void name_memory(int fd, char *path, size_t size) { snprintf(path, size, "/proc/%d/fd/%d", (int)getpid(), fd); }

static RtStatus no_room(ApcModel *m, uint64_t bytes) {
  return rt_error_errno(&m->error, RT_BAD_INPUT, "%llu bytes of memory for a copy of the states",
                        (unsigned long long)bytes);
}

static RtStatus write_tensors(ApcModel *m, uint32_t entry, const int64_t *symbols, const SafetensorsHeader *h, int fd) {
  RequestFile file = {.mark = host_fresh_mark(m)};
  uint64_t length, marked;
  memcpy(&length, h->bytes, sizeof length);
  marked = length ^ file.mark;
  name_memory(fd, file.path, sizeof file.path);
  if (ftruncate(fd, (off_t)h->file_bytes) != 0 || !write_at(fd, 0, &marked, sizeof marked) ||
      !write_at(fd, sizeof length, h->bytes + sizeof length, h->n - sizeof length))
    return no_room(m, h->file_bytes);
  RtStatus status = host_request_file(m, REQUEST_WRITE, entry, symbols, &file);
  return status || write_at(fd, 0, &length, sizeof length) ? status : no_room(m, h->file_bytes);
}

ApcStatus host_write_memory(ApcModel *m, const char *entry, int fd, uint64_t *bytes) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  uint32_t which;
  RequestLayout layout;
  SafetensorsHeader h = {0};
  char path[64];
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  name_memory(fd, path, sizeof path);
  RtStatus status = host_find_entry(m, entry, &which);
  if (!status) status = host_symbols(m, which, symbols);
  if (!status) status = request_layout(&m->artifact.program, which, symbols, false, &layout, &m->error);
  if (status) return host_status(m, status);
  HostFiles f = host_files_begin();
  if (host_tensors_header(m, which, &layout, path, NULL, 0, &f, &h)) status = write_tensors(m, which, symbols, &h, fd);
  *bytes = h.file_bytes;
  free(h.bytes);
  request_layout_free(&layout);
  return host_files_end(m, f, path, host_status(m, status));
}

ApcStatus host_read_memory(ApcModel *m, const char *entry, int fd) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  RequestFile file = {0};
  uint32_t which;
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  name_memory(fd, file.path, sizeof file.path);
  RtStatus status = host_find_entry(m, entry, &which);
  if (!status) status = host_symbols(m, which, symbols);
  if (status) return host_status(m, status);
  HostFiles f = host_files_begin();
  Safetensors *s = safetensors_open_header(f.diags, file.path, 0, &file.mark);
  ApcStatus result = s ? host_tensors_fit(m, which, file.path, s) : APC_OK;
  if (s && !result) result = host_status(m, host_request_file(m, REQUEST_READ, which, symbols, &file));
  if (s) safetensors_close(s);
  return host_files_end(m, f, file.path, result);
}
