/* runtime/exec/request.h - the protocol between host and ranks of a session.
 *
 * A request is the payload of a session's RUN command: RequestHead, then one int64_t per symbol.  Tensors travel in the
 * I/O area: a RankReport per rank, then the inputs and the outputs of the entry, each at a multiple of PROGRAM_ALIGN.
 * Host and ranks compute the places from the symbols with the same function.
 *
 * An input or output may lie in the caller's memory of a device instead: the area has a DevicePlace for it
 * (runtime/device/device.h), after the tensors, and its bytes in the area are not used.
 *
 * Inputs or outputs may be tensors of a safetensors file instead: then a RequestFile follows, every rank reads or
 * writes its own parts of the file (runtime/exec/entry_file.h), and nothing is in the I/O area.
 */
#ifndef APC_RUNTIME_EXEC_REQUEST_H
#define APC_RUNTIME_EXEC_REQUEST_H

#include "base/hash.h"
#include "program/memory.h"
#include "runtime/comm/comm.h"

typedef enum RequestKind {
  REQUEST_RUN,
  REQUEST_RESET,    /* resets states; no symbols follow, as with the next three */
  REQUEST_KEEP,     /* saves trained weights and states */
  REQUEST_BACK,     /* restores the saved values */
  REQUEST_LOOK,     /* sets RankReport.not_finite from the trained weights */
  REQUEST_RECORD,   /* records all later runs (record.h), with at most `entry` events; no symbols follow */
  REQUEST_RECORDED, /* copies the records to the I/O area, from byte symbols[0] on, rank by rank */
  REQUEST_WRITE,    /* runs an entry without inputs, whose outputs go into a file */
  REQUEST_SUMS,     /* copies each rank's checksums of its written parts to the I/O area, as records: one per output */
  REQUEST_READ,     /* runs an entry whose inputs come from a file; its outputs are dropped */
  REQUEST_WRITE_STATES, /* writes the states to a file; entry and symbols are those of the request that made them */
  REQUEST_READ_STATES,  /* makes the states anew, for an entry and symbols, from a file */
  REQUEST_GET_STATE,    /* copies a box of a state to the I/O area (RequestState); entry and symbols as WRITE_STATES */
  REQUEST_SET_STATE,    /* copies a box of a state from the area, for an entry and symbols */
  REQUEST_COPY, /* as WRITE, but ends when the outputs are copied; threads write the file beside later requests */
  REQUEST_JOIN  /* waits until the file of COPY is written; no symbols follow */
} RequestKind;

/* True if the host passes a file with the request. */
static inline bool request_is_of_state_file(uint32_t kind) {
  return kind == REQUEST_WRITE_STATES || kind == REQUEST_READ_STATES;
}
static inline bool request_has_file(uint32_t kind) {
  return kind == REQUEST_WRITE || kind == REQUEST_COPY || kind == REQUEST_READ || request_is_of_state_file(kind);
}

/* True if ranks write the file. */
static inline bool request_writes(uint32_t kind) {
  return kind == REQUEST_WRITE || kind == REQUEST_COPY || kind == REQUEST_WRITE_STATES;
}

/* True if a RequestState is in the I/O area. */
static inline bool request_is_of_state(uint32_t kind) { return kind == REQUEST_GET_STATE || kind == REQUEST_SET_STATE; }

/* True if the ranks answer with blocks instead of outputs. */
static inline bool request_gives(uint32_t kind) { return kind == REQUEST_RECORDED || kind == REQUEST_SUMS; }

/* True for requests about trained states, which run no entry, and have no symbols. */
static inline bool request_is_of_states(uint32_t kind) {
  return kind == REQUEST_KEEP || kind == REQUEST_BACK || kind == REQUEST_LOOK || kind == REQUEST_JOIN;
}

enum { REQUEST_PATH = 4096 };

/* `mark` shows a rank that it has the host's file.  A file to be written begins with its length XOR the mark, which the
 * host corrects at the end; for a file to be read the mark is the hash of the header. */
typedef struct RequestFile {
  uint64_t mark;
  char path[REQUEST_PATH]; /* absolute */
} RequestFile;

