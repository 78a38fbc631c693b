// Decides whether the graphs of a .pt2 file may run: from their nodes, not from what the file says of itself.
#pragma once

#include <string>

#include "stoker/io/zip.h"

namespace stoker {

// The folder of the members, with its slash: "net/". Throws DataError if the first one is in none.
std::string pt2_folder(const ZipFile& zip);

// Checks that the graphs "train" and "eval" are plain (pt2_graph.h). Throws DataError, and Unsupported for compressed
// members. Other members, such as shared libraries, are not looked at, since plain graphs run without them.
//
// This is a check, not a sandbox: the kernels of ATen trust some of their arguments.
void require_plain_graphs(const ZipFile& zip);

}  // namespace stoker
