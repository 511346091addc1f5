# Helpers shared by every folder of the compiler.

# MLIR is built with RTTI and without exceptions; so is everything that links
# against it.
set(BLUTRAIN_COMPILER_FLAGS -fno-exceptions ${BLUTRAIN_WARNING_FLAGS})

# blutrain_add_library(NAME SOURCES... [DEPENDS targets...] [LINK libs...])
#
# A static library of compiler code. All share one precompiled header, built
# once by BluTrainPCH.
function(blutrain_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${BLUTRAIN_COMPILER_FLAGS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM BluTrainPCH)
endfunction()

# blutrain_add_tool(NAME SOURCES... [LINK libs...])
function(blutrain_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  # -fPIC, not -fPIE: the flags of the precompiled header must be met.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC ${BLUTRAIN_COMPILER_FLAGS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  target_link_options(${name} PRIVATE -fuse-ld=lld)
  target_precompile_headers(${name} REUSE_FROM BluTrainPCH)
endfunction()

# Written once: a newer file would have everything compiled again.
if(NOT EXISTS ${PROJECT_BINARY_DIR}/pch/BluTrainPCH.cpp)
  file(WRITE ${PROJECT_BINARY_DIR}/pch/BluTrainPCH.cpp "")
endif()
add_library(BluTrainPCH STATIC ${PROJECT_BINARY_DIR}/pch/BluTrainPCH.cpp)
target_compile_options(BluTrainPCH PRIVATE ${BLUTRAIN_COMPILER_FLAGS})
target_precompile_headers(BluTrainPCH PRIVATE
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/BuiltinTypes.h>
  <mlir/IR/Matchers.h>
  <mlir/IR/PatternMatch.h>
  <mlir/IR/SymbolTable.h>
  <mlir/Interfaces/FunctionInterfaces.h>
  <mlir/Interfaces/InferTypeOpInterface.h>
  <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Pass/Pass.h>
  <mlir/Pass/PassManager.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/Transforms/DialectConversion.h>)