/* When all parts of a rank are on the disk after REQUEST_COPY, it leaves a record after the tensors of the file, which
 * the host cuts off: the checksum of its parts of each output, and a seal, which only a whole record has. */
static inline uint64_t request_record_words(uint32_t outputs) { return outputs + UINT64_C(1); }
static inline uint64_t request_record_at(uint64_t end_of_tensors, uint32_t outputs, uint32_t rank) {
  return end_of_tensors + rank * request_record_words(outputs) * sizeof(uint64_t);
}
static inline uint64_t request_record_seal(const uint64_t *sums, uint32_t outputs, uint32_t rank, uint64_t mark) {
  return hash64(sums, outputs * sizeof *sums, mark + rank) | 1;
}

typedef struct RequestHead {
  uint32_t kind;
  uint32_t entry;
  uint32_t n_symbols;
  uint32_t number; /* counts requests; part of the communication keys */
  uint32_t n_places;
  uint64_t at; /* in bytes from the begin of the area: the first of n_places DevicePlaces, or a RequestState */
} RequestHead;

/* A box of a state; its values follow. */
typedef struct RequestState {
  uint32_t state, anew; /* its number; 1: all states become initial first */
  int64_t start[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
} RequestState;

/* A rank's report, written at the end of each request. */
typedef struct RankReport {
  uint64_t allocated[SPACE_COUNT]; /* bytes allocated */
  uint64_t mapped;                 /* bytes of weights used directly in their mapped file */
  uint64_t class_bytes[PC_COUNT];  /* from the memory plan of the last entry */
  uint64_t sent[COMM_KIND_COUNT];  /* payload bytes since the start */
  uint64_t operations[COMM_KIND_COUNT];
  uint64_t prepared; /* how often weights were computed from weights: once at loading, or never */
  uint64_t load_ns;  /* time to load the weights, and to compute some from others */
  uint64_t run_ns;   /* time of the last request */
  uint64_t
      not_finite;   /* REQUEST_LOOK: 1 + the first weight, in the program's order, with an infinity or a NaN; 0: none */
  uint64_t writing; /* 1: a thread still writes the file of REQUEST_COPY */
  int64_t computed[PROGRAM_MAX_COMPUTED]; /* the computed sizes of the last request, in the order of their symbols */
} RankReport;

typedef struct RequestLayout {
  uint64_t bytes;    /* of the whole I/O area */
  uint64_t *offsets; /* per input, then per output of the entry */
  uint64_t *sizes;   /* bytes of each */
  uint64_t *rooms;   /* the most bytes that each can have, whatever its computed sizes will be */
  ProgramShape *shapes;
  uint32_t n;
} RequestLayout;

/* Computes the bytes of an input or output of that shape; RT_BAD_INPUT if it is too large. */
RtStatus request_bytes(const Program *p, uint32_t port, const ProgramShape *shape, size_t *bytes, RtError *error);

/* Computes the layout of the I/O area for an entry and its symbols; free it with request_layout_free.  Places and rooms
 * do not depend on computed sizes; shapes and bytes do.  computed: all of these are set; before that, an output whose
 * shape is not valid at their bounds has its largest shape.  RT_BAD_INPUT if a tensor is too large. */
RtStatus request_layout(const Program *p, uint32_t entry, const int64_t *symbols, bool computed, RequestLayout *out,
                        RtError *error);
void request_layout_free(RequestLayout *l);

/* Sets the computed sizes among the symbols to those of a report. */
void request_computed(const Program *p, const RankReport *report, int64_t *symbols);

/* Returns the report of a rank at the begin of the I/O area. */
static inline RankReport *request_report(void *io, uint32_t rank) { return (RankReport *)io + rank; }

/* Fills an input with random values: floats normal with mean 0 and deviation 1, integers and bool in [0, below) (0: 2).
 * They are keyed by (seed, hash of the name, element), so that they do not depend on the plan. */
void request_random(DType dtype, void *out, size_t n, uint64_t seed, const char *name, uint64_t below);

#endif
