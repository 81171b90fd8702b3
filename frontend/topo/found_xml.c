/* frontend/topo/found_xml.c - reads topologies of NCCL (NCCL_TOPO_DUMP_FILE) and of hwloc (lstopo FILE.xml, versions 1
 * and 2) with libexpat.
 *
 * NCCL: cpu, pci, gpu, nvlink and net elements in <system>.  A link's target is the PCI address of a GPU, or a device
 * of another class: a switch.  hwloc: objects in <topology>; GPUs are PCI devices of class 03 of NVIDIA; rates are
 * GB/s.  The distances named NVLinkBandwidth are a matrix of MB/s between devices of NVML (OSDev objects inside GPUs)
 * and switches.  Files are not trusted: entities are refused, external ones never opened, and depth and size are
 * limited.
 */
#include <expat.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/topo/found.h"

enum { LINKS = FOUND_GPUS * 32, DISTANT = 4 * FOUND_GPUS };

typedef struct PciDevice {
  const char *bus, *vendor, *device, *speed, *width;
} PciDevice;

/* The elements that an element is in, from the outside. */
typedef enum Place { PLACE_OTHER, PLACE_SOCKET, PLACE_HOST, PLACE_BRIDGE } Place;
typedef struct Above {
  int n;
  struct {
    int id;
    Place place;
  } at[FOUND_DEPTH];
} Above;

typedef struct XmlReader {
  FoundMachine *m;
  XML_Parser parser;
  bool failed, hwloc;
  int depth;
  PciDevice pci[FOUND_DEPTH]; /* by depth: the device that an element is in */
  int elements;               /* number of elements so far */
  Above now, above[FOUND_GPUS];
  const char *vendor; /* of the last processor of hwloc, with its family */
  int family;
  int gpu; /* the last */
  int nlinks;
  FoundLink links[LINKS];
  int amd; /* GPUs of AMD in a file of hwloc */
  int packages, nodes;
  int nvml[FOUND_GPUS]; /* hwloc's number of the NVML device of a GPU; 0 if it has none */
  int gpu_depth;        /* of the element of the last GPU of hwloc */
  int distant;          /* objects of the NVLink matrix that is read; 0 outside it */
  Text *into;           /* text of an element inside it: indexes or values */
  Text indexes, values;
} XmlReader;

static void stop(XmlReader *r) {
  r->failed = true;
  XML_StopParser(r->parser, XML_FALSE);
}

#define FAIL(r, ...) (topo_found_error((r)->m, __VA_ARGS__), stop(r))

static const char *attribute(const char **attributes, const char *name) {
  for (; *attributes; attributes += 2)
    if (strcmp(attributes[0], name) == 0) return attributes[1];
  return NULL;
}

static const char *kept(XmlReader *r, const char **attributes, const char *name) {
  const char *v = attribute(attributes, name);
  return v ? arena_strdup(r->m->arena, v) : NULL;
}

/* Reads a whole number from 0 to `most`; -1 if the attribute is none. */
static int count_of(const char **attributes, const char *name, int most) {
  const char *v = attribute(attributes, name);
  size_t n = v ? strlen(v) : 0;
  if (n < 1 || n > 9 || strspn(v, "0123456789") != n) return -1;
  return atoi(v) <= most ? atoi(v) : -1;
}

static const char *hex(const char *number) {
  return number && number[0] == '0' && number[1] == 'x' ? number + 2 : number;
}

static double pcie_rate(const PciDevice *p) {
  return topo_found_lanes(p->speed ? strtod(p->speed, NULL) : 0, p->width ? atoi(p->width) : 0);
}

/* ---- NCCL */

/* Keeps the elements that the last GPU is in, but not the innermost ones. */
static void keep_above(XmlReader *r, int innermost) {
  Above *a = &r->above[r->m->ngpus - 1];
  *a = r->now;
  a->n = a->n > innermost ? a->n - innermost : 0;
}

static void set_place(XmlReader *r, Place place) { r->now.at[r->now.n - 1].place = place; }

