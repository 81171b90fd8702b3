/* base/lost_pages.c - see lost_pages.h.
 *
 * The handler may run in any thread at any time, so mappings are kept in a list that only grows; free entries are
 * reused.
 */
#include "base/lost_pages.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Mapping {
  struct Mapping *next;
  _Atomic uintptr_t data; /* FREE, CLAIMED, or the address of the mapping */
  size_t bytes;
  char *path;
} Mapping;

enum { FREE = 0, CLAIMED = 1 };

static _Atomic(Mapping *) mappings;
static void (*ended)(const char *path, void *context); /* NULL if not handled */
static void *ended_context;
static struct sigaction before;

static const Mapping *find(uintptr_t address) {
  for (const Mapping *m = atomic_load(&mappings); m; m = m->next) {
    uintptr_t data = atomic_load(&m->data);
    if (data > CLAIMED && address >= data && address - data < m->bytes) return m;
  }
  return NULL;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  const Mapping *m = info->si_code > 0 ? find((uintptr_t)info->si_addr) : NULL;
  if (m) ended(m->path ? m->path : "a mapped file", ended_context);
  sigaction(SIGBUS, &before, NULL); /* the instruction is retried, and fails as before */
  if (info->si_code <= 0) raise(SIGBUS);
}

void lost_pages_handle(void (*hook)(const char *, void *), void *context) {
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  bool first = !ended;
  ended_context = context;
  ended = hook;
  if (first) sigaction(SIGBUS, &action, &before);
}

bool lost_pages_handled(void) { return ended != NULL; }

static Mapping *claim(void) {
  for (Mapping *m = atomic_load(&mappings); m; m = m->next) {
    uintptr_t is = FREE;
    if (atomic_compare_exchange_strong(&m->data, &is, CLAIMED)) return m;
  }
  Mapping *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->data = CLAIMED;
  m->next = atomic_load(&mappings);
  while (!atomic_compare_exchange_weak(&mappings, &m->next, m)) continue;
  return m;
}

void lost_pages_watch(const void *data, size_t bytes, const char *path) {
  Mapping *m = ended && bytes ? claim() : NULL;
  if (!m) return;
  free(m->path);
  m->path = strdup(path);
  m->bytes = bytes;
  atomic_store(&m->data, (uintptr_t)data);
}

void lost_pages_forget(const void *data) {
  for (Mapping *m = atomic_load(&mappings); m; m = m->next) {
    uintptr_t is = (uintptr_t)data;
    if (is > CLAIMED && atomic_compare_exchange_strong(&m->data, &is, FREE)) return;
  }
}
