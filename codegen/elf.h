/* codegen/elf.h - programs and shared objects as files. */
#ifndef APC_CODEGEN_ELF_H
#define APC_CODEGEN_ELF_H

#include "base/file.h"

/* Is it a whole ELF file of 64 bits?  The table of sections is the last thing in one, so a file that was cut off does
 * not have it. */
bool elf_is_whole(const FileMap *f);

#endif
