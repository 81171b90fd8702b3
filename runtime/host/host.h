/* runtime/host/host.h - shared by the implementation of apc_runtime.h: host.c (loading, binding, running), files.c
 * (tensor files and texts), entry_files.c (entries whose tensors are in files), inputs.c (values of inputs for the
 * ranks), outputs.c (results), devices.c (inputs and outputs on a device), describe.c (descriptions). */
#ifndef APC_RUNTIME_HOST_HOST_H
#define APC_RUNTIME_HOST_HOST_H

#include <jansson.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "base/tensor.h"
#include "base/text.h"
#include "runtime/apc_runtime.h"
#include "runtime/device/device.h"
#include "program/artifact.h"
#include "runtime/launch/launched.h"
#include "runtime/exec/record.h"
#include "runtime/host/metrics.h"
#include "runtime/exec/request.h"
#include "runtime/session/session.h"
#include "runtime/exec/param_files.h"

/* The source of an input's values. */
typedef enum BoundKind { BOUND_DATA, BOUND_RANDOM, BOUND_ZEROS, BOUND_DEVICE } BoundKind;

typedef struct Bound {
  char *name;
  BoundKind kind;
  uint64_t seed;
  Tensor tensor; /* DATA: a view of the caller's memory, or our own if it came from a file */
  bool kept;     /* DATA: a view of the I/O area, at byte `place`: inputs.c */
  size_t place;
  DevicePlace on; /* DEVICE: the tensor's memory */
  Tensor copy;    /* DEVICE: its values on the host during a request that checks them; else empty */
} Bound;

/* Memory of the caller for an output. */
typedef struct BoundOutput {
  char *name;
  DType type;
  void *data;
  size_t bytes;
  bool on_device; /* then ranks write it */
  DevicePlace on;
} BoundOutput;

/* An output that becomes an input of the next request. */
typedef struct Feed {
  char *input, *output;
} Feed;

/* The request that fixed the sizes of the states. */
typedef struct HostStates {
  bool made; /* false: the states are initial and have no sizes yet */
  uint32_t entry;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
} HostStates;

typedef struct HostTensors HostTensors; /* devices.c */

struct ApcModel {
  Artifact artifact; /* only the tables are mapped */
  ParamFiles *files; /* NULL under a launcher, where every rank opens its own */
  char *path, *weights, *tune;
  uint64_t tune_hash; /* of the file `tune` */
  int owner;          /* the process that loaded it */
  int timeout_ms;
  bool hands_on;      /* as in ApcOptions */
  bool elastic;       /* ranks may leave, and are lost soon after they are stopped */
  bool regroup;       /* the ranks of a launcher meet again: the run goes on in another process */
  bool lost;          /* a request ended because a rank was lost; cleared by its reader */
  int threads;        /* per rank; 0: the session's rule */
  bool submitted;     /* a request runs that apc_wait or apc_cancel ends */
  bool launch_failed; /* the ranks of a launcher have failed */
  double begun_s;     /* when the request was given to the ranks */
  uint32_t entry;     /* selected */
  int64_t *fixed;     /* per symbol: bound by apc_bind_dim, or -1 */
  Bound *bound;
  size_t n_bound;
  BoundOutput *outputs;
  size_t n_outputs;
  Feed *feeds;
  size_t n_feeds;
  Session *session;   /* ranks started by this process; NULL if a launcher started them, or none run yet */
  Launched *launched; /* belongs to the ApcLaunch */
  bool inputs_new;    /* inputs changed since the last request */
  bool devices_new;   /* tensors on devices were bound, or bound no more, since the last request */
  uint32_t requests;
  char *io;
  RequestLayout layout; /* of the last request; n 0 before the first */
  uint32_t ran_entry;
  int64_t *symbols; /* of the last request */
  int64_t *checked; /* symbols for which entry checked_entry was found to fit this machine */
  uint32_t checked_entry;
  HostTensors *tensors; /* NULL until a tensor on a device is bound or allocated */
  struct {
    uint32_t n;
    uint64_t at;                       /* in the I/O area */
  } places;                            /* the DevicePlaces of the last request */
  uint64_t box;                        /* place of the RequestState of the present request in the area */
  HostStates states, kept_states;      /* of the ranks now, and at the last apc_keep */
  char (*dim_texts)[APC_MAX_RANK][64]; /* per port, then per state: the texts that ApcTensorInfo points to */
  char *description;
  struct {
    bool wanted, on;   /* on: the ranks record */
    uint64_t capacity; /* events per rank */
    char *records;     /* record_bytes per rank; NULL: not fetched since the last run */
    double asked_s;    /* duration of the recorded runs, as the host measures it */
    char *text;        /* the last result of apc_profile */
  } profile;
  Metrics *metrics; /* NULL without apc_metrics */
  RtError error;
};

