# The header of libsndfile, which is opened at run time.
find_path(SNDFILE_INCLUDE_DIR sndfile.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SndFile REQUIRED_VARS SNDFILE_INCLUDE_DIR)
mark_as_advanced(SNDFILE_INCLUDE_DIR)
