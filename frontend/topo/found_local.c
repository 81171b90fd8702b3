/* frontend/topo/found_local.c - describes this machine: libhwloc, loaded when it is needed, writes what it finds as
 * XML, which found_xml.c reads as it reads files.  hwloc gives NVLink only with its plugin of NVML; `nvidia-smi topo
 * -m` always has it. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "frontend/topo/found.h"

/* Of hwloc.h, version 2: hwloc_topology_set_io_types_filter keeps PCI devices with KEEP_IMPORTANT. */
enum { HWLOC_KEEP_IMPORTANT = 3 };
typedef struct Hwloc {
  int (*init)(void **), (*load)(void *), (*set_io_types_filter)(void *, int);
  int (*export_xmlbuffer)(void *, char **, int *, unsigned long);
  void (*free_xmlbuffer)(void *, char *), (*destroy)(void *);
} Hwloc;

static bool symbol(void *library, const char *name, void *to) {
  void *f = dlsym(library, name);
  memcpy(to, &f, sizeof f);
  return f != NULL;
}

static bool load(Hwloc *h) {
  void *l = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
  return l && symbol(l, "hwloc_topology_init", &h->init) && symbol(l, "hwloc_topology_load", &h->load) &&
         symbol(l, "hwloc_topology_set_io_types_filter", &h->set_io_types_filter) &&
         symbol(l, "hwloc_topology_export_xmlbuffer", &h->export_xmlbuffer) &&
         symbol(l, "hwloc_free_xmlbuffer", &h->free_xmlbuffer) && symbol(l, "hwloc_topology_destroy", &h->destroy);
}

bool topo_found_local(FoundMachine *m) {
  Hwloc h;
  void *topology;
  char *xml;
  int n;
  if (!load(&h)) {
    diag_error(m->diags, DIAG_tool_missing, (Loc){0}, "the target local needs libhwloc.so.15");
    diag_help(m->diags, "Debian's package is libhwloc15");
    return false;
  }
  if (h.init(&topology) != 0) return topo_found_error(m, "libhwloc cannot begin");
  bool ok = h.set_io_types_filter(topology, HWLOC_KEEP_IMPORTANT) == 0 && h.load(topology) == 0 &&
            h.export_xmlbuffer(topology, &xml, &n, 0) == 0;
  if (!ok) topo_found_error(m, "libhwloc cannot describe this machine");
  if (ok) ok = topo_found_xml(m, xml, strlen(xml)), h.free_xmlbuffer(topology, xml);
  h.destroy(topology);
  return ok;
}
