/* runtime/host/entry_files.c - entries whose inputs or outputs are tensors of a safetensors file.
 *
 * The host makes the header, which follows from the program alone, allocates the file beside the final one, and sends
 * the ranks a request.  They write their parts (runtime/exec/entry_file.h) and answer when these are on the disk.  If
 * the metadata asks for checksums of tensors and header, the host adds up the ranks' sums and puts them in place of the
 * zeros in the header (base/safetensors_sums.h).  Then it corrects the first 8 bytes and renames the file.  So whatever
 * fails, the old file stays whole, and the temporary file cannot be taken for a complete one.
 *
 * Ranks that write beside later requests (REQUEST_COPY) leave their checksums in the file (request_record_at).  So the
 * host can end a file after these ranks have failed in a later request, if all of them had written their parts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/read_at.h"
#include "base/safetensors.h"
#include "base/safetensors_sums.h"
#include "runtime/host/host.h"

uint64_t host_fresh_mark(const ApcModel *m) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const uint64_t seen[] = {(uint64_t)t.tv_sec, (uint64_t)t.tv_nsec, (uint64_t)getpid(), (uint64_t)(uintptr_t)m};
  return hash64(seen, sizeof seen, m->requests) | UINT64_C(1) << 63;
}

static RtStatus name_file(ApcModel *m, const char *path, RequestFile *file) {
  size_t n = strlen(path);
  if (n >= sizeof file->path) return rt_error(&m->error, RT_BAD_INPUT, "%s: the file name is too long", path);
  memcpy(file->path, path, n + 1);
  return RT_OK;
}

/* ---- writing */

bool host_tensors_header(const ApcModel *m, uint32_t entry, const RequestLayout *l, const char *path,
                         const char *const *meta, int n_meta, const HostFiles *f, SafetensorsHeader *out) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  NamedTensor *list = ARENA_ARRAY(f->arena, NamedTensor, e->n_outputs + 1u);
  SafetensorsMeta *about = ARENA_ARRAY(f->arena, SafetensorsMeta, n_meta + 1);
  for (uint32_t i = 0; i < e->n_outputs; i++) {
    const ProgramPort *port = &p->ports[e->outputs + i];
    const ProgramShape *shape = &l->shapes[e->n_inputs + i];
    list[i] =
        (NamedTensor){program_text(p, port->name), tensor_view((DType)port->dtype, shape->rank, shape->dims, NULL)};
  }
  for (int i = 0; i < n_meta; i++) {
    bool sums = strcmp(meta[2 * i], SAFETENSORS_SUMS) == 0;
    about[i] = (SafetensorsMeta){meta[2 * i], sums ? safetensors_sums_room(f->arena, e->n_outputs) : meta[2 * i + 1]};
  }
  return safetensors_header(f->diags, path, list, e->n_outputs, about, (size_t)n_meta, out);
}

/* A file that is being written. */
struct HostWrite {
  HostFiles files;
  SafetensorsHeader header;
  FileWriter *writer;
  const char *path;
  uint32_t entry;
  uint64_t mark;
  bool beside; /* by REQUEST_COPY */
};

/* Adds up the ranks' checksums of all outputs, in the order of the entry. */
static RtStatus add_up_sums(ApcModel *m, uint32_t entry, uint64_t *sums) {
  const uint32_t ranks = m->artifact.program.ranks, n = m->artifact.program.entries[entry].n_outputs;
  uint64_t *of_ranks = calloc((size_t)ranks * n + 1, sizeof *of_ranks);
  if (!of_ranks) return rt_error(&m->error, RT_FAILED, "out of memory");
  RtStatus status = host_fetch(m, REQUEST_SUMS, of_ranks, n * sizeof *of_ranks);
  for (size_t i = 0; i < (size_t)ranks * n && !status; i++) sums[i % n] += of_ranks[i];
  free(of_ranks);
  return status;
}

/* Returns the first rank that has not left its checksums in the file; -1: all have.  Adds them up in `sums` (NULL is
 * allowed). */
