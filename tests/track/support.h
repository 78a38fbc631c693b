// Synthetic runs for tests: metrics as `stoker train` writes them.
#pragma once

#include <fmt/format.h>
#include <string>

#include "stoker/track/metrics_file.h"

namespace stoker::testing {

inline std::string step_line(std::int64_t step, std::int64_t epoch, const std::string& loss = "0.5") {
    return fmt::format(
        R"({{"type":"step","schema":1,"step":{},"epoch":{},"samples":64,"loss":{},"lr":0.001,"batch_hash":"00",)"
        R"("us":{{"wait":1000,"copy":0,"forward":3000,"unmeasured":0}}}})"
        "\n",
        step, epoch, loss);
}

inline std::string epoch_line(std::int64_t epoch, std::int64_t step, const std::string& train_loss = "0.25") {
    return fmt::format(
        R"({{"type":"epoch","schema":1,"step":{},"epoch":{},"seconds":2.0,"images_per_second":100.0,"train_loss":{},)"
        R"("val_loss":0.75,"val_accuracy":0.5,"bad_samples":1,"val_bad_samples":2}})"
        "\n",
        step, epoch, train_loss);
}

// `epochs` of `steps` each.
inline std::string metrics_text(std::int64_t epochs, std::int64_t steps) {
    std::string text;
    for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
        for (std::int64_t step = 1; step <= steps; ++step) {
            text += step_line((epoch - 1) * steps + step, epoch);
        }
        text += epoch_line(epoch, epoch * steps);
    }
    return text;
}

}  // namespace stoker::testing
