// quarantine.jsonl of a run folder: every bad sample that the run met, once, with the position of the damage and the
// key of the sample that replaced it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

class Quarantine {
  public:
    // Appends to `file` from here on, and does not repeat what it lists. Throws IoError.
    void open(const std::filesystem::path& file);

    // A line for each sample: {"source", "key", "offset", "reason", "replaced_by", "rank"}.
    static std::string lines(std::span<const BadSample> samples, const Dataset& dataset, int rank);

    // Appends those of `lines` whose samples are not listed yet. Does nothing before `open`. Throws IoError.
    void add(const std::string& lines);

    std::int64_t size() const { return static_cast<std::int64_t>(listed_.size()); }  // samples listed

  private:
    std::filesystem::path file_;
    std::set<std::string> listed_;  // data set and key
    bool torn_ = false;             // the file ends in the middle of a line
};

}  // namespace stoker
