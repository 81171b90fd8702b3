# Ranks that another program starts: mpirun, and environments written by hand; and ranks that are killed and stopped at
# random.
foreach(name cluster mpi netns same_run tcp)
  apc_test(NAME launch.${name} COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/${name}.sh ${CMAKE_BINARY_DIR}/apc)
  # A launched rank is the whole process: Open MPI's leaks would count as ours, and the leak checker (gcc 12) crashes in
  # its own walk over the thread storage of a loaded OpenMP.  Addresses are checked all the same.
  # The thread sanitizer reports two locks of Open MPI as a deadlock.
  set_tests_properties(launch.${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0;TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp")
endforeach()

set(knocks 8)
if(APC_SANITIZE)
  set(knocks 4)
endif()
apc_test(NAME launch.knocks COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/knocks.py ${CMAKE_BINARY_DIR}/apc ${knocks} --verbose)
set_tests_properties(launch.knocks PROPERTIES ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:handle_segv=0;UBSAN_OPTIONS=handle_segv=0;TSAN_OPTIONS=handle_segv=0:suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp")

apc_test(NAME launch.strangers COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/strangers.py ${CMAKE_BINARY_DIR}/apc --verbose)
set_tests_properties(launch.strangers PROPERTIES ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
