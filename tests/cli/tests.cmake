# Tests of the command line; each program is one shell script.
find_program(APC_BASH bash REQUIRED)
foreach(name usage models malformed)
  add_test(NAME cli.${name} COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/${name}.sh ${CMAKE_BINARY_DIR}/apc)
  set_tests_properties(cli.${name} PROPERTIES TIMEOUT 600)
endforeach()
