/* apc_runtime.h - running a program compiled by apc from C or C++.
 *
 *   ApcModel *model;
 *   if (apc_load("./model", NULL, &model) ||
 *       apc_bind_input(model, "x", APC_F32, 2, (int64_t[]){8, 768}, x) ||
 *       apc_run(model, NULL) ||
 *       apc_read_output(model, "y", y, sizeof y))
 *     fprintf(stderr, "%s\n", apc_error(model));
 *   apc_close(model);
 *
 * Link with libapcrt.a -lz -ljansson -lpthread -ldl -lm.
 *
 * The model runs in rank processes of its own, started from the compiled program at the first apc_run and ended by
 * apc_close, or when this process ends for whatever reason.  They keep the weights and the states (KV caches) between
 * requests.  A model is used from one thread at a time; several models may be used at once.  Nothing here prints.
 * Nothing exits either, but where a file with tensors is read or written, or a description made, and there is no memory
 * for its names: then the process ends with APC_FAILED and a line on standard error.
 *
 * A child made by fork() has no part in its parent's models: every call there returns APC_USAGE at once (or 0, NULL,
 * ""), apc_close frees the memory, and the parent's ranks go on.  The child may load models of its own.  The same holds
 * for an ApcLaunch.
 *
 * All functions return a status; anything but APC_OK leaves its explanation, one line, in apc_error.  After
 * APC_FAILED, APC_LATE or APC_UNSUPPORTED from apc_run the ranks are gone, and the next apc_run starts new ones (states
 * begin anew).
 */
#ifndef APC_RUNTIME_H
#define APC_RUNTIME_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are the exit codes of compiled programs. */
typedef enum ApcStatus {
  APC_OK = 0,
  APC_BAD_INPUT = 1,   /* a file, a tensor or a shape is wrong */
  APC_USAGE = 2,       /* no such name, or a call at the wrong time */
  APC_UNSUPPORTED = 5, /* a library or CPU instruction set is missing, or a feature is not built yet */
  APC_FAILED = 6,      /* a rank died, no memory */
  APC_LATE = 7,        /* a rank made no progress for the time-out */
  APC_INTERNAL = 70    /* an error of apc itself */
} ApcStatus;

/* Element types; bool is one byte, 0 or 1. */
typedef enum ApcType {
  APC_F32,
  APC_F64,
  APC_F16,
  APC_BF16,
  APC_I8,
  APC_I16,
  APC_I32,
  APC_I64,
  APC_U8,
  APC_U16,
  APC_U32,
  APC_U64,
  APC_BOOL
} ApcType;

enum { APC_MAX_RANK = 8 };

/* An input or output.  dims[i] is -1 where the size depends on the inputs; dim_text has the formula ("batch"). */
typedef struct ApcTensorInfo {
  const char *name;
  ApcType type;
  int rank;
  int64_t dims[APC_MAX_RANK];
  const char *dim_text[APC_MAX_RANK];
  int64_t index_below; /* elements are indices, and must be below it; -1: they are none, or it depends on the inputs */
  int64_t index_from;  /* and the least that they may be */
  int64_t index_ignored; /* but for this, which may be anywhere; without such a number index_from again */
} ApcTensorInfo;

typedef struct ApcModel ApcModel;

typedef struct ApcLaunch ApcLaunch; /* below */

typedef struct ApcOptions {
  const char *weights; /* a .safetensors; or where the model, a file of its data, or their folder is now; NULL */
  int timeout_ms;      /* longest time without progress of a rank; 0: 60000 */
  ApcLaunch *launch;   /* for the generated program itself: the ranks of a launcher; else NULL */
  int hands_on;        /* 1: SIGINT, SIGTERM and SIGUSR1 that a rank gets are handed on to this process, which has
                          handlers for them when it first runs something; 0: a rank dies of the last two */
} ApcOptions;

/* Opens a compiled program; NULL: the running one.  options may be NULL.  *model is set also after an error, for
 * apc_error; it is NULL only when there is no memory. */
ApcStatus apc_load(const char *path, const ApcOptions *options, ApcModel **model);
void apc_close(ApcModel *model); /* NULL is allowed */