static void read_gpu(XmlReader *r, const char **attributes) {
  const PciDevice *p = &r->pci[r->depth - 1];
  const char *vendor = hex(p->vendor), *id = hex(p->device);
  if (attribute(attributes, "gcn") || (vendor && strcmp(vendor, "10de") != 0))
    return FAIL(r, "the GPU at %s is not of NVIDIA; only these have targets", p->bus ? p->bus : "an unknown address");
  FoundGpu *g = topo_found_gpu(r->m);
  if (!g) return stop(r);
  g->bus = p->bus;
  g->pcie = pcie_rate(p);
  g->number = count_of(attributes, "dev", 9999);
  keep_above(r, 2); /* without the gpu and its pci element */
  if (g->number < 0) return FAIL(r, "a gpu element needs dev, a number");
  if (!g->kind && id) g->kind = topo_found_kind_of_id(id);
  if (!g->kind) topo_found_unknown(r->m, id ? arena_printf(r->m->arena, "the GPU 10de:%s", id) : "the GPUs"), stop(r);
  r->gpu = r->m->ngpus - 1;
}

static void read_nvlink(XmlReader *r, const char **attributes) {
  const char *class = attribute(attributes, "tclass");
  FoundLink *l = &r->links[r->nlinks];
  if (r->gpu < 0) return FAIL(r, "an nvlink element is outside a gpu element");
  if (class && strcmp(class, "0x068001") == 0) return; /* to a CPU: it joins no GPUs */
  if (r->nlinks == LINKS) return FAIL(r, "more than %d nvlink elements", LINKS);
  *l = (FoundLink){.gpu = r->gpu,
                   .count = count_of(attributes, "count", 64),
                   .target = kept(r, attributes, "target"),
                   .to_gpu = class && strncmp(class, "0x03", 4) == 0};
  if (l->count < 1 || !l->target) return FAIL(r, "an nvlink element needs target, and count from 1 to 64");
  r->nlinks++;
}

static void read_net(XmlReader *r, const char **attributes) {
  const char *speed = attribute(attributes, "speed");
  double rate = speed ? strtod(speed, NULL) : 0;
  if (!(rate > 0) || !(rate < 1e7)) return;
  FoundMachine *m = r->m;
  if (m->adapters && rate != m->adapter_rate) {
    topo_found_note(m, "left out: an adapter of %g Mbit/s beside those of %g",
                    rate < m->adapter_rate ? rate : m->adapter_rate, rate < m->adapter_rate ? m->adapter_rate : rate);
    if (rate < m->adapter_rate) return;
    m->adapters = 0;
  }
  m->adapter_rate = rate;
  if (!m->adapters++) m->adapter = attribute(attributes, "name") ? kept(r, attributes, "name") : "net";
}

/* NCCL's cpu is a NUMA node. */
static void read_cpu(XmlReader *r, const char **attributes) {
  const char *vendor = attribute(attributes, "vendor");
  r->nodes++;
  set_place(r, PLACE_HOST);
  if (vendor)
    topo_found_processor(r->m, vendor, count_of(attributes, "familyid", 9999), count_of(attributes, "modelid", 9999));
}

static void read_nccl(XmlReader *r, const char *name, const char **attributes) {
  if (strcmp(name, "pci") == 0) {
    set_place(r, PLACE_BRIDGE);
    r->pci[r->depth] =
        (PciDevice){kept(r, attributes, "busid"), kept(r, attributes, "vendor"), kept(r, attributes, "device"),
                    kept(r, attributes, "link_speed"), kept(r, attributes, "link_width")};
  } else if (strcmp(name, "cpu") == 0) read_cpu(r, attributes);
  else if (strcmp(name, "gpu") == 0) read_gpu(r, attributes);
  else if (strcmp(name, "nvlink") == 0) read_nvlink(r, attributes);
  else if (strcmp(name, "net") == 0) read_net(r, attributes);
}

/* ---- hwloc */

