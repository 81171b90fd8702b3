/* frontend/topo/found_links.c - writes the links between GPUs as statements of the target language; see found.h.
 *
 * GPUs that NVLink joins, directly or through others, are an island.  If all GPUs are one island, or islands are equal
 * and have consecutive GPUs, NVLink is the inner link.  The rate of a GPU is that of its links together, `pair` the
 * mean over the pairs of an island without switches.
 *
 * PCIe joins what NVLink does not, in one link for each kind of path (found_path.def) by which groups of GPUs grow, if
 * these groups are equal and consecutive.  Below one switch a GPU has its own lanes.  A switch is joined to the next
 * one and to its processor by as many lanes as one GPU has, which its GPUs share; so are those between sockets by the
 * GPUs of a socket.  Without access to each other's memory (GeForce) GPUs copy through that of the host, and share the
 * lanes above a switch in all cases.  Equal rates are one link.
 */
#include <math.h>
#include <string.h>

#include "frontend/topo/found.h"

static const struct {
  const char *word, *link;
  int level;
} paths[] = {
    [FOUND_UNKNOWN] = {"", "pcie", -1},
#define FOUND_PATH(word, level, link, meaning) [FOUND_##word] = {#word, link, level},
#include "frontend/topo/found_path.def"
#undef FOUND_PATH
};

FoundPath topo_found_path(const char *word) {
  for (FoundPath p = FOUND_PIX; p < FOUND_PATHS; p++)
    if (strcmp(paths[p].word, word) == 0) return p;
  return strcmp(word, "SOC") == 0 ? FOUND_SYS : FOUND_UNKNOWN; /* SOC: of old drivers */
}

FoundPath topo_found_path_of_level(int level) {
  const int internal = 0; /* NVML_TOPOLOGY_INTERNAL */
  for (FoundPath p = FOUND_PIX; p < FOUND_PATHS; p++)
    if (paths[p].level == level) return p;
  if (level == internal) return FOUND_PIX; /* two GPUs of one board */
  return FOUND_UNKNOWN;
}

void topo_found_processor(FoundMachine *m, const char *vendor, int family, int model) {
  static const struct {
    const char *vendor;
    int family, model;
    double rate;
    const char *name;
  } known[] = {
#define FOUND_SOCKET(...) {__VA_ARGS__},
#include "frontend/topo/found_path.def"
#undef FOUND_SOCKET
  };
  for (size_t i = 0; i < sizeof known / sizeof *known && !m->processor; i++)
    if (strcmp(known[i].vendor, vendor) == 0 && known[i].family == family && model >= known[i].model)
      m->socket_rate = known[i].rate, m->processor = known[i].name;
}

/* ---- groups */

/* True if NVLink or, up to `most`, PCIe joins two GPUs.  A file that names only the NVLink of a pair leaves its path
 * open; that is near enough to be in every group. */
static bool are_joined(const FoundMachine *m, int i, int j, FoundPath most) {
  const FoundPath path = m->gpus[i].path[j];
  const bool nvlink = m->gpus[i].joined[j] || m->gpus[j].joined[i];
  if (most == FOUND_UNKNOWN) return nvlink;
  return path == FOUND_UNKNOWN ? nvlink : path <= most;
}

/* The size of equal groups of consecutive GPUs; 1 if none are joined, 0 if groups differ. */
static int group_size(const FoundMachine *m, FoundPath most) {
  int group[FOUND_GPUS], size = 0;
  for (int i = 0; i < m->ngpus; i++) group[i] = i;
  for (int again = 0; again < m->ngpus; again++)
    for (int i = 0; i < m->ngpus; i++)
      for (int j = 0; j < m->ngpus; j++)
        if (i != j && group[j] < group[i] && are_joined(m, i, j, most)) group[i] = group[j];
  while (size < m->ngpus && group[size] == 0) size++;
  for (int i = 0; i < m->ngpus; i++)
    if (m->ngpus % size || group[i] != i / size * size) return 0;
  return size;
}

/* The most GPUs that share what is above paths up to `most`.  GPUs whose path is open are on one socket, but not below
 * one switch. */
static int sharers(const FoundMachine *m, FoundPath most) {
  int all = 1;
  for (int i = 0; i < m->ngpus; i++) {
    int n = 1;
    for (int j = 0; j < m->ngpus; j++)
      n += i != j && are_joined(m, i, j, most) && (most >= FOUND_NODE || m->gpus[i].path[j]);
    all = n > all ? n : all;
  }
  return all;
}

/* True if the path between some pair is known. */
static bool has_path(const FoundMachine *m) {
  for (int i = 0; i < m->ngpus; i++)
    for (int j = 0; j < m->ngpus; j++)
      if (i != j && m->gpus[i].path[j] >= FOUND_PIX) return true;
  return false;
}

/* ---- NVLink */

static int links_of(const FoundMachine *m, int i) {
  int sum = m->gpus[i].switched;
  for (int j = 0; j < m->ngpus; j++) sum += m->gpus[i].direct[j];
  return sum;
}

