// Options for opening a data set: the names of its fields, and how remote files are read.
#pragma once

#include "stoker/formats/dataset.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct OpenOptions {
    FieldNames fields = {};
    RemoteOptions remote = {};
};

}  // namespace stoker
