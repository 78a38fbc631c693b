// Statistics of a data set: codecs, image sizes, samples per class, bad samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/progress.h"
#include "stoker/formats/dataset.h"
#include "stoker/pack/pack.h"

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

struct DatasetSummary {
    std::int64_t read = 0;            // samples read; sizes and `bad` refer to them
    std::int64_t codecs_counted = 0;  // samples behind `codecs`: all of an stk data set, whose index stores the codec
    bool encoded = false;             // false: raw pixels
    std::map<std::string, std::int64_t> codecs;
    Range height;
    Range width;
    Range channels;                // as decoded
    Range frames;                  // of clips
    Range sample_rate;             // of sounds, in Hz
    Range milliseconds;            // of sounds
    std::int64_t progressive = 0;  // progressive JPEG, interlaced PNG
    std::int64_t rotated = 0;      // EXIF orientation other than 1
    std::int64_t deep = 0;         // images of 16 bits
    std::int64_t reduced = 0;      // of them, those that are reduced to 8
    std::int64_t paged = 0;        // TIFFs of several pages
    std::string depth = "uint8";   // the type of the images
    std::int64_t ranged = 0;       // images, not of uint8, whose values `low` and `high` are of
    float low = 0;
    float high = 0;
    std::vector<std::int64_t> per_class;  // samples of each class; empty if not known
    std::int64_t unlabelled = 0;          // samples read that have no label
    std::vector<BadSample> bad;           // by index
};

// With `verify` every sample is decoded, and the hashes of an stk data set are compared. Without it image headers are
// read: of all samples if they are raw pixels or at most 1000, else of 1000 spread evenly over the data set.
// `part`: with `verify` the share of the samples that is read; throws InvalidArgument for an impossible one.
DatasetSummary summarize(const Dataset& dataset, bool verify, ProgressBar& progress, const PackPart& part = {});

}  // namespace stoker::cli
