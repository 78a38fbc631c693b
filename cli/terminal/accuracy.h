// The accuracy that the commands print for an epoch.
#pragma once

#include <cmath>
#include <optional>

#include "stoker/records/records.h"

namespace stoker::cli {

// Empty if the validation loss is not finite: the accuracy of such a model is chance.
inline std::optional<double> accuracy_of(const EpochResult& epoch) {
    return epoch.val_loss && std::isfinite(*epoch.val_loss) ? epoch.val_accuracy : std::nullopt;
}

}  // namespace stoker::cli
