/* runtime/exec/entry_file.c - see entry_file.h. */
#include "runtime/exec/entry_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/read_at.h"
#include "base/safetensors.h"

enum { PIECE = 16 << 20, SYNC_EVERY = 256 << 20 }; /* bytes between signs of life */

typedef struct EntryFile {
  Arena *arena;
  Safetensors *header;
  const char *path;
  uint64_t mark;
  uint32_t rank;
  int fd;
  bool writes, states;
  _Atomic uint64_t *beats; /* signs of life; NULL without a watchdog */
  struct EntryCopy *copy;  /* parts are copied, and written later; else NULL */
  uint64_t unsynced;
  uint64_t *sums; /* per output: checksum of this rank's parts, and room for a seal; the executor's at the end */
  uint32_t n_sums;
} EntryFile;

static RtStatus copy_begin(EntryFile *f, RtError *error);
static void copy_free(struct EntryCopy *c);
static RtStatus close_file(EntryFile *f, RtStatus status, RtError *error);

static RtStatus failed(const EntryFile *f, const char *why, RtError *error) {
  return rt_error(error, RT_BAD_INPUT, "rank %u: %s: cannot %s the file: %s", f->rank, f->path,
                  f->writes ? "write" : "read", why);
}

/* ---- opening */

/* True if the file's tensors are the states, with the sizes of the binding. */
static bool is_of_states(const Executor *e, const EntryFile *f) {
  const Program *p = e->p;
  for (uint32_t i = 0; i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    const SafetensorsEntry *t = safetensors_find(f->header, program_text(p, s->name));
    if (!t || t->dtype != (DType)s->dtype || t->rank != (int)s->dims.n) return false;
    for (uint32_t d = 0; d < s->dims.n; d++)
      if (t->dims[d] != e->binding->values[program_list(p, s->dims)[d]]) return false;
  }
  return f->header->n == p->n_states;
}

static bool is_of_port(const SafetensorsEntry *t, const ProgramPort *port, const ProgramShape *shape) {
  bool same = t && t->dtype == (DType)port->dtype && t->rank == shape->rank;
  for (int d = 0; same && d < t->rank; d++) same = t->dims[d] == shape->dims[d];
  return same;
}

/* True if the file's tensors are those of the entry: inputs if it is read, outputs if it is written. */
static bool is_of_entry(const Executor *e, const EntryFile *f) {
  const ProgramEntry *entry = &e->p->entries[e->binding->entry];
  uint32_t first = f->writes ? entry->n_inputs : 0, n = f->writes ? entry->n_outputs : entry->n_inputs;
  for (uint32_t i = first; i < first + n; i++) {
    const ProgramPort *port = &e->p->ports[entry->inputs + i];
    if (!is_of_port(safetensors_find(f->header, program_text(e->p, port->name)), port, &e->binding->io.shapes[i]))
      return false;
  }
  return f->header->n == n;
}

static RtStatus open_header(const Executor *e, EntryFile *f, uint64_t mark, RtError *error) {
  Diags *diags = diags_new(f->arena);
  uint64_t hash;
  f->header = safetensors_open_header(diags, f->path, f->writes ? mark : 0, &hash);
  bool fits = f->header && (f->states ? is_of_states(e, f) : is_of_entry(e, f));
  if (fits && (f->writes || hash == mark)) return RT_OK;
  bool other = f->header || diags->n == 0;
  return rt_error(error, RT_BAD_INPUT,
                  "rank %u: %s: %s; every rank %s its own parts of the file, so all machines must share that folder",
                  e->options.rank, f->path, other ? "not the same file as on rank 0" : diags->items[0].message,
                  f->writes ? "writes" : "reads");
}