/* The ranks of a launcher, and this process as one of them. */
struct ApcLaunch {
  Launch place;
  Launched *launched;
  Artifact artifact;
  void (*stuck)(int code, const char *error);
  const char *elastic; /* as in ApcLaunchOptions, like the next one; NULL if the ranks do not meet again */
  char *const *argv;
  bool ended; /* the run ended while this process waited to be taken in */
  int owner;
  RtError error;
};

enum { LAUNCH_REGROUP = 250 }; /* the code with which rank 0 ends a round so that all ranks meet again */

/* True if the ranks meet again after the end of this round: one was lost, or `code` says so. */
bool host_launch_meets(const ApcLaunch *l, int code);
/* Ends the round: tells the others, and frees the ranks but not the launch. */
void host_launch_leave(ApcLaunch *l, int code);
/* Meets the others and starts the program again; `leaves`: this rank does not come.  Returns only with an error, or
 * APC_OK if it left or the run has ended. */
ApcStatus host_launch_again(ApcLaunch *l, int code, bool leaves);

/* Returns the public status; host_error also records the error. */
ApcStatus host_status(ApcModel *m, RtStatus status);
ApcStatus host_error(ApcModel *m, RtStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Begins a public call: clears the last error.  False if the model could not be loaded (then the error stays), and in a
 * child process of the one that loaded it. */
bool host_begin(ApcModel *m);

/* As apc_load, for the Program for that number of ranks; 0: the first one. */
ApcStatus host_load(const char *path, const ApcOptions *options, int ranks, ApcModel **model);

/* Ends the ranks and goes on with the Program for another number of them, which starts with initial states.  Bound
 * inputs, outputs and dimensions stay. */
ApcStatus host_switch(ApcModel *m, int ranks);
/* Returns how many ranks have asked to leave since they were started, or at the last request of a launcher's ranks. */
int host_leaving(const ApcModel *m);

/* Returns the binding of an input; NULL if there is none. */
Bound *host_bound(const ApcModel *m, const char *name);

/* runtime/host/check.c: refuse requests before anything runs, for the symbols in m->symbols.  RT_BAD_INPUT for an index
 * outside its table, another value than the program was compiled for, sizes that the model excludes, and sizes that
 * need more memory than this machine has. */
RtStatus host_check_values(ApcModel *m, uint32_t entry);
RtStatus host_check_sizes(ApcModel *m, uint32_t entry);
RtStatus host_check_memory(ApcModel *m, uint32_t entry, uint64_t io_bytes);

/* Checks whether an input of that name may be bound to a tensor like this one: name, type and fixed dimensions. */
ApcStatus host_accepts(ApcModel *m, const char *name, const Tensor *like);

/* Readers and writers of files collect diagnostics in an arena.  host_files_end frees it and returns `status`, or
 * records the first error of the diagnostics and returns that. */
typedef struct HostFiles {
  Arena *arena;
  Diags *diags;
} HostFiles;

/* Begin and end the diagnostics of one file. */
HostFiles host_files_begin(void);
ApcStatus host_files_end(ApcModel *m, HostFiles f, const char *path, ApcStatus status);

/* Binds the input of that name; takes ownership of the tensor, even on errors. */
ApcStatus host_bind(ApcModel *m, const char *name, Bound bound);
/* Removes the binding of an input. */
void host_unbind(ApcModel *m, const char *name);
/* Binds the tensor of a file, whose whole numbers may have another type (base/whole.h); takes ownership of it. */
ApcStatus host_bind_numbers(ApcModel *m, const char *name, Tensor t);

/* Computes the symbols from the present bindings. */
RtStatus host_symbols(ApcModel *m, uint32_t entry, int64_t *symbols);

/* Starts the ranks if none run. */
RtStatus host_start(ApcModel *m);
/* Sends the ranks a request and waits for its end. */
RtStatus host_request(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols, uint32_t n_symbols);
/* The same for a request with a file of inputs or outputs; starts the ranks if none run. */
RtStatus host_request_file(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols,
                           const RequestFile *file);
/* Finds an entry that callers may run; RT_USAGE if there is none of that name. */
RtStatus host_find_entry(ApcModel *m, const char *name, uint32_t *out);
/* Finds the type of an input or an output of any entry; APC_USAGE if no entry has one of that name. */
ApcStatus host_find_type(ApcModel *m, const char *name, bool output, DType *type);
double host_now(void); /* a monotonic time in seconds */

/* runtime/host/inputs.c.  Makes the I/O area at least so large and sets m->io. */
RtStatus host_io(ApcModel *m, size_t bytes);
/* Copies the inputs of the request into the I/O area at m->layout, where the ranks read them. */
RtStatus host_inputs_place(ApcModel *m, uint32_t entry);
/* Before the last request runs again: bound views show the inputs that it takes, not outputs that it will overwrite. */
RtStatus host_inputs_again(ApcModel *m);
/* Before the I/O area goes: copies bound tensors out of it; those without memory for a copy lose their binding. */
void host_inputs_take_back(ApcModel *m);

/* Returns the first byte of the I/O area after its data: the last layout, and inputs that lie there. */
size_t host_inputs_end(const ApcModel *m);

/* runtime/host/entry_files.c: write and read a file with the ranks, for a request with a file.  host_write_tensors
 * reports faults of the file to f->diags; `mark` is the hash of the header of the file to be read. */
RtStatus host_write_tensors(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols,
                            const SafetensorsHeader *h, const char *path, const HostFiles *f);
ApcStatus host_read_tensors(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols, uint64_t mark,
                            const char *path);
/* Makes the header of a file with the outputs of an entry; n_meta pairs of metadata.  False after a diagnostic. */
bool host_tensors_header(const ApcModel *m, uint32_t entry, const RequestLayout *l, const char *path,
                         const char *const *meta, int n_meta, const HostFiles *f, SafetensorsHeader *out);
/* Returns a number that no other run has, for RequestFile.mark. */
uint64_t host_fresh_mark(const ApcModel *m);
/* APC_OK if the file has all inputs of the entry, as the program requires them, and no other tensors. */
ApcStatus host_tensors_fit(ApcModel *m, uint32_t entry, const char *path, const Safetensors *s);

/* The outputs of an entry without inputs go into a file as with apc_write_entry, but `begin` returns when the ranks
 * have a copy of them, which they write beside later requests: one file at a time.  `runs`: by the reports of the last
 * run some rank still writes.  `end` waits, makes the file whole under its name, and frees; if the ranks have failed
 * since, it succeeds if each had written its parts before it ended; if they fail now, the file may be *whole all the
 * same.  `drop` gives it up (NULL is allowed). */
typedef struct HostWrite HostWrite;
ApcStatus host_write_begin(ApcModel *m, const char *entry, const char *path, const char *const *meta, int n_meta,
                           HostWrite **out);
bool host_write_runs(const ApcModel *m);
ApcStatus host_write_end(ApcModel *m, HostWrite *x, bool *whole);
void host_write_drop(HostWrite *x);

/* runtime/host/memory_file.c: as apc_write_entry and apc_read_entry, with a file in memory (memfd_create) that the
 * ranks, on this machine, open as well. */
ApcStatus host_write_memory(ApcModel *m, const char *entry, int fd, uint64_t *bytes);
ApcStatus host_read_memory(ApcModel *m, const char *entry, int fd);

/* runtime/host/state_files.c.  Notes the effect of a successful request on the sizes of the states. */
void host_states_note(ApcModel *m, RequestKind kind, uint32_t entry, const int64_t *symbols);
/* A tensor for a state; rank -1: there is none. */
typedef struct StateTensor {
  DType type;
  int rank;
  int64_t dims[TENSOR_MAX_RANK];
} StateTensor;
/* Sets the symbols for states with these sizes: as bound, else by dimensions that are just a symbol, else as planned.
 * RT_BAD_INPUT, which begins with `who`, if the tensors are not exactly the states. */
RtStatus host_states_symbols(ApcModel *m, const char *who, const StateTensor *tensors, int64_t *symbols);
/* Computes the present shape of a state; RT_USAGE if the states are initial. */
RtStatus host_state_shape(ApcModel *m, uint32_t state, StateTensor *out);
/* RT_USAGE if the program has no states. */
RtStatus host_has_states(ApcModel *m);

/* runtime/host/outputs.c.  RT_BAD_INPUT if a result of the request at m->layout does not fit the memory bound to it. */
RtStatus host_outputs_check(ApcModel *m, uint32_t entry);
/* After a request: copies results to the memory bound to them, and binds the inputs that they feed. */
RtStatus host_outputs_deliver(ApcModel *m);
void host_outputs_free(ApcModel *m);

/* runtime/host/devices.c.  Before the checks of a request: waits for the caller's work on the devices of its tensors,
 * and reads the values that the host checks. */
RtStatus host_devices_begin(ApcModel *m, uint32_t entry);
/* Writes the places of the request's tensors on devices after the inputs in the I/O area, or none if there are none. */
RtStatus host_devices_place(ApcModel *m, uint32_t entry);
/* True if the port of that number in the layout lay on a device in the last request. */
bool host_devices_have(const ApcModel *m, uint32_t number);
/* Returns the input's tensor if its values are on the host now, else NULL. */
const Tensor *host_values(const Bound *b);
void host_devices_free(ApcModel *m);
/* The memory, which apc_device_free must be called for once more. */
ApcDeviceMemory *host_device_hold(ApcDeviceMemory *memory);
int host_device_number(const ApcDeviceMemory *memory);
size_t host_device_bytes(const ApcDeviceMemory *memory);

/* runtime/host/record.c.  Makes the ranks record, if that is wanted and they do not yet. */
RtStatus host_record_begin(ApcModel *m);
/* Drops fetched records: there are newer ones. */
void host_record_stale(ApcModel *m);
/* Fetches `bytes` from each rank (request_gives), in the order of ranks. */
RtStatus host_fetch(ApcModel *m, RequestKind kind, void *to, size_t bytes);
/* Fetches the records of all ranks, unless they are here; then host_record_of returns those of a rank. */
RtStatus host_record_fetch(ApcModel *m);
RecordHead *host_record_of(const ApcModel *m, uint32_t rank);

/* runtime/host/trace.c: writes the fetched events as one JSON document; false after a diagnostic of the writer. */
bool host_trace_write(ApcModel *m, FileWriter *w, uint64_t *dropped);

/* Adds the inputs and outputs of every entry, and the dimensions, to a text. */
void host_ports_text(const Program *p, Text *t);

/* Returns a JSON document as text from malloc; NULL for NULL, or without memory. */
char *host_json_text(const json_t *d);

/* Returns the number of an output of the last request; -1 after recording the error.  host_output_here also requires
 * that its values are in the I/O area. */
int host_output(ApcModel *m, const char *name);
int host_output_here(ApcModel *m, const char *name);
/* Finds the memory bound to an output; NULL if there is none. */
BoundOutput *host_bound_output(const ApcModel *m, const char *name);
/* Binds an output, in place of an earlier binding.  `b` without a name. */
ApcStatus host_bind_output(ApcModel *m, const char *name, BoundOutput b);
/* Returns the number of an output in the layout of an entry; -1 if the entry has none of that name. */
int host_output_of(const ApcModel *m, uint32_t entry, const char *name);
/* RT_USAGE if there is no last request. */
RtStatus host_has_run(ApcModel *m);

/* Writes "; did you mean 'x'?" or "; there are: x, y" for a name that is not among n ports. */
void host_suggest(const Program *p, uint32_t first, uint32_t n, const char *name, char *text, size_t size);

#endif
