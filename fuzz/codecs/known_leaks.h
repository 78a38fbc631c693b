// Memory that the libraries of sounds and images lose with damaged files. One definition for all targets, since the
// replay of their corpora is one program.
#pragma once

// libsndfile 1.2 keeps 6 KB of a damaged Ogg file that it refuses; libheif 1.15 keeps pictures of dav1d, and its own,
// of some damaged files.
extern "C" __attribute__((weak)) const char* __lsan_default_suppressions() {
    return "leak:vorbis_info_init\nleak:libheif.so\nleak:libdav1d.so\n";
}