RtStatus entry_file_open(Executor *e, const RequestFile *file, uint32_t kind, RtError *error) {
  bool writes = request_writes(kind);
  if (e->copy && kind == REQUEST_COPY) return rt_error(error, RT_INTERNAL, "a file is still being written");
  EntryFile *f = e->file = calloc(1, sizeof *f);
  if (!f) return rt_error(error, RT_FAILED, "out of memory");
  *f = (EntryFile){.arena = arena_new(),
                   .fd = -1,
                   .mark = file->mark,
                   .rank = e->options.rank,
                   .beats = exec_beats(e),
                   .writes = writes,
                   .states = request_is_of_state_file(kind)};
  f->path = arena_strdup(f->arena, file->path); /* a copy is written when the request is over */
  RtStatus status = open_header(e, f, file->mark, error);
  if (status) return status;
  const ProgramEntry *entry = &e->p->entries[e->binding->entry];
  f->n_sums = writes && !f->states ? entry->n_outputs : 0u;
  f->sums = calloc(f->n_sums + 1u, sizeof *f->sums);
  if (!f->sums) return rt_error(error, RT_FAILED, "out of memory");
  f->fd = open(f->path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  if (f->fd < 0) return failed(f, strerror(errno), error);
  return kind == REQUEST_COPY ? copy_begin(f, error) : RT_OK;
}

/* ---- bytes */

static RtStatus sync_file(EntryFile *f, RtError *error) {
  f->unsynced = 0;
  return fsync(f->fd) == 0 ? RT_OK : failed(f, strerror(errno), error);
}

static RtStatus write_piece(EntryFile *f, uint64_t at, const char *from, size_t n, RtError *error) {
  f->unsynced += n;
  if (!write_at(f->fd, at, from, n)) return failed(f, strerror(errno), error);
  return f->unsynced < SYNC_EVERY ? RT_OK : sync_file(f, error);
}

static RtStatus read_piece(const EntryFile *f, uint64_t at, char *to, size_t n, RtError *error) {
  if (read_at(f->fd, at, to, n)) return RT_OK;
  return failed(f, errno == ENODATA ? "it is truncated" : strerror(errno), error);
}

static RtStatus move_run(EntryFile *f, uint64_t at, char *data, size_t n, RtError *error) {
  RtStatus status = RT_OK;
  for (size_t k; n && !status; at += k, data += k, n -= k) {
    k = n < PIECE ? n : PIECE;
    status = f->writes ? write_piece(f, at, data, k, error) : read_piece(f, at, data, k, error);
    if (f->beats) atomic_fetch_add(f->beats, 1);
  }
  return status;
}

/* Moves a part, from `start` on, between contiguous `data` and its places in the file, in the longest runs that are
 * contiguous in both. */
static RtStatus move_part(EntryFile *f, const SafetensorsEntry *t, const int64_t *start, const int64_t *extents,
                          char *data, uint64_t *sum, RtError *error) {
  int64_t at[TENSOR_MAX_RANK] = {0};
  size_t run = dtype_bytes(t->dtype), size = run;
  int outer = t->rank;
  for (bool full = true; outer > 0 && full;) {
    outer--;
    run *= (size_t)extents[outer];
    full = extents[outer] == t->dims[outer];
  }
  for (int d = 0; d < t->rank; d++)
    if (extents[d] == 0) return RT_OK;
  for (;;) {
    uint64_t place = 0;
    for (int d = 0; d < t->rank; d++) place = place * (uint64_t)t->dims[d] + (uint64_t)(start[d] + at[d]);
    RtStatus status = move_run(f, t->offset + place * size, data, run, error);
    if (sum) *sum += checksum_part(place, data, run / size, size);
    int d = outer;
    while (d > 0 && ++at[d - 1] == extents[d - 1]) at[--d] = 0;
    if (status || d == 0) return status;
    data += run;
  }
}

static const SafetensorsEntry *tensor_of(const Executor *e, const DeviceCall *c) {
  const ProgramEntry *entry = &e->p->entries[e->binding->entry];
  uint32_t port = (c->kind == PI_feed ? entry->inputs : entry->outputs) + c->object;
  return safetensors_find(e->file->header, program_text(e->p, e->p->ports[port].name));
}

/* ---- a copy of the parts, which a thread writes beside later requests */

typedef struct CopiedPart {
  const SafetensorsEntry *tensor;
  int64_t start[TENSOR_MAX_RANK], extents[TENSOR_MAX_RANK];
  char *data;
  uint64_t *sum;
} CopiedPart;

typedef struct EntryCopy {
  EntryFile *file;
  struct {
    CopiedPart *items;
    size_t n, cap;
  } parts;
  pthread_t thread;
  _Atomic uint64_t own, *writing; /* RankPlace.writing; `own` without a watchdog */
  atomic_bool stopped, over;
  RtStatus status; /* with `error`, when it is over */
  RtError error;
} EntryCopy;

static RtStatus copy_begin(EntryFile *f, RtError *error) {
  f->copy = calloc(1, sizeof *f->copy);
  if (!f->copy) return rt_error(error, RT_FAILED, "out of memory");
  f->copy->file = f;
  return RT_OK;
}

/* Takes the part of a call: `part` itself if it is a copy already. */
static RtStatus copy_add(const Executor *e, const DeviceCall *c, char *part, RtError *error) {
  EntryFile *f = e->file;
  const CallTensor *t = &c->tensors[0];
  const size_t bytes = (size_t)t->elements * dtype_bytes((DType)t->dtype);
  CopiedPart x = {.tensor = tensor_of(e, c), .data = part, .sum = &e->file->sums[c->object]};
  if (e->host_memory) {
    x.data = malloc(bytes + 1);
    if (!x.data)
      return rt_error(error, RT_FAILED, "out of memory: %zu bytes for a copy of what is written beside the steps",
                      bytes);
    memcpy(x.data, part, bytes);
  }
  for (int d = 0; d < x.tensor->rank; d++) x.start[d] = c->scalars[d], x.extents[d] = t->extents[d];
  ARENA_PUSH(f->arena, &f->copy->parts, x);
  if (f->beats) atomic_fetch_add(f->beats, 1);
  return RT_OK;
}

/* The checksums of a file that ends become those of the last written file. */
static void take_sums(Executor *e, EntryFile *f) {
  free(e->sums.of);
  e->sums.of = f->sums, e->sums.n = f->sums ? f->n_sums : 0;
  f->sums = NULL;
}

static void copy_free(EntryCopy *c) {
  for (size_t i = 0; c && i < c->parts.n; i++) free(c->parts.items[i].data);
  free(c);
}

/* Says that all parts are on the disk (request_record_at): then the file can be made whole without this rank. */
static RtStatus leave_record(EntryFile *f, RtError *error) {
  const uint64_t end = f->header->map.size, bytes = request_record_words(f->n_sums) * sizeof *f->sums;
  f->sums[f->n_sums] = request_record_seal(f->sums, f->n_sums, f->rank, f->mark);
  RtStatus status = write_piece(f, request_record_at(end, f->n_sums, f->rank), (const char *)f->sums, bytes, error);
  return status ? status : sync_file(f, error);
}

static void *write_copy(void *context) {
  EntryCopy *c = context;
  for (size_t i = 0; i < c->parts.n && !c->status; i++) {
    CopiedPart *x = &c->parts.items[i];
    c->status = atomic_load(&c->stopped)
                    ? rt_error(&c->error, RT_ABORTED, "stopped")
                    : move_part(c->file, x->tensor, x->start, x->extents, x->data, x->sum, &c->error);
    free(x->data), x->data = NULL;
  }
  if (!c->status) c->status = sync_file(c->file, &c->error);
  if (!c->status) c->status = leave_record(c->file, &c->error);
  atomic_store(&c->over, true);
  atomic_store(c->writing, 0);
  return NULL;
}

/* Starts the thread, without signals: those are for the rank. */
static RtStatus copy_start(Executor *e, EntryFile *f, RtError *error) {
  EntryCopy *c = f->copy;
  sigset_t all, before;
  c->writing = e->options.place ? &e->options.place->writing : &c->own;
  atomic_store(c->writing, 1);
  f->beats = c->writing;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int why = pthread_create(&c->thread, NULL, write_copy, c);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!why) return e->copy = c, RT_OK;
  atomic_store(c->writing, 0);
  return close_file(f, rt_error(error, RT_FAILED, "rank %u: no thread to write a file: %s", f->rank, strerror(why)),
                    error);
}

