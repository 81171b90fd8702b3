# CUDA text through NVRTC; no GPU is needed, but the library is.
add_executable(dialect_nvrtc ${CMAKE_CURRENT_LIST_DIR}/nvrtc.c)
target_link_libraries(dialect_nvrtc PRIVATE apc_warnings apc_codegen apc_passes apc_frontend apc_ir apc_runtime apc_base)
set_target_properties(dialect_nvrtc PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME gpu.nvrtc COMMAND dialect_nvrtc ${CMAKE_BINARY_DIR})
