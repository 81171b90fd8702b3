# Text tests: files with RUN and CHECK lines (LLVM lit and FileCheck, Debian package llvm-14-tools).
find_program(APC_FILECHECK NAMES FileCheck FileCheck-14 HINTS /usr/lib/llvm-14/bin)
find_file(APC_LIT NAMES lit.py HINTS /usr/lib/llvm-14/build/utils/lit)
apc_test(NAME text COMMAND /usr/bin/python3 ${APC_LIT} -sv ${CMAKE_CURRENT_LIST_DIR}
         -D build=${CMAKE_BINARY_DIR} -D filecheck=${APC_FILECHECK})
