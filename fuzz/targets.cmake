# The targets and their libraries, for the fuzzers (here) and for the replay of their corpora (tests/).
file(GLOB STOKER_FUZZ_TARGETS CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/*/fuzz_*.cpp)
set(STOKER_FUZZ_LIBRARIES stoker_formats stoker_codecs stoker_monitor stoker_diagnose fmt::fmt HDF5C::hdf5 ZLIB::ZLIB
  nlohmann_json::nlohmann_json stoker_warnings)
