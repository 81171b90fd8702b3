# Compares tensor files with numpy, through the system's python3; skipped without numpy.
add_executable(tensor_tool ${CMAKE_CURRENT_LIST_DIR}/tensor_tool.c)
target_link_libraries(tensor_tool PRIVATE apc_warnings apc_base)
set_target_properties(tensor_tool PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME tensors.numpy_agrees
  COMMAND sh -c "python=/usr/bin/python3; [ -x $python ] || python=$(command -v python3) || exit 77; exec $python \"$0\" \"$1\""
          ${CMAKE_CURRENT_LIST_DIR}/numpy_agrees.py $<TARGET_FILE:tensor_tool>)
