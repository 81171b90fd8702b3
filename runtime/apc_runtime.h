/* apc_runtime.h - runs a program compiled by apc from C or C++.
 *
 *   ApcModel *model;
 *   if (apc_load("./model", NULL, &model) ||
 *       apc_bind_input(model, "x", APC_F32, 2, (int64_t[]){8, 768}, x) ||
 *       apc_run(model, NULL) ||
 *       apc_read_output(model, "y", y, sizeof y))
 *     fprintf(stderr, "%s\n", apc_error(model));
 *   apc_close(model);
 *
 * Link with libapcrt.so, or with libapcrt.a -lz -ljansson -lpthread -ldl -lm.
 *
 * The model runs in rank processes of its own.  The first apc_run starts them from the compiled program; apc_close ends
 * them, and so does the end of this process for whatever reason.  They keep the weights and the states (KV caches)
 * between requests.  Use a model from one thread at a time; several models may be used at once.  The library prints
 * nothing.  It exits in one case only: if memory runs out for names while it reads or writes a tensor file or makes a
 * description, the process ends with APC_FAILED and a line on standard error.
 *
 * A child made by fork() cannot use its parent's models: every call there returns APC_USAGE at once (or 0, NULL, ""),
 * apc_close frees the memory, and the parent's ranks keep running.  The child may load models of its own.  The same
 * holds for an ApcLaunch.
 *
 * A function that does not return APC_OK leaves an explanation of one line in apc_error (apc_launch_error for an
 * ApcLaunch).  After APC_FAILED, APC_LATE or APC_UNSUPPORTED from apc_run the ranks are gone; the next apc_run starts
 * new ones, with initial states.
 *
 * Stable: within one SONAME (libapcrt.so.0), the functions, structs and numbers of this header keep their meaning and
 * layout; settings and figures that come later get functions of their own, whose symbols have the version that
 * introduced them (APC_0.1).  The last part, for generated programs, may change in any version: a generated program
 * contains the runtime that it needs.  A program of another version of apc is refused by apc_load.
 */
#ifndef APC_RUNTIME_H
#define APC_RUNTIME_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Return the version of the library, as "0.1.0", and as a number: 10000 major + 100 minor + patch. */
const char *apc_version(void);
int apc_version_number(void);

/* Statuses; the numbers except APC_PENDING are the exit codes of compiled programs. */
typedef enum ApcStatus {
  APC_OK = 0,
  APC_BAD_INPUT = 1,   /* a file, a tensor or a shape is wrong */
  APC_USAGE = 2,       /* no such name, or a call at the wrong time */
  APC_UNSUPPORTED = 5, /* a library or CPU instruction set is missing, or a feature is not built yet */
  APC_FAILED = 6,      /* a rank died, or there is no memory */
  APC_LATE = 7,        /* a rank made no progress for the time-out */
  APC_INTERNAL = 70,   /* a bug in apc */
  APC_PENDING = 100    /* apc_wait: the request still runs; no error, and no exit code */
} ApcStatus;

/* Element types; bool is one byte, 0 or 1.  Floats of 8 bits are one byte; f4, i4, u4, i2 and u2 are the low bits of a
 * byte, the others 0, as NumPy's ml_dtypes has them. */
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
  APC_BOOL,
  APC_F8E4M3FN,
  APC_F8E4M3FNUZ,
  APC_F8E5M2,
  APC_F8E5M2FNUZ,
  APC_F8E8M0,
  APC_F4E2M1,
  APC_I4,
  APC_U4,
  APC_I2,
  APC_U2
} ApcType;

enum { APC_MAX_RANK = 8 };

/* An input, an output or a state.  dims[i] is -1 if the size depends on the inputs; dim_text[i] is its formula
 * ("batch").  The strings belong to the model. */
typedef struct ApcTensorInfo {
  const char *name;
  ApcType type;
  int rank;
  int64_t dims[APC_MAX_RANK];
  const char *dim_text[APC_MAX_RANK];
  int64_t index_below; /* elements are indices below this; -1 if they are none, or if the bound depends on the inputs */
  int64_t index_from;  /* the least allowed index */
  int64_t index_ignored; /* an index that is allowed anywhere, such as a label to ignore; index_from if there is none */
} ApcTensorInfo;