/* The explanation of the last status that was not APC_OK; "" when there was none. */
const char *apc_error(const ApcModel *model);

/* ---- what the program offers */
int apc_entries(const ApcModel *model);
const char *apc_entry_name(const ApcModel *model, int index);
/* The entry that the functions below and apc_run act on; the first one at the beginning.  Inputs bound stay bound by
 * name. */
ApcStatus apc_select(ApcModel *model, const char *entry);
int apc_inputs(const ApcModel *model);
int apc_outputs(const ApcModel *model);
ApcStatus apc_input_info(ApcModel *model, int index, ApcTensorInfo *info);
ApcStatus apc_output_info(ApcModel *model, int index, ApcTensorInfo *info);
int apc_ranks(const ApcModel *model);

/* ---- inputs.  The data is copied at apc_run and must stay valid until then. */
ApcStatus apc_bind_input(ApcModel *model, const char *name, ApcType type, int rank, const int64_t *dims,
                         const void *data);
/* From text as on the command line: "@x.npy", "random", "random:SEED", "zeros".  The shape of the latter follows from
 * the other inputs, or from apc_bind_dim, or is what the program was planned for. */
ApcStatus apc_bind_input_text(ApcModel *model, const char *name, const char *text);
/* All tensors of an .npz file; each must be an input. */
ApcStatus apc_bind_inputs_file(ApcModel *model, const char *path);
ApcStatus apc_bind_dim(ApcModel *model, const char *symbol, int64_t size);

/* ---- running */

/* Runs an entry (NULL: the selected one) with the inputs bound; returns when the outputs are there. */
ApcStatus apc_run(ApcModel *model, const char *entry);
/* Runs it again with the inputs where the last apc_run put them (to measure). */
ApcStatus apc_run_again(ApcModel *model);
/* Has a rank that a launcher started set its ApcLaunchOptions.asked, as far as the last request told? */
int apc_asked(const ApcModel *model);
/* States (KV caches) go back to their first value. */
ApcStatus apc_reset(ApcModel *model);

/* Trained weights and states as they are now are kept, in as much memory again; back: they become that again.  What was
 * kept stays until it is kept anew. */
ApcStatus apc_keep(ApcModel *model);
ApcStatus apc_back(ApcModel *model);
/* After apc_run: the name of the first trained weight that has a number that is not finite, or NULL. */
ApcStatus apc_not_finite(ApcModel *model, const char **name);

/* Runs an entry without inputs, whose outputs become the tensors of a safetensors file; `meta`: n_meta keys with their
 * values, in turn.  Every rank writes its own parts, so all machines need that folder; no process holds the whole.  The
 * file replaces the one that is there when all of it is on the disk; until then it is PATH.part.  What the last apc_run
 * gave stays.  The value of a key "checksums" becomes those of the header and of all tensors. */
ApcStatus apc_write_entry(ApcModel *model, const char *entry, const char *path, const char *const *meta, int n_meta);
/* Runs an entry whose inputs are the tensors of a safetensors file, of which every rank reads its own parts; what is
 * bound does not count, and outputs are dropped. */
ApcStatus apc_read_entry(ApcModel *model, const char *entry, const char *path);

/* How many requests the last apc_run served at once: the leading extent that its first input that is no scalar has in
 * common with its first output, else 1. */
int64_t apc_batch(const ApcModel *model);

/* ---- outputs of the last apc_run, until the next */
ApcStatus apc_output_shape(ApcModel *model, const char *name, int *rank, int64_t dims[APC_MAX_RANK], size_t *bytes);
ApcStatus apc_read_output(ApcModel *model, const char *name, void *data, size_t bytes);
/* The values without a copy; valid until the next call that runs, binds or closes. */
ApcStatus apc_output_data(ApcModel *model, const char *name, const void **data);
/* Not over the program's own file or the files of its weights. */
/* May a file be written there?  Not where the program lies, or the weights that it runs with. */
ApcStatus apc_may_write(ApcModel *model, const char *path);
ApcStatus apc_write_output(ApcModel *model, const char *name, const char *npy_path);
ApcStatus apc_write_outputs(ApcModel *model, const char *npz_path);

