# cmake --install into a new prefix; what lies there serves without the build.
add_test(NAME install COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER} -fsanitize=${APC_SANITIZE}
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
# The address sanitizer writes the names of source files into what it instruments: not for the sanitizer run.
set_tests_properties(install PROPERTIES TIMEOUT 600 LABELS slow)
