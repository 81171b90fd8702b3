/* codegen/elf.c - see elf.h. */
#include "codegen/elf.h"

#include <elf.h>
#include <string.h>

bool elf_is_whole(const FileMap *f) {
  Elf64_Ehdr head;
  if (f->size < sizeof head) return false;
  memcpy(&head, f->data, sizeof head);
  uint64_t table = (uint64_t)head.e_shnum * head.e_shentsize;
  return memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 && table > 0 &&
         table <= f->size && head.e_shoff <= f->size - table;
}
