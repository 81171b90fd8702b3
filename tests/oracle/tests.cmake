# The planner against exhaustive enumeration of random graphs.
add_executable(oracle_brute ${CMAKE_CURRENT_LIST_DIR}/brute.c)
target_link_libraries(oracle_brute PRIVATE apc_warnings apc_passes apc_ir apc_runtime apc_base)
set_target_properties(oracle_brute PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME oracle.brute COMMAND oracle_brute 240 1)
