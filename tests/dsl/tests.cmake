# The model language: text tests, parameter counts, malformed programs.
add_executable(dsl_load_main ${CMAKE_CURRENT_LIST_DIR}/dsl_load_main.c)
target_link_libraries(dsl_load_main PRIVATE apc_warnings apc_frontend apc_ir apc_base)
set_target_properties(dsl_load_main PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME dsl.text COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh $<TARGET_FILE:dsl_load_main>)

# Compares the examples with implementations in numpy; skipped without numpy.
add_executable(dsl_run_main ${CMAKE_CURRENT_LIST_DIR}/dsl_run_main.c)
target_link_libraries(dsl_run_main PRIVATE apc_warnings apc_frontend apc_ir apc_base)
set_target_properties(dsl_run_main PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME dsl.numbers
  COMMAND sh -c "python=/usr/bin/python3; [ -x $python ] || python=$(command -v python3) || exit 77; exec $python \"$0\" \"$1\" \"$2\""
          ${CMAKE_CURRENT_LIST_DIR}/examples_agree.py $<TARGET_FILE:dsl_run_main> ${CMAKE_SOURCE_DIR}/examples)
