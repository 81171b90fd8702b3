/* frontend/topo/found_local.c - describes this machine.
 *
 * If NVML is there and has GPUs, it gives all facts about them (found_nvml.c), and Linux gives processor and memory.
 * Otherwise libhwloc, loaded when it is needed, writes what it finds as XML, which found_xml.c reads as it reads files;
 * it gives NVLink only with its plugin of NVML.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Reads the first processor of /proc/cpuinfo. */
static void read_processor(FoundMachine *m) {
  char line[512], vendor[64] = "";
  int family = -1, model = -1;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && model < 0 && fgets(line, sizeof line, f)) {
    sscanf(line, "vendor_id : %63s", vendor);
    sscanf(line, "cpu family : %d", &family);
    sscanf(line, "model : %d", &model);
  }
  if (f) fclose(f);
  topo_found_processor(m, vendor, family, model);
}

static bool read_hwloc(FoundMachine *m) {
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

bool topo_found_local(FoundMachine *m) {
  bool found;
  if (!topo_found_nvml(m, &found)) return false;
  if (!found) return read_hwloc(m);
  m->memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  read_processor(m);
  return true;
}
