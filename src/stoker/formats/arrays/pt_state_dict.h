// The weights in a file of torch.save (.pt, .pth), read without executing its pickle.
#pragma once

#include <filesystem>
#include <vector>

#include "stoker/formats/arrays/pt.h"
#include "stoker/formats/arrays/safetensors.h"

namespace stoker {

class PtStateDict {
  public:
    // Leaves out tensors of types that DType does not have. Throws DataError and Unsupported as PtFile does.
    explicit PtStateDict(const std::filesystem::path& path);

    // Views into the file, valid as long as this object.
    const std::vector<NamedView>& tensors() const { return tensors_; }

  private:
    PtFile file_;
    std::vector<NamedView> tensors_;
};

}  // namespace stoker