static void print_nvlink(FoundMachine *m, Text *out, int size) {
  int fewest = links_of(m, 0), most = fewest, sum = 0;
  bool switched = m->gpus[0].switched > 0;
  for (int i = 0; i < m->ngpus; i++) {
    int n = links_of(m, i);
    fewest = n < fewest ? n : fewest, most = n > most ? n : most, sum += n;
  }
  const FoundKind *k = m->gpus[0].kind;
  if (fewest < most) topo_found_note(m, "assumed: %d links of NVLink for every GPU; some have %d", fewest, most);
  double rate = fewest * k->link_rate, pair = (double)sum / m->ngpus / (size - 1) * k->link_rate;
  text_printf(out, "  link nvlink");
  if (size < m->ngpus) text_printf(out, " joins %d", size);
  text_printf(out, " at %g GB/s", rate);
  if (!switched && pair < rate) {
    text_printf(out, " pair %.4g GB/s", pair);
    topo_found_note(m, "pair: the mean over every two GPUs that NVLink joins directly or through others");
  }
  text_printf(out, " with %s;\n", k->protocols);
  topo_found_note(m, "assumed: %g GB/s each way of a link of NVLink, as of a %s; %s", k->link_rate, k->part,
                  switched ? "switches join the GPUs" : "links join pairs of GPUs");
}

/* ---- PCIe */

double topo_found_pcie(FoundMachine *m) {
  double rate = INFINITY;
  bool assumed = false;
  for (int i = 0; i < m->ngpus; i++) {
    const FoundGpu *g = &m->gpus[i];
    assumed |= !(g->pcie > 0);
    rate = fmin(rate, g->pcie > 0 ? g->pcie : g->kind->pcie_rate);
  }
  if (assumed) topo_found_note(m, "assumed: PCIe %s x16, the file does not say", m->gpus[0].kind->pcie);
  return rate;
}

static const char *pcie_generation(double rate) { return rate < 17 ? "gen3" : rate < 33 ? "gen4" : "gen5"; }

/* The rate between sockets, each way, in the units of PCIe.  A file without a processor may be of the slowest that has
 * such PCIe: Skylake, Ice Lake, Sapphire Rapids. */
static double socket_rate(FoundMachine *m, double pcie) {
  const double gen3 = 15.75, of_nccl = 12, skylake = 10, sapphire = 22; /* GB/s */
  double rate = m->socket_rate;
  if (!(rate > 0)) rate = strcmp(pcie_generation(pcie), "gen5") == 0 ? sapphire : skylake;
  rate *= gen3 / of_nccl;
  if (m->processor) topo_found_note(m, "assumed: %.4g GB/s each way between sockets, as of %s", rate, m->processor);
  else topo_found_note(m, "assumed: %.4g GB/s each way between sockets; the processor is not known", rate);
  return rate;
}

/* The rate of a GPU over a path, each way. */
static double path_rate(FoundMachine *m, FoundPath path, double pcie, bool peers) {
  const double above = pcie / sharers(m, FOUND_PXB);
  if (path == FOUND_PIX) return peers ? pcie : above;
  if (path == FOUND_PXB && peers) return pcie / sharers(m, FOUND_PIX);
  return path == FOUND_SYS ? fmin(above, socket_rate(m, pcie) / sharers(m, FOUND_NODE)) : above;
}

typedef struct PcieLink {
  FoundPath path;
  int joins;
  double rate;
} PcieLink;

/* Lists the links that PCIe adds to groups of `joined` GPUs; returns their number. */
static int list_pcie(FoundMachine *m, int joined, double pcie, bool peers, PcieLink out[FOUND_PATHS]) {
  int n = 0;
  for (FoundPath p = FOUND_PIX; p < FOUND_PATHS; p++) {
    const int size = p == FOUND_SYS ? m->ngpus : group_size(m, p);
    if (size == 0)
      topo_found_note(m, "left out: groups of GPUs by %s, which differ or are not consecutive", paths[p].word);
    if (size <= joined || size % joined) continue;
    const double rate = path_rate(m, p, pcie, peers);
    if (n && out[n - 1].rate <= rate) n--; /* a wider link that is no slower */
    out[n++] = (PcieLink){p, size, rate};
    joined = size;
  }
  return n;
}

static void print_pcie(FoundMachine *m, Text *out, int joined) {
  const double pcie = topo_found_pcie(m);
  const char *with = m->peer ? m->peer : m->gpus[0].kind->peer;
  const bool peers = strcmp(with, "pcie") == 0;
  PcieLink links[FOUND_PATHS] = {{FOUND_UNKNOWN, m->ngpus, pcie}};
  const bool known = has_path(m);
  int n = joined == m->ngpus ? 0 : known ? list_pcie(m, joined, pcie, peers, links) : 1;
  if (!known && n) topo_found_note(m, "assumed: all GPUs are equally near over PCIe");
  for (int i = 0; i < n; i++) {
    text_printf(out, "  link %s", paths[links[i].path].link);
    if (links[i].joins < m->ngpus) text_printf(out, " joins %d", links[i].joins);
    text_printf(out, " at %.4g GB/s with %s;\n", links[i].rate, with);
  }
  if (n && sharers(m, FOUND_PXB) > 1)
    topo_found_note(m, "assumed: %d GPUs below a PCIe switch share as many lanes above it as one of them has",
                    sharers(m, FOUND_PXB));
  text_printf(out, "  pcie %s at %.4g GB/s;\n", pcie_generation(pcie), pcie);
}

void topo_found_print_links(FoundMachine *m, Text *out) {
  int size = group_size(m, FOUND_UNKNOWN);
  const FoundKind *k = m->gpus[0].kind;
  bool has_rate = k->link_rate > 0;
  if (!has_rate && size != 1) {
    topo_found_note(m, "left out: NVLink, which a %s is not known to have", k->part);
    size = 1;
  }
  if (!m->has_nvlink && has_rate) topo_found_note(m, "hwloc gives no NVLink here (it needs NVML): PCIe joins the GPUs");
  if (size == 0)
    topo_found_note(m, "NVLink joins groups of GPUs that differ or are not consecutive: left out, PCIe joins the GPUs");
  if (size > 1) print_nvlink(m, out, size);
  print_pcie(m, out, size > 1 ? size : 1);
}