/* Reads a PCI device of type "0302 [10de:1db5] ...". */
static void read_device(XmlReader *r, const char **attributes) {
  const char *type = attribute(attributes, "pci_type"), *speed = attribute(attributes, "pci_link_speed");
  if (!type || strlen(type) < 16 || strncmp(type, "03", 2) != 0 || type[5] != '[') {
    if (type && strncmp(type, "1200 [1002:", 11) == 0) r->amd++;
    return;
  }
  if (strncmp(type, "0380 [1002:", 11) == 0) r->amd++;
  if (strncmp(type + 6, "10de:", 5) != 0) return;
  const char *id = arena_strndup(r->m->arena, type + 11, 4);
  FoundGpu *g = topo_found_gpu(r->m);
  if (!g) return stop(r);
  r->gpu_depth = r->depth;
  keep_above(r, 1);
  if (!g->kind) g->kind = topo_found_kind_of_id(id);
  double rate = speed ? strtod(speed, NULL) : 0;
  const bool idle = rate > 0.1 && rate < 4.01; /* 16 lanes of Gen 1, to which GPUs at rest go */
  g->pcie = !idle && rate > 0.1 && rate < 1000 ? rate : 0;
  if (idle) topo_found_note(r->m, "left out: PCIe at %g GB/s in the file, as of a GPU at rest", rate);
  if (!g->kind) topo_found_unknown(r->m, arena_printf(r->m->arena, "the GPU 10de:%s", id)), stop(r);
}

/* Keeps the number of the NVML device of the GPU that the element is in. */
static void read_os_device(XmlReader *r, const char **attributes) {
  const char *name = attribute(attributes, "name");
  int number = count_of(attributes, "gp_index", 999999999);
  if (r->m->ngpus && r->depth == r->gpu_depth + 1 && name && strncmp(name, "nvml", 4) == 0 && number > 0)
    r->nvml[r->m->ngpus - 1] = number;
}

/* Begins the NVLink matrix. */
static void read_distances(XmlReader *r, const char **attributes) {
  const char *name = attribute(attributes, "name");
  if (!name || strcmp(name, "NVLinkBandwidth") != 0) return;
  r->distant = count_of(attributes, "nbobjs", DISTANT);
  if (r->m->has_nvlink) return FAIL(r, "NVLinkBandwidth is given twice");
  if (r->distant < 1) return FAIL(r, "NVLinkBandwidth needs nbobjs from 1 to %d", DISTANT);
  r->m->has_nvlink = true;
}

/* Returns the GPU of an index "OSDev:802" or "802"; -1 if it is another object. */
static int gpu_of_index(const XmlReader *r, const char *index) {
  if (strncmp(index, "OSDev:", 6) == 0) index += 6;
  int number = atoi(index);
  for (int i = 0; i < r->m->ngpus && number > 0; i++)
    if (r->nvml[i] == number) return i;
  return -1;
}

/* Adds `rate` MB/s of NVLink from a GPU to another, or to a switch (-1). */
static void add_nvlink(FoundMachine *m, int from, int to, double rate) {
  const FoundKind *k = m->gpus[from].kind;
  double links = k->link_rate > 0 ? rate / 1e3 / k->link_rate : 1, whole = floor(links + 0.5);
  if (fabs(links - whole) > 0.01 || whole < 1)
    topo_found_note(m, "assumed: %g links of NVLink of GPU %d, for %g MB/s in the file", fmax(whole, 1),
                    m->gpus[from].number, rate);
  if (to < 0) m->gpus[from].switched += (int)fmax(whole, 1);
  else m->gpus[from].direct[to] += (int)fmax(whole, 1), m->gpus[from].joined[to] = true;
}

