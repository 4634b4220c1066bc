# Z3 from a CMake package (source builds, PyPI wheels) or plain headers and library (Debian's libz3-dev,
# which ships no CMake config). Defines target shardproof_z3.
if(NOT TARGET shardproof_z3)
  find_path(Z3_INCLUDE_DIR z3++.h PATH_SUFFIXES z3)
  find_library(Z3_LIBRARY NAMES z3)
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(Z3Any REQUIRED_VARS Z3_LIBRARY Z3_INCLUDE_DIR
    FAIL_MESSAGE "Z3 not found: install Debian's libz3-dev")
  add_library(shardproof_z3 INTERFACE)
  target_include_directories(shardproof_z3 SYSTEM INTERFACE ${Z3_INCLUDE_DIR})
  target_link_libraries(shardproof_z3 INTERFACE ${Z3_LIBRARY})
endif()
