/* codegen/cpu/kernel_object.c - see kernel_object.h. */
#include "codegen/cpu/kernel_object.h"

#include <elf.h>
#include <string.h>

#include "codegen/elf.h"

/* The dynamic symbols of an ELF file. */
typedef struct Symbols {
  const uint8_t *table;
  const char *names;
  size_t n, names_bytes;
} Symbols;

static bool lies_inside(const FileMap *f, const Elf64_Shdr *s) {
  return s->sh_size <= f->size && s->sh_offset <= f->size - s->sh_size;
}

static Elf64_Shdr section_of(const FileMap *f, const Elf64_Ehdr *head, size_t i) {
  Elf64_Shdr s;
  memcpy(&s, f->data + head->e_shoff + i * head->e_shentsize, sizeof s);
  return s;
}

/* Reads the table of dynamic symbols.  False if the file has none, or a damaged one. */
static bool read_symbols(const FileMap *f, Symbols *out) {
  Elf64_Ehdr head;
  if (!elf_is_whole(f)) return false;
  memcpy(&head, f->data, sizeof head);
  if (head.e_shentsize != sizeof(Elf64_Shdr)) return false;
  for (size_t i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr s = section_of(f, &head, i);
    if (s.sh_type != SHT_DYNSYM || s.sh_link >= head.e_shnum) continue;
    Elf64_Shdr names = section_of(f, &head, s.sh_link);
    if (!lies_inside(f, &s) || !lies_inside(f, &names) || names.sh_size == 0 ||
        f->data[names.sh_offset + names.sh_size - 1])
      return false;
    *out = (Symbols){f->data + s.sh_offset, (const char *)f->data + names.sh_offset, s.sh_size / sizeof(Elf64_Sym),
                     names.sh_size};
    return true;
  }
  return false;
}

static Elf64_Sym symbol_at(const Symbols *s, size_t i, const char **name) {
  Elf64_Sym symbol;
  memcpy(&symbol, s->table + i * sizeof symbol, sizeof symbol);
  *name = symbol.st_name < s->names_bytes ? s->names + symbol.st_name : "";
  return symbol;
}

static bool defines(const Symbols *s, const char *wanted) {
  for (size_t i = 0; i < s->n; i++) {
    const char *name;
    Elf64_Sym symbol = symbol_at(s, i, &name);
    if (symbol.st_shndx != SHN_UNDEF && strcmp(name, wanted) == 0) return true;
  }
  return false;
}

/* Returns a function of OpenMP that the object needs and the runtime lacks; NULL if none. */
static const char *foreign_openmp(const Symbols *object, const Symbols *stub) {
  for (size_t i = 0; i < object->n; i++) {
    const char *name;
    Elf64_Sym symbol = symbol_at(object, i, &name);
    bool openmp = strncmp(name, "GOMP_", 5) == 0 || strncmp(name, "omp_", 4) == 0;
    if (openmp && symbol.st_shndx == SHN_UNDEF && !defines(stub, name)) return name;
  }
  return NULL;
}

static bool same_machine(const FileMap *a, const FileMap *b) {
  Elf64_Ehdr x, y;
  memcpy(&x, a->data, sizeof x);
  memcpy(&y, b->data, sizeof y);
  return x.e_machine == y.e_machine && x.e_ident[EI_DATA] == y.e_ident[EI_DATA];
}

bool kernel_object_check(Diags *d, const KernelObject *k) {
  Symbols object, stub;
  if (!read_symbols(k->object, &object))
    return diag_error(d, DIAG_tool_failed, (Loc){0}, "the output of %s for generated code is not a shared object",
                      k->cc);
  for (uint32_t i = 0; i < k->program->n_kernels; i++) {
    const char *name = program_text(k->program, k->program->kernels[i].name);
    if (!defines(&object, name))
      return diag_error(d, DIAG_tool_failed, (Loc){0},
                        "the shared object that %s made from generated code lacks the kernel '%s'", k->cc, name);
  }
  if (!read_symbols(k->stub, &stub)) return true; /* linked without dynamic libraries: nothing is shared */
  if (!same_machine(k->object, k->stub))
    return diag_error(d, DIAG_tool_failed, (Loc){0}, "%s generates code for another kind of machine", k->cc);
  const char *openmp = foreign_openmp(&object, &stub);
  return !openmp ||
         diag_error(d, DIAG_tool_failed, (Loc){0},
                    "%s generates code that needs %s of OpenMP, which compiled programs do not provide", k->cc, openmp);
}