/* Reads the NVLink matrix at its end. */
static void end_distances(XmlReader *r) {
  const double most = 2e6; /* MB/s; more is hwloc's value of an object and itself */
  int n = r->distant, count = 0, *gpus = ARENA_ARRAY(r->m->arena, int, n);
  char *save, *indexes = arena_strdup(r->m->arena, text_str(&r->indexes)),
              *values = arena_strdup(r->m->arena, text_str(&r->values));
  r->distant = 0;
  for (char *at = strtok_r(indexes, " \n", &save); at; at = strtok_r(NULL, " \n", &save), count++) {
    if (count < n) gpus[count] = gpu_of_index(r, at);
  }
  if (count != n) return FAIL(r, "NVLinkBandwidth has %d indexes for %d objects", count, n);
  count = 0;
  for (char *at = strtok_r(values, " \n", &save); at; at = strtok_r(NULL, " \n", &save), count++) {
    int from = count < n * n ? gpus[count / n] : -1, to = gpus[count % n];
    double rate = strtod(at, NULL);
    if (count / n == count % n || from < 0 || !(rate > 0)) continue;
    if (!(rate <= most)) return FAIL(r, "NVLinkBandwidth has %s MB/s", text_shown(r->m->arena, at));
    if (to != from) add_nvlink(r->m, from, to, rate);
  }
  if (count != n * n) FAIL(r, "NVLinkBandwidth has %d values for %d objects", count, n);
}

static void read_memory(XmlReader *r, const char **attributes) {
  const char *bytes = attribute(attributes, "local_memory");
  double n = bytes ? strtod(bytes, NULL) : 0;
  if (n > 0 && n < 1e16) r->m->memory += n;
}

static void read_bridge(XmlReader *r, const char **attributes) {
  const char *type = attribute(attributes, "bridge_type");
  set_place(r, type && strcmp(type, "0-1") == 0 ? PLACE_HOST : PLACE_BRIDGE);
}

/* Reads <info name="CPUModelNumber" value="85"/> and its like, which come in the order vendor, family, model. */
static void read_info(XmlReader *r, const char **attributes) {
  const char *name = attribute(attributes, "name"), *value = attribute(attributes, "value");
  if (!name || !value) return;
  if (strcmp(name, "CPUVendor") == 0) r->vendor = arena_strdup(r->m->arena, value);
  if (strcmp(name, "CPUFamilyNumber") == 0) r->family = count_of(attributes, "value", 9999);
  if (strcmp(name, "CPUModelNumber") == 0 && r->vendor)
    topo_found_processor(r->m, r->vendor, r->family, count_of(attributes, "value", 9999));
}

static void read_hwloc(XmlReader *r, const char *name, const char **attributes) {
  const char *type = strcmp(name, "object") == 0 ? attribute(attributes, "type") : NULL;
  if (r->distant) r->into = strcmp(name, "indexes") == 0 ? &r->indexes : &r->values;
  if (strncmp(name, "distances2", 10) == 0) read_distances(r, attributes);
  if (strcmp(name, "info") == 0) read_info(r, attributes);
  if (!type) return;
  read_memory(r, attributes);
  if (strcmp(type, "PCIDev") == 0) read_device(r, attributes);
  else if (strcmp(type, "Bridge") == 0) read_bridge(r, attributes);
  else if (strcmp(type, "OSDev") == 0) read_os_device(r, attributes);
  else if (strcmp(type, "Core") == 0) r->m->cores++;
  else if (strcmp(type, "NUMANode") == 0) r->nodes++;
  else if (strcmp(type, "Package") == 0 || strcmp(type, "Socket") == 0) r->packages++, set_place(r, PLACE_SOCKET);
}

/* ---- the file */

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes) {
  XmlReader *r = user;
  if (r->failed) return;
  if (r->depth == 0) {
    r->hwloc = strcmp(name, "topology") == 0;
    if (!r->hwloc && strcmp(name, "system") != 0)
      return FAIL(r, "<%s> is not a topology of NCCL (<system>) or hwloc (<topology>)", text_shown(r->m->arena, name));
  }
  if (++r->depth >= FOUND_DEPTH) return FAIL(r, "elements are nested more than %d deep", FOUND_DEPTH - 1);
  r->pci[r->depth] = r->pci[r->depth - 1];
  r->now.n = r->depth;
  r->now.at[r->depth - 1].id = ++r->elements;
  r->now.at[r->depth - 1].place = PLACE_OTHER;
  if (r->hwloc) read_hwloc(r, name, attributes);
  else read_nccl(r, name, attributes);
}

