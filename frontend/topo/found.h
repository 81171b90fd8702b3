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

/* The path between two GPUs over PCIe. */
typedef enum FoundPath {
  FOUND_UNKNOWN,
#define FOUND_PATH(word, level, link, meaning) FOUND_##word,
#include "frontend/topo/found_path.def"
#undef FOUND_PATH
  FOUND_PATHS
} FoundPath;

typedef struct FoundGpu {
  const FoundKind *kind;  /* NULL until known */
  const char *bus;        /* NULL if the file does not give it */
  int number;             /* the driver's, by which GPUs are ordered */
  int switched;           /* links to switches */
  int direct[FOUND_GPUS]; /* links to other GPUs */
  bool joined[FOUND_GPUS];
  FoundPath path[FOUND_GPUS];
  double pcie; /* GB/s each way; 0 if the file does not say */
} FoundGpu;

typedef struct FoundMachine {
  Arena *arena;
  Diags *diags;
  const char *file;
  const FoundKind *given; /* of ?gpu=KIND */
  int ngpus;
  FoundGpu gpus[FOUND_GPUS];
  int adapters;          /* of the network */
  double adapter_rate;   /* Mbit/s; 0 if unknown */
  const char *adapter;   /* name of the first */
  bool has_nvlink;       /* the format describes NVLink */
  int nodes, cores;      /* NUMA nodes, or groups of processors; 0 if unknown */
  double memory;         /* bytes of the host; 0 if unknown */
  const char *processor; /* its generation, and the rate between sockets (found_path.def); NULL, 0 if unknown */
  double socket_rate;
  const char *peer; /* protocols block for traffic over PCIe; NULL: that of the kind */
  Text notes;       /* `note` statements */
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

/* Return the path of a word of `nvidia-smi topo -m`, or of a level of NVML. */
FoundPath topo_found_path(const char *word);
FoundPath topo_found_path_of_level(int level);
/* Takes the rate between sockets from the first processor that is known. */
void topo_found_processor(FoundMachine *m, const char *vendor, int family, int model);

/* A link of NVLink, or several, from a GPU to an address on the PCI bus. */
typedef struct FoundLink {
  int gpu, count;
  const char *target;
  bool to_gpu; /* else to a switch */
} FoundLink;
/* Connects the GPUs; false after a diagnostic if the two ends disagree.  A target that is no GPU of the machine is a
 * switch, or a GPU that is left out. */
bool topo_found_connect(FoundMachine *m, const FoundLink *links, int n);

/* Read a text of the output of nvidia-smi, and of XML; false after diagnostics. */
bool topo_found_smi(FoundMachine *m, const char *text);
bool topo_found_xml(FoundMachine *m, const char *text, size_t n);
/* Reads this machine through NVML or libhwloc; false after diagnostics. */
bool topo_found_local(FoundMachine *m);
/* Reads the GPUs of this machine through NVML; false after diagnostics.  *found: NVML is there and has GPUs. */
bool topo_found_nvml(FoundMachine *m, bool *found);
/* Returns GB/s each way of lanes of PCIe at so many GT/s; 0 if there are no such lanes. */
double topo_found_lanes(double speed, int width);
/* Returns the lowest rate of PCIe of all GPUs, in GB/s; that of the kind where it is not known, with a note. */
double topo_found_pcie(FoundMachine *m);
/* Writes the links between the GPUs. */
void topo_found_print_links(FoundMachine *m, Text *out);
/* Returns the machine as text. */
const char *topo_found_print(FoundMachine *m, const char *name);

#endif
