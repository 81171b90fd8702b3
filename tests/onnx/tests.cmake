# Tests of the ONNX frontend that need the models of libonnx-testdata; skipped (77) without it.
set(onnx_tests ${CMAKE_CURRENT_LIST_DIR})
foreach(name open_testdata node_tests)
  add_executable(onnx_${name} ${onnx_tests}/${name}.c)
  target_link_libraries(onnx_${name} PRIVATE apc_warnings apc_passes apc_frontend apc_ir apc_base)
  set_target_properties(onnx_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  apc_test(NAME onnx.${name} COMMAND onnx_${name})
endforeach()

# The same program over the package's other folders: models exported by PyTorch, and small hand-made ones.
foreach(folder pytorch-converted pytorch-operator simple)
  set(data /usr/share/libonnx-testdata/data/${folder})
  apc_test(NAME onnx.${folder} COMMAND onnx_node_tests -d ${data})
endforeach()

# After the passes, each of which is checked against its input.
foreach(folder node pytorch-converted pytorch-operator simple)
  apc_test(NAME onnx.passes.${folder} COMMAND onnx_node_tests -p -d /usr/share/libonnx-testdata/data/${folder})
endforeach()

# Written back as ONNX and read again; the number is the most models without an ONNX form.
apc_test(NAME onnx.round_trip COMMAND onnx_node_tests -r 37)

# Operators of ONNX Runtime, compared with the results of its kernels.
add_executable(onnx_runtime ${onnx_tests}/runtime.c)
target_link_libraries(onnx_runtime PRIVATE apc_warnings apc_frontend apc_ir apc_base)
set_target_properties(onnx_runtime PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME onnx.runtime COMMAND onnx_runtime ${onnx_tests}/runtime.txt)

# Not a test: compares a model of any exporter with stored outputs, by hand.
add_executable(onnx_compare ${onnx_tests}/compare.c)
target_link_libraries(onnx_compare PRIVATE apc_warnings apc_frontend apc_ir apc_base)
set_target_properties(onnx_compare PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
