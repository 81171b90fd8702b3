# Programs of tools/.
add_executable(apc-opt tools/apc_opt.c)
target_link_libraries(apc-opt PRIVATE apc_warnings apc_passes apc_ir apc_base)

file(GLOB apc_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
list(FILTER apc_sources EXCLUDE REGEX "apc_(opt|status)\\.c$")
add_executable(apc ${apc_sources})
target_compile_definitions(apc PRIVATE APC_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
target_link_libraries(apc PRIVATE apc_warnings apc_codegen apc_passes apc_frontend apc_ir apc_runtime apc_base)

# What exists, as a document; tests/cli compares the committed docs/status.md with it.
add_executable(apc-status tools/apc_status.c tools/options.c tools/option_values.c)
target_link_libraries(apc-status PRIVATE apc_warnings apc_frontend apc_ir apc_base)

install(TARGETS apc DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS apcrt-stub DESTINATION ${CMAKE_INSTALL_LIBDIR}/apc)
