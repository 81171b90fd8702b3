# Compiles and links examples/embed.c exactly as its first lines say, and runs a compiled program with it; the header is
# C++ as well.
add_executable(embed_program ${CMAKE_CURRENT_LIST_DIR}/program.c)
target_link_libraries(embed_program PRIVATE apc_warnings apc_runtime apc_base)
set_target_properties(embed_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME embed COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER} -fsanitize=${APC_SANITIZE}
         NEEDS embed_program apcrt_shared apcrt-stub apc)

# The package apc with the programs of this build, the examples of its guide, and its notebook.
apc_test(NAME python COMMAND ${CMAKE_COMMAND} -E env APC_HOME=${CMAKE_BINARY_DIR} PYTHONDONTWRITEBYTECODE=1
         /usr/bin/python3 -m pytest -q -p no:cacheprovider ${CMAKE_SOURCE_DIR}/python/tests NEEDS apcrt_shared)
