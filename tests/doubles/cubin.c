/* tests/doubles/cubin.c - see cubin.h.
 *
 * A cubin is a 64-bit ELF file of machine 190.  Each kernel NAME has sections .text.NAME, .nv.info.NAME and, if it
 * declares shared memory, .nv.shared.NAME, whose size is that memory; from sm_90 on it includes 1 KiB that the system
 * reserves (there is a section .nv.shared.reserved.0 then).  .nv.info.NAME is a list of attributes: a byte of format (1
 * none, 2 one byte, 3 two bytes, 4 a size and so many bytes), a byte of kind, two bytes.  .nv.info has the registers of
 * all kernels by the number of their symbol.  Kinds are named as cuobjdump does. */
#include "tests/doubles/cubin.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  FORMAT_SIZED = 4,
  KIND_MAX_THREADS = 0x05,
  KIND_KPARAM_INFO = 0x17,
  KIND_CBANK_PARAM_SIZE = 0x19,
  KIND_REGCOUNT = 0x2f,
  MACHINE_CUDA = 190,
  SYSTEM_SHARED = 1024
};

typedef struct Reader {
  const char *image;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sections;
  Cubin *out;
  bool reserves;
} Reader;

static const char *name_of(const Reader *r, const Elf64_Shdr *s) {
  return r->image + r->sections[r->head->e_shstrndx].sh_offset + s->sh_name;
}

static size_t file_end(const Reader *r) {
  const Elf64_Ehdr *h = r->head;
  size_t end = h->e_shoff + (size_t)h->e_shnum * sizeof(Elf64_Shdr);
  size_t programs = h->e_phoff + (size_t)h->e_phnum * sizeof(Elf64_Phdr);
  if (h->e_phnum && programs > end) end = programs;
  for (int i = 0; i < h->e_shnum; i++) {
    const Elf64_Shdr *s = &r->sections[i];
    if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL && s->sh_offset + s->sh_size > end)
      end = s->sh_offset + s->sh_size;
  }
  return end;
}

typedef struct Attribute {
  int kind;
  uint32_t value; /* unless it has a size */
  const uint32_t *words;
  size_t n;
} Attribute;

typedef void Heard(Reader *r, CubinKernel *k, const Attribute *a);

static void attributes(Reader *r, const Elf64_Shdr *s, CubinKernel *k, Heard *heard) {
  const unsigned char *p = (const unsigned char *)r->image + s->sh_offset, *end = p + s->sh_size;
  while (p + 4 <= end) {
    Attribute a = {.kind = p[1], .value = (uint32_t)(p[2] | p[3] << 8)};
    if (p[0] == FORMAT_SIZED) {
      a.words = (const uint32_t *)(const void *)(p + 4), a.n = a.value / 4;
      p += a.value;
    }
    heard(r, k, &a);
    p += 4;
  }
}

static void of_kernel(Reader *r, CubinKernel *k, const Attribute *a) {
  (void)r;
  if (a->kind == KIND_CBANK_PARAM_SIZE) k->parameter_bytes = (int)a->value;
  if (a->kind == KIND_MAX_THREADS && a->n >= 3) k->threads = (int)(a->words[0] * a->words[1] * a->words[2]);
}

static CubinKernel *kernel_of(const Cubin *c, const char *name) {
  for (int i = 0; i < c->n; i++)
    if (strcmp(c->kernels[i].name, name) == 0) return &c->kernels[i];
  return NULL;
}

static const Elf64_Shdr *section_of(const Reader *r, const char *name) {
  for (int i = 0; i < r->head->e_shnum; i++)
    if (strcmp(name_of(r, &r->sections[i]), name) == 0) return &r->sections[i];
  return NULL;
}

static void of_all(Reader *r, CubinKernel *unused, const Attribute *a) {
  const Elf64_Shdr *symbols = section_of(r, ".symtab"), *names = section_of(r, ".strtab");
  (void)unused;
  if (a->kind != KIND_REGCOUNT || a->n < 2 || !symbols || !names) return;
  const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)(r->image + symbols->sh_offset) + a->words[0];
  CubinKernel *k = kernel_of(r->out, r->image + names->sh_offset + symbol->st_name);
  if (k) k->registers = (int)a->words[1];
}

static void add_kernel(Reader *r, const char *name) {
  char section[160];
  CubinKernel k = {.threads = 1024};
  snprintf(k.name, sizeof k.name, "%s", name);
  snprintf(section, sizeof section, ".nv.info.%s", k.name);
  const Elf64_Shdr *info = section_of(r, section);
  if (info) attributes(r, info, &k, of_kernel);
  snprintf(section, sizeof section, ".nv.shared.%s", k.name);
  const Elf64_Shdr *shared = section_of(r, section);
  if (shared) k.shared = (int)shared->sh_size - (r->reserves && shared->sh_size >= SYSTEM_SHARED ? SYSTEM_SHARED : 0);
  r->out->kernels = realloc(r->out->kernels, sizeof k * (size_t)(r->out->n + 1));
  r->out->kernels[r->out->n++] = k;
}

const char *cubin_read(const void *image, Cubin *out) {
  Reader r = {.image = image, .head = image, .out = out};
  *out = (Cubin){0};
  if (memcmp(image, ELFMAG, SELFMAG) != 0 || r.head->e_ident[EI_CLASS] != ELFCLASS64) return "it is no 64-bit ELF file";
  if (r.head->e_machine != MACHINE_CUDA) return "its machine is not CUDA";
  if (r.head->e_shentsize != sizeof(Elf64_Shdr)) return "it has no sections";
  r.sections = (const Elf64_Shdr *)(const void *)(r.image + r.head->e_shoff);
  out->arch = (int)(r.head->e_flags >> 8 & 0xff);
  if (r.head->e_ident[EI_ABIVERSION] < 8) out->arch = (int)(r.head->e_flags & 0xff);
  out->bytes = file_end(&r);
  r.reserves = section_of(&r, ".nv.shared.reserved.0") != NULL;
  for (int i = 0; i < r.head->e_shnum; i++)
    if (strncmp(name_of(&r, &r.sections[i]), ".text.", 6) == 0) add_kernel(&r, name_of(&r, &r.sections[i]) + 6);
  const Elf64_Shdr *all = section_of(&r, ".nv.info");
  if (all) attributes(&r, all, NULL, of_all);
  return NULL;
}
