/* frontend/topo/found_text.c - writes the facts about a machine as text of the target language; see found.h.
 *
 * found_links.c writes the links between GPUs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/topo/found.h"

static int by_number(const void *a, const void *b) {
  const FoundGpu *x = a, *y = b;
  return (x->number > y->number) - (x->number < y->number);
}

/* Puts GPUs into the order of their numbers, with their links. */
static void sort_gpus(FoundMachine *m) {
  FoundGpu *old = ARENA_ARRAY(m->arena, FoundGpu, FOUND_GPUS);
  int from[FOUND_GPUS];
  for (int i = 0; i < m->ngpus; i++) old[i] = m->gpus[i];
  for (int i = 0; i < m->ngpus; i++) { m->gpus[i].direct[0] = i; /* for now, its place before */ }
  qsort(m->gpus, (size_t)m->ngpus, sizeof *m->gpus, by_number);
  for (int i = 0; i < m->ngpus; i++) from[i] = m->gpus[i].direct[0];
  for (int i = 0; i < m->ngpus; i++)
    for (int j = 0; j < m->ngpus; j++) {
      m->gpus[i].direct[j] = old[from[i]].direct[from[j]];
      m->gpus[i].joined[j] = old[from[i]].joined[from[j]];
      m->gpus[i].path[j] = old[from[i]].path[from[j]];
    }
}

static void print_network(FoundMachine *m, Text *out) {
  if (!(m->adapter_rate > 0)) {
    topo_found_note(m, "the file does not give the rate of adapters (%d): no network between machines", m->adapters);
    return;
  }
  bool efa = strstr(m->adapter, "rdmap") || strstr(m->adapter, "efa"), ib = strncmp(m->adapter, "mlx", 3) == 0;
  text_printf(out, "  network %s %d at %.6g Gbit/s with %s;\n",
              efa  ? "efa"
              : ib ? "infiniband"
                   : "ethernet",
              m->adapters, m->adapter_rate / 1e3,
              efa  ? "efa"
              : ib ? "infiniband"
                   : "tcp");
  topo_found_note(m, "assumed: the network is %s, from the name of its first adapter",
                  efa  ? "EFA"
                  : ib ? "InfiniBand"
                       : "Ethernet");
}

static void print_devices(const FoundMachine *m, Text *out) {
  for (int i = 0, j; i < m->ngpus; i = j) {
    for (j = i; j < m->ngpus && m->gpus[j].kind == m->gpus[i].kind; j++) {}
    text_printf(out, "  devices %d %s;\n", j - i, m->gpus[i].kind->part);
  }
}

/* A machine without GPUs: its cores at the rates of the built-in cpu, which calibration replaces. */
static bool print_cpu(FoundMachine *m, Text *out, const char *name) {
  if (m->cores < 1 || m->memory < 1e6) return topo_found_error(m, "the file has no GPU, and no cores with memory");
  text_printf(
      out,
      "cpu %s-cores {\n  cores %d;\n  memory %.0f MB at 45 GB/s;\n  launch 5 us;\n  peak f32 %d GFLOPS;\n"
      "  peak f64 %d GFLOPS;\n  note \"assumed: rates of the built-in cpu, 110 GFLOPS of a core in f32 and 45 GB/s; "
      "apc calibrate measures them\";\n}\n",
      name, m->cores, floor(m->memory / 1e6), 110 * m->cores, 55 * m->cores);
  text_printf(out, "machine %s {\n  devices 1 %s-cores;\n  link shared-memory at 13 GB/s latency 10 us;\n", name, name);
  topo_found_note(m, "assumed: shared memory at 13 GB/s and 10 us, as of the built-in cpu");
  return true;
}

const char *topo_found_print(FoundMachine *m, const char *name) {
  Text out = {.arena = m->arena};
  sort_gpus(m);
  for (int i = 1; i < m->ngpus; i++)
    if (m->gpus[i].number == m->gpus[i - 1].number) {
      topo_found_error(m, "two GPUs have the number %d", m->gpus[i].number);
      return NULL;
    }
  if (m->ngpus) {
    text_printf(&out, "machine %s {\n", name);
    print_devices(m, &out);
    if (m->ngpus > 1) topo_found_print_links(m, &out);
    else text_printf(&out, "  pcie pcie at %.4g GB/s;\n", topo_found_pcie(m));
    print_network(m, &out);
    if (m->memory >= 1e6) text_printf(&out, "  host-memory %.0f MB;\n", floor(m->memory / 1e6));
  } else if (!print_cpu(m, &out, name)) return NULL;
  if (m->given) topo_found_note(m, "the kind of GPU is that of the name's ?gpu=");
  if (m->nodes) topo_found_note(m, "%d NUMA nodes or sockets", m->nodes);
  text_printf(&out, "%s}\n", text_str(&m->notes));
  return text_str(&out);
}
