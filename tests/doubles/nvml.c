/* tests/doubles/nvml.c - a double of libnvidia-ml.so.1: the GPUs of a machine that DOUBLE_NVML names.  A test compiles
 * it into a folder, and puts that into LD_LIBRARY_PATH.
 *
 *   h100   8 H100 on NVSwitch: two sockets, two GPUs below each PCIe switch
 *   blind  the same, whose driver gives no addresses and no other ends of links
 *   rtx    4 RTX 4090 without access to each other: two sockets, two host bridges in each
 *   titan  a GPU whose name apc does not know
 *   mig    an H100 that is divided
 *   ends   2 H100, of which only the first has a link to the other
 *   none   no GPU
 *   lost   a driver that is not loaded
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Device Device;
struct Device {
  int number;
};
typedef struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem;
  char bus_id[32];
} PciInfo;
typedef struct Memory {
  unsigned long long total, free, used;
} Memory;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_LOADED = 9, MOST = 8 };

static Device devices[MOST];
static int started;

static int is(const char *name) {
  const char *machine = getenv("DOUBLE_NVML");
  return machine && strcmp(machine, name) == 0;
}

static unsigned gpus(void) {
  return is("h100") || is("blind") ? 8 : is("rtx") ? 4 : is("ends") ? 2 : is("none") ? 0 : 1;
}
static int hopper(void) { return !is("rtx") && !is("titan"); }

int nvmlInit_v2(void) {
  if (is("lost")) return NOT_LOADED;
  started = 1;
  for (int i = 0; i < MOST; i++) devices[i].number = i;
  return OK;
}

int nvmlShutdown(void) { return started-- == 1 ? OK : INVALID; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = gpus();
  return started ? OK : INVALID;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
  if (!started || index >= gpus()) return INVALID;
  *out = &devices[index];
  return OK;
}

int nvmlDeviceGetName(Device *d, char *name, unsigned bytes) {
  (void)d;
  snprintf(name, bytes, "%s",
           is("rtx")     ? "NVIDIA GeForce RTX 4090"
           : is("titan") ? "NVIDIA TITAN Q"
                         : "NVIDIA H100 80GB HBM3");
  return OK;
}

static int address(unsigned bus, PciInfo *p) {
  memset(p, 0, sizeof *p);
  p->bus = bus;
  snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", bus);
  return OK;
}

int nvmlDeviceGetPciInfo_v3(Device *d, PciInfo *p) {
  return is("blind") ? NOT_SUPPORTED : address(0x10 + 8 * (unsigned)d->number, p);
}

int nvmlDeviceGetMemoryInfo(Device *d, Memory *m) {
  (void)d;
  *m = (Memory){is("rtx") ? 25757220864ull : 85520809984ull, 0, 0};
  return OK;
}

int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *later) {
  (void)d;
  if (!hopper()) return NOT_SUPPORTED;
  *now = *later = (unsigned)is("mig");
  return OK;
}

int nvmlDeviceGetMaxPcieLinkGeneration(Device *d, unsigned *n) {
  (void)d;
  *n = is("rtx") ? 4 : 5;
  return OK;
}

int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *n) {
  (void)d;
  *n = 16;
  return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(Device *a, Device *b, unsigned *level) {
  const int i = a->number, j = b->number, half = (int)gpus() / 2;
  *level = i / half != j / half ? 50 : hopper() && i / 2 == j / 2 ? 20 : 40;
  return OK;
}

int nvmlDeviceGetP2PStatus(Device *a, Device *b, unsigned way, unsigned *status) {
  (void)a, (void)b, (void)way;
  *status = hopper() ? 0 : 1;
  return OK;
}

int nvmlDeviceGetMemoryAffinity(Device *d, unsigned words, unsigned long *nodes, unsigned scope) {
  (void)scope;
  for (unsigned i = 0; i < words; i++) nodes[i] = 0;
  nodes[0] = 1ul << ((unsigned)d->number / (gpus() / 2 ? gpus() / 2 : 1));
  return OK;
}

int nvmlDeviceGetNvLinkState(Device *d, unsigned link, unsigned *active) {
  (void)d;
  if (!hopper()) return NOT_SUPPORTED;
  if (link >= 18) return INVALID;
  *active = is("h100") || is("blind") || (is("ends") && d->number == 0);
  return OK;
}

int nvmlDeviceGetNvLinkVersion(Device *d, unsigned link, unsigned *version) {
  (void)d, (void)link;
  *version = 6;
  return OK;
}

/* Links go to four switches, as on an HGX board: 4, 4, 5 and 5 of them. */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *d, unsigned link, PciInfo *p) {
  if (is("blind")) return NOT_SUPPORTED;
  if (is("ends")) return nvmlDeviceGetPciInfo_v3(&devices[1 - d->number], p);
  return address(0xa0 + link % 4, p);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device *d, unsigned link, unsigned *type) {
  (void)d, (void)link;
  *type = is("ends") ? 0 : 2;
  return is("blind") ? NOT_SUPPORTED : OK;
}
