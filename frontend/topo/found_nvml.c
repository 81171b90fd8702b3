/* frontend/topo/found_nvml.c - describes the GPUs of this machine through NVML, the library of NVIDIA's driver.
 *
 * In: libnvidia-ml.so.1, opened by name; nothing of NVIDIA's is needed to build.  Out: names, lanes of PCIe, paths
 * between GPUs, NVLink by link, and NUMA nodes.  The declarations follow nvml.h of CUDA 12.  Functions that an older
 * driver lacks, or that a GPU does not support, leave a fact unknown, and a note says what is assumed: links of NVLink
 * whose other ends are not known go to switches, as in a matrix of nvidia-smi with more links than a GPU has.  An error
 * is only what leaves no target: a GPU without a name, one that is divided.  Deliberately not read: clocks, power, use.
 */
#include <dlfcn.h>
#include <string.h>

#include "frontend/topo/found.h"

/* Of nvml.h. */
typedef struct nvmlDevice *Device;
enum { OK = 0, NAME_BYTES = 96, MOST_LINKS = 36 };
enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };
enum { P2P_READ = 0, P2P_WRITE = 1, P2P_OK = 0, SCOPE_NODE = 0 };
typedef struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem;
  char bus_id[32];
} PciInfo;
typedef struct Memory {
  unsigned long long total, free, used;
} Memory;

/* NEEDED(field, symbol, arguments), OPTIONAL: functions that return 0 if they succeed. */
#define FUNCTIONS(NEEDED, OPTIONAL) \
  NEEDED(init, "nvmlInit_v2", (void)) \
  NEEDED(shutdown, "nvmlShutdown", (void)) \
  NEEDED(count, "nvmlDeviceGetCount_v2", (unsigned *)) \
  NEEDED(get, "nvmlDeviceGetHandleByIndex_v2", (unsigned, Device *)) \
  NEEDED(name, "nvmlDeviceGetName", (Device, char *, unsigned)) \
  OPTIONAL(pci, "nvmlDeviceGetPciInfo_v3", (Device, PciInfo *)) \
  OPTIONAL(memory, "nvmlDeviceGetMemoryInfo", (Device, Memory *)) \
  OPTIONAL(mig, "nvmlDeviceGetMigMode", (Device, unsigned *, unsigned *)) \
  OPTIONAL(generation, "nvmlDeviceGetMaxPcieLinkGeneration", (Device, unsigned *)) \
  OPTIONAL(width, "nvmlDeviceGetMaxPcieLinkWidth", (Device, unsigned *)) \
  OPTIONAL(ancestor, "nvmlDeviceGetTopologyCommonAncestor", (Device, Device, unsigned *)) \
  OPTIONAL(peers, "nvmlDeviceGetP2PStatus", (Device, Device, unsigned, unsigned *)) \
  OPTIONAL(nodes, "nvmlDeviceGetMemoryAffinity", (Device, unsigned, unsigned long *, unsigned)) \
  OPTIONAL(link_state, "nvmlDeviceGetNvLinkState", (Device, unsigned, unsigned *)) \
  OPTIONAL(link_version, "nvmlDeviceGetNvLinkVersion", (Device, unsigned, unsigned *)) \
  OPTIONAL(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (Device, unsigned, PciInfo *)) \
  OPTIONAL(link_remote, "nvmlDeviceGetNvLinkRemoteDeviceType", (Device, unsigned, unsigned *))

#define FIELD(field, symbol, arguments) int(*field) arguments;
typedef struct Nvml {
  FUNCTIONS(FIELD, FIELD)
} Nvml;

/* Sets *missing to a function that the library lacks and that is needed; NULL if it has all.  False without NVML. */
static bool load(Nvml *n, const char **missing) {
  void *l = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *f;
  *missing = NULL;
  if (!l) return false;
#define LOAD(field, symbol, arguments) f = dlsym(l, symbol), memcpy(&n->field, &f, sizeof f);
#define LOAD_NEEDED(field, symbol, arguments) LOAD(field, symbol, arguments) if (!f) *missing = symbol;
  FUNCTIONS(LOAD_NEEDED, LOAD)
  return true;
}

typedef struct Reader {
  FoundMachine *m;
  Nvml n;
  Device devices[FOUND_GPUS];
  int nlinks;
  FoundLink links[FOUND_GPUS * MOST_LINKS];
  unsigned version; /* of NVLink; 0 if unknown */
  int unknown;      /* links whose other ends are not known */
} Reader;

