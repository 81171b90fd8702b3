# cmake --install BUILD --prefix P: programs, the runtime as a library with its header, and files for other tools.
# All paths are relative, so the prefix can be moved. Targets and layer libraries are in the binary.  The components are
# the packages of packaging/packaging.cmake.
include(CMakePackageConfigHelpers)

# A partial build (demo.sh) lacks some of these files: missing and outdated ones are built first.
add_custom_target(installed DEPENDS apc apc-opt apcrt-stub apcrt apcrt_shared apc-documents)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target installed COMMAND_ERROR_IS_FATAL ANY)" ALL_COMPONENTS)

install(TARGETS apc apc-opt DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
install(TARGETS apcrt-stub DESTINATION ${CMAKE_INSTALL_LIBDIR}/apc COMPONENT compiler)
install(TARGETS apcrt apcrt_shared
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES runtime/apc_runtime.h program/apc_operator.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

set(share ${CMAKE_BINARY_DIR}/share)
install(FILES ${share}/apc.1 ${share}/apc-opt.1 ${share}/apc-model.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT compiler)
install(FILES ${share}/apc-targets.5 ${share}/apc-plan.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT compiler)
install(FILES ${share}/apc.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME apc COMPONENT compiler)
install(FILES ${share}/_apc DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT compiler)
install(FILES ${share}/apc.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT compiler)

file(GLOB apc_examples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.apc ${CMAKE_SOURCE_DIR}/examples/*.c
     ${CMAKE_SOURCE_DIR}/examples/serve.py)
install(FILES ${apc_examples} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT development)

# pkg-config and find_package(apc): target apc::runtime
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/apc)
file(RELATIVE_PATH pc_prefix /${pc_folder} /)
list(JOIN apc_link " " apc_link_text)
configure_file(tools/apc.pc.in apc.pc @ONLY)
configure_package_config_file(tools/apcConfig.cmake.in apcConfig.cmake INSTALL_DESTINATION ${package_folder}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(apcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/apc.pc DESTINATION ${pc_folder} COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/apcConfig.cmake ${CMAKE_BINARY_DIR}/apcConfigVersion.cmake DESTINATION ${package_folder} COMPONENT development)
include(packaging/packaging.cmake)
