// quarantine.jsonl of a run folder: every bad sample that the run met, once, with the place of the damage and what
// stood in for it.
#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

class Quarantine {
  public:
    // Goes on with the file where it is there. Throws IoError.
    void open(const std::filesystem::path& file);

    // A line for each: {"source", "key", "offset", "reason", "replaced_by", "rank"}.
    static std::string lines(std::span<const BadSample> samples, const Dataset& dataset, int rank);

    // Appends those lines whose samples are not listed yet. Nothing without a file. Throws IoError.
    void note(const std::string& lines);
    void note(std::span<const BadSample> samples, const Dataset& dataset, int rank) {
        note(lines(samples, dataset, rank));
    }

  private:
    std::filesystem::path file_;
    std::set<std::string> listed_;  // dataset and key
    bool torn_ = false;             // the file ends in the middle of a line
};

}  // namespace stoker