static bool failed(Reader *r, const char *what, int code) {
  return topo_found_error(r->m, "NVML cannot give %s (error %d)", what, code);
}

/* ---- one GPU */

static const char *bus_of(Reader *r, PciInfo *p) {
  p->bus_id[sizeof p->bus_id - 1] = 0;
  return arena_strdup(r->m->arena, p->bus_id);
}

/* GB/s each way of the GPU's lanes; 0 if NVML does not give them. */
static double lanes_of(const Nvml *n, Device d) {
  static const double speeds[] = {0, 2.5, 5, 8, 16, 32, 64}; /* GT/s by generation */
  unsigned generation = 0, width = 0;
  if (!n->generation || !n->width || n->generation(d, &generation) != OK || n->width(d, &width) != OK) return 0;
  if (generation >= sizeof speeds / sizeof *speeds || width > 32) return 0;
  return topo_found_lanes(speeds[generation], (int)width);
}

static bool read_gpu(Reader *r, int i) {
  const Nvml *n = &r->n;
  char name[NAME_BYTES] = "";
  PciInfo pci = {.bus = 0};
  unsigned mig = 0, pending = 0;
  FoundGpu *g = topo_found_gpu(r->m);
  if (!g) return false;
  int code = n->get((unsigned)i, &r->devices[i]);
  if (code != OK) return failed(r, arena_printf(r->m->arena, "GPU %d", i), code);
  code = n->name(r->devices[i], name, sizeof name);
  if (code != OK && !g->kind) return failed(r, arena_printf(r->m->arena, "the name of GPU %d", i), code);
  if (n->mig && n->mig(r->devices[i], &mig, &pending) == OK && mig)
    return topo_found_error(r->m, "GPU %d is divided by MIG; targets have whole GPUs", i);
  name[sizeof name - 1] = 0;
  if (!g->kind) g->kind = topo_found_kind_of_name(name);
  if (!g->kind) return topo_found_unknown(r->m, name);
  if (n->pci && n->pci(r->devices[i], &pci) == OK) g->bus = bus_of(r, &pci);
  g->pcie = lanes_of(n, r->devices[i]);
  return true;
}

/* ---- NVLink */

static bool has_bus(const Reader *r, const char *bus) {
  bool has = false;
  for (int i = 0; i < r->m->ngpus; i++) has |= r->m->gpus[i].bus && strcmp(r->m->gpus[i].bus, bus) == 0;
  return has;
}

/* Sets the other end of a link; false if NVML does not give it, or it is a GPU whose bus NVML does not give. */
static bool read_end(Reader *r, int i, unsigned l, unsigned *remote, const char **bus) {
  const Nvml *n = &r->n;
  PciInfo pci = {.bus = 0};
  *bus = "";
  if (!n->link_remote || n->link_remote(r->devices[i], l, remote) != OK) return false;
  if (*remote != REMOTE_GPU && *remote != REMOTE_SWITCH) return true;
  if (!n->link_pci || n->link_pci(r->devices[i], l, &pci) != OK) return false;
  *bus = bus_of(r, &pci);
  bool all = true;
  for (int j = 0; j < r->m->ngpus; j++) all &= r->m->gpus[j].bus != NULL;
  return *remote == REMOTE_SWITCH || all || has_bus(r, *bus);
}

static void read_links(Reader *r, int i) {
  const Nvml *n = &r->n;
  for (unsigned l = 0; l < MOST_LINKS; l++) {
    unsigned active = 0, remote = REMOTE_SWITCH, version = 0;
    const char *bus;
    if (n->link_state(r->devices[i], l, &active) != OK) break; /* the GPU has no more links */
    if (!active) continue;
    const bool known = read_end(r, i, l, &remote, &bus);
    if (known && remote != REMOTE_GPU && remote != REMOTE_SWITCH) continue; /* to a CPU: it joins no GPUs */
    r->unknown += !known;
    if (n->link_version && n->link_version(r->devices[i], l, &version) == OK) r->version = version;
    r->links[r->nlinks++] = (FoundLink){.gpu = i, .count = 1, .target = bus, .to_gpu = known && remote == REMOTE_GPU};
  }
}

