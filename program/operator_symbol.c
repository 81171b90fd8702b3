/* program/operator_symbol.c - see operator_symbol.h.
 *
 * dlsym also searches the libraries on which this one depends.  Where the loader found a symbol, and what it is, says
 * dladdr1.  A function with variants for several processors (STT_GNU_IFUNC) is found by a variant, which may have no
 * symbol; a variable always has one.
 */
#define _GNU_SOURCE /* dladdr1 */
#include "program/operator_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>

void *operator_symbol(void *library, const char *name) {
  const void *version = dlsym(library, "apc_operator_version");
  void *address = dlsym(library, name), *symbol = NULL;
  Dl_info own, found;
  if (!version || !address || !dladdr(version, &own)) return NULL;
  if (!dladdr1(address, &found, &symbol, RTLD_DL_SYMENT) || found.dli_fbase != own.dli_fbase) return NULL;
  const ElfW(Sym) *s = symbol;
  return !s || ELF64_ST_TYPE(s->st_info) == STT_FUNC || ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC ? address : NULL;
}