/* ---- what it costs */
typedef struct ApcReport {
  uint64_t param_bytes, state_bytes, arena_bytes, window_bytes; /* allocated by the rank */
  uint64_t mapped_bytes;                                        /* weights used where their file is mapped */
  uint64_t sent_bytes, communications;                          /* since the ranks started */
  double load_s, run_s;                                         /* loading weights; the last request */
  uint64_t prepared; /* how often the program computed weights from others since the ranks started: once at loading, or
                        never */
  uint64_t library_bytes; /* allocated for what a device's libraries work in */
  /* Of arena_bytes, when most of it is live in the last request: whole weights put together from their parts,
   * gradients, and what the forward pass keeps for them.  0 without training. */
  uint64_t gathered_bytes, gradient_bytes, saved_bytes;
} ApcReport;
/* Of one rank, after apc_run. */
ApcStatus apc_report(ApcModel *model, int rank, ApcReport *report);
/* The same numbers as the compiler predicts them: for the dimensions bound, or those it planned for. */
ApcStatus apc_predict(ApcModel *model, int rank, ApcReport *report);

/* ---- where the time goes (docs/profile.md)
 * From the next run on every rank records what each operation takes, and of `events` calls (of all ranks together, at
 * most 2^20; 0: none) when they were made.  Called again, it begins anew. */
ApcStatus apc_record(ApcModel *model, size_t events);
/* What was recorded so far: a table for people, or one JSON document; valid until the next call of it.  Measures first
 * what the machine can do at most, which takes a few tenths of a second.  Empty after an error, which apc_error has. */
const char *apc_profile(ApcModel *model, int json);
/* The calls as a timeline in the Trace Event Format, which Chrome and Perfetto read.  *dropped (may be NULL): how many
 * calls there was no room for. */
ApcStatus apc_write_trace(ApcModel *model, const char *path, uint64_t *dropped);

/* A description of the program for people, or as one JSON document; valid until the next call of it.  Empty when there
 * is not the memory for it; apc_error says so. */
const char *apc_describe(ApcModel *model, int json);

/* What steps of training change, "trains 62 of 62 weights, 11.7 M of 11.7 M"; as apc_describe. */
const char *apc_trained(ApcModel *model);

/* ---- for the generated program itself */
/* Is this process a rank that a host started?  Then its whole life is `return apc_rank_main(argc, argv);`. */
int apc_is_rank(int argc, char **argv);
int apc_rank_main(int argc, char **argv);

/* One of several processes that a launcher started, one per rank (docs/launch.md)?  The program is the running one. */
typedef struct ApcLaunchOptions {
  int rank, world;        /* -1: as the environment says */
  const char *rendezvous; /* HOST:PORT or a file; NULL: as the environment says */
  const char *transport;  /* "tcp" or "mpi"; NULL: by the launcher */
  const char *weights;    /* as in ApcOptions, like the next */
  int timeout_ms;
  const volatile sig_atomic_t *asked; /* for apc_asked: a signal handler of this process sets it; NULL: nobody */
  int insecure;                       /* 1: ranks without a secret (APC_SECRET_FILE) may meet over a network */
  /* Called in a thread of its own when another rank failed and this process did not end within a second; does not
   * return. */
  void (*stuck)(int code, const char *error);
} ApcLaunchOptions;

/* Meets the other ranks.  *launch is NULL when this process was started alone; set also after an error. */
ApcStatus apc_launch(const ApcLaunchOptions *options, ApcLaunch **launch);
int apc_launch_rank(const ApcLaunch *launch);
/* The life of a rank other than 0: until rank 0 leaves, or something fails. *code: the exit code for this process. */
ApcStatus apc_launch_serve(ApcLaunch *launch, int *code);
const char *apc_launch_error(const ApcLaunch *launch);
/* What the user should know of the run; "" for nothing. */
const char *apc_launch_warning(const ApcLaunch *launch);
/* Should this process tell the error?  One process per machine does what all know. */
int apc_launch_tells(const ApcLaunch *launch);
/* Rank 0 ends the others with `code`; after an error any rank ends all. */
void apc_launch_close(ApcLaunch *launch, int code);

#ifdef __cplusplus
}
#endif

#endif
