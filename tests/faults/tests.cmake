# Allocations, mappings and writes that fail, one at a time.
add_executable(leaks ${CMAKE_CURRENT_LIST_DIR}/leaks.c)
target_link_libraries(leaks PRIVATE apc_warnings apc_runtime apc_base)
target_link_options(leaks PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=strdup,--wrap=mmap)
set_target_properties(leaks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME faults.leaks COMMAND ${CMAKE_CURRENT_LIST_DIR}/leaks.sh ${CMAKE_BINARY_DIR} NEEDS leaks)

# Sanitizers define these functions themselves.
if(NOT APC_SANITIZE)
  add_library(faults SHARED ${CMAKE_CURRENT_LIST_DIR}/faults.c)
  target_link_libraries(faults PRIVATE apc_warnings)
  set_target_properties(faults PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  apc_test(NAME faults.commands COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/faults.py ${CMAKE_BINARY_DIR}
           $<TARGET_FILE:faults> 100)
endif()
