# The model language: text tests, parameter counts, malformed programs.
add_executable(dsl_load_main ${CMAKE_CURRENT_LIST_DIR}/dsl_load_main.c)
target_link_libraries(dsl_load_main PRIVATE apc_warnings apc_frontend apc_ir apc_base)
set_target_properties(dsl_load_main PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME dsl.text COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh $<TARGET_FILE:dsl_load_main>)
