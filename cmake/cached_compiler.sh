#!/bin/sh
# Runs a compiler through ccache such that another checkout of the same sources compiles nothing: paths below this
# checkout count relative to it, and a precompiled header counts as the headers in it, since GCC writes other bytes each
# time.
export CCACHE_BASEDIR="${0%/cmake/*}" CCACHE_NOHASHDIR=1 CCACHE_INODECACHE=1 CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
header=
for word in "$@"; do
    case $word in
        *.gch) header=$word ;;
    esac
done
[ -n "$header" ] || exec ccache "$@"
rm -f -- "$header" "$header.sum" # the compiler would include its predecessor
ccache "$@" || exit
# The list of what was included: "name: file file \" on several lines.
sed -e 's/^[^:]*: *//' -e 's/\\$//' "$header.d" | xargs cat | sha256sum >"$header.sum"
