/* codegen/elf.h - programs and shared objects as files. */
#ifndef APC_CODEGEN_ELF_H
#define APC_CODEGEN_ELF_H

#include "base/file.h"

/* True for a complete 64-bit ELF file.  The table of sections comes last, so a truncated file lacks it. */
bool elf_is_whole(const FileMap *f);

#endif