/* If some ends are unknown, those that are known would contradict the assumption about the others. */
static void assume_switches(Reader *r) {
  if (!r->unknown) return;
  for (int i = 0; i < r->nlinks; i++) r->links[i].target = "", r->links[i].to_gpu = false;
  topo_found_note(r->m,
                  "assumed: switches at the other ends of %d links of NVLink, as NVML does not give the ends of %d",
                  r->nlinks, r->unknown);
}

/* Compares the rate of NVLink's version with that of the kind of GPU. */
static void check_version(Reader *r) {
  static const struct {
    const char *name;
    double rate; /* GB/s each way of a link */
  } versions[] = {{"", 0},     {"1.0", 20},      {"2.0", 25}, {"2.2", 25},
                  {"3.0", 25}, {"3.1", 14.0625}, {"4.0", 25}, {"5.0", 50}};
  if (!r->version || r->version >= sizeof versions / sizeof *versions) return;
  const FoundKind *k = r->m->gpus[0].kind;
  topo_found_note(r->m, "NVLink %s by NVML", versions[r->version].name);
  if (k->link_rate > 0 && versions[r->version].rate != k->link_rate)
    topo_found_note(r->m, "assumed: %g GB/s of a link of NVLink, though %s has %g GB/s", k->link_rate,
                    versions[r->version].name, versions[r->version].rate);
}

/* ---- pairs of GPUs, and the machine */

static void read_paths(Reader *r) {
  const Nvml *n = &r->n;
  bool denied = false, asked = false;
  for (int i = 0; i < r->m->ngpus; i++)
    for (int j = 0; j < r->m->ngpus; j++) {
      FoundGpu *g = &r->m->gpus[i];
      unsigned level = 0, status;
      if (i == j) continue;
      if (n->ancestor && n->ancestor(r->devices[i], r->devices[j], &level) == OK)
        g->path[j] = topo_found_path_of_level((int)level);
      for (unsigned way = P2P_READ; way <= P2P_WRITE && n->peers && !g->joined[j]; way++)
        if (n->peers(r->devices[i], r->devices[j], way, &status) == OK) asked = true, denied |= status != P2P_OK;
    }
  if (asked) r->m->peer = denied ? "pcie-through-host" : "pcie";
  if (denied)
    topo_found_note(r->m, "NVML: GPUs cannot access each other's memory over PCIe, and copy through the host");
}

/* Counts the NUMA nodes near GPUs. */
static void read_nodes(Reader *r) {
  unsigned long seen = 0, near;
  for (int i = 0; i < r->m->ngpus && r->n.nodes; i++)
    if (r->n.nodes(r->devices[i], 1, &near, SCOPE_NODE) == OK) seen |= near;
  r->m->nodes = __builtin_popcountl(seen);
}

static void note_memory(Reader *r) {
  Memory memory = {0, 0, 0};
  if (r->n.memory && r->n.memory(r->devices[0], &memory) == OK)
    topo_found_note(r->m, "%.4g GB of memory of GPU 0 by NVML", (double)memory.total / 1e9);
}

static bool read_all(Reader *r, unsigned count) {
  bool ok = count <= FOUND_GPUS || topo_found_error(r->m, "more than %d GPUs", FOUND_GPUS);
  for (int i = 0; ok && i < (int)count; i++) ok = read_gpu(r, i);
  for (int i = 0; ok && r->n.link_state && i < (int)count; i++) read_links(r, i);
  assume_switches(r);
  if (!ok || !topo_found_connect(r->m, r->links, r->nlinks)) return false;
  r->m->has_nvlink = true;
  check_version(r);
  read_paths(r);
  read_nodes(r);
  note_memory(r);
  return true;
}

bool topo_found_nvml(FoundMachine *m, bool *found) {
  Reader *r = ARENA_NEW(m->arena, Reader);
  unsigned count = 0;
  int code;
  *r = (Reader){.m = m};
  *found = false;
  const char *missing;
  if (!load(&r->n, &missing)) return true;
  if (missing) return topo_found_note(m, "left out: NVML, which has no %s", missing), true;
  if ((code = r->n.init()) != OK)
    return topo_found_note(m, "left out: NVML, which does not start (error %d)", code), true;
  code = r->n.count(&count);
  if (code != OK) topo_found_note(m, "left out: GPUs, whose number NVML does not give (error %d)", code);
  *found = code == OK && count > 0;
  bool ok = !*found || read_all(r, count);
  r->n.shutdown();
  return ok;
}