typedef struct ApcModel ApcModel;

typedef struct ApcLaunch ApcLaunch; /* see apc_launch */

typedef struct ApcOptions {
  const char *weights; /* a .safetensors file, or the present place of the model file, its data file or their folder;
                        * NULL: as compiled */
  int timeout_ms;      /* longest time in which a rank makes no progress, in ms; 0: 60000 */
  ApcLaunch *launch;   /* only for the generated program: the ranks of a launcher; else NULL */
  int hands_on;        /* 1: a rank that gets SIGINT, SIGTERM or SIGUSR1 passes it to this process, which must handle
                        * them from its first run on; 0: SIGTERM and SIGUSR1 end the rank */
  const char *tune;    /* a file of choices among the ways to compute on a GPU.  If it does not exist, the first request
                        * of each size times them, and makes it.  NULL: the libraries' recommendations */
} ApcOptions;

/* Opens a compiled program; path NULL: the running one. options may be NULL.  Sets *model even after an error, for
 * apc_error; *model is NULL only if there is no memory.  Close it with apc_close. */
ApcStatus apc_load(const char *path, const ApcOptions *options, ApcModel **model);
void apc_close(ApcModel *model); /* ends the ranks and frees the model; NULL is allowed */

/* Returns the explanation of the last call if it did not return APC_OK, else "".  NULL, from apc_load without memory,
 * is allowed. */
const char *apc_error(const ApcModel *model);

/* ---- what the program offers */

/* Return the number of entries, and the name of entry `index`; NULL if there is none. */
int apc_entries(const ApcModel *model);
const char *apc_entry_name(const ApcModel *model, int index);
/* Selects the entry for the functions below and for apc_run(model, NULL); initially the first entry.  Inputs stay bound
 * by name.  APC_USAGE if there is no such entry. */
ApcStatus apc_select(ApcModel *model, const char *entry);
/* Return the number of inputs and of outputs of the selected entry; 0 if the model could not be loaded. */
int apc_inputs(const ApcModel *model);
int apc_outputs(const ApcModel *model);
/* Describe input or output `index` of the selected entry; APC_USAGE if there is none. */
ApcStatus apc_input_info(ApcModel *model, int index, ApcTensorInfo *info);
ApcStatus apc_output_info(ApcModel *model, int index, ApcTensorInfo *info);
/* apc_states returns the number of states (KV caches) of the program, which all its entries share; 0 if the model could
 * not be loaded.  apc_state_info describes state `index`, whose shape is that of the whole state even if the ranks hold
 * parts of it; index_below is -1.  A size of -1 is fixed by the first request after apc_load or apc_reset.  APC_USAGE
 * if there is no such state. */
int apc_states(const ApcModel *model);
ApcStatus apc_state_info(ApcModel *model, int index, ApcTensorInfo *info);
/* Returns the number of ranks that run the program; 0 if the model could not be loaded. */
int apc_ranks(const ApcModel *model);

/* ---- inputs */

/* Binds an input to the caller's memory: a C-contiguous tensor with dims[rank].  apc_run copies the data, which must
 * stay valid and unchanged until then.  APC_USAGE if there is no such input; APC_BAD_INPUT if its type differs or the
 * shape is impossible.  apc_run checks the sizes. */
ApcStatus apc_bind_input(ApcModel *model, const char *name, ApcType type, int rank, const int64_t *dims,
                         const void *data);
/* Binds an input to a text as on the command line: "@x.npy", "random", "random:SEED" or "zeros".  The shape of random
 * and zeros follows from the other inputs, or from apc_bind_dim; else it is the shape that the program was planned for.
 * Reads a file at once; its numbers may have another type if they are whole and fit. */