static int add_up_records(const ApcModel *m, const HostWrite *x, uint64_t *sums) {
  const uint32_t ranks = m->artifact.program.ranks, n = m->artifact.program.entries[x->entry].n_outputs;
  const uint64_t words = request_record_words(n);
  uint64_t *record = calloc(words, sizeof *record);
  const int fd = record ? open(file_writer_shared(x->writer), O_RDONLY | O_CLOEXEC) : -1;
  uint32_t r = 0;
  if (sums) memset(sums, 0, n * sizeof *sums);
  for (bool has = fd >= 0; r < ranks && has; r += has) {
    has = read_at(fd, request_record_at(x->header.file_bytes, n, r), record, words * sizeof *record) &&
          record[n] == request_record_seal(record, n, r, x->mark);
    for (uint32_t i = 0; i < n && has && sums; i++) sums[i] += record[i];
  }
  if (fd >= 0) close(fd);
  free(record);
  return r < ranks ? (int)r : -1;
}

static RtStatus find_sums(ApcModel *m, const HostWrite *x, uint64_t *sums) {
  if (!x->beside) return add_up_sums(m, x->entry, sums);
  const int missing = add_up_records(m, x, sums);
  if (missing < 0) return RT_OK;
  return rt_error(&m->error, RT_FAILED, "%s: rank %d has not written its parts", x->path, missing);
}

/* Writes the checksums into the header, if it has room for them. */
static RtStatus write_sums(ApcModel *m, const HostWrite *x) {
  const SafetensorsHeader *h = &x->header;
  FileWriter *w = x->writer;
  const uint32_t entry = x->entry;
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  size_t at = safetensors_sums_place(h->bytes, h->n);
  if (!at) return RT_OK;
  SafetensorsSum *list = calloc(e->n_outputs + 1u, sizeof *list);
  uint64_t *sums = calloc(e->n_outputs + 1u, sizeof *sums);
  char *text = list && sums ? malloc(safetensors_sums_length(e->n_outputs) + 1) : NULL;
  RtStatus status = text ? find_sums(m, x, sums) : rt_error(&m->error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < e->n_outputs && !status; i++)
    list[i] = (SafetensorsSum){program_text(p, p->ports[e->outputs + i].name), sums[i]};
  if (!status) {
    safetensors_sums_text(h->bytes, h->n, list, e->n_outputs, text);
    file_writer_put(w, at, text, safetensors_sums_length(e->n_outputs));
  }
  free(list);
  free(sums);
  free(text);
  return status;
}

/* Writes the header, with a mark in the first 8 bytes, and sends the request. */
static RtStatus begin_file(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols,
                           const SafetensorsHeader *h, FileWriter *w, uint64_t *mark) {
  RequestFile file = {.mark = host_fresh_mark(m)};
  uint64_t length, marked;
  memcpy(&length, h->bytes, sizeof length);
  marked = length ^ file.mark;
  *mark = file.mark;
  RtStatus status = name_file(m, file_writer_shared(w), &file);
  if (status) return status;
  file_writer_add(w, &marked, sizeof marked);
  file_writer_add(w, h->bytes + sizeof length, h->n - sizeof length);
  if (!file_writer_flush(w)) return RT_OK; /* the writer has reported why */
  return host_request_file(m, kind, entry, symbols, &file);
}

/* After the ranks wrote the tensors: writes the checksums, cuts the records off, and writes the right first 8 bytes. */
static RtStatus end_file(ApcModel *m, const HostWrite *x) {
  RtStatus status = write_sums(m, x);
  if (!status && x->beside && truncate(file_writer_shared(x->writer), (off_t)x->header.file_bytes) != 0)
    status = rt_error_errno(&m->error, RT_BAD_INPUT, "%s", x->path);
  if (!status) file_writer_put(x->writer, 0, x->header.bytes, sizeof(uint64_t));
  return status;
}

static void finish_file(FileWriter *w, RtStatus status, const HostFiles *f) {
  if (w && (status || f->diags->errors)) file_writer_abandon(w);
  else if (w) file_writer_finish(w);
}

RtStatus host_write_tensors(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols,
                            const SafetensorsHeader *h, const char *path, const HostFiles *f) {
  RtStatus status = RT_OK;
  FileWriter *w = file_writer_open_shared(f->diags, path, 0666, h->file_bytes);
  HostWrite x = {.header = *h, .writer = w, .path = path, .entry = entry};
  if (w) status = begin_file(m, kind, entry, symbols, h, w, &x.mark);
  if (w && !status && !f->diags->errors) status = end_file(m, &x);
  finish_file(w, status, f);
  return status;
}

