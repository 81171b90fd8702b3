# cmake --install into a new prefix; the installed files work without the build.  Not with the address sanitizer, which
# writes the names of source files into instrumented code.
apc_test(NAME install COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER} -fsanitize=${APC_SANITIZE})
apc_test(NAME deb COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/deb.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
set_tests_properties(deb PROPERTIES SKIP_RETURN_CODE 77)
