# shardproof_component(<name> FOLDER <folder> USES <components...> PRIVATE_LIBS <targets...>)
# One static library per folder (named as the component, if no other is given) from all its .cpp files. USES may name only components declared before:
# an edge against the order in the top CMakeLists.txt is a configure error, and tools/check_tree.py checks
# that include lines obey the same edges.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Checks stay on in Release: a broken invariant must stop the program, not change a verdict.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
find_program(SHARDPROOF_CCACHE ccache)
if(SHARDPROOF_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SHARDPROOF_CCACHE})
endif()

function(shardproof_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
    -Wold-style-cast -Wsuggest-override -Wimplicit-fallthrough)
  if(SHARDPROOF_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

function(shardproof_component name)
  cmake_parse_arguments(ARG "" "FOLDER" "USES;PRIVATE_LIBS" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${name})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ARG_FOLDER}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(shardproof_${name} STATIC ${sources})
  add_library(shardproof::${name} ALIAS shardproof_${name})
  target_include_directories(shardproof_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  foreach(used IN LISTS ARG_USES)
    if(NOT TARGET shardproof_${used})
      message(FATAL_ERROR "component ${name} uses ${used}, which is not declared before it")
    endif()
    target_link_libraries(shardproof_${name} PUBLIC shardproof_${used})
  endforeach()
  target_link_libraries(shardproof_${name} PRIVATE ${ARG_PRIVATE_LIBS})
  shardproof_warnings(shardproof_${name})
endfunction()

# A proof makes and frees millions of small vectors: a fifth of its time is the C library's allocator, and mimalloc
# (Leijen, Zorn, de Moura 2019) takes a fraction of that. Programs only: a library leaves the choice to its user. The
# sanitizers bring an allocator of their own.
find_package(mimalloc 2.0 QUIET)
if(NOT mimalloc_FOUND)
  message(STATUS "shardproof: no mimalloc found (Debian: libmimalloc-dev), proofs take about a fifth longer")
endif()
function(shardproof_allocator target)
  if(mimalloc_FOUND AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    # Nothing names a symbol of it, it only has to come before the C library.
    target_link_options(${target} PRIVATE -Wl,--no-as-needed)
    target_link_libraries(${target} PRIVATE mimalloc)
  endif()
endfunction()