static void write_free(HostWrite *x) {
  free(x->header.bytes);
  free(x);
}

/* The header comes before the request, so it cannot have sizes that the request computes. */
static RtStatus sizes_are_known(ApcModel *m, uint32_t entry) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  for (uint32_t i = 0; i < e->n_outputs; i++) {
    const ProgramPort *port = &p->ports[e->outputs + i];
    for (uint32_t d = 0; d < port->dims.n; d++)
      if (p->expr_uses[program_list(p, port->dims)[d]] & PROGRAM_USES_COMPUTED)
        return rt_error(&m->error, RT_UNSUPPORTED,
                        "the shape of output '%s' depends on data: entry '%s' cannot write a file; use apc_run",
                        program_text(p, port->name), program_text(p, e->name));
  }
  return RT_OK;
}

/* Finds an entry that can write a file, and its symbols. */
static RtStatus find_entry(ApcModel *m, const char *entry, uint32_t *which, int64_t *symbols) {
  RtStatus status = host_find_entry(m, entry, which);
  if (!status && m->artifact.program.entries[*which].n_inputs)
    status = rt_error(&m->error, RT_USAGE, "entry '%s' has inputs", entry);
  if (!status) status = sizes_are_known(m, *which);
  return status ? status : host_symbols(m, *which, symbols);
}

static RtStatus begin_entry(ApcModel *m, RequestKind kind, const int64_t *symbols, const char *const *meta, int n_meta,
                            HostWrite *x) {
  RequestLayout layout;
  RtStatus status = request_layout(&m->artifact.program, x->entry, symbols, false, &layout, &m->error);
  if (status) return status;
  if (host_tensors_header(m, x->entry, &layout, x->path, meta, n_meta, &x->files, &x->header))
    x->writer = file_writer_open_shared(x->files.diags, x->path, 0666, x->header.file_bytes);
  request_layout_free(&layout);
  return x->writer ? begin_file(m, kind, x->entry, symbols, &x->header, x->writer, &x->mark) : RT_OK;
}

static ApcStatus begin_write(ApcModel *m, RequestKind kind, const char *entry, const char *path,
                             const char *const *meta, int n_meta, HostWrite **out) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  uint32_t which;
  ApcStatus may = apc_may_write(m, path);
  *out = NULL;
  if (may) return may;
  RtStatus status = find_entry(m, entry, &which, symbols);
  HostWrite *x = status ? NULL : calloc(1, sizeof *x);
  if (!x) return host_status(m, status ? status : rt_error(&m->error, RT_FAILED, "out of memory"));
  x->files = host_files_begin();
  x->path = arena_strdup(x->files.arena, path), x->entry = which, x->beside = kind == REQUEST_COPY;
  status = begin_entry(m, kind, symbols, meta, n_meta, x);
  if (!status && !x->files.diags->errors) return *out = x, APC_OK;
  finish_file(x->writer, status, &x->files);
  may = host_files_end(m, x->files, path, host_status(m, status));
  write_free(x);
  return may;
}

/* The ranks that could answer have failed: waits until each of those of a launcher has written its parts, or is gone.
 * Those of a session have ended. */
static void await_records(ApcModel *m, const HostWrite *x) {
  const Launched *l = m->launched;
  if (l) launched_end_file(m->launched);
  double limit = host_now() + launched_file_s(l);
  uint64_t seen = 0;
  for (int missing = 0, gone = -1; l && missing >= 0 && host_now() < limit;) {
    const uint64_t written = launched_written(l);
    if (written != seen) seen = written, limit = host_now() + launched_file_s(l); /* slow, but it goes on */
    missing = add_up_records(m, x, NULL);
    if (missing < 0 || missing == gone) break;
    gone = launched_gone(l, missing) ? missing : -1; /* it may have written since: look once more */
    if (gone < 0) nanosleep(&(struct timespec){0, 5000000}, NULL);
  }
}