ApcStatus apc_bind_input_text(ApcModel *model, const char *name, const char *text);
/* Binds all tensors of an .npz file by name.  APC_BAD_INPUT if one of them is no input. */
ApcStatus apc_bind_inputs_file(ApcModel *model, const char *path);
/* Sets the size of a symbolic dimension.  APC_USAGE if there is no such dimension; APC_BAD_INPUT if the size is
 * negative. */
ApcStatus apc_bind_dim(ApcModel *model, const char *symbol, int64_t size);

/* Makes each result of `output` the value of `input` in the next request: a cache that one request returns and the next
 * one takes.  The first request takes the value that is bound to the input.  output NULL ends this.  Each successful
 * apc_run, apc_run_again or apc_wait of an entry that has the output binds the input, in place of an earlier binding;
 * a later apc_bind_input replaces that for one request.  After a request that failed or was cancelled the input has the
 * value that this request took.  apc_reset does not change it.
 * Cost: the next request copies the values once, within the memory shared with the ranks, and twice if the places of
 * its inputs overlap the old place of the output, as may happen when sizes change.  APC_USAGE if there is no such
 * input or output in any entry; APC_BAD_INPUT if their types differ; APC_UNSUPPORTED with the ranks of a launcher. */
ApcStatus apc_feed_input(ApcModel *model, const char *input, const char *output);

/* Binds an output to memory of the caller, which has room for `bytes`; NULL ends the binding.  Every apc_run,
 * apc_run_again and apc_wait that returns APC_OK has copied the result there, C-contiguous; after any other status the
 * memory is unchanged.  apc_output_shape reports the size, which may be less than `bytes`.  The memory may be that of a
 * bound input, since inputs are copied before the request starts.  APC_USAGE if no entry has such an output;
 * APC_BAD_INPUT if its type differs, and from apc_run, before anything runs, if the result would not fit. */
ApcStatus apc_bind_output(ApcModel *model, const char *name, ApcType type, void *data, size_t bytes);

/* Sets the threads of each rank; 0, as initially: the usable CPUs divided by the ranks, at least 1.  APC_USAGE if the
 * number is negative or above 65536, if ranks run already, or with the ranks of a launcher. */
ApcStatus apc_set_threads(ApcModel *model, int threads);

/* ---- tensors on a device: programs for GPUs only, APC_BAD_INPUT for others; APC_UNSUPPORTED with the ranks of a
 * launcher
 *
 * The memory is the caller's, of CUDA device `device` (its number in this process): from cudaMalloc, cuMemAlloc,
 * apc_device_alloc, or an allocator over them such as PyTorch's.  Ranks are other processes and use the memory by
 * CUDA's handles for that, so APC_UNSUPPORTED for memory that has none: of cudaMallocAsync, cuMemCreate, or managed.
 *
 * A tensor is whole on one device, whatever the number of ranks: every rank copies its part from there or to there,
 * from another GPU over NVLink or PCIe.  No value goes through the host, except that apc_run also copies inputs with
 * indices, or with values that the program was compiled for, to the host, in order to check them.
 *
 * Order: a request waits for all work that was given before to the default stream of the device, and to streams that
 * are ordered with it.  Work of other streams must have ended.  Results are complete when apc_run or apc_wait returns.
 */

/* Binds an input as apc_bind_input does, to memory of a device.  Ranks read it during the request: it must stay valid
 * and unchanged until apc_run, or apc_wait, returns.  Once it is freed, bind the input anew before the next request.
 * APC_BAD_INPUT if it is not memory of that device, or has too few bytes. */
ApcStatus apc_bind_device_input(ApcModel *model, const char *name, ApcType type, int rank, const int64_t *dims,
                                int device, const void *data);
/* Binds an output as apc_bind_output does; NULL ends the binding.  The ranks write it directly: its contents are
 * undefined during a request, and after one that failed.  apc_output_shape reports its shape; the other functions of
 * outputs return APC_USAGE for it.  The memory may not be that of an input, and the output may not feed one. */
