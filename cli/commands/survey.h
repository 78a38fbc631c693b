// What a data set holds: codecs, sizes, classes, and the samples that are bad.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/progress.h"
#include "stoker/formats/dataset.h"

namespace stoker::cli {

struct BadSample {
    std::int64_t index = 0;
    std::string key;
    std::optional<std::int64_t> offset;
    std::string reason;
};

struct Range {
    int low = 0;
    int high = -1;

    void add(int value) {
        low = high < low ? value : std::min(low, value);
        high = std::max(high, value);
    }
    void add(const Range& other) {
        if (other.high >= other.low) {
            add(other.low);
            add(other.high);
        }
    }
};

struct Survey {
    std::int64_t read = 0;       // samples looked at; sizes and bad are theirs
    std::int64_t pluralize = 0;  // samples that codecs counts: all of an stk data set, whose index names them
    bool encoded = false;        // false: raw pixels
    std::map<std::string, std::int64_t> codecs;
    Range height;
    Range width;
    Range channels;                       // as decoded
    std::int64_t progressive = 0;         // progressive JPEG, interlaced PNG
    std::int64_t turned = 0;              // with an EXIF orientation other than upright
    std::vector<std::int64_t> per_class;  // samples of each class; empty where not known
    std::int64_t unlabelled = 0;          // samples looked at without a label
    std::vector<BadSample> bad;           // by index
};

// With `verify` decodes every sample, and compares an stk data set's hashes. Without, reads headers: of all samples
// where they are raw pixels or not above 1000, else of 1000 spread evenly over the data set.
Survey survey(const Dataset& dataset, bool verify, ProgressBar& progress);

}  // namespace stoker::cli