static void XMLCALL on_end(void *user, const XML_Char *name) {
  XmlReader *r = user;
  if (strcmp(name, "gpu") == 0) r->gpu = -1;
  r->into = NULL;
  if (r->distant && !r->failed && strncmp(name, "distances2", 10) == 0) end_distances(r);
  r->depth--;
}

static void XMLCALL on_text(void *user, const XML_Char *text, int n) {
  XmlReader *r = user;
  if (r->into && !r->failed) text_addn(r->into, text, (size_t)n);
}

static void XMLCALL on_entity(void *user, const XML_Char *name, int parameter, const XML_Char *value, int n,
                              const XML_Char *base, const XML_Char *system, const XML_Char *public,
                              const XML_Char *notation) {
  XmlReader *r = user;
  (void)name, (void)parameter, (void)value, (void)n, (void)base, (void)system, (void)public, (void)notation;
  if (!r->failed) FAIL(r, "the file declares an entity");
}

/* ---- paths over PCIe */

/* The path between two GPUs, from the innermost element that both are in. */
static FoundPath path_between(const XmlReader *r, int i, int j) {
  const Above *a = &r->above[i], *b = &r->above[j];
  const int inside = r->hwloc ? 1 : 0; /* hwloc has an element for each end of a switch, NCCL one for both */
  int common = 0, between[2] = {0, 0};
  while (common < a->n && common < b->n && a->at[common].id == b->at[common].id) common++;
  for (int k = common; k < a->n; k++) between[0] += a->at[k].place == PLACE_BRIDGE;
  for (int k = common; k < b->n; k++) between[1] += b->at[k].place == PLACE_BRIDGE;
  for (int k = common - 1; k >= 0; k--) {
    if (a->at[k].place == PLACE_BRIDGE) return between[0] > inside || between[1] > inside ? FOUND_PXB : FOUND_PIX;
    if (a->at[k].place == PLACE_HOST) return FOUND_PHB;
    if (a->at[k].place == PLACE_SOCKET) return FOUND_NODE;
  }
  return r->hwloc && r->packages < 2 ? FOUND_NODE : FOUND_SYS;
}

static void find_paths(XmlReader *r) {
  for (int i = 0; i < r->m->ngpus; i++)
    for (int j = 0; j < r->m->ngpus; j++)
      if (i != j) r->m->gpus[i].path[j] = path_between(r, i, j);
}

bool topo_found_xml(FoundMachine *m, const char *text, size_t n) {
  XmlReader *r = ARENA_NEW(m->arena, XmlReader);
  *r = (XmlReader){.m = m,
                   .gpu = -1,
                   .parser = XML_ParserCreate(NULL),
                   .indexes = {.arena = m->arena},
                   .values = {.arena = m->arena}};
  m->has_nvlink = false;
  if (!r->parser) return topo_found_error(m, "no memory to read XML");
  XML_SetUserData(r->parser, r);
  XML_SetElementHandler(r->parser, on_start, on_end);
  XML_SetCharacterDataHandler(r->parser, on_text);
  XML_SetEntityDeclHandler(r->parser, on_entity);
  if (XML_Parse(r->parser, text, (int)n, XML_TRUE) != XML_STATUS_OK && !r->failed) {
    diag_error(m->diags, DIAG_target_found,
               (Loc){.file = m->file,
                     .line = (int)XML_GetCurrentLineNumber(r->parser),
                     .col = (int)XML_GetCurrentColumnNumber(r->parser) + 1},
               "%s", XML_ErrorString(XML_GetErrorCode(r->parser)));
    r->failed = true;
  }
  XML_ParserFree(r->parser);
  if (r->failed) return false;
  if (r->amd && !m->ngpus) return topo_found_error(m, "the machine has GPUs of AMD; only those of NVIDIA have targets");
  if (!r->hwloc && !m->ngpus) return topo_found_error(m, "the topology has no gpu element");
  m->has_nvlink |= !r->hwloc;
  m->nodes = r->hwloc ? r->packages : r->nodes;
  find_paths(r);
  return topo_found_connect(m, r->links, r->nlinks);
}