ApcStatus apc_bind_device_output(ApcModel *model, const char *name, ApcType type, int device, void *data, size_t bytes);
/* Reports the shape and the bytes that an output of an entry (NULL: the selected one) will have with the bound inputs,
 * for an output in memory of any kind.  If data decide its size, they are the largest, which bound memory must have
 * room for; apc_output_shape reports those of the result.  APC_USAGE if there is no such output; APC_BAD_INPUT if the
 * inputs do not fit. */
ApcStatus apc_expected_shape(ApcModel *model, const char *entry, const char *name, int *rank,
                             int64_t dims[APC_MAX_RANK], size_t *bytes);

/* apc_device_alloc allocates memory that can be bound; it stays valid until apc_device_free, even after apc_close.
 * apc_device_data returns its address.  apc_device_free may be called from any thread; NULL is allowed.
 * apc_device_read and apc_device_write copy `bytes`, from `offset` on, to and from the host's memory, after earlier
 * work of the default stream, and wait.  APC_USAGE if the memory is smaller; APC_FAILED if the device fails. */
typedef struct ApcDeviceMemory ApcDeviceMemory;
ApcStatus apc_device_alloc(ApcModel *model, int device, size_t bytes, ApcDeviceMemory **memory);
void *apc_device_data(const ApcDeviceMemory *memory);
void apc_device_free(ApcDeviceMemory *memory);
ApcStatus apc_device_read(const ApcDeviceMemory *memory, size_t offset, void *to, size_t bytes);
ApcStatus apc_device_write(ApcDeviceMemory *memory, size_t offset, const void *from, size_t bytes);
/* Returns the memory as a C-contiguous tensor for other libraries, a DLManagedTensor of DLPack.  The memory then stays
 * valid until both apc_device_free and the tensor's deleter, which any thread may call, were called.  NULL if DLPack
 * has no such type, the memory is smaller, or the host has no memory. */
void *apc_device_dlpack(ApcDeviceMemory *memory, ApcType type, int rank, const int64_t *dims);
/* For Python: returns the destructor for capsules of such tensors, named "dltensor"; it calls the deleter unless the
 * capsule was taken.  It needs PyCapsule_IsValid and PyCapsule_GetPointer, runs no code in Python, and leaves a pending
 * exception as it is. */
typedef int (*ApcCapsuleIs)(void *capsule, const char *name);
typedef void *(*ApcCapsulePointer)(void *capsule, const char *name);
typedef void (*ApcCapsuleEnd)(void *capsule);
ApcCapsuleEnd apc_capsule_destructor(ApcCapsuleIs is_valid, ApcCapsulePointer get_pointer);

/* ---- running */

/* Runs an entry (NULL: the selected one) with the bound inputs; returns when all outputs are ready.  Starts the ranks
 * if none run.  APC_BAD_INPUT if an input is missing or does not fit. */
ApcStatus apc_run(ApcModel *model, const char *entry);
/* apc_submit starts a request as apc_run does, and returns once the inputs are copied.  Until apc_wait or apc_cancel
 * ends the request, every other function that returns an ApcStatus refuses the model with APC_USAGE; apc_close ends
 * the ranks at once.  APC_UNSUPPORTED with the ranks of a launcher.
 * apc_wait waits at most timeout_ms (negative: without limit; 0: not at all).  APC_PENDING if the request still runs;
 * else it has ended, and the status is that of apc_run.  APC_USAGE if no request was submitted, or it has ended before.
 * apc_cancel ends the request and its ranks without waiting for them to finish, in some tens of milliseconds.  The next
 * request starts new ranks, which load the weights again, with initial states; bindings stay.  APC_USAGE as apc_wait.
 * All three are for the one thread that uses the model: to cancel from outside, let that thread wait in short steps. */
ApcStatus apc_submit(ApcModel *model, const char *entry);
ApcStatus apc_wait(ApcModel *model, int timeout_ms);
ApcStatus apc_cancel(ApcModel *model);
/* Runs the last entry again with the inputs of the last apc_run, without copying them (for measurements).  APC_USAGE if
 * nothing has run, or if tensors on devices were bound since, or are bound no more. */
