# Programs of tools/.
add_executable(apc-opt tools/apc_opt.c)
target_link_libraries(apc-opt PRIVATE apc_warnings apc_passes apc_ir apc_base)
