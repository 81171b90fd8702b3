# Ranks started by somebody else: mpirun, and environments written by hand.
foreach(name mpi netns tcp)
  add_test(NAME launch.${name} COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/${name}.sh ${CMAKE_BINARY_DIR}/apc)
  set_tests_properties(launch.${name} PROPERTIES TIMEOUT 600)
endforeach()