ApcStatus apc_run_again(ApcModel *model);
/* Returns 1 if, at the end of the last request, ApcLaunchOptions.asked was set in any rank of the launcher; else 0. */
int apc_asked(const ApcModel *model);
/* Resets the states (KV caches) to their initial values. */
ApcStatus apc_reset(ApcModel *model);

/* apc_keep saves a copy of the trained weights and states in memory, which takes their size once more; the next
 * apc_keep replaces it.  apc_back restores the saved copy; states that were still initial become initial again.
 * APC_INTERNAL if apc_keep was not called on these ranks. */
ApcStatus apc_keep(ApcModel *model);
ApcStatus apc_back(ApcModel *model);
/* After apc_run: sets *name to the first trained weight that holds an infinity or a NaN; NULL if there is none. */
ApcStatus apc_not_finite(ApcModel *model, const char **name);

/* Runs an entry without inputs and writes its outputs as the tensors of a safetensors file.  `meta` holds n_meta pairs
 * of key and value.  Every rank writes the parts it owns, so all machines need access to that folder; no process holds
 * the whole.  The file is PATH.part until all of it is on the disk, and then replaces PATH.  The outputs of the last
 * apc_run stay.  If a key is "checksums", apc replaces its value by the checksums of the header and of all tensors.
 * APC_USAGE if the entry has inputs, APC_UNSUPPORTED if data decide the size of an output, and as apc_may_write. */
ApcStatus apc_write_entry(ApcModel *model, const char *entry, const char *path, const char *const *meta, int n_meta);
/* Runs an entry whose inputs are the tensors of a safetensors file; every rank reads the parts it needs.  Bound inputs
 * are not used, and outputs are dropped.  APC_BAD_INPUT if the tensors of the file are not exactly the inputs. */
ApcStatus apc_read_entry(ApcModel *model, const char *entry, const char *path);

/* Write and read a checkpoint of a training program, DIR/checkpoint.safetensors: all trained weights and the states of
 * the optimizer, the number of steps, checksums.  It is the file of the program's options --checkpoint and --resume, so
 * either may continue what the other began; only the identity of data files is missing.  apc_write_checkpoint makes the
 * folder if needed, and replaces the file at once.  apc_read_checkpoint sets *steps, the number of the next step
 * counted from 0, which the input `step` takes.  APC_USAGE without --train, and to write if `dir` ends in .safetensors;
 * APC_BAD_INPUT for a damaged file or one of another model: then nothing has changed. */
ApcStatus apc_write_checkpoint(ApcModel *model, const char *dir, int64_t steps);
ApcStatus apc_read_checkpoint(ApcModel *model, const char *dir, int64_t *steps);

/* apc_save_states writes all states as the tensors of a safetensors file, such as the cache of a system prompt;
 * apc_load_states replaces the states by those of a file.  The file has whole tensors, so a program that splits the
 * states otherwise, or over another number of ranks, can load it.  Every rank reads and writes its own parts, so all
 * machines need access to that folder.  The file is replaced at once, as by apc_write_entry.  The weights are not
 * compared: only a program with the weights of the one that saved them gives states a meaning.
 * A state's size that is just a symbol follows from the file, unless apc_bind_dim sets it.  APC_BAD_INPUT, before
 * anything changes, if the tensors of the file are not exactly the states, with their types and sizes.  If reading
 * fails after that, the ranks are gone, as after APC_FAILED.  apc_save_states returns APC_USAGE if the states are
 * initial, and as apc_may_write; both return APC_USAGE if the program has no states. */
ApcStatus apc_save_states(ApcModel *model, const char *path);
ApcStatus apc_load_states(ApcModel *model, const char *path);

/* States as arrays.  apc_state_shape reports the present shape of a state and its bytes.  apc_read_state and
 * apc_write_state copy a box of it: extents[rank] elements from start[rank] on, as a C-contiguous array of `bytes`;
 * start NULL is 0, extents NULL is all from there on.  So a cache can be truncated to its first positions, or one
 * sequence of a batch copied to another.  APC_USAGE if there is no such state, or the states are initial, or `bytes`
 * differs, or `data` is NULL; APC_BAD_INPUT if the box is not inside the state.  Only for ranks that this process
 * started. */
