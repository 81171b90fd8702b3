/* frontend/topo/found.h - targets from files about a machine: `local`, `nvidia-smi:FILE` and FILE.xml of NCCL or hwloc,
 * each with an optional `?gpu=KIND`.
 *
 * A reader collects the facts of a file in a FoundMachine.  found_text.c writes them as text of the target language,
 * which the one reader of that language then reads.  Rates that a file does not give are those of the GPU's kind
 * (found.def), and a note says so.
 */
#ifndef APC_FRONTEND_TOPO_FOUND_H
#define APC_FRONTEND_TOPO_FOUND_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"

enum { FOUND_GPUS = 64, FOUND_BYTES = 16 << 20, FOUND_DEPTH = 64 };

typedef struct FoundKind {
  const char *part, *ids, *names, *protocols;
  int links;
  double link_rate; /* GB/s */
  const char *pcie;
  double pcie_rate; /* GB/s */
  const char *peer;
} FoundKind;

typedef struct FoundGpu {
  const FoundKind *kind;  /* NULL until known */
  const char *bus;        /* NULL if the file does not give it */
  int number;             /* the driver's, by which GPUs are ordered */
  int switched;           /* links to switches */
  int direct[FOUND_GPUS]; /* links to other GPUs */
  bool joined[FOUND_GPUS];
  double pcie; /* GB/s each way; 0 if the file does not say */
} FoundGpu;

typedef struct FoundMachine {
  Arena *arena;
  Diags *diags;
  const char *file;
  const FoundKind *given; /* of ?gpu=KIND */
  int ngpus;
  FoundGpu gpus[FOUND_GPUS];
  int adapters;        /* of the network */
  double adapter_rate; /* Mbit/s; 0 if unknown */
  const char *adapter; /* name of the first */
  bool has_nvlink;     /* the format describes NVLink */
  int nodes, cores;    /* NUMA nodes, or groups of processors; 0 if unknown */
  double memory;       /* bytes of the host; 0 if unknown */
  Text notes;          /* `note` statements */
} FoundMachine;

/* True if the name is that of a file as it stands, even if it ends in xDIGITS. */
bool topo_found_whole(const char *name);
/* True if a target's name, without xDEVICES, asks for a machine to be found. */
bool topo_found_names(const char *name);
/* Returns the text of the machine in the target language; NULL after diagnostics. */
const char *topo_found_text(Diags *d, Arena *a, const char *name);

/* ---- between its files */

/* Reports an error about the file; returns false. */
bool topo_found_error(FoundMachine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a note to the machine. */
void topo_found_note(FoundMachine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the kind of GPU of a block's name, a PCI device number or a name of nvidia-smi; NULL if unknown. */
const FoundKind *topo_found_kind(const char *part);
const FoundKind *topo_found_kind_of_id(const char *id);
const FoundKind *topo_found_kind_of_name(const char *name);
/* Adds a GPU and returns it; NULL after a diagnostic if there are too many. */
FoundGpu *topo_found_gpu(FoundMachine *m);
/* Reports a GPU whose kind is not known, with the kinds that are; returns false. */
bool topo_found_unknown(FoundMachine *m, const char *gpu);

/* Read a text of the output of nvidia-smi, and of XML; false after diagnostics. */
bool topo_found_smi(FoundMachine *m, const char *text);
bool topo_found_xml(FoundMachine *m, const char *text, size_t n);
/* Reads this machine through libhwloc; false after diagnostics. */
bool topo_found_local(FoundMachine *m);
/* Returns the machine as text. */
const char *topo_found_print(FoundMachine *m, const char *name);

#endif