bool entry_file_runs(const Executor *e) { return e->copy && !atomic_load(&e->copy->over); }

/* Ends the thread and frees the copy. */
static RtStatus copy_end(Executor *e, RtError *error) {
  EntryCopy *c = e->copy;
  e->copy = NULL;
  pthread_join(c->thread, NULL);
  const RtStatus status = c->status;
  if (status) *error = c->error;
  take_sums(e, c->file);
  return close_file(c->file, status, error);
}

RtStatus entry_file_join(Executor *e, RtError *error) {
  const struct timespec pause = {.tv_nsec = 2000000};
  uint64_t seen = 0;
  if (!e->copy) return RT_OK;
  while (entry_file_runs(e)) {
    const uint64_t pieces = atomic_load(e->copy->writing);
    if (pieces != seen && exec_beats(e)) atomic_fetch_add(exec_beats(e), 1);
    seen = pieces;
    nanosleep(&pause, NULL);
  }
  return copy_end(e, error);
}

void entry_file_stop(Executor *e) {
  RtError unread = {0};
  if (!e->copy) return;
  atomic_store(&e->copy->stopped, true);
  copy_end(e, &unread);
}

/* ---- calls */

/* Gives the host memory of the part: its own address, or a copy to be freed. */
static RtStatus room_for(const Executor *e, const DeviceCall *c, char **at, RtError *error) {
  size_t bytes = (size_t)c->tensors[0].elements * dtype_bytes((DType)c->tensors[0].dtype);
  *at = e->host_memory ? c->data[0] : malloc(bytes + 1);
  return *at ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

/* Returns the call as if the part were the whole port. */
static DeviceCall alone(const DeviceCall *c) {
  static const int64_t zero[PROGRAM_MAX_RANK];
  DeviceCall x = *c;
  x.scalars = (int64_t *)(uintptr_t)zero;
  return x;
}

static DevicePort alone_port(const DeviceCall *c, char *part) {
  return (DevicePort){.at = part, .extents = c->tensors[0].extents};
}

RtStatus entry_file_fetch(const Executor *e, const DeviceCall *c, RtError *error) {
  const CallTensor *t = &c->tensors[0];
  const DeviceCall x = alone(c);
  char *part;
  if (!e->file->writes) return RT_OK;
  RtStatus status = room_for(e, c, &part, error);
  const DevicePort port = alone_port(c, part);
  if (!status && !e->host_memory) status = e->ops->fetch(e->device, &x, &port, error);
  if (!status && e->file->copy) return copy_add(e, c, part, error);
  if (!status)
    status = move_part(e->file, tensor_of(e, c), c->scalars, t->extents, part, &e->file->sums[c->object], error);
  if (!e->host_memory) free(part);
  return status;
}

RtStatus entry_file_feed(const Executor *e, const DeviceCall *c, RtError *error) {
  const CallTensor *t = &c->tensors[0];
  const DeviceCall x = alone(c);
  char *part;
  RtStatus status = room_for(e, c, &part, error);
  if (!status) status = move_part(e->file, tensor_of(e, c), c->scalars, t->extents, part, NULL, error);
  const DevicePort port = alone_port(c, part);
  if (!status && !e->host_memory) status = e->ops->feed(e->device, &x, &port, error);
  if (!e->host_memory) free(part);
  return status;
}

RtStatus entry_file_move(const Executor *e, const char *name, const int64_t *start, const int64_t *extents, char *data,
                         RtError *error) {
  return move_part(e->file, safetensors_find(e->file->header, name), start, extents, data, NULL, error);
}

bool entry_file_writes(const Executor *e) { return e->file->writes; }

static RtStatus close_file(EntryFile *f, RtStatus status, RtError *error) {
  if (!status && f->writes) status = sync_file(f, error);
  if (f->fd >= 0 && close(f->fd) != 0 && !status && f->writes) status = failed(f, strerror(errno), error);
  copy_free(f->copy);
  free(f->sums);
  safetensors_close(f->header);
  arena_free(f->arena);
  free(f);
  return status;
}

RtStatus entry_file_close(Executor *e, RtStatus status, RtError *error) {
  EntryFile *f = e->file;
  e->file = NULL;
  if (!f) return status;
  if (!f->copy) take_sums(e, f);
  return !status && f->copy ? copy_start(e, f, error) : close_file(f, status, error);
}
