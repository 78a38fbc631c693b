// The Arrow C data interface: how libraries of any release hand columns to each other in one process. The layout of
// these structs is fixed by https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html.
#pragma once

#include <cstdint>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

extern "C" {

// A column's type. `release` is null once it was released; a struct may be moved by copying it and setting that.
struct ArrowSchema {
    const char* format;    // "i": int32; see arrow_type.cpp
    const char* name;      // may be null
    const char* metadata;  // int32 pairs; for each a key and a value, each as int32 length and bytes
    std::int64_t flags;
    std::int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};

// A column's values, or those of a part of its rows.
struct ArrowArray {
    std::int64_t length;
    std::int64_t null_count;  // -1: unknown
    std::int64_t offset;      // of the first value, in values
    std::int64_t n_buffers;
    std::int64_t n_children;
    const void** buffers;  // the first has a bit for each value that is not null; null if there are none
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};

}  // extern "C"

#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

extern "C" {

// Arrays of one type, one after the other. Functions return 0 or a number of errno.
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
    int (*get_next)(ArrowArrayStream*, ArrowArray* out);  // a released array: the end
    const char* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);
    void* private_data;
};

}  // extern "C"

#endif