ApcStatus apc_state_shape(ApcModel *model, const char *name, int *rank, int64_t dims[APC_MAX_RANK], size_t *bytes);
ApcStatus apc_read_state(ApcModel *model, const char *name, const int64_t *start, const int64_t *extents, void *data,
                         size_t bytes);
ApcStatus apc_write_state(ApcModel *model, const char *name, const int64_t *start, const int64_t *extents,
                          const void *data, size_t bytes);
/* Copies of all states in this process's memory, as whole tensors: apc_copy_states makes one, apc_restore_states
 * replaces the states by it, as often as wanted, and in any model with the same states, whatever its split;
 * apc_free_states frees it, even after apc_close; NULL is allowed.  Statuses are those of apc_save_states and
 * apc_load_states. */
typedef struct ApcStates ApcStates;
ApcStatus apc_copy_states(ApcModel *model, ApcStates **copy);
ApcStatus apc_restore_states(ApcModel *model, const ApcStates *copy);
void apc_free_states(ApcStates *copy);

/* Returns how many requests the last apc_run served at once: the leading dimension of its first input that is not a
 * scalar, if its first output has the same leading dimension; else 1. */
int64_t apc_batch(const ApcModel *model);

/* ---- outputs of the last apc_run, until the next one */

/* Reports the shape of an output and its size in bytes.  APC_USAGE if there is no such output, or nothing has run. */
ApcStatus apc_output_shape(ApcModel *model, const char *name, int *rank, int64_t dims[APC_MAX_RANK], size_t *bytes);
/* Copies an output into data[bytes]; APC_USAGE if `bytes` is not its size. */
ApcStatus apc_read_output(ApcModel *model, const char *name, void *data, size_t bytes);
/* Gives the values of an output without a copy; valid until the next call that runs, binds, moves states or closes. */
ApcStatus apc_output_data(ApcModel *model, const char *name, const void **data);
/* Returns APC_OK if a file may be written at `path`; APC_USAGE if it is the program itself, or a file of the weights
 * that it runs with. */
ApcStatus apc_may_write(ApcModel *model, const char *path);
/* Write one output as a .npy file, or all outputs as a .npz file.  APC_USAGE as apc_may_write. */
ApcStatus apc_write_output(ApcModel *model, const char *name, const char *npy_path);
ApcStatus apc_write_outputs(ApcModel *model, const char *npz_path);

/* ---- cost of a rank, in bytes and seconds */
typedef struct ApcReport {
  uint64_t param_bytes, state_bytes, arena_bytes, window_bytes; /* allocated by the rank */
  uint64_t mapped_bytes;                                        /* weights used directly in their mapped file */
  uint64_t sent_bytes, communications;                          /* since the ranks started */
  double load_s, run_s;                                         /* to load the weights; of the last request */
  uint64_t prepared; /* how often the program computed weights from others since the ranks started: once at loading, or
                      * never */
  uint64_t library_bytes; /* allocated as workspace of a device's libraries */
  /* Parts of arena_bytes when most of it is live in the last request: whole weights gathered from their shards,
   * gradients, and values that the forward pass saves for the backward pass.  0 without training. */
  uint64_t gathered_bytes, gradient_bytes, saved_bytes;
} ApcReport;
/* Reports the cost of one rank after apc_run; APC_USAGE if nothing has run, or there is no such rank. */
ApcStatus apc_report(ApcModel *model, int rank, ApcReport *report);
/* Predicts the memory of one rank for the selected entry, as the compiler does: for the bound dimensions, or those that
 * the program was planned for.  The other members are 0. */
ApcStatus apc_predict(ApcModel *model, int rank, ApcReport *report);

/* ---- profiles (docs/guide/profile.md) */

/* Makes every rank record the time of each operation from the next run on, and the times of up to `events` calls (of
 * all ranks together, at most 2^20; 0: none).  Another call starts a new recording. */
