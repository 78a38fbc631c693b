#!/bin/sh
# Runs a compiler through ccache such that another checkout of the same sources compiles nothing: paths below this
# checkout count relative to it. A precompiled header that is compiled again must not include its predecessor, which
# would make its hash another one; files that include it are found by that hash.
export CCACHE_BASEDIR="${0%/cmake/*}" CCACHE_NOHASHDIR=1 CCACHE_INODECACHE=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
for word in "$@"; do
    case $word in
        *.gch) rm -f -- "$word" ;;
    esac
done
exec ccache "$@"