/* Asks the ranks to end the file of REQUEST_COPY, if they can answer. */
static RtStatus join(ApcModel *m, const HostWrite *x) {
  const bool answer = m->session || (m->launched && !m->launch_failed);
  RtStatus status = answer ? host_request(m, REQUEST_JOIN, 0, NULL, 0) : RT_OK;
  if (!answer || status) await_records(m, x);
  return status;
}

/* *whole: the file is complete.  If ranks failed when they were to end it, after each had written its parts, it is
 * complete, and their failure is returned. */
static ApcStatus end_write(ApcModel *m, HostWrite *x, bool *whole) {
  char path[REQUEST_PATH];
  snprintf(path, sizeof path, "%s", x->path);
  const RtStatus joined = x->beside ? join(m, x) : RT_OK;
  const RtError failure = m->error;
  RtStatus status = joined && add_up_records(m, x, NULL) >= 0 ? joined : end_file(m, x);
  finish_file(x->writer, status, &x->files);
  ApcStatus code = host_files_end(m, x->files, path, host_status(m, status));
  *whole = !code;
  if (joined) m->error = failure, code = (ApcStatus)rt_exit_code(joined);
  write_free(x);
  return code;
}

ApcStatus apc_write_entry(ApcModel *m, const char *entry, const char *path, const char *const *meta, int n_meta) {
  HostWrite *x;
  bool whole;
  ApcStatus code = begin_write(m, REQUEST_WRITE, entry, path, meta, n_meta, &x);
  return code ? code : end_write(m, x, &whole);
}

ApcStatus host_write_begin(ApcModel *m, const char *entry, const char *path, const char *const *meta, int n_meta,
                           HostWrite **out) {
  return begin_write(m, REQUEST_COPY, entry, path, meta, n_meta, out);
}

bool host_write_runs(const ApcModel *m) {
  bool runs = false;
  for (int r = 0; r < apc_ranks(m) && m->io; r++) runs = runs || request_report(m->io, (uint32_t)r)->writing;
  return runs;
}

ApcStatus host_write_end(ApcModel *m, HostWrite *x, bool *whole) {
  *whole = false;
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  return end_write(m, x, whole);
}

void host_write_drop(HostWrite *x) {
  if (!x) return;
  file_writer_abandon(x->writer);
  arena_free(x->files.arena);
  write_free(x);
}

/* ---- reading */

ApcStatus host_tensors_fit(ApcModel *m, uint32_t entry, const char *path, const Safetensors *s) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    const char *name = program_text(p, p->ports[e->inputs + i].name);
    const SafetensorsEntry *t = safetensors_find(s, name);
    if (!t) return host_error(m, RT_BAD_INPUT, "%s: there is no '%s' in the file", path, name);
    const Tensor like = tensor_view(t->dtype, t->rank, t->dims, NULL);
    ApcStatus status = host_accepts(m, name, &like);
    if (status) return status;
  }
  if (s->n == e->n_inputs) return APC_OK;
  return host_error(m, RT_BAD_INPUT, "%s has %zu tensors, entry '%s' takes %u", path, s->n, program_text(p, e->name),
                    e->n_inputs);
}

ApcStatus host_read_tensors(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols, uint64_t mark,
                            const char *path) {
  RequestFile file = {.mark = mark};
  char *whole = realpath(path, NULL);
  if (!whole) return host_error(m, RT_BAD_INPUT, "%s: the file no longer exists", path);
  RtStatus status = name_file(m, whole, &file);
  if (!status) status = host_request_file(m, kind, entry, symbols, &file);
  free(whole);
  return host_status(m, status);
}

ApcStatus apc_read_entry(ApcModel *m, const char *entry, const char *path) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  uint32_t which;
  uint64_t mark;
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  RtStatus status = host_find_entry(m, entry, &which);
  if (!status) status = host_symbols(m, which, symbols);
  if (status) return host_status(m, status);
  HostFiles f = host_files_begin();
  Safetensors *s = safetensors_open_header(f.diags, path, 0, &mark);
  ApcStatus result = s ? host_tensors_fit(m, which, path, s) : APC_OK;
  if (s && !result) result = host_read_tensors(m, REQUEST_READ, which, symbols, mark, path);
  if (s) safetensors_close(s);
  return host_files_end(m, f, path, result);
}
