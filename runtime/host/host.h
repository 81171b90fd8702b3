/* runtime/host/host.h - what the files behind apc_runtime.h share: host.c (loading, binding, running), files.c (tensor
 * files and texts), entry_files.c (entries whose tensors are in files), inputs.c (their values to the ranks),
 * describe.c (descriptions). */
#ifndef APC_RUNTIME_HOST_HOST_H
#define APC_RUNTIME_HOST_HOST_H

#include <jansson.h>

#include "base/file.h"
#include "base/tensor.h"
#include "runtime/apc_runtime.h"
#include "program/artifact.h"
#include "runtime/launch/launched.h"
#include "runtime/exec/record.h"
#include "runtime/exec/request.h"
#include "runtime/session/session.h"
#include "runtime/exec/param_files.h"

/* What an input is bound to. */
typedef enum BoundKind { BOUND_DATA, BOUND_RANDOM, BOUND_ZEROS } BoundKind;

typedef struct Bound {
  char *name;
  BoundKind kind;
  uint64_t seed;
  Tensor tensor; /* DATA: a view of the caller's memory, or ours when it came from a file */
  bool kept;     /* DATA: a view of the I/O area, at byte `place`: inputs.c */
  size_t place;
} Bound;

struct ApcModel {
  Artifact artifact; /* the tables alone */
  ParamFiles *files; /* NULL under a launcher, where every rank has its own */
  char *path, *weights;
  int owner; /* the process that loaded it */
  int timeout_ms;
  bool hands_on;  /* as in ApcOptions */
  uint32_t entry; /* selected */
  int64_t *fixed; /* per symbol: bound by apc_bind_dim, or -1 */
  Bound *bound;
  size_t n_bound;
  Session *session;   /* ranks started by this process; NULL when a launcher did, or none run yet */
  Launched *launched; /* the caller's */
  bool inputs_new;    /* since the last request */
  uint32_t requests;
  char *io;
  RequestLayout layout; /* of the last request; n 0 before the first */
  uint32_t ran_entry;
  int64_t *symbols; /* of the last request */
  int64_t *checked; /* symbols for which entry checked_entry was found to fit this machine */
  uint32_t checked_entry;
  char (*dim_texts)[APC_MAX_RANK][64]; /* per port: what ApcTensorInfo points to */
  char *description;
  struct {
    bool wanted, on;   /* on: the ranks have been told */
    uint64_t capacity; /* events per rank */
    char *records;     /* record_bytes per rank; NULL: not fetched since the last run */
    double asked_s;    /* in recorded runs, as the host sees them */
    char *text;        /* the last one of apc_profile */
  } profile;
  RtError error;
};

/* The ranks of a launcher, and this process as one of them. */
struct ApcLaunch {
  Launch place;
  Launched *launched;
  Artifact artifact;
  void (*stuck)(int code, const char *error);
  int owner;
  RtError error;
};

/* Records the error and gives the public status. */
ApcStatus host_status(ApcModel *m, RtStatus status);
ApcStatus host_error(ApcModel *m, RtStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Begins a public call: forgets the last error.  False when the model could not be loaded (the error then stays), and
 * in a process that is a child of the one that loaded it. */
bool host_begin(ApcModel *m);

/* What the input of that name is bound to; NULL. */
Bound *host_bound(const ApcModel *m, const char *name);

/* runtime/host/check.c: refusals before anything runs, for the symbols in m->symbols. */
RtStatus host_check_indices(ApcModel *m, uint32_t entry);
RtStatus host_check_sizes(ApcModel *m, uint32_t entry);
RtStatus host_check_memory(ApcModel *m, uint32_t entry, uint64_t io_bytes);

/* May an input of that name be bound to a tensor like this one?  Its name, type and fixed dimensions are looked at. */
ApcStatus host_accepts(ApcModel *m, const char *name, const Tensor *like);

/* Readers and writers of files collect diagnostics in an arena; the first error becomes ours, unless `status` is one.
 */
typedef struct HostFiles {
  Arena *arena;
  Diags *diags;
} HostFiles;

HostFiles host_files_begin(void);
ApcStatus host_files_end(ApcModel *m, HostFiles f, const char *path, ApcStatus status);

/* Binds an input of that name; takes over the tensor. */
ApcStatus host_bind(ApcModel *m, const char *name, Bound bound);
/* Nothing is bound to it any more. */
void host_unbind(ApcModel *m, const char *name);
/* The same with a file's tensor, which may have whole numbers in another type (base/whole.h). */
ApcStatus host_bind_numbers(ApcModel *m, const char *name, Tensor t);

/* Symbols under the present bindings. */
RtStatus host_symbols(ApcModel *m, uint32_t entry, int64_t *symbols);

/* Gives the ranks a request and waits for its end. */
RtStatus host_request(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols, uint32_t n_symbols);
/* The same where inputs or outputs are in a file; starts the ranks if there are none. */
RtStatus host_request_file(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols,
                           const RequestFile *file);
/* An entry that can be run. */
RtStatus host_find_entry(ApcModel *m, const char *name, uint32_t *out);
double host_now(void); /* seconds */

/* runtime/host/inputs.c.  Makes the I/O area at least so large and sets m->io. */
RtStatus host_io(ApcModel *m, size_t bytes);
/* Puts the inputs of the request in m->layout where the ranks read them. */
RtStatus host_inputs_place(ApcModel *m, uint32_t entry);
/* Before the I/O area goes: what is bound lies nowhere in it any more; what there is no memory for is not bound any
 * more. */
void host_inputs_take_back(ApcModel *m);

/* runtime/host/record.c.  Tells the ranks to record, where that is wanted and they have not been told. */
RtStatus host_record_begin(ApcModel *m);
/* What was fetched is no longer all. */
void host_record_stale(ApcModel *m);
/* What all ranks give (request_gives), `bytes` each, in turn. */
RtStatus host_fetch(ApcModel *m, RequestKind kind, void *to, size_t bytes);
/* Fetches what all ranks recorded, unless it is there; then that of a rank. */
RtStatus host_record_fetch(ApcModel *m);
RecordHead *host_record_of(const ApcModel *m, uint32_t rank);

/* runtime/host/trace.c: the events fetched as one JSON document; false after the writer's diagnostic. */
bool host_trace_write(ApcModel *m, FileWriter *w, uint64_t *dropped);

/* A document as text, from malloc; NULL without memory, or for NULL. */
char *host_json_text(const json_t *d);

/* Finds an output of the last request; -1 after recording the error. */
int host_output(ApcModel *m, const char *name);

/* "did you mean 'x'?" or "there are: x, y". */
void host_suggest(const Program *p, uint32_t first, uint32_t n, const char *name, char *text, size_t size);

#endif
