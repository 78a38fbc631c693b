// The accuracy that the commands print for an epoch.
#pragma once

#include <cmath>
#include <optional>

namespace stoker::cli {

// `Epoch` is an EpochResult or an EpochEntry. Empty if the validation loss is not finite: the accuracy of such a model
// is chance.
template <typename Epoch>
std::optional<double> accuracy_of(const Epoch& epoch) {
    return epoch.val_loss && std::isfinite(*epoch.val_loss) ? epoch.val_accuracy : std::nullopt;
}

}  // namespace stoker::cli