ApcStatus apc_record(ApcModel *model, size_t events);
/* Returns the recording so far as a table for people, the longest operations first, or as one JSON document if json is
 * 1; if it is 2, as the table with the operations first whose time differs most from the predicted one.  Valid until
 * the next apc_profile.  First measures the peak speed of the machine, which takes a few tenths of a second. "" after
 * an error; apc_error explains it. */
const char *apc_profile(ApcModel *model, int json);
/* Writes the recorded calls as a timeline in the Trace Event Format, which Chrome and Perfetto read.  *dropped is the
 * number of calls that did not fit; dropped may be NULL. */
ApcStatus apc_write_trace(ApcModel *model, const char *path, uint64_t *dropped);

/* Returns a description of the program for people, or as one JSON document if json is not 0; valid until the next
 * apc_describe or apc_trained. "" if there is no memory; apc_error explains it. */
const char *apc_describe(ApcModel *model, int json);

/* Returns which weights a training step changes, as "trains 62 of 62 weights, 11.7 M of 11.7 M"; otherwise as
 * apc_describe. */
const char *apc_trained(ApcModel *model);

/* ---- for the generated program itself */

/* apc_is_rank returns 1 if a host started this process as a rank; then main does `return apc_rank_main(argc, argv);`,
 * which returns the exit code. */
int apc_is_rank(int argc, char **argv);
int apc_rank_main(int argc, char **argv);

/* Options of one of several processes that a launcher started, one per rank (docs/guide/launch.md).  The program is the
 * running one. */
typedef struct ApcLaunchOptions {
  int rank, world;        /* -1: from the environment */
  const char *rendezvous; /* HOST:PORT or a file; NULL: from the environment */
  const char *transport;  /* "tcp" or "mpi"; NULL: chosen by the launcher */
  const char *weights;    /* as in ApcOptions, like the next two */
  const char *tune;
  int timeout_ms;
  const volatile sig_atomic_t *asked; /* for apc_asked: a signal handler of this process sets it; NULL if there is
                                       * none */
  const char *elastic;                /* folder of checkpoints in which the ranks of an elastic run meet again; NULL */
  char *const *argv;                  /* the command line with which each of them starts again */
  int insecure;                       /* 1: ranks without a secret (APC_SECRET_FILE) may meet over a network */
  /* Called in a thread of its own if another rank failed and this process did not end within a second; does not
   * return. */
  void (*stuck)(int code, const char *error);
} ApcLaunchOptions;

/* Finds the launcher in the options and the environment, and meets the other ranks.  Sets *launch even after an error,
 * for apc_launch_error; *launch is NULL with APC_OK if this process was started alone. */
ApcStatus apc_launch(const ApcLaunchOptions *options, ApcLaunch **launch);
/* Returns the number of this rank, from 0. */
int apc_launch_rank(const ApcLaunch *launch);
/* Serves requests as a rank other than 0, until rank 0 leaves or a rank fails.  *code is the exit code for this
 * process. */
ApcStatus apc_launch_serve(ApcLaunch *launch, int *code);
/* Returns the explanation of the last error of the launch; "" if there is none. */
const char *apc_launch_error(const ApcLaunch *launch);
/* Returns a warning about the run for the user; "" if there is none. */
const char *apc_launch_warning(const ApcLaunch *launch);
/* Returns 1 if this process should print an error: one process per machine prints the errors that all of them know.
 * NULL is allowed. */
int apc_launch_tells(const ApcLaunch *launch);
/* Ends the launch: rank 0 ends the others with exit code `code`; after an error any rank ends all.  NULL is allowed. */
void apc_launch_close(ApcLaunch *launch, int code);

/* ---- monitoring */

/* Serves counts and times of runs, the memory of ranks, and the progress of training as text for Prometheus, from a
 * thread, until apc_close (docs/guide/training.md).  address: "PORT" (of the loopback), "HOST:PORT" or "[IPv6]:PORT".
 * APC_USAGE for another text, or on a second call; APC_BAD_INPUT if the address cannot be used. */
ApcStatus apc_metrics(ApcModel *model, const char *address);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
