# cpack -G DEB in the build folder: three packages of the files that tools/install.cmake lists by component.
#   apc          the compiler, the executable part of its programs, manual pages, completion
#   apc-runtime  libapcrt.so
#   apc-dev      header, static library, files for pkg-config and CMake, examples
# Dependencies on libraries come from dpkg-shlibdeps.  A compile starts cc, so a C compiler is required; oneDNN is
# recommended, since only products and convolutions on CPU ranks load it.  With SOURCE_DATE_EPOCH two runs give the
# same bytes.  Not done: RPM, source packages.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME apc)
set(CPACK_PACKAGE_VENDOR "the apc authors")
set(CPACK_PACKAGE_CONTACT "apc maintainers <apc@localhost>" CACHE STRING "Maintainer of the packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL compiler runtime development)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/finish.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME apc)
set(CPACK_DEBIAN_COMPILER_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "gcc | c-compiler, libc6-dev | libc-dev")
set(CPACK_DEBIAN_COMPILER_PACKAGE_RECOMMENDS "libdnnl3 | libdnnl2")
set(CPACK_DEBIAN_COMPILER_PACKAGE_SUGGESTS "apc-dev (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_COMPILER_DESCRIPTION "auto-parallelizing compiler for neural networks
apc compiles an ONNX model or its own model language into one program that
runs on many GPUs or CPU ranks, for inference or training.")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME apc-runtime)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libdnnl3 | libdnnl2, libgomp1")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "library that runs compiled neural networks
libapcrt runs models compiled by apc inside other programs.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME apc-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "apc-runtime (= ${PROJECT_VERSION}), libjansson-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "apc (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "header and libraries to embed neural networks compiled by apc
The header of libapcrt, its static library, files for pkg-config and CMake, and
examples.")
set(CPACK_APC_CHANGELOG ${CMAKE_BINARY_DIR}/packaging/changelog) # for finish.cmake
include(CPack)

# The changelog in Debian's form.
execute_process(COMMAND date -u -R -d ${APC_DATE} OUTPUT_VARIABLE apc_date_text OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/packaging/changelog @ONLY CONTENT
"apc (@PROJECT_VERSION@) unstable; urgency=medium

  * Version @PROJECT_VERSION@; CHANGELOG.md of the sources lists what changed.

 -- @CPACK_PACKAGE_CONTACT@  @apc_date_text@
")
