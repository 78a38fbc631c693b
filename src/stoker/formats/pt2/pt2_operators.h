// The operators that an uncompiled .pt2 file may call.
#pragma once

#include <string_view>

namespace stoker {

// Whether `target`, as torch.export writes it ("torch.ops.aten.add.Tensor"), computes on tensors or numbers alone.
// False for operators that open files, share memory by address, run a delegate, or are not in the list.
bool is_plain_operator(std::string_view target);

}  // namespace stoker
