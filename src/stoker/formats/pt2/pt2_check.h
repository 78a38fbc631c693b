// Decides, before LibTorch opens a .pt2 file, whether the file can make it run native code: from the names of the
// file's members and from the nodes of its graphs, not from what the file says of itself.
#pragma once

#include <string>

#include "stoker/io/zip.h"

namespace stoker {

// The folder in which all members lie, with its slash: "net/". LibTorch takes it from the first member. Throws
// DataError if a member lies elsewhere.
std::string pt2_folder(const ZipFile& zip);

// Checks that the file has the graphs "train" and "eval", tensors and nothing else, and that both graphs are plain
// (pt2_graph.h). Throws DataError for anything else, such as shared libraries, pickled objects and operators that are
// not in the list (pt2_operators.h), and for a file that another zip or JSON reader may read otherwise. Throws
// Unsupported for compressed members.
//
// This is a check, not a sandbox: the kernels of ATen trust some of their arguments.
void require_plain_graphs(const ZipFile& zip);

}  // namespace stoker
