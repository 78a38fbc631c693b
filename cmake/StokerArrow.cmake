# The modules that read Parquet and Arrow files through the C++ libraries of the Python package pyarrow: one for each
# release in STOKER_PYARROW, a list of pyarrow folders; default is the one in .venv. Without any, such files are refused.
set(STOKER_PYARROW "" CACHE STRING "Folders of pyarrow, each of another release; default is the one in .venv")
set(pyarrow_folders ${STOKER_PYARROW})
if(NOT pyarrow_folders AND SKBUILD)  # pip: the pyarrow of the environment that it installs into
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE platlib OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(GLOB pyarrow_folders ${platlib}/pyarrow)
endif()
if(NOT pyarrow_folders)
  file(GLOB pyarrow_folders ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/pyarrow)
endif()
# Adds stoker_arrow_RELEASE for each, such as 2600, whose file is libstoker_arrow-2600.so.
function(stoker_arrow_modules source)
  foreach(folder IN LISTS pyarrow_folders)
    file(GLOB library ${folder}/libarrow.so.*)
    string(REGEX MATCH "libarrow\\.so\\.([0-9]+)$" found "${library}")
    if(NOT found OR NOT EXISTS ${folder}/include/parquet/arrow/reader.h)
      message(WARNING "Parquet: expected Apache Arrow's headers and libraries in ${folder}")
      continue()
    endif()
    set(release ${CMAKE_MATCH_1})
    set(target stoker_arrow_${release})
    add_library(${target} MODULE ${source})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME stoker_arrow-${release} CXX_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} JOB_POOL_COMPILE heavy)
    target_compile_features(${target} PRIVATE cxx_std_20)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(${target} SYSTEM PRIVATE ${folder}/include)
    target_link_libraries(${target} PRIVATE ${folder}/libarrow.so.${release} ${folder}/libparquet.so.${release}
      stoker_warnings)
    set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)  # arrow_loader opens the libraries first
    install(TARGETS ${target} DESTINATION ${STOKER_ENGINE_FOLDER})
    list(APPEND targets ${target})
  endforeach()
  set(STOKER_ARROW_TARGETS ${targets} PARENT_SCOPE)
endfunction()
