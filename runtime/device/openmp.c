/* runtime/device/openmp.c - see openmp.h.  The symbols that a library needs are read from its dynamic symbol table
 * (System V ABI).  GNU's hash table lists only defined symbols, so those below its first one are the needed ones. */
#define _GNU_SOURCE /* RTLD_DEFAULT, dlinfo */
#include "runtime/device/openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

static bool own_threads(void) { return dlsym(RTLD_DEFAULT, "GOMP_parallel") != NULL; }

void *openmp_symbol(const char *name) {
  if (own_threads()) return dlsym(RTLD_DEFAULT, name);
  void *gomp = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_GLOBAL);
  return gomp ? dlsym(gomp, name) : NULL;
}

typedef struct Symbols {
  const ElfW(Sym) * table;
  const char *names;
  const uint32_t *hash;
} Symbols;

static Symbols symbols_of(void *library) {
  Symbols s = {0};
  struct link_map *map;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return s;
  for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
    const void *at = (const void *)d->d_un.d_ptr;
    if (d->d_tag == DT_SYMTAB) s.table = at;
    if (d->d_tag == DT_STRTAB) s.names = at;
    if (d->d_tag == DT_GNU_HASH) s.hash = at;
  }
  return s;
}

/* Returns an OpenMP function that the library needs and this program lacks; NULL if there is none. */
static const char *foreign(const Symbols *s) {
  if (!s->table || !s->names || !s->hash) return NULL;
  for (uint32_t i = 1; i < s->hash[1]; i++) {
    const char *name = s->names + s->table[i].st_name;
    bool openmp = strncmp(name, "GOMP_", 5) == 0 || strncmp(name, "omp_", 4) == 0;
    if (openmp && s->table[i].st_shndx == SHN_UNDEF && !dlsym(RTLD_DEFAULT, name)) return name;
  }
  return NULL;
}

RtStatus openmp_check(void *library, const char *name, RtError *error) {
  Symbols s = symbols_of(library);
  const char *function = own_threads() ? foreign(&s) : NULL;
  if (!function) return RT_OK;
  return rt_error(error, RT_UNSUPPORTED, "%s needs %s of OpenMP, which compiled programs do not provide", name,
                  function);
}
